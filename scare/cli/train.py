"""`scare train`: from a co-location table to a calibrator."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from scare.calibrator.calibrator import Calibrator
from scare.cli import options
from scare.cli.console import emit, say
from scare.cli.training import fit_with_progress, score_against_yardsticks, scores_as_dict, show_scores, training_room
from scare.data.alignment import align, average, find_clock_offset, shift
from scare.data.files import replacing
from scare.data.mapping import ColumnMapping, suggestion
from scare.data.quality import flag, summary
from scare.data.readings import Channel, Readings
from scare.data.split import Split, split_by_device, split_by_site, split_by_time
from scare.data.tables import check_step, read_readings
from scare.errors import ExitCode, UsageError
from scare.scorecard.accuracy import Accuracy


class SplitBy(StrEnum):
    """What keeps training, validation and test apart."""

    TIME = "time"
    DEVICE = "device"
    SITE = "site"


class ScalingKind(StrEnum):
    """How channels are scaled."""

    AUTO = "auto"
    DEVICE = "device"
    POOLED = "pooled"
    ROBUST = "robust"
    CONSTANT = "constant"


def train(
    files: Annotated[list[Path], typer.Argument(help="One file a device, or one long file with a device column.")],
    out: Annotated[Path, typer.Option("--out", help="The calibrator to write.")] = Path("model.scare"),
    time: options.TimeColumns = "",
    channels: options.Channels = "",
    reference: options.Reference = "",
    device_column: options.DeviceColumn = "",
    site_column: options.SiteColumn = "",
    mapping: options.MappingFile = None,
    sort: options.Sort = False,
    step: Annotated[float, typer.Option("--step", help="Average to this many seconds first.")] = 0.0,
    reference_file: Annotated[
        Path | None, typer.Option("--reference-file", help="Table of the reference, if apart.")
    ] = None,
    apply_offset: Annotated[
        bool, typer.Option("--apply-offset", help="Shift the sensor by the clock offset found.")
    ] = False,
    model: Annotated[str, typer.Option("--model", help="Which model to train.")] = "scare",
    preset: Annotated[str, typer.Option("--preset", help="default, or paper.")] = "default",
    window: Annotated[int, typer.Option("--window", help="Readings a calibrated value is made from.")] = 60,
    split: Annotated[SplitBy, typer.Option("--split", help="What keeps the test apart.")] = SplitBy.TIME,
    borders: Annotated[
        str, typer.Option("--borders", help="Two times for --split time: where validation and test begin.")
    ] = "",
    scaling: Annotated[
        ScalingKind, typer.Option("--scaling", help="Per device, pooled, robust, or /300.")
    ] = ScalingKind.AUTO,
    gap_policy: Annotated[str, typer.Option("--gap-policy", help="recent, or strict.")] = "recent",
    epochs: Annotated[int, typer.Option("--epochs", help="Length in epochs.")] = 0,
    steps: Annotated[int, typer.Option("--steps", help="Length in steps.")] = 0,
    rate: Annotated[float, typer.Option("--rate", help="Peak learning rate.")] = 0.0,
    batch: Annotated[int, typer.Option("--batch", help="Windows a step.")] = 0,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Train a calibrator on co-located readings and compare it with raw and linear regression.

    Examples:
      scare train sim.parquet --split device --out pm.scare
      scare train sim.parquet --model scare --preset paper --window 360 --epochs 2 --seed 5 --out m.scare
      scare train box*.csv --time date --channels NO2,OX,T,RH --reference Ref.NO2 --split time --out no2.scare
      scare train sensor.csv --reference-file station.csv --reference PM2.5 --out pm25.scare
    """
    settings = {"epochs": epochs, "steps": steps, "rate": rate, "batch": batch, "seed": seed}
    recipe = _recipe(model, preset, window, gap_policy, scaling, settings)
    columns = {"time": time, "channels": channels, "device_column": device_column, "site_column": site_column}
    with replacing(out) as temporary:  # an output that cannot be written is known before the work, not after
        readings = _read(files, mapping, {**columns, "reference": "" if reference_file else reference, "sort": sort})
        if reference_file is not None:
            readings = _join(readings, reference_file, reference, apply_offset)
        parts = _split([_prepared(one, step) for one in readings], split, window, borders)
        for note in parts.notes:
            say(f"note: {note}")
        calibrator = fit_with_progress(parts.train, parts.validation, recipe)
        scores = score_against_yardsticks(calibrator, parts, f"{calibrator.facts['model']} ({preset})")
        calibrator = calibrator.with_facts(split=parts.how, test_scores=scores_as_dict(scores))
        calibrator.save(temporary)
    _tell(calibrator, scores, out, as_json)


