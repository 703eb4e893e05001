"""Times of a table: which columns hold them, in which format and zone, and as UTC.

A column's first time decides its shape (`time_text`). Whether 3/4/2026 is day first is decided by the whole column.
The zone is what the times, the column's name, a zone column, the known format or a remark of the file state, or
`TableOptions.timezone`; without any of these it is UTC, which a note says.
Called by `column_mapping`, `column_guess` and `alignment`.
"""

import logging
import re
from calendar import month_name
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise, product, takewhile
from typing import NamedTuple

import polars as pl
import polars.selectors as cs

from scare.data.cells import kind
from scare.data.readings import TIME, TIME_TYPE
from scare.data.tables import LINE, TableFile, Tally
from scare.data.time_text import Order, TimeShape, is_clock, parse, shape_of
from scare.data.time_zones import UTC_NAME, find_zone, in_utc
from scare.errors import DataError

logger = logging.getLogger(__name__)
MANY_ROWS = 20  # with so many rows of only two dates, the dates are consecutive days
HEAD_ROWS = 200  # first rows by which the content of a column is told
SAMPLE = 40  # cells of them
SHORT_DATE = re.compile(r"^\s*'?(?:[^\W\d_]{2,10}\.?,? )?(\d{1,2})[-/.](\d{1,2})[-/.](\d{4}|\d\d)\b")
PLAIN_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%d.%m.%Y")
PLAIN_CLOCKS = ("%H:%M:%S%.f", "%H:%M")
DAY_FIRST_FORMATS = [*map("".join, product(PLAIN_DATES, "T ", PLAIN_CLOCKS, ("", "%#z", " %#z"))), *PLAIN_DATES]
PLAIN_FORMATS: dict[Order, list[str]] = {  # formats that Polars itself can parse
    "dmy": DAY_FIRST_FORMATS,
    "mdy": [form.replace("%d/%m", "%m/%d") for form in DAY_FIRST_FORMATS],
    "ymd": [],
}
ROUNDED = re.compile(r"\d(?:\.\d{0,8})?e\+?\d+", re.IGNORECASE)  # Unix seconds with less than ten digits
# Columns named in a language whose countries write the day first.
DAY_FIRST = re.compile(
    r"datum|fecha|\bdata\b|\bhora\b|heure|\bjour|giorno|\bora\b|zeit|tijd|\btid\b|dato|czas|date de|debut",
    re.IGNORECASE,
)
PART_WORDS: dict[str, str] = {  # names of columns that hold a part of the time
    "year": r"^(year|jahr|a[nñ]o|ann[ée]e|anno|any|vuosi|år|jaar|rok|yyyy|yy|yr)$",
    "month": r"^(month|mon|monat|m[eê]s|mois|mese|kuukausi|månad|måned|maand|miesiąc|kk|mm|mo|m)$",
    "day": r"^(day|tag|d[ií]a|jour|giorno|päivä|dag|dzień|pv|dd|dy|d)$",
    "hour": r"^(hour(_?observed)?|stunde|hora|heure|ora|hh|hr|hhmm|hrmn|時|时|시간)( ?\(\w+\))?$",
    "day of year": r"^(doy|jday|julian(_?\s?day)?|day[_ ]?of[_ ]?year|yday|year_?\s?day|jul|jd)$",
    "minute": r"^(minute|minuto|min|mn|mm)$",
    "second": r"^(second|sekunde|segundo|sec)$",
}
ZONE_CLOCK = re.compile(r"(?:[acemp]?st|utc|gmt|lst)(?: ?time)?", re.IGNORECASE)  # hours and minutes, named by a zone
DATE_AND_CLOCK_WORDS = {
    *("date", "time", "datum", "zeit", "uhrzeit", "fecha", "hora", "tag", "stunde"),
    *("yyyy", "mm", "dd", "hh", "ss"),
}
TIME_NAME = re.compile(
    r"date|time|stamp|datum|zeit|\btag\b|stunde|fecha|hora|heure|jour|\bdata\b|\bora\b|tijd|epoch|created|recorded|utc"
    r"|last_changed|when|^ts(?![a-z])|^rec$|czas|dato|\btid\b|时间|時間|日期|日時|日付|年月日|時刻|일시|시간|날짜",
    re.IGNORECASE,
)
NO_NAME = re.compile(r"column_\d+")
LATE_NAME = re.compile(
    r"\b(?:end|to|until|bis|ende)\b|_end$|acqui|modif|update|upload|received|max|min|tm[nx]", re.IGNORECASE
)
EXCEL_DAYS, MATLAB_DAYS = (25_569, 80_000), (719_529, 775_000)  # days of this time; the first is 1 January 1970
TimeReader = Callable[[pl.Series], pl.Series]  # returns null for what it cannot parse


