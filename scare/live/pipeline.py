"""The pipeline: readings are journaled, calibrated, published, and only then acknowledged, as many at once as wait.

Comes from the sources, which parse; goes to the sinks. One thread works. What had not been acknowledged when a process
died comes again, and is known by device and time.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, nan
from pathlib import Path
from threading import Condition, Event, Lock
from time import monotonic, time
from typing import Any, Protocol

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.data.flags import Flag, flag_names
from scare.errors import DataError, ScareError
from scare.live.config import Limits, Model
from scare.live.fleet import Batch, Fleet, Route
from scare.live.messages import Reading, format_time
from scare.live.reader import Assembly, Done
from scare.live.store import Store
from scare.upkeep.live_drift import NOT_YET, state_label

# What an operator wants to know: how much came, what was refused and why, how long it took.


KEPT_REFUSALS = 100
KEPT_WAITS = 2000
COUNTS = {  # as /metrics calls and explains them
    "received": "Messages and lines that came in.",
    "rejected": "Messages and readings that were refused.",
    "ignored": "Numbers that no channel reads.",
    "duplicates": "Readings that had come before.",
    "calibrated": "Readings that got a value.",
    "without_value": "Readings that got flags only.",
    "published": "Values that were published.",
    "replayed": "Readings taken from the journal at the start.",
    "models_replaced": "Model files loaded anew.",
    "models_refused": "Changed model files that could not be loaded.",
}


@dataclass(frozen=True)
class Refusal:
    """What was not taken: when, from where, why."""

    time: float
    source: str
    reason: str


class Monitor:
    """Counts and times of one process; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
        self._refusals: deque[Refusal] = deque(maxlen=KEPT_REFUSALS)
        self._waits: deque[float] = deque(maxlen=KEPT_WAITS)
        self.started = time()
        self.on_refusal: Callable[[Refusal], object] = lambda refusal: None

    def count(self, name: str, number: int = 1) -> None:
        """Add to a count."""
        with self._lock:
            self._counts[name] += number

    def refuse(self, source: str, reason: str) -> Refusal:
        """Count and keep a refusal."""
        refusal = Refusal(time(), source, reason)
        with self._lock:
            self._counts["rejected"] += 1
            self._refusals.append(refusal)
        self.on_refusal(refusal)
        return refusal

    def waited(self, seconds: Sequence[float]) -> None:
        """Keep how long readings took from their arrival to being published."""
        with self._lock:
            self._waits.extend(seconds)

    def counts(self) -> dict[str, int]:
        """All counts."""
        with self._lock:
            return dict(self._counts)

    def refusals(self) -> list[Refusal]:
        """The newest refusals, newest first."""
        with self._lock:
            return list(reversed(self._refusals))

    def waits(self) -> dict[str, float]:
        """Percentiles of the last waits, in seconds."""
        with self._lock:
            waits = np.array(self._waits)
        if not len(waits):
            return {"p50": 0.0, "p99": 0.0}
        return {"p50": float(np.quantile(waits, 0.5)), "p99": float(np.quantile(waits, 0.99))}


# Model files at work: loaded at the start, and again when a file has changed.


Open = Callable[[str], Calibrator]
Stamp = tuple[int, int] | None  # when a file was changed, and its size
LOG = logging.getLogger(__name__)


class ModelFiles:
    """The calibrators of a config file, and which of their files are new."""

    def __init__(self, models: Mapping[str, Model], open_calibrator: Open, monitor: Monitor) -> None:
        self._models, self._open, self._monitor = models, open_calibrator, monitor
        self._stamps = {name: _stamp(one.file) for name, one in models.items()}
        self.calibrators = {name: open_calibrator(one.file) for name, one in models.items()}

    @property
    def routes(self) -> list[Route]:
        """Which devices each reads."""
        return [Route(pattern, name) for name, one in self._models.items() for pattern in one.devices]

    @property
    def channels(self) -> list[str]:
        """The names of all channels that are read, each once."""
        names = (channel.name for one in self.calibrators.values() for channel in one.inputs.channels)
        return list(dict.fromkeys(names))

    def changed(self) -> dict[str, Calibrator]:
        """Calibrators whose files are new; one that cannot be read is told once, and the old one stays."""
        found: dict[str, Calibrator] = {}
        for name, one in self._models.items():
            stamp = _stamp(one.file)
            if stamp is not None and stamp != self._stamps[name]:
                self._stamps[name] = stamp
                found |= self._load(name, one.file)
        self.calibrators |= found
        return found

    def _load(self, name: str, file: str) -> dict[str, Calibrator]:
        try:
            loaded = {name: self._open(file)}
        except ScareError as error:
            self._monitor.count("models_refused")
            LOG.warning("the changed model '%s' is not used: %s", name, error)
            return {}
        self._monitor.count("models_replaced")
        LOG.warning("the model '%s' was loaded anew from %s", name, file)
        return loaded


