"""CSV and Parquet tables as loggers, spreadsheets and accidents write them, changed in content and in form."""

import gzip
import io
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import polars as pl

from scare.data.column_guess import inspect_table
from scare.data.column_mapping import read_readings
from scare.data.readings import Readings
from tests.fuzz.mutating import PIECES, mutate
from tests.fuzz.target import LieError, Target

START = datetime(2026, 3, 28, 22, tzinfo=UTC)
CLOCKS = (
    *("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M:%S"),
    *("%d.%m.%Y %H:%M:%S", "%Y/%m/%d %H:%M", "%Y-%m-%dT%H:%M:%S+02:00", "%s", "%d-%m-%y %H:%M", "%Y-%m-%d"),
)
FIELDS = (
    *("", "-", "NA", "nan", "-999", "65535", "1e400", "1,5", "1.234,5", "1,234.5", "0x10", "١٢", "−5", "1 000", "TRUE"),
    *('"', '"a"', "2026-02-30 00:00:00", "31/02/2026", "24:00", "1e-400", "inf", "1_000", "12.5 ug", "\t", "=1+1", "é"),
)
TEXT = (*PIECES, b"\n\n", b",,,,", b";;;", b"\t", b"#", b"\x1f\x8b", b"2026-13-01", b"3/4/2026", b"1,234", b"\r")


def make_csv(chance: Random) -> bytes:
    """A table in some dialect, of which fields, lines or bytes are changed."""
    delimiter, decimal = chance.choice((",", ";", "\t", "|")), chance.choice((".", ","))
    form, step = chance.choice(CLOCKS), chance.choice((1, 60, 600, 86400))
    rows = [["time", "pm25", "temperature", "Ref.pm25", "box"]]
    for row in range(chance.choice((1, 5, 30, 60))):
        numbers = [f"{chance.uniform(0, 2000):.{chance.choice((0, 1, 3))}f}".replace(".", decimal) for _ in range(3)]
        rows.append([(START + timedelta(seconds=row * step)).strftime(form), *numbers, f"box {row % 2}"])
    for _ in range(chance.choice((0, 0, 1, 3))):
        chance.choice(rows)[chance.randrange(5)] = chance.choice(FIELDS)
    text = chance.choice(("\n", "\n", "\r\n", "\r")).join(delimiter.join(row) for row in rows)
    content = text.encode(chance.choice(("utf-8", "utf-8", "utf-8-sig", "latin-1", "utf-16")), "replace")
    content = mutate(content, chance, TEXT) if chance.random() < 0.6 else content
    content = gzip.compress(content, 1) if chance.random() < 0.1 else content
    return mutate(content, chance) if chance.random() < 0.05 else content


COLUMNS = {
    "numbers": [1.0, 2.5, None],
    "whole": [1, 2, 3],
    "text": ["1,5", "x", None],
    "times": [START, START + timedelta(hours=1), START + timedelta(hours=2)],
    "dates": [date(2026, 1, 1), date(2026, 1, 2), None],
    "clocks": [clock(1), clock(2), clock(3)],
    "durations": [timedelta(1), timedelta(2), timedelta(3)],
    "truths": [True, False, None],
    "bytes": [b"1", b"\xff", None],
    "lists": [[1.0], [], None],
    "structs": [{"a": 1}, {"a": 2}, {"a": None}],
    "decimals": [Decimal("1.5"), Decimal("-2.25"), None],
    "nothing": [None, None, None],
    "epochs": [1767268800, 1767268860, 1767268920],
    "iso": ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"],
    "infinite": [float("inf"), float("nan"), 1e308],
}


@cache
def _sound(first: str, second: str, third: str, compression: str, many: int) -> bytes:
    columns = {"time": COLUMNS[first], "pm25": COLUMNS[second], "box": COLUMNS[third]}
    file = io.BytesIO()
    frame = pl.DataFrame({name: pl.Series(values * many) for name, values in columns.items()})
    if frame["time"].dtype == pl.String and many > 1:
        frame = frame.with_columns(pl.col("time").cast(pl.Categorical))
    frame.write_parquet(file, compression=compression, row_group_size=50)  # type: ignore[arg-type]
    return file.getvalue()


def make_parquet(chance: Random) -> bytes:
    """Columns of any types, and of half of the files bytes of the data or of the footer changed."""
    kinds = [chance.choice(list(COLUMNS)) for _ in range(3)]
    times = chance.choice((kinds[0], "times", "times", "iso"))
    content = _sound(
        times, *kinds[1:], chance.choice(("zstd", "snappy", "gzip", "lz4", "uncompressed")), chance.choice((1, 60))
    )
    if chance.random() < 0.4:
        return content
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    if chance.random() < 0.3:
        return mutate(content, chance)
    at = chance.randrange(footer, len(content)) if chance.random() < 0.6 else chance.randrange(4, footer)
    return content[:at] + mutate(content[at : at + 8], chance) + content[at + 8 :]


def use(path: Path) -> None:
    """Look at it, and read what the look proposes."""
    found = inspect_table(path)
    for readings in read_readings(path, found.mapping):
        check_readings(readings)


def check_readings(readings: Readings) -> None:
    """Times increase and are of this age, numbers are finite or missing."""
    times, numbers = readings.times, readings.values
    if len(times) and not (times[0] >= 0 and (np.diff(times) > 0).all()):
        raise LieError("times that do not increase, or are of no time")
    if np.isinf(numbers).any():
        raise LieError("a number that is infinite")


CSV = Target("csv", ".csv", make_csv, use)
PARQUET = Target("parquet", ".parquet", make_parquet, use)
