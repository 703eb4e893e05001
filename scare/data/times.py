"""Times of a table: which columns hold them, in which format and zone, and as UTC.

A column's first time decides its shape (`time_text`). Whether 3/4/2026 is day first is decided by the whole column.
The zone is what the times, the column's name, a zone column, the known format or a remark of the file state, or
`TableOptions.timezone`; without any of these it is UTC, which a note says.
Comes from `tables`; goes to `column_mapping` and `column_guess`.
"""

import logging
import re
from calendar import month_name
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise, product
from zoneinfo import available_timezones

import polars as pl

from scare.data.cells import kind
from scare.data.readings import TIME, TIME_TYPE
from scare.data.tables import LINE, TableFile, Tally
from scare.data.time_text import ZONES, Order, TimeShape, is_clock, offset_minutes, parse, shape_of
from scare.errors import DataError, UsageError
from scare.words import suggestion

logger = logging.getLogger(__name__)
HEAD_ROWS = 200  # in which a column shows what it holds
SHORT_DATE = re.compile(r"^\s*'?(?:[^\W\d_]{2,10}\.?,? )?(\d{1,2})[-/.](\d{1,2})[-/.](\d{4}|\d\d)\b")
PLAIN_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%d.%m.%Y")
PLAIN_CLOCKS = ("%H:%M:%S%.f", "%H:%M")
PLAIN_FORMATS = [*map("".join, product(PLAIN_DATES, "T ", PLAIN_CLOCKS, ("", "%#z", " %#z"))), *PLAIN_DATES]
UTC_NAME = re.compile(r"(?:^|[^a-z])(?:utc|gmt)(?![a-z])(?! ?[+-]?\d)|^epoch", re.IGNORECASE)
LOCAL_NAME = re.compile(r"local|\b(?:lst|lt|mez|cet|cest)\b", re.IGNORECASE)
OFFSET = re.compile(r"(?:utc|gmt) ?([+-]\d\d?(?::?\d\d)?)", re.IGNORECASE)
ZONE_COLUMN = re.compile(r"time_?\s?zone|^tz$|utc_?\s?offset|^offset\b|gmt_?\s?offset", re.IGNORECASE)
US_ZONES = {"eastern": "New_York", "central": "Chicago", "mountain": "Denver", "pacific": "Los_Angeles"}
PART_WORDS: dict[str, str] = {  # columns that hold a part of the time
    **{"year": r"^(year|jahr|a[nñ]o|ann[ée]e|anno|yyyy|yr)$", "month": r"^(month|monat|mes|mois|mese|mm|mo)$"},
    **{"day": r"^(day|tag|d[ií]a|jour|giorno|dd|dy)$", "hour": r"^(hour|stunde|hora|heure|ora|hh|hr)$"},
    **{"minute": r"^(minute|minuto|min|mn)$", "second": r"^(second|sekunde|segundo|sec)$"},
}
TIME_NAME = re.compile(
    r"date|time|stamp|datum|zeit|\btag\b|stunde|fecha|hora|heure|jour|\bdata\b|\bora\b|tijd|epoch|created|recorded|utc"
    r"|last_changed|when|^ts$|^rec$|czas|dato|时间|日期",
    re.IGNORECASE,
)
LATE_NAME = re.compile(
    r"\b(?:end|to|until|bis|ende)\b|_end$|acqui|modif|update|upload|received|max|min|tm[nx]", re.IGNORECASE
)
EXCEL_DAYS, MATLAB_DAYS = (20_000, 80_000), (715_000, 775_000)  # from 1954 and from 1957
TimeReader = Callable[[pl.Series], pl.Series]  # returns null for what it cannot parse


@dataclass(frozen=True)
class TimeFormat:
    """How a table writes its times: columns, a sample, and the function that parses all times of this format."""

    columns: tuple[str, ...]
    sample: str
    read: TimeReader
    doubt: str = ""  # why its dates are ambiguous, if they are
    notes: tuple[str, ...] = ()


