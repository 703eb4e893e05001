"""`scare train`: fit a calibrator to a co-location and compare it with simple methods.

`demo`, `compare`, `tune` and `update` use the parts: `require_training`, `make_recipe`, `fit_with_progress`, the table
of scores.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.equation import describe_equations, equations
from scare.calibrator.intervals import COVERAGE_FACT, describe_intervals
from scare.calibrator.linear import to_unit
from scare.calibrator.model_card import (
    HEAD,
    LINE_FACT,
    candidate_labels,
    cost_summary,
    cost_table,
    describe_expected,
    describe_period,
    describe_refit,
    describe_straight_line,
    selection_summary,
    selection_table,
)
from scare.calibrator.provenance import EXTERNAL_FACT
from scare.calibrator.verdict import verdict_of
from scare.cli import options
from scare.cli.config import LoadedConfig, read_config
from scare.cli.console import STDERR, STDOUT, emit, is_json_progress, note, progress, show_table
from scare.cli.options import OUTPUT, option
from scare.data.colocation import make_split, read_colocation
from scare.data.colocation_check import check_colocation
from scare.data.quantities import STANDARD_TEMPERATURE, display_unit
from scare.data.readings import Readings
from scare.data.split import Split
from scare.errors import DataError, ExitCode, NotApplicableError, UsageError
from scare.experiments.jax_cache import keep_compiled
from scare.extras import require
from scare.files import replacing
from scare.scorecard.accuracy import Accuracy
from scare.scorecard.series import coverage_of
from scare.words import suggestion

SCORE_COLUMNS = {
    "rmse": "RMSE",
    "top5_rmse": "top-5 % RMSE",
    "mae": "MAE",
    "bias": "bias",
    "r2": "R²",
    "slope": "slope",
}


def train(
    files: options.Files,
    config: options.ConfigFile = None,
    settings: options.Settings = None,
    time: options.TimeColumns = "",
    channels: options.Channels = "",
    reference: options.Reference = "",
    reference_file: options.ReferenceFile = "",
    device_column: options.DeviceColumn = "",
    quantity: options.Quantity = "",
    dates: options.SlashDates = "",
    timezone: options.TimeZone = "",
    encoding: options.Encoding = "",
    skip_rows: options.SkipRows = None,
    sheet: options.Sheet = "",
    missing: options.MissingCodes = None,
    reference_timezone: options.ReferenceZone = "",
    stamp: options.StampOption = "",
    standard_temperature: options.StandardTemperature = None,
    split: options.Split = None,
    model: options.ModelName = None,
    preset: options.Preset = None,
    window: options.Window = None,
    floor: options.Floor = None,
    steps: options.Steps = None,
    epochs: options.Epochs = None,
    seed: options.TrainingSeed = None,
    same_air: options.SameAir = False,
    refit: options.Refit = True,
    force: options.Force = False,
    strict: options.StrictData = False,
    board: options.BudgetBoard = None,
    instructions: options.Instructions = None,
    flash: options.Flash = None,
    smallest: options.Smallest = False,
    out: Annotated[Path, option(OUTPUT, "--out", "The calibrator to write.")] = Path("model.scare"),
    as_json: options.Json = False,
) -> None:
    """Train a calibrator on co-located readings and compare it with the raw reading and linear regression.

    Examples:
      scare train sim.parquet --split device --out pm.scare
      scare train box*.csv --time date --channels NO2,OX,T,RH --reference Ref.NO2
      scare train purpleair.csv --reference-file aqs.csv
      scare train sensor.csv --reference-file station.csv --reference PM2.5
      scare train box*.csv --config no2.toml --window 2h
    """
    loaded = read_config(
        config,
        settings or (),
        data={
            **options.columns(time, channels, reference, device_column, reference_file),
            "quantity": quantity or None,
            **options.table_options(dates, timezone, encoding, skip_rows, sheet, missing),
            "reference_table": {"timezone": reference_timezone} if reference_timezone else None,
            "stamp": stamp or None,
            "standard_temperature": standard_temperature,
        },
        split={"by": split},
        model={
            "name": model,
            "preset": preset,
            "window": window,
            "floor": floor,
            "same_air": same_air or None,
        },
        training={"steps": steps, "epochs": epochs, "seed": seed},
        selection={
            "refit": None if refit else False,
            "smallest_within": options.SMALLEST_WITHIN if smallest else None,
        },
        budget={"board": board, "instructions": instructions, "flash": flash},
    )
    recipe = replace(make_recipe(loaded), budget=loaded.config.budget.make())
    baselines = check_baselines(loaded.config.compare.beside)
    notes: list[str] = []

    def notify(line: str) -> None:
        notes.append(line)
        note(line)

    with replacing(out) as temporary:  # an output that cannot be written is reported before the work, not after
        readings = read_colocation(files, loaded.config.data, notify)
        doubts = report_doubts(readings, force, notify)
        recipe = recipe.for_readings(readings)
        parts = make_split(readings, files, loaded.config.data, loaded.config.split, recipe.window)
        note_split(parts)
        with training_progress(recipe) as report:
            evaluation = require_training().evaluate(parts.train, parts.validation, recipe, report)
        with training_progress(recipe, "fitting again") as report:
            calibrator = evaluation.fitted(report)
        name = f"{calibrator.facts['model']} ({recipe.name})"
        recorded = RecordedPredictor(calibrator)
        scores = score_against_baselines(
            recorded,
            parts,
            name,
            recipe,
            evaluation.is_refitted,
            baselines,
            loaded.config.data.standard_temperature,
        )
        coverage = coverage_of(calibrator, recorded.predictions, parts.test)
        facts: dict[str, Any] = {COVERAGE_FACT: coverage} if coverage else {}
        scored = [box.rows(np.isfinite(box.targets)) for box in parts.test]
        facts |= {"test_period": require_training().period_of([box for box in scored if len(box)])}
        names = [channel.name for channel in calibrator.inputs.channels]
        external = [name for name in names if name in loaded.config.data.external]
        facts |= {EXTERNAL_FACT: external} if external else {}
        if not equations(calibrator):
            facts |= {LINE_FACT: straight_line(evaluation)}
        calibrator = calibrator.with_facts(**parts.facts, test_scores=scores_as_dict(scores), **facts)
        if evaluation.is_refitted:
            calibrator.save(evaluated_file(out))
            calibrator = ship(evaluation, calibrator, parts.test)
        calibrator.save(temporary)
    _print_result(calibrator, scores, out, notes, as_json)
    if calibrator.facts.get("interrupted"):
        note(f"The training was interrupted: wrote its best result so far to {out}.")
        raise typer.Exit(ExitCode.INTERRUPTED)
    note(f"Wrote the calibrator to {out}.")
    if refitted := describe_refit(calibrator.facts):
        file = evaluated_file(out)
        note(f"{refitted} The version that was measured is kept in {file}; 'scare score' uses it for those days.")
    if strict and doubts:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _print_result(
    calibrator: Calibrator, scores: Mapping[str, Accuracy], out: Path, notes: Sequence[str], as_json: bool
) -> None:
    """Print verdict, scores, selection, equations and intervals of a calibrator written to `out`.

    `notes` are the messages about the data, for JSON.
    """
    verdict = verdict_of(calibrator.facts, calibrator.inputs.step_seconds, calibrator.target.unit)
    if as_json:
        results = {"scores": scores_as_dict(scores), "verdict": verdict.as_dict() if verdict else None}
        emit({"file": str(out), "notes": list(notes), **results, "facts": dict(calibrator.facts)})
    else:
        if verdict:
            STDOUT.print(verdict.text, markup=False)
        unit = f", in {display_unit(calibrator.target.unit)}" if calibrator.target.unit else ""
        rows = next(iter(scores.values())).rows
        days = describe_period(calibrator.facts["test_period"])
        show_scores(scores, f"{calibrator.target.name}: {rows:,} test rows of {days}{unit}", calibrator)
        if candidates := selection_table(calibrator.facts, _other_channels(calibrator)):
            show_table(selection_summary(calibrator.facts), HEAD, candidates)
        if combinations := cost_table(calibrator.facts):
            show_table(cost_summary(calibrator.facts), *combinations)
    for line in describe_equations(calibrator) or describe_straight_line(calibrator.facts):
        note(line)
    for line in describe_intervals(calibrator.intervals, calibrator.facts, calibrator.target.unit):
        note(line)
    if expected := describe_expected(calibrator.facts, calibrator.target.unit):
        note(expected)


def report_doubts(readings: Sequence[Readings], force: bool, notify: Callable[[str], None]) -> int:
    """Report what makes the co-location doubtful and return how many doubts there are.

    Raises a DataError for one that makes every score meaningless, unless forced.
    """
    doubts = check_colocation(readings)
    for doubt in sorted(doubts, key=lambda doubt: doubt.fatal):  # the others may explain a fatal one
        if doubt.fatal and not force:
            raise DataError(f"{doubt.text} To train anyway, use --force.")
        notify(f"Warning: {doubt.text}")
    return len(doubts)


def straight_line(evaluation: Any) -> list[str]:
    """Fit a straight line to the first channel and return its equation, for spreadsheets and simple systems."""
    from scare.baselines.classical import linear_regression

    readings = (*evaluation.train, *evaluation.validation)
    return describe_equations(linear_regression(readings, evaluation.inputs, evaluation.calibrator.target))


def require_training() -> Any:
    """Import and return `scare.training.fit`; an error says how to install what it needs.

    Also turns on JAX's cache of compiled code on disk.
    """
    keep_compiled()
    require("train", "equinox", "jax", "optax")
    from scare.training import fit

    return fit


def make_recipe(loaded: LoadedConfig) -> Any:
    """Make the recipe that a config describes, named after its preset and the file that changes it."""
    require_training()
    from scare.training import recipe as recipes

    recipe = recipes.make_recipe(loaded.recipe, loaded.where)
    return replace(recipe, name=f"{recipe.name}+{Path(loaded.where).stem}") if loaded.changes_recipe else recipe


def check_baselines(names: Sequence[str]) -> Sequence[str]:
    """Return the names, or raise a UsageError for one that is not a baseline."""
    if not names:
        return names
    from scare.baselines.classical import BASELINES

    for name in names:
        if name not in BASELINES:
            raise UsageError(f"compare.beside: there is no baseline '{name}'{suggestion(name, BASELINES)}")
    return names


def evaluated_file(out: Path) -> Path:
    """Return the file for the calibrator as it was scored, before the fit to the test rows: pm.evaluated.scare."""
    return out.with_name(f"{out.stem}.evaluated{out.suffix}")


def ship(evaluation: Any, evaluated: Calibrator, test: Sequence[Readings]) -> Calibrator:
    """Fit what was evaluated once more, to the test rows as well, and return it to be shipped.

    Its facts are those of the evaluation, because no rows are left to score it on.
    """
    with training_progress(evaluation.recipe, "fitting to all rows") as report:
        shipped: Calibrator = evaluation.refit((*evaluation.train, *evaluation.validation, *test), report)
    return shipped.with_facts(**{**evaluated.facts, "refitted": shipped.facts["refitted"]})


def fit_with_progress(train: Sequence[Readings], validation: Sequence[Readings], recipe: Any) -> Calibrator:
    """Fit all candidates, choose, and fit what was chosen to training and validation."""
    with training_progress(recipe) as report:
        fitted: Calibrator = require_training().fit(train, validation, recipe, report)
    return fitted


@contextmanager
def training_progress(recipe: Any, description: str = "training") -> Iterator[Callable[[Any], None]]:
    """Yield a function that shows training's progress: as a bar on stderr, or in a log as a line per round."""
    with progress(description, "round", "speed", "errors") as (bar, task):

        def report(state: Any) -> None:
            errors = {"RMSE": state.train_rmse, "validation": state.validation_rmse}
            texts: dict[str, Any] = {
                "round": f"{'epoch' if recipe.settings.epochs else 'round'} {state.round}/{state.rounds}",
                "speed": f"{state.windows_per_second:,.0f} windows/s",
                "errors": ", ".join(f"{name} {value:.3g}" for name, value in errors.items() if not isnan(value)),
            }
            bar.update(task, completed=state.round, total=state.rounds, state=asdict(state), **texts)
            if not (STDERR.is_terminal or is_json_progress()):
                note(", ".join(texts.values()))

        yield report


