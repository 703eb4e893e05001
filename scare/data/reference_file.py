"""A reference in a separate file: which of its columns belongs to which channel, and how its rows join the sensor's.

Columns are chosen by quantity, and where several could be meant, by how the curves correlate after the clock check.
Called by `colocation`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from scare.data.alignment import COARSER, align, shift
from scare.data.clock import ClockCheck, check_clock, find_clock_offset
from scare.data.column_guess import EQUALLY_GOOD, Inspection, choose_sensor, inspect_table
from scare.data.column_kind import ColumnSummary
from scare.data.column_mapping import ColumnMapping, DataSection, ReferenceTable, read_readings
from scare.data.flags import find_dead_channels
from scare.data.quantities import conversion, display_unit, find_quantity, parse_quantity
from scare.data.readings import DEVICE, Channel, Readings
from scare.errors import DataError
from scare.words import duration

Notify = Callable[[str], object]
SHOWN = 5  # most names in a message


def inspect_reference(data: DataSection) -> Inspection:
    """Inspect the reference file; raises a DataError if it holds several stations or lacks the stated column."""
    file = Path(data.reference_file)
    stated = data.reference_table or ReferenceTable()
    inspected = inspect_table(file, replace(stated, dates=stated.dates or data.dates), stated.time)
    inspected.table.require([data.reference.name] if data.reference else [])
    stations = inspected.stamps[DEVICE].unique(maintain_order=True).to_list()
    if len(stations) > 1:
        names = ", ".join(stations[:SHOWN])
        raise DataError(
            f"{file}: the column '{inspected.device_column}' names {len(stations)} stations ({names});"
            f" join one with 'scare align SENSOR {file} --station {stations[0]}'"
        )
    return inspected


def choose_pair(sensors: Inspection, stations: Inspection, data: DataSection) -> tuple[str, ColumnSummary, list[str]]:
    """Choose the channel to calibrate and the reference's column, unless `data` states them; also returns why."""
    wanted = parse_quantity(data.quantity) if data.quantity else ""
    if data.channels:
        channels = [column for column in sensors.columns if column.name == data.channels[0].name]
    else:
        channels = [column for column in sensors.columns if not column.is_reference]
    channels = channels or list(sensors.columns)
    station_columns = [stations.column(data.reference.name)] if data.reference else list(stations.columns)
    devices = sensors.readings([channel.name for channel in channels])
    sensor_readings = next((readings for readings in devices if len(readings) > 1), None)

    def correlate(channel: str, column: str) -> float:
        if sensor_readings is None:
            return 0.0
        try:
            return abs(find_clock_offset(sensor_readings, stations.readings([column])[0], channel).correlation)
        except DataError:  # no overlap, or one of them never changes
            return 0.0

    truth, notes = _choose_reference(channels, station_columns, wanted, correlate, stations)
    quantity = truth.quantity or wanted
    if data.channels:
        return data.channels[0].name, truth, notes
    first, reasons = choose_sensor(channels, quantity, lambda name: correlate(name, truth.name))
    return first.name, truth, notes + reasons


def _choose_reference(
    channels: Sequence[ColumnSummary],
    columns: Sequence[ColumnSummary],
    wanted: str,
    correlate: Callable[[str, str], float],
    stations: Inspection,
) -> tuple[ColumnSummary, list[str]]:
    """Choose the reference's column, the candidate that correlates best with the sensor; also returns why.

    Candidates are the columns of the wanted quantity, or else of unknown quantity; or else pollutants that a channel
    measures too; or else any pollutant. Weather comes last.
    """
    if not columns:
        raise DataError(
            f"{stations.table.path}: no column looks like a reference{stations.why_left_out}; name it with --reference"
        )
    # The channels that measure the quantity of each column.
    same_quantity = {
        column.name: [channel for channel in channels if column.quantity and channel.measures(column.quantity)]
        for column in columns
    }
    pollutants = [column for column in columns if column.family != "weather"]
    of_wanted = [column for column in columns if wanted and column.quantity == wanted]
    of_wanted = of_wanted or [column for column in columns if wanted and not column.quantity]
    shared = [column for column in columns if same_quantity[column.name]]
    shared_pollutants = [column for column in shared if column in pollutants]
    candidates = of_wanted or shared_pollutants or pollutants or shared or list(columns)
    if len(candidates) == 1:
        return candidates[0], []
    strengths = {
        column.name: max(correlate(channel.name, column.name) for channel in same_quantity[column.name] or channels)
        for column in candidates
    }
    least_strength = max(strengths.values()) - EQUALLY_GOOD
    chosen = next(column for column in candidates if strengths[column.name] >= least_strength)
    others = [name for name in strengths if name != chosen.name][:SHOWN]
    return chosen, [
        f"{stations.table.path}: {chosen.name} correlates best with the sensor ({strengths[chosen.name]:.2f}); there"
        f" are also {', '.join(others)} (choose with --reference or --quantity)"
    ]


