"""An archive from end to end: find its files, look at those that are new, arrange them, calibrate what is not done.

The journals in the folder of results (`journal`) tell what is done: the same call goes on where it was stopped, and
does only what has changed since.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from scare.archive.calibrating import Task, calibrate
from scare.archive.executor import Executor, run_all
from scare.archive.journal import KEPT, Journal, Line, Looks
from scare.archive.listing import Source, find_sources
from scare.archive.looking import Labels, Look, look_at_all
from scare.archive.models import Models
from scare.archive.places import on_disk, stamp
from scare.archive.series import Model, Series, arrange
from scare.archive.summary import Summary, write_manifest
from scare.data.inspection import find_labels
from scare.data.times import Dates
from scare.errors import DataError, UsageError
from scare.files import lock
from scare.records import convert

LOOKED_AT = 64  # files, by a worker at once
TASK_BYTES, TASK_SERIES = 1 << 24, 64  # what a worker is given at once: no more than this input, or one series
TURNS = 4  # tasks that a worker has at least, where there is enough to do
LEFTOVER = re.compile(r"\..+\.[0-9a-f]{6}-\d+-[0-9a-f]{8}")  # of `replacing`, after a kill, on whichever computer
Progress = Callable[[int, int], None]  # files done, files in all


@dataclass(frozen=True)
class Archive:
    """What to calibrate, by what, and where to."""

    places: tuple[str, ...]
    out: Path
    models: Models
    time: tuple[str, ...] = ()
    device_column: str = ""
    dates: Dates = ""

    def sources(self) -> list[Source]:
        """The files that are there now, without those of the results."""
        out = self.out.absolute()
        return [one for one in find_sources(self.places, self.device_column) if out not in Path(one.path).parents]


def run_archive(archive: Archive, executor: Executor, progress: Progress) -> dict[str, Any]:
    """Calibrate what is not done; what became of the whole archive, as plain values."""
    sources = archive.sources()
    with _prepared(archive.out):
        return _run(archive, sources, executor, progress)


def _run(archive: Archive, sources: Sequence[Source], executor: Executor, progress: Progress) -> dict[str, Any]:
    begun = time.perf_counter()
    known = {line.look.name: line for line in _known(archive.out)}
    labels = _labels(archive, sources)
    looks = {look.name: look for look in _looks(sources, labels, Looks(archive.out, astuple(labels)), executor)}
    models = archive.models.by_device(device for look in looks.values() for device in look.devices)
    readable = [(source, looks[source.name]) for source in sources if not looks[source.name].why]
    series = arrange(readable, models, astuple(labels))
    lost = _calibrate(
        archive, [one for one in series if not _is_done(one, known)], (labels, models), executor, progress
    )
    unread = [Line(look, why=look.why) for look in looks.values() if look.why]
    lines = [line for one in series for line in Journal(archive.out, one.key).lines()] + lost + unread
    facts = {**_total(lines, known), "seconds": round(time.perf_counter() - begun, 2)}
    return {**facts, "manifest": str(write_manifest(archive.out, lines)), **_strangers(archive, sources, known)}


@contextmanager
def _prepared(out: Path) -> Iterator[None]:
    """The folder, for this run alone, without what a killed run has left half written."""
    with ExitStack() as stack:
        try:
            (out / KEPT).mkdir(parents=True, exist_ok=True)
            handle = stack.enter_context((out / KEPT / "lock").open("a"))
            if not lock(handle.fileno()):
                raise UsageError(f"{out} is in use by another run; wait for it, or give each its own --out")
            for path in [path for path in out.rglob(".*") if LEFTOVER.match(path.name)]:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write to {out}: {error.strerror or error}") from error
        yield


def _known(out: Path) -> Iterator[Line]:
    """What earlier runs have done."""
    for path in (out / KEPT).glob("*.jsonl"):
        yield from Journal(out, path.stem).lines()


def _labels(archive: Archive, sources: Sequence[Source]) -> Labels:
    """The columns of time and device, as the first file that can be read shows them; `archive` may name them."""
    problems = []
    for source in sources:
        try:
            with on_disk(source.path) as file:
                times, device = find_labels(file, archive.time, archive.dates)
        except DataError as error:
            problems.append(error)
        else:
            return Labels(times, archive.device_column or device, archive.dates)
    raise DataError(f"no file can be read; the first: {problems[0]}")


def _looks(sources: Sequence[Source], labels: Labels, kept: Looks, executor: Executor) -> Iterator[Look]:
    """A look at each file; one that has not been written to since the last look needs no other."""
    fresh = []
    for source in sources:
        look = kept.known.get(source.name)
        if look and look.stamp == _stamp(source.path):
            yield look
        else:
            fresh.append(astuple(source))
    parts = [fresh[start : start + LOOKED_AT] for start in range(0, len(fresh), LOOKED_AT)]
    for ended in run_all(executor, look_at_all, ((part, astuple(labels)) for part in parts)):
        if ended.lost:
            yield from (Look(name, why=ended.lost) for _, name, _ in ended.arguments[0])
        else:
            found = [convert(look, Look, "look") for look in ended.result]
            kept.keep(found)
            yield from found


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        return stamp(path)
    except DataError:
        return None


def _is_done(series: Series, known: Mapping[str, Line]) -> bool:
    return all(
        member.source.name in known and known[member.source.name].chain == member.chain for member in series.members
    )


def _calibrate(
    archive: Archive,
    todo: Sequence[Series],
    terms: tuple[Labels, dict[str, Model]],
    executor: Executor,
    progress: Progress,
) -> list[Line]:
    """Calibrate series; lines of what a worker took with it when it was lost."""
    total, done, lost = sum(len(one.members) for one in todo), 0, []
    by_key = {one.key: one for one in todo}
    for ended in run_all(
        executor, calibrate, ((asdict(task),) for task in _tasks(archive.out, todo, executor.size, *terms))
    ):
        some = [by_key[one["key"]] for one in ended.arguments[0]["series"]]
        done += sum(len(one.members) for one in some)
        progress(done, total)
        if ended.lost:
            lost += [Line(member.look, why=ended.lost) for one in some for member in _open(archive.out, one)]
    return lost


def _open(out: Path, series: Series) -> list[Any]:
    """The files of a series that have no line."""
    done = {line.chain for line in Journal(out, series.key).lines()}
    return [member for member in series.members if member.chain not in done]


def _tasks(
    out: Path, todo: Sequence[Series], workers: int, labels: Labels, models: Mapping[str, Model]
) -> Iterator[Task]:
    """Series in parts that a worker is given at once, the largest first, so that none is waited for at the end."""
    part: list[Series] = []
    most = min(TASK_BYTES, sum(one.size for one in todo) // (TURNS * workers))
    for one in sorted(todo, key=lambda one: (-one.size, one.key)):
        if part and (len(part) == TASK_SERIES or sum(other.size for other in part) + one.size > most):
            yield _task(out, part, labels, models)
            part = []
        part.append(one)
    if part:
        yield _task(out, part, labels, models)


def _task(out: Path, part: Sequence[Series], labels: Labels, models: Mapping[str, Model]) -> Task:
    devices = {device for one in part for member in one.members for device in member.look.devices}
    return Task(str(out.absolute()), labels, {one: models[one] for one in devices if one in models}, tuple(part))


def _total(lines: Sequence[Line], known: Mapping[str, Line]) -> dict[str, Any]:
    """The summary of all lines, and how much of it is of this run."""
    summary, now = Summary(), Summary()
    for line in lines:
        summary.add(line)
        if line.look.name not in known or known[line.look.name].chain != line.chain:
            now.add(line)
    return {**summary.as_dict(), "now": {"files": now.files, "rows": now.rows.total()}}


def _strangers(archive: Archive, sources: Sequence[Source], known: Mapping[str, Line]) -> dict[str, Any]:
    """Files that have appeared since the run began, and files whose results are there but which are not."""
    names = {source.name for source in sources}
    appeared = [source.name for source in archive.sources() if source.name not in names]
    return {"appeared": appeared, "gone": [name for name, line in known.items() if name not in names and line.output]}