@dataclass(frozen=True)
class RecordedPredictor:
    """A calibrator that records its predictions, so that scores and coverage share one pass over the test rows."""

    calibrator: Calibrator
    predictions: list[pl.DataFrame] = field(default_factory=list)

    @property
    def facts(self) -> Mapping[str, Any]:
        """What is known of the calibrator's training; `compare` reads it from every method."""
        return self.calibrator.facts

    def predict(self, readings: Readings) -> pl.DataFrame:
        """Calibrate readings and append the result to `predictions`."""
        self.predictions.append(self.calibrator.predict(readings))
        return self.predictions[-1]


def score_against_baselines(
    predictor: RecordedPredictor,
    split: Split,
    name: str,
    recipe: Any,
    refit: bool,
    baselines: Sequence[str] = (),
    standard_temperature: float = STANDARD_TEMPERATURE,
) -> dict[str, Accuracy]:
    """Return the accuracy of the raw reading, further baselines and the calibrator on the same test rows.

    With `refit` they are fitted to training and validation, as the calibrator is.
    """
    from scare.baselines.classical import BASELINES, linear_regression, raw_reading
    from scare.experiments.study import compare
    from scare.training.data import prepare_inputs

    # Inputs with all channels; the calibrator may use fewer.
    inputs, target = prepare_inputs(split.train, split.validation, recipe, with_effects=False)
    fitted_to = (*split.train, *split.validation) if refit else split.train
    methods: dict[str, Any] = {}
    if to_unit(inputs.channels[0], target):  # a current in nA is not compared with ppb
        methods["raw"] = raw_reading(inputs, target, standard_temperature=standard_temperature)
    methods["linear"] = linear_regression(fitted_to, inputs, target)
    if len(inputs.channels) > 1:
        methods["linear, all"] = linear_regression(fitted_to, inputs, target, len(inputs.channels))
    for baseline in baselines:
        note(f"Fitting {baseline}.")
        try:
            methods[baseline] = BASELINES[baseline](split.train, split.validation, inputs, target, refit)
        except NotApplicableError as error:
            note(f"{baseline} {error}")
    return compare({**methods, name: predictor}, split.test)


