"""Alerts of a fleet: devices that fall silent, or drift; sent to a webhook and to MQTT, and once again when it is over.

    results → Alerts (when each device was heard, its drift state) → Alert → webhook, MQTT

An alert has hysteresis. A device is silent after `silent_steps` steps without a reading, and heard again after
`READINGS_TO_RECOVER` readings without such a pause; it drifts from `re-collocate` until `fine`. While the gateway
itself has a problem (broker, disk, clock, lag) nobody is silent: the time does not count. What has begun is kept in a
file, so that a restart sends nothing again.
"""

import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from http.client import HTTPException
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, time
from typing import Any
from urllib.request import Request, urlopen

from scare.errors import UsageError
from scare.files import replacing
from scare.live.config import AlertSettings
from scare.live.messages import format_time, topic_level
from scare.live.pipeline import Result
from scare.upkeep.drift import DriftState
from scare.words import duration, plural

LOG = logging.getLogger(__name__)
SILENT, DRIFT = "silent", "drift"
BEGUN, OVER = "begun", "over"
READINGS_TO_RECOVER = 3  # after them a silent device counts as heard again
SHORTEST_SILENCE = 180.0  # seconds
USUAL_STEP = 60.0  # seconds, for a device whose model is no longer in the config file
CHECK_SECONDS = 5.0  # between two checks of who is silent
MOST_AT_ONCE = 20  # alerts of one check that are sent one by one; more are summarised
MOST_WAITING = 1000  # alerts kept for a webhook that does not answer; older ones are dropped
TIMEOUT_SECONDS, LONGEST_WAIT = 10.0, 300.0  # of a request to the webhook, and between two attempts
Publish = Callable[[str, str], object]  # takes a topic below the prefix, and a payload


@dataclass(frozen=True)
class Alert:
    """A device is silent or drifts (`about`), and that has begun or is over (`state`) at `time` (seconds since 1970).

    `device` and `model` are empty if the alert is about several devices.
    """

    about: str
    state: str
    device: str
    model: str
    time: float
    sentence: str

    def as_json(self) -> dict[str, Any]:
        """Return the alert as JSON values, with the time in ISO 8601."""
        return asdict(self) | {"time": format_time(self.time)}


@dataclass(slots=True)
class _Device:
    """What is known of a device that reports: its model, when it was heard, and its drift state."""

    model: str
    heard: float  # on the monotonic clock
    drift: int = DriftState.UNKNOWN
    since_silent: int = 0  # readings since it was silent


