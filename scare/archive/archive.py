"""An archive from end to end: find its files, look at those that are new, arrange them, calibrate what is not done.

The journals in the folder of results (`journal`) tell what is done: the same call goes on where it was stopped, and
does only what has changed since.
"""

import hashlib
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from heapq import nlargest
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from scare.archive.files import (
    CHANGED,
    ArchiveFile,
    DeviceSpan,
    FileSummary,
    LabelColumns,
    Member,
    Model,
    Models,
    Series,
    arrange,
    content_hash,
    find_files,
    look_at_all,
    on_disk,
    stamp,
)
from scare.calibrator.calibrator import Calibrator, DeviceStreams
from scare.data.flags import Flag, count_flags
from scare.data.inspection import find_time_and_device
from scare.data.mapping import ColumnMapping
from scare.data.readings import CALIBRATED, DEVICE, FLAGS
from scare.data.tables import STEP_BLOCK, iterate_tables, table_writer
from scare.data.times import Dates
from scare.errors import DataError, ScareError, UsageError
from scare.executor import Executor, run_all
from scare.files import lock_file, replacing
from scare.records import convert

# What is done of a series, on disk: a line for each file, and the state of its devices after the last one.
#
#     OUT/.scare/looks-…            a look at each file, as it was taken
#     OUT/.scare/KEY.jsonl          a line for each file that is done, in order
#     OUT/.scare/KEY.safetensors    the streams' state after the last of them, with that file's line and chain
#
# A file's result takes its name first, then the state, then the line: whatever a kill leaves out is done again, to the
# same bytes, and replaces what is there.


KEPT = ".scare"  # the folder, hidden from what reads the data set
State = dict[str, dict[str, np.ndarray]]  # by device


@dataclass(frozen=True)
class Counts:
    """Rows of a device in a file, how many have a value, how many carry each flag (of those that any carries)."""

    rows: int = 0
    calibrated: int = 0
    flags: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """What became of a file: by device the counts, or the reason why it was left out."""

    look: FileSummary
    chain: str = ""
    counts: Mapping[str, Counts] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    seconds: float = 0.0
    why: str = ""  # nothing of it could be used


class Journal:
    """The lines and the state of one series."""

    def __init__(self, out: Path, key: str) -> None:
        self._lines, self._state = out / KEPT / f"{key}.jsonl", out / KEPT / f"{key}.safetensors"
        self._out = out

    def lines(self) -> list[Line]:
        """The lines that are whole, whose results are there."""
        lines = [convert(json.loads(text), Line, self._lines) for text in _whole_lines(self._lines)]
        there = [line for line in lines if not line.output or (self._out / line.output).exists()]
        return list({line.look.name: line for line in there}.values())

    def resume(self, chains: Sequence[str]) -> tuple[list[Line], State, dict[str, float]]:
        """Lines of the files that need not be done again, the state after them, and each device's last time."""
        done = {line.chain: line for line in self.lines()}
        try:
            with safe_open(self._state, "numpy") as file:
                words = json.loads(file.metadata()["after"])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        except (OSError, SafetensorError):
            return [], {}, {}
        last = convert(words["line"], Line, self._state)
        if last.chain in chains and (not last.output or (self._out / last.output).exists()):
            done[last.chain] = last
        before = chains[: chains.index(last.chain) + 1] if last.chain in chains else ()
        if not before or any(chain not in done for chain in before):
            return [], {}, {}
        state: State = {device: {} for device in words["devices"]}
        for name, array in arrays.items():
            number, _, kept = name.partition("/")
            state[words["devices"][int(number)]][kept] = array
        return [done[chain] for chain in before], state, words["until"]

    def begin(self, lines: Sequence[Line]) -> None:
        """Keep these lines and no others."""
        with replacing(self._lines) as temporary:
            temporary.write_text("".join(_written(line) for line in lines), encoding="utf-8")

    def append(self, line: Line, state: State, until: Mapping[str, float]) -> None:
        """A file is done: the state after it, then its line."""
        words = {"line": asdict(line), "devices": list(state), "until": dict(until)}
        arrays = {
            f"{number}/{name}": np.array(one, order="C")  # safetensors writes memory as it lies
            for number, kept in enumerate(state.values())
            for name, one in kept.items()
        }
        with replacing(self._state) as temporary:
            temporary.write_bytes(save(arrays, {"after": json.dumps(words)}))
        with self._lines.open("a", encoding="utf-8") as handle:
            handle.write(_written(line))


