"""How often intervals contain the reference, and how wide they are; also for split conformal and quantile boosting.

    python -m benchmarks.intervals DATA [--tasks NO2] [--work out/intervals] [--out docs/benchmarks/intervals.md]
        [--json]

Tasks are those of configs/suite.toml and accuracy.toml. Results stay in `--work`, one file per task, and are not made
again.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from benchmarks.accuracy_tasks import load_tasks
from scare.baselines.classical import RATE, ROUNDS, SEED, Boosted, make_all
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import LEVEL, Intervals, derive_intervals
from scare.data.readings import CALIBRATED, FLAGS, HIGH, LOW, REFERENCE, Readings
from scare.data.split import Split
from scare.executor import one_thread
from scare.experiments.suite_tasks import SuiteTask, read_task, split_task
from scare.files import replacing
from scare.layers.embedding import HatBasis
from scare.scorecard.accuracy import cover_by_flag
from scare.training.fit import evaluate
from scare.training.recipe import Recipe
from scare.windowing.inputs import Inputs
from scare.windowing.training_examples import design_matrix

OURS, DERIVED = "made at fit", "derived from kept windows"
SPLIT, BOOSTING = "split conformal", "quantile boosting"
FEW_ROWS = 30  # the share of fewer rows is not shown
PAGE = Template("""# Intervals

How often $level % intervals contain the reference on test rows, and how wide they are:

$summary

Tasks are those of `configs/suite.toml` and `accuracy.toml`: in most, validation follows training, and test follows
validation. Calibrators have preset `default`, seed 0, fitted to training and validation.
[Decisions](../decisions/intervals.md) says how the rule was chosen.

- *covered*: share of the rows whose reference lies in the interval, in %; on all rows, on those without and on those
  with a flag of UNSETTLED, SPIKE or OUTSIDE (*flagged*: their share), whose intervals are wider.
- *Winkler*: mean width plus $penalty times the mean distance of references outside; lower is better. Width and Winkler
  score are in the target's unit.
- *split*: plain split conformal: the value ± the $level % quantile of the absolute errors on validation.
- *boosting*: scikit-learn's gradient boosting for the two quantiles, on the newest value, lags and rolling means,
  fitted to training and validation.

$head
$rows

Made by `python -m benchmarks.intervals DATA --out docs/benchmarks/intervals.md`; do not edit.
""")
HEAD = (
    *("task", "rows", "flagged", "covered", "not flagged", "flagged rows", "width", "Winkler"),
    *("split: covered", "not flagged", "width", "Winkler", "boosting: covered", "not flagged", "width", "Winkler"),
)


def run_task(task: SuiteTask, split: Split) -> dict[str, Any]:
    """Score the intervals of each method on the test rows for which all methods have one."""
    evaluation = evaluate(split.train, split.validation, Recipe.preset("default", task.window))
    calibrator = evaluation.fitted()
    windows, references = calibrator.validation.windows, calibrator.validation.numbers
    # As if its file were from a version without intervals.
    older = replace(calibrator, intervals=derive_intervals(calibrator.compute(windows), references))
    plain = replace(calibrator, intervals=split_conformal(evaluation.calibrator, evaluation.validation))
    trees = [grow(split, calibrator.inputs, share) for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)]
    found = {name: _ends(one, split.test) for name, one in ((OURS, calibrator), (DERIVED, older), (SPLIT, plain))}
    found[BOOSTING] = np.stack([_values(one, split.test) for one in trees])
    return _score(calibrator, split.test, found)


def split_conformal(calibrator: Calibrator, validation: Sequence[Readings]) -> Intervals:
    """Make intervals of one width from the absolute errors on validation; the extra row stands for the new one."""
    tables = [calibrator.predict(one) for one in validation]
    values, truth = (
        np.concatenate([one[name].fill_null(np.nan) for one in tables]) for name in (CALIBRATED, REFERENCE)
    )
    errors = np.abs(values - truth)[np.isfinite(values - truth)]
    distance = float(np.quantile(errors, min(1.0, LEVEL * (1 + 1 / len(errors)))))
    return Intervals(LEVEL, (), (distance,), (distance,))


def grow(split: Split, inputs: Inputs, share: float) -> Boosted:
    """Fit boosted trees for the quantile `share`, on the features of the baseline `boosting`."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    _, _, examples = make_all(split.train, split.validation, inputs)
    basis = HatBasis(inputs.window).matrix if inputs.window > 1 else None
    learned = design_matrix(examples, basis)
    flat = learned.features.reshape(len(learned.targets), -1)
    how: dict[str, Any] = {"max_iter": ROUNDS, "learning_rate": RATE, "early_stopping": False, "random_state": SEED}
    trees = HistGradientBoostingRegressor(loss="quantile", quantile=share, **how)
    with one_thread():
        trees.fit(flat, learned.targets)
    return Boosted(inputs, basis, (np.zeros(flat.shape[1]), 0.0), trees, {})


def _ends(calibrator: Calibrator, readings: Sequence[Readings]) -> np.ndarray:
    """Ends of the intervals [2, rows], NaN where there is none."""
    tables = [calibrator.predict(one).select(LOW, HIGH).fill_null(np.nan).to_numpy() for one in readings]
    return np.asarray(np.concatenate(tables).T)


def _values(trees: Boosted, readings: Sequence[Readings]) -> np.ndarray:
    """Predictions of all readings [rows], NaN where there is none."""
    return np.concatenate([trees.predict(one)[CALIBRATED].fill_null(np.nan).to_numpy() for one in readings])