@dataclass(frozen=True)
class TimeFormat:
    """How a table writes its times."""

    columns: tuple[str, ...]  # which together hold the time
    sample: str  # the first time, as it is written
    read: TimeReader  # parses all times of this format
    doubt: str = ""  # why its dates are ambiguous, if they are
    notes: tuple[str, ...] = ()


def find_time_columns(table: TableFile) -> tuple[str, ...]:
    """Find the columns that together hold the time of a row; raises a DataError if none do.

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
    candidates = list(_candidates(texts))
    if not candidates:
        raise _no_times(table)
    _, columns = min(candidates, key=lambda candidate: candidate[0])
    return columns


def _no_times(table: TableFile) -> DataError:
    """Make the error for a table without times; it says what is missing if there is only a day, an hour or a clock."""
    part = next((name for name in table.columns for word in PART_WORDS.values() if re.search(word, name.lower())), "")
    what = f"'{part}' alone is no date; add the year, month and day as columns" if part else "Name them with --time"
    head = next(table.batches(table.columns, HEAD_ROWS), pl.DataFrame())
    first_cells = {column.name: next(iter(column.drop_nulls()), "") for column in head.select(pl.col(pl.String))}
    # A serial monitor may print "18:00:00.123 -> " before each line.
    clocks = (name for name, cell in first_cells.items() if is_clock(cell.partition(" -> ")[0]))
    if not part and (clock := next(clocks, "")):
        what = f"'{clock}' has times of day without a date; join it with a column of dates: --time DATE,{clock}"
    return DataError(f"{table.path}: no column holds times; there are {', '.join(table.columns[:20])}. {what}")


def _candidates(texts: dict[str, list[str]]) -> Iterator[tuple[tuple[object, ...], tuple[str, ...]]]:
    """Yield the sets of columns that may be the time, each after a key by which the best sorts first.

    `texts` has the first cells of each column.
    """
    kinds = {name: _kind_of_times(name, cells) for name, cells in texts.items() if cells}
    clocks = [name for name, kind_of_times in kinds.items() if kind_of_times == "clock"]
    rows = max(map(len, texts.values()), default=0)

    def rank(level: int, columns: Sequence[str]) -> tuple[object, ...]:
        """Return a sort key, in which False goes before True.

        `level` is 1 for a whole time, 2 for a date and a clock, 3 for the days of a spreadsheet or parts with a clock,
        4 for a date alone and 5 for parts without a clock.
        """
        first = columns[0]
        distinct = max(len(set(texts[name])) for name in columns)
        has_time_name = any(map(TIME_NAME.search, columns))
        states_zone = kinds[first] == "zoned" or any(map(UTC_NAME.search, columns))
        is_late = any(map(LATE_NAME.search, columns))  # the end of an interval, or when the row was written
        hardly_changes = distinct < min(3, rows)
        return hardly_changes, level >= 3, not states_zone, not has_time_name, is_late, level, list(texts).index(first)

    for name, kind_of_times in kinds.items():
        is_called_time = TIME_NAME.search(name) or NO_NAME.fullmatch(name)
        if kind_of_times in ("zoned", "moment") or (kind_of_times == "epoch" and is_called_time):
            yield rank(1, [name]), (name,)
        elif kind_of_times == "date":
            clock = _partner(name, clocks)
            hour = next((other for other in texts if re.search(PART_WORDS["hour"], other.lower())), "")
            if clock:
                yield rank(2, [name, clock]), (name, clock)
            elif hour and kinds.get(hour) == "number":
                yield rank(2, [name, hour]), (name, hour)
            else:
                yield rank(4, [name]), (name,)
        elif kind_of_times == "serial" and TIME_NAME.search(name):
            yield rank(3, [name]), (name,)
    day_columns, clock_columns = _columns_of_day_and_clock(list(texts), kinds)
    if day_columns:
        columns = day_columns + clock_columns
        yield rank(3 if clock_columns else 5, columns), columns


def _columns_of_day_and_clock(
    names: Sequence[str], kinds: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Find the columns of year, month and day, or of year and day of the year, and those of the hour or the clock.

    `kinds` has the `_kind_of_times` of each column that is not empty. Each of the two results is empty if there are no
    such columns.
    """
    parts = _columns_of_parts(names)
    clock = parts["hour"] or next((name for name in kinds if kinds[name] == "clock"), "")
    if parts["year"] and parts["month"] and parts["day"] and kinds.get(parts["year"]) == "number":
        minute = parts["minute"] if parts["hour"] and kinds.get(parts["minute"]) == "number" else ""
        return (parts["year"], parts["month"], parts["day"]), tuple(filter(None, (clock, minute)))
    if parts["year"] in kinds and parts["day of year"] in kinds:
        zone_clocks = (name for name in kinds if kinds[name] == "number" and ZONE_CLOCK.fullmatch(name))
        clock = clock or next(zone_clocks, "")
        return (parts["year"], parts["day of year"]), tuple(filter(None, (clock,)))
    return (), ()


