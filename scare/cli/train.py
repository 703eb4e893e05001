"""`scare train`: from a co-location table to a calibrator."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import FACT, interval_words
from scare.calibrator.selection_table import HEAD, selection_summary, selection_table
from scare.cli import options
from scare.cli.config import Given, read_config
from scare.cli.console import STDERR, emit, is_json_progress, note, progress, show_table
from scare.cli.options import OUTPUT, option
from scare.data.colocation import make_split, read_colocation
from scare.data.readings import Readings
from scare.data.split import Split
from scare.errors import ExitCode, NotApplicableError, UsageError
from scare.experiments.jax_cache import keep_compiled
from scare.extras import require
from scare.files import replacing
from scare.scorecard.accuracy import Accuracy
from scare.scorecard.series import coverage_of
from scare.words import suggestion

# Training as commands show it: progress while it runs, a table of baselines when it is done.


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
    training = require_training()
    with progress("training", "round", "speed", "errors") as (bar, task):

        def report(state: Any) -> None:
            texts: dict[str, Any] = {
                "round": f"{'epoch' if recipe.settings.epochs else 'round'} {state.round}/{state.rounds}",
                "speed": f"{state.windows_per_second:,.0f} windows/s",
                "errors": _errors(state),
            }
            bar.update(task, completed=state.round, total=state.rounds, state=asdict(state), **texts)
            if not (STDERR.is_terminal or is_json_progress()):  # a log shows no bar
                note(", ".join(texts.values()))

        return training.fit(train, validation, recipe, report)


def _errors(state: Any) -> str:
    """Those that are known after this round."""
    found = {"RMSE": state.train_rmse, "validation": state.validation_rmse}
    return ", ".join(f"{name} {value:.3g}" for name, value in found.items() if not isnan(value))


def require_training() -> Any:
    """The training room, or a sentence about how to install it; what it compiles is kept."""
    keep_compiled()
    require("train", "equinox", "jax", "optax")
    from scare.training import fit

    return fit


def recipe_of(given: Given) -> Any:
    """The recipe that a config describes, named after its preset and the file that changes it."""
    require_training()
    from scare.training.recipe import make_recipe

    recipe = make_recipe(given.recipe, given.where)
    return replace(recipe, name=f"{recipe.name}+{Path(given.where).stem}") if given.changes_recipe else recipe


def score_against_baselines(
    calibrator: Calibrator, split: Split, name: str, recipe: Any, beside: Sequence[str] = ()
) -> dict[str, Accuracy]:
    """Raw, linear, those named `beside` and our accuracy on the test part, on the same rows."""
    from scare.baselines.classical import linear_regression, raw_reading
    from scare.experiments.study import compare

    inputs, target = calibrator.inputs, calibrator.target
    rivals = {"raw": raw_reading(inputs, target), "linear": linear_regression(split.train, inputs, target)}
    if len(inputs.channels) > 1:
        rivals["linear, all"] = linear_regression(split.train, inputs, target, len(inputs.channels))
    return compare({**rivals, **_fitted(beside, split, recipe), name: calibrator}, split.test)


def check_baselines(names: Sequence[str]) -> Sequence[str]:
    """The names, if each is a baseline's."""
    if not names:
        return names
    from scare.baselines.classical import BASELINES

    for name in names:
        if name not in BASELINES:
            raise UsageError(f"compare.beside: no baseline is called '{name}'{suggestion(name, BASELINES)}")
    return names


def _fitted(names: Sequence[str], split: Split, recipe: Any) -> dict[str, Any]:
    """Baselines by name, fitted on the windows of a recipe; one that the data do not allow is said."""
    from scare.baselines.classical import BASELINES
    from scare.training.data import prepare_inputs

    found = {}
    for name in names:
        note(f"Fitting {name}.")
        inputs, target = prepare_inputs(split.train, split.validation, recipe)
        try:
            found[name] = BASELINES[name](split.train, split.validation, inputs, target)
        except NotApplicableError as error:
            note(f"{name} {error}")
    return found


