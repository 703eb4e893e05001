"""The parity certificate: a calibrator computes the same in NumPy, in C on this computer and in C on a board.

    certificate = verify(calibrator, board("nano33ble"), list(Arithmetic), windows=1000)
    certificate.passed, certificate.reasons, certificate.as_dict()

Windows are given to `run` of each runtime, and a stream of bad readings, some beyond training, to `scare_calibrate` and
to NumPy's `LiveWindows`: values, intervals and flags. A board scales a reading in float32, NumPy in double precision:
the windows made of readings may differ by a rounding, so they are compared as such, and results on the windows that C
made. The rules are in `agreement`, their tolerances in `calibrator.parity`, the windows and readings in `trials`. It
holds no date: the same calibrator has the same certificate. docs/certificate.md says how to read one.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import scare
from scare.board.boards import Board
from scare.board.build import read_export
from scare.board.host import EARLY, HISTORY, MISSING, NOT_FINITE, OK, RANGE, HostModel, StreamAnswers, push_all
from scare.board.vectors import (
    GOLDEN,
    READING,
    UNDEFINED,
    USUAL,
    VALIDATION,
    StreamRow,
    Vectors,
    all_vectors,
    stream_rows,
)
from scare.board.virtual import VirtualModel
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.parity import (
    FLOAT32_TOLERANCE,
    READING_TOLERANCE,
    TOKENS,
    Tolerance,
    deviation,
    distances_to_ties,
    max_code_mismatches,
    rounding,
    share_of_ties,
)
from scare.calibrator.plan import Plan, run, values
from scare.data.flags import LARGEST, Flag, count_flags
from scare.data.readings import Channel
from scare.errors import NotApplicableError
from scare.export.c_source import CModel
from scare.export.lowering import Arithmetic
from scare.export.package import Package, export_calibrator
from scare.kernels import Choice, window_q
from scare.windowing.grid import history_starts
from scare.windowing.inputs import Inputs
from scare.windowing.live import LiveWindows

# When runtimes agree: the certificate's rules, on what each of them gave for the same windows.
#
# Whole numbers must be equal in every bit everywhere. In float32 host and board must be; NumPy adds in another order,
# so its hash codes must be equal for at least 99.99 % of all tokens, and its results within the tolerance wherever
# the codes are. The tolerances are in `parity`. Comes from `certificate`.


@dataclass(frozen=True)
class RuntimeOutput:
    """What one runtime gave for n windows: outputs, float32 [n], and hash codes [n, tokens]."""

    outputs: np.ndarray
    codes: np.ndarray

    def equal_bits(self, other: "RuntimeOutput") -> np.ndarray:
        """For which windows all is the same; what is not a number is the same as its like. [n]."""
        outputs = self.outputs.view(np.uint32) == other.outputs.view(np.uint32)
        unknown = np.isnan(self.outputs) & np.isnan(other.outputs)
        return (outputs | unknown) & (self.codes == other.codes).all(axis=1)


@dataclass(frozen=True)
class CodeMismatch:
    """A window with other hash codes than NumPy's: how many tokens differ, by how much the result does.

    `from_tie` is the activation farthest from zero among those whose sign differs.
    """

    index: int
    kind: str
    tokens: int
    difference: float
    from_tie: float


@dataclass(frozen=True)
class Agreement:
    """How far three runtimes agree: counts of windows, equal ones by pair, and what breaks the rules."""

    windows: Mapping[str, int]
    equal_bits: Mapping[str, int]
    tokens: int
    equal_codes: float  # share of the tokens, host and Python
    largest: Mapping[str, float]  # difference between host and Python where codes agree
    beyond: int = 0  # windows farther off than 10⁻⁵, which pass only because NumPy's own float32 is no nearer
    rounding: float = 0.0  # the largest error of NumPy's own float32, in the unit of the outputs
    listed: tuple[CodeMismatch, ...] = ()
    reasons: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Runtimes:
    """What NumPy, the C on this computer and the C on the board gave for windows of these kinds [n]."""

    kinds: np.ndarray
    python: RuntimeOutput
    host: RuntimeOutput
    board: RuntimeOutput

    @property
    def judged(self) -> np.ndarray:
        """Windows whose result must be a number, [n]."""
        return ~np.isin(self.kinds, UNDEFINED)

    @property
    def unlike(self) -> np.ndarray:
        """Tokens judged with another hash code in NumPy than in C, [n, tokens]."""
        return (self.python.codes != self.host.codes) & self.judged[:, None]

    @property
    def differences(self) -> np.ndarray:
        """Between NumPy and C, [n]; NaN where there is none."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.abs(self.host.outputs.astype(float) - self.python.outputs)

    def agree(self, exact: bool, tolerance: Tolerance, from_tie: Mapping[int, float]) -> Agreement:
        """Judge; `exact`: NumPy too must be equal in every bit. `from_tie` is known of windows with unlike codes."""
        pairs = {"host_board": self.board, "host_python": self.python}
        equal = {name: self.host.equal_bits(other) for name, other in pairs.items()}
        broken = list(self._unequal("the board", equal["host_board"]))
        broken += self._unequal("Python", equal["host_python"]) if exact else self._apart(tolerance)
        unlike, tokens = self.unlike, int(self.judged.sum()) * self.host.codes.shape[1]
        return Agreement(
            dict(Counter(self.kinds.tolist())),
            {name: int(same.sum()) for name, same in equal.items()},
            tokens,
            1 - int(unlike.sum()) / tokens if tokens else 1.0,
            self._largest(tolerance),
            0 if exact else int((self._near(tolerance) & ~self._strictly_near(tolerance)).sum()),
            tolerance.rounding,
            tuple(self._list(from_tie)),
            tuple(broken),
        )

    def _unequal(self, other: str, equal: np.ndarray) -> Iterator[str]:
        if not equal.all():
            places = np.flatnonzero(~equal)
            yield f"host and {other} differ in {len(places):,} of {len(equal):,} windows, {self._first(places)}"

    def _apart(self, tolerance: Tolerance) -> Iterator[str]:
        unlike, judged = self.unlike, self.judged
        count, tokens = int(unlike.sum()), int(judged.sum()) * unlike.shape[1]
        if count > max_code_mismatches(tokens):
            yield (
                f"hash codes of {count:,} of {tokens:,} tokens differ from Python's, more than one in {TOKENS:,},"
                f" {self._first(np.flatnonzero(unlike.any(axis=1)))}"
            )
        far = np.flatnonzero(self._comparable & ~self._near(tolerance))
        if len(far):
            yield f"{len(far):,} windows are farther from Python than {FLOAT32_TOLERANCE:g} allows, {self._first(far)}"
        other = np.flatnonzero(np.isfinite(self.host.outputs) != np.isfinite(self.python.outputs))
        if len(other):
            yield f"{len(other):,} windows give a number in Python or in C, but not in both, {self._first(other)}"

    @property
    def _comparable(self) -> np.ndarray:
        """Windows whose results are judged by their distance: a number is due, and all codes agree. [n]."""
        return np.asarray(self.judged & ~self.unlike.any(axis=1))

    def _strictly_near(self, tolerance: Tolerance) -> np.ndarray:
        """Comparable windows within 10⁻⁵ of what they are judged by, [n]."""
        return np.asarray(self._comparable & tolerance.strict(self._results, self.differences))

    def _near(self, tolerance: Tolerance) -> np.ndarray:
        """Those, and the ones that are within what float32 rounds in NumPy, [n]."""
        return np.asarray(self._comparable & tolerance.met(self._results, self.differences))

    @property
    def _results(self) -> np.ndarray:
        return self.python.outputs.astype(float)

    def _largest(self, tolerance: Tolerance) -> dict[str, float]:
        """Of the windows whose codes agree, as a share of what it is judged by; of the usual ones, in three units."""
        agreeing = self.judged & ~self.unlike.any(axis=1)
        absolute = _most(self.differences[agreeing & np.isin(self.kinds, USUAL)])
        units = {"absolute": absolute, "deviations": absolute / tolerance.deviation, "unit": absolute / tolerance.unit}
        return {"share": _most(tolerance.shares(self._results, self.differences)[agreeing]), **units}

    def _list(self, from_tie: Mapping[int, float]) -> Iterator[CodeMismatch]:
        unlike, differences = self.unlike.sum(axis=1), self.differences
        for index in np.flatnonzero(unlike).tolist():
            facts = str(self.kinds[index]), int(unlike[index]), float(differences[index])
            yield CodeMismatch(index, *facts, from_tie.get(index, 0.0))

    def _first(self, places: np.ndarray) -> str:
        return f"the first is window {places[0]} ({self.kinds[places[0]]})"


