"""The worker thread of `scare live`: journals readings, calibrates, publishes and only then acknowledges them.

    sources → `arrivals` → Pipeline: journal (fsync) → order of time → Fleet → `Result` → sinks → acknowledgement

Sources (`mqtt`, `kafka`, `http`) parse messages into readings; one worker thread does the rest. Readings that were not
acknowledged when a process died are delivered again; duplicates are recognised by device and time. A reading that
waits for those it may have overtaken is acknowledged when it is in the journal. After a restart the readings of the
last journals are calibrated and published again, a slice between two batches of new ones; those of a device always
come before its new ones.
"""

import logging
import os
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, isnan, nan
from pathlib import Path
from threading import Event, Lock
from time import monotonic, time
from typing import Any, Protocol

import numpy as np

from scare.calibrator.air_index import UNUSED_LEVEL, IndexReading, find_index
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.provenance import processing_level, product_version
from scare.data.alignment import COARSER, FINER
from scare.data.flags import Flag, flag_names
from scare.data.sites import Sites, read_sites
from scare.errors import DataError, ScareError, UsageError
from scare.live.arrivals import (
    MAX_AHEAD_SECONDS,
    BoundedQueue,
    ClockGuard,
    Delivery,
    ReadingSorter,
    RowAssembler,
    StepAverager,
)
from scare.live.config import LiveLimits, Model
from scare.live.fleet import GAPS, Fleet, Route, choose_route, split_batches
from scare.live.journal import Store
from scare.live.live_index import LiveIndex
from scare.live.messages import Reading, format_time, show_time
from scare.upkeep.drift import DriftState
from scare.words import duration, some_of

LOG = logging.getLogger(__name__)
MAX_BATCH = 1024  # readings processed at once
SLICE = 256  # new readings, and ones of the last process, processed at once until the latter are finished
IDLE_SECONDS = 0.1  # time between two polls while nothing arrives
MODEL_POLL_SECONDS = 1.0  # time between two checks of the model files
KEPT_REJECTIONS = 100  # shown on the page
RETRY_SECONDS = 1.0  # time between two attempts to write to a full disk
KEPT_WAITS = 2000  # latencies from which percentiles are computed
COUNTS = {  # names and help texts of /metrics
    "received": "Messages and lines received.",
    "rejected": "Messages and readings rejected.",
    "ignored": "Numbers that no channel reads.",
    "duplicates": "Readings that had been received before.",
    "calibrated": "Readings with a calibrated value.",
    "without_value": "Readings with flags only.",
    "published": "Values published.",
    "averaged": "Readings averaged because they come more often than their model's step.",
    "wrong_step": "Readings rejected because of the time between them.",
    "replayed": "Readings of the journal calibrated and published again after the start.",
    "damaged": "Damaged lines of the journal, skipped at the start.",
    "models_replaced": "Model files reloaded after a change.",
    "models_refused": "Changed model files that could not be loaded.",
}
_EARLY, _OUTSIDE = int(Flag.EARLY), int(Flag.OUTSIDE)  # plain numbers, which are tested faster than flags
OpenCalibrator = Callable[..., Calibrator]  # of a file, or of a published correction and maybe its step in seconds