def show_scores(scores: Mapping[str, Accuracy], title: str) -> None:
    """The scores as a table on stdout."""
    rows = [[name, *(f"{getattr(score, column):.4g}" for column in SCORE_COLUMNS)] for name, score in scores.items()]
    show_table(title, ["", *SCORE_COLUMNS.values()], rows)


def note_split(split: Split) -> None:
    """How the parts were made, what the results will not show, and what is left out."""
    for line in (f"split {split.description}", *split.notes, *split.left_out):
        note(line)


def show_selection(facts: Mapping[str, Any]) -> None:
    """Print the model selection and its summary; nothing for a model that was not selected."""
    if rows := selection_table(facts):
        show_table(selection_summary(facts), HEAD, rows)


def scores_as_dict(scores: Mapping[str, Accuracy]) -> dict[str, Any]:
    """The scores as plain values."""
    return {name: asdict(score) for name, score in scores.items()}


def train(
    files: options.Files,
    config: options.ConfigFile = None,
    settings: options.Settings = None,
    time: options.TimeColumns = "",
    channels: options.Channels = "",
    reference: options.Reference = "",
    reference_file: options.ReferenceFile = "",
    device_column: options.DeviceColumn = "",
    split: options.Split = None,
    model: options.ModelName = None,
    window: options.Window = None,
    steps: options.Steps = None,
    out: Annotated[Path, option(OUTPUT, "--out", "The calibrator to write.")] = Path("model.scare"),
    as_json: options.Json = False,
) -> None:
    """Train a calibrator on co-located readings and compare it with raw and linear regression.

    Examples:
      scare train sim.parquet --split device --out pm.scare
      scare train box*.csv --time date --channels NO2,OX,T,RH --reference Ref.NO2
      scare train sensor.csv --reference-file station.csv --reference PM2.5
      scare train box*.csv --config no2.toml --window 120
    """
    given = read_config(
        config,
        settings or (),
        data=options.columns(time, channels, reference, device_column, reference_file),
        split={"by": split},
        model={"name": model, "window": window},
        training={"steps": steps},
    )
    recipe, beside = recipe_of(given), check_baselines(given.config.compare.beside)
    with replacing(out) as temporary:  # an output that cannot be written is known before the work, not after
        readings = read_colocation(files, given.config.data, note)
        parts = make_split(readings, files, given.config.data, given.config.split, recipe.window)
        note_split(parts)
        calibrator = fit_with_progress(parts.train, parts.validation, recipe)
        name = f"{calibrator.facts['model']} ({recipe.name})"
        scores = score_against_baselines(calibrator, parts, name, recipe, beside)
        held = {FACT: asdict(covered)} if (covered := coverage_of(calibrator, parts.test)) else {}
        calibrator = calibrator.with_facts(**parts.facts, test_scores=scores_as_dict(scores), **held)
        calibrator.save(temporary)
    _tell(calibrator, scores, out, as_json)


def _tell(calibrator: Calibrator, scores: dict[str, Accuracy], out: Path, as_json: bool) -> None:
    """Print the result; a training that was interrupted says so."""
    if as_json:
        emit({"file": str(out), "scores": scores_as_dict(scores), "facts": dict(calibrator.facts)})
    else:
        unit = f", in {calibrator.target.unit}" if calibrator.target.unit else ""
        rows = next(iter(scores.values())).rows
        show_scores(scores, f"{calibrator.target.name}: {rows:,} test rows{unit}")
        show_selection(calibrator.facts)
    for line in interval_words(calibrator.intervals, calibrator.facts, calibrator.target.unit):
        note(line)
    if calibrator.facts.get("interrupted"):
        note(f"calibrator written to {out}: the best until the interruption, not the end of the training")
        raise typer.Exit(ExitCode.INTERRUPTED)
    note(f"calibrator written to {out}")