def _columns_of_parts(names: Sequence[str]) -> dict[str, str]:
    """Find the column of each part of a time (`PART_WORDS`) by its name; empty for a part that has none.

    All names may begin alike, as in brw_year, brw_month, brw_day; so may fewer than four names by chance.
    """
    equal_letters = takewhile(lambda letters: len({*letters}) == 1, zip(*names, strict=False))
    prefix = "".join(letters[0] for letters in equal_letters) if len(names) > 3 else ""
    parts = {
        part: next((name for name in names if re.search(words, name.removeprefix(prefix).lower())), "")
        for part, words in PART_WORDS.items()
    }
    if parts["minute"] == parts["month"]:  # both may be called mm, as in YY MM DD hh mm; MM is then the month
        parts["minute"] = "mm" if "mm" in names and parts["month"] != "mm" else ""
    return parts


def _kind_of_times(name: str, cells: Sequence[str]) -> str:
    """Return what most cells of a column are.

    `zoned` (time with a zone), `moment` (time without), `date`, `clock`, `epoch` (Unix time), `serial` (days of a
    spreadsheet), `number` or `text`.
    """
    sample = cells[:SAMPLE]
    if re.search("yymmdd", name, re.IGNORECASE) and all(re.fullmatch(r"\d{6}", cell) for cell in sample):
        return "date"
    if sum(map(is_clock, sample)) > len(sample) / 2:
        return "clock"
    shapes = [shape_of(cell) for cell in sample]
    known = [shape for shape in shapes if shape]
    # Digits such as 20260131 and 2026-031 may be a number or a code: they are a time if the column's name says so.
    may_be_code = bool(known) and known[0].name in ("digits", "day of year") and not TIME_NAME.search(name)
    if len(known) > len(sample) / 2 and not may_be_code:
        shape = max(known, key=known.count)
        if all(re.search(r"[T ]00:00(:00(\.0+)?)?$", cell) for cell in sample):
            return "date"  # as a spreadsheet writes it
        return "zoned" if shape.has_zone else "moment" if shape.has_clock else "date"
    if all(kind(cell) == "number" for cell in sample):
        numbers = pl.Series(sample).cast(pl.Float64, strict=False).drop_nulls()  # without those with a comma or a unit
        if not _from_epoch(numbers).null_count() and len(numbers) == len(sample):
            return "epoch"
        return "serial" if len(numbers) and _are_days(numbers) else "number"
    return "text"


