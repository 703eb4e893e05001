"""Small table files that unpack to more than memory holds are refused with a message, before they do."""

import gzip
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from scare.cli.app import run
from scare.data.column_guess import inspect_table
from scare.errors import DataError
from scare.limits import LIMITS, Limit, raised
from tests.web.tables import write_workbook

LOWERED = {"table": 1 << 19, "document": 1 << 16, "line": 1 << 17}  # so that files are small and quick to make
MAX_BYTES = 64 << 20  # of memory that a refusal may take
ROW = b"2026-01-01T00:00:00Z,0\n"


def packed(path: Path, *parts: tuple[bytes, int]) -> None:
    """Write a gzip file of parts, each repeated."""
    with gzip.open(path, "wb", 1) as file:
        for part, times in parts:
            file.write(part * times)


def far_corner(path: Path) -> None:
    write_workbook(path, '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>')


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("box.csv", b"time,pm25\n" + ROW * 50_000)


def equal_rows(path: Path) -> None:
    rows = pl.LazyFrame().select(time=pl.repeat(1767268800, 200_000), pm25=pl.repeat(1.0, 200_000))
    rows.sink_parquet(path)


BOMBS: dict[str, tuple[Callable[[Path], object], str]] = {
    "line.csv.gz": (lambda path: packed(path, (b"a", 1 << 18)), "bytes of a line"),
    "utf16.csv.gz": (lambda path: packed(path, (b"\xff\xfe", 1), (b"a\0", 200_000)), "bytes of a line"),
    "rows.csv.gz": (lambda path: packed(path, (b"time,pm25\n", 1), (ROW, 50_000)), "bytes of a table, unpacked"),
    "blank.csv.gz": (
        lambda path: packed(path, (b"time,pm25\n", 1), (ROW, 2000), (b"\n", 2 << 20)),
        "bytes of a table, unpacked",
    ),
    "equal.parquet": (equal_rows, "bytes of a table, unpacked"),
    "member.zip": (zipped, "bytes of a table, unpacked"),
    "messages.json.gz": (lambda path: packed(path, (b"[{}", 1), (b",{}", 1 << 18), (b"]", 1)), "JSON"),
    "spaces.txt.gz": (lambda path: packed(path, (b"a b c\n", 1), (b"1 2 3\n", 1 << 16)), "text in columns"),
    "sheet.xlsx": (
        lambda path: write_workbook(path, '<row r="1"><c r="A1"><v>1</v></c></row>' * 20_000),
        "spreadsheet",
    ),
    "corner.xlsx": (far_corner, "crashed, used too much memory or timed out"),
    "wide.csv": (
        lambda path: path.write_text("\n".join(",".join(map(str, range(row, row + 20_000))) for row in range(3))),
        "20,000 columns",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_of_a_large_table_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, maximum in LOWERED.items():
        monkeypatch.setitem(LIMITS, limit, Limit(maximum, LIMITS[limit].what))
    make, words = BOMBS[name]
    make(tmp_path / name)
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as refused:
            inspect_table(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES
    finally:
        tracemalloc.stop()
    assert str(refused.value).startswith(f"{tmp_path / name}: ")
    assert words in str(refused.value)


def test_a_command_says_how_to_raise_the_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pl.LazyFrame().select(time=pl.repeat(0, 12_000_000), pm25=pl.repeat(1.0, 12_000_000)).sink_parquet(
        tmp_path / "equal.parquet"
    )
    assert run(["inspect", str(tmp_path / "equal.parquet")]) == 3
    printed = " ".join(capsys.readouterr().err.split())
    assert "it asks for 576,000,000 bytes of a table" in printed
    assert "scare --limits 2" in printed


def test_what_a_file_may_unpack_to_grows_with_it_and_with_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LIMITS, "table", Limit(1 << 12, "bytes of a table, unpacked"))
    rows = [f"2026-01-01T{hour:02}:{minute:02}:00Z,{hour * minute % 17}" for hour in range(24) for minute in range(60)]
    packed(tmp_path / "box.csv.gz", ("\n".join(["time,pm25", *rows]).encode(), 1))
    assert inspect_table(tmp_path / "box.csv.gz")  # 70 KB in memory, from a file of 4 KB
    packed(tmp_path / "equal.csv.gz", (b"time,pm25\n", 1), (ROW, 2000))
    with pytest.raises(DataError, match="bytes of a table"):
        inspect_table(tmp_path / "equal.csv.gz")
    with raised(30), pytest.raises(DataError, match="all 2,000 rows have the time"):  # unpacked, and read
        inspect_table(tmp_path / "equal.csv.gz")