def _stamp(file: str) -> Stamp:
    try:
        found = Path(file).stat()
    except OSError:  # a published correction has no file
        return None
    return found.st_mtime_ns, found.st_size


# Results are what readings become, and sinks are where they go.


@dataclass(frozen=True, slots=True)
class Result:
    """What a reading became: the raw number of the calibrated channel, the value with its interval, flags, the model.

    NaN where there is no number. `watch` is whether its device drifts, as of the last day that has ended.
    """

    device: str
    time: float
    raw: float
    calibrated: float
    low: float
    high: float
    flags: int
    model: str
    watch: int = NOT_YET

    @property
    def is_late(self) -> bool:
        """Whether it came too soon after, or before, the one before it: such a one never takes that one's place."""
        return bool(self.flags & Flag.EARLY)

    def as_json(self) -> dict[str, Any]:
        """Plain values; null where there is no number.

        >>> Result("box-1", 1.8e9, 3.5, 2.5, 1.0, 5.5, 8, "pm").as_json()
        {'time': '2027-01-15T08:00:00Z', 'raw': 3.5, 'calibrated': 2.5, 'low': 1.0, 'high': 5.5, 'flags': 8,
         'flag_names': ['SPIKE'], 'model': 'pm', 'watch': None}
        """
        return {
            "time": format_time(self.time),
            "raw": finite(self.raw),
            "calibrated": finite(self.calibrated),
            "low": finite(self.low),
            "high": finite(self.high),
            "flags": self.flags,
            "flag_names": flag_names(self.flags),
            "model": self.model,
            "watch": state_label(self.watch),
        }


class Sink(Protocol):
    """Where results go."""

    def publish(self, results: Sequence[Result]) -> bool:
        """Take results; False if they are not safe because the process ends, and have to be published again."""

    def keep(self, number: int) -> None:
        """Make safe what has been taken since the last time: snapshot `number` will forget the readings."""


def finite(number: float) -> float | None:
    """A number that JSON has, rounded to six digits after the point."""
    return round(number, 6) if isfinite(number) else None


# The waiting room: readings between the sources and the one who works, never more than there is room for.


@dataclass(frozen=True, slots=True)
class Arrival:
    """Readings that came together, and what acknowledges them; a `partial` one is numbers of a row to be assembled."""

    readings: Sequence[Reading]
    done: Done = lambda: None
    partial: bool = False
    at: float = field(default_factory=monotonic)


class BoundedQueue:
    """Arrivals in their order, of `capacity` readings together; one of more than that sits alone.

    >>> room = BoundedQueue(2)
    >>> [room.put(Arrival([Reading("a", 0.0, {})] * size)) for size in (1, 2, 1, 1)]
    [True, False, True, False]
    >>> [len(one.readings) for one in room.take(10, wait=0)], room.put(Arrival([Reading("a", 0.0, {})] * 5))
    ([1, 1], True)
    """

    def __init__(self, capacity: int) -> None:
        self._seats, self.taken = capacity, 0
        self._arrivals: deque[Arrival] = deque()
        self._changed = Condition()

    def put(self, arrival: Arrival, wait: float | None = 0.0) -> bool:
        """Let readings in; False if there is no room within `wait` seconds (None: for ever)."""
        size = len(arrival.readings)
        with self._changed:
            if not self._changed.wait_for(lambda: not self.taken or self.taken + size <= self._seats, wait):
                return False
            self._arrivals.append(arrival)
            self.taken += size
            self._changed.notify_all()
        return True

    def take(self, most: int, wait: float) -> list[Arrival]:
        """Those who came first, of about `most` readings, after at most `wait` seconds for the first."""
        with self._changed:
            self._changed.wait_for(lambda: self._arrivals, wait)
            found: list[Arrival] = []
            left = self.taken - most
            while self._arrivals and self.taken > left:
                found.append(self._arrivals.popleft())
                self.taken -= len(found[-1].readings)
            self._changed.notify_all()
        return found


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
        self._waiting = BoundedQueue(limits.queue)
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
            self.poll()
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

    def poll(self) -> None:
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
