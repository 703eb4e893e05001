"""A co-location as `train` takes it: tables read, a reference joined, rows flagged, parts kept apart."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scare.cli import options
from scare.cli.console import say
from scare.data.alignment import align, average, find_clock_offset, shift
from scare.data.dead_channels import find_dead
from scare.data.inspection import inspect_table
from scare.data.mapping import ColumnMapping
from scare.data.quality import flag, summary, without_unusable_references
from scare.data.quantities import guess_unit
from scare.data.readings import Channel, Readings
from scare.data.split import Split, split_by_device, split_by_label, split_by_site, split_by_time
from scare.data.tables import check_step, read_labels, read_readings
from scare.errors import DataError, UsageError


class SplitBy(StrEnum):
    """What keeps training, validation and test apart."""

    TIME = "time"
    DEVICE = "device"
    SITE = "site"


def read(
    files: Sequence[Path], mapping_file: Path | None, columns: Mapping[str, Any], with_reference: bool = True
) -> list[Readings]:
    """The readings of all files; several files are several devices."""
    readings: list[Readings] = []
    mapping: ColumnMapping | None = None
    for file in files:
        if mapping is None:
            mapping, guessed = options.column_mapping(file, mapping_file, **columns)
            if not with_reference:
                mapping = replace(mapping, reference=None)
            elif mapping.reference is None:
                raise DataError(
                    f"{file}: no reference; name its column with --reference or its table with --reference-file"
                )
            flags = options.as_flags(mapping, [name for name, value in columns.items() if value])
            if guessed and flags:
                say(f"{file}: guessed {flags}")
        readings += read_readings(file, mapping)
    devices = [one.device for one in readings]
    for device in devices:
        if devices.count(device) > 1:
            raise DataError(f"two files hold a device called '{device}'; rename one or join them")
    return readings


def join(readings: Sequence[Readings], file: Path, column: str, apply_offset: bool) -> list[Readings]:
    """The readings beside the reference of another file."""
    found = inspect_table(file)
    found.table.require([column] if column else [])
    guesses = [one.name for one in (*found.references, *found.channels)]
    if not column and not guesses:
        raise DataError(f"{file}: no column looks like a reference; name it with --reference")
    name = column or guesses[0]
    if not column:
        say(f"{file}: guessed --reference {name}")
    in_order = found.duplicates + found.out_of_order == 0
    mapping = ColumnMapping(found.time, (Channel(name, guess_unit(name)),), sort=not in_order)
    (station,) = read_readings(file, mapping)
    if find_dead(station):
        raise DataError(f"{file}: the column '{name}' has no usable number; take another one with --reference")
    joined = []
    for one in readings:
        if find_dead(one):  # has no clock to set; a split leaves it out
            joined.append(align(one, station))
            continue
        offset = find_clock_offset(one, station, one.channels[0].name)
        say(
            f"{one.device}: best correlation {offset.correlation:.3f} with the sensor shifted by {offset.seconds:g} s"
            f" ({offset.correlation_at_zero:.3f} unshifted){'; shifted' if apply_offset else ''}"
        )
        joined.append(align(shift(one, offset.seconds) if apply_offset else one, station))
    return joined


def prepare(readings: Readings, step: float | None) -> Readings:
    """Averaged if asked, of one time step, with quality flags."""
    if step is not None:
        readings = average(readings, step)
    check_step(readings)
    flagged = flag(without_unusable_references(readings))
    lost = int(np.isfinite(readings.targets).sum() - np.isfinite(flagged.targets).sum())
    if lost and readings.reference is not None:
        say(
            f"{readings.device}: {lost} values of {readings.reference.name} stand for 'no reading' and count as missing"
        )
    if flagged.flags.any():
        say(f"{readings.device}: flagged rows: {options.counts(summary(flagged.flags))}")
    return flagged


def say_split(split: Split) -> None:
    """How the parts were made, what the results will not show, and what is left out."""
    for line in (f"split {split.how}", *split.notes, *split.left_out):
        say(line)


def divide(readings: Sequence[Readings], by: SplitBy, window: int, borders: str) -> Split:
    """Training, validation and test."""
    if borders and by is not SplitBy.TIME:
        raise UsageError(f"--borders goes with --split time, not with --split {by}")
    if by is SplitBy.DEVICE:
        return split_by_device(readings)
    if by is SplitBy.SITE:
        return split_by_site(readings)
    step = float(np.median([one.step_seconds for one in readings]))
    times = [moment(text, "--borders") for text in borders.split(",")] if borders else []
    if len(times) not in (0, 2):
        raise UsageError(f"--borders takes two times with a comma between them, not '{borders}'")
    try:
        return split_by_time(readings, window * step, borders=(times[0], times[1]) if times else None)
    except DataError as error:
        raise DataError(f"{error}; a shorter --window, other --borders or more data may help") from error


def divide_by_column(
    readings: Sequence[Readings],
    files: Sequence[Path],
    mapping_file: Path | None,
    columns: Mapping[str, Any],
    name: str,
) -> Split:
    """Training, validation and test as a column of the files says."""
    mapping, _ = options.column_mapping(files[0], mapping_file, **columns)
    labels: dict[str, pl.DataFrame] = {}
    for file in files:
        labels |= read_labels(file, mapping, name)
    return split_by_label(readings, labels)


def moment(text: str, option: str) -> datetime:
    """The time that an option names; UTC unless it says otherwise."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise UsageError(f"{option}: '{text}' is not an ISO 8601 time such as 2020-01-24T12:00") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