def _most(numbers: np.ndarray) -> float:
    finite = numbers[np.isfinite(numbers)]
    return float(finite.max(initial=0.0))


CHUNK = 256  # windows computed at once
TOOLS = ("ziglang", "unicorn")  # compiler and board
COMPARED_FLAGS = (
    Flag.MISSING | Flag.EARLY | Flag.HISTORY | Flag.RESTART | Flag.OUTSIDE
)  # flags of a board that are as in NumPy
ROUNDED = 1e-5  # of a limit of distances: nearer to it float32 decides, and either way
STATUSES = {OK: "ok", HISTORY: "history", MISSING: "missing", RANGE: "range", EARLY: "early", NOT_FINITE: "not_finite"}


@dataclass(frozen=True)
class StreamResult:
    """What became of the readings of a stream, how far C's windows are from NumPy's, and what was computed of C's.

    Where statuses differ the rest is None.
    """

    statuses: Mapping[str, int]
    flags: Mapping[str, int]
    intervals: int  # readings that got one
    window_difference: float | None  # the largest, of a scaled reading; in fixed point in steps
    live_difference: float | None  # in deviations, from what NumPy makes of its own windows; not judged
    agreement: Agreement | None
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class ArithmeticResult:
    """One arithmetic: windows, hash ties and a stream; or why the calibrator has no such arithmetic."""

    windows: Agreement | None = None
    streaming: StreamResult | None = None
    ties: float | None = None  # share of the hash activations of known windows that are as good as zero
    absent: str = ""

    @property
    def reasons(self) -> list[str]:
        """Why it fails; empty when it does not."""
        streaming = [f"streaming: {reason}" for reason in self.streaming.reasons] if self.streaming else []
        return [*(self.windows.reasons if self.windows else ()), *streaming]

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        if self.absent:
            return {"absent": self.absent}
        facts = {"passed": not self.reasons, "reasons": self.reasons}
        return facts | {name: value for name, value in asdict(self).items() if name != "absent"}


