"""How often intervals contain the reference, how wide they are, and both for quantile boosting.

    python -m benchmarks.intervals DATA [--models FOLDER] [--tasks NO2] [--work out/intervals]
        [--out docs/benchmarks/intervals.md] [--json]

Tasks are those of accuracy.toml. A calibrator is FOLDER/TASK.scare if it is there (other characters than letters
and digits become hyphens), and fitted otherwise. Results stay in `--work`, one file per task, and are not made again.
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
from scare.baselines.classical import RATE, ROUNDS, SEED, Boosted, make_both, one_thread
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import LEVEL, UNCERTAIN, derive_intervals
from scare.data.readings import CALIBRATED, FLAGS, HIGH, LOW, REFERENCE, Readings
from scare.data.split import Split
from scare.experiments.suite_tasks import SuiteTask, read_task, split_task
from scare.files import replacing
from scare.layers.front import HatBasis
from scare.scorecard.accuracy import cover
from scare.training.extrapolation import with_training_range
from scare.training.fit import fit, learn_intervals
from scare.training.recipe import Recipe
from scare.windowing.inputs import Inputs
from scare.windowing.training_examples import design_matrix, make_examples

OURS, DERIVED, BOOSTING = "made at fit", "derived from kept windows", "quantile boosting"
BAND = (LEVEL - 0.03, LEVEL + 0.03)  # coverage that counts as stated
PAGE = Template("""# Intervals

How often $level % intervals contain the reference on test rows, and how wide they are:

$summary

Tasks are those of `accuracy.toml`: validation follows training, test follows validation. Calibrators have preset
`default`, seed 0. [Decisions](../decisions/intervals.md) says how the rule was chosen, and how it does on a set that
was not used for it.

- *covered*: share of the rows whose reference lies in the interval, in %. *flagged*: share of rows flagged UNSETTLED,
  SPIKE or OUTSIDE, whose intervals are wider.
- *Winkler*: mean width plus $penalty times the mean distance of references outside; lower is better. Width and Winkler
  score are in the target's unit.
- *derived*: as for a file without intervals when it is opened.
- *boosting*: scikit-learn's gradient boosting for the two quantiles, on the newest value, lags and rolling means,
  trained on training rows only.

$head
$rows

Made by `python -m benchmarks.intervals DATA --out docs/benchmarks/intervals.md`; do not edit.
""")
HEAD = (
    *("task", "rows", "flagged", "covered", "covered, not flagged", "width", "Winkler"),
    *("derived: covered", "Winkler", "boosting: covered", "width", "Winkler"),
)


def run_task(task: SuiteTask, split: Split, models: Path | None) -> dict[str, Any]:
    """Score the intervals of each method on the test rows for which all methods have one."""
    stem = "".join(letter if letter.isalnum() else "-" for letter in task.name)
    kept = models / f"{stem}.scare" if models else None
    recipe = Recipe.preset("default", task.window)
    if kept is not None and kept.exists():
        calibrator = as_fitted(Calibrator.load(kept), split, recipe)
    else:
        calibrator = fit(split.train, split.validation, recipe)
    windows, references = calibrator.validation.windows, calibrator.validation.numbers
    # As if its file were from a version without intervals.
    older = replace(calibrator, intervals=derive_intervals(calibrator.compute(windows), references))
    trees = [grow(split, calibrator.inputs, share) for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)]
    found = {OURS: _ends(calibrator, split.test), DERIVED: _ends(older, split.test)}
    found[BOOSTING] = np.stack([_values(one, split.test) for one in trees])
    return _score(calibrator, split.test, found)


def as_fitted(calibrator: Calibrator, split: Split, recipe: Recipe) -> Calibrator:
    """Give a calibrator whose file has no intervals those that it would be fitted with."""
    if calibrator.intervals is not None and not calibrator.intervals.kept_windows:
        return calibrator
    learned = make_examples(split.train, replace(calibrator.inputs, policy=recipe.learned_from))
    calibrator = with_training_range(calibrator, split.train, learned)
    return replace(calibrator, intervals=learn_intervals(calibrator, learned, split.validation, LEVEL))


def grow(split: Split, inputs: Inputs, share: float) -> Boosted:
    """Fit boosted trees for the quantile `share`, on the features of the baseline `boosting`."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    examples, _ = make_both(split.train, split.validation, inputs)
    basis = HatBasis(inputs.window).matrix if inputs.window > 1 else None
    learned = design_matrix(examples, basis)
    flat = learned.features.reshape(len(learned.targets), -1)
    how: dict[str, Any] = {"max_iter": ROUNDS, "learning_rate": RATE, "early_stopping": False, "random_state": SEED}
    trees = HistGradientBoostingRegressor(loss="quantile", quantile=share, **how)
    return Boosted(inputs, basis, (np.zeros(flat.shape[1]), 0.0), one_thread(trees.fit, flat, learned.targets), {})


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
    flagged = (np.concatenate([one[FLAGS].to_numpy() for one in tables]) & UNCERTAIN) > 0
    rows = np.isfinite([reference, *(end for ends in found.values() for end in ends)]).all(axis=0)
    not_flagged = rows & ~flagged

    def scored(ends: np.ndarray, which: np.ndarray) -> dict[str, Any] | None:
        one = cover(ends[0][which], ends[1][which], reference[which], LEVEL)
        return asdict(one) if one else None

    result: dict[str, Any] = {name: scored(ends, rows) for name, ends in found.items()}
    intervals = asdict(calibrator.intervals) if calibrator.intervals else None
    return {
        **result,
        "not flagged": scored(found[OURS], not_flagged),
        "flagged": float(flagged[rows].mean()),
        "intervals": intervals,
    }


