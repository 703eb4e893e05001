"""Latency on this computer: one pinned core, warm-ups, different consecutive windows, several rounds.

A timer runs windows [n, N, C] one after the other and gives the nanoseconds of each: `HostModel.time` by a clock in C,
`timing(call)` for anything that Python can call. The mean, the maximum and the jitter of a card are of one sample.
"""

import gc
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import get_native_id
from time import perf_counter_ns
from typing import Any

import numpy as np

from scare.scorecard.requirements import Finding, Protocol

Timer = Callable[[np.ndarray], np.ndarray]
ROUNDING = 1e-9
THREADS = Path("/proc/self/task")  # of this process, by number


@dataclass(frozen=True)
class Latency:
    """One sample of latencies in ms; `jitter` is its standard deviation with n − 1.

    No sample has a larger one than √((max − mean)(mean − min) n/(n − 1)): other numbers are refused.

    >>> Latency(50, 0.0, 1.31, 1.44, 1.83)
    Traceback (most recent call last):
    ValueError: no sample of 50 has minimum 0, mean 1.31, maximum 1.44 and a standard deviation of 1.83
    """

    count: int
    minimum: float
    mean: float
    maximum: float
    jitter: float

    def __post_init__(self) -> None:
        slack = ROUNDING * abs(self.maximum)
        above, below = self.maximum - self.mean, self.mean - self.minimum
        if self.count < 2 or min(above, below) < -slack or not 0 <= self.jitter <= self.largest_jitter + slack:
            raise ValueError(
                f"no sample of {self.count} has minimum {self.minimum:g}, mean {self.mean:g}, maximum"
                f" {self.maximum:g} and a standard deviation of {self.jitter:g}"
            )

    @property
    def largest_jitter(self) -> float:
        """The most that jitter can be, given the others."""
        product = max(0.0, self.maximum - self.mean) * max(0.0, self.mean - self.minimum)
        return float(np.sqrt(product * self.count / (self.count - 1)))

    @staticmethod
    def of(milliseconds: np.ndarray) -> "Latency":
        """Of a sample [n].

        >>> Latency.of(np.array([1.0, 2.0, 3.0]))
        Latency(count=3, minimum=1.0, mean=2.0, maximum=3.0, jitter=1.0)
        """
        least = milliseconds.min()
        above = milliseconds - least  # equal ones have no jitter, not even a rounding error
        extremes = float(least), float(least + above.mean()), float(milliseconds.max())
        return Latency(len(milliseconds), *extremes, float(above.std(ddof=1)))


@dataclass(frozen=True)
class Timed:
    """Milliseconds [rounds, windows], and whether all threads were pinned to one core."""

    milliseconds: np.ndarray
    pinned: bool

    @property
    def typical(self) -> Latency:
        """The round whose maximum is the median of the rounds' maxima."""
        order = np.argsort(self.milliseconds.max(axis=1), kind="stable")
        return Latency.of(self.milliseconds[order[(len(order) - 1) // 2]])

    def findings(self, period_ms: float, suffix: str = "") -> list[Finding]:
        """Mean, maximum and jitter of the typical round, with all rounds beside it."""
        detail = {
            "pinned": self.pinned,
            "p99_ms": float(np.quantile(self.milliseconds, 0.99)),
            "rounds": [asdict(Latency.of(one)) for one in self.milliseconds],
        }
        return latency_findings(self.typical, period_ms, ("latency", suffix), detail)


def latency_findings(
    latency: Latency, period_ms: float, name: tuple[str, str], detail: dict[str, Any]
) -> list[Finding]:
    """One sample as the three requirements of real time; the measures are called name[0]_…name[1]."""
    numbers = {"mean": latency.mean, "max": latency.maximum, "jitter": latency.jitter}
    detail = {**detail, "sample": asdict(latency), "largest_jitter": latency.largest_jitter}
    return [Finding(f"{name[0]}_{part}{name[1]}", value, period_ms, detail) for part, value in numbers.items()]


def no_latency(reason: str) -> list[Finding]:
    """The three requirements of real time when nothing can be run: it never answers."""
    return [Finding(f"latency_{part}", math.inf, detail={"reason": reason}) for part in ("mean", "max", "jitter")]


def timing(call: Callable[[np.ndarray], object]) -> Timer:
    """A timer of anything that takes one window as a batch [1, N, C]."""

    def timer(windows: np.ndarray) -> np.ndarray:
        taken = np.empty(len(windows), np.int64)
        for index in range(len(windows)):
            one = windows[index : index + 1]
            begun = perf_counter_ns()
            call(one)
            taken[index] = perf_counter_ns() - begun
        return taken

    return timer


def measure_latency(timer: Timer, windows: np.ndarray, protocol: Protocol) -> Timed:
    """Time windows [n, N, C] by the protocol."""
    with one_core() as pinned:
        timer(np.resize(windows, (protocol.warm_ups, *windows.shape[1:])))
        rounds = [timer(windows) for _ in range(protocol.rounds)]
    return Timed(np.stack(rounds) / 1e6, pinned)


@contextmanager
def one_core() -> Iterator[bool]:
    """All threads of this process on one core, no garbage collection meanwhile; says whether they could be pinned."""
    before = _affinities()
    usual = before.get(get_native_id(), set())
    collecting = gc.isenabled()
    gc.disable()
    try:
        _pin({thread: {max(usual)} for thread in before})
        yield bool(before)
    finally:
        _pin(dict.fromkeys(_affinities(), usual) | before)
        if collecting:
            gc.enable()


def _affinities() -> dict[int, set[int]]:
    """The cores that each thread of this process may use, by its number; empty where the system does not tell."""
    found: dict[int, set[int]] = {}
    for path in THREADS.glob("*") if hasattr(os, "sched_getaffinity") else ():
        with suppress(ProcessLookupError):  # it has ended
            found[int(path.name)] = os.sched_getaffinity(int(path.name))
    return found


def _pin(cores: Mapping[int, set[int]]) -> None:
    for thread, allowed in cores.items():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(thread, allowed)