class Alerts:
    """A sink that watches when devices report; a thread of its own looks for silence and sends. Thread-safe."""

    def __init__(
        self,
        settings: AlertSettings,
        steps: Mapping[str, float],
        problems: Callable[[], Mapping[str, str]],
        file: Path,
        publish: Publish | None = None,
    ) -> None:
        self._settings, self._steps, self._problems, self._file = settings, steps, problems, file
        self._publish = publish if settings.publish else None
        self._webhook = settings.address()
        self._devices: dict[str, _Device] = {}
        self._active: dict[str, dict[str, float]] = _read(file)  # by device: what has begun, and when
        self._lock, self._stopping = Lock(), Event()
        self._waiting: deque[Alert] = deque(maxlen=MOST_WAITING)
        self._wait, self._next_post = 0.0, 0.0  # seconds until the webhook is tried again, and that time (monotonic)
        self._thread = Thread(target=self._work, name="alerts", daemon=True)

    def publish(self, results: Sequence[Result]) -> bool:
        """Record when these devices were heard, and their drift states; always True, as nothing is sent here."""
        now = monotonic()
        with self._lock:
            for result in results:
                device = self._devices.setdefault(result.device, _Device(result.model, now))
                device.model, device.heard, device.drift = result.model, now, result.watch
                device.since_silent += 1
        return True

    def keep(self, number: int) -> None:
        """Do nothing: alerts are written to their file when they begin."""

    def expect(self, devices: Mapping[str, str]) -> None:
        """Expect devices (model by device) that reported to an earlier process: their silence counts from now on."""
        with self._lock:
            for device, model in devices.items():
                self._devices.setdefault(device, _Device(model, monotonic()))

    def counts(self) -> dict[str, int]:
        """Return how many devices are silent, and how many drift."""
        with self._lock:
            return {about: sum(about in active for active in self._active.values()) for about in (SILENT, DRIFT)}

    def check(self, now: float) -> list[Alert]:
        """Return the new alerts at time `now` of the monotonic clock, and write the active ones to the file."""
        if self._problems():  # nobody is silent: the time of the problem does not count
            with self._lock:
                for device in self._devices.values():
                    device.heard = max(device.heard, now)
            return []
        with self._lock:
            alerts = [alert for name, device in self._devices.items() for alert in self._new_alerts(name, device, now)]
        if alerts:
            try:
                with replacing(self._file) as temporary:
                    temporary.write_text(json.dumps(self._active), encoding="utf-8")
            except (OSError, UsageError) as error:
                LOG.error("%s: %s; after a restart alerts that have begun are sent again", self._file, error)
        return alerts

    def _new_alerts(self, name: str, device: _Device, now: float) -> Iterable[Alert]:
        """Yield the alerts of a device that begin or are over `now`, and record which are active."""
        active = self._active.get(name, {})
        silence = now - device.heard  # seconds
        step = self._steps.get(device.model, USUAL_STEP)
        limit = max(self._settings.silent_steps * step, SHORTEST_SILENCE)
        is_silent = silence > limit
        if is_silent:
            device.since_silent = 0
        if SILENT not in active and is_silent:
            yield self._begin(name, device, SILENT, f"{name} has not reported for {duration(round(silence))}.")
        elif SILENT in active and device.since_silent >= READINGS_TO_RECOVER:
            yield self._end(name, device, SILENT, f"{name} reports again.")
        if DRIFT not in active and device.drift == DriftState.RECOLLOCATE:
            yield self._begin(name, device, DRIFT, f"{name} drifts: put it beside a reference again.")
        elif DRIFT in active and device.drift == DriftState.FINE:
            yield self._end(name, device, DRIFT, f"{name} does not drift any more.")

    def _begin(self, name: str, device: _Device, about: str, sentence: str) -> Alert:
        self._active.setdefault(name, {})[about] = begun = time()
        return Alert(about, BEGUN, name, device.model, begun, sentence)

    def _end(self, name: str, device: _Device, about: str, sentence: str) -> Alert:
        del self._active[name][about]
        if not self._active[name]:
            del self._active[name]
        return Alert(about, OVER, name, device.model, time(), sentence)

    def start(self) -> None:
        """Start the thread that checks and sends."""
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait until the thread has ended."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(2 * TIMEOUT_SECONDS)

    def _work(self) -> None:
        while not self._stopping.wait(CHECK_SECONDS):
            self.send(self.check(monotonic()))

    def send(self, alerts: Sequence[Alert]) -> None:
        """Publish alerts over MQTT and POST them to the webhook; what the webhook does not take is sent again later."""
        for alert in alerts:
            LOG.warning("%s", alert.sentence)
            if self._publish:
                payload = json.dumps(alert.as_json(), ensure_ascii=False)
                self._publish(f"alerts/{topic_level(alert.device)}/{alert.about}", payload)
        if not self._webhook:
            return
        self._waiting.extend(alerts if len(alerts) <= MOST_AT_ONCE else summarise(alerts))
        while self._waiting and monotonic() >= self._next_post and not self._stopping.is_set():
            if reason := self._post(self._waiting[0]):
                self._wait = min(max(2 * self._wait, CHECK_SECONDS), LONGEST_WAIT)
                self._next_post = monotonic() + self._wait
                LOG.error("the webhook took no alert: %s; %d wait", reason, len(self._waiting))
            else:
                self._waiting.popleft()
                self._wait = 0.0

    def _post(self, alert: Alert) -> str:
        """POST an alert as JSON; returns why it failed, empty if it did not."""
        plain = alert.as_json()
        filled = {key: fill(template, plain) for key, template in self._settings.body.items()}
        body = json.dumps(filled or plain, ensure_ascii=False).encode()  # without templates all values are sent
        request = Request(self._webhook, body, {"content-type": "application/json"}, method="POST")
        try:
            with urlopen(request, timeout=TIMEOUT_SECONDS):  # `config` allows http and https only
                return ""
        except (OSError, HTTPException) as error:
            return str(getattr(error, "reason", error))


def fill(template: str, plain: Mapping[str, Any]) -> str:
    """Replace {device}, {sentence} and other keys of an alert in a text; anything else in braces stays.

    >>> fill("{device}: {sentence} {x}", {"device": "box-1", "sentence": "It drifts."})
    'box-1: It drifts. {x}'
    """
    for key, text in plain.items():
        template = template.replace(f"{{{key}}}", str(text))
    return template


def summarise(alerts: Sequence[Alert]) -> list[Alert]:
    """Join many alerts to one for each kind, so that a broken network is not a thousand messages."""
    kinds: dict[tuple[str, str], list[Alert]] = {}
    for alert in alerts:
        kinds.setdefault((alert.about, alert.state), []).append(alert)
    summaries = []
    for (about, state), alike in kinds.items():
        names = ", ".join(alert.device for alert in alike[:3])
        sentence = f"{plural(len(alike), 'device')} ({about}, {state}): {names}" + (
            " and others." if len(alike) > 3 else "."
        )
        summaries.append(Alert(about, state, "", "", alike[-1].time, sentence))
    return summaries


def _read(file: Path) -> dict[str, dict[str, float]]:
    """Read which alerts were active when the last process ended, as `Alerts._active`; {} without a usable file."""
    try:
        content = json.loads(file.read_text(encoding="utf-8")).items()
        return {name: {about: float(begun) for about, begun in active.items()} for name, active in content}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        LOG.error("%s cannot be read (%s): alerts that have begun will be sent again", file, error)
        return {}
