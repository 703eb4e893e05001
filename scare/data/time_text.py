"""Times as text: one grammar that recognises how a logger writes a date and clock, and parses columns of it.

Every pattern names the same groups (year `y`, month `m`, day `d` or day of the year `j`, hour `H`, minute `M`, second
`S`, fraction `f`, half of the day `p`, zone `z`), so a column becomes ISO 8601 by the pattern that its first cell
matches. What is no date, such as 2000-36-00, becomes null. Called by `cells` (is this a time?) and `times` (which time
is it?).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import polars as pl

from scare.data.vocabulary import VOCABULARY

Order = Literal["dmy", "mdy", "ymd"]
# Numbers of months by how their names begin.
MONTHS = {name: number for number, names in enumerate(VOCABULARY["months"], 1) for name in names}
ZONE_MINUTES: dict[str, int] = VOCABULARY["zone_minutes"]
NAMED = rf"(?:{'|'.join(MONTHS)})[^\W\d_]*\.?"  # a month by its name
ZONE = rf"(?P<z>(?:utc|gmt)? ?[+-]\d\d?(?::?\d\d)?|{'|'.join(sorted(ZONE_MINUTES, key=len, reverse=True))})"
CLOCK = (
    r"(?P<H>\d{1,2}) ?[h时時시]?(?:[:.h时時] ?(?P<M>\d{1,2})分?(?:[:.](?P<S>\d{1,2})(?:[.,](?P<f>\d{1,9})\d*)?)?)?"
    rf"(?: ?(?P<p>[ap])\.?(?: ?m\.?)?)?(?: ?{ZONE}(?: \([^()]*\))?)?"
)
GLUE = r"(?:t| ?[,/_-] ?| at |:| +)"  # between date and clock
WEEKDAY = r"(?:[^\W\d_]{2,10}\.?,? )?"
DIGITS = (
    r"(?:[t _-]?(?P<H>\d\d)(?::?(?P<M>\d\d)(?::?(?P<S>\d\d)(?:\.(?P<f>\d+))?)?)?" rf"(?: ?(?P<p>[ap])m)? ?{ZONE}?)?"
)
SHAPES = {
    # Of an interval, such as 2026-01-31T12:00/2026-01-31T13:00, the beginning.
    "year first": r"(?P<y>\d{4})[-/. 年](?P<m>\d{1,2})[-/. 月](?P<d>\d{1,2})日?"
    rf"(?:{GLUE}{CLOCK}(?:/\d{{4}}-\S+)?)?",
    "digits": rf"(?P<y>(?:19|20)\d\d)(?P<m>\d\d)(?P<d>\d\d){DIGITS}",
    "year last": rf"{WEEKDAY}(?P<d>\d{{1,2}})[-/.](?P<m>\d{{1,2}})[-/.](?P<y>\d{{4}}|\d\d)(?:{GLUE}{CLOCK})?",
    "month name": rf"{WEEKDAY}(?P<d>\d{{1,2}})[-/., ]*(?P<m>{NAMED})[-/., ]*(?P<y>\d{{4}}|\d\d)(?:{GLUE}{CLOCK})?",
    "month first": rf"{WEEKDAY}(?P<m>{NAMED})[-/. ]+(?P<d>\d{{1,2}}),?[-/ ]+(?P<y>\d{{4}})(?:{GLUE}{CLOCK})?",
    "clock, then year": rf"{WEEKDAY}(?P<m>{NAMED}) +(?P<d>\d{{1,2}}) +(?P<H>\d{{1,2}}):(?P<M>\d\d)(?::(?P<S>\d\d)"
    rf"(?:\.(?P<f>\d{{1,9}}))?)?(?: ?(?P<p>[ap])m)?(?: {ZONE})? (?P<y>\d{{4}})",
    "day of year": rf"(?P<y>(?:19|20)\d\d)-(?P<j>[0-3]\d\d)(?:{GLUE}{CLOCK})?",
    "year, month name": rf"(?P<y>\d{{4}})[-/. ](?P<m>{NAMED})[-/. ](?P<d>\d{{1,2}})(?:{GLUE}{CLOCK})?",
}
PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in SHAPES.items()}
OF_DAY = re.compile(
    r"\d{1,2}(?:[:h]\d{1,2}(?::\d{1,2}(?:[.,]\d+)?)?|\.[0-5]\d\.[0-5]0)(?: ?[ap]\.?(?: ?m\.?)?)?|\d{1,2} ?[ap]m",
    re.IGNORECASE,
)
QUOTES = " \t'\"="
SPACES = r"[\s\u00a0\u202f]+"  # of any kind and number, as before AM and PM
# Halves of the day that stand before the clock, in Korean, Chinese and Japanese: pattern and replacement, in which ${1}
# is the clock as Polars writes it (`parse`).
MORNING_MARKS = (
    (r"(?:오전|上午|午前) ?(\d{1,2}(?::\d{1,2}){1,2})", "${1} AM"),
    (r"(?:오후|下午|午後) ?(\d{1,2}(?::\d{1,2}){1,2})", "${1} PM"),
)


@dataclass(frozen=True)
class TimeShape:
    """Which pattern a time matches, and what it states beyond a date."""

    name: str
    has_clock: bool
    has_zone: bool

    @property
    def pattern(self) -> str:
        """A regular expression that matches the whole text, valid in Polars (Rust) and in Python's `re`."""
        return rf"(?i)^{SHAPES[self.name]}$"


