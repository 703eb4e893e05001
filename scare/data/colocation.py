"""Co-locations: read tables, join a reference, flag rows, split.

A `--config` file describes one co-location; `notify` is called with what a person should know: guesses, clock offsets,
flagged rows. Called by whatever fits or scores.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import numpy as np
import polars as pl

from scare.data.alignment import average, check_step
from scare.data.column_guess import Inspection, inspect_table
from scare.data.column_kind import with_limits
from scare.data.column_mapping import ColumnMapping, DataSection, read_labels, read_readings
from scare.data.flags import count_flags, drop_unusable_references, flag
from scare.data.quantities import parse_quantity
from scare.data.readings import Channel, Readings
from scare.data.reference_file import Notify, choose_pair, find_zones, inspect_reference, join_reference, read_station
from scare.data.split import Split, split_by_device, split_by_label, split_by_site, split_by_time, suggest_window
from scare.data.tables import open_table
from scare.data.time_zones import NO_ZONE
from scare.data.times import find_time_format
from scare.errors import DataError, UsageError
from scare.words import plural, spell_counts

COLUMNS = tuple(field.name for field in fields(ColumnMapping))


class SplitBy(StrEnum):
    """What training, validation and test do not share: a period, a device or a site."""

    TIME = "time"
    DEVICE = "device"
    SITE = "site"


@dataclass(frozen=True)
class SplitSection:
    """The section [split] of a `--config` file."""

    by: SplitBy = SplitBy.TIME
    borders: tuple[str, ...] = ()
    column: str = ""


def read_colocation(files: Sequence[Path], data: DataSection, notify: Notify) -> list[Readings]:
    """Read files as `read_files` does and `prepare` each device's readings."""
    return [prepare(readings, data.step, notify) for readings in read_files(files, data, notify)]


def read_files(files: Sequence[Path], data: DataSection, notify: Notify) -> list[Readings]:
    """Read the devices of all files, with their reference, which is a column or a separate file.

    Columns not given are guessed from the first file and reported.
    """
    reference: Readings | None = None  # of the reference file
    if data.reference_file:
        readings, reference = _read_with_reference_file(files, data, notify)
    else:
        mapping = _notified_mapping(files[0], data, notify)
        if mapping.reference is None:
            raise DataError(
                f"{files[0]}: no reference; name its column with --reference or its table with --reference-file"
            )
        readings = _read_devices(files, mapping)
    readings = with_limits(readings, notify)
    devices = [box.device for box in readings]
    for device in devices:
        if devices.count(device) > 1:
            raise DataError(f"two files hold a device called '{device}'; rename one or join them")
    return join_reference(readings, reference, data, notify) if reference else readings


def _read_with_reference_file(
    files: Sequence[Path], data: DataSection, notify: Notify
) -> tuple[list[Readings], Readings]:
    """Read the devices of the sensors' files, without a reference, and the reference from its own file.

    Columns not given are chosen by how well both fit. If one side's times state no zone and the curves leave no doubt
    which one they are in, that side is read again, in this zone.
    """
    inspected = inspect_reference(data)
    reference_column, first_channel = None, ""  # as [data] states them, unless they are chosen
    if not (data.time and data.channels and data.reference):
        sensors = inspect_table(files[0], data, data.time)
        first_channel, reference_column, reasons = choose_pair(sensors, inspected, data)
        for line in (*(f"{data.reference_file}: {note}" for note in inspected.notes), *reasons):
            notify(line)
        if not data.reference:
            notify(f"{data.reference_file}: guessed --reference {shlex.quote(reference_column.name)}")
    reference = read_station(inspected, reference_column, data, notify)
    # `data.reference` names a column of the reference file, not of these.
    mapping = _notified_mapping(files[0], replace(data, reference=None), notify, first_channel)
    mapping = replace(mapping, reference=None)
    readings = _read_devices(files, mapping)
    if data.apply_offset:  # a shift corrects the clocks, so no zone has to
        return readings, reference
    zone, reference_zone = _evident_zones(files[0], mapping, inspected, readings, reference)
    if zone:
        notify(f"{files[0]}: the times state no zone, but fit the reference's in {zone}; read so (--timezone)")
        readings = _read_devices(files, replace(mapping, timezone=zone))
    if reference_zone:
        fits = f"the times state no zone, but fit the sensor's in {reference_zone}; read so (--reference-timezone)"
        notify(f"{data.reference_file}: {fits}")
        options = replace(inspected.options, timezone=reference_zone)
        # What it notifies was notified when it was read before.
        reference = read_station(replace(inspected, options=options), reference_column, data, lambda _: None)
    return readings, reference


def _read_devices(files: Sequence[Path], mapping: ColumnMapping) -> list[Readings]:
    return [box for file in files for box in read_readings(file, mapping)]


def _notified_mapping(file: Path, data: DataSection, notify: Notify, sensor: str = "") -> ColumnMapping:
    """Complete the columns that [data] gives, as `column_mapping` does, and notify what was guessed."""
    mapping, notes = column_mapping(file, data, sensor)
    for line in notes:
        notify(f"{file}: {line}")
    return mapping


