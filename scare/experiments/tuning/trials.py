"""A trial examines one candidate: its cost on a board, then its error on one fold after the other.

    folder/fold-1/…             the readings of a fold, as `study` keeps them
    folder/trials/0007.json     what a finished trial found

A trial runs in a process of its own and is told plain values. It stops early when the candidate is over the budget, or
after the first fold when it is hopeless there.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from scare.archive.sending import work_on_sent
from scare.data.readings import Readings
from scare.errors import DataError, ScareError
from scare.experiments.comparison import compare
from scare.experiments.compiling import forget_compiled
from scare.experiments.study import read_parts
from scare.experiments.tuning.budget import Budget, Cost, measure_cost
from scare.files import replacing
from scare.records import convert, merged, read_json
from scare.training.fit import fit
from scare.training.presets import Recipe
from scare.training.recipes import adjust, make_recipe, nested

Score = tuple[float, float]  # RMSE, and RMSE of the twentieth of the rows with the largest change


@dataclass(frozen=True)
class Trial:
    """A candidate (values of knobs by dotted name) and what is known of it; trial 0 is the preset itself."""

    number: int
    values: Mapping[str, int | float]
    cost: Cost | None = None
    scores: tuple[Score, ...] = ()  # a fold each
    seconds: float = 0.0
    failed: str | None = None

    @property
    def mean(self) -> Score:
        """The mean over the folds."""
        rmse, top5 = np.mean(self.scores, axis=0).tolist()
        return rmse, top5


@dataclass(frozen=True)
class Terms:
    """What every trial is held to; a candidate beyond both numbers of `hopeless` on the first fold ends there."""

    folds: int
    seed: int = 0
    start: Mapping[str, Any] = field(default_factory=dict)  # tables of the recipe that the search begins at
    budget: Budget | None = None
    hopeless: Score | None = None


def read_trials(folder: Path) -> list[Trial]:
    """The finished trials of a folder, by number."""
    return [read_json(path, Trial) for path in sorted((folder / "trials").glob("[0-9]*.json"))]


def run_sent_trial(packed: bytes, described: dict[str, Any], terms: dict[str, Any]) -> dict[str, bytes]:
    """A trial on folds that were sent: the file of what was found."""
    return work_on_sent(packed, run_trial, described, terms)


def run_trial(folder: str, described: dict[str, Any], terms: dict[str, Any], results: str = "") -> None:
    """Examine one candidate and write what was found to `results`; whatever stops it becomes its reason."""
    trial, begun = convert(described, Trial, "trial"), time.perf_counter()
    try:
        trial = examine(Path(folder), trial, convert(terms, Terms, "trial"))
    except ScareError as error:
        trial = replace(trial, failed=str(error))
    except Exception as error:
        trial = replace(trial, failed=f"{type(error).__name__}: {error}")
    write_trial(Path(folder), replace(trial, seconds=round(time.perf_counter() - begun, 2)), results)
    forget_compiled()


def trial_file(folder: Path, number: int) -> Path:
    """Where the trial of this number is kept."""
    return folder / "trials" / f"{number:04}.json"


def write_trial(folder: Path, trial: Trial, results: str = "") -> None:
    """Keep what a trial found, in the folder's own place or in `results`."""
    path = trial_file(folder, trial.number)
    with replacing(Path(results) / path.name if results else path) as temporary:
        temporary.write_text(json.dumps(asdict(trial), indent=1), encoding="utf-8")


def examine(folder: Path, trial: Trial, terms: Terms) -> Trial:
    """The trial with its cost, and with its scores if it is worth them; the preset itself always is."""
    recipe = recipe_of(trial.values, terms)
    for fold in range(1, terms.folds + 1):
        parts = read_parts(folder / f"fold-{fold}")
        if terms.budget and trial.cost is None:
            trial = replace(trial, cost=measure_cost(recipe, parts["train"], parts["validation"], terms.budget))
        if trial.number and terms.budget and trial.cost and terms.budget.reasons(trial.cost):
            break
        calibrator = fit(parts["train"], parts["validation"], recipe)
        trial = replace(trial, scores=(*trial.scores, score(calibrator, parts["test"])))
        if trial.number and fold == 1 and terms.hopeless and np.all(np.greater(trial.scores[0], terms.hopeless)):
            break
    return trial


def recipe_of(values: Mapping[str, int | float], terms: Terms) -> Recipe:
    """The recipe of a candidate."""
    start = merged(terms.start, {"training": {"seed": terms.seed}})
    return adjust(make_recipe(start, "start"), nested(values), "knobs")


def score(calibrator: Any, test: Sequence[Readings]) -> Score:
    """RMSE and top-5 % RMSE over all test rows that have a reference; a row without a value is refused."""
    found = compare({"": calibrator}, test)[""]
    rows = sum(int(np.isfinite(one.targets).sum()) for one in test)
    if found.rows < rows:
        raise DataError(f"it has no value for {rows - found.rows} of {rows} rows")
    if not np.isfinite([found.rmse, found.top5_rmse]).all():
        raise DataError("its error is not a number, or no row has a known change of the raw reading")
    return found.rmse, found.top5_rmse
