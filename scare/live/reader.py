"""A reader makes readings of one input's messages; numbers that come one by one are assembled to rows."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scare.live.config import Config, Input
from scare.live.messages import (
    Adapter,
    Message,
    Reading,
    RejectedError,
    channel_fields,
    check_device,
    check_time,
    field_value,
    is_there,
    parse_time,
    read_content,
    read_message,
)

Done = Callable[[], object]  # acknowledges


class Reader:
    """What one input's messages hold, by the channels' names."""

    def __init__(self, adapter: Adapter, wanted: Input, channels: Iterable[str]) -> None:
        self.adapter, self._zone = adapter, wanted.zone()
        self._fields = channel_fields(adapter, wanted.channels, channels)

    def read(self, payload: bytes, topic: str, now: float) -> Reading | None:
        """The reading of a message that came `now`; None where it holds another number than those wanted."""
        return self._reading(read_message(self.adapter, payload, topic), now)

    def read_content(self, content: Any, topic: str, now: float) -> Reading | None:
        """The same of an object."""
        return self._reading(read_content(self.adapter, content, topic), now)

    def _reading(self, message: Message, now: float) -> Reading | None:
        values = {name: field_value(one, message.content) for name, one in self._fields.items()}
        if self.adapter.one_number:
            values = {name: value for name, value in values.items() if not math.isnan(value)}
            if not values:
                return None
        elif all(map(math.isnan, values.values())) and not self._is_ours(message):
            raise RejectedError(f"no number for {', '.join(values)}")
        device = check_device(message.device)
        time = now if message.time is None else parse_time(message.time, self._zone)
        return Reading(device, check_time(time, now), values)

    def _is_ours(self, message: Message) -> bool:
        """Whether a message has a place for a channel, if not a number: a box whose sensors have all failed."""
        return any(is_there(message.content, place) for one in self._fields.values() for place in one.places)


def make_readers(config: Config, channels: Sequence[str]) -> list[Reader]:
    """A reader for each input."""
    adapters = config.known_adapters
    return [_reader(adapters[one.adapter], one, channels) for one in config.inputs]


def _reader(adapter: Adapter, wanted: Input, channels: Sequence[str]) -> Reader:
    return Reader(replace(adapter, topic=wanted.topic or adapter.topic), wanted, channels)


def posted(readers: Sequence[Reader], config: Config, channels: Sequence[str]) -> dict[str, Reader]:
    """Readers of what is POSTed, by the name of their adapter; `json` is always one."""
    ours = Reader(config.known_adapters["json"], Input("json"), channels)
    return {"json": ours} | {one.adapter.name: one for one in readers if not one.adapter.one_number}


@dataclass
class _Row:
    reading: Reading
    done: list[Done] = field(default_factory=list)


class Assembly:
    """Numbers of a device that arrive one by one become a row when all channels are there, or half a step is over."""

    def __init__(self, needs: Callable[[str], tuple[frozenset[str], float]]) -> None:
        self._needs = needs  # channels and step of a device
        self._rows: dict[str, _Row] = {}

    def take(self, part: Reading, done: Done) -> list[tuple[Reading, list[Done]]]:
        """Rows that a number completes: its own, or the one before whose time is over."""
        finished = self._due([part.device], part.time)
        row = self._rows.setdefault(part.device, _Row(replace(part, values={})))
        row.reading = replace(row.reading, values={**row.reading.values, **part.values})
        row.done.append(done)
        if self._needs(part.device)[0] <= row.reading.values.keys():
            finished.append(self._finish(part.device))
        return finished

    def due(self, now: float) -> list[tuple[Reading, list[Done]]]:
        """Rows that have waited half a step."""
        return self._due(list(self._rows), now)

    def _due(self, devices: Iterable[str], now: float) -> list[tuple[Reading, list[Done]]]:
        waited = (one for one in devices if one in self._rows and self._has_waited(one, now))
        return [self._finish(device) for device in waited]

    def _has_waited(self, device: str, now: float) -> bool:
        return abs(now - self._rows[device].reading.time) > self._needs(device)[1] / 2

    def _finish(self, device: str) -> tuple[Reading, list[Done]]:
        row = self._rows.pop(device)
        missing = dict.fromkeys(self._needs(device)[0], math.nan)
        return replace(row.reading, values=missing | dict(row.reading.values)), row.done