@dataclass(frozen=True, slots=True)
class Result:
    """A calibrated reading: raw value of the calibrated channel, calibrated value and interval, flags, model.

    NaN where there is no number. `expected_error` and `watch` (whether the device drifts) are those of `scare watch`
    after the last day that has ended. `site` is where the device stands, empty if that is not stated; `product` and
    `level` are the version of the model and its processing level (`calibrator.provenance`); `index` is the air quality
    index of the newest hour, if one is wanted.
    """

    device: str
    time: float
    raw: float
    calibrated: float
    low: float
    high: float
    flags: int
    model: str
    watch: int = DriftState.UNKNOWN
    site: str = ""
    product: str = ""
    level: str = ""
    index: IndexReading | None = None
    outside_ranges: float = nan  # how far beyond training, in ranges of a channel
    outside_channel: str = ""  # of which channel; empty in a row flagged OUTSIDE: channels do not go together
    expected_error: float = nan

    @property
    def is_late(self) -> bool:
        """Whether this is not newer than the device's last result, and so must not take its place."""
        return bool(self.flags & _EARLY)

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values; null where there is no number.

        >>> Result("box-1", 1.8e9, 3.5, 2.5, 1.0, 5.5, 8, "pm").as_json()
        {'time': '2027-01-15T08:00:00Z', 'raw': 3.5, 'calibrated': 2.5, 'low': 1.0, 'high': 5.5, 'flags': 8,
         'flag_names': ['SPIKE'], 'model': 'pm', 'expected_error': None, 'watch': 'cannot be judged', 'site': None,
         'product': None, 'level': None, 'index': None, 'outside_ranges': None, 'outside_channel': None}
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
            "expected_error": finite(round(self.expected_error, 3)),
            "watch": DriftState(self.watch).label,
            "site": self.site or None,
            "product": self.product or None,
            "level": self.level or None,
            "index": self.index and _index_as_json(self.index),
            "outside_ranges": finite(self.outside_ranges),
            "outside_channel": self.outside_channel or None,
        }


def _index_as_json(index: IndexReading) -> dict[str, Any]:
    """Return the index as plain values; the concentration and its interval are in the unit of its breakpoints."""
    numbers = {"concentration": index.concentration, "low": index.low, "high": index.high}
    probabilities = {name: round(share, 3) for name, share in index.probabilities.items()}
    plain = {name: finite(number) for name, number in numbers.items()}
    return {"value": index.value, "category": index.category, "probabilities": probabilities, **plain}


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
        """Return a copy of all counts, by the names of `COUNTS`."""
        with self._lock:
            return dict(self._counts)

    def rejections(self) -> list[Rejection]:
        """Return the last rejections, newest first."""
        with self._lock:
            return list(reversed(self._rejections))

    def waits(self) -> dict[str, float]:
        """Return the percentiles of the last latencies, in seconds."""
        with self._lock:
            waits = np.array(self._waits)
        if not len(waits):
            return {"p50": 0.0, "p99": 0.0}
        return {"p50": float(np.quantile(waits, 0.5)), "p99": float(np.quantile(waits, 0.99))}