def find_time_columns(table: TableFile) -> tuple[str, ...]:
    """Find the columns that together hold the time of a row; a DataError if none do.

    A time that states UTC goes before a local one, a whole time before a date and a clock.
    """
    if table.format and table.format.time and all(name in table.columns for name in table.format.time):
        return table.format.time
    if table.temporal:
        return table.temporal[:1]
    head = next(table.batches(table.columns, HEAD_ROWS), None)
    if head is None:
        raise DataError(f"{table.path}: the file has a header but no rows")
    texts = {name: head[name].cast(pl.String).drop_nulls().to_list() for name in table.columns}
    found = [candidate for candidate in _candidates(texts) if candidate]
    if not found:
        raise DataError(
            f"{table.path}: no column holds times; there are {', '.join(table.columns[:20])}."
            " Name the time columns with --time"
        )
    return min(found, key=lambda one: one[0])[1]


def _candidates(texts: dict[str, list[str]]) -> Iterator[tuple[tuple[object, ...], tuple[str, ...]]]:
    """Sets of columns that may be the time, each with a key by which the best sorts first."""
    holds = {name: _holds(name, cells) for name, cells in texts.items() if cells}
    rows = max(map(len, texts.values()), default=0)

    def rank(level: int, columns: Sequence[str]) -> tuple[object, ...]:
        first = columns[0]
        distinct = max(len(set(texts[name])) for name in columns)
        named = any(map(TIME_NAME.search, columns))
        states_zone = holds[first] == "zoned" or any(map(UTC_NAME.search, columns))
        late = any(map(LATE_NAME.search, columns))
        few = distinct < min(3, rows)
        return (few, level >= 3, not states_zone, not named, late, level, list(texts).index(first))

    for name, what in holds.items():
        if what in ("zoned", "moment") or (what == "epoch" and TIME_NAME.search(name)):
            yield rank(1, [name]), (name,)
        elif what == "date":
            clock = _partner(name, [other for other, one in holds.items() if one == "clock"])
            hour = next((other for other in texts if re.search(PART_WORDS["hour"], other.lower())), "")
            if clock:
                yield rank(2, [name, clock]), (name, clock)
            elif hour and holds.get(hour) == "number":
                yield rank(2, [name, hour]), (name, hour)
            else:
                yield rank(4, [name]), (name,)
    parts = {
        part: next((name for name in texts if re.search(word, name.lower())), "") for part, word in PART_WORDS.items()
    }
    if parts["year"] and parts["month"] and parts["day"] and holds.get(parts["year"]) == "number":
        clock = parts["hour"] or next((name for name, one in holds.items() if one == "clock"), "")
        columns = tuple(filter(None, (parts["year"], parts["month"], parts["day"], clock)))
        yield rank(3 if clock else 5, columns), columns
    for name, what in holds.items():
        if what == "serial" and TIME_NAME.search(name):
            yield rank(3, [name]), (name,)


def _holds(name: str, cells: Sequence[str]) -> str:
    """What most cells are: `zoned` or `moment`, `date`, `clock`, `epoch`, `serial`, `number` or `text`."""
    sample = cells[:40]
    if sum(map(is_clock, sample)) > len(sample) / 2:
        return "clock"
    shapes = [shape_of(cell) for cell in sample]
    known = [shape for shape in shapes if shape]
    if len(known) > len(sample) / 2 and not (known[0].name == "digits" and not TIME_NAME.search(name)):
        shape = max(known, key=known.count)
        return "zoned" if shape.has_zone else "moment" if shape.has_clock else "date"
    if all(kind(cell) == "number" for cell in sample):
        numbers = pl.Series(sample).cast(pl.Float64, strict=False).drop_nulls()
        if not _from_epoch(numbers).null_count() and len(numbers) == len(sample):
            return "epoch"
        return "serial" if len(numbers) and _are_days(numbers) else "number"
    return "text"


def _partner(date: str, clocks: Sequence[str]) -> str:
    """The clock that belongs to a date: of the same qualifier, such as (UTC) or Local, and the nearest by name."""

    def rest(name: str) -> set[str]:
        words = set(re.findall(r"[^\W\d_]+", name.lower()))
        return words - {
            "date",
            "time",
            "datum",
            "zeit",
            "uhrzeit",
            "fecha",
            "hora",
            "tag",
            "stunde",
            "yyyy",
            "mm",
            "dd",
            "hh",
            "ss",
        }

    return min(clocks, key=lambda clock: (len(rest(date) ^ rest(clock)), clocks.index(clock)), default="")