def _partner(date: str, clocks: Sequence[str]) -> str:
    """Return the clock that belongs to a date: the one with the same qualifiers in its name, such as (UTC) or Local."""

    def qualifiers(name: str) -> set[str]:
        return set(re.findall(r"[^\W\d_]+", name.lower())) - DATE_AND_CLOCK_WORDS

    def unshared(clock: str) -> int:
        return len(qualifiers(date) ^ qualifiers(clock))

    return min(clocks, key=unshared, default="")  # the first of equally good ones


def _joined_text(columns: tuple[str, ...]) -> pl.Expr:
    """Return the time as written: one column as it is, several (date and clock) joined with a space."""
    written = pl.col(columns[0]) if len(columns) == 1 else pl.concat_str(_parts_of_time(columns), separator=" ")
    return written.alias(TIME)


def _parts_of_time(columns: tuple[str, ...]) -> list[pl.Expr]:
    """Return date, clock and other parts of a time as texts, which joined with spaces are one time.

    The 00:00:00 that a spreadsheet adds to a date, and the date that it adds to a clock, are removed. Hours and minutes
    become one text, and so do the year and the day of the year.
    """
    first, *others = (pl.col(name).cast(pl.String) for name in columns)
    midnight, date_of_clock = r"[T ]0?0:00(:00(\.0+)?)?$", r"^\d{4}-\d\d-\d\d (\d\d:\d\d)"
    date = first.str.replace(midnight, "").str.replace(r"^(\d{4})\.0$", "$1")  # 2026.0 is a year in a column of floats
    if re.search("yymmdd", columns[0], re.IGNORECASE):  # 260131 is 2026-01-31
        date = date.str.replace(r"^(\d\d)(\d\d)(\d\d)$", "20$1-$2-$3")
    # What follows the first column: a clock, or the month, the day, the hour and the minute.
    later = [other.str.replace(date_of_clock, "$1").str.replace(r"\.0$", "") for other in others]
    for i, name in enumerate(map(str.lower, columns[1:])):
        is_zone_clock = ZONE_CLOCK.fullmatch(name)
        if is_zone_clock or re.search(PART_WORDS["hour"], name):
            # Zeros are filled in, so that the hour 5 is 05, and 100 is 0100; 0100 and 1530 get a colon.
            has_minutes = is_zone_clock or re.search("hhmm|hrmn", name)
            later[i] = later[i].str.zfill(4 if has_minutes else 2).str.replace(r"^(\d{1,2})(\d\d)$", "$1:$2")
        elif i and re.search(PART_WORDS["minute"], name):  # i is 0 for the month, which may be called mm, too
            # Minutes come last, so no other part moves when they become one text with the hour.
            hour, minute = later[i - 1], later[i].str.zfill(2)
            later[i - 1 : i + 1] = [pl.format("{}:{}", hour, minute)]
    if len(columns) > 1 and re.search(PART_WORDS["day of year"], columns[1].lower()):
        day_of_year = later.pop(0)
        date = pl.format("{}-{}", date, day_of_year.str.zfill(3))
    return [date, *later]