@lru_cache(maxsize=1 << 12)
def shape_of(text: str) -> TimeShape | None:
    """Return the shape of a time, None if the text is none.

    >>> shape_of("07/08/25 01:06:00 PM"), shape_of("12.5")
    (TimeShape(name='year last', has_clock=True, has_zone=False), None)
    """
    text = re.sub(SPACES, " ", text).strip(QUOTES)
    if not text.isascii():
        for mark, standard in MORNING_MARKS:
            text = re.sub(mark, standard.replace("${1}", r"\1"), text)
    if not 6 <= len(text) <= 80 or not any(sign.isdigit() for sign in text):  # no time is as short or as long
        return None
    for name, pattern in PATTERNS.items():
        if match := pattern.fullmatch(text):
            return TimeShape(name, match["H"] is not None, bool(match["z"]))
    return None


def is_clock(text: str) -> bool:
    """Whether a text is a time of day.

    >>> is_clock("18:00"), is_clock("18.00.00"), is_clock("12:10a"), is_clock("18.5")
    (True, True, True, False)
    """
    return bool(OF_DAY.fullmatch(re.sub(SPACES, " ", text).strip(QUOTES)))


def parse(texts: pl.Series, shape: TimeShape, order: Order = "dmy") -> pl.DataFrame:
    """Parse times of one shape: `time` without zone, and `offset` (minutes ahead of UTC), null where none is stated.

    >>> parse(pl.Series(["31/12/2025 24:00 CET", "31/02/2025"]), shape_of("31/12/2025 24:00")).rows()
    [(datetime.datetime(2026, 1, 1, 0, 0), 60), (None, None)]
    """
    # In one chunk: Polars 2.1 panics in `pl.format` of several.
    plain = texts.rechunk().str.replace_all(SPACES, " ").str.strip_chars(QUOTES)
    for pattern, standard in MORNING_MARKS:
        plain = plain.str.replace(pattern, standard)
    parts = plain.str.extract_groups(shape.pattern).struct.unnest()
    has_day_of_year = "j" in parts.columns  # instead of month and day
    # With a day of the year, `month` is not used.
    year, month, day = (pl.col(name) for name in (("y", "j", "j") if has_day_of_year else ("y", "m", "d")))
    if shape.name == "year last" and order == "mdy":
        month, day = day, month
    elif shape.name == "year last" and order == "ymd":
        year, day = day, year
    has_two_digits = year.str.len_chars() == 2
    number = year.cast(pl.Int64, strict=False)
    # Two digits are the years 1970 to 2069.
    century = pl.when(has_two_digits).then(pl.when(number < 70).then(2000).otherwise(1900)).otherwise(0)
    if "name" in shape.name or shape.name in ("month first", "clock, then year"):  # shapes with the month's name
        month = _map_distinct(parts["m"], _month_number)
    hour = pl.col("H").cast(pl.Int64, strict=False).fill_null(0)
    half_of_day = pl.col("p").str.to_lowercase()  # a (morning) or p
    hour = pl.when(half_of_day == "p").then(hour % 12 + 12).when(half_of_day == "a").then(hour % 12).otherwise(hour)
    is_midnight = hour == 24  # the beginning of the next day
    iso = pl.format(
        "{}-{} {}:{}:{}.{}",
        (century + number).cast(pl.String),
        day if has_day_of_year else pl.format("{}-{}", month.cast(pl.String), day),
        pl.when(is_midnight).then(0).otherwise(hour),
        *(pl.col("M").fill_null("0"), pl.col("S").fill_null("0"), pl.col("f").fill_null("0")),
    )
    date = "%Y-%j" if has_day_of_year else "%Y-%m-%d"
    time = iso.str.to_datetime(f"{date} %H:%M:%S%.f", time_unit="us", strict=False)
    time = time + pl.when(is_midnight).then(pl.duration(days=1)).otherwise(pl.duration(days=0))
    offset = pl.when(time.is_not_null()).then(_map_distinct(parts["z"], offset_minutes))
    return parts.select(time.alias("time"), offset.alias("offset"))


def _map_distinct(texts: pl.Series, function: Callable[[str], int | None]) -> pl.Expr:
    """Apply a function to each distinct text, which is faster than to every one; null stays null."""
    numbers = {text: function(text) for text in texts.unique().drop_nulls()}
    return pl.lit(texts.replace_strict(numbers, default=None, return_dtype=pl.Int64))


def _month_number(text: str) -> int | None:
    names = [name for name in MONTHS if text.lower().startswith(name)]
    return MONTHS[max(names, key=len)] if names else None  # 十一, the eleventh, begins with 十, the tenth


def offset_minutes(zone: str) -> int:
    """Return the minutes ahead of UTC of an offset or of the abbreviation of a zone.

    >>> offset_minutes("GMT+02:00"), offset_minutes("-0530"), offset_minutes("+3"), offset_minutes("CET")
    (120, -330, 180, 60)
    """
    zone = zone.strip().lower()
    if match := re.fullmatch(r"(?:utc|gmt)? ?([+-])(\d\d?):?(\d\d)?", zone):
        minutes = 60 * int(match[2]) + int(match[3] or 0)
        return -minutes if match[1] == "-" else minutes
    return ZONE_MINUTES[zone]
