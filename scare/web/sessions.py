"""Sessions of the page, each a folder: uploaded files, the person's selections, the output of each step.

    NAME/session.json    title, selections
    NAME/draft.toml      the config that is previewed
    NAME/config.toml     the config that was trained with
    NAME/files/          uploaded to train on
    NAME/later/          uploaded only to be calibrated
    NAME/jobs/           the messages and results of each step
    NAME/model.scare     trained here, or uploaded
    NAME/run/, exports/, calibrated/, certificate.json

Names of folders and files are made here, never taken from a request. All of it runs in one event loop.
"""

import asyncio
import json
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Any
from unicodedata import normalize

from scare.data.tables import SUFFIXES as TABLE_SUFFIXES
from scare.errors import DataError, UsageError
from scare.files import replacing
from scare.schema import merge, read_json
from scare.web.jobs import AFTER_TRAINING, Jobs, make_job, preview_job
from scare.web.preview import PREVIEWED
from scare.web.session_setup import FILES, Setup, make_setup, read_selections

RECORD, LATER = "session.json", "later"
LONGEST_NAME = 80
SPARE_BYTES = 1 << 30  # free space that uploads must leave on the disk
SUFFIXES = (*TABLE_SUFFIXES, ".zip")  # endings of files that can be uploaded
ID = re.compile(r"[0-9a-z-]{1,60}")


@dataclass(frozen=True)
class SessionRecord:
    """The content of session.json."""

    title: str
    created: str
    said: Mapping[str, Any] = field(default_factory=dict)  # the selections; the key in files since the first version


