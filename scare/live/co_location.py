"""Boxes that stand beside the reference now: their hourly means in files, and how far the co-location is.

    readings of these devices → hourly means → STATE/co-location/DEVICE.csv ─┐
    the reference's file, which somebody keeps up to date ───────────────────┴─► `scare progress` → page, HTTP, MQTT

The files are tables as any other: `scare progress` and `scare train` take them, too.
"""

import csv
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import quote

from scare.errors import ScareError
from scare.live.config import CoLocationSettings
from scare.live.home_assistant import CO_LOCATION
from scare.live.messages import Reading, format_time

LOG = logging.getLogger(__name__)
HOUR, COMPLETE = 3600.0, 0.75  # s; share of its readings that an hour needs
LOOK_SECONDS = 60.0  # between two looks whether there is something new
Assess = Callable[[Sequence[Path], CoLocationSettings], Mapping[str, Any]]  # what `scare progress --json` prints
Publish = Callable[[str, str], None]


@dataclass
class _Hour:
    """Sums and counts of an hour by channel."""

    number: int
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class CoLocation:
    """Keeps hourly means of the devices beside the reference, and assesses them in a thread when there are new ones."""

    def __init__(
        self,
        settings: CoLocationSettings,
        folder: Path,
        channels: Callable[[str], tuple[Sequence[str], float]],
        assess: Assess,
        publish: Publish | None,
    ) -> None:
        self._settings, self._folder, self._channels = settings, folder, channels
        self._assess, self._publish = assess, publish
        self._files = {device: folder / f"{quote(device, safe=' ')}.csv" for device in settings.devices}
        self._hours: dict[str, _Hour] = {}
        self._written = {device: _last_hour(path) for device, path in self._files.items()}
        self.latest: dict[str, Any] = {"advice": "no hour has passed yet"}
        self._stopping, self._state = Event(), ""
        self._thread = Thread(target=self._work, name="co-location", daemon=True)

    def take(self, readings: Iterable[Reading]) -> None:
        """Add readings, of which those of other devices and of hours that are written do not count."""
        for reading in readings:
            if reading.device not in self._files:
                continue
            number = int(reading.time // HOUR)
            hour = self._hours.setdefault(reading.device, _Hour(number))
            if number > hour.number:
                self._write(reading.device, hour)
                hour = self._hours[reading.device] = _Hour(number)
            if number == hour.number:
                for channel, value in reading.values.items():
                    if isfinite(value):
                        hour.sums[channel] = hour.sums.get(channel, 0.0) + value
                        hour.counts[channel] = hour.counts.get(channel, 0) + 1

    def remarks(self) -> list[str]:
        """Return the sentence for the page."""
        return [f"Beside the reference ({', '.join(self._files)}): {self.latest['advice']}"]

    def start(self) -> None:
        """Start assessing."""
        self._thread.start()

    def close(self) -> None:
        """Stop assessing."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(LOOK_SECONDS)

    def _write(self, device: str, hour: _Hour) -> None:
        """Append an hour that is over to the device's file, if enough of its readings came."""
        channels, step = self._channels(device)
        least = COMPLETE * max(1.0, HOUR / step)
        if hour.number <= self._written[device] or any(hour.counts.get(channel, 0) < least for channel in channels):
            return
        path = self._files[device]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            is_new = not path.exists()
            with path.open("a", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                if is_new:
                    writer.writerow(["time", *channels])
                means = (hour.sums[channel] / hour.counts[channel] for channel in channels)
                writer.writerow([format_time(HOUR * hour.number), *(f"{mean:.6g}" for mean in means)])
        except OSError as error:
            LOG.warning("cannot write %s: %s", path, error.strerror or error)
            return
        self._written[device] = hour.number

    def _work(self) -> None:
        while not self._stopping.is_set():
            self.look()
            self._stopping.wait(LOOK_SECONDS)

    def look(self) -> None:
        """Assess, if an hour was written or the reference's file has changed since the last time."""
        known = [path for path in self._files.values() if path.exists()]
        state = repr([self._written, _changed(Path(self._settings.reference_file))])
        if not known or state == self._state:
            return
        self._state = state
        try:
            self.latest = dict(self._assess(known, self._settings))
        except ScareError as error:
            self.latest = {"advice": str(error)}
        if self._publish is not None:
            self._publish(CO_LOCATION, json.dumps(self.latest, ensure_ascii=False, default=str))


def _last_hour(path: Path) -> int:
    """The number of the last hour in a device's file; -1 without one."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return -1
    return int(datetime.fromisoformat(lines[-1].partition(",")[0]).timestamp() // HOUR) if len(lines) > 1 else -1


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0
