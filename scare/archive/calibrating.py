"""What a worker does: one series after the other, file by file, each result whole and noted before the next begins."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from scare.archive.journal import Counts, Journal, Line, State
from scare.archive.looking import CHANGED, Labels, Piece, content_hash
from scare.archive.places import on_disk, stamp
from scare.archive.series import Member, Model, Series
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.streams import Streams
from scare.data.flags import summary
from scare.data.mapping import ColumnMapping
from scare.data.readings import CALIBRATED, DEVICE, FLAGS
from scare.data.tables import STEP_BLOCK, iterate_tables, writing_table
from scare.errors import DataError, ScareError
from scare.records import convert

ORDER = " order"  # no name in a header begins with a space
ALIKE = 1.5  # times the model's step, or one in so many: another step
OVERLAP = "its rows from {first} on are earlier than those of a file before it, which end at {last}: two files overlap"
STEP = "its step is {found:g} s and the model's {wanted:g} s; average it to that step first"
NO_MODEL = "no model is named for it"


@dataclass(frozen=True)
class Task:
    """Series for one worker, where results go, and what all files have in common."""

    out: str
    labels: Labels
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
        self._streams: dict[Model, Streams] = {}
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
            with writing_table(output) as write:
                for result in self._results(member, list(counts)):
                    write(result.drop(DEVICE) if member.source.device else result)
                    _count(result, counts)
                _check(member)
        self._until |= {device: pieces[device].last for device in counts}
        return {"counts": counts, "left_out": reasons, "output": member.source.output if counts else ""}

    def _refuse(self, piece: Piece) -> str:
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

    def _stream(self, model: Model) -> Streams:
        if model not in self._streams:
            self._streams[model] = Streams(load_model(model.path, model.sha256))
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
        found = {name: count for name, count in summary(part[FLAGS].to_numpy()).items() if count}
        flags = {name: before.flags.get(name, 0) + found.get(name, 0) for name in {**before.flags, **found}}
        counts[device] = Counts(before.rows + part.height, before.calibrated + part[CALIBRATED].count(), flags)


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
