"""A session is a folder: the files that were dropped, what the person chose, what each step made.

    NAME/session.json    title, what was said
    NAME/draft.toml      the same as commands read it, as it is looked at
    NAME/config.toml     the same as it was trained with
    NAME/files/          what was dropped to learn from
    NAME/later/          what was dropped only to be calibrated
    NAME/jobs/           what each step printed
    NAME/model.scare, run/, exports/, calibrated/, certificate.json

Names of folders and files are made here, never taken as they come.
"""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from scare.errors import DataError, UsageError
from scare.files import replacing
from scare.records import read_json

RECORD, FILES, LATER = "session.json", "files", "later"
LONGEST_NAME = 80
SPARE_BYTES = 1 << 30  # of the disk, left free
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".txt", ".parquet")
ID = re.compile(r"[0-9a-z-]{1,60}")


@dataclass(frozen=True)
class Session:
    """One folder; `said` is what the person chose, everything else is proposed."""

    folder: Path
    title: str
    created: str
    said: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The name of its folder."""
        return self.folder.name

    @property
    def files(self) -> list[str]:
        """The names of the files to learn from."""
        return self._names(FILES)

    @property
    def later(self) -> list[str]:
        """The names of the files only to be calibrated."""
        return self._names(LATER)

    def file(self, name: str) -> Path:
        """A file that was dropped."""
        for place in (FILES, LATER):
            if name in self._names(place):
                return self.folder / place / name
        raise DataError(f"there is no file '{name[:LONGEST_NAME]}' in this session")

    def _names(self, place: str) -> list[str]:
        return sorted(one.name for one in (self.folder / place).iterdir() if not one.name.startswith("."))

    def made(self, name: str) -> Path:
        """A file that a step has made."""
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()) or not path.is_file():
            raise DataError(f"there is no '{name[:LONGEST_NAME]}' in this session yet")
        return path

    def save(self) -> "Session":
        """Write what it is."""
        facts = {name: value for name, value in asdict(self).items() if name != "folder"}
        with replacing(self.folder / RECORD) as temporary:
            temporary.write_text(json.dumps(facts, indent=1), encoding="utf-8")
        return self


@dataclass(frozen=True)
class _Record:
    title: str
    created: str
    said: Mapping[str, Any] = field(default_factory=dict)


class Sessions:
    """All sessions under a folder, which may hold at most `quota_bytes`."""

    def __init__(self, folder: Path, quota_bytes: float) -> None:
        self.folder, self.quota_bytes = folder, quota_bytes
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make the folder {folder}: {error.strerror or error}") from error

    def list(self) -> list[Session]:
        """The newest first."""
        found = [
            self.find(path.parent.name) for path in self.folder.glob(f"*/{RECORD}") if ID.fullmatch(path.parent.name)
        ]
        return sorted(found, key=lambda one: one.created, reverse=True)

    def find(self, name: str) -> Session:
        """The session of this name."""
        folder = self.folder / name
        if not ID.fullmatch(name) or not (folder / RECORD).is_file():
            raise DataError("there is no such session")
        record = read_json(folder / RECORD, _Record)
        return Session(folder, record.title, record.created, record.said)

    def make(self, title: str) -> Session:
        """A new session."""
        now = datetime.now(UTC)
        folder = self.folder / f"{now:%Y-%m-%d}-{token_hex(3)}"
        for name in (FILES, LATER, "jobs"):
            (folder / name).mkdir(parents=True)
        return Session(folder, title.strip()[:LONGEST_NAME] or f"{now:%Y-%m-%d}", now.isoformat()).save()

    def delete(self, session: Session) -> None:
        """Remove a session with all its files."""
        shutil.rmtree(session.folder)

    def room_bytes(self) -> float:
        """How many bytes may still come: by the quota, and by what is free on the disk."""
        used = sum(one.stat().st_size for one in self.folder.rglob("*") if one.is_file())
        return max(0.0, min(self.quota_bytes - used, shutil.disk_usage(self.folder).free - SPARE_BYTES))


def safe_name(name: str) -> str:
    """A name for a dropped file, of letters, digits and - _ only, with the suffix of a table.

    >>> safe_name("../Box 1 (Kamera).CSV"), safe_name("ünïcode.csv.gz")
    ('Box_1_Kamera.csv', 'unicode.csv.gz')
    """
    from unicodedata import normalize

    plain = normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    suffix = next((one for one in sorted(SUFFIXES, key=len, reverse=True) if plain.endswith(one)), "")
    if not suffix:
        raise DataError(f"'{name[:LONGEST_NAME]}' is no table; drop {', '.join(SUFFIXES)}")
    stem = normalize("NFKD", name).encode("ascii", "ignore").decode()[: -len(suffix)]
    words = re.findall(r"[A-Za-z0-9_-]+", stem.replace("\\", "/").rpartition("/")[2])
    return f"{'_'.join(words)[:LONGEST_NAME] or 'table'}{suffix}"