def page(results: dict[str, dict[str, Any]], sets: dict[str, str]) -> str:
    """Render the page in Markdown."""
    head = "\n".join(f"| {' | '.join(cells)} |" for cells in (HEAD, ["---"] * len(HEAD)))
    rows = "\n".join(f"| {' | '.join(_cells(name, one))} |" for name, one in results.items())
    numbers = {"level": f"{100 * LEVEL:.0f}", "penalty": f"{2 / (1 - LEVEL):.0f}"}
    return PAGE.substitute(numbers, summary=_summary(results, sets), head=head, rows=rows)


def _cells(name: str, found: dict[str, Any]) -> list[str]:
    """Write the line of a task under `HEAD`."""
    ours, older, trees = (found[one] for one in (OURS, DERIVED, BOOSTING))
    plain = found["not flagged"]
    covered = [f"{100 * one['share']:.1f}" if one else "" for one in (ours, plain, older, trees)]
    numbers = [f"{ours['width']:.3g}", f"{ours['winkler']:.3g}"]
    more = [covered[2], f"{older['winkler']:.3g}", covered[3], f"{trees['width']:.3g}", f"{trees['winkler']:.3g}"]
    return [name, f"{ours['rows']:,}", f"{found['flagged']:.1%}", covered[0], covered[1], *numbers, *more]


def _summary(results: dict[str, dict[str, Any]], sets: dict[str, str]) -> str:
    """Sum up coverage and Winkler scores, each set counted once."""
    shares = {one: [found[one]["share"] for found in results.values()] for one in (OURS, DERIVED, BOOSTING)}
    inside = {one: sum(BAND[0] <= share <= BAND[1] for share in some) for one, some in shares.items()}
    under = {one: sum(share < BAND[0] for share in some) for one, some in shares.items()}
    mean = {one: _by_set(dict(zip(results, some, strict=True)), sets) for one, some in shares.items()}
    ratios = {name: np.log(one[OURS]["winkler"] / one[BOOSTING]["winkler"]) for name, one in results.items()}
    better = sum(ratio < 0 for ratio in ratios.values())
    lines = [
        f"- {one}: {100 * mean[one]:.1f} % covered (mean over sets);"
        f" between {100 * BAND[0]:.0f} and {100 * BAND[1]:.0f} %"
        f" on {inside[one]} of {len(results)} tasks, below on {under[one]}"
        for one in (OURS, DERIVED, BOOSTING)
    ]
    ratio = float(np.exp(_by_set(ratios, sets)))
    last = f"- Winkler score of ours: {ratio:.2f} of quantile boosting's (geometric mean over sets), lower on {better}"
    return "\n".join([*lines, f"{last} of {len(results)}"])


def _by_set(numbers: dict[str, Any], sets: dict[str, str]) -> float:
    """Average numbers by task over each set, then over sets."""
    names = dict.fromkeys(sets[name] for name in numbers)
    return float(np.mean([np.mean([value for key, value in numbers.items() if sets[key] == one]) for one in names]))


def main() -> None:
    """Run the tasks that are asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="folder of the files; without it only simulated tasks")
    parser.add_argument("--models", type=Path, help="folder of calibrators that are fitted already")
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
            found = run_task(task, split_task(task, readings, options.data), options.models)
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