def read_station(inspected: Inspection, column: ColumnSummary | None, data: DataSection, notify: Notify) -> Readings:
    """Read the reference's column; a time that is the beginning of an interval is moved to its end.

    `column` is the one that `choose_pair` chose; None if `data.reference` names the column. A column called `Value` or
    the like gets the name of its quantity.
    """
    file = inspected.table.path
    chosen = data.reference or column
    assert chosen is not None
    name = chosen.name
    channel = inspected.column(name).channel
    if data.reference and data.reference != Channel(name):  # the user also gave a unit or limits
        channel = data.reference
    in_order = inspected.duplicates + inspected.out_of_order == 0
    mapping = ColumnMapping(inspected.time, (channel,), sort=not in_order, **inspected.options.table_options)
    (station,) = read_readings(file, mapping)
    if find_dead_channels(station):
        raise DataError(f"{file}: the column '{name}' has no usable number; take another one with --reference")
    quantity = parse_quantity(data.quantity) if data.quantity else column.quantity if column else ""
    if quantity and find_quantity(name) is None:
        notify(f"{file}: {name} is {quantity}{f' in {display_unit(channel.unit)}' if channel.unit else ''}")
        station = _rename(station, quantity)
    return with_end_stamps(station, inspected, data, notify)


def with_end_stamps(station: Readings, inspected: Inspection, data: DataSection, notify: Notify) -> Readings:
    """Move times to the end of the interval, if the user or the file's format states that they are its beginning."""
    stamp = data.stamp or (inspected.table.format.stamp if inspected.table.format else "")
    if stamp != "begin":
        return station
    notify(f"{inspected.table.path}: a time is the beginning of its {duration(station.step_seconds)}; moved to the end")
    return shift(station, station.step_seconds)


def _rename(station: Readings, name: str) -> Readings:
    (channel,) = station.channels
    frame = station.frame.rename({channel.name: name})
    return replace(station, frame=frame, channels=(replace(channel, name=name),))


def find_zones(readings: Sequence[Readings], station: Readings) -> tuple[str, str]:
    """Find the time zone of the sensors, if the reference is in UTC, and that of the reference, if the sensors are.

    Both are empty unless the curves leave no doubt. A zone that is not named after a place, such as Etc/GMT-1, does
    not count.
    """
    box = next((box for box in readings if not find_dead_channels(box)), None)
    clock = check_clock(box, station, box.channels[0].name) if box else None
    if clock is None or not clock.is_evident:
        return "", ""
    sensor_zone, reference_zone = (
        "" if zone.startswith("Etc/") else zone for zone in (clock.sensor_zone, clock.reference_zone)
    )
    return sensor_zone, reference_zone


def join_reference(
    readings: Sequence[Readings], station: Readings, data: DataSection, notify: Notify
) -> list[Readings]:
    """Align the readings with the reference; report units, steps and clocks that differ."""
    (truth,) = station.channels
    names = [channel.name for channel in readings[0].channels]
    _compare_units(readings[0].channels[0], truth, data, notify)
    if truth.name in names:  # a calibrator's input and output have different names
        station = _rename(station, f"reference_{truth.name}")
    joined = []
    for box in readings:
        if find_dead_channels(box):  # it has no values to correlate; a split leaves it out
            joined.append(align(box, station))
            continue
        clock = check_clock(box, station, box.channels[0].name)
        for line in clock.describe():
            notify(line)
        if data.apply_offset and clock.offset.seconds:
            notify(f"{box.device}: shifted by {duration(clock.offset.seconds, signed=True)}")
        joined.append(align(correct_clock(box, clock) if data.apply_offset else box, station))
        finer, coarser = sorted([box.step_seconds, station.step_seconds])
        if coarser >= COARSER * finer:
            which = "readings" if box.step_seconds == finer else "the reference"
            notify(f"{box.device}: averaged {which} from {duration(finer)} to {duration(coarser)}")
    return joined


def correct_clock(readings: Readings, clock: ClockCheck) -> Readings:
    """Shift the readings by the offset of the clock; raises a DataError if it is not the same for the whole period."""
    if clock.change:
        raise DataError(
            f"{readings.device}: the clock was set about {clock.change.time:%Y-%m-%d}, so one shift cannot correct it;"
            " split the file there and align each part with --apply-offset"
        )
    return shift(readings, clock.offset.seconds)


def _compare_units(sensor: Channel, truth: Channel, data: DataSection, notify: Notify) -> None:
    """Notify how the sensor's unit converts to the reference's, if they differ."""
    quantity = find_quantity(sensor.name) or find_quantity(truth.name)
    to_reference = conversion(
        sensor.unit, truth.unit, quantity.molar_mass if quantity else None, data.standard_temperature
    )
    if not sensor.unit or not truth.unit or (to_reference and (to_reference.gain, to_reference.offset) == (1.0, 0.0)):
        return
    unit = display_unit(sensor.unit)
    start = f"{sensor.name} is in {unit}, the reference in {display_unit(truth.unit)}"
    if to_reference is None:
        notify(f"{start}, which do not convert: the raw reading is not compared")
        return
    needs_molar_mass = conversion(sensor.unit, truth.unit) is None  # a gas, from ppb to ug/m3 or back
    at = f" at {data.standard_temperature:g} °C (--standard-temperature)" if needs_molar_mass else ""
    offset = f" {to_reference.offset:+.4g}" if to_reference.offset else ""
    notify(f"{start}: compared as {to_reference.gain:.4g} × {sensor.name}{offset}{at}; the model takes {unit}")