def note_split(split: Split) -> None:
    """Print how the parts were made, what the results will not show, and what is left out."""
    for line in (f"Split {split.description}.", *split.notes, *split.left_out):
        note(line)


def show_scores(scores: Mapping[str, Accuracy], title: str, calibrator: Calibrator) -> None:
    """Print the scores as a table, with readable names for the baselines."""
    candidates = candidate_labels(_other_channels(calibrator))
    labels = {
        "raw": candidates["raw"],
        "linear": candidates["line"],
        "linear, all": candidates["other channels"],
        "ridge": "ridge regression on the window",
        "boosting": "gradient boosting",
        "ridge-boosting": "ridge regression + gradient boosting",
    }
    rows = [
        [labels.get(name, name), *(f"{getattr(score, column):.4g}" for column in SCORE_COLUMNS)]
        for name, score in scores.items()
    ]
    show_table(title, ["", *SCORE_COLUMNS.values()], rows)


def scores_as_dict(scores: Mapping[str, Accuracy]) -> dict[str, Any]:
    """Return the scores as plain values, for JSON and for the facts of a calibrator."""
    return {name: asdict(score) for name, score in scores.items()}


def _other_channels(calibrator: Calibrator) -> list[str]:
    """Return the names of the channels beside the one that is calibrated."""
    return [channel.name for channel in calibrator.inputs.channels[1:]]
