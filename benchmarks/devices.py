"""Devices that training never saw: each left out once, calibrated by a model of the others.

    python -m benchmarks.devices DATA [--tasks PurpleAir,Toucan] [--most 3] [--work out/devices]
        [--out docs/benchmarks/devices.md]

Real tasks of accuracy.toml with three training devices or more. Of each task at most `--most` devices, evenly spread,
are left out, one at a time: training and validation without it, its test rows scored. `pooled` is a multiple linear
regression on the newest readings of the other devices, fitted to the same rows, without anything of a device's own.
`known` is the same device's error by the model that was trained with it. Results are kept in `--work`, a file a device.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.accuracy_tasks import load_tasks
from scare.baselines.classical import linear_regression
from scare.calibrator.calibrator import Calibrator
from scare.data.readings import CALIBRATED, Readings
from scare.data.split import Split
from scare.experiments.jax_cache import forget_compiled
from scare.experiments.suite_tasks import SuiteTask, read_task, split_task
from scare.files import replacing
from scare.training.data import prepare_inputs
from scare.training.fit import fit
from scare.training.recipe import Recipe

STDERR = Console(stderr=True)
FEWEST = 3  # training devices of a task


def recipe_of(task: SuiteTask) -> Recipe:
    """The default with the task's window."""
    return Recipe.preset("default", window=task.window)


def measure(task: SuiteTask, split: Split, device: str, known: Calibrator) -> dict[str, Any]:
    """Errors on the test rows of one device: left out of training, by a pooled regression, and known."""
    recipe = recipe_of(task)
    test = [one for one in split.test if one.device == device]
    others = replace(
        split,
        train=tuple(one for one in split.train if one.device != device),
        validation=tuple(one for one in split.validation if one.device != device),
    )
    pooled, target = prepare_inputs(others.train, others.validation, replace(recipe, per_device=False))
    pooled = replace(pooled, scaling=replace(pooled.scaling, devices={}, settle=0, own_share=None))
    methods = {
        "new": fit(others.train, others.validation, recipe),
        "pooled": linear_regression((*others.train, *others.validation), pooled, target, len(pooled.channels)),
        "known": known,
    }
    estimates = {name: _predict(method, test) for name, method in methods.items()}
    reference = np.concatenate([one.targets for one in test])
    scored = np.isfinite(reference) & np.all([np.isfinite(values) for values in estimates.values()], axis=0)
    errors = {
        name: float(np.sqrt(np.square((values - reference)[scored]).mean())) for name, values in estimates.items()
    }
    negative = int((estimates["new"][scored] < min(0.0, reference[scored].min())).sum())
    return {
        "task": task.name,
        "set": task.set,
        "device": device,
        "rows": int(scored.sum()),
        "negative": negative,
        **errors,
    }


def _predict(method: Any, readings: Sequence[Readings]) -> np.ndarray:
    return np.concatenate([method.predict(one)[CALIBRATED].fill_null(np.nan).to_numpy() for one in readings])


def page(rows: Sequence[dict[str, Any]]) -> str:
    """The page: a row for each device left out, and means."""
    ratios = [row["new"] / row["pooled"] for row in rows]
    tasks = {row["task"]: [one["new"] / one["pooled"] for one in rows if one["task"] == row["task"]] for row in rows}
    by_task = np.exp(np.mean([np.log(found).mean() for found in tasks.values()]))
    lines = [
        "# Devices that training never saw",
        "",
        f"Left out of training one at a time, {len(rows)} devices of {len(tasks)} tasks have {by_task:.2f} of the",
        f"RMSE of a pooled multiple regression (geometric mean, each task once; worst device {max(ratios):.2f}).",
        "[The rule](../decisions/devices.md).",
        "",
        "`python -m benchmarks.devices DATA` made this page. *New*: the device was in no part of training. *Pooled*: a",
        "multiple linear regression on the newest readings of the other devices. *Known*: the device was in training.",
        "",
        "| task | device | rows | new | pooled | new ÷ pooled | known |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        numbers = (f"{row[name]:.4g}" for name in ("new", "pooled"))
        cells = [row["task"], row["device"], f"{row['rows']:,}", *numbers, f"{row['new'] / row['pooled']:.2f}"]
        lines.append(f"| {' | '.join(cells)} | {row['known']:.4g} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is missing, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tasks", default="")
    parser.add_argument("--most", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path("out/devices"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for task in load_tasks(options.tasks):
        readings = read_task(task, options.data) if task.simulate is None else []
        if not readings or task.test or task.validation:
            continue
        split = split_task(task, readings, options.data)
        devices = [one.device for one in split.train if one.device in {other.device for other in split.test}]
        if len(devices) < FEWEST:
            continue
        known = cache(lambda split=split, task=task: fit(split.train, split.validation, recipe_of(task)))
        for index in np.unique(np.linspace(0, len(devices) - 1, min(options.most, len(devices))).astype(int)):
            name = f"{task.name} {devices[index]}"
            file = options.work / f"{''.join(letter if letter.isalnum() else '-' for letter in name)}.json"
            if not file.exists():
                found = measure(task, split, devices[index], known())
                forget_compiled()  # of some thirty trainings, it would fill the process's memory
                with replacing(file) as temporary:
                    temporary.write_text(json.dumps(found), encoding="utf-8")
            rows.append(json.loads(file.read_text(encoding="utf-8")))
            STDERR.print(rows[-1])
    text = page(rows)
    if options.out is None:
        print(text)
        return
    with replacing(options.out) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
