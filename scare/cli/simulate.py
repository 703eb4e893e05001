"""`scare simulate` and `scare demo`: generate a synthetic co-location, and go from one to a calibrator."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from scare.cli.console import emit, note, progress
from scare.cli.options import Json, Seed
from scare.cli.train import (
    RecordedPredictor,
    fit_with_progress,
    require_training,
    score_against_baselines,
    scores_as_dict,
    show_scores,
)
from scare.data.quantities import display_unit
from scare.data.simulate import Simulation, SimulationKind, best_achievable_rmse, write_simulation
from scare.data.simulate import simulate as simulate_boxes
from scare.data.simulated_air import Drift, DriftKind
from scare.data.split import split_by_device
from scare.errors import ExitCode, UsageError
from scare.files import replacing


def simulate(
    out: Annotated[Path, typer.Option("--out", help="The file to write: .parquet or .csv.")],
    boxes: Annotated[int, typer.Option("--boxes", help="Boxes beside the reference.")] = 4,
    days: Annotated[float, typer.Option("--days", help="Days of readings.")] = 30.0,
    step: Annotated[float, typer.Option("--step", help="Seconds between rows.")] = 60.0,
    kind: Annotated[
        SimulationKind, typer.Option("--kind", help="Particle sensor, electrochemical gas cell, or linear.")
    ] = SimulationKind.PM,
    apart: Annotated[
        float, typer.Option("--apart", help="How much the air differs between boxes; 0: not at all.")
    ] = 0.0,
    drift: Annotated[
        list[str] | None,
        typer.Option("--drift", help="KIND:BOX:DAY, of kind gain, offset, humidity or dying: gain:box-02:20."),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Simulate boxes of low-cost sensors beside a reference instrument.

    Examples:
      scare simulate --boxes 4 --days 20 --seed 5 --out sim.parquet
      scare simulate --kind gas --boxes 10 --days 14 --out gas.csv
      scare simulate --boxes 6 --days 60 --apart 0.2 --drift gain:box-02:30 --out fleet.parquet
    """
    drifts = tuple(map(_drift, drift or ()))
    simulation = Simulation(boxes, days, step, kind, seed, place_spread=apart, drifts=drifts)
    with progress("simulating", "count") as (bar, task):
        write_simulation(
            simulation,
            out,
            lambda done, total: bar.update(task, completed=done, total=total, count=f"box {done} of {total}"),
        )
    result = {"file": str(out), "boxes": boxes, "days": days, "step_seconds": step, "kind": kind.value, "seed": seed}
    result |= {"apart": apart, "drifts": [asdict(drift) for drift in drifts]}
    if kind is SimulationKind.LINEAR:
        result["best_achievable_rmse"] = best_achievable_rmse(simulation)
        note(f"The best achievable RMSE is {result['best_achievable_rmse']:.4g}.")
    if as_json:
        emit(result)
    else:
        note(f"Wrote {days:g} days of {boxes} {'box' if boxes == 1 else 'boxes'} to {out}.")


def _drift(text: str) -> Drift:
    """Parse KIND:BOX:DAY; boxes count from 1 in the text and from 0 in a `Drift`.

    >>> _drift("gain:box-02:20")
    Drift(kind=<DriftKind.GAIN: 'gain'>, box=1, day=20.0, ramp_days=14.0, size=0.0)
    """
    kinds = "|".join(kind.value for kind in DriftKind)
    match = re.fullmatch(rf"({kinds}):box-0*([1-9]\d*):(\d+(?:\.\d+)?)", text)
    if match is None:
        raise UsageError(f"--drift '{text}': write one of {kinds.replace('|', ', ')}, a box and a day: gain:box-02:20")
    return Drift(DriftKind(match[1]), int(match[2]) - 1, float(match[3]))


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("out/demo"),
    boxes: Annotated[int, typer.Option("--boxes", help="Simulated boxes; the last is held out.")] = 6,
    days: Annotated[float, typer.Option("--days", help="Days of co-location.")] = 10.0,
    seed: Seed = 5,
    as_json: Json = False,
) -> None:
    """Simulate a co-location, train SCARE, score it on a box it has never seen, and draw the result.

    Examples:
      scare demo
      scare demo --boxes 8 --days 14 --out out/demo
    """
    require_training()
    from scare.report.page import write_demo_page
    from scare.report.png_figures import draw_calibration
    from scare.training.recipe import Recipe

    note(f"Simulating {boxes} particle sensors beside a reference for {days:g} days.")
    saved = out / "demo.scare"
    with replacing(saved) as temporary:  # a folder that cannot be written is known before the work, not after
        split = split_by_device(simulate_boxes(Simulation(boxes=boxes, days=days, seed=seed)))
        recipe = Recipe.preset("default", 60, seed=seed)
        calibrator = fit_with_progress(split.train, split.validation, recipe)
        scores = score_against_baselines(RecordedPredictor(calibrator), split, "SCARE", recipe, refit=True)
        calibrator = calibrator.with_facts(split=split.description, test_scores=scores_as_dict(scores))
        calibrator.save(temporary)
    figure = draw_calibration(calibrator, split.test[0], out / "demo.png")
    page = write_demo_page(out / "demo.html", "A low-cost particle sensor, calibrated", calibrator, scores, figure)
    if as_json:
        emit({"calibrator": str(saved), "figure": str(figure), "page": str(page), "scores": scores_as_dict(scores)})
    else:
        show_scores(
            scores,
            f"{split.test[0].device}, never seen in training, in {display_unit(calibrator.target.unit)}",
            calibrator,
        )
    for label, path in (("calibrator", saved), ("figure", figure), ("page", page)):
        note(f"{label:>10}: {path}")
    note("To use your own files, in a browser, run: scare open")
    if calibrator.facts.get("interrupted"):
        raise typer.Exit(ExitCode.INTERRUPTED)