@dataclass(frozen=True)
class Certificate:
    """What was compared, with what, and the result of each arithmetic."""

    calibrator: Mapping[str, Any]
    made_with: Mapping[str, str]
    results: Mapping[str, ArithmeticResult]

    @property
    def reasons(self) -> list[str]:
        """Why it fails; empty when it does not."""
        return [f"{name}: {reason}" for name, result in self.results.items() for reason in result.reasons]

    @property
    def passed(self) -> bool:
        """Whether every rule holds."""
        return not self.reasons

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "passed": self.passed,
            "reasons": self.reasons,
            "calibrator": dict(self.calibrator),
            "made_with": dict(self.made_with),
            "results": {name: result.as_dict() for name, result in self.results.items()},
        }


def verify(
    calibrator: Calibrator,
    board: Board,
    arithmetics: Sequence[Arithmetic],
    windows: int,
    device: str = "",
    advance: Callable[[], object] = lambda: None,
) -> Certificate:
    """Compare the runtimes on all known windows and on at least so many strange and random ones.

    `advance` is called after each window on the board. A calibrator that has none of the arithmetics is refused.
    """
    trials = all_vectors(calibrator, windows)
    results: dict[str, ArithmeticResult] = {}
    for arithmetic in arithmetics:
        with TemporaryDirectory() as scratch:
            try:
                package = export_calibrator(calibrator, "c", arithmetic, Path(scratch) / "model", device)
            except NotApplicableError as error:
                if list(arithmetics) == [arithmetic]:
                    raise
                results[str(arithmetic)] = ArithmeticResult(absent=str(error))
                continue
            results[str(arithmetic)] = _Trial(calibrator, arithmetic, package, board).verify(trials, advance)
    facts = {"target": calibrator.target.name, "window": calibrator.window, "device": package.compiled.device}
    facts["channels"] = [channel.name for channel in calibrator.inputs.channels]
    tools = {
        "board": board.name,
        "scare": scare.__version__,
        **{tool: version(tool) for tool in ("ziglang", "unicorn")},
    }
    return Certificate(facts, tools, results)


