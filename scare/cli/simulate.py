"""`scare simulate`: a co-location that never was."""

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
    boxes: Annotated[int, typer.Option("--boxes", help="How many boxes stand beside the reference.")] = 4,
    days: Annotated[float, typer.Option("--days", help="For how long.")] = 30.0,
    step: Annotated[float, typer.Option("--step", help="Seconds from one row to the next.")] = 60.0,
    kind: Annotated[
        SimulationKind, typer.Option("--kind", help="Particles, an electrochemical gas cell, or a linear world.")
    ] = SimulationKind.PM,
    apart: Annotated[
        float, typer.Option("--apart", help="By what share the air of boxes differs; 0: one place.")
    ] = 0.0,
    drift: Annotated[
        list[str] | None,
        typer.Option("--drift", help="gain, offset, humidity or dying, the box and its first day: gain:box-02:20."),
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
        note(f"best achievable RMSE: {result['best_achievable_rmse']:.4g}")
    if as_json:
        emit(result)
    else:
        note(f"{boxes} boxes of {days:g} days written to {out}")


def _drift(text: str) -> Drift:
    """The drift that an option names.

    >>> _drift("gain:box-02:20")
    Drift(kind=<DriftKind.GAIN: 'gain'>, box=1, day=20.0, ramp_days=14.0, size=0.0)
    """
    kinds = "|".join(kind.value for kind in DriftKind)
    found = re.fullmatch(rf"({kinds}):box-0*([1-9]\d*):(\d+(?:\.\d+)?)", text)
    if found is None:
        raise UsageError(f"--drift '{text}': write one of {kinds.replace('|', ', ')}, a box and a day: gain:box-02:20")
    return Drift(DriftKind(found[1]), int(found[2]) - 1, float(found[3]))