def _tell(calibrator: Calibrator, scores: dict[str, Accuracy], out: Path, as_json: bool) -> None:
    """Print the result; a training that was interrupted says so."""
    if as_json:
        emit({"file": str(out), "scores": scores_as_dict(scores), "facts": dict(calibrator.facts)})
    else:
        unit = f", in {calibrator.target.unit}" if calibrator.target.unit else ""
        rows = next(iter(scores.values())).rows
        show_scores(scores, f"{calibrator.target.name}: {rows:,} test rows, {calibrator.facts['split']}{unit}")
    say(f"calibrator written to {out}")
    if calibrator.facts.get("interrupted"):
        say("interrupted: this is the best network found until then, not the end of the training")
        raise typer.Exit(ExitCode.INTERRUPTED)


def _recipe(model: str, preset: str, window: int, policy: str, scaling: ScalingKind, settings: dict[str, Any]) -> Any:
    """The recipe that the options describe."""
    training_room()
    from scare.training.settings import MODELS, POLICIES, Recipe

    for name, known in ((model, MODELS), (policy, POLICIES)):
        if name not in known:
            raise UsageError(f"there is no '{name}'{suggestion(name, known)}; there are {', '.join(known)}")
    given = {name: value for name, value in settings.items() if value or name == "seed"}
    recipe = replace(Recipe.preset(preset, window, **given), policy=POLICIES[policy])
    choices: dict[ScalingKind, dict[str, Any]] = {
        ScalingKind.AUTO: {},
        ScalingKind.DEVICE: {"scaling": "standard", "per_device": True},
        ScalingKind.POOLED: {"scaling": "standard", "per_device": False},
        ScalingKind.ROBUST: {"scaling": "robust"},
        ScalingKind.CONSTANT: {"scaling": "constant"},
    }
    return replace(recipe, **choices[scaling])


def _read(files: Sequence[Path], mapping_file: Path | None, columns: dict[str, Any]) -> list[Readings]:
    """The readings of all files; several files are several devices."""
    readings: list[Readings] = []
    mapping: ColumnMapping | None = None
    for file in files:
        if mapping is None:
            mapping, guessed = options.column_mapping(file, mapping_file, **columns)
            if guessed:
                names = ", ".join(channel.name for channel in mapping.channels)
                target = mapping.reference.name if mapping.reference else "none"
                say(f"{file}: time {' + '.join(mapping.time)}; channels {names}; reference {target} (guessed)")
        readings += read_readings(file, mapping)
    return readings


def _join(readings: Sequence[Readings], file: Path, column: str, apply_offset: bool) -> list[Readings]:
    """The readings beside the reference of another file."""
    mapping, _ = options.column_mapping(file, None)
    candidates = [*mapping.channels, *([mapping.reference] if mapping.reference else [])]
    chosen = next((channel for channel in candidates if channel.name == column), candidates[-1] if not column else None)
    if chosen is None:
        names = ", ".join(channel.name for channel in candidates)
        raise UsageError(f"{file}: no column '{column}'; there are {names}")
    station = read_readings(file, ColumnMapping(mapping.time, (Channel(chosen.name, chosen.unit),), sort=mapping.sort))[
        0
    ]
    joined = []
    for one in readings:
        offset = find_clock_offset(one, station, one.channels[0].name)
        say(
            f"{one.device}: best correlation {offset.correlation:.3f} with the sensor shifted by {offset.seconds:g} s"
            f" ({offset.correlation_at_zero:.3f} unshifted){'; applied' if apply_offset else ''}"
        )
        joined.append(align(shift(one, offset.seconds) if apply_offset else one, station))
    return joined


def _prepared(readings: Readings, step: float) -> Readings:
    """Averaged if asked, of one time step, with quality flags."""
    if step:
        readings = average(readings, step)
    check_step(readings)
    flagged = flag(readings)
    found = {name: count for name, count in summary(flagged.flags).items() if count}
    if found:
        say(
            f"{readings.device}: {', '.join(f'{count} {name.lower()}' for name, count in found.items())} (flagged rows)"
        )
    return flagged


def _split(readings: Sequence[Readings], by: SplitBy, window: int, borders: str) -> Split:
    if by is SplitBy.DEVICE:
        return split_by_device(readings)
    if by is SplitBy.SITE:
        return split_by_site(readings)
    step = float(np.median([one.step_seconds for one in readings]))
    times = [_moment(text) for text in borders.split(",")] if borders else []
    if len(times) not in (0, 2):
        raise UsageError(f"--borders takes two times with a comma between them, not '{borders}'")
    return split_by_time(readings, window * step, borders=(times[0], times[1]) if times else None)


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise UsageError(f"--borders: '{text}' is not an ISO 8601 time such as 2020-01-24T12:00") from error
