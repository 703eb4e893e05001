"""`scare align`: join a folder of sensors and a reference station into one co-location file."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from scare.archive.input_files import find_files
from scare.cli import options
from scare.cli.console import emit, note, show_table
from scare.data.alignment import align as align_readings
from scare.data.clock import FARTHEST, ClockCheck, check_clock
from scare.data.column_guess import Inspection, inspect_table
from scare.data.column_mapping import ColumnMapping, DataSection, read_readings, tidy_columns
from scare.data.readings import DEVICE, REFERENCE, TIME, Readings
from scare.data.reference_file import choose_pair, correct_clock, with_end_stamps
from scare.data.tables import TableOptions, stem, write_table
from scare.errors import DataError, UsageError
from scare.report.correlogram import draw_correlogram
from scare.schema import convert
from scare.words import duration, suggestion


def align(
    sensors: Annotated[str, typer.Argument(help="Sensors: a folder (device=…), a glob or a file.")],
    stations: Annotated[str, typer.Argument(help="Reference stations, given the same way.")],
    station: Annotated[str, typer.Option("--station", help="The station to use as the reference.")] = "",
    channels: options.Channels = "",
    reference: options.Reference = "",
    quantity: options.Quantity = "",
    stamp: options.StampOption = "",
    dates: options.SlashDates = "",
    timezone: options.TimeZone = "",
    encoding: options.Encoding = "",
    skip_rows: options.SkipRows = None,
    sheet: options.Sheet = "",
    missing: options.MissingCodes = None,
    reference_timezone: options.ReferenceZone = "",
    out: Annotated[Path, typer.Option("--out", help="The table to write: .csv, .csv.gz or .parquet.")] = Path(
        "colocation.csv"
    ),
    max_offset: Annotated[
        float, typer.Option("--max-offset", min=0, help="Largest clock shift to try, in seconds.")
    ] = FARTHEST,
    apply_offset: Annotated[
        bool, typer.Option("--apply-offset", help="Shift each sensor's clock by its best offset.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Join sensors and a reference station on one time step, and check whether their clocks agree.

    A picture (.svg) next to the table shows the correlation at every shift of a sensor's clock.

    Examples:
      scare align sensor-community airnow --station 060371103 --channels pm25,humidity --reference pm25
      scare train colocation.csv --reference reference_pm25
    """
    data = convert(
        tidy_columns({name: value for name, value in options.columns("", channels, reference, "").items() if value}),
        DataSection,
        "the command line",
    )
    data = replace(data, quantity=quantity, stamp=stamp)
    sensor_table = _inspect_first(sensors, options.table_options(dates, timezone, encoding, skip_rows, sheet, missing))
    station_table = _inspect_first(stations, {"timezone": reference_timezone} if reference_timezone else {})
    sensor, column, notes = choose_pair(sensor_table, station_table, data)
    for line in (*sensor_table.notes, *station_table.notes, *notes):
        note(line)
    names = [channel.name for channel in data.channels] or [
        channel.name for channel in sensor_table.propose(quantity, sensor=sensor)[0].channels
    ]
    station_readings = _choose_station(_read(stations, station_table, [column.name]), station)
    station_readings = with_end_stamps(station_readings, station_table, data, note)
    aligned = []
    clocks: dict[str, ClockCheck] = {}
    for box in _read(sensors, sensor_table, names):
        try:
            clock = check_clock(box, station_readings, box.channels[0].name, max_offset)
            aligned.append(align_readings(correct_clock(box, clock) if apply_offset else box, station_readings))
            clocks[box.device] = clock
        except DataError as error:
            note(f"Left out: {error}")
    if not aligned:
        raise DataError(f"no sensor in {sensors} overlaps in time with station {station_readings.device} in {stations}")
    name = f"{REFERENCE}_{station_readings.channels[0].name}"
    frames = [box.frame.select(pl.lit(box.device).alias(DEVICE), pl.exclude("flags")) for box in aligned]
    table = pl.concat(frames, how="diagonal").rename({REFERENCE: name}).sort(DEVICE, TIME)
    write_table(table, out)
    picture = draw_correlogram(
        {device: clock.correlations for device, clock in clocks.items()}, out.with_name(f"{stem(out)}.svg")
    )
    _print_result(clocks, table, name, out, picture, as_json)


def _inspect_first(place: str, table_options: dict[str, Any]) -> Inspection:
    """Inspect the first file of a folder, glob or file, whose columns hold for all."""
    return inspect_table(find_files([place])[0].path, convert(table_options, TableOptions, "the command line"))


def _read(place: str, inspection: Inspection, names: Sequence[str]) -> list[Readings]:
    """Read these columns of each device in a folder, glob or file; a device may have several files.

    `inspection` is that of the first file and holds for all.
    """
    by_device: dict[str, list[pl.DataFrame]] = {}
    sources = find_files([place])
    channels = tuple(inspection.column(name).channel for name in names)
    device_column = "" if sources[0].device else inspection.device_column
    mapping = ColumnMapping(
        inspection.time, channels, None, device_column, sort=True, **inspection.options.table_options
    )
    for source in sources:
        for box in read_readings(source.path, mapping, source.device or None):
            by_device.setdefault(box.device, []).append(box.frame)
    return [
        Readings(device, pl.concat(frames).unique(TIME, keep="first").sort(TIME), channels)
        for device, frames in by_device.items()
    ]


def _choose_station(stations: list[Readings], name: str) -> Readings:
    """Return the readings of the reference station of this name; a single station needs no name."""
    known = [station.device for station in stations]
    if not name and len(stations) > 1:
        raise UsageError(
            f"there are {len(stations)} stations; choose the reference with --station: {', '.join(known[:10])}"
        )
    if name and name not in known:
        raise UsageError(f"there is no station '{name}'{suggestion(name, known)}")
    return next(station for station in stations if name in ("", station.device))


def _print_result(
    clocks: dict[str, ClockCheck], table: pl.DataFrame, reference: str, out: Path, picture: Path, as_json: bool
) -> None:
    """Print how each device's clock compares; `reference` is the column of the reference in `table`."""
    if as_json:
        facts = {"file": str(out), "picture": str(picture), "rows": table.height, "reference": reference}
        emit({**facts, "offsets": {device: clock.as_dict() for device, clock in clocks.items()}})
    else:
        rows = []
        for device, clock in clocks.items():
            best = clock.offset
            shift = duration(best.seconds, signed=True)
            rows.append([device, shift, f"{best.correlation:.3f}", f"{best.correlation_at_zero:.3f}"])
        show_table("clocks", ["", "best shift", "r shifted", "r as it is"], rows)
    for line in (line for clock in clocks.values() for line in clock.describe()):
        note(line)
    paired = table[reference].count()
    note(f"{paired:,} of {table.height:,} rows have a reference. Wrote {out}, and the correlations to {picture}.")
