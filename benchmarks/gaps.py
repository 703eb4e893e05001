"""Which windows with holes may be used: `strict` against `recent`, and 60 readings against 360, on the same rows.

    python benchmarks/gaps.py DATA [--tasks JRC] [--seeds 3] [--work out/gaps] [--out docs/benchmarks/gaps.md]
        [--json]

Tasks are those of accuracy.toml. What is fitted stays in `--work` and is not fitted again.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from benchmarks.accuracy_tasks import load_tasks
from scare.calibrator.calibrator import Calibrator
from scare.data.readings import CALIBRATED
from scare.data.split import Split
from scare.experiments.suite_tasks import SuiteTask, read_task, split_task
from scare.files import replacing
from scare.scorecard.accuracy import compare_errors, measure, row_changes
from scare.training.fit import fit
from scare.training.recipe import Recipe
from scare.windowing.windows import RECENT, STRICT, GapPolicy

LONG = 360
PAGE = Template("""# Windows with gaps

The gap policy `recent` trains on more windows than `strict` and gives values for more rows; each section says whether
its error is lower.

- `strict`: all readings of a window pass the gap rule: four fifths are present, and none is repeated for more
  than 15 steps.
- `recent`: the newest 60 readings pass; older ones repeat the reading before as long as needed. For N = 60 both are the
  same.
- *shared*: test rows for which all three have a value. Differences are to N = $long `recent`, with a 95 % interval from
  a paired bootstrap of 3-hour blocks (`*`: it excludes zero).
- *every*: test rows for which `recent` has a value. *refused*: those of them for which `strict` has none.

$sections

## Protocol

Written before the numbers: tasks and borders of `accuracy.toml`; no reference in the $long minutes after a border, so
that all are trained, selected and scored on the same rows; `scare`, preset `default`, $seeds seeds (mean ± standard
deviation; ± 0: validation chose the ridge start every time). NO2 and CO were chosen for the share of windows that
`strict` refuses.

