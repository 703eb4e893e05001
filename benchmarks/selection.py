"""What the rules of model selection are worth: other rules on real tasks, and rules chosen by leaving whole sets out.

    python -m benchmarks.selection DATA [--tasks NO2] [--work out/selection] [--json]

Each real task of accuracy.toml is fitted once with devices scaled apart and once together. Of every family the
cross-fitted outputs on validation and its outputs on the test, fitted to training and validation, are kept in `--work`,
a file a task; a second call goes on where the first was stopped. Then any rule of shares and scaling is a mean of what
is kept: clamps are those of each family instead of their mean's, which moves a ratio by less than 0.005.

A ratio is the test RMSE ÷ that of the best of the six classical baselines, each fitted to training and validation.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.accuracy_tasks import load_tasks
from scare.baselines.classical import BASELINES, Predictor
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.linear import raw_reading
from scare.data.readings import CALIBRATED, Readings
from scare.data.split import Split
from scare.errors import NotApplicableError
from scare.experiments.jax_cache import forget_compiled
from scare.experiments.suite_tasks import SuiteTask, read_task, split_task
from scare.files import replacing
from scare.models.linear_families import AS_IS, LINEAR_FAMILIES, OFFSET
from scare.training.data import prepare_inputs
from scare.training.fit import Evaluation, evaluate
from scare.training.recipe import Recipe
from scare.training.selection import NETWORK, TREES, Fitted, SelectionRules, choose_shares

STDERR = Console(stderr=True)
SIX = ("raw", "linear", "multiple-linear", "ridge", "boosting", "ridge-boosting")  # baselines to compare with
APART, TOGETHER = "apart", "together"  # every device has its own scaling, or all have one
TOLERANCES = (0.05, 0.1, 0.15, 0.2, 0.3)  # of `SelectionRules`, to try
THRESHOLDS = (0.0, 0.8, 0.9, 0.95, 1.0)  # devices are scaled apart if that lowers the squared error below this share
WITHOUT = ((), (NETWORK,), (TREES,), (TREES, NETWORK))  # families to leave out


@dataclass(frozen=True)
class Kept:
    """A task as it was measured: arrays by name, and which set it belongs to."""

    task: str
    set: str
    arrays: Mapping[str, np.ndarray]

    @property
    def scalings(self) -> list[str]:
        """How devices were scaled; one way only if validation has other devices, or training a single one."""
        return [name for name in (APART, TOGETHER) if f"{name}/targets" in self.arrays]

    def families(self, scaling: str) -> list[Fitted]:
        """The families, with their outputs on validation in standard deviations of the target."""
        prefix = f"{scaling}/validation/"
        names = [name.removeprefix(prefix) for name in self.arrays if name.startswith(prefix)]
        return [Fitted(name, name, self.arrays[prefix + name]) for name in names]

    def ratio(self, rule: "Rule") -> float:
        """The test RMSE by a rule ÷ that of the best baseline, on rows that all have a value for."""
        values, reference = rule.predict(self), self.arrays["reference"]
        six = [array for name, array in self.arrays.items() if name.startswith("six/")]
        rows = np.isfinite([reference, values, *six]).all(axis=0)
        errors = [float(np.square((one - reference)[rows]).mean()) for one in (values, *six)]
        return float(np.sqrt(errors[0] / min(errors[1:])))


@dataclass(frozen=True)
class Rule:
    """Rules of selection that can be tried on what is kept."""

    tolerance: float
    threshold: float
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The rule in words."""
        without = f", without {' and '.join(self.without)}" if self.without else ""
        return f"tolerance {self.tolerance:g}, threshold {self.threshold:g}{without}"

    def predict(self, kept: Kept) -> np.ndarray:
        """Values for the test rows [n]: the mean of the families that the rule selects."""
        scaling = self._scaling(kept)
        families, targets = kept.families(scaling), kept.arrays[f"{scaling}/targets"]
        shares = choose_shares(families, targets, SelectionRules(tolerance=self.tolerance), self.without)
        parts = [kept.arrays[f"{scaling}/test/{one.family}"] for one in families]
        return np.sum([share * part for share, part in zip(shares, parts, strict=True) if share], axis=0)

    def _scaling(self, kept: Kept) -> str:
        """Choose how devices are scaled, by the best linear family on validation."""
        if len(kept.scalings) == 1:
            return kept.scalings[0]
        apart, together = (
            min(
                one.rmse(kept.arrays[f"{scaling}/targets"]) ** 2
                for one in kept.families(scaling)
                if one.family in LINEAR_FAMILIES
            )
            for scaling in (APART, TOGETHER)
        )
        return APART if apart < self.threshold * together else TOGETHER


SHIPPED = Rule(0.15, 0.95)  # what scare uses


