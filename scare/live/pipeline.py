"""The pipeline: readings are journaled, calibrated, published and only then acknowledged, in batches.

    sources → `Delivery` → BoundedQueue → Pipeline: journal (fsync) → Fleet → `Result` → sinks → acknowledgement

Sources (`mqtt`, `kafka`, `http`) parse messages into readings; one worker thread does the rest. Readings that were not
acknowledged when a process died are delivered again; duplicates are recognised by device and time.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, isnan, nan
from pathlib import Path
from threading import Condition, Event, Lock
from time import monotonic, time
from typing import Any, Protocol

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.data.flags import Flag, flag_names
from scare.errors import DataError, ScareError
from scare.live.config import LiveLimits, Model
from scare.live.fleet import Fleet, Route
from scare.live.journal import Store
from scare.live.messages import Reading, format_time
from scare.upkeep.live_drift import NOT_YET, state_label

LOG = logging.getLogger(__name__)
MAX_BATCH = 1024  # readings processed at once
IDLE_SECONDS = 0.1  # time between two polls while nothing arrives
MODEL_POLL_SECONDS = 1.0  # time between two checks of the model files
KEPT_REJECTIONS = 100  # shown on the page
KEPT_WAITS = 2000  # latencies from which percentiles are computed
COUNTS = {  # names and help texts of /metrics
    "received": "Messages and lines received.",
    "rejected": "Messages and readings rejected.",
    "ignored": "Numbers that no channel reads.",
    "duplicates": "Readings that had been received before.",
    "calibrated": "Readings with a calibrated value.",
    "without_value": "Readings with flags only.",
    "published": "Values published.",
    "replayed": "Readings restored from the journal at the start.",
    "models_replaced": "Model files reloaded after a change.",
    "models_refused": "Changed model files that could not be loaded.",
}
Acknowledge = Callable[[], object]
OpenCalibrator = Callable[[str], Calibrator]


@dataclass(frozen=True, slots=True)
class Result:
    """A calibrated reading: raw value of the calibrated channel, calibrated value and interval, flags, model.

    NaN where there is no number. `watch` says whether the device drifts, as of the last day that has ended.
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
        """Whether it is not newer than the device's last result, which it must not replace."""
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


def finite(number: float) -> float | None:
    """Round a number to six decimals for JSON; None for NaN and infinities."""
    return round(number, 6) if isfinite(number) else None


class Sink(Protocol):
    """Where results go: MQTT, Kafka, files, or memory."""

    def publish(self, results: Sequence[Result]) -> bool:
        """Publish results; False if the process stops first, and they must be published again after a restart."""

    def keep(self, number: int) -> None:
        """Make the results since the last call durable: the journal `number`, with their readings, is about to end."""


@dataclass(frozen=True)
class Rejection:
    """A message or reading that was not accepted: when, from where, why."""

    time: float
    source: str
    reason: str


