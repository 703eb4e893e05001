"""A co-location as a config describes it: tables read, a reference joined, rows flagged, parts kept apart.

Comes from `tables` and `alignment`; goes to whatever fits or scores. What a person should know goes to `say`.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import numpy as np
import polars as pl

from scare.data.alignment import align, average, find_clock_offset, shift
from scare.data.flags import count_flags, drop_unusable_references, find_dead_channels, flag
from scare.data.inspection import inspect_table
from scare.data.mapping import ColumnMapping, DataSection
from scare.data.quantities import guess_unit
from scare.data.readings import Channel, Readings
from scare.data.split import Split, split_by_device, split_by_label, split_by_site, split_by_time
from scare.data.tables import check_step, read_labels, read_readings
from scare.errors import DataError, UsageError
from scare.words import spell_counts

COLUMNS = tuple(field.name for field in fields(ColumnMapping))
Say = Callable[[str], object]


class SplitBy(StrEnum):
    """What keeps training, validation and test apart."""

    TIME = "time"
    DEVICE = "device"
    SITE = "site"


@dataclass(frozen=True)
class SplitSection:
    """How training, validation and test are kept apart."""

    by: SplitBy = SplitBy.TIME
    borders: tuple[str, ...] = ()
    column: str = ""


def read_files(files: Sequence[Path], data: DataSection, say: Say) -> list[Readings]:
    """The readings of all files, each beside its reference; several files are several devices."""
    if not data.reference_file:
        return _read(files, data, say)
    sensors = _read(files, replace(data, reference=None), say, with_reference=False)
    name = data.reference.name if data.reference else ""
    return join(sensors, data, name, say)


def _read(files: Sequence[Path], data: DataSection, say: Say, with_reference: bool = True) -> list[Readings]:
    readings: list[Readings] = []
    mapping: ColumnMapping | None = None
    for file in files:
        mapping = mapping or _announced(file, data, say, with_reference)
        readings += read_readings(file, mapping)
    devices = [one.device for one in readings]
    for device in devices:
        if devices.count(device) > 1:
            raise DataError(f"two files hold a device called '{device}'; rename one or join them")
    return readings


def _announced(file: Path, data: DataSection, say: Say, with_reference: bool) -> ColumnMapping:
    """The mapping of the first file, which holds for all; what was guessed is said."""
    mapping, guessed = column_mapping(file, data)
    if not with_reference:
        mapping = replace(mapping, reference=None)
    elif mapping.reference is None:
        raise DataError(f"{file}: no reference; name its column with --reference or its table with --reference-file")
    if guessed and (flags := as_flags(mapping, data)):
        say(f"{file}: guessed {flags}")
    return mapping


def column_mapping(file: Path, data: DataSection) -> tuple[ColumnMapping, bool]:
    """The mapping that [data] gives, completed by a look at the file; and whether anything was guessed."""
    given = {name: value for name in COLUMNS if (value := getattr(data, name))}
    if data.time and data.channels:
        return ColumnMapping(**given), False
    guess = inspect_table(file, data.dates).mapping
    described = (*guess.channels, *([guess.reference] if guess.reference else ()))
    known = {channel.name: channel for channel in described}
    given["channels"] = tuple(_known(channel, known) for channel in data.channels or guess.channels)
    if data.reference:
        given["reference"] = _known(data.reference, known)
        if not data.channels:
            given["channels"] = tuple(one for one in guess.channels if one.name != data.reference.name)
    return replace(guess, **given), True


def _known(channel: Channel, known: Mapping[str, Channel]) -> Channel:
    """The channel, with the guessed unit and limits if only its name was given."""
    return known.get(channel.name, channel) if channel == Channel(channel.name) else channel


def as_flags(mapping: ColumnMapping, given: DataSection) -> str:
    """The mapping as options to paste, without what is given.

    >>> mapping = ColumnMapping(("date",), (Channel("NO2"), Channel("T")), Channel("Ref.NO2"), sort=True)
    >>> as_flags(mapping, DataSection())
    '--time date --channels NO2,T --reference Ref.NO2, data.sort = true'
    >>> as_flags(mapping, DataSection(reference=Channel("Ref.NO2"), sort=True))
    '--time date --channels NO2,T'
    """
    options = {
        "time": ",".join(mapping.time),
        "channels": ",".join(channel.name for channel in mapping.channels),
        "reference": mapping.reference.name if mapping.reference else "",
        "device_column": mapping.device_column,
    }
    new = {name: value for name, value in options.items() if value and not getattr(given, name)}
    flags = " ".join(f"--{name.replace('_', '-')} {shlex.quote(value)}" for name, value in new.items())
    only_keys = [name for name in ("site_column", "sort") if getattr(mapping, name) and not getattr(given, name)]
    keys = [f"data.{name} = {json.dumps(getattr(mapping, name))}" for name in only_keys]
    return ", ".join([*([flags] if flags else []), *keys])


def join(readings: Sequence[Readings], data: DataSection, column: str, say: Say) -> list[Readings]:
    """The readings beside the reference of another file."""
    file, apply_offset = Path(data.reference_file), data.apply_offset
    found = inspect_table(file, data.dates)
    found.table.require([column] if column else [])
    guesses = [one.name for one in (*found.references, *found.channels)]
    if not column and not guesses:
        raise DataError(f"{file}: no column looks like a reference; name it with --reference")
    name = column or guesses[0]
    if not column:
        say(f"{file}: guessed --reference {name}")
    in_order = found.duplicates + found.out_of_order == 0
    mapping = ColumnMapping(found.time, (Channel(name, guess_unit(name)),), sort=not in_order, dates=data.dates)
    (station,) = read_readings(file, mapping)
    if find_dead_channels(station):
        raise DataError(f"{file}: the column '{name}' has no usable number; take another one with --reference")
    joined = []
    for one in readings:
        if find_dead_channels(one):  # has no clock to set; a split leaves it out
            joined.append(align(one, station))
            continue
        offset = find_clock_offset(one, station, one.channels[0].name)
        say(
            f"{one.device}: best correlation {offset.correlation:.3f} with the sensor shifted by {offset.seconds:g} s"
            f" ({offset.correlation_at_zero:.3f} unshifted){'; shifted' if apply_offset else ''}"
        )
        joined.append(align(shift(one, offset.seconds) if apply_offset else one, station))
    return joined


def read_colocation(files: Sequence[Path], data: DataSection, say: Say) -> list[Readings]:
    """Read files as `read_files` does and `prepare` each device's readings."""
    return [prepare(one, data.step, say) for one in read_files(files, data, say)]