def measure(task: SuiteTask, split: Split) -> dict[str, np.ndarray]:
    """Fit a task with devices scaled apart and together; returns the arrays of `Kept`, all that rules need."""
    recipe = Recipe.preset("default", window=task.window)
    train, validation = split.train, split.validation
    arrays = {"reference": np.concatenate([one.targets for one in split.test])}
    inputs, target = prepare_inputs(train, validation, recipe, with_effects=False)
    for name in SIX:
        try:
            arrays[f"six/{name}"] = _predict(BASELINES[name](train, validation, inputs, target), split.test)
        except NotApplicableError:
            continue
    devices = {one.device for one in train}
    both = len(devices) > 1 and {one.device for one in validation} <= devices
    for scaling in (APART, TOGETHER) if both else (TOGETHER,):
        evaluation = evaluate(train, validation, replace(recipe, per_device=scaling == APART))
        combination = evaluation.combination
        arrays[f"{scaling}/targets"] = combination.targets
        for number, family in enumerate(combination.families):
            arrays[f"{scaling}/validation/{family.family}"] = family.outputs
            alone = tuple(float(other == number) for other in range(len(combination.families)))
            only = replace(evaluation, combination=replace(combination, shares=alone))
            fitted: Predictor = only.fitted() if family.family != AS_IS else _as_is(family, evaluation)
            arrays[f"{scaling}/test/{family.family}"] = _predict(fitted, split.test)
    return arrays


def _as_is(family: Fitted, evaluation: Evaluation) -> Calibrator:
    """The raw reading, with an offset fitted to training and validation if validation chose one."""
    inputs, target, rows = evaluation.inputs, evaluation.calibrator.target, (*evaluation.train, *evaluation.validation)
    errors = np.concatenate([one.targets - inputs.select(one)[:, 0] for one in rows])
    return raw_reading(inputs, target, float(np.nanmean(errors)) if family.variant == OFFSET else 0.0)


def _predict(method: Predictor, readings: Sequence[Readings]) -> np.ndarray:
    return np.concatenate([method.predict(one)[CALIBRATED].fill_null(np.nan).to_numpy() for one in readings])


def collect(options: argparse.Namespace) -> Iterator[Kept]:
    """Yield every task as it was measured; one without a file in `--work` is measured now."""
    for task in load_tasks(options.tasks):
        readings = read_task(task, options.data) if task.simulate is None else []
        if not readings:
            continue
        file = options.work / f"{''.join(letter if letter.isalnum() else '-' for letter in task.name)}.npz"
        if not file.exists():
            arrays = measure(task, split_task(task, readings, options.data))
            forget_compiled()
            with replacing(file) as temporary, temporary.open("wb") as handle:
                np.savez_compressed(handle, **arrays)
            STDERR.print(task.name)
        with np.load(file, allow_pickle=False) as arrays:
            yield Kept(task.name, task.set, dict(arrays))


def mean_ratio(kept: Sequence[Kept], rule: Rule) -> dict[str, float]:
    """Mean logarithm of a rule's ratios over the tasks of each set."""
    sets: dict[str, list[float]] = {}
    for one in kept:
        sets.setdefault(one.set, []).append(np.log(one.ratio(rule)))
    return {name: float(np.mean(logs)) for name, logs in sets.items()}


def table(kept: Sequence[Kept]) -> dict[str, Any]:
    """Ratios of every rule, every set once, and of the rules that the other sets choose for each set."""
    tried = [Rule(*choices) for choices in product(TOLERANCES, THRESHOLDS, WITHOUT)]
    rules = {rule: mean_ratio(kept, rule) for rule in tried}
    sets = list(rules[SHIPPED])

    def mean(by_set: Mapping[str, float], without: str = "") -> float:
        return float(np.mean([by_set[name] for name in sets if name != without]))

    chosen = {name: min(rules, key=lambda rule: mean(rules[rule], without=name)) for name in sets}
    left_out = {name: rules[rule][name] for name, rule in chosen.items()}
    families = sorted({one.family for each in kept for one in each.families(each.scalings[0])})
    without = {name: mean(mean_ratio(kept, replace(SHIPPED, without=(name,)))) for name in families}
    as_ratio: Callable[[float], float] = lambda log: round(float(np.exp(log)), 4)  # noqa: E731
    return {
        "tasks": len(kept),
        "sets": len(sets),
        "shipped": as_ratio(mean(rules[SHIPPED])),
        "chosen by the other sets": as_ratio(mean(left_out)),
        "rules": {str(rule): as_ratio(mean(found)) for rule, found in rules.items()},
        "without a family": {name: as_ratio(log) for name, log in without.items()},
        "by task": {one.task: round(one.ratio(SHIPPED), 4) for one in kept},
    }


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tasks", default="")
    parser.add_argument("--work", type=Path, default=Path("out/selection"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = table(list(collect(options)))
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for name, value in found.items():
        rows = value.items() if isinstance(value, dict) else [(name, value)]
        print("\n".join(f"| {key} | {number} |" for key, number in rows), end="\n\n")


if __name__ == "__main__":
    main()