def verify_stream(calibrator: Calibrator, board: Board, arithmetic: Arithmetic) -> StreamResult:
    """Compare the runtimes on a stream of readings alone."""
    with TemporaryDirectory() as scratch:
        package = export_calibrator(calibrator, "c", arithmetic, Path(scratch) / "model")
        return _Trial(calibrator, arithmetic, package, board).stream()


class _Trial:
    """One arithmetic of a calibrator in all three runtimes."""

    def __init__(self, calibrator: Calibrator, arithmetic: Arithmetic, package: Package, board: Board) -> None:
        self.exact = arithmetic is Arithmetic.FIXED
        self.model, self.plan = package.compiled.c_model, package.compiled.plan
        self.precise = self.plan if self.exact else self.plan.astype(np.float64)
        self.inputs, self.device = _as_on_board(calibrator.inputs, self.model), package.compiled.device
        target = calibrator.inputs.scaling.target
        self.scale, self.center = float(target.scale[0]), float(target.center[0])
        self.deviation = deviation(calibrator)
        self.rounding = 0.0 if self.exact else rounding(calibrator)
        self.host = HostModel(read_export(package.folder))
        self.board = VirtualModel(self.host.exported, board)
        kept = {value.name: name for name, value in self.model.values.values() if value.kept}
        hashing = [] if self.plan.branches else [step for step in self.plan.steps if step.output in kept]
        self.hashing = {kept[step.output]: step for step in hashing}  # by their codes' names in C

    def verify(self, trials: Vectors, advance: Callable[[], object]) -> ArithmeticResult:
        """Windows and a stream."""
        runs = self.board.run(trials.windows, advance)
        runtimes = Runtimes(
            trials.kinds,
            self._in_numpy(trials.windows),
            self._in_c(*self.host.run(trials.windows)),
            self._in_c(runs.outputs, runs.kept),
        )
        agreement = self._agree(runtimes, trials.windows, Tolerance(self.deviation, 1 / self.scale, 0.0, self.rounding))
        known = trials.windows[np.isin(trials.kinds, (GOLDEN, VALIDATION))]
        return ArithmeticResult(agreement, self.stream(), self._ties(known))

    def _agree(self, runtimes: Runtimes, windows: np.ndarray, tolerance: Tolerance) -> Agreement:
        unlike = [] if self.exact else np.flatnonzero(runtimes.unlike.any(axis=1)).tolist()
        bits = runtimes.python.codes ^ runtimes.host.codes
        return runtimes.agree(self.exact, tolerance, {at: self._from_tie(windows[at], bits[at]) for at in unlike})

    def _in_numpy(self, windows: np.ndarray) -> RuntimeOutput:
        """Outputs and hash codes of windows, each for itself; float32 is judged against double precision.

        What is no number in float32 is none here: double precision has room for more.
        """
        computed = self._compute(self.plan, windows)
        if self.exact:
            return computed
        precise = self._compute(self.precise, windows.astype(np.float64))
        outputs = np.where(np.isfinite(computed.outputs), precise.outputs, computed.outputs)
        return RuntimeOutput(outputs, precise.codes)

    def _compute(self, plan: Plan, windows: np.ndarray) -> RuntimeOutput:
        parts = [windows[start : start + CHUNK] for start in range(0, len(windows), CHUNK)]
        last = plan.steps[-1].output
        names = [step.output for step in self.hashing.values()]
        with np.errstate(all="ignore"):
            if plan.branches:
                found = [{last: run(plan, part)[:, None]} for part in parts]
            else:
                found = [values(plan, part, {last, *names}) for part in parts]
            outputs = np.concatenate([part[last][:, 0] for part in found]).astype(np.float32)
        codes = [np.concatenate([part[name] for part in found]) for name in names]
        return RuntimeOutput(outputs, _side_by_side(codes, len(windows)))

    def _in_c(self, outputs: np.ndarray, kept: Mapping[str, np.ndarray]) -> RuntimeOutput:
        return RuntimeOutput(outputs, _side_by_side([kept[name] for name in self.hashing], len(outputs)))

    def _ties(self, windows: np.ndarray) -> float | None:
        return None if self.exact else share_of_ties(self.plan, windows, self.hashing.values())

    def _from_tie(self, window: np.ndarray, bits: np.ndarray) -> float:
        """How far from zero an activation is at most whose bit of the codes [tokens] is set."""
        farthest, start = 0.0, 0
        for sizes in distances_to_ties(self.plan, window[None], self.hashing.values()):
            (tokens, width) = sizes.shape[1:]
            chosen = bits[start : start + tokens, None] >> np.arange(width, dtype=np.uint32) & 1 == 1
            farthest, start = max(farthest, float(sizes[0][chosen].max(initial=0.0))), start + tokens
        return farthest

    def stream(self) -> StreamResult:
        """Bad readings through C and through NumPy's own feed; then NumPy computes the host's windows."""
        readings = stream_rows(self.model.descriptor, self.plan.window)
        host, board = push_all(self.host, readings), push_all(self.board, readings)
        live = self._live(readings)
        counts = {STATUSES[status]: count for status, count in sorted(Counter(host.statuses.tolist()).items())}
        flag_counts = {name: count for name, count in count_flags(host.flags).items() if count}
        found = counts, flag_counts, int(np.isfinite(host.low).sum())
        broken = [*_unlike_statuses(live, host, board), *self._unlike_answers(readings, live, host, board)]
        if broken:
            return StreamResult(*found, None, None, None, tuple(broken))
        apart, allowed = self._window_difference(live.windows, host.windows)
        if apart > allowed:
            broken.append(f"a reading in the window is {apart:.3g} from Python's; {allowed:g} is allowed")
        windows = self._steps(host.windows) if self.exact else host.windows
        in_numpy = RuntimeOutput(self._values(readings, host.ran, windows), self._in_numpy(windows).codes)
        in_c = (self._in_c(one.values[one.ran], one.kept) for one in (host, board))
        deviation = self.deviation * self.scale
        runtimes = Runtimes(np.full(len(windows), READING), in_numpy, *in_c)
        agreement = self._agree(runtimes, windows, Tolerance(deviation, 1.0, self.center, self.rounding * self.scale))
        live_difference = float(np.nanmax(np.abs(live.values.astype(float) - host.values))) / deviation
        return StreamResult(*found, apart, live_difference, agreement, (*broken, *agreement.reasons))

    def _unlike_answers(
        self, readings: Sequence[StreamRow], live: StreamAnswers, host: StreamAnswers, board: StreamAnswers
    ) -> Iterator[str]:
        """Flags and intervals that are not as they must be: everywhere alike, and as NumPy makes them of C's values."""
        reasons = np.select([host.statuses == RANGE, host.statuses == NOT_FINITE], [Flag.RANGE, Flag.NOT_FINITE], 0)
        near = self._flags(readings, 1 - ROUNDED) != self._flags(readings, 1 + ROUNDED)
        unlike = {
            "the board": host.flags != board.flags,
            "Python": (host.flags != live.flags & COMPARED_FLAGS | reasons) & ~near,
        }
        for name, rows in unlike.items():
            if rows.any():
                first = f"the first is reading {np.argmax(rows)}"
                yield f"host and {name} have other flags for {rows.sum():,} of {len(rows):,} readings, {first}"
        table, none = self.model.descriptor.interval, np.full(len(readings), np.nan, np.float32)
        floor = self.model.descriptor.floor
        made = table.around(host.values, host.flags, floor) if table else (none, none)
        for name, ends in (("the board", (board.low, board.high)), ("Python", made)):
            if not np.array_equal([host.low, host.high], ends, equal_nan=True):
                yield f"host and {name} have other intervals"

    def _flags(self, readings: Sequence[StreamRow], share: float) -> np.ndarray:
        """The flags in NumPy where the limits of distances are a share of what they are."""
        training_range = self.inputs.training_range
        if training_range is None:
            return np.zeros(len(readings), np.uint32)
        limits = {name: getattr(training_range, name) * share for name in ("limit", "slow_limit")}
        return self._feed(readings, replace(self.inputs, training_range=replace(training_range, **limits)))[1]

    def _live(self, readings: Sequence[StreamRow]) -> StreamAnswers:
        """NumPy's answers, of windows of its own."""
        windows, flags = self._feed(readings, self.inputs)
        pairs = zip(flags.tolist(), readings, strict=True)
        statuses = np.array([self._status(Flag(flag), reading.numbers) for flag, reading in pairs])
        ran, none = statuses == OK, np.full(len(readings), np.nan, np.float32)
        own = self.inputs.training_range.clamp(windows) if self.inputs.training_range else windows
        answers = none.copy()
        answers[ran] = self._values(readings, ran, own)
        return StreamAnswers(
            np.where(ran & np.isnan(answers), NOT_FINITE, statuses), answers, none, none, flags, own, {}
        )

    def _feed(self, readings: Sequence[StreamRow], inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """Windows [m, window, channels], not clamped, and flags [n] of readings."""
        windows, flags, live = [], [], LiveWindows(inputs, [self.device])
        for reading in readings:
            if reading.restart:
                live = LiveWindows(inputs, [self.device])
            window, flag = live.push_one(reading.now_ms / 1000, np.asarray(reading.numbers))
            windows.append(window)
            flags.append(flag)
        return np.concatenate(windows), np.concatenate(flags)

    def _values(self, readings: Sequence[StreamRow], ran: np.ndarray, windows: np.ndarray) -> np.ndarray:
        """The calibrated values [m] of a stream's windows [m, …], a choice of a branch carried until a new history."""
        found: list[np.float32] = []
        times, choice = np.array([reading.now_ms for reading in readings]) / 1000, Choice()
        starts = history_starts(times, self.inputs.step_seconds, self.inputs.window, np.nan)
        for index, (reading, has_window) in enumerate(zip(readings, ran.tolist(), strict=True)):
            choice = Choice() if reading.restart or index in starts else choice
            if has_window:
                found.append(self._value(windows[len(found)][None], choice, np.float32(reading.numbers[0])))
        return np.array(found, np.float32)

    def _value(self, window: np.ndarray, choice: Choice, first: np.float32) -> np.float32:
        """The value of a window and of the newest first number, rounded as on a board; NaN where it is no number."""
        facts, training = self.model.descriptor, self.model.descriptor.training
        with np.errstate(all="ignore"):
            exact = window if self.exact else window.astype(np.float64)
            scaled = run(self.precise, exact, choice).astype(np.float32)[0]
            newest, beyond = self._first(first)
            scaled = np.maximum(scaled, np.float32(training.lowest)) if newest >= training.rising else scaled
            scaled = scaled + beyond * np.float32(training.slope)
            value = scaled * np.float32(facts.target_scale) + np.float32(facts.target_center)
        return max(value, np.float32(facts.floor)) if np.isfinite(value) else np.float32(np.nan)

    def _first(self, number: np.float32) -> tuple[Any, Any]:
        """A number of the first channel, scaled and clamped, and how far it lies beyond the clamp, as on a board."""
        channel = self.model.descriptor.channels[0]
        scaled = channel.scale(float(number))
        clamped = np.clip(scaled, *np.array(channel.clamp, np.float32))
        return clamped, scaled - clamped

    def _status(self, flag: Flag, row: np.ndarray) -> int:
        """What `scare_calibrate` must say where NumPy has this flag, unless the result is no number."""
        if flag & Flag.EARLY:
            return EARLY
        if flag & Flag.MISSING:
            columns = zip(row, self.inputs.channels, strict=True)
            return next(status for number, channel in columns if (status := self._judged(float(number), channel)))
        return HISTORY if flag & Flag.HISTORY else OK

    def _judged(self, number: float, channel: Channel) -> int:
        if not np.isfinite(number) or number in self.inputs.quality.sentinels:
            return MISSING
        return OK if max(channel.low, -LARGEST) <= number <= min(channel.high, LARGEST) else RANGE

    def _steps(self, windows: np.ndarray) -> np.ndarray:
        """Windows in steps as the scaled numbers that they stand for."""
        return windows.astype(np.float32) / np.array(self.model.program.quanta, np.float32)

    def _window_difference(self, ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
        """How far the numbers of windows are from NumPy's, and how far they may be: in fixed point one step."""
        if self.exact:
            steps = window_q(ours, {"quantum": np.array(self.model.program.quanta, np.float32)}, {})
            return float(np.abs(steps.astype(int) - theirs).max(initial=0)), 1.0
        shares = np.abs(theirs.astype(float) - ours) / np.maximum(np.abs(ours), 1)
        return float(shares.max(initial=0.0)), READING_TOLERANCE


def _unlike_statuses(live: StreamAnswers, host: StreamAnswers, board: StreamAnswers) -> Iterator[str]:
    count = len(host.statuses)
    for name, other in (("the board", board), ("Python", live)):
        unlike = np.flatnonzero(host.statuses != other.statuses)
        if len(unlike):
            pair = STATUSES[int(host.statuses[unlike[0]])], STATUSES[int(other.statuses[unlike[0]])]
            first = f"the first is reading {unlike[0]}: {pair[0]} and {pair[1]}"
            yield f"host and {name} have another status for {len(unlike):,} of {count:,} readings, {first}"
    for name, one in (("host", host), ("the board", board)):
        if (np.isnan(one.values) == (one.statuses == OK)).any():
            yield f"{name} gives a value without the status ok, or the status without a value"
    if not (host.statuses == OK).any():
        yield "no reading got a value"


def _as_on_board(inputs: Inputs, model: CModel) -> Inputs:
    """Inputs that never settle, with the range that an int16 window can hold, if it is one."""
    channels = inputs.channels
    if model.program.quanta:
        pairs = zip(channels, model.descriptor.channels, strict=True)
        channels = tuple(replace(channel, low=board.valid.low, high=board.valid.high) for channel, board in pairs)
    return replace(inputs, channels=channels, scaling=replace(inputs.scaling, settle=0))


def _side_by_side(codes: Sequence[np.ndarray], count: int) -> np.ndarray:
    return np.concatenate([np.empty((count, 0), np.uint32), *codes], axis=1)
