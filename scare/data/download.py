"""Download files, such as those of a Zenodo record: resumed where it stopped, verified by checksum.

A file grows as `<name>.part` and takes its name only when it is complete. Called by `scare data` and `fetch`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from types import MappingProxyType
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from scare.errors import DataError, UnreachableError, UsageError

ZENODO = "https://zenodo.org/api/records"
TIMEOUT_SECONDS = 30
CHUNK_BYTES = 1 << 18
PARTIAL_CONTENT, NOT_FOUND, NO_SUCH_RANGE = 206, 404, 416  # status codes of HTTP

Progress = Callable[[int, int, str], None]  # bytes so far, bytes in total, file name


class MissingError(UnreachableError):
    """The server responds, but does not have the file (HTTP 404)."""


@dataclass(frozen=True)
class RecordFile:
    """A file on the web: its name, size in bytes, checksum as `algorithm:digest`, and address.

    If size and checksum are unknown (0 and ""), the file is complete when all announced bytes have arrived.

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
        if self.checksum and not re.fullmatch(r"(md5|sha256):[0-9a-f]+", self.checksum):
            raise DataError(f"the record gives {self.name} the checksum '{self.checksum}', not md5 or sha256")

    def is_at(self, path: Path) -> bool:
        """Whether this file is at the path, complete and unchanged."""
        if not path.is_file() or (self.size and path.stat().st_size != self.size):
            return False
        if not self.checksum:
            return True
        algorithm, digest = self.checksum.split(":")
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, algorithm).hexdigest() == digest


def download_record(record: str, out: Path, base_url: str = ZENODO, progress: Progress | None = None) -> list[Path]:
    """Download all files of a record into the folder `out`, unless they are there; returns their paths.

    `progress` is called after each chunk with the bytes so far, the total and the name of the file. After an
    interruption, the same call resumes.
    """
    url = f"{base_url}/{quote(record, safe='')}"
    content = read_url(url)
    try:
        files = [
            RecordFile(entry["key"], int(entry["size"]), entry["checksum"], str(entry["links"]["self"]))
            for entry in json.loads(content)["files"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{url} did not return a record with a list of files") from error
    if not files:
        raise DataError(f"the record at {url} has no files")
    return [download_file(file, out, progress) for file in files]


def download_file(file: RecordFile, out: Path, progress: Progress | None = None) -> Path:
    """Download a file into the folder `out`, unless it is there; returns its path."""
    path, part = out / file.name, out / f"{file.name}.part"
    try:
        out.mkdir(parents=True, exist_ok=True)
        if file.is_at(path):
            return path
        if part.exists() and file.size and part.stat().st_size > file.size:  # it is from another version of the file
            part.unlink()
        if not part.exists() or not file.size or part.stat().st_size < file.size:
            _fetch(file, part, progress)
        if not file.is_at(part):
            part.unlink()
            raise DataError(f"{file.name} arrived with a wrong checksum and was removed; download it again")
        return part.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write to {out}: {error.strerror or error}") from error


def read_url(url: str, headers: Mapping[str, str] | None = None) -> bytes:
    """Download the body of a response into memory."""
    with _open(url, headers=headers or {}) as response:
        return _read(response, url)


def _fetch(file: RecordFile, part: Path, progress: Progress | None) -> None:
    """Download the rest of the file and append it to `part`, which may hold its beginning."""
    received = part.stat().st_size if part.exists() else 0  # bytes
    with _open(file.url, start=received) as response:
        resumed = response.status == PARTIAL_CONTENT
        if not resumed:  # the server ignores the range and sends the file from its beginning
            received = 0
        announced = int(response.headers.get("Content-Length") or 0)
        size = file.size or (received + announced if announced else 0)  # 0: unknown, so read to the end
        with part.open("ab" if resumed else "wb") as handle:
            while received < size or not size:
                chunk = _read(response, file.url, min(CHUNK_BYTES, size - received) if size else CHUNK_BYTES)
                if not chunk and not size:
                    return
                if not chunk:
                    raise _unreachable(file.url, f"the connection ended after {received:,} of {size:,} bytes")
                handle.write(chunk)
                received += len(chunk)
                if progress:
                    progress(received, size or received, file.name)


def _open(url: str, start: int = 0, headers: Mapping[str, str] = MappingProxyType({})) -> HTTPResponse:
    """Request a file from byte `start` on; every failure becomes an `UnreachableError`."""
    if not url.startswith(("http://", "https://")):
        raise DataError(f"'{url}' is not a web address")
    all_headers = {"User-Agent": "scare", **headers} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        return urlopen(Request(url, headers=all_headers), timeout=TIMEOUT_SECONDS)
    except HTTPError as error:
        error.close()
        if error.code == NO_SUCH_RANGE and start:  # a file of unknown size is already complete: start again
            return _open(url, headers=headers)
        if error.code == NOT_FOUND:
            raise MissingError(str(_unreachable(url, f"HTTP {error.code} {error.reason}"))) from error
        raise _unreachable(url, f"HTTP {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        raise _unreachable(url, getattr(error, "reason", error)) from error


def _read(response: HTTPResponse, url: str, size: int | None = None) -> bytes:
    """Read up to `size` bytes, or all; a broken connection becomes an `UnreachableError`."""
    try:
        return response.read(size)
    except (OSError, HTTPException) as error:
        raise _unreachable(url, error) from error


def _unreachable(url: str, reason: object) -> UnreachableError:
    why = getattr(reason, "strerror", None) or reason  # of an OSError, without its number
    return UnreachableError(f"could not reach {url} ({why}); run the same command again to resume")
