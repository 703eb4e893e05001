"""Trials of a tuning search: which hyperparameters it varies, and how one candidate is examined.

    folder/fold-1/…             the readings of a fold, as `study` keeps them
    folder/trials/0007.json     the result of a finished trial

A trial measures a candidate's cost on a board, then its error on one fold after the other, in a process of its own that
is given plain values. It stops early when the candidate is over the budget, or after the first fold when it is hopeless
there. A config file calls the hyperparameters `[tune.knobs]`.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import MinLen

from scare.board.measure import BoardBudget, Cost
from scare.data.readings import Readings
from scare.data.split import FEWEST_READINGS
from scare.errors import DataError, ScareError, UsageError
from scare.executor import run_on_packed
from scare.experiments.jax_cache import forget_compiled
from scare.experiments.study import compare
from scare.experiments.study_task import read_parts
from scare.experiments.untrained import measure_cost
from scare.files import replacing
from scare.schema import convert, merge, read_json
from scare.training.fit import fit
from scare.training.recipe import Recipe, adjust, flattened, look_up, make_recipe, nested

Number = int | float
SearchSpace = Mapping[str, tuple[Number, ...]]  # the values to try, by the hyperparameter's dotted name in a recipe
Score = tuple[float, float]  # RMSE, and RMSE of the 5 % of rows with the largest change

HYPERPARAMETERS: dict[str, tuple[Number, ...]] = {
    "model.front.width": (4, 8, 12, 16),  # D
    "model.block.hidden": (16, 32, 64),  # F
    "model.attention.bits": (4, 8, 16),  # c
    "model.attention.supports": (8, 16, 32),  # m
    "training.steps": (1500, 3000, 6000),
    "training.rate": (0.00125, 0.0025, 0.005, 0.01, 0.02),
    "training.weight_decay": (0.0, 0.001, 0.01, 0.1),
    "training.members": (1, 2, 3),
}
WINDOW, SEED = "model.window", "training.seed"
WINDOW_FACTORS = (0.5, 1, 2, 4)  # window lengths to try, in lengths of the preset's window
ON_BOARD = ("model.", "training.members")  # prefixes of hyperparameters that change the cost on a board


def default_space(preset: Recipe) -> SearchSpace:
    """Make the search space used without a config file, with window lengths around the preset's.

    >>> default_space(Recipe(window=24))["model.window"]
    (12, 24, 48, 96)
    """
    lengths = tuple(max(FEWEST_READINGS, round(factor * preset.window_readings)) for factor in WINDOW_FACTORS)
    return _with_preset({WINDOW: lengths, **HYPERPARAMETERS}, preset)


def make_space(tables: Mapping[str, Any], preset: Recipe, where: Path | str) -> SearchSpace:
    """Make the search space from [tune.knobs], the tables of a recipe with a list of numbers for each key.

    Every number is checked, and the preset's own value is added to each list.
    """
    listed = convert(flattened(tables), dict[str, Annotated[tuple[Number, ...], MinLen(1)]], where)
    if SEED in listed:
        raise UsageError(f"{where}: '{SEED}' cannot be tuned, since a seed that scores better is luck; leave it out")
    for name, values in listed.items():
        for value in values:
            adjust(preset, nested({name: value}), where)  # raises if the recipe cannot have this value
    return _with_preset({WINDOW: (preset.window_readings,), **listed}, preset)


def preset_values(space: SearchSpace, preset: Recipe) -> dict[str, Number]:
    """Return the preset's own value of each hyperparameter."""
    return {name: look_up(preset, name) for name in space}


def architecture(values: Mapping[str, Number]) -> dict[str, Number]:
    """Select the hyperparameters that change the cost on a board."""
    return {name: value for name, value in values.items() if name.startswith(ON_BOARD)}


def _with_preset(space: SearchSpace, preset: Recipe) -> SearchSpace:
    """Add the preset's own value to the values of each hyperparameter, and sort them."""
    return {name: tuple(sorted({*space[name], value})) for name, value in preset_values(space, preset).items()}


@dataclass(frozen=True)
class Trial:
    """A candidate (hyperparameters by dotted name) with its cost and scores so far; trial 0 is the preset itself."""

    number: int
    values: Mapping[str, int | float]
    cost: Cost | None = None
    scores: tuple[Score, ...] = ()  # one per fold
    seconds: float = 0.0
    failed: str | None = None

    @property
    def mean(self) -> Score:
        """The mean score over the folds."""
        rmse, top5 = np.mean(self.scores, axis=0).tolist()
        return rmse, top5