def prepare(readings: Readings, step: float | None, say: Say) -> Readings:
    """Averaged if asked, of one time step, with quality flags."""
    if step is not None:
        readings = average(readings, step)
    check_step(readings)
    flagged = flag(drop_unusable_references(readings))
    lost = int(np.isfinite(readings.targets).sum() - np.isfinite(flagged.targets).sum())
    if lost and readings.reference is not None:
        say(
            f"{readings.device}: {lost} values of {readings.reference.name} stand for 'no reading' and count as missing"
        )
    if flagged.flags.any():
        say(f"{readings.device}: flagged rows: {spell_counts(count_flags(flagged.flags))}")
    return flagged


def make_split(
    readings: Sequence[Readings], files: Sequence[Path], data: DataSection, split: SplitSection, window: int
) -> Split:
    """Training, validation and test as [split] says."""
    if split.borders and (split.column or split.by is not SplitBy.TIME):
        raise UsageError("split.borders goes with a split by time only")
    if split.column:
        return _divide_by_column(readings, files, data, split.column)
    if split.by is SplitBy.DEVICE:
        return split_by_device(readings)
    if split.by is SplitBy.SITE:
        return split_by_site(readings)
    step = float(np.median([one.step_seconds for one in readings]))
    times = [parse_time(text, "split.borders") for text in split.borders]
    if len(times) not in (0, 2):
        raise UsageError(f"split.borders takes two times, not {len(times)}")
    try:
        return split_by_time(readings, window * step, borders=(times[0], times[1]) if times else None)
    except DataError as error:
        raise DataError(f"{error}; a shorter window, other split.borders or more data may help") from error


def _divide_by_column(readings: Sequence[Readings], files: Sequence[Path], data: DataSection, name: str) -> Split:
    """Training, validation and test as a column of the files says."""
    mapping, _ = column_mapping(files[0], data)
    labels: dict[str, pl.DataFrame] = {}
    for file in files:
        labels |= read_labels(file, mapping, name)
    return split_by_label(readings, labels)


def parse_time(text: str, key: str) -> datetime:
    """The time that a key of a config names; UTC unless it says otherwise."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise UsageError(f"{key}: '{text}' is not an ISO 8601 time such as 2020-01-24T12:00") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