def _joined_text(columns: tuple[str, ...]) -> pl.Expr:
    """The time as written: one column as it is, several (date and clock) joined with a space."""
    written = pl.col(columns[0]) if len(columns) == 1 else pl.concat_str(_date_only(columns), separator=" ")
    return written.alias(TIME)


def _date_only(columns: tuple[str, ...]) -> list[pl.Expr]:
    """Convert columns to text, without the 00:00:00 that a spreadsheet adds to a date or the date it adds to a time."""
    first, *others = (pl.col(name).cast(pl.String) for name in columns)
    midnight, day = r"[T ]0?0:00(:00(\.0+)?)?$", r"^\d{4}-\d\d-\d\d (\d\d:\d\d)"
    return [
        first.str.replace(midnight, ""),
        *(other.str.replace(day, "$1").str.replace(r"\.0$", "") for other in others),
    ]


def find_time_format(table: TableFile, columns: tuple[str, ...]) -> TimeFormat:
    """Find the format of the first time in these columns; a DataError if it is not a time."""
    table.require(columns)
    zone, zone_note = _find_zone(table, columns)
    if columns[0] in table.temporal and len(columns) == 1:
        return TimeFormat(columns, "", partial(_from_temporal, zone))
    written = (batch.select(LINE, _joined_text(columns)).drop_nulls() for batch in table.batches(columns, HEAD_ROWS))
    head = next((rows for rows in written if rows.height), None)
    if head is None:
        raise DataError(f"{table.path}: the column '{' '.join(columns)}' has no times")
    if head[TIME].dtype.is_temporal():
        return TimeFormat(columns, "", partial(_from_temporal, zone))
    if head[TIME].dtype.is_numeric() or all(kind(text) == "number" for text in head[TIME].head(20).cast(pl.String)):
        numbers = _number_format(columns, head[TIME], zone, zone_note)
        if numbers:
            return numbers
    texts = head[TIME].cast(pl.String).to_list()
    sample, shape = next(((text, shape) for text in texts if (shape := shape_of(text))), ("", None))
    if shape is None:
        place, known = table.place(head[LINE][0], " ".join(columns)), "2026-01-31T12:00:00Z or 31/01/2026 12:00"
        raise DataError(f"{place}: '{texts[0]}' is not a time; write it like {known}")
    order: Order = "dmy"
    doubt, notes = "", list[str]()
    if shape.name == "year last":
        order, doubt, note = _date_order(table, columns)
        notes += [note] if note else []
    if not shape.has_zone:
        notes.append(zone_note)
    plain = next((form for form in _plain_formats(order) if _from_plain(form, pl.Series([sample])).count()), "")
    read = partial(_from_text, plain, shape, order, zone)
    return TimeFormat(columns, sample, read, doubt, tuple(notes))


def _number_format(columns: tuple[str, ...], head: pl.Series, zone: str, zone_note: str) -> TimeFormat | None:
    """The format of times that are numbers: Unix seconds or milliseconds, or the days of a spreadsheet."""
    numbers = head.cast(pl.Float64, strict=False)
    text = str(head[0])
    if shape_of(text.removesuffix(".0")) is not None and not head.dtype.is_float():
        return None  # 20260131 and the like
    if _from_epoch(numbers.head(1)).count():
        return TimeFormat(columns, text, _from_epoch)
    if _are_days(numbers) and any(map(TIME_NAME.search, columns)):
        notes = (f"Times are days as {'Matlab' if numbers[0] > 80_000 else 'a spreadsheet'} counts them.", zone_note)
        return TimeFormat(columns, text, partial(_from_serial, zone), notes=notes)
    return None


def _plain_formats(order: Order) -> list[str]:
    """List the formats that Polars itself can parse, with day and month in this order."""
    return [form.replace("%d/%m", "%m/%d") for form in PLAIN_FORMATS] if order == "mdy" else PLAIN_FORMATS


