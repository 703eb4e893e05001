"""What clamping readings at the training range costs: RMSE on the test rows of accuracy.toml.

    python -m benchmarks.training_range DATA [--tasks JRC] [--work out/training_range] [--json]

What is fitted (preset `default`, one seed) stays in `--work` as a `.scare` file and is not fitted again.
"""

import argparse
import json
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.accuracy_tasks import load_tasks
from scare.calibrator.calibrator import Calibrator
from scare.data.flags import Flag
from scare.data.split import Split
from scare.experiments.suite_tasks import SuiteTask, read_task, split_task
from scare.training.extrapolation import flagged_outside, with_training_range
from scare.training.fit import fit
from scare.training.recipe import Recipe
from scare.windowing.training_examples import make_examples
from scare.windowing.training_range import TrainingRange
from scare.windowing.windows import ANY

COLUMNS = "| task | selected | first channel clamped | outside, validation | test | RMSE | clamped | all at the edge |"


@dataclass(frozen=True)
class RangeResult:
    """One task: where its first channel is clamped, shares of rows outside the training range, errors on test rows."""

    task: str
    outcome: str
    clamped: str
    outside_validation: float
    outside_test: float
    free_rmse: float
    clamped_rmse: float
    edge_rmse: float

    @property
    def line(self) -> str:
        """A row of the table; errors as ratios to the error without clamping."""
        shares = f"{self.outside_validation:.1%} | {self.outside_test:.1%}"
        ratios = [f"{rmse / self.free_rmse:.3f}" for rmse in (self.clamped_rmse, self.edge_rmse)]
        cells = [self.task, self.outcome, self.clamped, shares, f"{self.free_rmse:.3g}", *ratios]
        return f"| {' | '.join(cells)} |"


def measure(name: str, calibrator: Calibrator, split: Split) -> RangeResult:
    """Score a calibrator without clamping, with it, and with every channel clamped at the edge of training."""
    if calibrator.inputs.training_range is None:
        examples = make_examples(split.train, replace(calibrator.inputs, policy=ANY))
        calibrator = with_training_range(calibrator, split.train, examples)
    known = calibrator.inputs.training_range
    assert known is not None
    closer = replace(known, clamp_low=known.low, clamp_high=known.high)
    shares = flagged_outside(calibrator.inputs, validation=split.validation, test=split.test)
    errors = [_rmse(calibrator, one, split) for one in (None, known, closer)]
    outcome = str(calibrator.facts.get("outcome", "network"))
    return RangeResult(name, outcome, _where(known), shares["validation"], shares["test"], *errors)


def _where(known: TrainingRange) -> str:
    """Say where the first channel is clamped: far out, or at the edge of training, below and above."""
    ends = {"below": known.clamp_low[0] < known.low[0], "above": known.clamp_high[0] > known.high[0]}
    far = [side for side, is_far in ends.items() if is_far]
    return "far out" if len(far) == 2 else f"far out {far[0]}" if far else "at the edge"


def _rmse(calibrator: Calibrator, training_range: TrainingRange | None, split: Split) -> float:
    """Compute the RMSE on the test rows with another training range; None: without clamping."""
    changed, squares = replace(calibrator, inputs=replace(calibrator.inputs, training_range=training_range)), []
    for one in split.test:
        answers = changed.stream(one.device).push(one.times, changed.inputs.select(one))
        known = np.isfinite(answers.values) & np.isfinite(one.targets) & ((answers.flags & Flag.NOT_FINITE) == 0)
        squares.append(np.square(answers.values[known] - one.targets[known]))
    return float(np.sqrt(np.concatenate(squares).mean()))


def fitted(task: SuiteTask, split: Split, work: Path) -> Calibrator:
    """Load the calibrator of a task from `work`, or fit and save it."""
    path = work / f"{re.sub(r'[^A-Za-z0-9]+', '-', task.name)}.scare"
    if not path.exists():
        work.mkdir(parents=True, exist_ok=True)
        fit(split.train, split.validation, Recipe.preset("default", task.window)).save(path)
    return Calibrator.load(path)


def main() -> None:
    """Fit or load the calibrator of each task, measure it and print a table or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--tasks", default="")
    parser.add_argument("--work", type=Path, default=Path("out/training_range"))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    results = []
    for task in load_tasks(given.tasks):
        if readings := read_task(task, given.data):
            split = split_task(task, readings, given.data)
            results.append(measure(task.name, fitted(task, split, given.work), split))
    if given.json:
        print(json.dumps([asdict(one) for one in results], indent=1))
    else:
        print("\n".join([COLUMNS, "|---" * 8 + "|", *(one.line for one in results)]))


if __name__ == "__main__":
    main()