class ModelFiles:
    """The calibrators of a config file, and the sites of its devices; a file that changes is loaded again."""

    def __init__(
        self, models: Mapping[str, Model], open_calibrator: OpenCalibrator, monitor: Monitor, sites: str = ""
    ) -> None:
        self._models, self._open, self._monitor, self._sites_file = models, open_calibrator, monitor, sites
        self._sites_version = _file_version(sites)
        self.sites = read_sites(sites) if sites else Sites()
        self._versions = {name: _file_version(model.file) for name, model in models.items()}
        self.calibrators = {name: self._load(name) for name in models}
        # Product version and processing level, by model.
        self.products = {name: self._describe(name, calibrator) for name, calibrator in self.calibrators.items()}
        self.indices: dict[str, LiveIndex] = {}  # of the models that have an air quality index
        for name, calibrator in self.calibrators.items():
            if index := self._index(name, calibrator):
                self.indices[name] = index

    @property
    def routes(self) -> list[Route]:
        """The devices that each calibrator reads, as patterns."""
        return [Route(pattern, name) for name, model in self._models.items() for pattern in model.devices]

    @property
    def channels(self) -> list[str]:
        """The names of all channels that any calibrator reads."""
        calibrators = self.calibrators.values()
        return list(dict.fromkeys(channel.name for calibrator in calibrators for channel in calibrator.inputs.channels))

    def load_changed(self) -> dict[str, Calibrator]:
        """Load the calibrators whose files have changed; if one cannot be read, the old one stays in use."""
        loaded: dict[str, Calibrator] = {}
        for name, model in self._models.items():
            version = _file_version(model.file)
            if version is None or version == self._versions[name]:
                continue
            self._versions[name] = version
            try:
                calibrator = self._check_channels(self._load(name))
                index = self._index(name, calibrator)
            except ScareError as error:
                self._monitor.count("models_refused")
                LOG.warning("the changed file of model '%s' cannot be used, the old model stays: %s", name, error)
                continue
            loaded[name] = calibrator
            if index:
                index.continue_from(self.indices[name])
                self.indices[name] = index
            self._monitor.count("models_replaced")
            LOG.warning("reloaded the model '%s' from %s", name, model.file)
        self.calibrators |= loaded
        self.products |= {name: self._describe(name, calibrator) for name, calibrator in loaded.items()}
        return loaded

    def check_upload(self, path: Path, uploaded: Path) -> str:
        """Open a calibrator that will be saved as `path`; returns a sentence on what it will be used for.

        It must read the channels of the model whose file it replaces, because inputs deliver no others.
        """
        try:
            calibrator = self._open(str(uploaded))
        except ScareError as error:
            raise DataError(str(error).replace(str(uploaded), path.name)) from error
        reads = [channel.name for channel in calibrator.inputs.channels]
        users = [name for name, model in self._models.items() if model.file == str(path)]
        for name in users:
            used = [channel.name for channel in self.calibrators[name].inputs.channels]
            if set(reads) != set(used):
                raise UsageError(
                    f"it reads {', '.join(reads)}, but the model '{name}' that it would replace reads"
                    f" {', '.join(used)}; give the file another name"
                )
            self._index(name, calibrator)  # raises if the calibrator's target has no such index
        if users:
            return f"{path.name} is now the model {', '.join(users)}."
        return f"Saved as {path.name}. It reads {', '.join(reads)}. No model uses it yet: name it in the settings."

    def _load(self, name: str) -> Calibrator:
        model = self._models[name]
        return self._open(model.file) if model.step_seconds is None else self._open(model.file, model.step_seconds)

    def _describe(self, name: str, calibrator: Calibrator) -> tuple[str, str]:
        return product_version(self._models[name].file), processing_level(calibrator).level

    def _index(self, name: str, calibrator: Calibrator) -> LiveIndex | None:
        """Return the air quality index of a model's results, if the config file wants one."""
        wanted = self._models[name].index
        if not wanted:
            return None
        level = calibrator.intervals.level if calibrator.intervals else UNUSED_LEVEL
        try:
            return LiveIndex(find_index(wanted, calibrator.target), level, calibrator.inputs.step_seconds)
        except UsageError as error:
            raise UsageError(f"models.{name}.index: {error}") from error

    def load_changed_sites(self) -> None:
        """Read the table of sites again if it has changed; if it cannot be read, the old one stays in use."""
        version = _file_version(self._sites_file)
        if version is None or version == self._sites_version:
            return
        self._sites_version = version
        try:
            self.sites = read_sites(self._sites_file)
        except ScareError as error:
            LOG.warning("the changed table of sites cannot be used, the old one stays: %s", error)
            return
        LOG.warning("reloaded the sites from %s", self._sites_file)

    def rejects_finer(self, name: str) -> bool:
        """Whether readings that come more often than a model's step are rejected, not averaged."""
        return self._models[name].finer == "reject"

    def rejects_coarser(self, name: str) -> bool:
        """Whether readings that come less often than a model's step are rejected.

        A published correction is a formula for any step, so it rejects none unless the config file sets a step.
        """
        is_published = self._versions[name] is None  # it has no file
        return not is_published or self._models[name].step_seconds is not None

    def describe_steps(self) -> list[str]:
        """Return, for each model, a sentence on what happens to readings that come more or less often than its step."""
        sentences = []
        for name, calibrator in self.calibrators.items():
            of_finer = "rejected" if self.rejects_finer(name) else "averaged"
            of_coarser = "rejected" if self.rejects_coarser(name) else "calibrated as they are"
            sentences.append(
                f"'{name}' takes a reading every {duration(calibrator.inputs.step_seconds)}; ones that come more often"
                f" are {of_finer}, ones that come less often {of_coarser}."
            )
        return sentences

    def describe_interval(self, device: str, seconds: float) -> str:
        """Return what happens to a device that sends every so many seconds; empty if that is its model's step."""
        name = choose_route(self.routes, device)
        step = self.calibrators[name].inputs.step_seconds if name else seconds
        if name is None or FINER * step <= seconds <= COARSER * step:
            return ""
        is_rejected = self.rejects_finer(name) if seconds < step else self.rejects_coarser(name)
        accepted = f"averaged to {duration(step)}" if seconds < step else "calibrated as they are"
        outcome = "rejected" if is_rejected else accepted
        return f"{device} sends every {duration(round(seconds, 1))}: its readings are {outcome} ('{name}')."

    def _check_channels(self, calibrator: Calibrator) -> Calibrator:
        """Refuse a calibrator with channels that the inputs of this process do not read."""
        known = self.channels
        new = [channel.name for channel in calibrator.inputs.channels if channel.name not in known]
        if new:
            raise UsageError(f"it reads {', '.join(new)}, and no model did at the start; restart scare live to use it")
        return calibrator


