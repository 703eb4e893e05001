"""Time zones: which zone the times of a table are in, what a person may call one, and local times as UTC.

Called by `times` for times that state no zone themselves, and by `clock` for a shift that a zone explains.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from zoneinfo import available_timezones

import numpy as np
import polars as pl

from scare.data.tables import TableFile
from scare.data.time_text import ZONE_MINUTES, offset_minutes
from scare.data.vocabulary import VOCABULARY
from scare.errors import UsageError
from scare.words import suggestion

NO_ZONE = (
    "Times have no zone and are read as UTC; state it with --timezone (for a reference file: --reference-timezone),"
    " such as Europe/Berlin."
)
UTC_NAME = re.compile(r"(?i:(?:^|[^a-z])(?:utc|gmt)(?![a-z])(?! ?[+-]?\d)|^epoch)|[a-z](?:UTC|GMT)(?![A-Za-z\d])")
LOCAL_NAME = re.compile(r"local|\b(?:lst|lt|mez|cet|cest)\b", re.IGNORECASE)
# Up to 14 hours: +2, +02:00 or +0200. Other numbers, such as +5.5 or -300 (minutes?), are not read in part.
OFFSET = re.compile(
    r"(?:utc|gmt) ?([+-](?:(?:0?\d|1[0-4])(?::[0-5]\d)?|(?:0\d|1[0-4])[0-5]\d))(?!\d|\.\d)", re.IGNORECASE
)
ZONE_COLUMN = re.compile(r"time_?\s?zone|aikavyöhyke|^tz$|utc_?\s?offset|^offset\b|gmt_?\s?offset", re.IGNORECASE)
HEAD_ROWS = 200  # first rows in which a column of zones must have one
US_ZONES = {"eastern": "New_York", "central": "Chicago", "mountain": "Denver", "pacific": "Los_Angeles"}
US_ABBREVIATIONS = {"EST EDT": "New_York", "CST CDT": "Chicago", "MST MDT": "Denver", "PST PDT": "Los_Angeles"}
TOLERANCE = 600.0  # s between a shift and the offset of a time zone
# The first that explains a shift is named.
LIKELY_ZONES = (*VOCABULARY["likely_zones"], *(f"Etc/GMT{hours:+d}" for hours in range(-14, 13) if hours))


def find_zone(table: TableFile, columns: tuple[str, ...]) -> tuple[str, str]:
    """Return the zone of times that state none, and a note about where it was found (empty if an option states it)."""
    if zone := table.options.timezone:
        return check_zone(zone), ""
    for name in columns:
        if match := OFFSET.search(name):
            return _offset_name(offset_minutes(match[1])), f"Times are {match[0]}, as the column '{name}' states."
        if zone := "UTC" if UTC_NAME.search(name) else zone_of_remark(name):
            return zone, f"Times are {zone}, as the column '{name}' states."
    if from_column := _zone_column(table, columns):
        return from_column
    if table.format and table.format.timezone:
        return table.format.timezone, f"Times are {table.format.timezone}, as in every {table.format.title}."
    for line in table.remarks:
        if zone := zone_of_remark(line):
            return zone, f"Times are {zone}, as the file states: '{line.strip()[:60]}'."
    return "UTC", NO_ZONE


def _zone_column(table: TableFile, columns: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the zone that the first cell of a column of zones or offsets names, and a note; None if there is none."""
    for name in table.columns:
        if name in columns or not ZONE_COLUMN.search(name):
            continue
        batch = next(table.batches([name], HEAD_ROWS), None)
        cell = next(iter(batch[name].cast(pl.String).drop_nulls()), "") if batch is not None else ""
        # A column of zones says nothing about times that their own column calls UTC.
        may_be_local = any(map(LOCAL_NAME.search, columns)) or not any(map(UTC_NAME.search, columns))
        is_in_minutes = re.search(r"(?<![^\W_])min", name, re.IGNORECASE)  # such as utc_offset_minutes, Offset (min)
        if is_in_minutes and re.fullmatch(r"[+-]?\d{1,3}", cell):
            cell = _offset_name(int(cell))
        zone = zone_of_remark(f"UTC{cell}" if re.fullmatch(r"[+-]\d.*", cell) else cell)
        if zone and may_be_local:
            return zone, f"Times are {zone}, as the column '{name}' states."
    return None