def _date_order(table: TableFile, columns: tuple[str, ...]) -> tuple[Order, str, str]:
    """Decide the order of dates like 3/4/2026 by the whole column: the order, why it is ambiguous, and a note."""
    if table.options.dates:
        return "mdy" if table.options.dates == "month-first" else "dmy", "", ""
    text = _joined_text(columns)
    numbers = [text.str.extract(SHORT_DATE.pattern, group).cast(pl.Int64).alias(f"{group}") for group in (1, 2, 3)]
    dates: dict[tuple[int, int, int], str] = {}  # the numbers of every date, each with a text that has them
    for batch in table.batches(columns):
        rows = batch.select(*numbers, text).drop_nulls()
        for a, b, c, written in rows.unique(["1", "2", "3"], keep="first", maintain_order=True).rows():
            dates.setdefault((a, b, c), written)
    day = next((text for (first, second, _), text in dates.items() if first > 12 >= second), "")
    month = next((text for (first, second, _), text in dates.items() if second > 12 >= first), "")
    either = next((text for (a, b, _), text in dates.items() if 1 <= min(a, b) < max(a, b) <= 12), "")
    if day and month:
        return "dmy", f"'{day}' is day first and '{month}' month first, in one column; write dates like 2026-01-31", ""
    if day or month:
        order: Order = "mdy" if month else "dmy"
        name = "month first" if month else "day first"
        if either:
            _warn_once(f"{table.path}: dates like '{either}' are read {name}, as '{day or month}' shows")
        return order, "", f"Dates are read {name}, as '{day or month}' shows."
    hint = " ".join([*columns, *table.remarks[-3:]]).lower()
    if re.search(r"\bmm?[-/.]dd?[-/.]yy", hint):
        return "mdy", "", "Dates are read month first, as the header states."
    if re.search(r"\bdd?[-/.]mm?[-/.]yy", hint):
        return "dmy", "", "Dates are read day first, as the header states."
    if table.format and table.format.dates:
        return "mdy" if table.format.dates == "month-first" else "dmy", "", f"Dates are read {table.format.dates}."
    if either and "." not in either.split(" ")[0]:
        order_by_steps = _order_by_steps(list(dates))
        if order_by_steps is None:
            return "dmy", _both_readings(either), ""
        name = "day first" if order_by_steps == "dmy" else "month first"
        _warn_once(f"{table.path}: dates like '{either}' are read {name}, which puts them in close order")
        return order_by_steps, "", f"Dates like '{either}' are read {name}, which puts them in close order."
    return "dmy", "", ""


def _both_readings(text: str) -> str:
    """Explain why a date is ambiguous, with both ways to read it."""
    found = SHORT_DATE.match(text)
    assert found is not None
    first, second = int(found[1]), int(found[2])
    return (
        f"'{text}' may be {first} {month_name[second]} or {second} {month_name[first]}, and no row of the column"
        " proves which; use --dates day-first or --dates month-first (data.dates in a --config file)"
    )


def _order_by_steps(dates: Sequence[tuple[int, int, int]]) -> Order | None:
    """The order in which consecutive dates are much closer together; None if neither is."""
    if len(dates) < 3:
        return None
    day_first = [365 * year + 30 * second + first for first, second, year in dates]
    month_first = [365 * year + 30 * first + second for first, second, year in dates]
    ways = [sum(abs(b - a) for a, b in pairwise(one)) for one in (day_first, month_first)]
    if min(ways) * 3 > max(ways):
        return None
    return "dmy" if ways[0] < ways[1] else "mdy"


def _find_zone(table: TableFile, columns: tuple[str, ...]) -> tuple[str, str]:
    """The zone of times that state none, and a note about where it was found."""
    if zone := table.options.timezone:
        return check_zone(zone), ""
    for name in columns:
        if found := OFFSET.search(name):
            return _offset_name(offset_minutes(found[1])), f"Times are {found[0]}, as the column '{name}' states."
        if UTC_NAME.search(name):
            return "UTC", f"Times are UTC, as the column '{name}' states."
    if from_column := _zone_column(table, columns):
        return from_column
    if table.format and table.format.timezone:
        return table.format.timezone, f"Times are {table.format.timezone}, as in every {table.format.title}."
    for line in table.remarks:
        if zone := zone_of_remark(line):
            return zone, f"Times are {zone}, as the file states: '{line.strip()[:60]}'."
    return "UTC", "Times have no zone and are read as UTC; state it with --timezone, such as Europe/Berlin."