class Monitor:
    """Counts, rejections and latencies of one process; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
        self._rejections: deque[Rejection] = deque(maxlen=KEPT_REJECTIONS)
        self._waits: deque[float] = deque(maxlen=KEPT_WAITS)
        self.started = time()
        self.on_rejection: Callable[[Rejection], object] = lambda rejection: None

    def count(self, name: str, number: int = 1) -> None:
        """Add to a count."""
        with self._lock:
            self._counts[name] += number

    def reject(self, source: str, reason: str) -> None:
        """Count a rejection, keep it and report it to `on_rejection`."""
        rejection = Rejection(time(), source, reason)
        with self._lock:
            self._counts["rejected"] += 1
            self._rejections.append(rejection)
        self.on_rejection(rejection)

    def record_waits(self, seconds: Sequence[float]) -> None:
        """Keep the latencies of deliveries, from arrival to acknowledgement."""
        with self._lock:
            self._waits.extend(seconds)

    def counts(self) -> dict[str, int]:
        """A copy of all counts, by the names of `COUNTS`."""
        with self._lock:
            return dict(self._counts)

    def rejections(self) -> list[Rejection]:
        """The last rejections, newest first."""
        with self._lock:
            return list(reversed(self._rejections))

    def waits(self) -> dict[str, float]:
        """Percentiles of the last latencies, in seconds."""
        with self._lock:
            waits = np.array(self._waits)
        if not len(waits):
            return {"p50": 0.0, "p99": 0.0}
        return {"p50": float(np.quantile(waits, 0.5)), "p99": float(np.quantile(waits, 0.99))}


class ModelFiles:
    """The calibrators of a config file; a file that changes is loaded again."""

    def __init__(self, models: Mapping[str, Model], open_calibrator: OpenCalibrator, monitor: Monitor) -> None:
        self._models, self._open, self._monitor = models, open_calibrator, monitor
        self._versions = {name: _file_version(model.file) for name, model in models.items()}
        self.calibrators = {name: open_calibrator(model.file) for name, model in models.items()}

    @property
    def routes(self) -> list[Route]:
        """The devices that each calibrator reads, as patterns."""
        return [Route(pattern, name) for name, model in self._models.items() for pattern in model.devices]

    @property
    def channels(self) -> list[str]:
        """The names of all channels that any calibrator reads."""
        names = (channel.name for one in self.calibrators.values() for channel in one.inputs.channels)
        return list(dict.fromkeys(names))

    def load_changed(self) -> dict[str, Calibrator]:
        """Load the calibrators whose files have changed; if one cannot be read, the old one stays in use."""
        loaded: dict[str, Calibrator] = {}
        for name, model in self._models.items():
            version = _file_version(model.file)
            if version is None or version == self._versions[name]:
                continue
            self._versions[name] = version
            try:
                loaded[name] = self._open(model.file)
            except ScareError as error:
                self._monitor.count("models_refused")
                LOG.warning("the changed file of model '%s' cannot be used, the old model stays: %s", name, error)
                continue
            self._monitor.count("models_replaced")
            LOG.warning("reloaded the model '%s' from %s", name, model.file)
        self.calibrators |= loaded
        return loaded


def _file_version(file: str) -> tuple[int, int] | None:
    """Modification time and size; None for a published correction, which has no file."""
    try:
        status = Path(file).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


@dataclass(frozen=True, slots=True)
class Delivery:
    """Readings that arrived together, and how to acknowledge them; a `partial` one holds a single number of a row."""

    readings: Sequence[Reading]
    acknowledge: Acknowledge = lambda: None
    partial: bool = False
    arrived: float = field(default_factory=monotonic)


class BoundedQueue:
    """Bounded FIFO holding at most `capacity` readings; a larger delivery is accepted only when the queue is empty.

    >>> queue = BoundedQueue(2)
    >>> [queue.put(Delivery([Reading("a", 0.0, {})] * size)) for size in (1, 2, 1, 1)]
    [True, False, True, False]
    >>> [len(one.readings) for one in queue.take(10, wait=0)], queue.put(Delivery([Reading("a", 0.0, {})] * 5))
    ([1, 1], True)
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
        if self._needs(part.device)[0] <= row.values.keys():
            complete.append(self._finish(part.device))
        return complete

    def finish_due(self, now: float) -> list[Delivery]:
        """Remove and return the rows that have waited for half a step, with NaN for what is missing."""
        return self._finish_due(list(self._rows), now)

    def _finish_due(self, devices: Sequence[str], now: float) -> list[Delivery]:
        """Finish the rows of these devices whose first number is more than half a step from `now`."""
        rows = {device: self._rows[device][0] for device in devices if device in self._rows}
        due = [device for device, row in rows.items() if abs(now - row.time) > self._needs(device)[1] / 2]
        return [self._finish(device) for device in due]

    def _finish(self, device: str) -> Delivery:
        """Remove a device's row and return it with NaN for what is missing; acknowledging it acknowledges all parts."""
        row, acknowledgements = self._rows.pop(device)
        row = replace(row, values=dict.fromkeys(self._needs(device)[0], nan) | dict(row.values))
        return Delivery((row,), lambda: [acknowledge() for acknowledge in acknowledgements])