def _file_version(file: str) -> tuple[int, int] | None:
    """Return the modification time and size; None without a file, as of a published correction."""
    try:
        status = os.stat(file)  # not of a `Path`: that of an empty name is the current folder
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


class Pipeline:
    """Single-threaded worker: journal, calibrate, publish, acknowledge. `submit` is thread-safe."""

    def __init__(
        self, models: ModelFiles, store: Store, sinks: Sequence[Sink], monitor: Monitor, limits: LiveLimits
    ) -> None:
        self._models, self._store, self._sinks, self._monitor, self.limits = models, store, sinks, monitor, limits
        self._fleet = Fleet(models.calibrators, models.routes)
        self._queue = BoundedQueue(limits.queue)
        self._assembler = RowAssembler(self._needs)
        self._clock = ClockGuard(limits.queue, limits.trust_times)
        self._sorter = ReadingSorter(self._last_time, limits.reorder_steps)
        self._averager = StepAverager(self._fleet, 1.0 + limits.reorder_steps)
        self._wrong_steps: dict[str, float] = {}  # seconds between readings of devices that are rejected for them
        # By device and time: why a reading was rejected, since deliveries were last acknowledged.
        self._refused: dict[tuple[str, float], str] = {}
        self.on_readings: Callable[[Sequence[Reading]], object] = lambda readings: None
        self.widths: Callable[[], Mapping[str, float]] = dict  # by device: factor of the usual width of its intervals
        self.problems: dict[str, str] = {}  # what an operator must know now, by what it is about: disk, clock
        self._seen: dict[int, set[tuple[str, float]]] = {}  # by number of the journal that has them: device and time
        # Readings of the last process's journals that are still to be replayed: by device, the newest first.
        self._restored: OrderedDict[str, list[Reading]] = OrderedDict()
        self.restoring = 0  # how many these are
        self._stop = Event()
        self._has_news = False  # readings have arrived since the newest snapshot
        self._is_published = True  # the sinks have published every result
        self._next_snapshot = self._next_model_poll = 0.0

    @property
    def devices(self) -> dict[str, str]:
        """The model of each device that has reported, to this process or an earlier one."""
        return self._fleet.devices

    @property
    def backlog(self) -> int:
        """How many readings are in the queue."""
        return self._queue.size

    @property
    def lag(self) -> float:
        """How many seconds the oldest delivery has been in the queue."""
        return self._queue.lag

    @property
    def is_full(self) -> bool:
        """Whether the queue is full."""
        return self._queue.is_full

    @property
    def is_holding(self) -> bool:
        """Whether deliveries are kept back because this computer's clock is behind."""
        return bool(self._clock.kept_back)

    def submit(self, delivery: Delivery, wait: float | None = 0.0) -> bool:
        """Queue a delivery; False if the queue stays full for `wait` seconds (None: wait for ever)."""
        return self._queue.put(delivery, wait)

    def restore(self) -> None:
        """Continue where the last process ended: load its state, and calibrate and publish its journal again."""
        self.load()
        while self._restored and self._is_published and not self._stop.is_set():
            self.process([])
        self.snapshot()

    def load(self) -> None:
        """Load the newest snapshot and the readings since, which `process` calibrates and publishes bit by bit."""
        state = self._store.state()
        if state is not None:
            self._fleet.restore(state)
            for name, index in self._models.indices.items():
                index.restore(state.devices.get(name, ()), state.arrays, f"{name}/index.")
        del state  # that of a large fleet takes much memory, which the replay needs
        self._load_journals()
        self._monitor.count("damaged", self._store.damaged)
        self._has_news = True

    def _load_journals(self) -> None:
        """Load the readings to replay, each once, without those of devices not admitted.

        Record all of them, and older ones, in `_seen`. A reading that was still waiting to be sorted when a snapshot
        was taken is in the journals before and after it.
        """
        restored = {(reading.device, reading.time): reading for reading in self._store.readings()}
        for number, device, reading_time in self._store.older():
            self._seen.setdefault(number, set()).add((device, reading_time))
        self._seen[self._store.number] = set(restored)
        for reading in restored.values():
            if reading.device in self._fleet or not self._admit(reading.device):
                self._restored.setdefault(reading.device, []).append(reading)
                self.restoring += 1
        for of_device in self._restored.values():
            of_device.reverse()  # the newest first, so that `pop` takes the oldest

    def _take_restored(self, deliveries: Sequence[Delivery]) -> list[Reading]:
        """Remove and return readings to replay: all of the devices in these deliveries, then, up to `SLICE`, others.

        Those of the deliveries come first, because a delivery may repeat readings that are still to be replayed: it is
        acknowledged only when these have been published. A process that is stopped leaves the rest to the next one.
        """
        taken: list[Reading] = []
        for delivery in deliveries:
            for reading in delivery.readings:
                if reading.device in self._restored:
                    taken += reversed(self._restored.pop(reading.device))
        while self._restored and len(taken) < SLICE and not self._stop.is_set():
            device, of_device = self._restored.popitem(last=False)
            taken.append(of_device.pop())
            if of_device:
                self._restored[device] = of_device  # at the end: batches with one reading of each device are fast
        self.restoring -= len(taken)
        return taken

    def run(self) -> None:
        """Process deliveries until `stop`, and finish those submitted by then.

        Between them the readings that were loaded are replayed.
        """
        while not (self._stop.is_set() and not self._queue.size):
            most, wait = (SLICE, 0.0) if self._restored else (MAX_BATCH, IDLE_SECONDS)
            self.process(self._queue.take(most, wait))
            if not self._restored:
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
        """Journal, calibrate, publish and acknowledge deliveries; partial ones wait until their row is complete.

        After a restart, readings that the last process journalled (`_restored`) are replayed, some with each call. A
        delivery may repeat a reading of the journals. `_seen` has all of these, so none is taken as new; and what is
        still to be replayed of a delivery's devices is replayed before the delivery is acknowledged.
        """
        complete = self._assembler.finish_due(time())  # rows whose other numbers have not come in time
        for delivery in deliveries:
            if not delivery.partial:
                continue
            if self._refusal(delivery.readings[0], time()):
                delivery.acknowledge()
            else:
                complete += self._assembler.add(delivery.readings[0], delivery.acknowledge)
        complete += [delivery for delivery in deliveries if not delivery.partial]
        complete = self._check_clock(complete)
        new = self._filter_new(complete)
        if new:  # journalled before anything else, so that a killed process loses none
            self._has_news = True
            if not self._journal(new):
                return  # the process stops; nothing is acknowledged
            seen = self._seen.setdefault(self._store.number, set())
            seen.update((reading.device, reading.time) for reading in new)
        replayed = self._take_restored(complete)
        ready = self._to_step(self._sort([*replayed, *new]))
        # Release what has waited long enough for earlier readings; not yet if these may still have to be replayed.
        if not self._restored:
            ready += self._to_step(self._sorter.release_due(monotonic())) + self._averager.release_due(monotonic())
        if ready:
            self._calibrate(ready)
        self._monitor.count("replayed", len(replayed))
        self._add_refused(complete)
        if self._is_published:  # by all sinks; otherwise the sources deliver them again after a restart
            for delivery in complete:
                delivery.acknowledge()
            self._monitor.record_waits([monotonic() - delivery.arrived for delivery in complete])

    def flush(self) -> None:
        """Calibrate the readings that still wait for others, because no more will come."""
        self._calibrate(self._to_step(self._sorter.release_due(inf)) + self._averager.release_due(inf))

    def poll(self) -> None:
        """Load models that have changed, and take a snapshot when one is due."""
        now = monotonic()
        if now >= self._next_model_poll:
            self._next_model_poll = now + MODEL_POLL_SECONDS
            self._models.load_changed_sites()
            changed = self._models.load_changed()
            if changed:
                self.snapshot()  # a journal must be replayed by the model that wrote its results
            for name, calibrator in changed.items():
                self._fleet.replace(name, calibrator)
        self._finish_snapshot()
        if now >= self._next_snapshot and self._has_news and not self._store.is_writing:
            self.snapshot(aside=True)

    def snapshot(self, aside: bool = False) -> None:
        """Save all state, unless some results have not been published; if the disk is full, try again later.

        While readings of the last process are replayed, its snapshot and journals stay and no other is taken.
        With `aside` readings go on while it is written, as `Store.take` says.
        """
        self._next_snapshot = monotonic() + self.limits.snapshot_seconds
        if not self._is_published or self._restored:
            return
        try:
            for sink in self._sinks:
                sink.keep(self._store.number)
            state = self._fleet.state()
            arrays = dict(state.arrays)
            for name, index in self._models.indices.items():
                arrays |= index.state(state.devices[name], f"{name}/index.")
            self._store.take(replace(state, arrays=arrays), self._averager.waiting + self._sorter.waiting, aside)
        except (OSError, UsageError) as error:
            self._report_unsaved(error)
            return
        self._seen = {number: seen for number, seen in self._seen.items() if number >= self._store.oldest}
        self._has_news = False
        if not self._store.is_writing:
            self._report("disk", "")

    def _finish_snapshot(self) -> None:
        """See whether a snapshot written aside is complete; if it could not be written, another will be taken."""
        try:
            is_complete = self._store.finish_snapshot()
        except OSError as error:
            self._has_news = True
            self._report_unsaved(error)
            return
        if is_complete:
            self._report("disk", "")

    def _report_unsaved(self, error: Exception) -> None:
        self._report("disk", f"cannot save the state: {error}; readings stay in the journal until it can be saved")

    def _journal(self, readings: list[Reading]) -> bool:
        """Journal readings, however long the disk is full; False if the process stops first.

        Meanwhile the queue fills, so that brokers keep their messages and POSTs are answered with 429.
        """
        while True:
            try:
                self._store.append(readings)
            except OSError as error:
                reason = error.strerror or error
                self._report("disk", f"cannot write the journal: {reason}; no readings are accepted until it can be")
                if self._stop.wait(RETRY_SECONDS):
                    return False
            else:
                self._report("disk", "")
                return True

    def _report(self, about: str, problem: str) -> None:
        """Log a problem when it begins and when it is over, and keep it for `/healthz` and the page.

        `about` is its subject, such as disk; an empty `problem` means that there is none.
        """
        if not problem:
            if self.problems.pop(about, ""):
                LOG.warning("%s: the problem is over", about)
        elif about not in self.problems:
            LOG.error("%s", problem)
            self.problems[about] = problem

    def _check_clock(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Return the deliveries to work on; others are kept back while this computer's clock is behind."""
        passed = self._clock.sort_out(deliveries, time())
        behind = self._clock.seconds_behind if self._clock.kept_back else 0.0
        problem = (
            f"most readings are {_about(behind)} ahead of this computer's clock, so it seems to be behind; they are"
            " not acknowledged until it is set. limits.trust_times = true accepts them as they are"
        )
        self._report("clock", problem if behind else "")
        return passed

    def _sort(self, readings: Sequence[Reading]) -> list[Reading]:
        """Put readings into their device's order of time; some may wait, and others that waited may be due."""
        now = monotonic()
        ready = [due for reading in readings for due in self._sorter.add(reading, now)]
        self._sorter.forget_released()  # `_to_step`, called next, records their times in the fleet
        return ready

    def _to_step(self, readings: Sequence[Reading]) -> list[Reading]:
        """Average readings that come more often than the step of their device's calibrator, leave out rejected ones."""
        now = monotonic()
        ready: list[Reading] = []
        averaged = 0
        for reading in readings:
            self._fleet.record_time(reading.device, reading.time)
            if reason := self._step_refusal(reading):
                self._refused[reading.device, reading.time] = reason
                continue
            due = self._averager.add(reading, now)
            is_passed_on = bool(due) and due[-1] is reading
            if not is_passed_on:  # it goes into a mean
                averaged += 1
            ready += due
        self._monitor.count("averaged", averaged)
        return ready

    def _add_refused(self, deliveries: Sequence[Delivery]) -> None:
        """Count in each delivery, by reason, its readings that were rejected because of their step."""
        if not self._refused:
            return
        for delivery in deliveries:
            for reading in delivery.readings:
                if reason := self._refused.get((reading.device, reading.time)):
                    delivery.refused[reason] = delivery.refused.get(reason, 0) + 1
        self._refused.clear()

    def remarks(self) -> list[str]:
        """Return which devices send more or less often than their model's step, in sentences."""
        averaged = self._averager.devices
        rejected = dict(self._wrong_steps)
        remarks = []
        if averaged:
            remarks.append(
                "Some devices send more often than their model's step, so their readings are averaged:"
                f" {some_of(averaged)}."
            )
        if rejected:
            every = [f"{device} (every {duration(seconds)})" for device, seconds in rejected.items()]
            remarks.append(
                "Some devices send at another step than their model's, so their readings are rejected:"
                f" {some_of(every)}."
            )
        return remarks

    def _last_time(self, device: str) -> tuple[float, float]:
        """Return the time of a device's newest reading, NaN before the first, and its calibrator's step in seconds."""
        return self._fleet.last_time(device), self._fleet.calibrator(device).inputs.step_seconds

    def _needs(self, device: str) -> tuple[frozenset[str], float]:
        """Return the channels that a device's calibrator reads, and its time step in seconds."""
        inputs = self._fleet.calibrator(device).inputs
        return frozenset(channel.name for channel in inputs.channels), inputs.step_seconds

    def _filter_new(self, deliveries: Sequence[Delivery]) -> list[Reading]:
        """Return the readings that have not been received before and are accepted."""
        new: dict[tuple[str, float], Reading] = {}
        now = time()
        for delivery in deliveries:
            for reading in sorted(delivery.readings, key=lambda reading: reading.time):
                key = (reading.device, reading.time)
                if key in new or any(key in seen for seen in self._seen.values()):
                    self._monitor.count("duplicates")
                elif reason := self._refusal(reading, now):
                    delivery.refused[reason] = delivery.refused.get(reason, 0) + 1
                else:
                    new[key] = reading
        return list(new.values())

    def _refusal(self, reading: Reading, now: float) -> str:
        """Return why a reading is not accepted, empty if it is; a new device is added to the fleet."""
        reason = ""
        if self._clock.is_ahead(reading, now):
            reason = f"its time is more than {duration(MAX_AHEAD_SECONDS)} ahead of this computer's clock"
        elif reading.device not in self._fleet:
            reason = self._admit(reading.device)
        if reason:
            self._monitor.reject("fleet", f"{reading.device}, {show_time(reading.time)}: {reason}")
        return reason

    def _step_refusal(self, reading: Reading) -> str:
        """Return why a reading is rejected for the time between its device's last readings; empty if it is not."""
        device = reading.device
        if not self._is_rejected_for_step(device):
            self._wrong_steps.pop(device, None)
            return ""
        gaps = self._fleet.gaps(device)
        step = self._fleet.calibrator(device).inputs.step_seconds
        usual = self._wrong_steps[device] = gaps[len(gaps) // 2]
        reason = f"it sends a reading every {duration(usual)}, but its model expects one every {duration(step)}"
        self._monitor.count("wrong_step")
        self._monitor.reject("fleet", f"{device}, {show_time(reading.time)}: {reason}")
        return reason

    def _is_rejected_for_step(self, device: str) -> bool:
        """Whether a device's readings are rejected because of the time between them.

        They are if all of its last `GAPS` gaps are longer, or most are shorter, than its model's step, and the model
        rejects such readings.
        """
        gaps = self._fleet.gaps(device)  # the shortest first
        if len(gaps) < GAPS:
            return False
        name = self._fleet.model(device)
        step = self._fleet.calibrator(device).inputs.step_seconds
        if gaps[0] > COARSER * step:
            return self._models.rejects_coarser(name)
        return gaps[len(gaps) // 2] < FINER * step and self._models.rejects_finer(name)

    def _admit(self, device: str) -> str:
        """Add a new device to the fleet; return why it is not added, empty if it is."""
        if len(self._fleet) >= self.limits.devices:
            return f"limits.devices allows {self.limits.devices:,} devices; raise it to add more"
        try:
            self._fleet.admit(device)
        except DataError:
            return "no model reads this device; add it, or '*', to the devices of a model"
        return ""

    def _calibrate(self, readings: Sequence[Reading]) -> None:
        """Calibrate readings and publish the results; sets `_is_published`."""
        was_published = self._is_published
        self._is_published = False  # if a sink raises, nothing is acknowledged
        self.on_readings(readings)
        results: list[Result] = []
        for indices in split_batches([reading.device for reading in readings]):
            results += self._push([readings[index] for index in indices])
        published = [sink.publish(results) for sink in self._sinks]  # to all sinks, even if one cannot publish
        self._is_published = was_published and all(published)  # once False it stays so: a restart publishes again
        with_value = sum(not isnan(result.calibrated) for result in results)
        self._monitor.count("calibrated", with_value)
        self._monitor.count("without_value", len(results) - with_value)

    def _push(self, readings: Sequence[Reading]) -> Iterator[Result]:
        """Calibrate a batch with at most one reading of each device."""
        fleet = self._fleet
        devices = [reading.device for reading in readings]
        rows = []  # for each device, the values of its calibrator's channels
        for reading in readings:
            channels = fleet.calibrator(reading.device).inputs.channels
            rows.append(np.array([reading.values.get(channel.name, nan) for channel in channels]))
        calibrated = fleet.push(devices, np.array([reading.time for reading in readings]), rows, self.widths())
        columns = (column.tolist() for column in (*calibrated, *fleet.watched(devices)))
        outputs = zip(*columns, strict=True)
        for reading, row, (value, low, high, flags, expected, watch) in zip(readings, rows, outputs, strict=True):
            model = fleet.model(reading.device)
            site = self._models.sites.at(reading.device, reading.time)
            product, level = self._models.products[model]
            live_index = self._models.indices.get(model)
            index = live_index.add(reading.device, reading.time, value, low, high) if live_index else None
            raw = row[0].item()  # channel 0 is the raw reading of the target
            beyond = (nan if isnan(value) else 0.0), ""  # how far beyond training, and in which channel
            if flags & _OUTSIDE and not isnan(value):
                beyond = fleet.beyond_training(reading.device, row)
            numbers = (raw, value, low, high, flags)
            origin = (model, watch, site, product, level)
            yield Result(reading.device, reading.time, *numbers, *origin, index, *beyond, expected)


def _about(seconds: float) -> str:
    """Spell a measured duration, rounded to hours or minutes.

    >>> _about(86400.0), _about(400.0)
    ('24 hours', '7 minutes')
    """
    return f"{seconds / 3600:.0f} hours" if seconds >= 7200 else f"{seconds / 60:.0f} minutes"
