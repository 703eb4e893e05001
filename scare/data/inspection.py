"""Inspection: looks at a table nobody has described and proposes which column is what.

Comes from `tables.open_table`; its `mapping`, as TOML, is what a person corrects and `tables.read_readings` uses.
Nothing here refuses repeated or unordered rows: they are counted.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from itertools import permutations
from pathlib import Path

import numpy as np
import polars as pl

from scare.data.readings import TIME, Channel
from scare.data.tables import (
    DEVICE,
    LINE,
    ColumnMapping,
    TableFile,
    find_time_format,
    open_table,
    parse_times,
    with_numbers,
)
from scare.errors import DataError

TIME_WORDS = {
    "date",
    "time",
    "datetime",
    "timestamp",
    "epoch",
    "unix",
    "year",
    "month",
    "day",
    "hour",
    "minute",
}
PLACE_WORDS = {"lat", "latitude", "lon", "long", "lng", "longitude", "alt", "altitude", "elevation"}
LABEL_WORDS = {
    "flag",
    "flags",
    "qc",
    "status",
    "error",
    "id",
    "index",
    "row",
    "serial",
    "version",
    "firmware",
}
SITE_WORDS = {"site", "station", "location"}
DEVICE_WORDS = {"device", "sensor", "node", "box", "unit", "serial", "id", "name"}
WEATHER_WORDS = {
    "temp",
    "temperature",
    "rh",
    "hum",
    "humidity",
    "press",
    "pressure",
    "rain",
    "wind",
    "wd",
    "ws",
}
REFERENCE_NAME = re.compile(
    r"^ref(erence)?(?![a-z])|[._ ]ref(erence)?$|\(gt\)|\b(fem|frm|monitor)\b", re.IGNORECASE
)
UNITS = (
    (r"ppb", "ppb"),
    (r"ppm", "ppm"),
    (r"[uµμ]g.?m.?3|pm_?\d|pm\d", "ug/m3"),
    (r"mg.?m.?3", "mg/m3"),
    (r"hpa|press|bmp\d", "hPa"),
    (r"co2", "ppm"),
    (r"abs\w*_?hum|^ah$", "g/m3"),
    (r"rh$|hum|%", "%"),
    (r"temp|^t$|deg_?c|°c", "degC"),
)
SENTINELS = (-32768.0, -9999.0, -999.0, -200.0, -99.0, -1.0, 999.0, 9999.0, 32767.0, 65535.0, 99999.0)


@dataclass(frozen=True)
class ColumnSummary:
    """What one column of numbers holds; `missing` is a share, `sentinels` are numbers that look like no reading."""

    name: str
    unit: str
    missing: float
    low: float
    median: float
    high: float
    sentinels: tuple[float, ...]


@dataclass(frozen=True)
class Inspection:
    """What a table seems to hold; rows, gaps and order are counted per device."""

    path: Path
    delimiter: str
    rows: int
    time: tuple[str, ...]
    first: datetime
    last: datetime
    step_seconds: float
    duplicates: int
    out_of_order: int
    gaps: int
    longest_gap_seconds: float
    channels: tuple[ColumnSummary, ...]
    references: tuple[ColumnSummary, ...]
    device_column: str
    site_column: str

    @property
    def mapping(self) -> ColumnMapping:
        """All channels and the first reference that is no weather, ready for `read_readings` or `to_toml`."""
        gases = [column for column in self.references if not words(column.name) & WEATHER_WORDS]
        references = [Channel(column.name, column.unit) for column in (*gases, *self.references)]
        return ColumnMapping(
            self.time,
            tuple(Channel(column.name, column.unit) for column in self.channels),
            references[0] if references else None,
            self.device_column,
            self.site_column,
            sort=self.duplicates > 0 or self.out_of_order > 0,
        )


def inspect_table(path: Path | str) -> Inspection:
    """Proposes the time, channels, references and device of a table, and counts what is wrong with its rows."""
    table = open_table(path)
    raw = table.read(table.columns)
    frame = with_numbers(raw.drop(LINE), table.decimal)
    time = _find_time(table, frame)
    times = parse_times(raw, find_time_format(table, time), table)
    device = _find_device(frame, times, time)
    labels = frame[device].cast(pl.String) if device else pl.repeat("", frame.height, eager=True)
    names = [name for name in frame.columns if name not in (*time, device) and _is_quantity(frame[name])]
    references = [name for name in names if REFERENCE_NAME.search(name)]
    return Inspection(
        path=table.path,
        delimiter=table.delimiter,
        rows=frame.height,
        time=time,
        channels=tuple(_summary(frame[name]) for name in names if name not in references),
        references=tuple(_summary(frame[name]) for name in references),
        device_column=device,
        site_column=_find_site(frame, device),
        **_pace(pl.DataFrame([labels.alias(DEVICE), times])),
    )


def words(name: str) -> set[str]:
    """The lower-case words of a column name.

    >>> sorted(words("NO2_B43F_flag"))
    ['b', 'f', 'flag', 'no']
    """
    return set(re.findall(r"[^\W\d_]+", name.lower()))


def guess_unit(name: str) -> str:
    """The unit a column name suggests, or nothing.

    >>> guess_unit("Ref.PM2.5"), guess_unit("Temperature_int"), guess_unit("NO2_B43F_P1")
    ('ug/m3', 'degC', '')
    """
    return next((unit for pattern, unit in UNITS if re.search(pattern, name.lower())), "")


def _find_time(table: TableFile, frame: pl.DataFrame) -> tuple[str, ...]:
    named = [name for name in frame.columns if words(name) & TIME_WORDS]
    others = [name for name, kind in frame.schema.items() if not kind.is_numeric() and name not in named]
    pairs = [pair for pair in permutations(named, 2) if "date" in words(pair[0]) and "time" in words(pair[1])]
    for columns in (*pairs, *((name,) for name in (*named, *others))):
        try:
            find_time_format(table, columns)
        except DataError:
            continue
        return columns
    raise DataError(f"{table.path}: no column holds times; there are {', '.join(table.columns)}")


def _find_device(frame: pl.DataFrame, times: pl.Series, time: tuple[str, ...]) -> str:
    """The column that tells equal times apart, or one of few values that is named as a device is."""
    best, fewest = "", _repeats([times]) / 10
    for name in [name for name in frame.columns if name not in time and _is_label(frame[name])]:
        repeats = _repeats([frame[name], times])
        if repeats < fewest:
            best, fewest = name, repeats
        elif not best and words(name) & DEVICE_WORDS and not words(name) & SITE_WORDS and not fewest:
            best = name
    return best


def _repeats(columns: list[pl.Series]) -> int:
    return columns[0].len() - pl.DataFrame(columns).n_unique()


def _is_label(column: pl.Series) -> bool:
    text = column.dtype == pl.String or bool(words(column.name) & DEVICE_WORDS)
    return text and not column.null_count() and column.n_unique() <= max(1, column.len() / 10)


def _find_site(frame: pl.DataFrame, device: str) -> str:
    texts = [name for name, kind in frame.schema.items() if kind == pl.String and name != device]
    return next((name for name in texts if words(name) & SITE_WORDS), "")


def _is_quantity(column: pl.Series) -> bool:
    if not column.dtype.is_numeric() or not column.count():
        return False
    if words(column.name) & (TIME_WORDS | PLACE_WORDS | LABEL_WORDS):
        return False
    return not (column.len() > 2 and bool((column.diff().drop_nulls() == 1).all()))  # numbers of the rows


def _summary(column: pl.Series) -> ColumnSummary:
    values = column.drop_nulls().to_numpy()
    low, median, high = (float(value) for value in np.quantile(values, [0, 0.5, 1]))
    missing = column.null_count() / column.len()
    return ColumnSummary(
        column.name, guess_unit(column.name), missing, low, median, high, find_sentinels(values)
    )


def find_sentinels(values: np.ndarray) -> tuple[float, ...]:
    """The usual no-reading numbers that come often and beyond which no ordinary value lies.

    >>> find_sentinels(np.array([3.0, -200, 4, -200, 5, -200, -1]))
    (-200.0,)
    """
    ordinary = values[~np.isin(values, SENTINELS)]
    often = max(3, len(values) / 1000)
    return tuple(
        number
        for number in SENTINELS
        if np.sum(values == number) >= often
        and not np.any(ordinary <= number if number < 0 else ordinary >= number)
    )


def _pace(rows: pl.DataFrame) -> dict[str, object]:
    """First and last time, step, repeated and unordered rows and gaps of `device`, `time` in the file's order."""
    backwards = pl.col(TIME).diff().over(DEVICE).dt.total_microseconds() < 0
    steps = (
        rows.unique()
        .sort(DEVICE, TIME)
        .select(pl.col(TIME).diff().over(DEVICE).dt.total_microseconds() / 1e6)
    )
    seconds = steps.to_series().drop_nulls().to_numpy()
    usual = float(np.median(seconds)) if len(seconds) else float("nan")
    gaps = seconds[seconds > 1.5 * usual]
    return {
        "first": rows[TIME].min(),
        "last": rows[TIME].max(),
        "step_seconds": usual,
        "duplicates": _repeats([rows[DEVICE], rows[TIME]]),
        "out_of_order": int(rows.select(backwards.sum()).item()),
        "gaps": len(gaps),
        "longest_gap_seconds": float(gaps.max(initial=0)),
    }
