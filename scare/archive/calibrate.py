"""Calibrate an archive: find its files, summarise the new ones, group them into series, calibrate what is not done.

    OUT/…/NAME.parquet            the result of each file
    OUT/_manifest.csv             what became of each device of each file
    OUT/.scare/looks-…            a summary of each file, so that an unchanged one is not read again
    OUT/.scare/KEY.jsonl          the journal of a series: a line for each file that is done, in order
    OUT/.scare/KEY.safetensors    the streams' state after the last of them, with that file's line

A file's result is written first, then the state, then the journal line. Whatever a killed run left unfinished is done
again and gives the same bytes, so the same call resumes where it was stopped and does only what has changed since.
"""

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

import polars as pl

from scare.archive.input_files import (
    CHANGED,
    FORMAT,
    ArchiveFile,
    FileSummary,
    Model,
    Models,
    Series,
    SeriesFile,
    content_hash,
    find_files,
    group_into_series,
    local_copy,
    stamp,
    summarise_files,
)
from scare.archive.journal import HIDDEN, Counts, DeviceStates, Journal, JournalLine, SummaryCache
from scare.calibrator.calibrator import Calibrator, DeviceStreams
from scare.calibrator.provenance import describe_table, name_version
from scare.data.alignment import DeviceSpan, iterate_at_step
from scare.data.column_guess import find_time_and_device
from scare.data.column_mapping import ColumnMapping, LabelColumns
from scare.data.flags import Flag, count_flags
from scare.data.readings import CALIBRATED, DEVICE, FLAGS
from scare.data.sites import Sites, Stay
from scare.data.tables import TableOptions, table_writer
from scare.errors import DataError, ScareError, UsageError
from scare.executor import Executor, run_all
from scare.files import lock_file, replacing
from scare.schema import convert

MANIFEST = "_manifest.csv"  # readers of hive folders skip names that begin with an underscore
MANIFEST_COLUMNS = (
    *("input", "sha256", "output", "output_bytes", "output_sha256", "device", "rows", "calibrated", "why", "changes"),
)
ORDER = " order"  # column of row numbers; it begins with a space, as no name in a header does
SUMMARY_FILES = 64  # files that a worker summarises in one job
TASK_BYTES, TASK_SERIES = 1 << 24, 64  # most input bytes and series of a task; a larger series is a task of its own
TASKS_PER_WORKER = 4  # at least, if there is enough to do, so that workers end at about the same time
SLOWEST = 5  # files listed in the totals
LEFTOVER = re.compile(r"\..+\.[0-9a-f]{6}-\d+-[0-9a-f]{8}")  # temporary files of killed runs, of any computer
Progress = Callable[[int, int], None]  # files done, files in all


@dataclass(frozen=True)
class Archive(TableOptions):
    """What to calibrate, with which models, and where the results go."""

    places: tuple[str, ...]
    out: Path
    models: Models
    time: tuple[str, ...] = ()
    device_column: str = ""
    sites: Sites = field(default_factory=Sites)

    def files(self) -> list[ArchiveFile]:
        """List the files that exist now, except those in the folder of results."""
        out = self.out.absolute()
        return [file for file in find_files(self.places, self.device_column) if out not in Path(file.path).parents]


@dataclass(frozen=True)
class Task:
    """Series for one worker, with the folder of the results, the label columns, and the models and stays they need."""

    out: str
    labels: LabelColumns
    models: Mapping[str, Model]  # by device
    series: tuple[Series, ...]
    stays: tuple[Stay, ...] = ()


