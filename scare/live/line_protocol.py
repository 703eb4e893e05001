"""Lines of Influx's line protocol: read for their tags, fields and time, written again with more fields.

`measurement,tag=value field=1.5,count=3i 1767225600000000000`; https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from scare.live.messages import RejectedError, excerpt

# A part ends at a space that is neither escaped nor, among the fields, inside quotes.
MEASUREMENT = re.compile(r"(?:\\.|[^\\ ])+")
FIELDS = re.compile(r'(?:"(?:\\.|[^\\"])*"|\\.|[^\\ "])+')
PIECE = re.compile(r'(?:"(?:\\.|[^\\"])*"|\\.|[^\\,"])+')  # between commas
PAIR = re.compile(r'((?:\\.|[^\\="])+)=(.*)', re.DOTALL)
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[iu]?")
UNITS = {1e17: 1e9, 1e14: 1e6, 1e11: 1e3}  # timestamps from here on are in ns, µs, ms; others in seconds


@dataclass(frozen=True)
class Line:
    """A line: its text before and after the place where fields are added, tags, numeric fields and time in seconds."""

    head: str
    tail: str
    measurement: str
    tags: Mapping[str, str]
    numbers: Mapping[str, float]
    time: float | None

    def with_fields(self, fields: Mapping[str, float | int]) -> str:
        """Return the line with more fields at the end of its own; a whole number is written as an integer."""
        more = (f"{_escape(key)}={_write(number)}" for key, number in fields.items())
        return ",".join([self.head, *more]) + self.tail


def parse_line(text: str) -> Line:
    r"""Parse a line, or reject one that is malformed.

    >>> line = parse_line(r"air\ quality,box=roof pm25=12.5,rh=40i 1767225600000000000")
    >>> line.measurement, dict(line.tags), dict(line.numbers), line.time
    ('air quality', {'box': 'roof'}, {'pm25': 12.5, 'rh': 40.0}, 1767225600.0)
    >>> line.with_fields({"calibrated": 9.25, "flags": 0})
    'air\\ quality,box=roof pm25=12.5,rh=40i,calibrated=9.25,flags=0i 1767225600000000000'
    """
    first = MEASUREMENT.match(text)
    fields = FIELDS.match(text, first.end() + 1) if first else None
    if first is None or fields is None or text[first.end()] != " ":
        raise RejectedError(f"not a line of Influx's line protocol: {excerpt(text)}")
    tail = text[fields.end() :]
    measurement, *tags = PIECE.findall(first[0])
    pairs = dict(_pair(piece, text) for piece in PIECE.findall(fields[0]))
    numbers = {key: float(value.rstrip("iu")) for key, value in pairs.items() if NUMBER.fullmatch(value)}
    named = {key: _unescape(value) for key, value in (_pair(piece, text) for piece in tags)}
    return Line(text[: fields.end()], tail, _unescape(measurement), named, numbers, _time(tail.strip(), text))


def _pair(piece: str, line: str) -> tuple[str, str]:
    match = PAIR.fullmatch(piece)
    if match is None:
        raise RejectedError(f"no key and value in {excerpt(piece)} of {excerpt(line)}")
    return _unescape(match[1]), match[2]


def _time(text: str, line: str) -> float | None:
    """Return a timestamp in seconds, None without one."""
    if not text:
        return None
    if not re.fullmatch(r"-?\d{1,19}", text):
        raise RejectedError(f"{excerpt(text)} is not a timestamp, in {excerpt(line)}")
    number = int(text)
    return number / next((unit for least, unit in UNITS.items() if number >= least), 1.0)


def _unescape(text: str) -> str:
    return re.sub(r"\\([ ,=])", r"\1", text)


def _escape(key: str) -> str:
    return re.sub(r"([ ,=])", r"\\\1", key)


def _write(number: float | int) -> str:
    return f"{number}i" if isinstance(number, int) else repr(number)
