"""The pipeline: readings are journaled, calibrated, published, and only then acknowledged, as many at once as wait.

Comes from the sources, which parse; goes to the sinks. One thread works. What had not been acknowledged when a process
died comes again, and is known by device and time.
"""

from collections.abc import Iterator, Sequence
from math import nan
from threading import Event
from time import monotonic, time

import numpy as np

from scare.errors import DataError
from scare.live.border import Reading
from scare.live.config import Limits
from scare.live.fleet import Batch, Fleet
from scare.live.models import ModelFiles
from scare.live.monitor import Monitor
from scare.live.reader import Assembly, Done
from scare.live.results import Result, Sink
from scare.live.snapshot import Store
from scare.live.waiting import Arrival, WaitingRoom

LARGEST_BATCH = 1024  # readings worked on at once
IDLE_SECONDS = 0.1  # between looks at what is due
LOOK_SECONDS = 1.0  # between looks at the model files


class Pipeline:
    """The one who works: `submit` from any thread, `run` in one."""

    def __init__(
        self, models: ModelFiles, store: Store, sinks: Sequence[Sink], monitor: Monitor, limits: Limits
    ) -> None:
        self._models, self._store, self._sinks, self._monitor, self.limits = models, store, sinks, monitor, limits
        self._fleet = Fleet(models.calibrators, models.routes)
        self._waiting = WaitingRoom(limits.queue)
        self._assembly = Assembly(self._needs)
        self._routes: dict[str, str] = {}  # the model of each device
        self._seen: dict[tuple[str, float], int] = {}  # device and time, and the journal they are in
        self._stop = Event()
        self._is_new = False  # whether anything came since the newest snapshot
        self._safe = True  # whether all that was calibrated has been published
        self._next_snapshot = self._next_look = 0.0

    @property
    def backlog(self) -> int:
        """Readings that wait."""
        return self._waiting.taken

    def submit(self, arrival: Arrival, wait: float | None = 0.0) -> bool:
        """Hand readings over; False if there is no room within `wait` seconds (None: for ever)."""
        return self._waiting.put(arrival, wait)

    def restore(self) -> None:
        """Go on where the last process ended: from the newest snapshot, then the journal, which is published again."""
        state = self._store.state()
        if state is not None:
            self._fleet.restore(state)
            known = (device for devices in state.devices.values() for device in devices)
            self._routes = {device: self._fleet.route(device) for device in known}
        self._seen = {(one.device, one.time): number for number, one in self._store.older()}
        left = self._accept(list(self._store.readings()))
        for start in range(0, len(left), LARGEST_BATCH):
            self._calibrate(left[start : start + LARGEST_BATCH])
        self._monitor.count("replayed", len(left))
        self.snapshot()

    def run(self) -> None:
        """Work until `stop`; what has been handed over by then is finished."""
        while not (self._stop.is_set() and not self._waiting.taken):
            self.process(self._waiting.take(LARGEST_BATCH, IDLE_SECONDS))
            self.look_around()
        self.finish()

    def finish(self) -> None:
        """Keep what came since the newest snapshot."""
        if self._is_new:
            self.snapshot()

    def stop(self) -> None:
        """End `run` soon."""
        self._stop.set()

    def process(self, arrivals: Sequence[Arrival]) -> None:
        """Journal, calibrate, publish, acknowledge."""
        whole = [*self._assembled(arrivals), *(one for one in arrivals if not one.partial)]
        fresh = self._accept([reading for one in whole for reading in one.readings])
        if fresh:
            self._is_new = True
            self._store.append(fresh)
            self._calibrate(fresh)
        if self._safe:
            for one in whole:
                one.done()
            self._monitor.waited([monotonic() - one.at for one in whole])

    def _assembled(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """Rows that numbers have completed, or that have waited long enough."""
        rows = self._assembly.due(time())
        for one in arrivals:
            if one.partial and self._is_welcome(one.readings[0].device):
                rows += self._assembly.take(one.readings[0], one.done)
            elif one.partial:
                one.done()
        return [Arrival((reading,), _each(done)) for reading, done in rows]

    def _needs(self, device: str) -> tuple[frozenset[str], float]:
        inputs = self._fleet.calibrators[self._routes[device]].inputs
        return frozenset(channel.name for channel in inputs.channels), inputs.step_seconds

    def _accept(self, readings: Sequence[Reading]) -> list[Reading]:
        """Readings that have not come before, of devices that are welcome."""
        fresh = []
        for one in readings:
            key = (one.device, one.time)
            if key in self._seen:
                self._monitor.count("duplicates")
            elif self._is_welcome(one.device):
                self._seen[key] = self._store.number
                fresh.append(one)
        return fresh

    def _is_welcome(self, device: str) -> bool:
        """Whether there is a model for a device, and room."""
        if device in self._routes:
            return True
        try:
            if len(self._routes) >= self.limits.devices:
                raise DataError(f"{device} is one device more than limits.devices, {self.limits.devices:,}")
            self._routes[device] = self._fleet.route(device)
        except DataError as error:
            self._monitor.refuse("fleet", str(error))
            return False
        return True

    def _calibrate(self, readings: Sequence[Reading]) -> None:
        was_safe, self._safe = self._safe, False  # until the sinks have said so
        results = [result for some in _rounds(readings) for result in self._push(some)]
        safe = [sink.publish(results) for sink in self._sinks]
        self._safe = was_safe and all(safe)
        with_value = sum(result.calibrated == result.calibrated for result in results)
        self._monitor.count("calibrated", with_value)
        self._monitor.count("without_value", len(results) - with_value)

    def _push(self, readings: Sequence[Reading]) -> Iterator[Result]:
        """Results of a reading each of some devices."""
        times = np.array([one.time for one in readings])
        batch = Batch([one.device for one in readings], times, [self._row(one) for one in readings])
        pushed = self._fleet.push(batch)
        watched = self._fleet.watched(batch.devices)
        columns = (pushed.raw, pushed.values, pushed.low, pushed.high, pushed.flags, watched)
        numbers = zip(*(column.tolist() for column in columns), strict=True)
        for one, (raw, value, low, high, flags, drift) in zip(readings, numbers, strict=True):
            yield Result(one.device, one.time, raw, value, low, high, flags, self._routes[one.device], drift)

    def _row(self, reading: Reading) -> np.ndarray:
        channels = self._fleet.calibrators[self._routes[reading.device]].inputs.channels
        return np.array([reading.values.get(channel.name, nan) for channel in channels])

    def look_around(self) -> None:
        """Take a snapshot when one is due, and models that have changed."""
        now = monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            changed = self._models.changed()
            if changed:
                self.snapshot()  # the journal is of one model
            for name, calibrator in changed.items():
                self._fleet.replace(name, calibrator)
        if now >= self._next_snapshot and self._is_new:
            self.snapshot()

    def snapshot(self) -> None:
        """Keep all state, unless something has not been published."""
        self._next_snapshot = monotonic() + self.limits.snapshot_seconds
        if not self._safe:
            return
        for sink in self._sinks:
            sink.keep(self._store.number)
        self._store.take(self._fleet.state())
        self._seen = {key: number for key, number in self._seen.items() if number >= self._store.oldest}
        self._is_new = False


def _rounds(readings: Sequence[Reading]) -> list[list[Reading]]:
    """Readings in lists with no device twice, each device's in their order.

    >>> [[one.time for one in some] for some in _rounds([Reading(name, time, {}) for time, name in enumerate("aab")])]
    [[0, 2], [1]]
    """
    rounds: list[list[Reading]] = []
    count: dict[str, int] = {}
    for one in readings:
        number = count[one.device] = count.get(one.device, -1) + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(one)
    return rounds


def _each(done: Sequence[Done]) -> Done:
    """All of several acknowledgements."""
    return lambda: [one() for one in done]
