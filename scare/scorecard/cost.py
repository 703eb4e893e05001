"""Cost: complexity and memory counted in the plan, latency on this computer, fit and latency on a board.

- Complexity: the exponent p of operations ∝ N^p, fitted to a model's formula at several window lengths N.
  The count of the calibrator's own plan tells whether the formula is exact for it.
- Latency: one pinned core, warm-ups, different successive windows, several rounds. A timer runs windows
  [windows, rows, channels] one after the other and returns the nanoseconds of each: `HostModel.time` by a clock in C,
  `make_timer(call)` for any Python callable. Mean, maximum and jitter of a card come from the same sample.
- Compatibility: CPU load under steady requests, and whether a board can hold and run the model. Board figures come from
  the virtual board, over windows that include edge cases; the worst of them is compared with a limit.

All results are findings, which `scoring` collects for a card.
"""

import gc
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import get_native_id
from time import perf_counter, perf_counter_ns, sleep, thread_time
from typing import Any

import numpy as np

from scare.board.boards import Board
from scare.board.measure import Report
from scare.board.virtual import Cycles
from scare.calibrator.calibrator import Calibrator
from scare.kernels import INPUT, Operations
from scare.scorecard.requirements import Finding, ScoreProtocol

Timer = Callable[[np.ndarray], np.ndarray]  # from windows [n, N, C] to nanoseconds [n]
ROUNDING = 1e-9  # relative slack for the rounding of a sample's statistics
THREADS = Path("/proc/self/task")  # the threads of this process, by number (Linux)
# Names of measures that need cycle counts, and of those that exist only on a board.
OF_CYCLES = ("board_latency_mean", "board_latency_max", "board_latency_jitter", "deadline", "duty_cycle")
OF_BOARD = ("ram", "flash", "fits_ram", "fits_flash", "deadline", "duty_cycle")


@dataclass(frozen=True)
class OperationGrowth:
    """How a model's operations grow with its window: the declared complexity, and the count at any length."""

    declared: str
    operations: Callable[[int], Operations]


def complexity_findings(
    calibrator: Calibrator, growth: OperationGrowth | None, lengths: Sequence[int]
) -> list[Finding]:
    """Report the declared complexity, the fitted exponent, and the counted operations of one reading."""
    counted = calibrator.cost().operations
    declared, exponent, detail = _fit_growth(calibrator, growth, lengths, counted)
    return [
        Finding("declared_complexity", declared),
        Finding("exponent", exponent, detail=detail),
        Finding("operations", total(counted), detail=asdict(counted)),
    ]


def _fit_growth(
    calibrator: Calibrator, growth: OperationGrowth | None, lengths: Sequence[int], counted: Operations
) -> tuple[str | None, float | None, dict[str, Any]]:
    """Return the declared complexity, the exponent and how it was found; the simplest plans need no fit."""
    if calibrator.window == 1 or all(step.kernel == "newest" for step in calibrator.plan.readers(INPUT)):
        return "O(1)", 0.0, {"reason": "it reads only the newest row"}
    if calibrator.facts.get("outcome") in ("ridge", "trees"):
        return "O(N)", 1.0, {"reason": "it reads each value of the window once"}
    if growth is None:
        reason = "operations at other window lengths are unknown: not a model of ours, or the extra [train] is missing"
        return None, None, {"reason": reason}
    totals = [total(growth.operations(length)) for length in lengths]
    detail = {
        "lengths": list(lengths),
        "operations": totals,
        "last_exponent": fit_exponent(lengths[-2:], totals[-2:]),
        "exact_here": growth.operations(calibrator.window) == counted,
    }
    return growth.declared, fit_exponent(lengths, totals), detail


def fit_exponent(lengths: Sequence[int], totals: Sequence[float]) -> float:
    """Fit p of totals ∝ length^p by least squares of the logarithms.

    >>> fit_exponent([10, 20, 40], [500, 2000, 8000])
    2.0
    """
    x, y = np.log(lengths), np.log(totals)
    x = x - x.mean()
    return float((x * y).sum() / (x * x).sum())


def total(operations: Operations) -> int:
    """Sum the operations of all kinds."""
    return sum(asdict(operations).values())


def memory_findings(calibrator: Calibrator) -> list[Finding]:
    """Count the plan's bytes: the peak of values in use, all values together, and the weights."""
    cost = calibrator.cost()
    weights = {"weights": cost.weights}
    return [
        Finding("peak_bytes", cost.peak_bytes),
        Finding("retained_bytes", cost.retained_bytes),
        Finding("weight_bytes", cost.weight_bytes, detail=weights),
    ]


