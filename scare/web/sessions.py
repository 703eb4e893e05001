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

import asyncio
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from scare.board.boards import board
from scare.data.times import Dates
from scare.errors import DataError, UsageError
from scare.export.lowering import Arithmetic
from scare.export.package import TARGETS
from scare.files import replacing
from scare.records import merged, read_json
from scare.web.auth import AccessTokens
from scare.web.jobs import DONE, Command, Job, Jobs, shown
from scare.web.setup import Choices, choose, read_said

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


# A session at work: its folder, its jobs, what it comes to, and who is told when that changes.


class WebSession:
    """One open session."""

    def __init__(self, session: Session, memory_bytes: int) -> None:
        self.session = session
        self.jobs = Jobs(session.folder, memory_bytes, self._change)
        self.change, self._news = 0, asyncio.Event()

    def _change(self) -> None:
        self.change += 1
        self._news.set()
        self._news = asyncio.Event()

    async def news(self, seconds: float) -> None:
        """Wait until something changes, but not for ever."""
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return

    @property
    def choices(self) -> Choices:
        """What the session comes to now."""
        found = {name: self.jobs.found.get(f"look:{name}") for name in self.session.files}
        looks = {name: job.results[-1] for name, job in found.items() if job and job.state == DONE}
        return choose(looks, read_said(self.session.said))

    def say(self, said: Mapping[str, Any]) -> None:
        """Take over what the person chose."""
        known = merged(self.session.said, said)
        read_said(known)
        self.session = replace(self.session, said=known).save()
        for name in self.session.files if "dates" in said else ():
            self.jobs.start(look(name, self.choices.said.dates))
        self._change()

    def arrived(self, place: str, name: str) -> None:
        """Look at a file that has just come, if it is to learn from."""
        self.jobs.forget(f"predict:{name}")
        if place == FILES:
            self.jobs.start(look(name, self.choices.said.dates))
        self._change()

    def drop(self, name: str) -> None:
        """Remove a file and what was made of it."""
        self.session.file(name).unlink()
        for job in (f"look:{name}", f"predict:{name}"):
            self.jobs.forget(job)
        self._change()

    def begin(self, name: str, asked: Mapping[str, Any]) -> None:
        """Start a step."""
        job = make(self.session, self.choices, name, asked)
        if "config" in job.about:
            with replacing(self.session.folder / job.about["written"]) as temporary:
                temporary.write_text(job.about["config"], encoding="utf-8")
        for other in list(self.jobs.found) if name == "train" else ():
            if other.partition(":")[0] in AFTER_TRAINING:
                self.jobs.forget(other)
        self.jobs.start(job)

    def state(self) -> dict[str, Any]:
        """All that the page shows, but for what jobs have found."""
        choices = self.choices
        jobs = {name: self._brief(job) for name, job in self.jobs.found.items()}
        return {
            "change": self.change,
            "id": self.session.id,
            "title": self.session.title,
            "folder": str(self.session.folder),
            "files": self.session.files,
            "later": self.session.later,
            "choices": choices.as_dict(),
            "config": "" if choices.missing else choices.config(),
            "jobs": jobs,
        }

    def _brief(self, job: Job) -> dict[str, Any]:
        return {**job.brief(), "commands": shown(job.commands)}


def as_event(state: Mapping[str, Any]) -> str:
    """A state as a server-sent event."""
    return f"data: {json.dumps(state, separators=(',', ':'), allow_nan=False)}\n\n"


# The sessions of a folder, and a workshop for each that is open; all of it in one event loop.


class SessionRegistry:
    """The sessions of a folder, and a workshop for each that is open."""

    def __init__(self, sessions: Sessions, entrance: AccessTokens, memory_bytes: int) -> None:
        self.sessions, self.entrance, self.memory_bytes = sessions, entrance, memory_bytes
        self._open: dict[str, WebSession] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closing = False

    def workshop(self, name: str) -> WebSession:
        """The workshop of a session."""
        self._loop = asyncio.get_running_loop()
        if name not in self._open:
            self._open[name] = WebSession(self.sessions.find(name), self.memory_bytes)
        return self._open[name]

    def has(self, workshop: WebSession) -> bool:
        """Whether a workshop is open, and stays so."""
        return not self.closing and self._open.get(workshop.session.id) is workshop

    async def delete(self, name: str) -> None:
        """End a session's jobs and remove its folder."""
        workshop = self.workshop(name)
        await workshop.jobs.close()
        self._open.pop(workshop.session.id, None)
        self.sessions.delete(workshop.session)

    def end(self) -> None:
        """End all jobs in order, from another thread."""
        self.closing = True
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()

    async def _close(self) -> None:
        await asyncio.gather(*(one.jobs.close() for one in self._open.values()))


