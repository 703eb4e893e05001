"""All networks on one simulated task: training time, windows/s, peak memory, error ÷ the best achievable.

    python benchmarks/rivals.py [--window 360] [--windows 100000] [--epochs 2 | --steps 1500] [--models a,b] [--json]

The simulation is linear and Gaussian, so the least possible error is known exactly (Kalman filter). Each network is
trained in a process of its own, one after the other.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from scare.baselines import MODELS
from scare.data.simulate import Simulation, SimulationKind, best_achievable_rmse, simulate
from scare.data.split import split_by_time

BOXES = 2
COLUMNS = {
    "parameters": "parameters",
    "fit_seconds": "fit s",
    "windows_per_second": "windows/s",
    "megabytes": "peak MB",
    "rmse": "RMSE",
    "ratio_to_best": "÷ best",
}


def measure(name: str, window: int, windows: int, settings: dict[str, int]) -> dict[str, object]:
    """Fit one network in this process to about this many windows; returns its row of the table."""
    from scare.experiments.study import compare
    from scare.training.fit import fit
    from scare.training.recipe import Recipe

    simulation = Simulation(boxes=BOXES, days=windows / BOXES / 1440 / 0.6, kind=SimulationKind.LINEAR, seed=1)
    split = split_by_time(simulate(simulation), 60.0 * window)
    speeds: list[float] = []
    begun = time.perf_counter()
    recipe = Recipe.preset("default", window, name, **settings)
    calibrator = fit(split.train, split.validation, recipe, lambda state: speeds.append(state.windows_per_second))
    seconds = time.perf_counter() - begun
    error = compare({name: calibrator}, split.test)[name].rmse
    return {
        "model": name,
        "parameters": calibrator.facts["parameters"],
        "fit_seconds": seconds,
        "windows_per_second": float(np.median(speeds)),
        "megabytes": peak_megabytes(),
        "rmse": error,
        "ratio_to_best": error / best_achievable_rmse(simulation),
    }


def peak_megabytes() -> float:
    """Peak memory of this process; on Linux not `ru_maxrss`, which in a child begins with its parent's."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) / 1024


def main() -> None:
    """Measure each network, print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--window", type=int, default=360)
    parser.add_argument("--windows", type=int, default=100_000, help="training windows, about")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps", type=int, default=0, help="length in steps instead of epochs")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--measure", default="", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    length = {"steps": options.steps} if options.steps else {"epochs": options.epochs}
    if options.measure:
        print(json.dumps(measure(options.measure, options.window, options.windows, length | {"batch": options.batch})))
        return
    rows = []
    for name in options.models.split(","):
        command = [sys.executable, __file__, "--measure", name, *sys.argv[1:]]
        rows.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
        Console(stderr=True).print(f"{name}: {rows[-1]['fit_seconds']:.0f} s")
    table = Table("model", *COLUMNS.values())
    for row in rows:
        table.add_row(row["model"], *(f"{row[name]:,.4g}" for name in COLUMNS))
    Console(stderr=options.json).print(table)
    if options.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
