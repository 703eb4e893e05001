"""The hash kernel on unit vectors and on raw ones (the paper's literal form): ties, bits and error on a task.

    python -m benchmarks.raw_hash DATA [--task "box 40458D"] [--windows 60,360] [--seeds 2] [--steps 1500]
        [--json]

Preset `paper` on a task of accuracy.toml. A tie is an activation so near to zero that its sign may differ between
arithmetics; "× 10" are the same windows with ten times the concentration.
"""

import argparse
import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.accuracy_tasks import load_tasks
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.parity_tolerance import hash_steps, share_of_ties
from scare.calibrator.plan import values
from scare.data.split import Split
from scare.experiments.suite_tasks import read_task, split_task
from scare.training.fit import fit
from scare.training.recipe import Recipe

HIGHER = (1, 3, 10)  # times the concentration


def fit_kernel(split: Split, raw: bool, window: int, **settings: int) -> Calibrator:
    """Fit SCARE by the paper's preset, with its kernel on raw vectors or on unit vectors."""
    recipe = Recipe.preset("paper", window, **settings)
    attention = replace(recipe.model.attention, raw=raw)
    return fit(split.train, split.validation, replace(recipe, model=replace(recipe.model, attention=attention)))


def measure(calibrator: Calibrator) -> dict[str, float]:
    """Measure ties, codes and error on the validation windows.

    These are the share of ties; `bias`, how far bits are from being set half of the time (0 to 1); `codes`, the mean
    number of distinct codes in a window; and the RMSE.
    """
    plan, windows = calibrator.plan, calibrator.validation.windows
    steps = hash_steps(plan)
    codes = np.stack(list(values(plan, windows, {step.output for step in steps}).values()))  # [q and k, n, tokens]
    width = steps[0].weights["projection"].shape[1]  # bits of a code
    bits = (codes[..., None] >> np.arange(width, dtype=np.uint32)) & 1
    ties = {f"ties × {times}": share_of_ties(plan, windows * np.float32(times), steps) or 0.0 for times in HIGHER}
    return {
        **ties,
        "bias": float(np.abs(2 * bits.mean(axis=(0, 1, 2)) - 1).mean()),
        "codes": float(np.mean([len(np.unique(tokens)) for tokens in codes.reshape(-1, codes.shape[-1])])),
        "validation RMSE": float(calibrator.facts["validation_rmse"]),
    }


def main() -> None:
    """Fit every window and seed on both kinds of vectors, print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--task", default="box 40458D")
    parser.add_argument("--windows", default="60,360")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    (task,) = load_tasks(options.task)
    split = split_task(task, read_task(task, options.data), options.data)
    rows: list[dict[str, Any]] = []
    for window, seed, raw in product(map(int, options.windows.split(",")), range(options.seeds), (False, True)):
        found = measure(fit_kernel(split, raw, window, seed=seed, steps=options.steps))
        rows.append({"N": window, "seed": seed, "kernel on": "raw" if raw else "unit", **found})
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row.values()))
    Console(stderr=options.json).print(table)
    if options.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
