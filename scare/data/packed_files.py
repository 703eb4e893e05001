"""The content of a table file, whatever it is packed in: gzip, zip, an encoding, a spreadsheet, JSON.

Called by `tables`, which takes ordinary text line by line (`Source.lines`), and anything else at once, as rows of cells
(`read_sheets`, `read_records`).
"""

import codecs
import gzip
import io
import json
import re
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, cast
from zipfile import BadZipFile, ZipFile

import polars as pl

from scare.data.time_text import shape_of
from scare.errors import DataError, UsageError
from scare.limits import check_table, table_limit
from scare.words import suggestion

Content = Literal["parquet", "sheet", "json", "page", "text"]
HEAD_BYTES = 1 << 18
BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
NAMES = {
    "utf-8-sig": "UTF-8",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
    "cp1252": "Windows-1252",
    **{
        "cp949": "Korean (cp949)",
        "gb18030": "Chinese (GB 18030)",
        "big5": "Chinese (Big5)",
        "cp932": "Japanese (cp932)",
    },
    "cp1251": "Windows-1251",
}
# Encodings that state nothing of themselves: words of headers that only the right one shows.
HEADER_WORDS = {
    "cp949": ("측정", "일시", "시간", "날짜", "지역", "온도", "습도", "농도", "지점"),
    "gb18030": ("时间", "日期", "浓度", "温度", "湿度", "监测", "站点"),
    "big5": ("時間", "日期", "測站", "測項", "溫度", "濕度"),
    "cp932": ("日時", "時刻", "年月日", "測定", "温度", "湿度", "日付"),
    "cp1251": ("Дата", "дата", "Время", "время", "Температура"),
}
OLD_EXCEL = b"\xd0\xcf\x11\xe0"
TABLES = (".csv", ".tsv", ".txt", ".dat", ".xlsx", ".xls", ".ods", ".parquet", ".json")  # in an archive


# Characters that stand for others: digits of other scripts, spaces that do not break, the minus sign of mathematics;
# zero bytes stand for nothing.
PLAIN = {
    **{0: None, 0xA0: " ", 0x202F: " ", 0x2212: "-"},
    **{zero + digit: str(digit) for zero in (0x660, 0x6F0, 0x966, 0xFF10) for digit in range(10)},
}
NO_DAY = re.compile(r"^1899-12-3[01][ T](?=\d\d:\d\d)")  # of a spreadsheet's clock, which is a part of its day 0
SERIES = 5  # records in a record, on average; fewer are the parts of a message
WHOLE_LINE = re.compile(r'"((?:[^",;\t]|"")+[,;\t](?:[^"]|"")*)"')
MESSAGE = re.compile(r"^[^{]*?(\{.*\})\s*$")  # of a broker's or a device's log: a JSON object after its topic


@dataclass(frozen=True)
class Source:
    """A file, the kind of its content, and the encoding of its text; `member` is the file within a zip.

    `odd` says that lines end as on an old Macintosh, that characters stand for others (`PLAIN`), or that whole lines
    are quoted (`WHOLE_LINE`), as after a program took each for one cell.
    """

    path: Path
    content: Content
    encoding: str = ""
    member: str = ""
    odd: bool = False

    def open(self) -> IO[bytes]:
        """Open the content as bytes, unpacked."""
        return _open(self.path, self.member)

    def lines(self) -> Generator[bytes, None, None]:
        """Yield the lines of a text in UTF-8, with their ends."""
        limit = "document" if self.content == "json" else "line"  # a JSON text may be one line
        longest = table_limit(self.path, limit) + 1
        with self.open() as handle:
            if self.encoding in ("utf-8", "utf-8-sig", "ascii") and not self.odd:
                if self.encoding == "utf-8-sig":
                    handle.read(len(codecs.BOM_UTF8))
                for line in iter(partial(handle.readline, longest), b""):
                    if len(line) == longest:
                        check_table(self.path, **{limit: longest})
                    yield line
                return
            with io.TextIOWrapper(handle, self.encoding, errors="replace") as text:
                for written in iter(partial(text.readline, longest), ""):
                    if len(written) == longest:
                        check_table(self.path, **{limit: longest})
                    yield (_plain(written) if self.odd else written).encode()

    def text(self, lines: int | None = None) -> list[str]:
        """Return the first lines of a text, all by default, without their ends."""
        texts = list[str]()
        size = 0
        limit = table_limit(self.path, "document")
        with closing(self.lines()) as handle:
            for line in islice(handle, lines):
                texts.append(line.decode("utf-8", "replace").rstrip("\r\n"))
                size += len(line)
                if size > limit:
                    check_table(self.path, document=size)
        return texts