def find_time_format(table: TableFile, columns: tuple[str, ...]) -> TimeFormat:
    """Find the format of the first time in these columns; raises a DataError if it is not a time."""
    table.require(columns)
    zone, zone_note = find_zone(table, columns)
    written = (batch.select(LINE, _joined_text(columns)).drop_nulls() for batch in table.batches(columns, HEAD_ROWS))
    head = next((rows for rows in written if rows.height), None)
    if head is None:
        raise DataError(f"{table.path}: the column '{' '.join(columns)}' has no times")
    if head[TIME].dtype.is_temporal():
        notes = () if getattr(head[TIME].dtype, "time_zone", None) else (zone_note,)
        return TimeFormat(columns, "", partial(_from_temporal, zone), notes=notes)
    if head[TIME].dtype.is_numeric() or all(kind(text) == "number" for text in head[TIME].head(20).cast(pl.String)):
        numbers = _number_format(columns, head[TIME], zone, zone_note)
        if numbers:
            return numbers
    texts = head[TIME].cast(pl.String).to_list()
    sample, shape = next(((text, shape) for text in texts if (shape := shape_of(text))), ("", None))
    if shape is None:
        place = table.place(head[LINE][0], " ".join(columns))
        examples = "2026-01-31T12:00:00Z or 31/01/2026 12:00"
        raise DataError(f"{place}: '{texts[0]}' is not a time; write it like {examples}")
    order: Order = "dmy"
    doubt, note = "", ""
    if shape.name == "year last":
        order, note, doubt = _date_order(table, columns)
    notes = (*filter(None, [note]), *(() if shape.has_zone else (zone_note,)))
    plain = next((form for form in PLAIN_FORMATS[order] if _from_plain(form, pl.Series([sample])).count()), "")
    read = partial(_from_text, plain, shape, order, zone)
    return TimeFormat(columns, sample, read, doubt, notes)


def _number_format(columns: tuple[str, ...], head: pl.Series, zone: str, zone_note: str) -> TimeFormat | None:
    """Return the format of times that are numbers: Unix seconds or milliseconds, or the days of a spreadsheet."""
    numbers = head.cast(pl.Float64, strict=False)
    text = str(head[0])
    if shape_of(text.removesuffix(".0")) is not None and not head.dtype.is_float():
        return None  # 20260131 and the like
    if _from_epoch(numbers.head(1)).count():
        if head.dtype == pl.String and ROUNDED.fullmatch(text):
            raise DataError(
                f"times like {text} in '{columns[0]}' were rounded by a spreadsheet; export them as whole numbers"
            )
        return TimeFormat(columns, text, _from_epoch)
    if _are_days(numbers) and any(map(TIME_NAME.search, columns)):
        notes = (
            f"Times are days as {'Matlab' if numbers[0] > EXCEL_DAYS[1] else 'a spreadsheet'} counts them.",
            zone_note,
        )
        return TimeFormat(columns, text, partial(_from_serial, zone), notes=notes)
    return None


class DateOrder(NamedTuple):
    """How dates like 3/4/2026 are read; if that is uncertain, `ambiguous` is an error message that says why."""

    order: Order = "dmy"
    note: str = ""
    ambiguous: str = ""