class Session:
    """One session: its folder, the person's selections, its jobs, and a signal when any of them changes."""

    def __init__(self, folder: Path, record: SessionRecord, memory_bytes: int) -> None:
        self.folder, self.title, self.created, self.memory_bytes = folder, record.title, record.created, memory_bytes
        self.selections = record.said  # named as in session.json
        self.version = 0  # counts changes
        self._changed = asyncio.Event()

    @property
    def id(self) -> str:
        """The name of the session's folder."""
        return self.folder.name

    @cached_property
    def jobs(self) -> Jobs:
        """The session's jobs, read from the folder when first needed."""
        return Jobs(self.folder, self.memory_bytes, self._notify)

    @property
    def setup(self) -> Setup:
        """The selections, completed by what the previews of its files show."""
        previews = {}
        for name in self.names(FILES):
            job = self.jobs.by_name.get(f"look:{name}")
            result = job.results[-1] if job and job.results else None
            if result and PREVIEWED in result:  # the preview has ended, and without an error
                previews[name] = result
        return make_setup(previews, read_selections(self.selections))

    def names(self, place: str) -> list[str]:
        """Return the names of uploaded files: in FILES to train on, in LATER only to be calibrated."""
        return sorted(path.name for path in (self.folder / place).iterdir() if not path.name.startswith("."))

    def find_file(self, name: str) -> str:
        """Return the path of an uploaded file relative to the session's folder; raises a DataError if there is none."""
        for place in (FILES, LATER):  # the folders of files to train on, and of those only to be calibrated
            if name in self.names(place):
                return f"{place}/{name}"
        raise DataError(f"There is no file '{name[:LONGEST_NAME]}' in this session.")

    def find_output(self, name: str) -> Path:
        """Return the path of a file that a step has made; a name that leads out of the folder is refused."""
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()) or not path.is_file():
            raise DataError(f"There is no '{name[:LONGEST_NAME]}' in this session yet.")
        return path

    def save(self) -> None:
        """Write session.json."""
        facts = asdict(SessionRecord(self.title, self.created, self.selections))
        with replacing(self.folder / RECORD) as temporary:
            temporary.write_text(json.dumps(facts, indent=1), encoding="utf-8")

    def select(self, changes: Mapping[str, Any]) -> None:
        """Save what the person has just selected; a file whose format options changed is previewed again."""
        selections = merge(self.selections, changes)
        read_selections(selections)  # only to raise an error before anything changes
        self.selections = selections
        self.save()
        for name in changes.get("tables", {}):
            if name in self.names(FILES):
                former = self.jobs.by_name[f"look:{name}"].results  # shown until there is a new one
                self.jobs.start(replace(preview_job(name, self.setup.selections), results=former[-1:]))
        self._notify()

    def add_file(self, place: str, name: str) -> None:
        """Announce a file that has just been uploaded; a file to train on (`place` FILES) is previewed."""
        self.jobs.forget(f"predict:{name}")
        if place == FILES:
            self.jobs.start(preview_job(name, self.setup.selections))
        self._notify()

    def remove_file(self, name: str) -> None:
        """Delete an uploaded file and the jobs about it."""
        (self.folder / self.find_file(name)).unlink()
        for job in (f"look:{name}", f"predict:{name}"):
            self.jobs.forget(job)
        self._notify()

    def start_step(self, name: str, request: Mapping[str, Any]) -> None:
        """Start a step; training again forgets what was made from the old calibrator."""
        job = make_job(self.setup, name, request, self.find_file)
        if "config" in job.about:
            with replacing(self.folder / job.about["written"]) as temporary:
                temporary.write_text(job.about["config"], encoding="utf-8")
        if name == "train":
            self._forget_outdated()
        self.jobs.start(job)

    def open_model(self) -> None:
        """Use a calibrator that has just been uploaded."""
        self._forget_outdated()
        self.jobs.forget("train")
        self.start_step("open", {})

    def _forget_outdated(self) -> None:
        """Delete the jobs that used the old calibrator."""
        for name in list(self.jobs.by_name):
            if name.partition(":")[0] in AFTER_TRAINING:
                self.jobs.forget(name)

    def state(self) -> dict[str, Any]:
        """Return everything that the page shows, except the results of jobs."""
        setup = self.setup
        return {
            "version": self.version,
            "id": self.id,
            "title": self.title,
            "folder": str(self.folder),
            "files": self.names(FILES),
            "later": self.names(LATER),
            "setup": asdict(setup),
            "config": "" if setup.missing else setup.config(),
            "jobs": {name: job.summary() for name, job in self.jobs.by_name.items()},
        }

    async def wait_for_change(self, seconds: float) -> None:
        """Return when something changes, or after `seconds`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def _notify(self) -> None:
        """Count a change and wake all tasks that wait for one; the next change gets a new event."""
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()


class SessionRegistry:
    """The sessions in a folder of at most `quota_bytes`; a session that was opened stays in memory."""

    def __init__(self, folder: Path, quota_bytes: float, memory_bytes: int) -> None:
        self.folder, self.quota_bytes, self.memory_bytes = folder, quota_bytes, memory_bytes
        self.received_bytes = 0  # of all uploads so far
        self._open: dict[str, Session] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot create the folder {folder}: {error.strerror or error}") from error

    def list(self) -> list[Session]:
        """Return all sessions, the newest first."""
        names = [path.parent.name for path in self.folder.glob(f"*/{RECORD}")]
        sessions = [self.load(name) for name in names if ID.fullmatch(name)]
        return sorted(sessions, key=lambda session: session.created, reverse=True)

    def load(self, name: str) -> Session:
        """Read a session from its folder; raises a DataError if there is none of this name."""
        folder = self.folder / name
        if not ID.fullmatch(name) or not (folder / RECORD).is_file():
            raise DataError("There is no such session.")
        return Session(folder, read_json(folder / RECORD, SessionRecord), self.memory_bytes)

    def open(self, name: str) -> Session:
        """Return the session of this name, which is loaded only once."""
        self._loop = asyncio.get_running_loop()  # for `close`, which runs in another thread
        if name not in self._open:
            self._open[name] = self.load(name)
        return self._open[name]

    def is_open(self, session: Session) -> bool:
        """Whether a session has been neither deleted nor closed."""
        return not self._closing and self._open.get(session.id) is session

    def create(self, title: str) -> Session:
        """Create a session with its folder."""
        now = datetime.now(UTC)
        folder = self.folder / f"{now:%Y-%m-%d}-{token_hex(3)}"
        for name in (FILES, LATER, "jobs"):
            (folder / name).mkdir(parents=True)
        record = SessionRecord(title.strip()[:LONGEST_NAME] or f"{now:%Y-%m-%d}", now.isoformat())
        session = Session(folder, record, self.memory_bytes)
        session.save()
        return session

    async def delete(self, name: str) -> None:
        """End a session's jobs and delete its folder."""
        session = self.open(name)
        await session.jobs.close()
        self._open.pop(name, None)
        shutil.rmtree(session.folder)

    def free_bytes(self) -> float:
        """Return how many bytes may still be uploaded: the rest of the quota, or the free disk space if less."""
        used = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        return max(0.0, min(self.quota_bytes - used, shutil.disk_usage(self.folder).free - SPARE_BYTES))

    def close(self) -> None:
        """End all jobs; must not be called in the thread of the event loop."""
        self._closing = True
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._close_jobs(), self._loop).result()

    async def _close_jobs(self) -> None:
        await asyncio.gather(*(session.jobs.close() for session in self._open.values()))


def safe_name(name: str) -> str:
    """Make a name for an uploaded file, of letters, digits, - and _ only, with the suffix of a table.

    >>> safe_name("../Box 1 (Kamera).CSV"), safe_name("ünïcode.csv.gz")
    ('Box_1_Kamera.csv', 'unicode.csv.gz')
    """
    plain = normalize("NFKD", name).encode("ascii", "ignore").decode()
    suffix = next((ending for ending in sorted(SUFFIXES, key=len, reverse=True) if plain.lower().endswith(ending)), "")
    if not suffix:
        raise DataError(f"'{name[:LONGEST_NAME]}' is not a table. Upload {', '.join(SUFFIXES)}.")
    base = plain[: -len(suffix)].replace("\\", "/").rpartition("/")[2]  # without folders and suffix
    words = re.findall(r"[A-Za-z0-9_-]+", base)
    return f"{'_'.join(words)[:LONGEST_NAME] or 'table'}{suffix}"