class Pipeline:
    """Single-threaded worker: journal, calibrate, publish, acknowledge. `submit` is thread-safe."""

    def __init__(
        self, models: ModelFiles, store: Store, sinks: Sequence[Sink], monitor: Monitor, limits: LiveLimits
    ) -> None:
        self._models, self._store, self._sinks, self._monitor, self.limits = models, store, sinks, monitor, limits
        self._fleet = Fleet(models.calibrators, models.routes)
        self._queue = BoundedQueue(limits.queue)
        self._assembler = RowAssembler(self._needs)
        self._seen: dict[tuple[str, float], int] = {}  # device and time → number of the journal that has them
        self._stop = Event()
        self._has_news = False  # readings have arrived since the newest snapshot
        self._is_published = True  # the sinks have published every result
        self._next_snapshot = self._next_model_poll = 0.0

    @property
    def backlog(self) -> int:
        """Readings in the queue."""
        return self._queue.size

    def submit(self, delivery: Delivery, wait: float | None = 0.0) -> bool:
        """Queue a delivery; False if the queue stays full for `wait` seconds (None: wait for ever)."""
        return self._queue.put(delivery, wait)

    def restore(self) -> None:
        """Continue where the last process ended: load the newest snapshot, then replay and publish its journal."""
        state = self._store.state()
        if state is not None:
            self._fleet.restore(state)
        self._seen = {(one.device, one.time): number for number, one in self._store.older()}
        readings = self._filter_new(list(self._store.readings()))
        for start in range(0, len(readings), MAX_BATCH):
            self._calibrate(readings[start : start + MAX_BATCH])
        self._monitor.count("replayed", len(readings))
        self.snapshot()

    def run(self) -> None:
        """Process deliveries until `stop`, and finish those submitted by then."""
        while not (self._stop.is_set() and not self._queue.size):
            self.process(self._queue.take(MAX_BATCH, IDLE_SECONDS))
            self.poll()
        self.finish()

    def finish(self) -> None:
        """Take a snapshot if anything arrived since the last one."""
        if self._has_news:
            self.snapshot()

    def stop(self) -> None:
        """Let `run` return soon."""
        self._stop.set()

    def process(self, deliveries: Sequence[Delivery]) -> None:
        """Journal, calibrate, publish and acknowledge deliveries; partial ones wait until their row is complete."""
        complete = self._assembler.finish_due(time())
        for one in deliveries:
            if not one.partial:
                continue
            if self._admit(one.readings[0].device):
                complete += self._assembler.add(one.readings[0], one.acknowledge)
            else:
                one.acknowledge()
        complete += [one for one in deliveries if not one.partial]
        new = self._filter_new([reading for one in complete for reading in one.readings])
        if new:
            self._has_news = True
            self._store.append(new)
            self._calibrate(new)
        if self._is_published:  # otherwise the sources deliver them again after a restart
            for one in complete:
                one.acknowledge()
            self._monitor.record_waits([monotonic() - one.arrived for one in complete])

    def poll(self) -> None:
        """Load models that have changed, and take a snapshot when one is due."""
        now = monotonic()
        if now >= self._next_model_poll:
            self._next_model_poll = now + MODEL_POLL_SECONDS
            changed = self._models.load_changed()
            if changed:
                self.snapshot()  # a journal must be replayed by the model that wrote its results
            for name, calibrator in changed.items():
                self._fleet.replace(name, calibrator)
        if now >= self._next_snapshot and self._has_news:
            self.snapshot()

    def snapshot(self) -> None:
        """Save all state, unless some results have not been published."""
        self._next_snapshot = monotonic() + self.limits.snapshot_seconds
        if not self._is_published:
            return
        for sink in self._sinks:
            sink.keep(self._store.number)
        self._store.take(self._fleet.state())
        self._seen = {key: number for key, number in self._seen.items() if number >= self._store.oldest}
        self._has_news = False

    def _needs(self, device: str) -> tuple[frozenset[str], float]:
        """The channels that a device's calibrator reads, and its time step in seconds."""
        inputs = self._fleet.calibrator(device).inputs
        return frozenset(channel.name for channel in inputs.channels), inputs.step_seconds

    def _filter_new(self, readings: Sequence[Reading]) -> list[Reading]:
        """The readings of admitted devices that have not been received before; remembers them in `_seen`."""
        new = []
        for one in readings:
            key = (one.device, one.time)
            if key in self._seen:
                self._monitor.count("duplicates")
            elif self._admit(one.device):
                self._seen[key] = self._store.number
                new.append(one)
        return new

    def _admit(self, device: str) -> bool:
        """Add a new device to the fleet; False if no model reads it or there are too many devices."""
        if device in self._fleet:
            return True
        try:
            if len(self._fleet) >= self.limits.devices:
                raise DataError(
                    f"{device}: limits.devices allows {self.limits.devices:,} devices; raise it to add this one"
                )
            self._fleet.admit(device)
        except DataError as error:
            self._monitor.reject("fleet", str(error))
            return False
        return True

    def _calibrate(self, readings: Sequence[Reading]) -> None:
        """Calibrate readings and publish the results; sets `_is_published`."""
        was_published, self._is_published = self._is_published, False  # if a sink raises, nothing is acknowledged
        results = [result for batch in _split_batches(readings) for result in self._push(batch)]
        published = [sink.publish(results) for sink in self._sinks]
        self._is_published = was_published and all(published)
        with_value = sum(not isnan(result.calibrated) for result in results)
        self._monitor.count("calibrated", with_value)
        self._monitor.count("without_value", len(results) - with_value)

    def _push(self, readings: Sequence[Reading]) -> Iterator[Result]:
        """Calibrate a batch with at most one reading of each device."""
        fleet, devices = self._fleet, [one.device for one in readings]
        rows = []  # for each device, the values of its calibrator's channels
        for one in readings:
            channels = fleet.calibrator(one.device).inputs.channels
            rows.append(np.array([one.values.get(channel.name, nan) for channel in channels]))
        calibrated = fleet.push(devices, np.array([one.time for one in readings]), rows)
        columns = (column.tolist() for column in (*calibrated, fleet.watched(devices)))
        outputs = zip(*columns, strict=True)
        for one, row, (value, low, high, flags, watch) in zip(readings, rows, outputs, strict=True):
            model = fleet.model(one.device)
            yield Result(one.device, one.time, row[0].item(), value, low, high, flags, model, watch)


def _split_batches(readings: Sequence[Reading]) -> list[list[Reading]]:
    """Split readings into batches with at most one of each device; the readings of a device stay in order.

    >>> readings = [Reading(name, time, {}) for time, name in enumerate("aab")]
    >>> [[one.time for one in batch] for batch in _split_batches(readings)]
    [[0, 2], [1]]
    """
    batches: list[list[Reading]] = []
    counts: Counter[str] = Counter()
    for one in readings:
        number = counts[one.device]  # a device's nth reading goes to the nth batch
        counts[one.device] += 1
        if number == len(batches):
            batches.append([])
        batches[number].append(one)
    return batches
