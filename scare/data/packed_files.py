"""The content of a table file, whatever it is packed in: gzip, zip, an encoding.

Called by `tables`, which takes ordinary text line by line (`Source.lines`). `spreadsheets` and `json_records` read
the rest at once, as rows of cells.
"""

import codecs
import gzip
import io
import re
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, cast
from zipfile import BadZipFile, ZipFile

from scare.data.vocabulary import VOCABULARY
from scare.errors import DataError, UsageError
from scare.limits import check_table, table_limit
from scare.words import suggestion

Content = Literal["parquet", "sheet", "json", "page", "text"]
HEAD_BYTES = 1 << 18  # bytes at the beginning of a file by which its content and encoding are told
BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
NAMES = {  # of encodings in messages
    **{"utf-8-sig": "UTF-8", "utf-16": "UTF-16", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"},
    **{"cp949": "Korean (cp949)", "gb18030": "Chinese (GB 18030)", "big5": "Chinese (Big5)"},
    **{"cp932": "Japanese (cp932)", "cp1251": "Windows-1251", "cp1252": "Windows-1252"},
}
# Encodings that a file does not state, with words of headers that only the right encoding shows.
HEADER_WORDS: dict[str, list[str]] = VOCABULARY["header_words"]
OLD_EXCEL = b"\xd0\xcf\x11\xe0"  # the first bytes of an .xls file
TABLES = (".csv", ".tsv", ".txt", ".dat", ".xlsx", ".xls", ".ods", ".parquet", ".json")  # in an archive
# Characters that are replaced: zero bytes by nothing, no-break spaces, the minus sign, digits of other scripts.
TO_PLAIN = {
    **{0: None, 0xA0: " ", 0x202F: " ", 0x2212: "-"},
    **{zero + digit: str(digit) for zero in (0x660, 0x6F0, 0x966, 0xFF10) for digit in range(10)},
}
# A line with quotes around all of it, although it has several cells.
WHOLE_LINE = re.compile(r'"((?:[^",;\t]|"")+[,;\t](?:[^"]|"")*)"')
MESSAGE = re.compile(r"^[^{]*?(\{.*\})\s*$")  # of a broker's or a device's log: a JSON object after its topic


@dataclass(frozen=True)
class Source:
    """A file, the kind of its content, and how its text is written."""

    path: Path
    content: Content
    encoding: str = ""  # of a text
    member: str = ""  # the file within a zip
    # Whether lines end as on an old Macintosh, characters are to be replaced (`TO_PLAIN`), or whole lines are quoted
    # (`WHOLE_LINE`), as by a program that took each for one cell.
    needs_cleaning: bool = False

    def open(self) -> IO[bytes]:
        """Open the content as bytes, unpacked."""
        return _open(self.path, self.member)

    def lines(self) -> Generator[bytes, None, None]:
        """Yield the lines of a text in UTF-8, with their ends."""
        limit = "document" if self.content == "json" else "line"  # a JSON text may be one line
        longest = table_limit(self.path, limit) + 1  # no more is read of a line; one as long is over the limit

        def check(line: bytes | str) -> None:
            if len(line) == longest:
                check_table(self.path, **{limit: longest})  # as document=… or as line=…; raises a DataError

        with self.open() as handle:
            if self.encoding in ("utf-8", "utf-8-sig", "ascii") and not self.needs_cleaning:
                if self.encoding == "utf-8-sig":
                    handle.read(len(codecs.BOM_UTF8))
                for line in iter(partial(handle.readline, longest), b""):
                    check(line)
                    yield line
                return
            # As text, lines also end where an old Macintosh ends them, at a carriage return.
            with io.TextIOWrapper(handle, self.encoding, errors="replace") as text:
                for decoded in iter(partial(text.readline, longest), ""):
                    check(decoded)
                    yield (_cleaned(decoded) if self.needs_cleaning else decoded).encode()

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
    """Find what a file holds by its first bytes, whatever its name; `encoding` is the one that a user states."""
    member = _member(path)
    with _open(path, member) as handle:
        head = handle.read(HEAD_BYTES)
    if head[:4] == b"PAR1":
        return Source(path, "parquet", member=member)
    if head[:4] == OLD_EXCEL or head[:2] == b"PK":  # a zip without a table in it is an .xlsx or .ods file
        return Source(path, "sheet", member=member)
    start = head.removeprefix(codecs.BOM_UTF8).lstrip()[:200].lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<table")):
        return Source(path, "page", member=member)
    used_encoding = _find_encoding(head, encoding, path)
    text = head.decode(used_encoding, "ignore")
    lines = [line for line in text.splitlines()[:20] if line.strip()]
    are_messages = sum(1 for line in lines if MESSAGE.match(line)) > len(lines) / 2
    if are_messages or re.match(rb'\{\s*["}]|\[\s*\{', start):
        return Source(path, "json", used_encoding, member)
    has_old_ends = "\r" in text and "\n" not in text
    are_quoted = sum(1 for line in lines if WHOLE_LINE.fullmatch(line)) > len(lines) / 2
    has_replaced_characters = any(chr(code) in text for code in TO_PLAIN)
    needs_cleaning = has_old_ends or are_quoted or has_replaced_characters
    return Source(path, "text", used_encoding, member, needs_cleaning)


def _cleaned(line: str) -> str:
    """Return a line without quotes around all of it, and with digits, spaces and minus signs in ASCII.

    >>> _cleaned('"2026-01-31 12:00,""Roof"",5.2"')
    '2026-01-31 12:00,"Roof",5.2'
    """
    if match := WHOLE_LINE.fullmatch(line.rstrip("\r\n")):
        end_of_line = line[match.end() :]
        line = match[1].replace('""', '"') + end_of_line
    return line.translate(TO_PLAIN)


def _member(path: Path) -> str:
    """Return the name of the only table in a zip; "" for a file that is no zip, or a spreadsheet (a zip, too)."""
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
        is_gzip = handle.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], io.BufferedReader(_Unpacked(path))) if is_gzip else path.open("rb")


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
    """Return the encoding of a text of which `head` is the beginning.

    It is the stated one, or is found by a byte order mark, by zero bytes (UTF-16), by being valid UTF-8, or by words
    that usual headers have (`HEADER_WORDS`); otherwise it is cp1252.
    """
    if stated:
        try:
            return codecs.lookup(stated).name
        except LookupError as error:
            known = ("utf-8", "utf-16", "cp1252", "latin-1", "cp1250", "cp1251", "shift_jis", "gb18030")
            raise UsageError(f"no encoding is called '{stated}'{suggestion(stated, known)}") from error
    for mark, name in BOMS.items():
        if head.startswith(mark):
            return name
    first_bytes = head[:200]  # UTF-16 has a zero byte beside each ASCII character
    if first_bytes.count(0) > len(first_bytes) / 4:
        return "utf-16-le" if head[1:2] == b"\x00" else "utf-16-be"
    start = head[:2000]  # a damaged text has up to 20 zero bytes here, a program other control characters, too
    if start.count(0) > 20 or (b"\x00" in start and re.search(rb"[\x01-\x08\x0e-\x1f]", start)):
        raise DataError(f"{path}: the file is not a text table, a spreadsheet or Parquet; export it as CSV")
    if _decoded(head, "utf-8") is not None:
        return "utf-8"
    counts = {
        name: sum(word in (_decoded(head, name) or "") for word in header_words)
        for name, header_words in HEADER_WORDS.items()
    }
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] else "cp1252"


def _decoded(head: bytes, encoding: str) -> str | None:
    """Decode a file's first bytes, whose last character may be incomplete; None if they are not of this encoding."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return None
