"""`scare simulate`: generate a synthetic co-location."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from scare.cli.console import emit, note, progress
from scare.cli.options import Json, Seed
from scare.data.simulate import Simulation, SimulationKind, best_achievable_rmse, write_simulation
from scare.data.simulated_air import Drift, DriftKind
from scare.errors import UsageError


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
    result |= {"apart": apart, "drifts": [asdict(one) for one in drifts]}
    if kind is SimulationKind.LINEAR:
        result["best_achievable_rmse"] = best_achievable_rmse(simulation)
        note(f"The best achievable RMSE is {result['best_achievable_rmse']:.4g}.")
    if as_json:
        emit(result)
    else:
        note(f"Wrote {days:g} days of {boxes} {'box' if boxes == 1 else 'boxes'} to {out}.")


def _drift(text: str) -> Drift:
    """Parse a drift.

    >>> _drift("gain:box-02:20")
    Drift(kind=<DriftKind.GAIN: 'gain'>, box=1, day=20.0, ramp_days=14.0, size=0.0)
    """
    kinds = "|".join(kind.value for kind in DriftKind)
    found = re.fullmatch(rf"({kinds}):box-0*([1-9]\d*):(\d+(?:\.\d+)?)", text)
    if found is None:
        raise UsageError(f"--drift '{text}': write one of {kinds.replace('|', ', ')}, a box and a day: gain:box-02:20")
    return Drift(DriftKind(found[1]), int(found[2]) - 1, float(found[3]))
