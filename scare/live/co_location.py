"""Boxes that stand beside the reference now: their hourly means in files, how far it is, and intervals that hold.

    readings of these devices → hourly means → STATE/co-location/DEVICE.csv ─┐
    the reference's file, which somebody keeps up to date ───────────────────┼─► `scare progress` → page, HTTP, MQTT
    their results → hourly means → STATE/co-location/intervals/DEVICE.csv ───┴─► how wide their intervals are now

The files of readings are tables as any other: `scare progress` and `scare train` take them, too. How wide an interval
is follows from the files alone, so it is the same after a restart, and whenever a reference comes.
"""

import csv
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import quote
from zlib import crc32

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import next_factor
from scare.calibrator.linear import same_unit
from scare.data.colocation import read_colocation
from scare.data.column_mapping import DataSection
from scare.data.readings import Channel
from scare.errors import ScareError
from scare.live.config import CoLocationSettings
from scare.live.home_assistant import CO_LOCATION
from scare.live.messages import Reading, format_time
from scare.live.pipeline import Result
from scare.upkeep.update import identity

LOG = logging.getLogger(__name__)
HOUR, COMPLETE = 3600.0, 0.75  # s; share of its readings that an hour needs
LOOK_SECONDS = 60.0  # between two looks whether there is something new
ENDS = ("value", "low", "high")  # columns
Assess = Callable[[Sequence[Path], CoLocationSettings], Mapping[str, Any]]  # what `scare progress --json` prints
Publish = Callable[[str, str], None]