def _zone_column(table: TableFile, columns: tuple[str, ...]) -> tuple[str, str] | None:
    """The zone in a column for it, if its first cell names one."""
    for name in table.columns:
        if name in columns or not ZONE_COLUMN.search(name):
            continue
        batch = next(table.batches([name], HEAD_ROWS), None)
        cell = next(iter(batch[name].cast(pl.String).drop_nulls()), "") if batch is not None else ""
        local = any(map(LOCAL_NAME.search, columns)) or not any(map(UTC_NAME.search, columns))
        zone = zone_of_remark(f"UTC{cell}" if re.fullmatch(r"[+-]\d.*", cell) else cell)
        if zone and local:
            return zone, f"Times are {zone}, as the column '{name}' states."
    return None


def zone_of_remark(line: str) -> str:
    """The time zone that a line of text names, "" if none; a line with a clock speaks of another time.

    >>> zone_of_remark("(UTC-05:00) Eastern Time (US & Canada)"), zone_of_remark("MEZ/CET"), zone_of_remark("in GMT")
    ('America/New_York', '+01:00', 'UTC')
    """
    for name in re.findall(r"[A-Z]\w+(?:/[A-Z]\w+)+", line):
        if name in _zones():
            return str(name)
    offset = OFFSET.search(line)
    american = re.search(rf"\b({'|'.join(US_ZONES)}) time\b", line, re.IGNORECASE)
    if american:
        return f"America/{US_ZONES[american[1].lower()]}"
    if re.search(r"\d:\d\d", OFFSET.sub("", line)):
        return ""
    if offset:
        return _offset_name(offset_minutes(offset[1]))
    words = set(re.findall(r"\b[A-Z]{3,4}\b", line))
    if words & {"CET", "MEZ"} and words & {"CEST", "MESZ"}:
        return "Europe/Berlin"
    known = [word for word in words if word.lower() in ZONES]
    return _offset_name(ZONES[known[0].lower()]) if known else ""


def _offset_name(minutes: int) -> str:
    """An offset as `check_zone` takes it.

    >>> _offset_name(-330), _offset_name(0)
    ('-05:30', 'UTC')
    """
    sign, size = "-" if minutes < 0 else "+", abs(minutes)
    return f"{sign}{size // 60:02}:{size % 60:02}" if minutes else "UTC"


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def check_zone(zone: str) -> str:
    """A time zone as a person states it: IANA name, offset or UTC; a UsageError for any other."""
    if zone.upper() in ("UTC", "GMT", "Z"):
        return "UTC"
    if re.fullmatch(r"(?:UTC|GMT)?[+-]\d\d?(?::?\d\d)?", zone, re.IGNORECASE):
        return _offset_name(offset_minutes(zone))
    if zone not in _zones():
        raise UsageError(f"no time zone is called '{zone}'{suggestion(zone, _zones())}")
    return zone


@cache  # a file may be read several times, and each message is logged once
def _warn_once(message: str) -> None:
    logger.warning(message)


def _from_temporal(zone: str, times: pl.Series) -> pl.Series:
    """Convert dates and datetimes; those without a time zone are in `zone`."""
    if getattr(times.dtype, "time_zone", None):
        return times.cast(TIME_TYPE)
    return in_utc(times.cast(pl.Datetime("us")), zone)


def _from_epoch(times: pl.Series) -> pl.Series:
    """Convert Unix seconds or milliseconds from 1973 to 2286, which cannot be confused, or micro- and nanoseconds."""
    numbers = pl.lit(times.cast(pl.Float64, strict=False))
    scales = ((1e8, 1.0), (1e11, 1e3), (1e14, 1e6), (1e17, 1e9))
    seconds = pl.coalesce(pl.when(numbers.is_between(low, 100 * low)).then(numbers / scale) for low, scale in scales)
    return pl.select((1e6 * seconds).round().cast(pl.Int64).cast(TIME_TYPE)).to_series()


def _are_days(numbers: pl.Series) -> bool:
    """Whether all numbers are days of this time, as spreadsheets or Matlab count them."""
    return any(numbers.is_between(*some).all() for some in (EXCEL_DAYS, MATLAB_DAYS))