@dataclass(frozen=True)
class TrialSettings:
    """What all trials of a search share.

    A candidate whose two errors on the first fold (RMSE, top-5 % RMSE) are both above those of `hopeless` ends there.
    """

    folds: int
    seed: int = 0
    start: Mapping[str, Any] = field(default_factory=dict)  # tables of the recipe that the search begins at
    budget: BoardBudget | None = None
    hopeless: Score | None = None

    def recipe(self, values: Mapping[str, int | float]) -> Recipe:
        """Return the recipe of a candidate."""
        start = merge(self.start, {"training": {"seed": self.seed}})
        return adjust(make_recipe(start, "start"), nested(values), "knobs")


def read_trials(folder: Path) -> list[Trial]:
    """Read the finished trials of a folder, sorted by number."""
    return [read_json(path, Trial) for path in sorted((folder / "trials").glob("[0-9]*.json"))]


def trial_file(folder: Path, number: int) -> Path:
    """Return the file of the trial of this number."""
    return folder / "trials" / f"{number:04}.json"


def write_trial(folder: Path, trial: Trial, results: str = "") -> None:
    """Write a trial's result to its file, or to a file of the same name in the folder `results`."""
    path = trial_file(folder, trial.number)
    with replacing(Path(results) / path.name if results else path) as temporary:
        temporary.write_text(json.dumps(asdict(trial), indent=1), encoding="utf-8")


def run_sent_trial(packed: bytes, trial: dict[str, Any], settings: dict[str, Any]) -> dict[str, bytes]:
    """Like `run_trial`, on a cluster: the folds are sent along, the result file is sent back."""
    return run_on_packed(packed, run_trial, trial, settings)


def run_trial(folder: str, trial: dict[str, Any], settings: dict[str, Any], results: str = "") -> None:
    """Examine one candidate and write its result; any exception becomes its reason in `failed`."""
    begun = time.perf_counter()
    candidate = convert(trial, Trial, "trial")
    try:
        candidate = examine(Path(folder), candidate, convert(settings, TrialSettings, "trial"))
    except ScareError as error:
        candidate = replace(candidate, failed=str(error))
    except Exception as error:
        candidate = replace(candidate, failed=f"{type(error).__name__}: {error}")
    write_trial(Path(folder), replace(candidate, seconds=round(time.perf_counter() - begun, 2)), results)
    forget_compiled()  # what JAX compiled for a few hundred trials would fill the memory of this process


def examine(folder: Path, trial: Trial, settings: TrialSettings) -> Trial:
    """Measure a trial's cost, then score it fold by fold, until it is over the budget or hopeless.

    The preset, trial 0, is always scored on all folds.
    """
    recipe, budget = settings.recipe(trial.values), settings.budget
    is_preset = trial.number == 0
    for number in range(1, settings.folds + 1):
        parts = read_parts(folder / f"fold-{number}")
        if budget and trial.cost is None:
            trial = replace(trial, cost=measure_cost(recipe, parts["train"], parts["validation"], budget))
        if not is_preset and budget and trial.cost and budget.reasons(trial.cost):
            break
        calibrator = fit(parts["train"], parts["validation"], recipe)
        trial = replace(trial, scores=(*trial.scores, score(calibrator, parts["test"])))
        is_hopeless = settings.hopeless and np.all(np.greater(trial.scores[0], settings.hopeless))
        if number == 1 and not is_preset and is_hopeless:
            break
    return trial


def score(calibrator: Any, test: Sequence[Readings]) -> Score:
    """Compute RMSE and top-5 % RMSE over all test rows with a reference; raises if one of them has no value."""
    accuracy = compare({"": calibrator}, test)[""]
    rows = sum(int(np.isfinite(box.targets).sum()) for box in test)
    if accuracy.rows < rows:
        raise DataError(f"the candidate has no value for {rows - accuracy.rows} of {rows} rows")
    if not np.isfinite([accuracy.rmse, accuracy.top5_rmse]).all():
        raise DataError("the candidate's error is not a number, or no row has a known change of the raw reading")
    return accuracy.rmse, accuracy.top5_rmse
