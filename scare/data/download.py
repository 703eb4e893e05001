"""Download the files of a Zenodo record, resumed where it stopped and checked against the record's checksums.

A file grows as `<name>.part` and takes its name only when its checksum is right. Goes to `senseurcity`.
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from scare.errors import DataError, UnreachableError, UsageError

ZENODO = "https://zenodo.org/api/records"
TIMEOUT_SECONDS = 30
CHUNK_BYTES = 1 << 18
PARTIAL_CONTENT = 206

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class RecordFile:
    """One file of a record: its name, size in bytes, checksum as `algorithm:digest`, and address.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "empty.csv"
    >>> path.touch()
    >>> empty = RecordFile("empty.csv", 0, "md5:d41d8cd98f00b204e9800998ecf8427e", "https://example.org/empty.csv")
    >>> empty.is_at(path)
    True
    """

    name: str
    size: int
    checksum: str
    url: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[^/\\:\x00-\x1f]+", self.name) or self.name in (".", ".."):
            raise DataError(f"the record names a file '{self.name}', which is not a plain file name")
        if not re.fullmatch(r"(md5|sha256):[0-9a-f]+", self.checksum):
            raise DataError(f"the record gives {self.name} the checksum '{self.checksum}', not md5 or sha256")

    def is_at(self, path: Path) -> bool:
        """Whether this file, whole and unchanged, is at the path."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        algorithm, digest = self.checksum.split(":")
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, algorithm).hexdigest() == digest


def download_record(record: str, out: Path, base_url: str = ZENODO, progress: Progress | None = None) -> list[Path]:
    """The paths of all files of a record in the folder `out`, downloaded unless they are already there.

    `progress` is called with the bytes there, the bytes in all and the name of the file, after each piece.
    Stopped in any way, the same call takes up where it stopped.
    """
    files = _list_files(f"{base_url}/{quote(record, safe='')}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        return [_download(file, out, progress) for file in files]
    except OSError as error:
        raise UsageError(f"cannot write to {out}: {error.strerror or error}") from error


def _list_files(url: str) -> list[RecordFile]:
    with _open(url) as response:
        content = _read(response, url)
    try:
        files = [
            RecordFile(entry["key"], int(entry["size"]), entry["checksum"], str(entry["links"]["self"]))
            for entry in json.loads(content)["files"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"the answer of {url} is not a record with a list of files") from error
    if not files:
        raise DataError(f"the record at {url} has no files")
    return files


def _download(file: RecordFile, out: Path, progress: Progress | None) -> Path:
    path, part = out / file.name, out / f"{file.name}.part"
    if file.is_at(path):
        return path
    if part.exists() and part.stat().st_size > file.size:
        part.unlink()
    if not part.exists() or part.stat().st_size < file.size:
        _fetch(file, part, progress)
    if not file.is_at(part):
        part.unlink()
        raise DataError(f"{file.name} arrived with a wrong checksum and was removed; download it again")
    return part.replace(path)


def _fetch(file: RecordFile, part: Path, progress: Progress | None) -> None:
    done = part.stat().st_size if part.exists() else 0
    with _open(file.url, start=done) as response:
        # A server that ignores the range sends the file from its beginning.
        resumed = response.status == PARTIAL_CONTENT
        done = done if resumed else 0
        with part.open("ab" if resumed else "wb") as handle:
            while done < file.size:
                chunk = _read(response, file.url, min(CHUNK_BYTES, file.size - done))
                if not chunk:
                    raise _unreachable(file.url, f"it stopped after {done} of {file.size} bytes")
                handle.write(chunk)
                done += len(chunk)
                if progress:
                    progress(done, file.size, file.name)


def _open(url: str, start: int = 0) -> HTTPResponse:
    if not url.startswith(("http://", "https://")):
        raise DataError(f"'{url}' is not a web address")
    headers = {"User-Agent": "scare"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        return urlopen(Request(url, headers=headers), timeout=TIMEOUT_SECONDS)
    except HTTPError as error:
        error.close()
        raise _unreachable(url, f"HTTP {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        raise _unreachable(url, getattr(error, "reason", error)) from error


def _read(response: HTTPResponse, url: str, size: int | None = None) -> bytes:
    try:
        return response.read(size)
    except (OSError, HTTPException) as error:
        raise _unreachable(url, error) from error


def _unreachable(url: str, reason: object) -> UnreachableError:
    why = getattr(reason, "strerror", None) or reason
    return UnreachableError(f"could not reach {url} ({why}); running the same command again resumes")