def _from_serial(zone: str, times: pl.Series) -> pl.Series:
    """Convert the days since the end of 1899 by which spreadsheets count, or since the year 0, as Matlab does."""
    days = pl.lit(times.cast(pl.Float64, strict=False))
    zeros = ((EXCEL_DAYS, 25_569), (MATLAB_DAYS, 719_529))  # the days of 1970-01-01
    seconds = pl.coalesce(
        pl.when(days.is_between(*some)).then(((days - zero) * 86_400).round()) for some, zero in zeros
    )
    return in_utc(pl.select((1_000_000 * seconds).cast(pl.Int64).cast(pl.Datetime("us"))).to_series(), zone)


def _from_plain(form: str, times: pl.Series) -> pl.Series:
    """Parse text with a `strftime` format, null where it does not match; without an offset the zone is UTC."""
    parsed = times.str.to_datetime(form, time_unit="us", time_zone="UTC", strict=False)
    # %Y reads 01/02/20 as the year 20: such a date counts as not parsed.
    return pl.select(pl.when(parsed.dt.year() >= 1970).then(parsed)).to_series()


def _from_text(plain: str, shape: TimeShape, order: Order, zone: str, times: pl.Series) -> pl.Series:
    """Parse text by a plain format, and what that does not match by its shape; times without an offset are in `zone`.

    Null where a time has an offset and the shape has none, or the other way round.
    """
    texts = times.cast(pl.String)
    if plain:
        parsed = _from_plain(plain, texts)
        if not shape.has_zone and zone != "UTC":
            parsed = in_utc(parsed.dt.replace_time_zone(None), zone)
        rest = parsed.is_null() & texts.is_not_null()
        if not rest.any():
            return parsed
        odd = _from_shape(shape, order, zone, texts.filter(rest))
        return parsed.scatter(rest.arg_true(), odd)
    return _from_shape(shape, order, zone, texts)


def _from_shape(shape: TimeShape, order: Order, zone: str, texts: pl.Series) -> pl.Series:
    """Parse text by its shape."""
    found = parse(texts, shape, order)
    if shape.has_zone:
        ahead = pl.duration(minutes=pl.col("offset"))
        parsed = found.select((pl.col("time") - ahead).dt.replace_time_zone("UTC")).to_series()
    else:
        local = found.select(pl.when(pl.col("offset").is_null()).then("time")).to_series()
        parsed = in_utc(local, zone)
    return pl.select(pl.when(parsed.dt.year() >= 1970).then(parsed)).to_series()


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
    twice = (early != late).fill_null(False)
    if not twice.any():
        return early
    frame = pl.DataFrame({"time": times, "early": early, "late": late, "run": twice.rle_id(), "twice": twice})
    step = pl.col("time").diff().over("run")
    back = (step < pl.duration()).cum_sum().over("run") > 0
    half = pl.int_range(pl.len()).over("run") >= pl.len().over("run") / 2
    equal = (pl.col("time").n_unique() == 1).over("run") & (pl.len().over("run") > 1)
    second = pl.col("twice") & pl.when(equal).then(half).otherwise(back.fill_null(False))
    return frame.select(pl.when(second).then("late").otherwise("early")).to_series()


def parse_times(
    batch: pl.DataFrame, form: TimeFormat, table: TableFile, tally: Tally
) -> tuple[pl.DataFrame, pl.Series]:
    """Select the rows of a batch whose time can be parsed; returns them and their times in UTC.

    Other rows are counted in `tally`. A time with a zone among times without one, or the reverse, is a DataError.
    """
    if form.doubt:
        raise DataError(f"{table.path}: {form.doubt}")
    written = batch.select(LINE, _joined_text(form.columns))
    times = form.read(written[TIME]).alias(TIME)
    lost = times.is_null()
    if not lost.any():
        tally.add_rows(written.clear(), batch.height)
        return batch, times
    unread = written.filter(lost).with_columns(pl.col(TIME).cast(pl.String))
    shape = shape_of(form.sample)
    for line, text in unread.drop_nulls().head(HEAD_ROWS).rows():
        other = shape_of(text)
        if shape and other and other.has_zone != shape.has_zone and other.has_clock:
            place = table.place(line, " ".join(form.columns))
            raise DataError(f"{place}: '{text}' and '{form.sample}' mix times with and without a time zone")
    tally.add_rows(unread, batch.height - unread.height)
    return batch.filter(~lost), times.filter(~lost)
