"""Readings that arrive late, early, out of order or in parts: the queue and the filters in front of `pipeline`.

    sources → `Delivery` → BoundedQueue → RowAssembler (numbers to rows) → ClockGuard → late and repeated ones left
    out (in `pipeline`) → journal → ReadingSorter → StepAverager → fleet

All but `BoundedQueue.put` belongs to the pipeline's thread.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, isnan, nan
from threading import Condition
from time import monotonic
from typing import NamedTuple

import numpy as np

from scare.data.alignment import COMPLETENESS, FINER, expected_values
from scare.data.flags import usable_values
from scare.live.fleet import Fleet
from scare.live.messages import Reading

MAX_AHEAD_SECONDS = 300.0  # how far a device's clock may be ahead of ours
JUDGED = 50  # number of newest readings from which the clock is judged
Acknowledge = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Delivery:
    """Readings that arrived together, and how to acknowledge them; a `partial` one holds a single number of a row.

    The pipeline counts in `refused`, by reason, the readings that it does not accept.
    """

    readings: Sequence[Reading]
    acknowledge: Acknowledge = lambda: None
    partial: bool = False
    arrived: float = field(default_factory=monotonic)
    refused: dict[str, int] = field(default_factory=dict)


class BoundedQueue:
    """Bounded FIFO holding at most `capacity` readings; a larger delivery is accepted only when the queue is empty.

    >>> queue = BoundedQueue(2)
    >>> [queue.put(Delivery([Reading("a", 0.0, {})] * size)) for size in (1, 2, 1, 1)]
    [True, False, True, False]
    >>> [len(delivery.readings) for delivery in queue.take(10, wait=0)]
    [1, 1]
    >>> queue.put(Delivery([Reading("a", 0.0, {})] * 5))
    True
    """

    def __init__(self, capacity: int) -> None:
        self._capacity, self.size = capacity, 0
        self._deliveries: deque[Delivery] = deque()
        self._changed = Condition()

    def put(self, delivery: Delivery, wait: float | None = 0.0) -> bool:
        """Add a delivery; False if it does not fit within `wait` seconds (None: wait for ever)."""
        count = len(delivery.readings)
        with self._changed:
            if not self._changed.wait_for(lambda: not self.size or self.size + count <= self._capacity, wait):
                return False
            self._deliveries.append(delivery)
            self.size += count
            self._changed.notify_all()
        return True

    @property
    def is_full(self) -> bool:
        """Whether not even one more reading fits."""
        return self.size >= self._capacity

    @property
    def lag(self) -> float:
        """How many seconds the oldest delivery has been waiting."""
        with self._changed:
            return monotonic() - self._deliveries[0].arrived if self._deliveries else 0.0

    def take(self, most: int, wait: float) -> list[Delivery]:
        """Remove and return the oldest deliveries, about `most` readings; wait up to `wait` seconds for the first."""
        with self._changed:
            self._changed.wait_for(lambda: self._deliveries, wait)
            taken: list[Delivery] = []
            remaining = self.size - most
            while self._deliveries and self.size > remaining:  # a delivery is never split
                taken.append(self._deliveries.popleft())
                self.size -= len(taken[-1].readings)
            self._changed.notify_all()
        return taken


class RowAssembler:
    """Joins numbers that a device sends one by one into rows.

    A row is complete when all channels have arrived, or half a step after its first number.
    """

    def __init__(self, needs: Callable[[str], tuple[frozenset[str], float]]) -> None:
        self._needs = needs  # channels and step (seconds) of a device
        self._rows: dict[str, tuple[Reading, list[Acknowledge]]] = {}  # incomplete rows, by device

    def add(self, part: Reading, acknowledge: Acknowledge) -> list[Delivery]:
        """Add a number to its device's row; return the rows now complete: this one, or an overdue one before it."""
        complete = self._finish_due([part.device], part.time)
        row, acknowledgements = self._rows.get(part.device, (replace(part, values={}), []))
        row = replace(row, values={**row.values, **part.values})
        self._rows[part.device] = row, [*acknowledgements, acknowledge]
        channels, _ = self._needs(part.device)
        if channels <= row.values.keys():
            complete.append(self._finish(part.device))
        return complete

    def finish_due(self, now: float) -> list[Delivery]:
        """Remove and return the rows that have waited for half a step, with NaN for what is missing."""
        return self._finish_due(list(self._rows), now)

    def _finish_due(self, devices: Sequence[str], now: float) -> list[Delivery]:
        """Finish the rows of these devices whose first number is more than half a step from `now`."""
        finished = []
        for device in devices:
            if device in self._rows:
                row, _ = self._rows[device]
                _, step = self._needs(device)
                if abs(now - row.time) > step / 2:  # in both directions: this computer's clock may be set back
                    finished.append(self._finish(device))
        return finished

    def _finish(self, device: str) -> Delivery:
        """Remove a device's row and return it with NaN for what is missing; acknowledging it acknowledges all parts."""
        row, acknowledgements = self._rows.pop(device)
        channels, _ = self._needs(device)
        row = replace(row, values=dict.fromkeys(channels, nan) | dict(row.values))

        def acknowledge_parts() -> None:
            for acknowledge in acknowledgements:
                acknowledge()

        return Delivery((row,), acknowledge_parts)