LOOKING = "scare.web.preview"


DRAFT, CONFIG, MODEL = "draft.toml", "config.toml", "model.scare"  # a draft is looked at, a config was trained with


AFTER_TRAINING = ("report", "measure", "export", "verify", "predict")  # made of a calibrator, gone with it


USUAL_BOARD, EXAMPLE = "nano33ble", "example.csv"


def look(name: str, dates: Dates) -> Job:
    """A dropped file, looked at."""
    return Job(f"look:{name}", [_look(name, dates)])


def example() -> Job:
    """Simulated boxes beside a simulated reference, as a file that could have been dropped."""
    words = ("simulate", "--boxes", "4", "--days", "14", "--seed", "5", "--out", f"{FILES}/{EXAMPLE}", "--json")
    return Job(f"look:{EXAMPLE}", [Command(words), _look(EXAMPLE)])


def _look(name: str, dates: Dates = "") -> Command:
    return Command((f"{FILES}/{name}", dates), LOOKING)


def together(choices: Choices) -> Job:
    """Sensor and reference, side by side."""
    config = {"config": choices.config(), "written": DRAFT}
    return Job("together", [Command(("--together", DRAFT, *_files(choices)), LOOKING)], config)


def train(choices: Choices) -> Job:
    """A calibrator."""
    words = ("train", *_files(choices), "--config", CONFIG, "--out", MODEL, "--json")
    return Job("train", [Command(words)], {"config": choices.config(), "written": CONFIG})


def report(choices: Choices) -> Job:
    """The page of a score."""
    chosen = board(choices.said.board or USUAL_BOARD).name
    words = ("score", MODEL, "--data", *_files(choices), "--config", CONFIG, "--board", chosen, "--out", "run")
    return Job("report", [Command((*words, "--json")), Command(("report", "run", "--json"))])


def measure(name: str, arithmetic: str) -> Job:
    """What the calibrator takes on a board."""
    chosen, kind = board(name).name, Arithmetic(arithmetic)
    words = ("board", "run", MODEL, "--board", chosen, "--arithmetic", kind, "--windows", "1", "--json")
    return Job(f"measure:{chosen}:{kind}", [Command(words)])


def export(target: str, arithmetic: str, chosen: str) -> Job:
    """The calibrator in the language of a board, as a zip."""
    if target not in TARGETS:
        raise UsageError(f"nothing can be exported to '{target[:40]}'")
    fits = ("--board", board(chosen).name) if chosen and TARGETS[target].in_c else ()
    out = ("--out", f"exports/{target}.zip", "--force", "--json")
    words = ("export", target, MODEL, "--arithmetic", Arithmetic(arithmetic), *fits, *out)
    return Job(f"export:{target}", [Command(words)], {"file": f"exports/{target}.zip"})


def verify(chosen: str) -> Job:
    """Proof that Python, C and the virtual board agree."""
    words = ("verify", MODEL, "--board", board(chosen or USUAL_BOARD).name, "--out", "certificate.json", "--json")
    return Job("verify", [Command(words)], {"file": "certificate.json"})


def predict(session: Session, name: str, dates: Dates) -> Job:
    """A dropped file, calibrated."""
    source, stem = session.file(name), name.removesuffix(".gz").rpartition(".")[0]
    out = f"calibrated/{stem}.csv"
    words = ("predict", MODEL, f"{source.parent.name}/{name}", *(("--dates", dates) if dates else ()), "--out", out)
    return Job(f"predict:{name}", [Command((*words, "--json"))], {"file": out})


def make(session: Session, choices: Choices, name: str, asked: Mapping[str, Any]) -> Job:
    """The job of a step that a page asks for."""
    kind, _, which = name.partition(":")
    arithmetic, chosen = str(asked.get("arithmetic", Arithmetic.FLOAT32)), str(asked.get("board", ""))
    if arithmetic not in list(Arithmetic):
        raise UsageError(f"there is no arithmetic '{arithmetic[:20]}'")
    if kind in ("together", "train", "report") and choices.missing:
        raise DataError(choices.missing)
    makers = {
        "look": lambda: look(session.file(which).name, choices.said.dates),
        "example": example,
        "together": lambda: together(choices),
        "train": lambda: train(choices),
        "report": lambda: report(choices),
        "measure": lambda: measure(which, arithmetic),
        "export": lambda: export(which, arithmetic, chosen),
        "verify": lambda: verify(chosen),
        "predict": lambda: predict(session, which, choices.said.dates),
    }
    if kind not in makers:
        raise UsageError(f"there is no step '{kind[:20]}'")
    return makers[kind]()


def _files(choices: Choices) -> tuple[str, ...]:
    return tuple(f"{FILES}/{name}" for name in choices.sensors)