@dataclass
class _Hour:
    """An hour that is being averaged: its number since 1970, and sums and counts of its values by column."""

    number: int  # of the hour, since 1970
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class HourlyTable:
    """A CSV file of hourly means, to which each hour that is over is appended if it has enough numbers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = _last_hour(path)  # number of the last hour in the file, -1 without one
        self._hour: _Hour | None = None

    def add(
        self, time: float, numbers: Mapping[str, float], step: float, more: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        """Add the numbers of a moment, which come every `step` seconds; an hour that is over is written.

        `more` returns further columns of its row.
        """
        number = int(time // HOUR)
        if self._hour is None or number > self._hour.number:
            if self._hour is not None:
                self._write(self._hour, list(numbers), COMPLETE * max(1.0, HOUR / step), more())
            self._hour = _Hour(number)
        if number == self._hour.number:
            for column, value in numbers.items():
                if isfinite(value):
                    self._hour.sums[column] = self._hour.sums.get(column, 0.0) + value
                    self._hour.counts[column] = self._hour.counts.get(column, 0) + 1

    def _write(self, hour: _Hour, columns: Sequence[str], least: float, more: Mapping[str, str]) -> None:
        """Append the means of an hour, unless it is in the file already or a column has fewer than `least` numbers."""
        if hour.number <= self.written or any(hour.counts.get(column, 0) < least for column in columns):
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            is_new = not self.path.exists()
            with self.path.open("a", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                if is_new:
                    writer.writerow(["time", *columns, *more])
                means = (hour.sums[column] / hour.counts[column] for column in columns)
                time = format_time(HOUR * hour.number)
                writer.writerow([time, *(f"{mean:.6g}" for mean in means), *more.values()])
        except OSError as error:
            LOG.warning("cannot write %s: %s", self.path, error.strerror or error)
            return
        self.written = hour.number


class CoLocation:
    """Keeps hourly means of the devices beside the reference, and assesses them in a thread when there are new ones.

    `widths` says by device how wide intervals are, as a factor; devices that are missing have 1.
    """

    def __init__(
        self,
        settings: CoLocationSettings,
        folder: Path,
        calibrator: Callable[[str], Calibrator],
        assess: Assess,
        publish: Publish | None,
    ) -> None:
        self._settings, self._calibrator, self._assess, self._publish = settings, calibrator, assess, publish
        names = {device: f"{quote(device, safe=' ')}.csv" for device in settings.devices}
        self._readings = {device: HourlyTable(folder / name) for device, name in names.items()}
        self._intervals = {device: HourlyTable(folder / "intervals" / name) for device, name in names.items()}
        self.widths: dict[str, float] = {}
        self.latest: dict[str, Any] = {"advice": "no hour has passed yet"}
        self._stopping, self._state = Event(), ""
        self._thread = Thread(target=self._work, name="co-location", daemon=True)

    def take(self, readings: Iterable[Reading]) -> None:
        """Add readings; those of other devices, and of hours that are already written, are ignored."""
        for reading in readings:
            if table := self._readings.get(reading.device):
                inputs = self._calibrator(reading.device).inputs
                names = [channel.name for channel in inputs.channels]
                numbers = {name: reading.values.get(name, np.nan) for name in names}
                table.add(reading.time, numbers, inputs.step_seconds)

    def publish(self, results: Sequence[Result]) -> bool:
        """Add results; those of other devices, and of hours that are already written, are ignored.

        Always True: an hour that cannot be written is logged, and nothing waits for it.
        """
        for result in results:
            if result.device in self._intervals and not result.is_late:
                self._add_ends(result, self._calibrator(result.device))
        return True

    def _add_ends(self, result: Result, calibrator: Calibrator) -> None:
        """Add a value and the ends of its interval as in the calibrator's file, before `widths` change them."""
        if calibrator.intervals is None:
            return
        value = np.array([result.calibrated])
        ends = calibrator.intervals.around(value, np.array([result.flags]))
        numbers = dict(zip(ENDS, (float(end[0]) for end in (value, *ends)), strict=True))
        table, step = self._intervals[result.device], calibrator.inputs.step_seconds
        table.add(result.time, numbers, step, lambda: {"model": _model(calibrator)})

    def keep(self, number: int) -> None:
        """Do nothing: after a restart an hour that is not over is added up again from the journal."""

    def remarks(self) -> list[str]:
        """Return what the page says about the boxes beside the reference, in sentences."""
        remarks = [f"Beside the reference ({', '.join(self._readings)}): {self.latest['advice']}"]
        for device, found in self.latest.get("intervals", {}).items():
            covered = f"{100 * found['covered']:.0f} % of {found['hours']:,} hourly references lay in its intervals"
            remarks.append(f"{device}: {covered}, which are now {found['width']:.2f} times as wide as at first.")
        return remarks

    def start(self) -> None:
        """Start assessing."""
        self._thread.start()

    def close(self) -> None:
        """Stop assessing."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(LOOK_SECONDS)

    def _work(self) -> None:
        while not self._stopping.is_set():
            self.look()
            self._stopping.wait(LOOK_SECONDS)

    def look(self) -> None:
        """Assess the devices again if an hour was written or the reference's file has changed since the last time."""
        tables = [table for table in self._readings.values() if table.path.exists()]
        models = [_model(self._calibrator(device)) for device in self._readings]
        hours = [table.written for table in (*self._readings.values(), *self._intervals.values())]
        # What an assessment depends on, as one text to compare with that of the last one.
        state = repr([hours, models, _changed(Path(self._settings.reference_file))])
        if not tables or state == self._state:
            return
        self._state = state
        try:
            intervals = {device: found for device in self._intervals if (found := self._hold_level(device))}
            self.widths = {device: found["width"] for device, found in intervals.items()}
            self.latest = {**self._assess([table.path for table in tables], self._settings), "intervals": intervals}
        except ScareError as error:
            self.latest = {"advice": str(error)}
        if self._publish is not None:
            self._publish(CO_LOCATION, json.dumps(self.latest, ensure_ascii=False, default=str))

    def _hold_level(self, device: str) -> dict[str, Any]:
        """Find how wide a device's intervals must be, by all hours of its calibrator that have a reference.

        Returns the width as a factor, the number of hours and the share of them that was inside; {} without such hours.
        Means over an hour can show that intervals are too narrow. They cannot show that they are too wide, because
        errors of single readings cancel each other within an hour: that takes a reference at every step.
        """
        calibrator, path = self._calibrator(device), self._intervals[device].path
        if calibrator.intervals is None or not path.exists() or not self._readings[device].path.exists():
            return {}
        references = self._references(device, calibrator)
        narrowest = 0.0 if calibrator.inputs.step_seconds >= HOUR else 1.0
        width, inside, model = 1.0, [], _model(calibrator)
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                reference = references.get(_hour(row["time"]))
                if row["model"] != model or reference is None:
                    continue
                value, low, high = (float(row[column]) for column in ENDS)
                inside.append(value - width * (value - low) <= reference <= value + width * (high - value))
                width = max(next_factor(width, inside[-1], calibrator.intervals.level), narrowest)
        return {"width": width, "hours": len(inside), "covered": float(np.mean(inside))} if inside else {}

    def _references(self, device: str, calibrator: Calibrator) -> dict[int, float]:
        """Return the hourly means of the reference, by the number of the hour; {} if its unit is not the target's."""
        column = Channel(self._settings.reference) if self._settings.reference else None
        section = DataSection(time=("time",), reference=column, reference_file=self._settings.reference_file)
        # The device's table gives the hours, to which the reference's file is joined.
        (readings,) = read_colocation([self._readings[device].path], section, lambda text: None)
        if readings.reference is None or not same_unit(readings.reference, calibrator.target):
            return {}
        pairs = zip(readings.times.tolist(), readings.targets.tolist(), strict=True)
        return {int(time // HOUR): target for time, target in pairs if isfinite(target)}


def _model(calibrator: Calibrator) -> str:
    """Return a checksum of a calibrator and its intervals, by which hours written with another one are left out."""
    return f"{crc32(repr(calibrator.intervals).encode(), identity(calibrator)):08x}"


def _hour(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() // HOUR)


def _last_hour(path: Path) -> int:
    """Return the number of the last hour in a device's file; -1 without one.

    A line that a power failure cut off is removed first.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return -1
    size = content.rfind(b"\n") + 1  # of whole lines
    if size < len(content):
        LOG.warning("%s: the last line was cut off and is removed", path)
        os.truncate(path, size)
    if not size:
        path.unlink()  # not even the header is left
        return -1
    lines = content[:size].decode().splitlines()
    return _hour(lines[-1].partition(",")[0]) if len(lines) > 1 else -1


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0