def run_archive(archive: Archive, executor: Executor, progress: Progress) -> dict[str, Any]:
    """Calibrate the files that are new or have changed, and return a report on the whole archive as plain values."""
    files = archive.files()
    with _prepared_folder(archive.out):
        begun = time.perf_counter()
        # What earlier runs have done.
        journals = [Journal(archive.out, path.stem) for path in (archive.out / HIDDEN).glob("*.jsonl")]
        known = {line.summary.name: line for journal in journals for line in journal.lines()}
        damaged = [name for journal in journals for name in journal.damaged()]
        done = {(name, line.fingerprint) for name, line in known.items()}
        # What there is: every file, its devices and their models, in series.
        labels = _find_label_columns(archive, files)
        cache = SummaryCache(archive.out, (FORMAT, *astuple(labels)))
        summaries = {summary.name: summary for summary in _summarise(files, labels, cache, executor)}
        models = archive.models.by_device(device for summary in summaries.values() for device in summary.devices)
        readable = [(file, summaries[file.name]) for file in files if not summaries[file.name].error]
        series = group_into_series(readable, models, astuple(labels), archive.sites)
        # What is left to do, and what has become of it.
        todo = [
            candidate
            for candidate in series
            if any((member.file.name, member.fingerprint) not in done for member in candidate.files)
        ]
        tasks = _make_tasks(archive, todo, executor.size, labels, models)
        lost = _run_tasks(archive.out, todo, tasks, executor, progress)
        unread = [JournalLine(summary, error=summary.error) for summary in summaries.values() if summary.error]
        written = [line for each_series in series for line in Journal(archive.out, each_series.key).lines()]
        lines = [*written, *lost, *unread]
        facts = {**_total(lines, known), "seconds": round(time.perf_counter() - begun, 2)}
        listed = {file.name for file in files}
        return {
            **facts,
            "manifest": str(write_manifest(archive.out, lines)),
            "appeared": [file.name for file in archive.files() if file.name not in listed],  # while this run worked
            "gone": [name for name, line in known.items() if name not in listed and line.output],
            "damaged": damaged,
        }


@contextmanager
def _prepared_folder(out: Path) -> Iterator[None]:
    """Lock the folder for this run, and remove half-written files of a killed run."""
    with ExitStack() as stack:
        try:
            (out / HIDDEN).mkdir(parents=True, exist_ok=True)
            handle = stack.enter_context((out / HIDDEN / "lock").open("a"))
            if not lock_file(handle.fileno()):
                raise UsageError(f"{out} is in use by another run; wait for it, or give each its own --out")
            for path in [path for path in out.rglob(".*") if LEFTOVER.match(path.name)]:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write to {out}: {error.strerror or error}") from error
        yield


def _find_label_columns(archive: Archive, files: Sequence[ArchiveFile]) -> LabelColumns:
    """Find the time and device columns in the first readable file, unless the archive names them."""
    problems = []
    for file in files:
        try:
            with local_copy(file.path) as path:
                times, device = find_time_and_device(path, archive.time, archive)
        except DataError as error:
            problems.append(error)
        else:
            return LabelColumns(times, archive.device_column or device, **archive.table_options)
    raise DataError(f"no file can be read; the first: {problems[0]}")


def _summarise(
    files: Sequence[ArchiveFile], labels: LabelColumns, cache: "SummaryCache", executor: Executor
) -> Iterator[FileSummary]:
    """Yield a summary of each file; one that has not been written to since its last summary is not read again."""
    changed = []
    for file in files:
        summary = cache.known.get(file.name)
        is_unchanged = False
        with suppress(DataError):  # a file that is gone: a new summary will say so
            is_unchanged = summary is not None and stamp(file.path) == summary.stamp
        if summary and is_unchanged:
            yield summary
        else:
            changed.append(astuple(file))
    # Files and labels go to the workers as plain values, so they come back in `ended.arguments` as tuples.
    batches = [changed[start : start + SUMMARY_FILES] for start in range(0, len(changed), SUMMARY_FILES)]
    for ended in run_all(executor, summarise_files, ((batch, asdict(labels)) for batch in batches)):
        if ended.lost:
            unread = [ArchiveFile(*plain) for plain in ended.arguments[0]]
            yield from (FileSummary(file.name, error=ended.lost) for file in unread)
        else:
            summaries = [convert(summary, FileSummary, "summary") for summary in ended.result]
            cache.add(summaries)
            yield from summaries