def zone_of_remark(line: str) -> str:
    """Return the time zone that a line of text names, "" if none; of several abbreviations the first counts.

    An offset in a line with a clock does not count: such a line states when something happened.

    >>> zone_of_remark("(UTC-05:00) Eastern Time (US & Canada)"), zone_of_remark("MEZ/CET"), zone_of_remark("in GMT")
    ('America/New_York', '+01:00', 'UTC')
    """
    # Names as Europe/Berlin or EST5EDT come before names of American zones, and these before offsets and abbreviations.
    for name in re.findall(r"[A-Z]\w+(?:/[A-Z]\w+)+|\b[A-Z]{3}\d[A-Z]{3}\b", line):
        if name in _zones():
            return str(name)
    offset = OFFSET.search(line)
    american = re.search(rf"\b({'|'.join(US_ZONES)}) (?:standard |daylight )?time\b", line, re.IGNORECASE)
    if american:
        return f"America/{US_ZONES[american[1].lower()]}"
    if re.search(r"\d:\d\d", OFFSET.sub("", line)):
        return ""
    if offset:
        return _offset_name(offset_minutes(offset[1]))
    capitals = re.findall(r"(?<![A-Za-z])[A-Z]{3,4}(?![A-Za-z])", line)  # in the order of the line
    words = {*capitals}
    if words & {"CET", "MEZ"} and words & {"CEST", "MESZ"}:
        return "Europe/Berlin"
    for abbreviations, city in US_ABBREVIATIONS.items():
        if words >= {*abbreviations.split()}:
            return f"America/{city}"
    known = [word for word in capitals if word.lower() in ZONE_MINUTES]
    return _offset_name(ZONE_MINUTES[known[0].lower()]) if known else ""


def _offset_name(minutes: int) -> str:
    """Return an offset as `check_zone` takes it.

    >>> _offset_name(-330), _offset_name(0)
    ('-05:30', 'UTC')
    """
    sign, size = "-" if minutes < 0 else "+", abs(minutes)
    return f"{sign}{size // 60:02}:{size % 60:02}" if minutes else "UTC"


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def check_zone(zone: str) -> str:
    """Return a time zone as a person states it: IANA name, offset or UTC; raises a UsageError for any other."""
    if zone.upper() in ("UTC", "GMT", "Z"):
        return "UTC"
    if re.fullmatch(r"(?:UTC|GMT)?[+-]\d\d?(?::?\d\d)?", zone, re.IGNORECASE):
        return _offset_name(offset_minutes(zone))
    if zone not in _zones():
        raise UsageError(f"no time zone is called '{zone}'{suggestion(zone, _zones())}")
    return zone


def in_utc(times: pl.Series, zone: str) -> pl.Series:
    """Convert times without a zone, which are in `zone`, to UTC; null where daylight saving time skips an hour.

    An hour that comes twice is daylight saving time until the times step back, then standard time; a run of equal
    times is divided in the middle.

    >>> from datetime import datetime
    >>> hours = pl.Series([datetime(2026, 10, 25, hour) for hour in (1, 2, 2, 3)])
    >>> in_utc(hours, "Europe/Berlin").dt.hour().to_list()
    [23, 0, 1, 2]
    """
    if zone == "UTC":
        return times.dt.replace_time_zone("UTC")
    if zone[0] in "+-":
        ahead = pl.duration(minutes=offset_minutes(zone))
        return pl.select((pl.lit(times) - ahead).dt.replace_time_zone("UTC")).to_series()
    early, late = (
        times.dt.replace_time_zone(zone, ambiguous=side, non_existent="null").dt.convert_time_zone("UTC")
        for side in ("earliest", "latest")
    )
    is_ambiguous = (early != late).fill_null(False)
    if not is_ambiguous.any():
        return early
    # A run is a sequence of rows within an hour that comes twice.
    runs = is_ambiguous.rle_id()
    frame = pl.DataFrame({"time": times, "early": early, "late": late, "run": runs, "ambiguous": is_ambiguous})
    step = pl.col("time").diff().over("run")
    has_stepped_back = (step < pl.duration()).cum_sum().over("run") > 0
    is_after_middle = pl.int_range(pl.len()).over("run") >= pl.len().over("run") / 2
    all_equal = (pl.col("time").n_unique() == 1).over("run") & (pl.len().over("run") > 1)
    is_second = pl.when(all_equal).then(is_after_middle).otherwise(has_stepped_back.fill_null(False))
    return frame.select(pl.when(pl.col("ambiguous") & is_second).then("late").otherwise("early")).to_series()


def zone_with_offsets(offsets: Sequence[tuple[float, float]]) -> str:
    """Find the IANA time zone that has each of these offsets, in seconds ahead of UTC, at its time; empty if none has.

    `offsets` are pairs of a time, in seconds since 1970, and an offset.

    >>> winter, summer = datetime(2026, 1, 15, tzinfo=UTC).timestamp(), datetime(2026, 7, 15, tzinfo=UTC).timestamp()
    >>> zone_with_offsets([(winter, 3600.0), (summer, 7200.0)]), zone_with_offsets([(winter, 3600.0), (summer, 3600.0)])
    ('Europe/Berlin', 'Africa/Lagos')
    >>> zone_with_offsets([(winter, 19800.0)]), zone_with_offsets([(winter, 0.0)])
    ('Asia/Kolkata', '')
    """
    ahead = np.array([seconds for _, seconds in offsets])
    if not len(ahead) or (np.abs(ahead) < TOLERANCE).all():
        return ""
    times = pl.Series([datetime.fromtimestamp(time, UTC) for time, _ in offsets])
    for zone in LIKELY_ZONES:
        local = times.dt.convert_time_zone(zone)
        zone_ahead = (local.dt.base_utc_offset() + local.dt.dst_offset()).dt.total_seconds().to_numpy()
        if (np.abs(zone_ahead - ahead) <= TOLERANCE).all():
            return zone
    return ""
