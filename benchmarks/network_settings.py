"""What other settings of the network are worth, by leaving whole sets out.

    python -m benchmarks.network_settings DATA [--tasks NO2] [--work out/network_settings] [--json]

Each real task is fitted with every variant. A ratio is the test RMSE of the whole result ÷ that of the default. What is
measured is kept in `--work`, a file a task; a second call goes on where the first was stopped.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.accuracy_tasks import load_tasks
from scare.data.readings import CALIBRATED, Readings
from scare.experiments.jax_cache import forget_compiled
from scare.experiments.suite_tasks import read_task, split_task
from scare.files import replacing
from scare.training.fit import fit
from scare.training.recipe import Recipe, adjust

DEFAULT = "default"
VARIANTS: dict[str, dict[str, Any]] = {  # as tables of a config file
    DEFAULT: {},
    "half of the steps": {"training": {"steps": 1500}},
    "half of the rate": {"training": {"rate": 2.5e-3}},
    "half of the width": {"model": {"front": {"width": 4}}},
    "three members": {"training": {"members": 3}},
    "running mean of 0.999": {"training": {"average": 0.999}},
}
STDERR = Console(stderr=True)


def score(recipe: Recipe, train: Sequence[Readings], validation: Sequence[Readings], test: Sequence[Readings]) -> float:
    """Return the test RMSE of what is fitted to training and validation."""
    calibrator = fit(train, validation, recipe)
    errors = np.concatenate([box.targets - calibrator.predict(box)[CALIBRATED].to_numpy() for box in test])
    return float(np.sqrt(np.nanmean(np.square(errors))))


def mean(ratios: Sequence[float]) -> float:
    """Return the geometric mean."""
    return exp(sum(map(log, ratios)) / len(ratios))


def choose_by_others(ratios: Mapping[str, Mapping[str, Mapping[str, float]]], left_out: str) -> str:
    """Return the variant with the lowest mean ratio over all sets but one; `ratios` are by set, task and variant."""
    others = [task for name, tasks in ratios.items() if name != left_out for task in tasks.values()]
    return min(others[0], key=lambda variant: mean([task[variant] for task in others]))


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tasks", default="", help="only tasks whose names contain one of these words")
    parser.add_argument("--work", type=Path, default=Path("out/network_settings"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ratios: dict[str, dict[str, dict[str, float]]] = {}
    for task in load_tasks(options.tasks):
        readings = read_task(task, options.data) if task.simulate is None else []
        if not readings:
            continue
        path = options.work / f"{task.name}.json"
        if not path.exists():
            STDERR.print(task.name)
            parts = split_task(task, readings, options.data)
            preset = Recipe.preset(DEFAULT, window=task.window)
            errors = {
                name: score(adjust(preset, tables, name), parts.train, parts.validation, parts.test)
                for name, tables in VARIANTS.items()
            }
            forget_compiled()
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(errors), encoding="utf-8")
        errors = json.loads(path.read_text(encoding="utf-8"))
        ratios.setdefault(task.set, {})[task.name] = {name: each / errors[DEFAULT] for name, each in errors.items()}
    every = [task for tasks in ratios.values() for task in tasks.values()]
    means = {name: mean([task[name] for task in every]) for name in every[0]} if every else {}
    chosen = {name: choose_by_others(ratios, name) for name in ratios} if len(ratios) > 1 else {}
    by_others = (
        mean([task[chosen[name]] for name, tasks in ratios.items() for task in tasks.values()]) if chosen else 1.0
    )
    if options.json:
        print(json.dumps({"ratios": ratios, "means": means, "chosen": chosen, "by_others": by_others}))
        return
    print("| variant | RMSE ÷ that of the default | chosen by the other sets for |\n| --- | --- | --- |")
    for name, ratio in means.items():
        print(f"| {name} | {ratio:.3f} | {list(chosen.values()).count(name)} of {len(chosen)} sets |")
    print(f"\nChosen for each set by the others: {by_others:.3f} on {len(every)} tasks.")


if __name__ == "__main__":
    main()