def _evident_zones(
    file: Path, mapping: ColumnMapping, inspected: Inspection, readings: Sequence[Readings], reference: Readings
) -> tuple[str, str]:
    """Find the time zone of the file that states none, if the other one does: the sensors' file or the reference's.

    Returns the zones of both files; one is always empty, and both unless the curves leave no doubt.
    """
    zone, reference_zone = find_zones(with_limits(readings, lambda _: None), reference)
    if not zone and not reference_zone:
        return "", ""
    has_zone = NO_ZONE not in find_time_format(open_table(file, mapping), mapping.time).notes
    reference_has_zone = NO_ZONE not in inspected.notes
    if has_zone == reference_has_zone:
        return "", ""
    return ("", reference_zone) if has_zone else (zone, "")


def column_mapping(file: Path, data: DataSection, sensor: str = "") -> tuple[ColumnMapping, list[str]]:
    """Complete the columns that [data] gives by inspecting the file; also returns sentences about what was guessed.

    `sensor` is the channel to calibrate, if it was chosen by a reference in another file.
    """
    stated = {name: value for name in COLUMNS if (value := getattr(data, name))}
    if data.time and data.channels:
        return ColumnMapping(**stated), []
    inspection = inspect_table(file, data, data.time)
    wanted = parse_quantity(data.quantity) if data.quantity else ""
    guess, reasons = inspection.propose(wanted, data.reference.name if data.reference else "", sensor)
    guesses = {column.name: column.channel for column in inspection.columns}
    stated["channels"] = tuple(_with_guess(channel, guesses) for channel in data.channels or guess.channels)
    if data.reference:
        stated["reference"] = _with_guess(data.reference, guesses)
    mapping = replace(guess, **stated)
    options = as_options(mapping, data)
    return mapping, [
        *inspection.notes,
        *([] if data.channels else reasons),
        *([f"guessed {options}"] if options else []),
    ]


def _with_guess(channel: Channel, guesses: Mapping[str, Channel]) -> Channel:
    """Return the channel, with the guessed unit and range if only its name was stated."""
    has_only_name = channel == Channel(channel.name)
    return guesses.get(channel.name, channel) if has_only_name else channel


def as_options(mapping: ColumnMapping, stated: DataSection) -> str:
    """Return the mapping as command-line options and config keys, except what `stated` already has.

    >>> mapping = ColumnMapping(("date",), (Channel("NO2"), Channel("T")), Channel("Ref.NO2"), sort=True)
    >>> as_options(mapping, DataSection())
    '--time date --channels NO2,T --reference Ref.NO2, data.sort = true'
    >>> as_options(mapping, DataSection(reference=Channel("Ref.NO2"), sort=True))
    '--time date --channels NO2,T'
    """
    options = {
        "time": ",".join(mapping.time),
        "channels": ",".join(channel.name for channel in mapping.channels),
        "reference": mapping.reference.name if mapping.reference else "",
        "device_column": mapping.device_column,
    }
    new = {name: value for name, value in options.items() if value and not getattr(stated, name)}
    texts = [" ".join(f"--{name.replace('_', '-')} {shlex.quote(value)}" for name, value in new.items())]
    for name in ("site_column", "sort"):  # these can only be stated in a --config file
        if getattr(mapping, name) and not getattr(stated, name):
            texts.append(f"data.{name} = {json.dumps(getattr(mapping, name))}")
    return ", ".join(filter(None, texts))


def prepare(readings: Readings, step: float | None, notify: Notify) -> Readings:
    """Average to `step` seconds if given, check that there is one time step, and set quality flags."""
    if step is not None:
        readings = average(readings, step)
    check_step(readings)
    flagged = flag(drop_unusable_references(readings))
    dropped = int(np.isfinite(readings.targets).sum() - np.isfinite(flagged.targets).sum())
    if dropped and readings.reference is not None:
        stand = "stands for 'no reading' and counts" if dropped == 1 else "stand for 'no reading' and count"
        notify(f"{readings.device}: {plural(dropped, 'value')} of {readings.reference.name} {stand} as missing")
    if flagged.flags.any():
        notify(f"{readings.device}: flagged rows: {spell_counts(count_flags(flagged.flags))}")
    return flagged


def make_split(
    readings: Sequence[Readings], files: Sequence[Path], data: DataSection, split: SplitSection, window: int
) -> Split:
    """Split readings as [split] says; the `window` rows after a border between parts are not scored."""
    if split.borders and (split.column or split.by is not SplitBy.TIME):
        raise UsageError("split.borders can only be used with a split by time")
    if split.column:
        mapping, _ = column_mapping(files[0], data)
        labels: dict[str, pl.DataFrame] = {}
        for file in files:
            labels |= read_labels(file, mapping, split.column)
        return split_by_label(readings, labels)
    if split.by is SplitBy.DEVICE:
        return split_by_device(readings)
    if split.by is SplitBy.SITE:
        return split_by_site(readings)
    step = float(np.median([box.step_seconds for box in readings]))
    times = [parse_time(text, "split.borders") for text in split.borders]
    if len(times) not in (0, 2):
        raise UsageError(f"split.borders takes two times, not {len(times)}")
    try:
        return split_by_time(readings, window * step, borders=(times[0], times[1]) if times else None)
    except DataError as error:
        remedy = "use a shorter --window or other split.borders" if times else suggest_window(readings, window * step)
        raise DataError(f"{error}; {remedy}") from error


def parse_time(text: str, key: str) -> datetime:
    """Parse the ISO 8601 time of a config key; UTC unless it has an offset."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise UsageError(f"{key}: '{text}' is not an ISO 8601 time such as 2020-01-24T12:00") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
