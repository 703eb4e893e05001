"""What an operator wants to know: how much came, what was refused and why, how long it took."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from time import time

import numpy as np

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
