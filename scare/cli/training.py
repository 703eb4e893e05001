"""Training as commands show it: progress while it runs, a table of yardsticks when it is done."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import isnan
from pathlib import Path
from typing import Any

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.ladder_table import HEAD, ladder_table
from scare.cli.config import Given
from scare.cli.console import STDERR, is_told, progress, say, show_table
from scare.data.readings import Readings
from scare.data.split import Split
from scare.errors import NotApplicableError, UsageError
from scare.experiments.compiling import keep_compiled
from scare.extras import require
from scare.scorecard.accuracy import Accuracy
from scare.words import suggestion

SCORE_COLUMNS = {
    "rmse": "RMSE",
    "top5_rmse": "top-5 % RMSE",
    "mae": "MAE",
    "bias": "bias",
    "r2": "R²",
    "slope": "slope",
}


def fit_with_progress(train: Sequence[Readings], validation: Sequence[Readings], recipe: Any) -> Calibrator:
    """Fit with a progress bar on stderr."""
    fit_room = training_room()
    with progress("training", "round", "speed", "errors") as (bar, task):

        def report(state: Any) -> None:
            texts: dict[str, Any] = {
                "round": f"{'epoch' if recipe.settings.epochs else 'round'} {state.round}/{state.rounds}",
                "speed": f"{state.windows_per_second:,.0f} windows/s",
                "errors": _errors(state),
            }
            bar.update(task, completed=state.round, total=state.rounds, state=asdict(state), **texts)
            if not (STDERR.is_terminal or is_told()):  # a log shows no bar
                say(", ".join(texts.values()))

        return fit_room.fit(train, validation, recipe, report)


def _errors(state: Any) -> str:
    """Those that are known after this round."""
    found = {"RMSE": state.train_rmse, "validation": state.validation_rmse}
    return ", ".join(f"{name} {value:.3g}" for name, value in found.items() if not isnan(value))


def training_room() -> Any:
    """The training room, or a sentence about how to install it; what it compiles is kept."""
    keep_compiled()
    require("train", "equinox", "jax", "optax")
    from scare.training import fit

    return fit


def recipe_of(given: Given) -> Any:
    """The recipe that a config describes, named after its preset and the file that changes it."""
    training_room()
    from scare.training.recipes import make_recipe

    recipe = make_recipe(given.recipe, given.where)
    return replace(recipe, name=f"{recipe.name}+{Path(given.where).stem}") if given.changes_recipe else recipe


def score_against_yardsticks(
    calibrator: Calibrator, split: Split, name: str, recipe: Any, beside: Sequence[str] = ()
) -> dict[str, Accuracy]:
    """Raw, linear, those named `beside` and our accuracy on the test part, on the same rows."""
    from scare.experiments.comparison import compare
    from scare.experiments.yardsticks import linear_regression, raw_reading

    inputs, target = calibrator.inputs, calibrator.target
    rivals = {"raw": raw_reading(inputs, target), "linear": linear_regression(split.train, inputs, target)}
    if len(inputs.channels) > 1:
        rivals["linear, all"] = linear_regression(split.train, inputs, target, len(inputs.channels))
    return compare({**rivals, **_fitted(beside, split, recipe), name: calibrator}, split.test)


def check_yardsticks(names: Sequence[str]) -> Sequence[str]:
    """The names, if each is a yardstick's."""
    if not names:
        return names
    from scare.experiments.yardsticks import YARDSTICKS

    for name in names:
        if name not in YARDSTICKS:
            raise UsageError(f"compare.beside: no yardstick is called '{name}'{suggestion(name, YARDSTICKS)}")
    return names


def _fitted(names: Sequence[str], split: Split, recipe: Any) -> dict[str, Any]:
    """Yardsticks by name, fitted on the windows of a recipe; one that the data do not allow is said."""
    from scare.experiments.yardsticks import YARDSTICKS
    from scare.training.preparation import prepare_inputs

    found = {}
    for name in names:
        say(f"fitting {name}")
        inputs, target = prepare_inputs(split.train, split.validation, recipe)
        try:
            found[name] = YARDSTICKS[name](split.train, split.validation, inputs, target)
        except NotApplicableError as error:
            say(f"{name} {error}")
    return found


def show_scores(scores: Mapping[str, Accuracy], title: str) -> None:
    """The scores as a table on stdout."""
    rows = [[name, *(f"{getattr(score, column):.4g}" for column in SCORE_COLUMNS)] for name, score in scores.items()]
    show_table(title, ["", *SCORE_COLUMNS.values()], rows)


def say_split(split: Split) -> None:
    """How the parts were made, what the results will not show, and what is left out."""
    for line in (f"split {split.how}", *split.notes, *split.left_out):
        say(line)


def show_verdict(facts: Mapping[str, Any]) -> None:
    """What a calibrator turned out to be, and its ladder, on stdout; nothing where there was none."""
    if rungs := ladder_table(facts):
        show_table(str(facts["verdict"]), HEAD, rungs)


def scores_as_dict(scores: Mapping[str, Accuracy]) -> dict[str, Any]:
    """The scores as plain values."""
    return {name: asdict(score) for name, score in scores.items()}
