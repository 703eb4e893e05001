"""`scare demo`: simulate, train, score and draw, end to end."""

from pathlib import Path
from typing import Annotated

import typer

from scare.cli.console import emit, note
from scare.cli.options import Json, Seed
from scare.cli.train import (
    RecordedPredictor,
    fit_with_progress,
    require_training,
    score_against_baselines,
    scores_as_dict,
    show_scores,
)
from scare.data.simulate import Simulation
from scare.data.simulate import simulate as simulate_boxes
from scare.data.split import split_by_device
from scare.errors import ExitCode
from scare.files import replacing


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
    from scare.report.figures import draw_calibration
    from scare.report.page import write_demo_page
    from scare.training.recipe import Recipe

    note(f"Simulating {boxes} particle sensors beside a reference for {days:g} days.")
    saved = out / "demo.scare"
    with replacing(saved) as temporary:  # a folder that cannot be written is known before the work, not after
        split = split_by_device(simulate_boxes(Simulation(boxes=boxes, days=days, seed=seed)))
        recipe = Recipe.preset("default", 60, seed=seed)
        calibrator = fit_with_progress(split.train, split.validation, recipe)
        scores = score_against_baselines(RecordedPredictor(calibrator), split, "SCARE", recipe)
        calibrator = calibrator.with_facts(split=split.description, test_scores=scores_as_dict(scores))
        calibrator.save(temporary)
    figure = draw_calibration(calibrator, split.test[0], out / "demo.png")
    page = write_demo_page(out / "demo.html", "A low-cost particle sensor, calibrated", calibrator, scores, figure)
    if as_json:
        emit({"calibrator": str(saved), "figure": str(figure), "page": str(page), "scores": scores_as_dict(scores)})
    else:
        show_scores(scores, f"{split.test[0].device}, never seen in training, in {calibrator.target.unit}", calibrator)
    for label, path in (("calibrator", saved), ("figure", figure), ("page", page)):
        note(f"{label:>10}: {path}")
    note("To use your own files, in a browser, run: scare open")
    if calibrator.facts.get("interrupted"):
        raise typer.Exit(ExitCode.INTERRUPTED)
