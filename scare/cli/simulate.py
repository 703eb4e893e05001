"""`scare simulate`: a co-location that never was."""

from pathlib import Path
from typing import Annotated

import typer

from scare.cli.console import emit, progress, say
from scare.cli.options import Json, Seed
from scare.data.simulate import Kind, Simulation, best_achievable_rmse, write_simulation


def simulate(
    out: Annotated[Path, typer.Option("--out", help="The file to write: .parquet or .csv.")],
    boxes: Annotated[int, typer.Option("--boxes", help="How many boxes stand beside the reference.")] = 4,
    days: Annotated[float, typer.Option("--days", help="For how long.")] = 30.0,
    step: Annotated[float, typer.Option("--step", help="Seconds from one row to the next.")] = 60.0,
    kind: Annotated[
        Kind, typer.Option("--kind", help="Particles, an electrochemical gas cell, or a linear world.")
    ] = Kind.PM,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Simulate boxes of low-cost sensors beside a reference instrument.

    Examples:
      scare simulate --boxes 4 --days 20 --seed 5 --out sim.parquet
      scare simulate --kind gas --boxes 10 --days 14 --out gas.csv
    """
    simulation = Simulation(boxes=boxes, days=days, step_seconds=step, kind=kind, seed=seed)
    with progress("simulating", "count") as (bar, task):
        write_simulation(
            simulation,
            out,
            lambda done, total: bar.update(task, completed=done, total=total, count=f"box {done} of {total}"),
        )
    result = {"file": str(out), "boxes": boxes, "days": days, "step_seconds": step, "kind": kind.value, "seed": seed}
    if kind is Kind.LINEAR:
        result["best_achievable_rmse"] = best_achievable_rmse(simulation)
        say(f"best achievable RMSE: {result['best_achievable_rmse']:.4g}")
    if as_json:
        emit(result)
    else:
        say(f"{boxes} boxes of {days:g} days written to {out}")