@dataclass(frozen=True)
class Latency:
    """Statistics of a sample of latencies in ms; `jitter` is its standard deviation with n − 1.

    No sample has a jitter above √((max − mean)(mean − min) n/(n − 1)), by the inequality of Bhatia and Davis;
    statistics that break this raise ValueError.

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
        """The largest jitter that is possible with the other statistics."""
        product = max(0.0, self.maximum - self.mean) * max(0.0, self.mean - self.minimum)
        return float(np.sqrt(product * self.count / (self.count - 1)))

    @staticmethod
    def from_sample(milliseconds: np.ndarray) -> "Latency":
        """Compute the statistics of a sample [n].

        >>> Latency.from_sample(np.array([1.0, 2.0, 3.0]))
        Latency(count=3, minimum=1.0, mean=2.0, maximum=3.0, jitter=1.0)
        """
        minimum = milliseconds.min()
        above = milliseconds - minimum  # so that equal latencies have no jitter, not even a rounding error
        mean, maximum, jitter = minimum + above.mean(), milliseconds.max(), above.std(ddof=1)
        return Latency(len(milliseconds), float(minimum), float(mean), float(maximum), float(jitter))


@dataclass(frozen=True)
class Timed:
    """Latencies in milliseconds [rounds, windows], and whether all threads were pinned to one core."""

    milliseconds: np.ndarray
    pinned: bool

    @property
    def typical(self) -> Latency:
        """The round whose maximum is the median of the rounds' maxima."""
        order = np.argsort(self.milliseconds.max(axis=1), kind="stable")
        return Latency.from_sample(self.milliseconds[order[(len(order) - 1) // 2]])

    def findings(self, period_ms: float, suffix: str = "") -> list[Finding]:
        """Return the mean, maximum and jitter of the typical round, with all rounds in the detail."""
        detail = {
            "pinned": self.pinned,
            "p99_ms": float(np.quantile(self.milliseconds, 0.99)),
            "rounds": [asdict(Latency.from_sample(sample)) for sample in self.milliseconds],
        }
        return latency_findings(self.typical, period_ms, detail, suffix=suffix)


def latency_findings(
    latency: Latency, period_ms: float, detail: dict[str, Any], prefix: str = "latency", suffix: str = ""
) -> list[Finding]:
    """Report mean, maximum and jitter of a sample, graded relative to `period_ms`.

    The measures are called PREFIX_mean, PREFIX_max and PREFIX_jitter, with the suffix after each.
    """
    statistics = {"mean": latency.mean, "max": latency.maximum, "jitter": latency.jitter}
    detail = {**detail, "sample": asdict(latency), "largest_jitter": latency.largest_jitter}
    return [Finding(f"{prefix}_{name}{suffix}", value, period_ms, detail) for name, value in statistics.items()]


def no_latency(reason: str) -> list[Finding]:
    """Report infinite latencies, which are graded poor, for a model that cannot run."""
    return [Finding(f"latency_{part}", math.inf, detail={"reason": reason}) for part in ("mean", "max", "jitter")]


def make_timer(call: Callable[[np.ndarray], object]) -> Timer:
    """Make a timer for a callable that takes one window as a batch [1, N, C]."""

    def timer(windows: np.ndarray) -> np.ndarray:
        nanoseconds = np.empty(len(windows), np.int64)
        for index in range(len(windows)):
            window = windows[index : index + 1]
            begun = perf_counter_ns()
            call(window)
            nanoseconds[index] = perf_counter_ns() - begun
        return nanoseconds

    return timer


def measure_latency(timer: Timer, windows: np.ndarray, protocol: ScoreProtocol) -> Timed:
    """Time windows [n, N, C] on one core, with the protocol's warm-ups and rounds."""
    with one_core() as pinned:
        timer(np.resize(windows, (protocol.warm_ups, *windows.shape[1:])))
        rounds = [timer(windows) for _ in range(protocol.rounds)]
    return Timed(np.stack(rounds) / 1e6, pinned)


@contextmanager
def one_core() -> Iterator[bool]:
    """Pin all threads of this process to one core and stop garbage collection; yields whether pinning worked."""
    before = _affinities()  # empty if the system has no list of threads: nothing is pinned then
    cores = before.get(get_native_id(), set())  # of this thread
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        _pin({thread: {max(cores)} for thread in before})
        yield bool(before)
    finally:
        _pin(dict.fromkeys(_affinities(), cores) | before)  # threads started meanwhile get the cores of this one
        if was_collecting:
            gc.enable()


def _affinities() -> dict[int, set[int]]:
    """Return the cores that each thread of this process may use, by thread number; empty if the system has no list."""
    if not hasattr(os, "sched_getaffinity"):
        return {}
    cores: dict[int, set[int]] = {}
    for path in THREADS.glob("*"):
        with suppress(ProcessLookupError):  # the thread has ended
            cores[int(path.name)] = os.sched_getaffinity(int(path.name))
    return cores


def _pin(cores: Mapping[int, set[int]]) -> None:
    """Restrict threads, by number, to these cores; a thread that has ended is skipped."""
    for thread, allowed in cores.items():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(thread, allowed)


def measure_utilisation(
    call: Callable[[int], object], protocol: ScoreProtocol, advance: Callable[[], object] = lambda: None
) -> Finding:
    """Measure the share of one core, in %, that requests at a fixed rate take: the largest of several blocks of time.

    `call` serves request number 0, 1, … of a block; `advance` is called after each block. `idle` in the detail is the
    share that the same loop takes without a model.
    """
    with one_core() as pinned:
        idle = _cpu_share(lambda number: number, protocol)
        shares = []
        for _ in range(protocol.blocks):
            shares.append(_cpu_share(call, protocol))
            advance()
    detail = {"mean": float(np.mean(shares)), "idle": idle, "pinned": pinned}
    return Finding("cpu", max(shares), detail={**detail, "request_hz": protocol.request_hz, "blocks": len(shares)})


def _cpu_share(call: Callable[[int], object], protocol: ScoreProtocol) -> float:
    """Serve one block of requests; returns this thread's CPU time as a share of wall time, in %."""
    begun, cpu_begun = perf_counter(), thread_time()
    for request in range(max(1, round(protocol.block_seconds * protocol.request_hz))):
        call(request)
        left = begun + (request + 1) / protocol.request_hz - perf_counter()
        if left > 0:
            sleep(left)
    return 100 * (thread_time() - cpu_begun) / (perf_counter() - begun)


def supported(reason: str = "") -> Finding:
    """Report that every operation has a kernel in C, or the `reason` why not."""
    return Finding("supported", 0.0 if reason else 1.0, detail={"reason": reason} if reason else {})


def board_findings(report: Report) -> list[Finding]:
    """Report memory, latency of one value, and whether the model fits; a board without cycle counts has no latency."""
    board = report.board
    shortage = report.shortage
    period_ms = float(report.step_ms)
    findings = [
        Finding("ram", report.ram_bytes, board.ram, {"static": report.static_bytes, "stack": report.stack_bytes}),
        Finding("flash", report.flash_bytes, board.flash),
        Finding("fits_ram", float("RAM" not in shortage)),
        Finding("fits_flash", float("flash" not in shortage)),
    ]
    worst = worst_case(report)
    if worst is None or report.duty_cycle is None:
        unknown = {"reason": f"cycles are not known on {board.name}"}
        return findings + [Finding(name, None, detail=unknown) for name in OF_CYCLES]
    _, run_cycles, _ = report.runs.cycles.T  # the lowest, typical and highest estimate for each window
    typical_ms = (run_cycles + report.pushes.cycles.typical) / board.clock_hz * 1e3
    findings += latency_findings(Latency.from_sample(typical_ms), period_ms, {"worst": worst}, "board_latency")
    findings.append(Finding("deadline", float(worst["reading_ms"] <= period_ms), detail=worst))
    findings.append(Finding("duty_cycle", 100 * report.duty_cycle))
    return findings


def no_board() -> list[Finding]:
    """Report the board's measures as unknown, when no board was given."""
    return [Finding(name, None, detail={"reason": "no board was asked for"}) for name in OF_BOARD]


def worst_case(report: Report) -> dict[str, Any] | None:
    """Find the worst case over all windows: instructions, cycles and milliseconds of one value.

    They include taking the reading. None for a board without cycle counts.
    """
    if report.instructions is None or report.cycles is None:
        return None
    slowest_run = Cycles(*report.runs.cycles.max(axis=0).tolist())  # by each of the three estimates
    cycles = slowest_run.plus(report.pushes.cycles)._asdict()
    cycles_per_ms = report.board.clock_hz / 1e3
    return {
        "instructions": int(report.instructions["max"]),
        "cycles": cycles,
        "milliseconds": {name: count / cycles_per_ms for name, count in cycles.items()},
        "reading_ms": cycles["high"] / cycles_per_ms,
    }


def describe_board(board: Board, arithmetic: str, report: Report | None, reason: str = "") -> dict[str, Any]:
    """Make the board block of a card: what the board has and what the model takes, or why nothing runs on it."""
    block = {
        "board": board.name,
        "title": board.title,
        "chip": board.chip,
        "clock_hz": board.clock_hz,
        "ram_available": board.ram,
        "flash_available": board.flash,
        "arithmetic": arithmetic,
    }
    if report is None:
        return {**block, "supported": False, "fits": False, "reasons": [reason]}
    worst = worst_case(report)
    deadline = {"deadline_ms": report.step_ms, "worst": worst}
    deadline["meets_deadline"] = worst["reading_ms"] <= report.step_ms if worst else None
    return {**block, "supported": True, **deadline, **report.as_dict()}