def _make_tasks(
    archive: Archive, todo: Sequence[Series], workers: int, labels: LabelColumns, models: Mapping[str, Model]
) -> Iterator[Task]:
    """Divide series into tasks, the largest series first, so that workers end at about the same time."""

    def make_task(batch: Sequence[Series]) -> Task:
        devices = set[str]().union(*(member.summary.devices for series in batch for member in series.files))
        their_models = {device: models[device] for device in devices if device in models}
        their_stays = tuple(stay for stay in archive.sites.stays if stay.device in devices)
        return Task(str(archive.out.absolute()), labels, their_models, tuple(batch), their_stays)

    batch: list[Series] = []
    most_bytes = min(TASK_BYTES, sum(series.size for series in todo) // (TASKS_PER_WORKER * workers))
    for series in sorted(todo, key=lambda series: (-series.size, series.key)):
        is_full = len(batch) == TASK_SERIES or sum(other.size for other in batch) + series.size > most_bytes
        if batch and is_full:
            yield make_task(batch)
            batch = []
        batch.append(series)
    if batch:
        yield make_task(batch)


def _run_tasks(
    out: Path, todo: Sequence[Series], tasks: Iterable[Task], executor: Executor, progress: Progress
) -> list[JournalLine]:
    """Calibrate series; returns lines only for files that were not done because their worker was lost."""
    total = sum(len(series.files) for series in todo)
    done = 0
    lost: list[JournalLine] = []
    by_key = {series.key: series for series in todo}
    for ended in run_all(executor, calibrate, ((asdict(task),) for task in tasks)):
        plain_task = ended.arguments[0]
        for series in [by_key[plain_series["key"]] for plain_series in plain_task["series"]]:
            done += len(series.files)
            if ended.lost:
                written = {line.fingerprint for line in Journal(out, series.key).lines()}
                missing = [member for member in series.files if member.fingerprint not in written]
                lost += [JournalLine(member.summary, error=ended.lost) for member in missing]
        progress(done, total)
    return lost


def _total(lines: Sequence[JournalLine], known: Mapping[str, JournalLine]) -> dict[str, Any]:
    """Add up all lines, and under "now" the lines of this run: of files that are not in `known`, or have changed.

    `known` are the lines of earlier runs, by file name.
    """
    totals, now = Totals(), Totals()
    for line in lines:
        totals.add(line)
        if line.summary.name not in known or known[line.summary.name].fingerprint != line.fingerprint:
            now.add(line)
    return {**totals.as_dict(), "now": {"files": now.files, "rows": now.rows.total()}}


@dataclass
class Totals:
    """Running totals of journal lines; only devices, problems and the slowest files take memory."""

    files: int = 0
    rows: Counter[str] = field(default_factory=Counter)  # by device
    calibrated: Counter[str] = field(default_factory=Counter)
    flags: dict[str, Counter[str]] = field(default_factory=dict)
    left_out: list[dict[str, str]] = field(default_factory=list)
    changed: list[dict[str, str]] = field(default_factory=list)
    slowest: list[tuple[float, str]] = field(default_factory=list)

    def add(self, line: JournalLine) -> None:
        """Add the counts and problems of one file's journal line."""
        self.files += 1
        for device, counts in line.counts.items():
            self.rows[device] += counts.rows
            self.calibrated[device] += counts.calibrated
            self.flags.setdefault(device, Counter()).update(counts.flags)
        name = line.summary.name
        self.left_out += [{"file": name, "device": device, "why": why} for device, why in line.left_out.items()]
        self.changed += [{"file": name, "device": device, "changes": text} for device, text in line.changes.items()]
        if line.error:
            self.left_out.append({"file": name, "device": "", "why": line.error})
        self.slowest = nlargest(SLOWEST, [*self.slowest, (line.seconds, name)])

    def as_dict(self) -> dict[str, Any]:
        """Return the totals as plain values."""

        def flag_counts(counts: Counter[str]) -> dict[str, int]:
            """Return the counts above zero, in the order of the flags' bits."""
            return {name: counts[name] for name in Flag.__members__ if counts[name]}

        devices = {
            device: {"rows": rows, "calibrated": self.calibrated[device], "flags": flag_counts(self.flags[device])}
            for device, rows in sorted(self.rows.items())
        }
        return {
            "files": self.files,
            "rows": self.rows.total(),
            "calibrated": self.calibrated.total(),
            "flags": flag_counts(sum(self.flags.values(), Counter())),
            "devices": devices,
            "left_out": self.left_out,
            "changed": self.changed,
            "slowest": [{"file": name, "seconds": seconds} for seconds, name in self.slowest],
        }


def write_manifest(out: Path, lines: Iterable[JournalLine]) -> Path:
    """Write a row for each device of each file, and for each file that could not be read."""
    rows: list[tuple[Any, ...]] = []
    for line in lines:
        source = line.summary.name, line.summary.sha256
        result = line.output, line.output_bytes, line.output_sha256
        no_result = "", None, ""
        for device, counts in line.counts.items():
            rows.append((*source, *result, device, counts.rows, counts.calibrated, "", line.changes.get(device, "")))
        rows += [(*source, *no_result, device, None, None, why, "") for device, why in line.left_out.items()]
        if line.error:
            rows.append((*source, *no_result, "", None, None, line.error, ""))
    count_columns = dict.fromkeys(("output_bytes", "rows", "calibrated"), pl.Int64)
    schema = dict.fromkeys(MANIFEST_COLUMNS, pl.String) | count_columns
    with replacing(out / MANIFEST) as temporary:
        pl.DataFrame(rows, schema, orient="row").sort("input", "device").write_csv(temporary)
    return out / MANIFEST


def calibrate(plain_task: dict[str, Any]) -> list[str]:
    """Calibrate the series of a task, which arrives as plain values; returns their keys. Runs in a worker."""
    task = convert(plain_task, Task, "task")
    for series in task.series:
        SeriesWorker(task, series).work()
    return [series.key for series in task.series]


@lru_cache(maxsize=64)
def load_model(model: Model) -> Calibrator:
    """Load a calibrator; raises a DataError if the file has changed since the run began."""
    if content_hash(Path(model.path)) != model.sha256:
        raise DataError(f"{model.path} has changed since the run began; run again")
    return Calibrator.load(model.path)


class SeriesWorker:
    """Calibrates one series file by file; keeps the streams of its devices and the last time of each device."""

    def __init__(self, task: Task, series: Series) -> None:
        self._task, self._series = task, series
        self._out = Path(task.out)
        self._journal = Journal(self._out, series.key)
        self._streams: dict[Model, DeviceStreams] = {}
        self._until: dict[str, float] = {}  # last time in seconds, by device

    def work(self) -> None:
        """Calibrate the files that are not done; each result is written and journalled before the next file."""
        lines, state, until = self._journal.resume([member.fingerprint for member in self._series.files])
        self._restore(state, until)
        self._journal.begin(lines)
        for member in self._series.files[len(lines) :]:
            begun = time.perf_counter()
            state_before, until_before = self._state(), dict(self._until)
            line = JournalLine(member.summary, member.fingerprint)
            output = self._out / member.file.output
            try:
                line = replace(line, **self._calibrate_file(member, output))
            except (ScareError, OSError) as error:  # go on with the next file, as if this one did not exist
                self._restore(state_before, until_before)
                with suppress(OSError):
                    output.unlink(missing_ok=True)
                line = replace(line, error=str(error))
            line = replace(line, seconds=round(time.perf_counter() - begun, 4))
            self._journal.append(line, self._state(), self._until)

    def _calibrate_file(self, member: SeriesFile, output: Path) -> dict[str, Any]:
        """Write a file's result; returns the fields of its `JournalLine`. Updates the streams and `_until`."""
        spans = {span.device: span for span in member.summary.spans}
        left_out = {device: reason for device, span in spans.items() if (reason := self._reason_against(span))}
        # In the order of the summary, which decides on the bytes of the result.
        counts = {device: Counts() for device in spans if device not in left_out}
        _check_unchanged(member)  # since its summary, and below: while it was read
        if counts:
            sites = Sites(self._task.stays)
            with table_writer(output, self._metadata(list(counts))) as write:
                for calibrated in self._results(member, list(counts)):
                    result = sites.add_to(calibrated)
                    # Readers of hive folders take the device from the folder's name.
                    write(result.drop(DEVICE) if member.file.device else result)
                    _count(result, counts)
                _check_unchanged(member)
        self._until |= {device: spans[device].last for device in counts}
        if not counts:
            return {"left_out": left_out}
        sentences = {device: spans[device].changes(self._step(device)) for device in counts}
        changes = {device: "; ".join(texts) for device, texts in sentences.items() if texts}
        written = {"output_bytes": output.stat().st_size, "output_sha256": content_hash(output)}
        return {"counts": counts, "left_out": left_out, "changes": changes, "output": member.file.output, **written}

    def _metadata(self, devices: Sequence[str]) -> dict[str, str]:
        """Return the metadata of a result: which version of which calibrator made each device's values."""
        products = {}
        for device in devices:
            model = self._task.models[device]
            version = name_version(Path(model.path).stem, model.sha256)
            products[device] = version, self._calibrator(device)
        return describe_table(products)

    def _reason_against(self, span: DeviceSpan) -> str:
        """Return why the rows of a device cannot be used; empty if they can."""
        if span.device not in self._task.models:
            return "no model is named for it"
        end = self._until.get(span.device, span.first)  # of the previous file
        if span.first < end:
            first_text, end_text = (
                f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}" for seconds in (span.first, end)
            )
            return (
                f"its rows from {first_text} on are earlier than the end of the previous file, {end_text}, so the two"
                " files overlap"
            )
        refusal = span.refusal(self._step(span.device))
        return f"it {refusal}" if refusal else ""

    def _results(self, member: SeriesFile, devices: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield the calibrated rows of these devices, chunk by chunk as the file is read."""
        calibrators = [self._calibrator(device) for device in devices]
        # The columns that any of the devices' models reads, each once.
        channels = {channel.name: channel for calibrator in calibrators for channel in calibrator.inputs.channels}
        labels, target = self._task.labels, calibrators[0].target
        device_column = "" if member.file.device else labels.device_column
        mapping = ColumnMapping(labels.time, tuple(channels.values()), target, device_column, **labels.table_options)
        with local_copy(member.file.path) as path:
            steps = {device: self._step(device) for device in devices}
            for chunk in iterate_at_step(path, mapping, member.summary.spans, steps, member.file.device, self._until):
                yield self._push(chunk, devices)

    def _push(self, chunk: pl.DataFrame, devices: Sequence[str]) -> pl.DataFrame:
        """Calibrate rows of these devices, each with its model; the rows stay in their order."""
        models = {device: self._task.models[device] for device in devices}
        if len(set(models.values())) == 1:
            return self._stream(models[devices[0]]).push(chunk)
        numbered = chunk.with_row_index(ORDER)
        parts = []
        for model in dict.fromkeys(models.values()):
            its_devices = [device for device in devices if models[device] == model]
            parts.append(self._stream(model).push(numbered.filter(pl.col(DEVICE).is_in(its_devices))))
        return pl.concat([part for part in parts if part.height], how="diagonal").sort(ORDER).drop(ORDER)

    def _calibrator(self, device: str) -> Calibrator:
        return load_model(self._task.models[device])

    def _step(self, device: str) -> float:
        return self._calibrator(device).inputs.step_seconds

    def _stream(self, model: Model) -> DeviceStreams:
        if model not in self._streams:
            self._streams[model] = DeviceStreams(load_model(model))
        return self._streams[model]

    def _state(self) -> DeviceStates:
        """Return the state of all streams, for `_restore`."""
        return {device: state for streams in self._streams.values() for device, state in streams.state().items()}

    def _restore(self, states: DeviceStates, until: Mapping[str, float]) -> None:
        """Replace all streams by new ones with these states, and the last times by `until`."""
        self._streams, self._until = {}, dict(until)
        for model in {self._task.models[device] for device in states}:
            its_states = {device: state for device, state in states.items() if self._task.models[device] == model}
            self._stream(model).restore(its_states)


def _check_unchanged(member: SeriesFile) -> None:
    """Raise a DataError if the file has been written to since it was summarised."""
    if stamp(member.file.path) != member.summary.stamp:
        raise DataError(CHANGED)


def _count(result: pl.DataFrame, counts: dict[str, Counts]) -> None:
    for part in result.select(DEVICE, CALIBRATED, FLAGS).partition_by(DEVICE):
        device = part[DEVICE][0]
        before = counts[device]
        flags = Counter(before.flags) + Counter(count_flags(part[FLAGS].to_numpy()))  # drops flags that do not occur
        counts[device] = Counts(before.rows + part.height, before.calibrated + part[CALIBRATED].count(), dict(flags))