def _date_order(table: TableFile, columns: tuple[str, ...]) -> DateOrder:
    """Decide the order of day and month in a column, by the first of these that shows it.

    They are an option, years of two digits that fit only as the first number, a date with a number above 12, a form
    such as MM/DD/YYYY in the header, the table's known format, the language of the column's name, the order in which
    successive dates are close together, and a date in the file's name or preamble. If none shows it, dates with dots
    are day first, and others are ambiguous.
    """
    if table.options.dates:
        return DateOrder("mdy" if table.options.dates == "month-first" else "dmy")
    dates, rows_read = _short_dates(table, columns)
    if _is_year_first(list(dates)):
        example = next(iter(dates.values()))
        return DateOrder("ymd", f"Dates like '{example}' are read year first, which puts them in close order.")

    def find_text(fits: Callable[[int, int], bool]) -> str:
        """Return the text of the first date whose first two numbers fit; empty if there is none."""
        return next((text for (first, second, _), text in dates.items() if fits(first, second)), "")

    day_first = find_text(lambda first, second: first > 12 >= second)  # no month is above 12
    month_first = find_text(lambda first, second: second > 12 >= first)
    unclear = find_text(lambda first, second: 1 <= min(first, second) < max(first, second) <= 12)
    if day_first and month_first:
        return DateOrder(
            ambiguous=f"'{day_first}' is day first and '{month_first}' month first, in one column; write dates like"
            " 2026-01-31"
        )
    if proof := day_first or month_first:
        order: Order = "mdy" if month_first else "dmy"
        name = "month first" if month_first else "day first"
        if unclear:
            _warn_once(f"{table.path}: dates like '{unclear}' are read {name}, as '{proof}' shows")
        return DateOrder(order, f"Dates are read {name}, as '{proof}' shows.")
    if stated := _stated_order(table, columns):
        return stated
    if unclear and any(map(DAY_FIRST.search, columns)):
        why = "as is usual where the column is called so"
        return DateOrder("dmy", f"Dates like '{unclear}' are read day first, {why}.")
    has_dots = "." in unclear.split(" ")[0]  # without the clock, whose seconds may have a point
    if unclear and not has_dots:
        likely_order = _order_by_steps(list(dates), rows_read) or _order_by_remarks(table, list(dates))
        if likely_order is None:
            return DateOrder(ambiguous=_both_readings(unclear))
        name = "day first" if likely_order == "dmy" else "month first"
        why = "which puts them in close order" if len(dates) > 1 else "as another date in the file or its name shows"
        _warn_once(f"{table.path}: dates like '{unclear}' are read {name}, {why}")
        return DateOrder(likely_order, f"Dates like '{unclear}' are read {name}, {why}.")
    return DateOrder()


def _short_dates(table: TableFile, columns: tuple[str, ...]) -> tuple[dict[tuple[int, int, int], str], int]:
    """Read dates like 3/4/2026: the first text of each distinct one, by its three numbers, and the number of rows."""
    text = _joined_text(columns)
    numbers = [text.str.extract(SHORT_DATE.pattern, group).cast(pl.Int64).alias(f"{group}") for group in (1, 2, 3)]
    dates: dict[tuple[int, int, int], str] = {}
    rows_read = 0
    for batch in table.batches(columns):
        rows = batch.select(*numbers, text).drop_nulls()
        rows_read += rows.height
        for first, second, third, written in rows.unique(["1", "2", "3"], keep="first", maintain_order=True).rows():
            dates.setdefault((first, second, third), written)
    return dates, rows_read


def _stated_order(table: TableFile, columns: tuple[str, ...]) -> DateOrder | None:
    """Return the order of day and month that MM/DD/YYYY in the header, or the known format, states; None if neither."""
    header = " ".join([*columns, *table.remarks[-3:]]).lower()  # and the last lines outside the table
    if re.search(r"\bmm?[-/.]dd?[-/.]yy", header):
        return DateOrder("mdy", "Dates are read month first, as the header states.")
    if re.search(r"\bdd?[-/.]mm?[-/.]yy", header):
        return DateOrder("dmy", "Dates are read day first, as the header states.")
    if table.format and table.format.dates:
        order: Order = "mdy" if table.format.dates == "month-first" else "dmy"
        return DateOrder(order, f"Dates are read {table.format.dates}.")
    return None


def _is_year_first(dates: Sequence[tuple[int, int, int]]) -> bool:
    """Whether dates with years of two digits are much closer together if the year is the first number."""
    if len(dates) < 3 or max(year for _, _, year in dates) > 31 or min(year for year, _, _ in dates) <= 12:
        return False
    return 3 * _days_between(dates, "ymd") < _days_between(dates, "dmy")


def _days_between(dates: Sequence[tuple[int, int, int]], order: Order) -> int:
    """Return the sum of the days between successive dates, read in this order; exact days do not matter here."""
    lengths = {"y": 365, "m": 30, "d": 1}
    days = [sum(lengths[part] * number for part, number in zip(order, date, strict=True)) for date in dates]
    return sum(abs(following - day) for day, following in pairwise(days))