class Looks:
    """Looks at files that were taken in any run, so that a run that is killed while it looks around goes on there."""

    def __init__(self, out: Path, terms: Sequence[object]) -> None:
        """`terms` are what a look depends on besides the file."""
        self._path = out / KEPT / f"looks-{hashlib.sha256(repr(terms).encode()).hexdigest()[:8]}"
        found = _whole_lines(self._path)
        self.known = {look.name: look for text in found if (look := convert(json.loads(text), FileSummary, self._path))}
        with replacing(self._path) as temporary:  # without those that were replaced, or not written to the end
            temporary.write_text("".join(_written(look) for look in self.known.values()), encoding="utf-8")

    def keep(self, looks: Sequence[FileSummary]) -> None:
        """Remember looks at files that could be read."""
        with self._path.open("a", encoding="utf-8") as handle:
            handle.write("".join(_written(look) for look in looks if not look.why))


def _whole_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


def _written(line: Line | FileSummary) -> str:
    return json.dumps(asdict(line)) + "\n"


# What a worker does: one series after the other, file by file, each result whole and noted before the next begins.


ORDER = " order"  # no name in a header begins with a space
ALIKE = 1.5  # times the model's step, or one in so many: another step
OVERLAP = "its rows from {first} on are earlier than those of a file before it, which end at {last}: two files overlap"
STEP = "its step is {found:g} s and the model's {wanted:g} s; average it to that step first"
NO_MODEL = "no model is named for it"


@dataclass(frozen=True)
class Task:
    """Series for one worker, where results go, and what all files have in common."""

    out: str
    labels: LabelColumns
    models: Mapping[str, Model]  # by device
    series: tuple[Series, ...]


def calibrate(described: dict[str, Any]) -> list[str]:
    """Do a task, told as plain values: the keys of its series, of which the journals tell the rest."""
    task = convert(described, Task, "task")
    for series in task.series:
        _Desk(task, series).work()
    return [series.key for series in task.series]


@lru_cache(maxsize=64)
def load_model(path: str, sha256: str) -> Calibrator:
    """The calibrator of this name, if it has this content."""
    if content_hash(Path(path)) != sha256:
        raise DataError(f"{path} is not the model that the run began with; run again")
    return Calibrator.load(path)


