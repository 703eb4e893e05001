"""The content of a table file, whatever it is packed in: gzip, zip, an encoding, a spreadsheet, JSON.

Comes from `tables`, which reads ordinary text from `open_text` in blocks and anything else from `read_sheet` or
`read_json` at once, as rows of cells.
"""

import codecs
import gzip
import io
import json
import re
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, cast
from zipfile import BadZipFile, ZipFile

from scare.data.time_text import shape_of
from scare.errors import DataError, UsageError
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
}
OLD_EXCEL = b"\xd0\xcf\x11\xe0"
TABLES = (".csv", ".tsv", ".txt", ".dat", ".xlsx", ".xls", ".ods", ".parquet", ".json")  # in an archive


# Characters that stand for others: digits of other scripts, spaces that do not break; zero bytes stand for nothing.
PLAIN = {
    **{0: None, 0xA0: " ", 0x202F: " "},
    **{zero + digit: str(digit) for zero in (0x660, 0x6F0, 0x966, 0xFF10) for digit in range(10)},
}
MESSAGE = re.compile(r"^[^{]*?(\{.*\})\s*$")  # of a broker's or a device's log: a JSON object after its topic


@dataclass(frozen=True)
class Source:
    """A file, the kind of its content, and the encoding of its text; `member` is the file within a zip.

    `odd` says that lines end as on an old Macintosh, or that characters stand for others (`PLAIN`).
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
        """The lines of a text in UTF-8, with their ends."""
        with self.open() as handle:
            if self.encoding in ("utf-8", "ascii") and not self.odd:
                yield from handle
                return
            if self.encoding == "utf-8-sig" and not self.odd:
                yield next(handle, b"").removeprefix(codecs.BOM_UTF8)
                yield from handle
                return
            with io.TextIOWrapper(handle, self.encoding, errors="replace") as text:
                for line in text:
                    yield (line.translate(PLAIN) if self.odd else line).encode()

    def text(self, lines: int | None = None) -> list[str]:
        """The first lines of a text, all by default, without their ends."""
        with closing(self.lines()) as handle:
            return [line.decode("utf-8", "replace").rstrip("\r\n") for line in islice(handle, lines)]


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
    found = _find_encoding(head, encoding, path)
    text = head.decode(found, "ignore")
    lines = [line for line in text.splitlines()[:20] if line.strip()]
    if re.match(rb"\{|\[\s*\{", start) or (lines and 2 * sum(map(bool, map(MESSAGE.match, lines))) > len(lines)):
        return Source(path, "json", found, member)
    old_ends = "\r" in text and "\n" not in text
    return Source(path, "text", found, member, odd=old_ends or any(chr(one) in text for one in PLAIN))


def _member(path: Path) -> str:
    """The only table in a zip, "" for a file that is no zip or is a spreadsheet."""
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
        return cast(IO[bytes], io.BytesIO(ZipFile(path).read(member)))
    with path.open("rb") as handle:
        zipped = handle.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], io.BufferedReader(cast(Any, gzip.open(path)))) if zipped else path.open("rb")


def _find_encoding(head: bytes, stated: str, path: Path) -> str:
    """The encoding of a text: as stated, by its byte order mark or zero bytes, UTF-8 if valid, else Windows-1252."""
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
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def read_sheets(source: Source, sheet: str) -> dict[str, list[list[str]]]:
    """The cells of a spreadsheet's sheets as text, by name; of one sheet if it is named."""
    import fastexcel

    try:
        with source.open() as handle:
            book = fastexcel.read_excel(handle.read())
        if sheet and sheet not in book.sheet_names:
            raise UsageError(f"{source.path}: no sheet '{sheet}'{suggestion(sheet, book.sheet_names)}")
        frames = {
            name: book.load_sheet(name, header_row=None, dtypes="string").to_polars()
            for name in ([sheet] if sheet else book.sheet_names)
        }
    except fastexcel.FastExcelError as error:
        reason = " ".join(str(error).split())[:80]
        raise DataError(f"{source.path}: the spreadsheet cannot be read ({reason}); save it as CSV") from error
    return {name: [[(cell or "").strip() for cell in row] for row in frame.rows()] for name, frame in frames.items()}


def read_records(source: Source) -> tuple[str, list[list[str]]]:
    """The longest list of records in a JSON text: its name, and a header and rows of cells; nested keys are joined."""
    text = "\n".join(source.text())
    try:
        value = json.loads(text)
    except ValueError:
        try:
            value = [one for line in text.splitlines() if line.strip() and (one := _message(line)) is not None]
        except ValueError as error:
            raise DataError(f"{source.path}: cannot be read as JSON: {error}") from error
    lists = dict(_record_lists(value, ""))
    name = max(lists, key=lambda one: len(lists[one]), default="")
    if len(lists.get(name, ())) < 3:
        raise DataError(
            f"{source.path}: the JSON holds one message, not a table; collect messages as one list, or export CSV"
        )
    records = [dict(_flat(record, "")) for record in lists[name]]
    header = list(dict.fromkeys(key for record in records for key in record))
    return name, [header, *([record.get(key, "") for key in header] for record in records)]


def _message(line: str) -> dict[str, Any] | None:
    """The JSON object in a line of a log, None if there is none; a time before it counts if it has none itself."""
    found = MESSAGE.match(line)
    if found is None:
        return None
    record = json.loads(found[1])
    words = line[: found.start(1)].split()
    texts = [*words[:1], " ".join(words[:2])]
    time = next((text for text in texts if (shape := shape_of(text)) and shape.has_clock), "")
    return {"logged at": time, **record} if time else record


def _record_lists(value: Any, name: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """All lists of records within a JSON value, with the keys that lead to them."""
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        yield name, value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _record_lists(one, f"{name}.{key}".strip("."))


def _flat(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """The plain values within a JSON record as text; lists are left out."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _flat(one, f"{name}.{key}".strip("."))
    elif not isinstance(value, list):
        yield name, "" if value is None else str(value)