def _both_readings(text: str) -> str:
    match = SHORT_DATE.match(text)
    assert match is not None
    first, second = int(match[1]), int(match[2])
    return (
        f"'{text}' may be {first} {month_name[second]} or {second} {month_name[first]}, and no row of the column"
        " proves which; use --dates day-first or --dates month-first (data.dates in a --config file)"
    )


def _order_by_remarks(table: TableFile, dates: Sequence[tuple[int, int, int]]) -> Order | None:
    """Return the order of day and month by which the first date is one that the file's name or preamble states.

    A date that they state has the year first, as in data_2026-04-03.csv. None if neither order, or both, give one.
    """
    texts = " ".join([table.path.name, *table.remarks])
    stated = {f"{y}{m}{d}" for y, m, d in re.findall(r"(20\d\d)[-_/. ]?([01]\d)[-_/. ]?([0-3]\d)(?!\d)", texts)}
    first, second, year = dates[0]
    month_and_day: dict[Order, str] = {"dmy": f"{second:02}{first:02}", "mdy": f"{first:02}{second:02}"}
    orders = [order for order, digits in month_and_day.items() if f"{2000 + year % 100}{digits}" in stated]
    return orders[0] if len(orders) == 1 else None


def _order_by_steps(dates: Sequence[tuple[int, int, int]], rows: int) -> Order | None:
    """Return the order of day and month by which successive dates are much closer together; None if neither is.

    Two dates are enough if each has many rows.
    """
    if len(dates) < 2 or (len(dates) == 2 and rows < MANY_ROWS):
        return None
    day_first, month_first = _days_between(dates, "dmy"), _days_between(dates, "mdy")
    if 3 * min(day_first, month_first) > max(day_first, month_first):
        return None
    return "dmy" if day_first < month_first else "mdy"


@cache  # a file may be read several times, and each message is logged once
def _warn_once(message: str) -> None:
    logger.warning(message)


def _in_years(times: pl.Series) -> pl.Series:
    """Replace times before 1970 or after the year 9999, which Unix time or Python's dates cannot hold, by null."""
    return pl.select(pl.when(times.dt.year().is_between(1970, 9999)).then(times)).to_series()


def _from_temporal(zone: str, times: pl.Series) -> pl.Series:
    """Convert dates and datetimes; those without a time zone are in `zone`."""
    times = _in_years(times)
    if getattr(times.dtype, "time_zone", None):
        return times.cast(TIME_TYPE)
    return in_utc(times.cast(pl.Datetime("us")), zone)


def _from_epoch(times: pl.Series) -> pl.Series:
    """Convert Unix times in seconds, milli-, micro- or nanoseconds, told apart by size; null outside 1973 to 2286."""
    numbers = pl.lit(times.cast(pl.Float64, strict=False))
    units_per_second = (1.0, 1e3, 1e6, 1e9)
    seconds = pl.coalesce(
        pl.when(numbers.is_between(1e8 * units, 1e10 * units)).then(numbers / units) for units in units_per_second
    )
    return pl.select((1e6 * seconds).round().cast(pl.Int64).cast(TIME_TYPE)).to_series()


def _are_days(numbers: pl.Series) -> bool:
    """Whether all numbers are days of this time, as spreadsheets or Matlab count them."""
    return any(numbers.is_between(*span).all() for span in (EXCEL_DAYS, MATLAB_DAYS))


def _from_serial(zone: str, times: pl.Series) -> pl.Series:
    """Convert the days since the end of 1899 by which spreadsheets count, or since the year 0, as Matlab does."""
    days = pl.lit(times.cast(pl.Float64, strict=False))
    seconds = pl.coalesce(
        pl.when(days.is_between(first, last)).then(((days - first) * 86_400).round())
        for first, last in (EXCEL_DAYS, MATLAB_DAYS)
    )
    return in_utc(pl.select((1_000_000 * seconds).cast(pl.Int64).cast(pl.Datetime("us"))).to_series(), zone)


