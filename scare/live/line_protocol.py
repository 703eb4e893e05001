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
UNITS_PER_SECOND = {1e17: 1e9, 1e14: 1e6, 1e11: 1e3}  # by the least timestamp in ns, µs, ms; smaller ones are in s


@dataclass(frozen=True)
class Line:
    """A line: its text before (`head`) and after (`tail`) the place where fields are added, and what it says.

    `numbers` are its numeric fields; `time` is in seconds, None if the line has no timestamp.
    """

    head: str
    tail: str
    measurement: str
    tags: Mapping[str, str]
    numbers: Mapping[str, float]
    time: float | None

    def with_fields(self, fields: Mapping[str, float | int]) -> str:
        """Return the text of the line with more fields after its own; an `int` is written as an integer."""
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
    series = MEASUREMENT.match(text)  # measurement and tags
    fields = FIELDS.match(text, series.end() + 1) if series else None
    if series is None or fields is None or text[series.end()] != " ":
        raise RejectedError(f"not a line of Influx's line protocol: {excerpt(text)}")
    tail = text[fields.end() :]
    measurement, *tag_pieces = PIECE.findall(series[0])
    pairs = dict(_pair(piece, text) for piece in PIECE.findall(fields[0]))
    numbers = {key: float(value.rstrip("iu")) for key, value in pairs.items() if NUMBER.fullmatch(value)}
    tags = {key: _unescape(value) for key, value in (_pair(piece, text) for piece in tag_pieces)}
    return Line(text[: fields.end()], tail, _unescape(measurement), tags, numbers, _time(tail.strip(), text))


def _pair(piece: str, line: str) -> tuple[str, str]:
    """Return key and value of `key=value`; the value keeps its quotes and backslashes."""
    match = PAIR.fullmatch(piece)
    if match is None:
        raise RejectedError(f"no key and value in {excerpt(piece)} of {excerpt(line)}")
    return _unescape(match[1]), match[2]


def _time(text: str, line: str) -> float | None:
    """Return a timestamp in seconds; None if the text is empty."""
    if not text:
        return None
    if not re.fullmatch(r"-?\d{1,19}", text):
        raise RejectedError(f"{excerpt(text)} is not a timestamp, in {excerpt(line)}")
    number = int(text)
    return number / next((units for least, units in UNITS_PER_SECOND.items() if number >= least), 1.0)


def _unescape(text: str) -> str:
    return re.sub(r"\\([ ,=])", r"\1", text)


def _escape(key: str) -> str:
    return re.sub(r"([ ,=])", r"\\\1", key)


def _write(number: float | int) -> str:
    return f"{number}i" if isinstance(number, int) else repr(number)
