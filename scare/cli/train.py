"""`scare train`: from a co-location table to a calibrator."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.interval_words import FACT, interval_words
from scare.cli import options
from scare.cli.config import read_config
from scare.cli.console import emit, say
from scare.cli.options import OUTPUT, option
from scare.cli.training import (
    check_yardsticks,
    fit_with_progress,
    recipe_of,
    say_split,
    score_against_yardsticks,
    scores_as_dict,
    show_scores,
    show_verdict,
)
from scare.data.colocation import divide, prepare, read
from scare.errors import ExitCode
from scare.files import replacing
from scare.scorecard.accuracy import Accuracy
from scare.scorecard.series import coverage_of


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
    recipe, beside = recipe_of(given), check_yardsticks(given.config.compare.beside)
    with replacing(out) as temporary:  # an output that cannot be written is known before the work, not after
        readings = [prepare(one, given.config.data.step, say) for one in read(files, given.config.data, say)]
        parts = divide(readings, files, given.config.data, given.config.split, recipe.window)
        say_split(parts)
        calibrator = fit_with_progress(parts.train, parts.validation, recipe)
        name = f"{calibrator.facts['model']} ({recipe.name})"
        scores = score_against_yardsticks(calibrator, parts, name, recipe, beside)
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
        show_verdict(calibrator.facts)
    for line in interval_words(calibrator.intervals, calibrator.facts, calibrator.target.unit):
        say(line)
    if calibrator.facts.get("interrupted"):
        say(f"calibrator written to {out}: the best until the interruption, not the end of the training")
        raise typer.Exit(ExitCode.INTERRUPTED)
    say(f"calibrator written to {out}")