Made by `python benchmarks/gaps.py DATA --out docs/benchmarks/gaps.md`; do not edit.
""")


@dataclass(frozen=True)
class Variant:
    """A window length and the rule for its gaps."""

    window: int
    policy: GapPolicy

    @property
    def name(self) -> str:
        """The name on the page."""
        same = RECENT.rows_checked(self.window) == STRICT.rows_checked(self.window)
        return f"N = {self.window}, {'either' if same else self.policy.name}"


OURS, STRICTER = Variant(LONG, RECENT), Variant(LONG, STRICT)
VARIANTS = (Variant(60, RECENT), STRICTER, OURS)


@dataclass(frozen=True)
class Fitted:
    """The number of training windows, and the estimates for all test rows [seeds, rows], NaN where there is none."""

    windows: int
    estimates: np.ndarray

    @property
    def known(self) -> np.ndarray:
        """Whether a row has a value from every seed, bool [rows]."""
        return np.asarray(np.isfinite(self.estimates).all(axis=0))


def fit_variant(split: Split, variant: Variant, seeds: int, folder: Path) -> Fitted:
    """Fit a variant with every seed, or load the fits that are in the folder."""
    estimates, windows = [], 0
    for seed in range(seeds):
        path = folder / f"{variant.window}-{variant.policy.name}-{seed}.scare"
        if not path.exists():
            print(f"{folder.name}: {variant.name}, seed {seed}", file=sys.stderr)
            recipe = replace(Recipe.preset("default", variant.window, seed=seed), policy=variant.policy)
            path.parent.mkdir(parents=True, exist_ok=True)
            fit(split.train, split.validation, recipe).save(path)
        calibrator = Calibrator.load(path)
        windows = calibrator.facts["training_windows"]
        columns = [calibrator.predict(one)[CALIBRATED].fill_null(np.nan).to_numpy() for one in split.test]
        estimates.append(np.concatenate(columns))
    return Fitted(windows, np.stack(estimates))


def score_task(split: Split, fitted: dict[Variant, Fitted]) -> list[dict[str, Any]]:
    """Score each variant in a row: windows, coverage, and errors on the shared, on every and on the refused rows.

    The page explains these groups of rows; a variant without a value for all rows of a group has no score there.
    """
    reference = np.concatenate([one.targets for one in split.test])
    times = np.concatenate([one.times for one in split.test])
    changes = np.concatenate([row_changes(one.times, one.values[:, 0], one.step_seconds) for one in split.test])
    scored = np.isfinite(reference)
    every = scored & np.all([one.known for variant, one in fitted.items() if variant != STRICTER], axis=0)
    groups = {
        "shared": every & fitted[STRICTER].known,
        "every": every,
        "refused": every & ~fitted[STRICTER].known,
    }
    squared = {variant: np.square(one.estimates - reference).mean(axis=0) for variant, one in fitted.items()}
    shared, rows = groups["shared"], []
    for variant, one in fitted.items():
        scores = {
            name: _score(one.estimates[:, which], reference[which], changes[which])
            for name, which in groups.items()
            if which.any() and one.known[which].all()
        }
        to_ours = compare_errors(squared[variant][shared], squared[OURS][shared], times[shared])
        coverage = float(one.known[scored].mean())
        rows.append(
            {"name": variant.name, "windows": one.windows, "coverage": coverage, "to_ours": asdict(to_ours), **scores}
        )
    return rows


def _score(estimates: np.ndarray, reference: np.ndarray, changes: np.ndarray) -> dict[str, float]:
    """Compute the mean over seeds of RMSE (with its spread) and of RMSE at the fastest changes."""
    found = [measure(one, reference, changes) for one in estimates]
    rmse, top5 = [one.rmse for one in found], [one.top5_rmse for one in found]
    return {
        "rows": len(reference),
        "rmse": float(np.mean(rmse)),
        "rmse_sd": float(np.std(rmse)),
        "top5": float(np.mean(top5)),
    }


def page(tasks: dict[str, list[dict[str, Any]]], seeds: int) -> str:
    """Render the page in Markdown."""
    return PAGE.substitute(long=LONG, seeds=seeds, sections="\n\n".join(_section(*item) for item in tasks.items()))


def _section(name: str, rows: Sequence[dict[str, Any]]) -> str:
    """Render one task: a summary and its table."""
    ours, stricter = (next(row for row in rows if row["name"] == one.name) for one in (OURS, STRICTER))
    counts = {group: ours[group]["rows"] if group in ours else 0 for group in ("shared", "every", "refused")}
    heads = [f"RMSE, {group} ({rows:,})" for group, rows in counts.items()]
    head = [
        "",
        "training windows",
        "test rows with a value",
        heads[0],
        f"− N = {LONG} recent [95 %]",
        "top-5 %, shared",
    ]
    head += [heads[1], "top-5 %, every", heads[2]]
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *map(_cells, rows))]
    seen = (
        f"Against `strict` at N = {LONG}, `recent` trains on {_more(ours['windows'], stricter['windows'])} windows and"
        f" has a value for {_more(ours['coverage'], stricter['coverage'])} rows. {_comparison(stricter['to_ours'])}"
    )
    return "\n".join([f"## {name}", "", seen, "", *lines])


def _more(ours: float, theirs: float) -> str:
    """Say how many per cent more or fewer ours are than theirs."""
    change = ours / theirs - 1
    return f"{abs(change):.0%} {'more' if change >= 0 else 'fewer'}"


def _comparison(strict_to_recent: dict[str, float]) -> str:
    """Say which rule has the lower error on the shared rows, if the difference is significant."""
    if not _decided(strict_to_recent):
        return "On the shared rows neither has a lower error that could not be chance."
    return f"On the shared rows `{'recent' if strict_to_recent['low'] > 0 else 'strict'}` has the lower error."


def _decided(interval: dict[str, float]) -> bool:
    """Whether the interval of a difference excludes zero."""
    return interval["low"] > 0 or interval["high"] < 0


def _cells(row: dict[str, Any]) -> list[str]:
    """Write a variant's line of the table: errors on shared rows, on all its rows, and on rows that ours refuses."""
    interval, groups = row["to_ours"], {name: row.get(name) for name in ("shared", "every", "refused")}
    rmse = {name: f"{one['rmse']:.4g} ± {round(one['rmse_sd'], 9):.2g}" if one else "" for name, one in groups.items()}
    top5 = {name: f"{one['top5']:.4g}" if one else "" for name, one in groups.items()}
    difference = ""
    if row["name"] != OURS.name:
        star = "*" if _decided(interval) else ""
        difference = f"{interval['difference']:+.2g} [{interval['low']:+.2g}, {interval['high']:+.2g}]{star}"
    facts = [row["name"], f"{row['windows']:,}", f"{row['coverage']:.1%}"]
    return [*facts, rmse["shared"], difference, top5["shared"], rmse["every"], top5["every"], rmse["refused"]]


def run_task(task: SuiteTask, data: Path, seeds: int, work: Path) -> list[dict[str, Any]]:
    """Fit and score every variant on a task; no rows if its files are not there."""
    readings = read_task(task, data)
    if not readings:
        return []
    split = split_task(replace(task, window=LONG), readings)
    return score_task(split, {variant: fit_variant(split, variant, seeds, work / task.name) for variant in VARIANTS})


def main() -> None:
    """Run the tasks that are asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tasks", default="JRC", help="tasks with one of these words in their names")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path("out/gaps"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = {
        task.name: run_task(task, options.data, options.seeds, options.work) for task in load_tasks(options.tasks)
    }
    results = {name: rows for name, rows in results.items() if rows}
    if not results:
        sys.exit(f"no task has its files under {options.data}")
    if options.out is not None:
        with replacing(options.out) as temporary:
            temporary.write_text(page(results, options.seeds), encoding="utf-8", newline="\n")
    if options.json:
        print(json.dumps(results, indent=1))
    elif options.out is None:
        print(page(results, options.seeds))


if __name__ == "__main__":
    main()