def find_source(path: Path, encoding: str = "") -> Source:
    """Find what a file holds by its first bytes, whatever its name."""
    member = _member(path)
    with _open(path, member) as handle:
        head = handle.read(HEAD_BYTES)
    if head[:4] == b"PAR1":
        return Source(path, "parquet", member=member)
    if head[:4] == OLD_EXCEL or head[:2] == b"PK":
        return Source(path, "sheet", member=member)
    start = head.removeprefix(codecs.BOM_UTF8).lstrip()[:200].lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<table")):
        return Source(path, "page", member=member)
    used_encoding = _find_encoding(head, encoding, path)
    text = head.decode(used_encoding, "ignore")
    lines = [line for line in text.splitlines()[:20] if line.strip()]
    logged = 2 * sum(map(bool, map(MESSAGE.match, lines))) > len(lines)
    if logged or re.match(rb'\{\s*["}]|\[\s*\{', start):
        return Source(path, "json", used_encoding, member)
    old_ends = "\r" in text and "\n" not in text
    quoted = bool(lines) and 2 * sum(map(bool, map(WHOLE_LINE.fullmatch, lines))) > len(lines)
    return Source(
        path, "text", used_encoding, member, odd=old_ends or quoted or any(chr(byte) in text for byte in PLAIN)
    )


def _plain(line: str) -> str:
    """Return a line without the quotes around all of it, and with plain characters.

    >>> _plain('"2026-01-31 12:00,""Roof"",5.2"')
    '2026-01-31 12:00,"Roof",5.2'
    """
    match = WHOLE_LINE.fullmatch(line.rstrip("\r\n"))
    return (match[1].replace('""', '"') + line[match.end() :] if match else line).translate(PLAIN)


def _member(path: Path) -> str:
    """Return the only table in a zip, "" for a file that is no zip or is a spreadsheet."""
    with path.open("rb") as handle:
        if handle.read(4) != b"PK\x03\x04":
            return ""
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except BadZipFile as error:
        raise DataError(f"{path}: the file is damaged or not a table ({error})") from error
    if any(name in names for name in ("xl/workbook.xml", "xl/workbook.bin", "content.xml")):
        return ""
    tables = [name for name in names if name.lower().endswith(TABLES) and not name.startswith("__MACOSX")]
    if len(tables) != 1:
        shown = ", ".join(tables[:3]) or ", ".join(names[:3]) or "nothing"
        raise DataError(f"{path}: the archive should hold one table, but it holds {shown}; unpack it and name one")
    return tables[0]


def _open(path: Path, member: str) -> IO[bytes]:
    """Open a file that may be in a zip or gzipped, whatever its name."""
    if member:
        archive = ZipFile(path)
        check_table(path, table=archive.getinfo(member).file_size)  # no more than this is ever unpacked
        return cast(IO[bytes], io.BytesIO(archive.read(member)))
    with path.open("rb") as handle:
        zipped = handle.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], io.BufferedReader(_Unpacked(path))) if zipped else path.open("rb")