def _score(calibrator: Calibrator, readings: Sequence[Readings], found: dict[str, np.ndarray]) -> dict[str, Any]:
    """Measure the coverage of each method's intervals [2, rows] on the rows for which all methods have one."""
    tables = [calibrator.predict(one) for one in readings]
    reference = np.concatenate([one[REFERENCE].fill_null(np.nan).to_numpy() for one in tables])
    flags = np.concatenate([one[FLAGS].to_numpy() for one in tables])
    rows = np.isfinite([reference, *(end for ends in found.values() for end in ends)]).all(axis=0)
    scores = {name: cover_by_flag(*ends[:, rows], reference[rows], flags[rows], LEVEL) for name, ends in found.items()}
    return {**scores, "intervals": asdict(calibrator.intervals) if calibrator.intervals else None}


def page(results: dict[str, dict[str, Any]], sets: dict[str, str]) -> str:
    """Render the page in Markdown."""
    head = "\n".join(f"| {' | '.join(cells)} |" for cells in (HEAD, ["---"] * len(HEAD)))
    rows = "\n".join(f"| {' | '.join(_cells(name, one))} |" for name, one in results.items())
    numbers = {"level": f"{100 * LEVEL:.0f}", "penalty": f"{2 / (1 - LEVEL):.0f}"}
    return PAGE.substitute(numbers, summary=_summary(results, sets), head=head, rows=rows)


def _share(found: dict[str, Any], part: str = "") -> float | None:
    """Share of the rows of a part (all without one) that are covered; None if they are few."""
    one = found.get(part) if part else found
    return one["share"] if one and one["rows"] >= FEW_ROWS else None


def _cells(name: str, found: dict[str, Any]) -> list[str]:
    """Write the line of a task under `HEAD`."""
    ours = found[OURS]
    cells = [name, f"{ours['rows']:,}", f"{ours.get('flagged', {'rows': 0})['rows'] / ours['rows']:.1%}"]
    for method, parts in (
        (OURS, ("", "not_flagged", "flagged")),
        (SPLIT, ("", "not_flagged")),
        (BOOSTING, ("", "not_flagged")),
    ):
        shares = [_share(found[method], part) for part in parts]
        cells += ["" if share is None else f"{100 * share:.1f}" for share in shares]
        cells += [f"{found[method][number]:.3g}" for number in ("width", "winkler")]
    return cells


def _summary(results: dict[str, dict[str, Any]], sets: dict[str, str]) -> str:
    """Sum up coverage of all methods, and width and Winkler score relative to ours; ratios count each set once."""
    head = ("", "covered, mean", "median", "below 80 %", "not flagged, median", "below 80 %", "below 60 %")
    lines = [f"| {' | '.join(cells)} |" for cells in ((*head, "flagged, mean", "width", "Winkler"), ["---"] * 10)]
    for method in (OURS, DERIVED, SPLIT, BOOSTING):
        parts = {
            part: np.array([s for one in results.values() if (s := _share(one[method], part)) is not None])
            for part in ("", "not_flagged", "flagged")
        }
        every, plain, flagged = parts.values()
        ratios = [
            np.exp(
                _by_set({name: np.log(one[method][number] / one[OURS][number]) for name, one in results.items()}, sets)
            )
            for number in ("width", "winkler")
        ]
        numbers = [
            f"{100 * every.mean():.1f} %",
            f"{100 * np.median(every):.1f} %",
            f"{(every < 0.8).sum()} of {len(every)}",
        ]
        numbers += [
            f"{100 * np.median(plain):.1f} %",
            f"{(plain < 0.8).sum()} of {len(plain)}",
            f"{(plain < 0.6).sum()}",
        ]
        numbers += [f"{100 * flagged.mean():.1f} %", *(f"{ratio:.2f}" for ratio in ratios)]
        lines.append(f"| {' | '.join([method, *numbers])} |")
    share = np.mean([one[OURS].get("flagged", {"rows": 0})["rows"] / one[OURS]["rows"] for one in results.values()])
    last = "Width and Winkler score are relative to those made at fit (geometric mean over sets)."
    lines += ["", f"{last} {share:.1%} of a task's rows are flagged on average."]
    return "\n".join(lines)


def _by_set(numbers: dict[str, Any], sets: dict[str, str]) -> float:
    """Average numbers by task over each set, then over sets."""
    names = dict.fromkeys(sets[name] for name in numbers)
    return float(np.mean([np.mean([value for key, value in numbers.items() if sets[key] == one]) for one in names]))


def main() -> None:
    """Run the tasks that are asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="folder of the files; without it only simulated tasks")
    parser.add_argument("--tasks", default="", help="tasks with one of these words in their names, comma-separated")
    parser.add_argument("--work", type=Path, default=Path("out/intervals"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tasks, results = load_tasks(options.tasks), {}
    for task in tasks:
        path = options.work / f"{task.name}.json"
        if not path.exists() and (readings := read_task(task, options.data)):
            print(task.name, file=sys.stderr)
            found = run_task(task, split_task(task, readings, options.data))
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(found, indent=1), encoding="utf-8")
        if path.exists():
            results[task.name] = json.loads(path.read_text(encoding="utf-8"))
    if not results:
        sys.exit(f"no task called '{options.tasks}' has its files under {options.data}")
    text = page(results, {task.name: task.set for task in tasks})
    if options.out is not None:
        with replacing(options.out) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
    if options.json:
        print(json.dumps(results, indent=1))
    elif options.out is None:
        print(text)


if __name__ == "__main__":
    main()