class ClockGuard:
    """Holds deliveries whose times are ahead of this computer's clock while most readings are.

    One device whose clock is fast is rejected. If most are ahead, this computer's clock is behind, as that of a board
    without a battery is until it has reached a time server. Deliveries that are ahead are then not acknowledged but
    kept back, at most `capacity` readings or one larger delivery, until the clock is set. Further ones are dropped
    without acknowledgement: a broker keeps them. With `trusts` every time is accepted.
    """

    def __init__(self, capacity: int, trusts: bool = False) -> None:
        self._capacity, self._trusts = capacity, trusts
        self._seconds_ahead: deque[float] = deque(maxlen=JUDGED)  # of the newest readings that state a time
        self.kept_back: list[Delivery] = []

    @property
    def seconds_behind(self) -> float:
        """By how much most of the newest readings are ahead of this clock; 0 if they are not."""
        ahead = sorted(self._seconds_ahead)
        median = ahead[(len(ahead) - 1) // 2] if ahead else 0.0
        return median if median > MAX_AHEAD_SECONDS else 0.0

    def is_ahead(self, reading: Reading, now: float) -> bool:
        """Whether a reading's time is too far in the future, if this computer's clock (`now`, in seconds) is right."""
        return not self._trusts and reading.time > now + MAX_AHEAD_SECONDS

    def sort_out(self, deliveries: Sequence[Delivery], now: float) -> list[Delivery]:
        """Return the deliveries to process now, among them those kept back so far.

        While this computer's clock is behind, those that are ahead of it are kept back; beyond `capacity` readings they
        are dropped.
        """
        for delivery in deliveries:
            self._seconds_ahead.extend(reading.time - now for reading in delivery.readings if reading.states_time)
        candidates = [*self.kept_back, *deliveries]
        self.kept_back = []
        if not self.seconds_behind or self._trusts:
            return candidates
        passed = []
        free = self._capacity  # readings that may still be kept back
        for delivery in candidates:
            if not any(self.is_ahead(reading, now) for reading in delivery.readings):
                passed.append(delivery)
                continue
            free -= len(delivery.readings)
            if free >= 0 or not self.kept_back:  # one that is larger than the capacity is kept back alone
                self.kept_back.append(delivery)
        return passed


class _Waiting(NamedTuple):
    """A reading that waits for others, and when it arrived, in seconds."""

    reading: Reading
    arrived: float


class ReadingSorter:
    """Puts the readings of a device in order of time, if one overtakes others by at most `steps` steps.

    A reading that follows the last one passes at once. One that leaves a gap waits for those that it may have
    overtaken, until the device's readings are `steps` steps beyond it, or until as much time has passed. A device that
    always leaves such gaps is not made to wait.

    >>> sorter = ReadingSorter(lambda device: (0.0, 60.0), 2)
    >>> [[reading.time for reading in sorter.add(Reading("a", time, {}), 0.0)] for time in (180.0, 120.0, 60.0)]
    [[], [], [60.0, 120.0, 180.0]]
    """

    def __init__(self, find_last: Callable[[str], tuple[float, float]], steps: float) -> None:
        self._find_last, self._steps = find_last, steps  # a device's newest time in the fleet, and its step in seconds
        self._waiting: dict[str, list[_Waiting]] = {}  # by device, in order of the readings' times
        self._unfilled: dict[str, float] = {}  # length in seconds of a device's latest gap that no late reading filled
        self._released: dict[str, float] = {}  # newest times that have not reached the fleet yet

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def waiting(self) -> list[Reading]:
        """The readings that wait; the readings of each device are in order of time."""
        return [entry.reading for entries in self._waiting.values() for entry in entries]

    def add(self, reading: Reading, now: float) -> list[Reading]:
        """Add a reading that arrived `now`; return the readings whose turn it is."""
        waiting = self._waiting.setdefault(reading.device, [])
        insort(waiting, _Waiting(reading, now), key=lambda entry: entry.reading.time)
        return list(self._release(reading.device))

    def release_due(self, now: float) -> list[Reading]:
        """Return the readings of devices that have waited for long enough; all of them if `now` is infinite."""
        due: list[Reading] = []
        for device, (first, *_) in list(self._waiting.items()):
            _, step = self._find_last(device)
            if now - first.arrived > self._steps * step:
                due += [entry.reading for entry in self._waiting.pop(device)]
        return due

    def forget_released(self) -> None:
        """Forget the times of returned readings; the fleet has to know them before the next `add`."""
        self._released.clear()

    def _release(self, device: str) -> Iterator[Reading]:
        """Yield a device's readings in order of time, up to one that leaves a gap that may still be filled."""
        last, step = self._find_last(device)
        last = self._released.get(device, last)
        waiting = self._waiting[device]
        while waiting:
            first, newest = waiting[0].reading, waiting[-1].reading
            gap = first.time - last  # NaN for a new device
            if gap > 1.5 * max(step, self._unfilled.get(device, 0.0)):  # longer than usual by half
                if newest.time - first.time < self._steps * step:
                    return
                self._unfilled[device] = gap  # nothing filled it: the next gap as long is not waited for
            elif gap <= 1.5 * step:
                self._unfilled.pop(device, None)
            waiting.pop(0)
            last = self._released[device] = first.time if isnan(last) else max(first.time, last)
            yield first
        del self._waiting[device]


class _Interval(NamedTuple):
    """A step of a device that has begun, and its readings so far."""

    end: float  # seconds since 1970
    begun: float  # when its first reading arrived, in seconds of the monotonic clock
    readings: list[Reading]


class StepAverager:
    """Averages readings that come more often than the step of their device's calibrator, as `data.alignment` does.

    A mean over (t - step, t] has the time t. It is due when a later reading comes, or when the interval began `steps`
    steps ago. Readings of a device that does not send more often than the step pass at once; the last gaps between its
    readings (`Fleet.gaps`) tell.
    """

    def __init__(self, fleet: Fleet, steps: float) -> None:
        self._fleet, self._steps = fleet, steps
        self._open: dict[str, _Interval] = {}  # those that have not ended, by device

    @property
    def waiting(self) -> list[Reading]:
        """The readings whose interval has not ended."""
        return [reading for interval in self._open.values() for reading in interval.readings]

    @property
    def devices(self) -> list[str]:
        """The devices whose readings are averaged."""
        return list(self._open)

    def add(self, reading: Reading, now: float) -> list[Reading]:
        """Add a reading that arrived `now`; return the means that are due, or a reading that is not averaged."""
        device = reading.device
        gaps = self._fleet.gaps(device)  # the shortest first
        step = self._fleet.calibrator(device).inputs.step_seconds
        if not gaps or gaps[len(gaps) // 2] >= FINER * step:  # the median gap
            return [*self._close(device), reading]
        end = ceil(reading.time / step) * step
        interval = self._open.get(device)
        if interval and end < interval.end:
            return [reading]  # too late for its mean; the fleet flags it
        if interval and end == interval.end:
            interval.readings.append(reading)
            return []
        means = self._close(device)
        self._open[device] = _Interval(end, now, [reading])
        return means

    def release_due(self, now: float) -> list[Reading]:
        """Return the means of intervals that began more than `steps` steps before `now`; all if `now` is infinite."""
        due = [
            device
            for device, interval in self._open.items()
            if now - interval.begun > self._steps * self._fleet.calibrator(device).inputs.step_seconds
        ]
        return [mean for device in due for mean in self._close(device)]

    def _close(self, device: str) -> list[Reading]:
        """End the interval of a device, if one has begun, and return its mean."""
        if device not in self._open:
            return []
        interval = self._open.pop(device)
        inputs = self._fleet.calibrator(device).inputs
        gaps = self._fleet.gaps(device)  # the shortest first
        names = [channel.name for channel in inputs.channels]
        rows = np.array([[reading.values.get(name, nan) for name in names] for reading in interval.readings])
        usable, _ = usable_values(rows, inputs.channels)  # [readings, channels]
        # The upper quartile of the gaps, because a device that sends when something changes has short ones, too.
        expected = expected_values(inputs.step_seconds, gaps[3 * len(gaps) // 4]) if gaps else 1
        counts = np.isfinite(usable).sum(axis=0)  # [channels]
        means = np.nansum(usable, axis=0) / np.maximum(counts, 1)
        means = np.where(counts >= COMPLETENESS * max(expected, 1), means, nan)
        values = dict(zip(names, means.tolist(), strict=True))
        return [replace(interval.readings[-1], time=interval.end, values=values)]
