"""`scare stream`: lines of readings in, the same lines with calibrated values out.

    lines → Json or Influx (a `Reading` each) → Fleet → the lines again, with value, interval and flags

Every line that comes in goes out, in its order: one that is no reading, or cannot be used, as it is. So whoever sends a
line again until it comes back loses nothing, and nothing behind a filter is lost because of it.
"""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.live.fleet import Fleet, Route, split_batches
from scare.live.journal import read_snapshot, write_snapshot
from scare.live.line_protocol import Line, parse_line
from scare.live.messages import Adapter, Reader, Reading, RejectedError, escape_key, parse_json

MODEL = "model"  # the fleet's name of the only calibrator
MAX_DEVICES = 100_000  # whose histories are kept; lines of further ones go out as they came
Rejections = list[tuple[int, str]]  # number of a line within its batch, and why it is no reading


class Form(Protocol):
    """How lines are written: `read` parses a line, `write` returns the parsed line with a result added."""

    def read(self, text: str) -> tuple[Any, dict[str, Any]]:
        """Return the parsed line, for `write`, and its values by key; the time, if any, is under `time_key`."""

    def write(self, parsed: Any, result: Mapping[str, float | int | None]) -> str:
        """Return a parsed line as text with the numbers of a result; None stands for a number that is missing."""


class Json:
    """A JSON object on each line."""

    def read(self, text: str) -> tuple[Any, dict[str, Any]]:
        """Parse a line, which must be a JSON object; it is returned twice, as the parsed line and as its values."""
        content = parse_json(text.encode("utf-8", "surrogateescape"))
        if not isinstance(content, dict):
            raise RejectedError("not a JSON object")
        return content, content

    def write(self, parsed: Any, result: Mapping[str, float | int | None]) -> str:
        """Add the result's keys, null where there is no number."""
        return json.dumps({**parsed, **result}, ensure_ascii=False)


class Influx:
    """Influx's line protocol: tags and fields are keys; the timestamp is the key `time`."""

    def __init__(self, time_key: str) -> None:
        self._time_key = time_key

    def read(self, text: str) -> tuple[Any, dict[str, Any]]:
        """Parse a line; its values are tags, numeric fields and the timestamp."""
        line = parse_line(text)
        time = {} if line.time is None else {self._time_key: line.time}
        return line, {**line.tags, **line.numbers, **time}

    def write(self, parsed: Line, result: Mapping[str, float | int | None]) -> str:
        """Add the result's numbers as fields; a field without a number is left out."""
        return parsed.with_fields({key: number for key, number in result.items() if number is not None})


class LineStream:
    """Calibrates the lines of many devices, each with its own history.

    `fields` maps a channel to its key in a line; a channel without an entry has its own name as key. A line names its
    device under `device_key`, unless `device` is given: then all lines are of that device. Keys of the result begin
    with `prefix`.
    """

    def __init__(
        self,
        calibrator: Calibrator,
        form: Form,
        fields: Mapping[str, str],
        device_key: str = "device",
        device: str = "",
        time_key: str = "time",
        prefix: str = "",
    ) -> None:
        self._names = [channel.name for channel in calibrator.inputs.channels]
        self._fleet = Fleet({MODEL: calibrator}, [Route("*", MODEL)])
        adapter = Adapter("lines", device=f"/{escape_key(device_key)}", time=f"/{escape_key(time_key)}")
        self._reader = Reader(adapter, self._names, fields)
        self._form, self._device_key, self._device, self._prefix = form, device_key, device, prefix
        self.counts = {"lines": 0, "calibrated": 0, "without_value": 0, "not_readings": 0}

    def process(self, lines: Sequence[str], now: float) -> tuple[list[str], Rejections]:
        """Return an output line for each line, and the reason for each line that is not a reading.

        `now` is when the lines arrived, in seconds since 1970; a line without a time gets it.
        """
        out, rejections = list(lines), Rejections()  # a line that is not a reading goes out as it came
        parsed: dict[int, Any] = {}
        readings: dict[int, Reading] = {}
        for number, line in enumerate(lines):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                parsed[number], reading = self._read(line, now)
            except RejectedError as rejected:
                rejections.append((number, str(rejected)))
            else:
                readings[number] = reading
        line_numbers = list(readings)
        for indices in split_batches([readings[number].device for number in line_numbers]):
            batch = [line_numbers[index] for index in indices]
            results = self._calibrate([readings[number] for number in batch])
            for number, result in zip(batch, results, strict=True):
                out[number] = self._form.write(parsed[number], result)
        self.counts["lines"] += len(lines)
        self.counts["not_readings"] += len(rejections)
        return out, rejections

    def _read(self, line: str, now: float) -> tuple[Any, Reading]:
        """Return the parsed line, which its form needs to write it again, and its reading."""
        parsed, content = self._form.read(line)
        if self._device:
            content = {**content, self._device_key: self._device}
        elif self._device_key not in content:
            raise RejectedError(
                f"no '{self._device_key}' in the line; name the device's key by --device-key, or the device by --device"
            )
        reading = self._reader.read_content(content, "", now)
        assert reading is not None  # None is for a message with a single number that no channel reads
        if reading.device not in self._fleet and len(self._fleet) >= MAX_DEVICES:
            raise RejectedError(f"{reading.device}: there are {MAX_DEVICES:,} devices already")
        return parsed, reading

    def _calibrate(self, readings: Sequence[Reading]) -> list[dict[str, float | int | None]]:
        """Calibrate at most one reading of each device, and return the result of each by key."""
        rows = np.array([[reading.values[name] for name in self._names] for reading in readings])
        times = np.array([reading.time for reading in readings])
        calibrated = self._fleet.push([reading.device for reading in readings], times, rows)
        with_value = int(np.isfinite(calibrated.values).sum())
        self.counts["calibrated"] += with_value
        self.counts["without_value"] += len(readings) - with_value
        results = zip(*(column.tolist() for column in calibrated), strict=True)
        return [self._by_key(value, low, high, flags) for value, low, high, flags in results]

    def _by_key(self, value: float, low: float, high: float, flags: int) -> dict[str, float | int | None]:
        numbers = {"calibrated": value, "low": low, "high": high}
        rounded = {key: round(number, 6) if isfinite(number) else None for key, number in numbers.items()}
        return {f"{self._prefix}{key}": number for key, number in {**rounded, "flags": flags}.items()}

    def save(self, path: Path) -> None:
        """Write everything that is remembered of the devices into a file, complete or not at all."""
        write_snapshot(path, self._fleet.state(), 0)  # 0: there is no journal

    def restore(self, path: Path) -> int:
        """Go on from a file that `save` wrote, and return how many devices it has."""
        self._fleet.restore(read_snapshot(path)[0])
        return len(self._fleet)
