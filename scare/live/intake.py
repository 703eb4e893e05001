"""What is POSTed becomes readings: JSON, JSON lines or CSV, plain or gzip, line by line; a bad line spoils no other."""

import csv
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from scare.live.border import Reading, RefusedError, parse_json
from scare.live.reader import Reader

LARGEST_BODY = 1 << 20  # bytes, also after unpacking
KEPT_REASONS = 10
GZIP = 31  # zlib's number for it


@dataclass
class Intake:
    """Readings of a body, how many lines were refused, and why the first of them."""

    readings: list[Reading] = field(default_factory=list)
    rejected: int = 0
    reasons: list[dict[str, Any]] = field(default_factory=list)

    def refuse(self, line: int, reason: str) -> None:
        """Count a line that is not taken."""
        self.rejected += 1
        if len(self.reasons) < KEPT_REASONS:
            self.reasons.append({"line": line, "reason": reason})


def unpack(body: bytes, encoding: str) -> bytes:
    """A body as it was before it was packed, if it is not too large."""
    whole = True
    if encoding == "gzip":
        unpacking = zlib.decompressobj(GZIP)
        try:
            body = unpacking.decompress(body, LARGEST_BODY + 1)
        except zlib.error as error:
            raise RefusedError(f"not gzip: {error}") from error
        whole = unpacking.eof
    if len(body) > LARGEST_BODY:
        raise RefusedError(f"more than {LARGEST_BODY:,} bytes; send less at once")
    if not whole:
        raise RefusedError("the gzip is cut off")
    return body


def take_in(body: bytes, kind: str, reader: Reader, now: float) -> Intake:
    """Readings of a body of a media type (`text/csv`, else JSON), as a reader finds them in each line."""
    intake = Intake()
    lines = _csv_lines(body) if kind == "text/csv" else _json_lines(body)
    for number, line in enumerate(lines, 1):
        try:
            if isinstance(line, RefusedError):
                raise line
            reading = reader.read_content(line, "", now)
            if reading is not None:
                intake.readings.append(reading)
        except RefusedError as refused:
            intake.refuse(number, str(refused))
    return intake


def _json_lines(body: bytes) -> Iterator[Any]:
    """The objects of a body: one, a list of them, or one a line."""
    whole = _whole(body)
    if whole is not None:
        yield from whole if isinstance(whole, list) else [whole]
        return
    for line in body.splitlines():
        if line.strip():
            yield _or_refusal(line)


def _whole(body: bytes) -> Any:
    """A body that is JSON as it stands, else None."""
    try:
        return parse_json(body, LARGEST_BODY)
    except RefusedError:
        return None


def _or_refusal(line: bytes) -> Any:
    try:
        return parse_json(line)
    except RefusedError as refused:
        return refused


def _csv_lines(body: bytes) -> Iterable[Any]:
    """Rows of a table by its header."""
    try:
        return list(csv.DictReader(body.decode("utf-8-sig").splitlines(), restkey=" more"))
    except (UnicodeDecodeError, csv.Error) as error:
        return [RefusedError(f"not CSV in UTF-8: {error}")]