def _from_plain(form: str, times: pl.Series) -> pl.Series:
    """Parse text with a `strftime` format, null where it does not match; without an offset the zone is UTC."""
    parsed = times.str.to_datetime(form, time_unit="us", time_zone="UTC", strict=False)
    return _in_years(parsed)  # %Y reads 01/02/20 as the year 20: such a date counts as not parsed


def _from_text(plain: str, shape: TimeShape, order: Order, zone: str, times: pl.Series) -> pl.Series:
    """Parse text by the format `plain`, and what it does not match by the shape; times without an offset are in `zone`.

    A time becomes null if it has an offset and the shape has none, or the other way round.
    """
    texts = times.cast(pl.String)
    if plain:
        parsed = _from_plain(plain, texts)
        if not shape.has_zone and zone != "UTC":
            parsed = in_utc(parsed.dt.replace_time_zone(None), zone)
        is_unread = parsed.is_null() & texts.is_not_null()
        if not is_unread.any():
            return parsed
        by_shape = _from_shape(shape, order, zone, texts.filter(is_unread))
        return parsed.scatter(is_unread.arg_true(), by_shape)
    return _from_shape(shape, order, zone, texts)


def _from_shape(shape: TimeShape, order: Order, zone: str, texts: pl.Series) -> pl.Series:
    """Parse text by its shape; times without an offset are in `zone`."""
    fields = parse(texts, shape, order)
    if shape.has_zone:
        ahead = pl.duration(minutes=pl.col("offset"))
        return fields.select((pl.col("time") - ahead).dt.replace_time_zone("UTC")).to_series()
    local = fields.select(pl.when(pl.col("offset").is_null()).then("time")).to_series()
    return in_utc(local, zone)


def parse_times(
    batch: pl.DataFrame, form: TimeFormat, table: TableFile, tally: Tally
) -> tuple[pl.DataFrame, pl.Series]:
    """Select the rows of a batch whose time can be parsed; returns them and their times in UTC.

    Other rows are counted in `tally`. A time with a zone among times without one, or the reverse, is a DataError.
    """
    if form.doubt:
        raise DataError(f"{table.path}: {form.doubt}")
    written = batch.select(LINE, _joined_text(form.columns))
    times = _in_years(form.read(written[TIME])).alias(TIME)
    is_unread = times.is_null()
    if not is_unread.any():
        tally.add_rows(written.clear(), batch.height)
        return batch, times
    unread = written.filter(is_unread)
    if unread.schema[TIME].is_temporal():  # Polars panics when it writes a time whose year it does not know
        unread = unread.with_columns(pl.when(pl.col(TIME).dt.year().is_not_null()).then(TIME))
    unread = unread.with_columns(pl.col(TIME).cast(pl.String))
    _refuse_other_order(batch.filter(is_unread), table)
    shape = shape_of(form.sample)
    for line, text in unread.drop_nulls().head(HEAD_ROWS).rows():
        other = shape_of(text)
        if shape and other and other.has_zone != shape.has_zone and other.has_clock:
            place = table.place(line, " ".join(form.columns))
            raise DataError(f"{place}: '{text}' and '{form.sample}' mix times with and without a time zone")
    tally.add_rows(unread, batch.height - unread.height)
    return batch.filter(~is_unread), times.filter(~is_unread)


def _refuse_other_order(rows: pl.DataFrame, table: TableFile) -> None:
    """Raise a DataError if a row repeats the header in another order, as in a file that joins others.

    A single word of the header does not count: it may be in the lines before the table of the next station.
    """
    names = rows.select(cs.string()).columns
    if len(names) < 2:
        return
    has_other_name = [pl.col(name).is_in([*({*names} - {name})]).fill_null(False) for name in names]
    headers = rows.filter(pl.sum_horizontal(has_other_name) > 1)
    if headers.height:
        place = table.place(headers[LINE][0])
        raise DataError(f"{place}: the header comes again, with the columns in another order; split the file there")