class _Desk:
    """One series at work: the streams of its devices, and until when each has been read."""

    def __init__(self, task: Task, series: Series) -> None:
        self._task, self._series = task, series
        self._out, self._journal = Path(task.out), Journal(Path(task.out), series.key)
        self._streams: dict[Model, DeviceStreams] = {}
        self._until: dict[str, float] = {}

    def work(self) -> None:
        """Calibrate what is not done."""
        lines, state, until = self._journal.resume([member.chain for member in self._series.members])
        self._restore(state, until)
        self._journal.begin(lines)
        for member in self._series.members[len(lines) :]:
            begun, before = time.perf_counter(), (self._state(), dict(self._until))
            line, output = Line(member.look, member.chain), self._out / member.source.output
            try:
                line = replace(line, **self._file(member, output))
            except (ScareError, OSError) as error:
                self._restore(*before)
                with suppress(OSError):
                    output.unlink(missing_ok=True)
                line = replace(line, why=str(error))
            line = replace(line, seconds=round(time.perf_counter() - begun, 4))
            self._journal.append(line, self._state(), self._until)

    def _file(self, member: Member, output: Path) -> dict[str, Any]:
        """Calibrate one file: counts by device, reasons by device left out, the name of what was written."""
        pieces = {piece.device: piece for piece in member.look.pieces}
        reasons = {device: reason for device, piece in pieces.items() if (reason := self._refuse(piece))}
        counts = dict.fromkeys(pieces.keys() - reasons.keys(), Counts())
        _check(member)
        if counts:
            with table_writer(output) as write:
                for result in self._results(member, list(counts)):
                    write(result.drop(DEVICE) if member.source.device else result)
                    _count(result, counts)
                _check(member)
        self._until |= {device: pieces[device].last for device in counts}
        return {"counts": counts, "left_out": reasons, "output": member.source.output if counts else ""}

    def _refuse(self, piece: DeviceSpan) -> str:
        """Why the rows of a device cannot be used, or nothing."""
        if piece.device not in self._task.models:
            return NO_MODEL
        last = self._until.get(piece.device, piece.first)
        if piece.first < last:
            return OVERLAP.format(first=_moment(piece.first), last=_moment(last))
        wanted = self._calibrator(piece.device).inputs.step_seconds
        alike = wanted / ALIKE < piece.step < wanted * ALIKE or piece.rows <= STEP_BLOCK
        return "" if alike else STEP.format(found=piece.step, wanted=wanted)

    def _results(self, member: Member, devices: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The rows of these devices, calibrated, in the order of the file."""
        calibrators = [self._calibrator(device) for device in devices]
        channels = {channel.name: channel for one in calibrators for channel in one.inputs.channels}
        column = "" if member.source.device else self._task.labels.device_column
        labels, target = self._task.labels, calibrators[0].target
        mapping = ColumnMapping(labels.time, tuple(channels.values()), target, column, dates=labels.dates)
        with on_disk(member.source.path) as file:
            for chunk in iterate_tables(file, mapping, device=member.source.device, tried=True):
                if len(devices) < len(member.look.devices):
                    chunk = chunk.filter(pl.col(DEVICE).is_in(devices))
                yield self._push(chunk, devices)

    def _push(self, chunk: pl.DataFrame, devices: Sequence[str]) -> pl.DataFrame:
        models = {device: self._task.models[device] for device in devices}
        if len(set(models.values())) == 1:
            return self._stream(models[devices[0]]).push(chunk)
        numbered, parts = chunk.with_row_index(ORDER), []
        for model in dict.fromkeys(models.values()):
            own = [device for device in devices if models[device] == model]
            parts.append(self._stream(model).push(numbered.filter(pl.col(DEVICE).is_in(own))))
        return pl.concat([part for part in parts if part.height], how="diagonal").sort(ORDER).drop(ORDER)

    def _calibrator(self, device: str) -> Calibrator:
        model = self._task.models[device]
        return load_model(model.path, model.sha256)

    def _stream(self, model: Model) -> DeviceStreams:
        if model not in self._streams:
            self._streams[model] = DeviceStreams(load_model(model.path, model.sha256))
        return self._streams[model]

    def _state(self) -> State:
        return {device: kept for streams in self._streams.values() for device, kept in streams.state().items()}

    def _restore(self, state: State, until: Mapping[str, float]) -> None:
        self._streams, self._until = {}, dict(until)
        for model in {self._task.models[device] for device in state}:
            own = {device: kept for device, kept in state.items() if self._task.models[device] == model}
            self._stream(model).restore(own)


def _check(member: Member) -> None:
    """Refuse a file that is no longer as it was looked at."""
    if stamp(member.source.path) != member.look.stamp:
        raise DataError(CHANGED)


def _count(result: pl.DataFrame, counts: dict[str, Counts]) -> None:
    """Add the rows of a result to the counts of their devices."""
    for part in result.select(DEVICE, CALIBRATED, FLAGS).partition_by(DEVICE):
        device, before = part[DEVICE][0], counts[part[DEVICE][0]]
        found = {name: count for name, count in count_flags(part[FLAGS].to_numpy()).items() if count}
        flags = {name: before.flags.get(name, 0) + found.get(name, 0) for name in {**before.flags, **found}}
        counts[device] = Counts(before.rows + part.height, before.calibrated + part[CALIBRATED].count(), flags)


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


# What became of an archive: rows, values and flags by device, what was left out and why, the slowest files.


MANIFEST = "_manifest.csv"  # what begins with an underscore is no data, to all that read hive folders
SLOWEST = 5
COLUMNS = ("input", "sha256", "output", "device", "rows", "calibrated", "why")


@dataclass
class Summary:
    """Counts that grow line by line, in memory that does not grow with the files that went well."""

    files: int = 0
    rows: Counter[str] = field(default_factory=Counter)  # by device
    calibrated: Counter[str] = field(default_factory=Counter)
    flags: dict[str, Counter[str]] = field(default_factory=dict)
    left_out: list[dict[str, str]] = field(default_factory=list)
    slowest: list[tuple[float, str]] = field(default_factory=list)

    def add(self, line: Line) -> None:
        """Count a file that is done."""
        self.files += 1
        for device, counts in line.counts.items():
            self.rows[device] += counts.rows
            self.calibrated[device] += counts.calibrated
            self.flags.setdefault(device, Counter()).update(counts.flags)
        self.left_out += [{"file": line.look.name, "device": one, "why": why} for one, why in line.left_out.items()]
        if line.why:
            self.left_out.append({"file": line.look.name, "device": "", "why": line.why})
        self.slowest = nlargest(SLOWEST, [*self.slowest, (line.seconds, line.look.name)])

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        totals: Counter[str] = sum(self.flags.values(), Counter())
        names = [name for name in Flag.__members__ if totals[name]]
        devices = {
            device: {"rows": rows, "calibrated": self.calibrated[device], "flags": _some(self.flags[device], names)}
            for device, rows in sorted(self.rows.items())
        }
        return {
            "files": self.files,
            "rows": self.rows.total(),
            "calibrated": self.calibrated.total(),
            "flags": _some(totals, names),
            "devices": devices,
            "left_out": self.left_out,
            "slowest": [{"file": name, "seconds": seconds} for seconds, name in self.slowest],
        }


def _some(counts: Counter[str], names: Sequence[str]) -> dict[str, int]:
    return {name: counts[name] for name in names if counts[name]}


def write_manifest(out: Path, lines: Iterable[Line]) -> Path:
    """The table of all files: a line for each device of each, and for what could not be read."""
    rows = [row for line in lines for row in _rows(line)]
    table = pl.DataFrame(
        rows, dict.fromkeys(COLUMNS, pl.String) | {"rows": pl.Int64, "calibrated": pl.Int64}, orient="row"
    )
    with replacing(out / MANIFEST) as temporary:
        table.sort("input", "device").write_csv(temporary)
    return out / MANIFEST


def _rows(line: Line) -> Iterable[tuple[Any, ...]]:
    head = line.look.name, line.look.sha256
    for device, counts in line.counts.items():
        yield *head, line.output, device, counts.rows, counts.calibrated, ""
    for device, why in line.left_out.items():
        yield *head, "", device, None, None, why
    if line.why:
        yield *head, "", "", None, None, line.why


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

    def sources(self) -> list[ArchiveFile]:
        """The files that are there now, without those of the results."""
        out = self.out.absolute()
        return [one for one in find_files(self.places, self.device_column) if out not in Path(one.path).parents]


def run_archive(archive: Archive, executor: Executor, progress: Progress) -> dict[str, Any]:
    """Calibrate what is not done; what became of the whole archive, as plain values."""
    sources = archive.sources()
    with _prepared(archive.out):
        return _run(archive, sources, executor, progress)


def _run(archive: Archive, sources: Sequence[ArchiveFile], executor: Executor, progress: Progress) -> dict[str, Any]:
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
            if not lock_file(handle.fileno()):
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


def _labels(archive: Archive, sources: Sequence[ArchiveFile]) -> LabelColumns:
    """The columns of time and device, as the first file that can be read shows them; `archive` may name them."""
    problems = []
    for source in sources:
        try:
            with on_disk(source.path) as file:
                times, device = find_time_and_device(file, archive.time, archive.dates)
        except DataError as error:
            problems.append(error)
        else:
            return LabelColumns(times, archive.device_column or device, archive.dates)
    raise DataError(f"no file can be read; the first: {problems[0]}")


def _looks(
    sources: Sequence[ArchiveFile], labels: LabelColumns, kept: Looks, executor: Executor
) -> Iterator[FileSummary]:
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
            yield from (FileSummary(name, why=ended.lost) for _, name, _ in ended.arguments[0])
        else:
            found = [convert(look, FileSummary, "look") for look in ended.result]
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
    terms: tuple[LabelColumns, dict[str, Model]],
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
    out: Path, todo: Sequence[Series], workers: int, labels: LabelColumns, models: Mapping[str, Model]
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


def _task(out: Path, part: Sequence[Series], labels: LabelColumns, models: Mapping[str, Model]) -> Task:
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


def _strangers(archive: Archive, sources: Sequence[ArchiveFile], known: Mapping[str, Line]) -> dict[str, Any]:
    """Files that have appeared since the run began, and files whose results are there but which are not."""
    names = {source.name for source in sources}
    appeared = [source.name for source in archive.sources() if source.name not in names]
    return {"appeared": appeared, "gone": [name for name, line in known.items() if name not in names and line.output]}