class _Unpacked(io.RawIOBase):
    """The content of a gzip file up to its limit; beyond it, reading raises a DataError."""

    def __init__(self, path: Path) -> None:
        self._path, self._file, self._size, self._limit = path, gzip.GzipFile(path), 0, table_limit(path, "table")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer)
        self._size += count
        if self._size > self._limit:
            check_table(self._path, table=self._size)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _find_encoding(head: bytes, stated: str, path: Path) -> str:
    """Return the encoding of a text: as stated, by byte order mark, zero bytes, UTF-8 if valid, by words, or cp1252."""
    if stated:
        try:
            return codecs.lookup(stated).name
        except LookupError as error:
            known = ("utf-8", "utf-16", "cp1252", "latin-1", "cp1250", "cp1251", "shift_jis", "gb18030")
            raise UsageError(f"no encoding is called '{stated}'{suggestion(stated, known)}") from error
    for mark, name in BOMS.items():
        if head.startswith(mark):
            return name
    if head[:200].count(0) > len(head[:200]) / 4:
        return "utf-16-le" if head[1:2] == b"\x00" else "utf-16-be"
    start = head[:2000]  # a damaged text has a few zero bytes, a program other control characters too
    if start.count(0) > 20 or (b"\x00" in start and re.search(rb"[\x01-\x08\x0e-\x1f]", start)):
        raise DataError(f"{path}: the file is not a text table, a spreadsheet or Parquet; export it as CSV")
    if _decoded(head, "utf-8") is not None:
        return "utf-8"
    words = {name: sum(word in (_decoded(head, name) or "") for word in some) for name, some in HEADER_WORDS.items()}
    best = max(words, key=lambda name: words[name])
    return best if words[best] else "cp1252"


def _decoded(head: bytes, encoding: str) -> str | None:
    """Return the text of a file's first bytes, None if they are not of this encoding; the last character may be cut."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return None


def read_sheets(source: Source, sheet: str) -> dict[str, list[list[str]]]:
    """Return the cells of a spreadsheet's sheets as text, by name; of one sheet if it is named."""
    frames = load_sheets(source, sheet)
    return {
        name: [[NO_DAY.sub("", (cell or "").strip()) for cell in row] for row in frame.rows()]
        for name, frame in frames.items()
    }


def load_sheets(source: Source, sheet: str) -> dict[str, pl.DataFrame]:
    """Like `read_sheets`, as frames of text with null for an empty cell."""
    import fastexcel

    try:
        with source.open() as handle:
            content = handle.read()
        _check_unpacked(source.path, content)
        book = fastexcel.read_excel(content)
        if sheet and sheet not in book.sheet_names:
            raise UsageError(f"{source.path}: no sheet '{sheet}'{suggestion(sheet, book.sheet_names)}")
        return {
            name: book.load_sheet(name, header_row=None, dtypes="string").to_polars()
            for name in ([sheet] if sheet else book.sheet_names)
        }
    except fastexcel.FastExcelError as error:
        reason = " ".join(str(error).split())[:80]
        raise DataError(f"{source.path}: the spreadsheet cannot be read ({reason}); save it as CSV") from error


def _check_unpacked(path: Path, content: bytes) -> None:
    """Check what a spreadsheet unpacks to before it is; `testzip` finds one that declares less than it holds."""
    if content[:2] == b"PK":
        with ZipFile(io.BytesIO(content)) as archive:
            check_table(path, document=sum(entry.file_size for entry in archive.infolist()))
            if bad := archive.testzip():
                raise DataError(f"{path}: the spreadsheet is damaged in '{bad[:60]}'; save it again, or as CSV")


def read_records(source: Source) -> tuple[str, list[list[str]], dict[str, str]]:
    """Return the longest list of records in a JSON text: its name, header and rows, and what stands beside it.

    Nested keys are joined. Beside it may stand units, as in `hourly_units.pm10`, and a time zone.
    """
    text = "\n".join(source.text())
    try:
        value = json.loads(text)
    except ValueError:
        try:
            value = [message for line in text.splitlines() if line.strip() and (message := _message(line)) is not None]
        except ValueError as error:
            raise DataError(f"{source.path}: cannot be read as JSON: {error}") from error
    lists = {name: [*records] for name, records in _record_lists(value, "")}
    name = max(lists, key=lambda key: len(lists[key]), default="")
    if len(lists.get(name, ())) < 3:
        raise DataError(
            f"{source.path}: the JSON holds one message, not a table; collect messages as one list, or export CSV"
        )
    records = [dict(flat(record, "")) for record in lists[name]]
    header = list(dict.fromkeys(key for record in records for key in record))
    beside = dict(flat(value, "")) if isinstance(value, dict) else {}
    return name, [header, *([record.get(key, "") for key in header] for record in records)], beside


