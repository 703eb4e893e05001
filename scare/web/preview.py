"""Previews of files before training; runs in a separate process and prints JSON.

    python -m scare.web.preview FILE OPTIONS          its columns, each with a small chart; OPTIONS are JSON
    python -m scare.web.preview --together CONFIG …   sensor and reference side by side, the split, the clock's offset

Started by `jobs`; `session_setup` and the page read the output.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scare.calibrator.linear import to_unit
from scare.data.clock import FARTHEST, check_clock
from scare.data.colocation import SplitSection, make_split, read_colocation
from scare.data.column_guess import Inspection, inspect_table
from scare.data.column_mapping import ColumnMapping, DataSection, read_readings, tidy_columns
from scare.data.flags import find_dead_channels
from scare.data.quantities import display_unit
from scare.data.readings import DEVICE, TIME, Channel, Readings
from scare.data.reference_file import inspect_reference, read_station
from scare.data.tables import AS_FOUND, TableOptions
from scare.errors import ScareError
from scare.report.chart_data import decimate, with_breaks
from scare.schema import convert, load_toml, nan_to_none
from scare.windowing.windows import AUTO, window_readings

SMALL, LARGE = 400, 2000  # points of a chart
PREVIEWED = "pictures"  # a key that only the preview of a file has
WEATHER = {"T": "temperature", "RH": "humidity"}


def preview_file(path: Path, options: TableOptions = AS_FOUND) -> dict[str, Any]:
    """Describe a file and its columns: the role that each seems to have (`looks`), its facts and a chart of it."""
    inspection = inspect_table(path, options)
    facts = inspection.as_dict()
    label_roles = {
        **dict.fromkeys(inspection.time, "time"),
        inspection.device_column: "device",
        inspection.site_column: "site",
    }
    # The mean of two laser counters is among the numbers, but not a column of the file.
    names = [*inspection.table.columns, *inspection.numbers.columns]
    columns = {name: {"name": name, "quantity": "", "looks": label_roles.get(name, "nothing")} for name in names}
    for column in facts["columns"]:
        looks = "reference" if column["role"] == "reference" else WEATHER.get(column["quantity"], "sensor")
        columns[column["name"]] |= {**column, "looks": looks}
    for name, why in facts["left_out"].items():
        columns[name]["why"] = why
    facts["columns"] = list(columns.values())
    facts["kind"] = inspection.table.format.kind if inspection.table.format else ""
    mappings = _mapping_by_quantity(inspection)
    facts["channels"] = {
        quantity: [channel.name for channel in mapping.channels] for quantity, mapping in mappings.items()
    }
    facts["reference"] = next((mapping.reference.name for mapping in mappings.values() if mapping.reference), "")
    facts["sort"] = facts["duplicates"] + facts["out_of_order"] > 0
    facts["devices"] = inspection.stamps[DEVICE].unique().sort().to_list()
    frame = pl.concat([inspection.stamps, inspection.numbers], how="horizontal")
    frame = frame.filter(pl.col(DEVICE) == frame[DEVICE][0]).unique(TIME).sort(TIME)  # the first device's rows
    times = frame[TIME].dt.epoch("us").to_numpy() / 1e6  # seconds
    pictures = {}  # charts of the first device, each of one column: values [n, 1]
    for name in inspection.numbers.columns:
        values = frame[name].fill_null(np.nan).to_numpy()[:, None]
        pictures[name] = _picture(times, values, inspection.step_seconds, SMALL)
    return {**facts, "time": list(inspection.time), PREVIEWED: pictures}


def _mapping_by_quantity(inspection: Inspection) -> dict[str, ColumnMapping]:
    """Return which columns to use to calibrate each quantity that the file measures; "" stands for an unknown one."""
    if not inspection.channels:
        return {}
    measured = [channel.quantity for channel in inspection.channels if channel.family != "weather"]
    return {quantity: inspection.propose(quantity)[0] for quantity in dict.fromkeys(["", *measured])}


def _picture(times: np.ndarray, columns: np.ndarray, step: float, points: int) -> list[list[float | None]]:
    """Return a chart's series for JSON, decimated to about `points`: times, then the values of each column.

    `times` [n] and `step` are in seconds; `columns` [n, columns]. Every series has a null at each gap.
    """
    indices = decimate(columns, points)
    shown_times, shown_columns = with_breaks(times, columns, indices, step)
    series: list[list[float | None]] = [[round(time, 1) for time in shown_times.tolist()]]
    for values in shown_columns.T:
        series.append([float(f"{value:.5g}") if np.isfinite(value) else None for value in values.tolist()])
    return series


def preview_colocation(config: Path, files: Sequence[Path]) -> dict[str, Any]:
    """Describe a co-location as training will see it: devices, the split, notes about the data, charts."""
    tables = load_toml(config)
    data = convert(tidy_columns(tables["data"]), DataSection, config)
    split = convert(tables.get("split", {}), SplitSection, config)
    notes: list[str] = []
    readings = read_colocation(files, data, notes.append)
    window = window_readings(tables.get("model", {}).get("window", AUTO), readings)
    parts = make_split(readings, files, data, split, window)
    return {
        "notes": [*notes, *parts.notes, *parts.left_out],
        "how": parts.description,
        "step_seconds": float(np.median([box.step_seconds for box in readings])),
        "window": window,
        "devices": [box.device for box in readings],
        "first": _side_by_side(readings[0]),
        "parts": [
            {
                "part": part,
                "device": box.device,
                "from": float(box.times[0]),
                "to": float(box.times[-1]),
                "rows": int(np.isfinite(box.targets).sum()),  # with a reference
            }
            for part, boxes in parts.parts.items()
            for box in boxes
        ],
        "clock": _clock(files, data),
    }


def _side_by_side(box: Readings) -> dict[str, Any]:
    """Return facts about a device, and a chart of its first channel and its reference."""
    assert box.reference is not None
    is_comparable, sensor = _in_unit_of(box.reference, box.channels[0], box.values[:, 0])
    return {
        "name": box.device,
        "rows": len(box),
        "known": int(np.isfinite(box.targets).sum()),
        "sensor": box.channels[0].name,
        "sensor_unit": display_unit(box.channels[0].unit),
        "reference": box.reference.name,
        "unit": display_unit(box.reference.unit),
        "comparable": is_comparable,
        "picture": _picture(box.times, np.column_stack([sensor, box.targets]), box.step_seconds, LARGE),
    }


def _in_unit_of(reference: Channel, sensor: Channel, values: np.ndarray) -> tuple[bool, np.ndarray]:
    """Convert a sensor's values to the reference's unit.

    Returns whether that is possible, and the values; if it is not, they stay as they are.
    """
    to_reference = to_unit(sensor, reference)
    if to_reference is None or not (sensor.unit and reference.unit):
        return False, values
    return True, to_reference.gain * values + to_reference.offset


def _clock(files: Sequence[Path], data: DataSection) -> dict[str, Any] | None:
    """Return charts of sensor and reference before alignment, and the sensor clock's shift that correlates best.

    None if the reference is not in a separate file, or if no device has a complete row.
    """
    if not data.reference_file:
        return None
    station = read_station(inspect_reference(data), None, data, lambda text: None)
    mapping = ColumnMapping(data.time, data.channels[:1], None, data.device_column, sort=True, **data.table_options)
    sensor = next((box for box in read_readings(files[0], mapping) if not find_dead_channels(box)), None)
    if sensor is None:
        return None
    check = check_clock(sensor, station, sensor.channels[0].name)
    is_comparable, values = _in_unit_of(station.channels[0], sensor.channels[0], sensor.values[:, :1])
    # The station's readings that some shift of the sensor's clock could align with one of the sensor's.
    is_near = (station.times > sensor.times[0] - FARTHEST) & (station.times < sensor.times[-1] + FARTHEST)
    nearby = station.rows(is_near)
    return {
        "device": sensor.device,
        "comparable": is_comparable,
        "is_weak": check.is_weak,
        **check.as_dict(),
        "sensor": _picture(sensor.times, values, sensor.step_seconds, LARGE),
        "reference": _picture(nearby.times, nearby.values[:, :1], nearby.step_seconds, LARGE),
    }


def main(arguments: Sequence[str]) -> int:
    """Print the preview as JSON, or an error message; returns the exit code. `arguments` as in the module docstring."""
    try:
        if arguments[0] == "--together":
            _, config, *files = arguments
            preview = preview_colocation(Path(config), [*map(Path, files)])
        else:
            file, options = arguments
            preview = preview_file(Path(file), convert(json.loads(options), TableOptions, "the options"))
    except ScareError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(json.dumps(nan_to_none(preview)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
