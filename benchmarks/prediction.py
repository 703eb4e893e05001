"""Windows per second of CPU time of the folded plan on one core, in chunks and one by one, in the same run.

python benchmarks/prediction.py [--window 360] [--channels 1] [--json]
"""

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import json
import time

import equinox as eqx
import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from scare.calibrator.calibrator import CHUNK
from scare.calibrator.cost import count
from scare.calibrator.plan import Plan, run
from scare.calibrator.plan_passes import fold
from scare.layers.buffers import split_trainable
from scare.models import Scare
from scare.windowing.windows import RECENT, Grid, make_grid

ROWS, ALONE, ROUNDS = 100_000, 500, 3  # rows of the series; windows computed one by one; rounds of each timing


def make_plan(architecture: Scare, window: int, channels: int) -> Plan:
    """Make a folded plan of an architecture; random numbers are added to all weights, so that none is zero."""
    network = architecture.build(window, channels, jax.random.key(0))
    features = np.random.default_rng(0).normal(size=(64, architecture.rows(window), channels)).astype(np.float32)
    _, network = network.learn(features, jax.random.key(1))
    trainable, rest = split_trainable(network)
    noise = np.random.default_rng(1)
    trainable = jax.tree.map(lambda p: p + 0.1 * noise.normal(size=p.shape).astype(np.float32), trainable)
    return fold(eqx.combine(trainable, rest).plan()).astype(np.float32)


def in_chunks(plan: Plan, grid: Grid, ends: np.ndarray) -> float:
    """Measure windows per second of processor time, cut out and computed some hundred at a time."""
    begun = time.process_time()
    for start in range(0, len(ends), CHUNK):
        run(plan, grid.windows(ends[start : start + CHUNK]))
    return len(ends) / (time.process_time() - begun)


def one_by_one(plan: Plan, grid: Grid, ends: np.ndarray) -> float:
    """Measure windows per second of processor time, cut out and computed one at a time."""
    begun = time.process_time()
    for end in ends[:ALONE]:
        run(plan, grid.windows(end[None]))
    return ALONE / (time.process_time() - begun)


def main() -> None:
    """Measure both presets and print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--window", type=int, default=360)
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    values = np.random.default_rng(0).normal(size=(ROWS, options.channels)).astype(np.float32)
    grid = make_grid(60.0 * np.arange(ROWS), values, 60.0, options.window, RECENT, None)
    grid = Grid(grid.window, grid.values.astype(np.float32), grid.real, grid.age, grid.slots, grid.last_time)
    ends = np.flatnonzero(grid.usable(RECENT))
    rows = []
    for name, architecture in (("default", Scare.default()), ("paper", Scare.paper())):
        plan = make_plan(architecture, options.window, options.channels)
        rates = [(in_chunks(plan, grid, ends), one_by_one(plan, grid, ends)) for _ in range(ROUNDS)]
        chunked, alone = (float(np.median(column)) for column in zip(*rates, strict=True))
        rates_found = {"chunked": chunked, "alone": alone, "ratio": chunked / alone}
        rows.append({"preset": name, "multiply_adds": count(plan).operations.multiply_adds, **rates_found})
    table = Table("preset", "multiply-adds", "windows/s, chunks", "windows/s, one by one", "ratio")
    for row in rows:
        table.add_row(row["preset"], *(f"{row[key]:,.0f}" for key in ("multiply_adds", "chunked", "alone", "ratio")))
    Console(stderr=options.json).print(table)
    if options.json:
        print(json.dumps({"window": options.window, "channels": options.channels, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