def _message(line: str) -> dict[str, Any] | None:
    """Return the JSON object in a line of a log, with the time that precedes it as `logged at`; None without one."""
    match = MESSAGE.match(line)
    if match is None:
        return None
    record = json.loads(match[1])
    words = line[: match.start(1)].split()
    texts = [*words[:1], " ".join(words[:2])]
    time = next((text for text in texts if (shape := shape_of(text)) and shape.has_clock), "")
    return {"logged at": time, **record} if time else record


def _record_lists(value: Any, name: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield all lists of records within a JSON value, with the keys that lead to them.

    Lists within records, such as the readings of each station, are joined and keep the plain values of their record.
    """
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        yield name, value
        inner: dict[str, list[dict[str, Any]]] = {}  # the lists within the records, joined, by their keys
        for record in value:
            plain = {key: item for key, item in record.items() if not isinstance(item, dict | list)}
            for key, records in _record_lists({key: item for key, item in record.items() if key not in plain}, name):
                inner.setdefault(key, []).extend({**plain, **nested} for nested in records)
        yield from ((key, records) for key, records in inner.items() if len(records) >= SERIES * len(value))
    elif isinstance(value, dict):
        if records := _columns(value) or _keyed(value):
            yield name, records
        for key, item in value.items():
            yield from _record_lists(item, f"{name}.{key}".strip("."))


def _keyed(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the records of an object whose keys are times, numbers or a database's keys, with these; [] for another.

    >>> _keyed({f"155103372{i}": {"P1": 8.5 + i} for i in range(5)})[0]
    {'time': '1551033720', 'P1': 8.5}
    """
    records = [*value.values()]
    if len(records) < SERIES or not all(isinstance(one, dict) and one and [*one] == [*records[0]] for one in records):
        return []
    moments = all(re.fullmatch(r"1\d{9}(\d{3})?", key) or shape_of(key) for key in value)
    key_name = "time" if moments and "time" not in records[0] else "key"
    return [{key_name: key, **one} for key, one in value.items()]


def _columns(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the records of a table written by columns, as rows without names, or as objects by row number.

    Returns [] for an object that is no such table.

    >>> _columns({"time": [1, 2, 3], "pm25": [4, 5, 6]})[0], _columns({"fields": ["a", "b"], "data": [[1, 2]]})
    ({'time': 1, 'pm25': 4}, [{'a': 1, 'b': 2}])
    """
    lists = {key: item for key, item in value.items() if isinstance(item, list)}
    rows = next((items for items in lists.values() if items and all(isinstance(row, list) for row in items)), [])
    for names in lists.values():
        if rows and all(isinstance(cell, str) for cell in names) and {*map(len, rows)} == {len(names)}:
            return [dict(zip(names, row, strict=True)) for row in rows]
    # Columns that are objects with the same row numbers as keys.
    objects = [item for item in value.values() if isinstance(item, dict)]
    if len(objects) > 1 and len(objects) == len(value) and all([*item] == [*objects[0]] for item in objects):
        lists = {key: [*item.values()] for key, item in value.items()} if all(map(str.isdigit, objects[0])) else {}
    plain = {key: cells for key, cells in lists.items() if not any(isinstance(cell, dict | list) for cell in cells)}
    lengths = {len(cells) for cells in plain.values()}
    if len(plain) < 2 or len(lengths) != 1:
        return []
    return [dict(zip(plain, cells, strict=True)) for cells in zip(*plain.values(), strict=True)]


def flat(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield the plain values within a JSON record as text, by name; of lists, only those of objects with a "value"."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from flat(one, f"{name}.{key}".strip("."))
    elif isinstance(value, list) and all(isinstance(one, dict) and "value" in one for one in value):
        for one in value:
            label = next((str(one[key]) for key in ("name", "value_type", "parameter", "type") if key in one), "")
            yield from flat(one["value"], f"{name}.{label}") if label else ()
    elif not isinstance(value, list):
        yield name, "" if value is None else str(value)
