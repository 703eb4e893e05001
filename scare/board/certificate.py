"""The parity certificate: a calibrator computes the same in NumPy, in C on this computer and in C on a board.

    certificate = verify(calibrator, board("nano33ble"), list(Arithmetic), windows=1000)
    certificate.passed, certificate.reasons, certificate.as_dict()

    vectors.py (windows, a stream of bad readings) -> three runtimes -> ParityCheck -> Agreement -> Certificate

Three runtimes: `plan.run` in NumPy, `HostModel`, `VirtualModel`. Two comparisons for each arithmetic:
- windows: every runtime computes the same scaled windows;
- stream: C gets readings through `scare_calibrate`, NumPy through `LiveWindows`; status, flags, interval and value of
  each reading are compared. C scales readings in float32, NumPy in double precision, so their windows may differ by a
  rounding: the windows are compared with a tolerance, and then NumPy computes the values from the windows of C.

Rules: fixed point is equal in every bit everywhere, and its mean is that of float32. In float32, host and board are
equal in every bit; NumPy adds in another order, so 99.99 % of its codes (of hashes and trees) must be equal, and its
results within the tolerance of `calibrator/parity_tolerance.py` wherever the codes are. A certificate has no date: the
same calibrator always gets the same one. docs/certificate.md says how to read it; field names here are its JSON keys.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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
from scare.calibrator.parity_tolerance import (
    FLOAT32_TOLERANCE,
    READING_TOLERANCE,
    TOKENS,
    Tolerance,
    coded_steps,
    deviation,
    distances_to_ties,
    max_code_mismatches,
    outputs_and_codes,
    relative_sizes,
    rounding,
    share_of_ties,
)
from scare.calibrator.plan import Plan, run
from scare.data.flags import LARGEST, Flag, count_flags
from scare.errors import NotApplicableError
from scare.export.descriptor import InputChannel
from scare.export.lowering import Arithmetic
from scare.export.package import Package, export_calibrator
from scare.export.scare_json import FixedPointError
from scare.kernels import CODES, Choice, window_q
from scare.kernels.c_arguments import codes_name
from scare.windowing.inputs import Inputs
from scare.windowing.live_windows import LiveWindows
from scare.windowing.windows import history_starts

CHUNK = 256  # windows computed at once
TOOLS = ("ziglang", "unicorn")  # compiler and emulator, whose versions a certificate states
# Flags that boards and NumPy both set.
COMPARED_FLAGS = Flag.MISSING | Flag.EARLY | Flag.HISTORY | Flag.UNSETTLED | Flag.RESTART | Flag.OUTSIDE
# Limits on the mean of fixed point minus float32, as shares of its standard deviation and of the target's.
MEAN_OF_SD, MEAN_OF_TARGET = 0.1, 0.002
LIMIT_ROUNDING = 1e-5  # relative distance to a limit of OUTSIDE within which float32 may decide either way
STATUSES = {OK: "ok", HISTORY: "history", MISSING: "missing", RANGE: "range", EARLY: "early", NOT_FINITE: "not_finite"}


@dataclass(frozen=True)
class CodeMismatch:
    """A window whose codes differ from NumPy's: how many of them, and how far apart the results are.

    `from_tie` is the largest distance from a tie among the bits that differ: of a hash activation from zero, of a
    number from the threshold of a tree.
    """

    index: int
    kind: str
    tokens: int
    difference: float
    from_tie: float


@dataclass(frozen=True)
class Agreement:
    """How far three runtimes agree on windows, and which rules are broken."""

    windows: Mapping[str, int]  # by kind
    equal_bits: Mapping[str, int]  # windows by pair of runtimes
    tokens: int
    equal_codes: float  # share of tokens whose codes are equal on host and in Python
    largest: Mapping[str, float]  # difference between host and Python where codes agree
    beyond: int = 0  # windows farther off than 10⁻⁵ that pass because NumPy's own float32 is no nearer
    rounding: float = 0.0  # largest error of NumPy's own float32, in the unit of the outputs
    listed: tuple[CodeMismatch, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class StreamResult:
    """Comparison of the runtimes on a stream of readings.

    If statuses, flags or intervals differ, windows and values are not compared, and their fields are None.
    """

    statuses: Mapping[str, int]
    flags: Mapping[str, int]
    intervals: int  # readings with an interval
    window_difference: float | None  # largest difference of a scaled reading; fixed point: in steps
    live_difference: float | None  # in standard deviations, to NumPy on its own windows; informative, no rule
    agreement: Agreement | None
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class ArithmeticResult:
    """What was found for one arithmetic; or the reason why the calibrator does not have it (`absent`)."""

    windows: Agreement | None = None
    streaming: StreamResult | None = None
    ties: float | None = None  # share of the bits of codes in golden and validation windows that are close to a tie
    fixed_point: FixedPointError | None = None  # of the C on this computer, on golden and validation windows
    absent: str = ""

    @property
    def reasons(self) -> list[str]:
        """Why the arithmetic fails; empty if it passes."""
        streaming = [f"streaming: {reason}" for reason in self.streaming.reasons] if self.streaming else []
        return [*(self.windows.reasons if self.windows else ()), *_bias_reasons(self.fixed_point), *streaming]

    def as_dict(self) -> dict[str, Any]:
        """Convert to JSON types."""
        if self.absent:
            return {"absent": self.absent}
        facts = {"passed": not self.reasons, "reasons": self.reasons}
        return facts | {name: value for name, value in asdict(self).items() if name != "absent"}


@dataclass(frozen=True)
class Certificate:
    """The calibrator, board and versions that were compared, and the result for each arithmetic."""

    calibrator: Mapping[str, Any]
    made_with: Mapping[str, str]
    results: Mapping[str, ArithmeticResult]

    @property
    def reasons(self) -> list[str]:
        """Why the certificate fails; empty if it passes."""
        return [f"{name}: {reason}" for name, result in self.results.items() for reason in result.reasons]

    @property
    def passed(self) -> bool:
        """Whether every rule is met."""
        return not self.reasons

    def as_dict(self) -> dict[str, Any]:
        """Convert to JSON types."""
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
    """Compare the runtimes on all windows of the file, and on at least `windows` edge cases and random windows.

    `advance` is called after each window on the board. An arithmetic that the calibrator does not have is reported as
    absent, or raises `NotApplicableError` if it is the only one asked for.
    """
    vectors = all_vectors(calibrator, windows)
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
            results[str(arithmetic)] = _Verifier(arithmetic, package, board).verify(vectors, advance)
    facts = {
        "target": calibrator.target.name,
        "window": calibrator.window,
        "device": package.compiled.device,
        "channels": [channel.name for channel in calibrator.inputs.channels],
    }
    tools = {"board": board.name, "scare": scare.__version__, **{tool: version(tool) for tool in TOOLS}}
    return Certificate(facts, tools, results)


def verify_stream(calibrator: Calibrator, board: Board, arithmetic: Arithmetic) -> StreamResult:
    """Compare the runtimes on a stream of readings only."""
    with TemporaryDirectory() as scratch:
        package = export_calibrator(calibrator, "c", arithmetic, Path(scratch) / "model")
        return _Verifier(arithmetic, package, board).verify_stream()


@dataclass(frozen=True)
class RuntimeOutput:
    """Outputs of one runtime for n windows, float32 [n], and its codes [n, tokens]."""

    outputs: np.ndarray
    codes: np.ndarray

    def equal_bits(self, other: "RuntimeOutput") -> np.ndarray:
        """Whether outputs and codes of each window are equal in every bit, [n]; NaN equals NaN."""
        same_output = self.outputs.view(np.uint32) == other.outputs.view(np.uint32)
        both_nan = np.isnan(self.outputs) & np.isnan(other.outputs)
        return (same_output | both_nan) & (self.codes == other.codes).all(axis=1)


@dataclass(frozen=True)
class ParityCheck:
    """Outputs of the three runtimes for the same n windows; `kinds` [n] are those of vectors.py."""

    kinds: np.ndarray
    python: RuntimeOutput
    host: RuntimeOutput
    board: RuntimeOutput

    @property
    def defined(self) -> np.ndarray:
        """Whether the result of a window must be a finite number, bool [n]."""
        return ~np.isin(self.kinds, UNDEFINED)

    @property
    def code_mismatches(self) -> np.ndarray:
        """Whether NumPy and C decided differently for a token: another hash, or another path in a tree [n, tokens].

        False in windows whose result may be NaN (`defined`): they need not agree.
        """
        return (self.python.codes != self.host.codes) & self.defined[:, None]

    @property
    def differences(self) -> np.ndarray:
        """Absolute differences between NumPy and C, [n]; NaN where one is not finite."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.abs(self.host.outputs.astype(float) - self.python.outputs)

    def agree(self, exact: bool, tolerance: Tolerance, from_tie: Mapping[int, float]) -> Agreement:
        """Check that host and board agree in every bit, and host and NumPy within `tolerance`.

        With `exact` (fixed point), host and NumPy must agree in every bit too. A code consists of decisions, such as
        whether a number is above zero, and rounding may flip those near a tie. `from_tie` says, by index of a window
        whose codes differ between host and NumPy, how far from a tie the farthest flipped decision was.
        """
        equal = {
            "host_board": self.host.equal_bits(self.board),
            "host_python": self.host.equal_bits(self.python),
        }
        reasons = list(self._bit_differences("the board", equal["host_board"]))
        reasons += self._bit_differences("Python", equal["host_python"]) if exact else self._distances(tolerance)
        comparable = self._comparable
        results = self.python.outputs.astype(float)
        within = comparable & tolerance.met(results, self.differences)
        strictly_within = comparable & tolerance.strict(results, self.differences)
        absolute = _finite_max(self.differences[comparable & np.isin(self.kinds, USUAL)])
        largest = {
            "share": _finite_max(tolerance.shares(results, self.differences)[comparable]),
            "absolute": absolute,
            "deviations": absolute / tolerance.deviation,
            "unit": absolute / tolerance.unit,
        }
        mismatches = self.code_mismatches.sum(axis=1)  # tokens of each window [n]
        listed = []
        for index in np.flatnonzero(mismatches).tolist():
            kind, difference = str(self.kinds[index]), float(self.differences[index])
            listed.append(CodeMismatch(index, kind, int(mismatches[index]), difference, from_tie.get(index, 0.0)))
        tokens = int(self.defined.sum()) * self.host.codes.shape[1]
        return Agreement(
            windows=dict(Counter(self.kinds.tolist())),
            equal_bits={name: int(same.sum()) for name, same in equal.items()},
            tokens=tokens,
            equal_codes=1 - int(mismatches.sum()) / tokens if tokens else 1.0,
            largest=largest,
            # Windows that are within the tolerance only because float32 rounds.
            beyond=0 if exact else int((within & ~strictly_within).sum()),
            rounding=tolerance.rounding,
            listed=tuple(listed),
            reasons=tuple(reasons),
        )

    @property
    def _comparable(self) -> np.ndarray:
        """Whether the results of a window are compared by distance, bool [n]: defined, and all codes agree."""
        return np.asarray(self.defined & ~self.code_mismatches.any(axis=1))

    def _bit_differences(self, other: str, equal: np.ndarray) -> Iterator[str]:
        """Report windows that are not `equal` [n] on the host and in the `other` runtime."""
        if not equal.all():
            indices = np.flatnonzero(~equal)
            yield f"host and {other} differ in {len(indices):,} of {len(equal):,} windows; {self._first(indices)}"

    def _distances(self, tolerance: Tolerance) -> Iterator[str]:
        """Report too many different codes, results that are too far apart, and numbers that only host or Python has."""
        mismatches = self.code_mismatches
        count = int(mismatches.sum())
        tokens = int(self.defined.sum()) * mismatches.shape[1]
        if count > max_code_mismatches(tokens):
            yield (
                f"codes of {count:,} of {tokens:,} tokens differ from Python's, more than one in {TOKENS:,};"
                f" {self._first(np.flatnonzero(mismatches.any(axis=1)))}"
            )
        within = tolerance.met(self.python.outputs.astype(float), self.differences)
        off = np.flatnonzero(self._comparable & ~within)
        if len(off):
            yield f"{len(off):,} windows are farther from Python than {FLOAT32_TOLERANCE:g} allows; {self._first(off)}"
        one_sided = np.flatnonzero(np.isfinite(self.host.outputs) != np.isfinite(self.python.outputs))
        if len(one_sided):
            yield (
                f"{len(one_sided):,} windows give a number in Python or in C, but not in both; {self._first(one_sided)}"
            )

    def _first(self, indices: np.ndarray) -> str:
        """Name the first of these windows, as the end of a report about them."""
        return f"the first is window {indices[0]} ({self.kinds[indices[0]]})"


class _Verifier:
    """Runs one arithmetic of a calibrator in all three runtimes, and compares what they give."""

    def __init__(self, arithmetic: Arithmetic, package: Package, board: Board) -> None:
        calibrator = package.compiled.calibrator  # its plan includes what the device adds to the output
        self.calibrator, self.compute_in_float32 = calibrator, package.compiled.compute_in_float32
        self.exact = arithmetic is Arithmetic.FIXED  # then NumPy must give the same bits as C
        self.model, self.plan = package.compiled.c_model, package.compiled.plan
        self.device = package.compiled.device
        # In float32 NumPy computes in double precision, which does not depend on the order of sums.
        self.reference_plan = self.plan if self.exact else self.plan.astype(np.float64)
        target = calibrator.inputs.scaling.target
        self.scale, self.center = float(target.scale[0]), float(target.center[0])
        self.deviation = deviation(calibrator)
        self.rounding = 0.0 if self.exact else rounding(calibrator)
        self.host = HostModel(read_export(package.folder))
        self.board = VirtualModel(self.host.exported, board)
        c_names = {value.name: name for name, value in self.model.values.values() if value.kept}  # by name in the plan
        # With branches no codes are compared: a window runs only one branch, and the other one computes no codes.
        coded = [] if self.plan.branches else coded_steps(self.plan)
        # Steps that compute codes (bits of a hash, paths through trees), by the C name under which the codes are read
        # after a run. A step that only hashes gives codes as its output. Where the output is something else, as the sum
        # of trees, C keeps the codes as a value of their own.
        self.coded_steps = {c_names.get(step.output) or c_names[codes_name(step.output)]: step for step in coded}
        # A board rejects what an int16 window cannot hold.
        channels = calibrator.inputs.channels
        if self.model.program.quanta:
            valid_ranges = [channel.valid for channel in self.model.descriptor.channels]
            channels = tuple(
                replace(channel, low=valid.low, high=valid.high)
                for channel, valid in zip(channels, valid_ranges, strict=True)
            )
        self.inputs = replace(calibrator.inputs, channels=channels)

    def verify(self, vectors: Vectors, advance: Callable[[], object]) -> ArithmeticResult:
        """Compare the runtimes on these windows and on a stream of readings."""
        runs = self.board.run(vectors.windows, advance)
        check = ParityCheck(
            vectors.kinds,
            self._run_numpy(vectors.windows),
            self._c_output(*self.host.run(vectors.windows)),
            self._c_output(runs.outputs, runs.kept),
        )
        sizes = relative_sizes(self.calibrator, vectors.windows)
        tolerance = Tolerance(self.deviation, unit=1 / self.scale, rounding=self.rounding, sizes=sizes)
        agreement = self._agree(check, vectors.windows, tolerance)
        known = vectors.windows[np.isin(vectors.kinds, (GOLDEN, VALIDATION))]
        # How often a number is so near the border of two codes that float32 may take either.
        ties = None if self.exact else share_of_ties(self.plan, known, self.coded_steps.values())
        return ArithmeticResult(agreement, self.verify_stream(), ties, self._fixed_point_error(vectors, check))

    def _fixed_point_error(self, vectors: Vectors, check: ParityCheck) -> FixedPointError | None:
        """Compare C in fixed point with NumPy in float32 on golden and validation windows; None in float32."""
        if not self.exact:  # float32 is what fixed point is compared with
            return None
        known = np.isin(vectors.kinds, (GOLDEN, VALIDATION))
        if not known.any():
            return None
        results = check.host.outputs[known].astype(np.float64) * self.scale + self.center
        return FixedPointError.of(self.calibrator, results - self.compute_in_float32(vectors.windows[known]))

    def _agree(self, check: ParityCheck, windows: np.ndarray, tolerance: Tolerance) -> Agreement:
        """Check the outputs for these windows; where codes differ, find how far the window is from a tie."""
        mismatched = [] if self.exact else np.flatnonzero(check.code_mismatches.any(axis=1)).tolist()
        flipped_bits = check.python.codes ^ check.host.codes  # [n, tokens]
        from_tie = {index: self._farthest_flip(windows[index], flipped_bits[index]) for index in mismatched}
        return check.agree(self.exact, tolerance, from_tie)

    def _farthest_flip(self, window: np.ndarray, flipped_bits: np.ndarray) -> float:
        """Return the largest distance from a tie among the bits of a window's codes that are set in `flipped_bits`.

        `flipped_bits` [tokens] has the codes of all steps side by side. In a path through a tree only the highest bit
        counts: it led to another branch, and the others follow from it.
        """
        farthest, start, steps = 0.0, 0, self.coded_steps.values()
        for step, distances in zip(steps, distances_to_ties(self.plan, window[None], steps), strict=True):
            _, tokens, bits = distances.shape
            shifted = flipped_bits[start : start + tokens, None] >> np.arange(bits, dtype=np.uint32)  # [tokens, bits]
            is_set = (shifted & 1) == 1
            is_highest = shifted == 1  # set, and no bit above it is
            counts = is_highest if CODES[step.kernel].path else is_set
            farthest = max(farthest, float(distances[0][counts].max(initial=0.0)))
            start += tokens
        return farthest

    def _run_numpy(self, windows: np.ndarray) -> RuntimeOutput:
        """Compute, window by window, the outputs and codes that C is compared with.

        Fixed point runs the integers of the same plan. Float32 is computed in double precision, so that only the
        rounding of C counts; where float32 overflows, as it does in C, the float32 result is taken.
        """
        computed = self._compute(self.plan, windows)
        if self.exact:
            return computed
        precise = self._compute(self.reference_plan, windows.astype(np.float64))
        outputs = np.where(np.isfinite(computed.outputs), precise.outputs, computed.outputs)
        return RuntimeOutput(outputs, precise.codes)

    def _compute(self, plan: Plan, windows: np.ndarray) -> RuntimeOutput:
        """Run windows in NumPy with this plan, in chunks that limit the memory; overflows are expected."""
        parts = [windows[start : start + CHUNK] for start in range(0, len(windows), CHUNK)]
        with np.errstate(all="ignore"):
            if plan.branches:  # codes of a plan with branches are not compared
                results = [(run(plan, part), np.empty((len(part), 0), np.uint32)) for part in parts]
            else:
                results = [outputs_and_codes(plan, part, self.coded_steps.values()) for part in parts]
            outputs, codes = (np.concatenate(arrays) for arrays in zip(*results, strict=True))
            return RuntimeOutput(outputs.astype(np.float32), codes)

    def _c_output(self, outputs: np.ndarray, kept: Mapping[str, np.ndarray]) -> RuntimeOutput:
        """Convert outputs [n] and kept values of C to a `RuntimeOutput`: the codes of all steps side by side."""
        codes = [np.empty((len(outputs), 0), np.uint32), *(kept[name] for name in self.coded_steps)]
        return RuntimeOutput(outputs, np.concatenate(codes, axis=1))

    def verify_stream(self) -> StreamResult:
        """Push bad readings into C and into NumPy, and compare answers, windows, and values from the windows of C."""
        readings = stream_rows(self.model.descriptor, self.plan.window)
        host, board = push_all(self.host, readings), push_all(self.board, readings)
        live, centers = self._live_answers(readings)
        counts = {STATUSES[status]: count for status, count in sorted(Counter(host.statuses.tolist()).items())}
        flag_counts = {name: count for name, count in count_flags(host.flags).items() if count}
        intervals = int(np.isfinite(host.low).sum())
        reasons = [*_status_differences(live, host, board), *self._answer_differences(readings, live, host, board)]
        if reasons:
            return StreamResult(counts, flag_counts, intervals, None, None, None, tuple(reasons))
        difference, allowed = self._window_difference(live.windows, host.windows)
        if difference > allowed:
            reasons.append(f"a reading in the window is {difference:.3g} from Python's; {allowed:g} is allowed")
        windows = host.windows
        if self.exact:  # from int16 steps to scaled numbers
            windows = windows.astype(np.float32) / np.array(self.model.program.quanta, np.float32)
        values = self._stream_values(readings, host.ran, windows, centers)
        in_numpy = RuntimeOutput(values, self._run_numpy(windows).codes)
        on_host, on_board = (self._c_output(answers.values[answers.ran], answers.kept) for answers in (host, board))
        target_sd = self.deviation * self.scale
        check = ParityCheck(np.full(len(windows), READING), in_numpy, on_host, on_board)
        tolerance = Tolerance(target_sd, unit=1.0, center=self.center, rounding=self.rounding * self.scale)
        agreement = self._agree(check, windows, tolerance)
        live_difference = float(np.nanmax(np.abs(live.values.astype(float) - host.values))) / target_sd
        reasons += agreement.reasons
        return StreamResult(counts, flag_counts, intervals, difference, live_difference, agreement, tuple(reasons))

    def _answer_differences(
        self, readings: Sequence[StreamRow], live: StreamAnswers, host: StreamAnswers, board: StreamAnswers
    ) -> Iterator[str]:
        """Report flags and intervals in which the host differs from the board or from Python.

        Intervals are looked up by value and flags, so Python's are computed from those of the host: a difference is
        then one of the interval itself.
        """
        # C sets a flag for these two statuses, too; `LiveWindows`, from which Python's flags are, sets neither.
        from_status = np.select([host.statuses == RANGE, host.statuses == NOT_FINITE], [Flag.RANGE, Flag.NOT_FINITE], 0)
        expected_flags = (live.flags & COMPARED_FLAGS) | from_status
        # A reading next to a limit of OUTSIDE may be on either side of it, so it is not compared.
        undecided = self._flags_at(readings, 1 - LIMIT_ROUNDING) != self._flags_at(readings, 1 + LIMIT_ROUNDING)
        differing = {
            "the board": host.flags != board.flags,
            "Python": (host.flags != expected_flags) & ~undecided,
        }
        for name, rows in differing.items():
            if rows.any():
                first = f"the first is reading {np.argmax(rows)}"
                yield f"host and {name} set different flags for {rows.sum():,} of {len(rows):,} readings; {first}"
        intervals, floor = self.model.descriptor.interval, self.model.descriptor.floor
        none = np.full(len(readings), np.nan, np.float32)
        expected = intervals.around(host.values, host.flags, floor) if intervals else (none, none)
        for name, low_and_high in (("the board", (board.low, board.high)), ("Python", expected)):
            if not np.array_equal([host.low, host.high], low_and_high, equal_nan=True):
                yield f"host and {name} give different intervals"

    def _flags_at(self, readings: Sequence[StreamRow], factor: float) -> np.ndarray:
        """Return NumPy's flags [n] if limits of OUTSIDE are multiplied by a factor; zeros without a training range."""
        training_range = self.inputs.training_range
        if training_range is None:
            return np.zeros(len(readings), np.uint32)
        limits: dict[str, Any] = {name: getattr(training_range, name) * factor for name in ("limit", "slow_limit")}
        if self.model.settles:  # the limits of a channel are rounded for the fleet's center, not for one that moved
            ends = ("low", "high", "clamp_low", "clamp_high")
            limits |= {name: tuple((factor * np.array(getattr(training_range, name))).tolist()) for name in ends}
        changed = replace(self.inputs, training_range=replace(training_range, **limits))
        _, flags, _ = self._push_live(readings, changed)
        return flags

    def _live_answers(self, readings: Sequence[StreamRow]) -> tuple[StreamAnswers, np.ndarray]:
        """Answer readings in NumPy from its own windows, without intervals.

        Also returns the center of channel 0 after each reading [n], as `_push_live` does.
        """
        windows, flags, centers = self._push_live(readings, self.inputs)
        statuses = np.array(
            [self._status(Flag(flag), reading.numbers) for flag, reading in zip(flags.tolist(), readings, strict=True)]
        )
        ran = statuses == OK
        none = np.full(len(readings), np.nan, np.float32)
        clamped = self.inputs.training_range.clamp(windows) if self.inputs.training_range else windows
        answers = none.copy()
        answers[ran] = self._stream_values(readings, ran, clamped, centers)
        statuses = np.where(ran & np.isnan(answers), NOT_FINITE, statuses)
        return StreamAnswers(statuses, answers, none, none, flags, clamped, {}), centers

    def _push_live(self, readings: Sequence[StreamRow], inputs: Inputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Push n readings into `LiveWindows`.

        Returns the m windows that may be used, before clamping [m, …]; flags [n]; and the center of channel 0 after
        each reading [n], which moves when a new device settles (NaN for a device whose scaling is known).
        """
        windows = []
        flags = []
        centers = []
        live = LiveWindows(inputs, [self.device])
        for reading in readings:
            if reading.restart:
                live = LiveWindows(inputs, [self.device])
            window, flag = live.push_one(reading.now_ms / 1000, np.asarray(reading.numbers))
            windows.append(window)
            flags.append(flag)
            centers.append(live.state()["device.center"][0, 0] if self.model.settles else np.nan)
        return np.concatenate(windows), np.concatenate(flags), np.array(centers)

    def _status(self, flag: Flag, row: np.ndarray) -> int:
        """Return the status that `scare_calibrate` must return where NumPy sets this flag, if the result is finite."""
        if flag & Flag.EARLY:
            return EARLY
        if flag & Flag.MISSING:
            # The first unusable channel decides, as in scare.c.
            for number, channel in zip(map(float, row), self.inputs.channels, strict=True):
                if not np.isfinite(number) or number in self.inputs.quality.sentinels:
                    return MISSING
                if not max(channel.low, -LARGEST) <= number <= min(channel.high, LARGEST):
                    return RANGE
        return HISTORY if flag & Flag.HISTORY else OK

    def _stream_values(
        self, readings: Sequence[StreamRow], ran: np.ndarray, windows: np.ndarray, centers: np.ndarray
    ) -> np.ndarray:
        """Compute NumPy's values [m] for the readings of a stream on which the model ran.

        `ran` [n] marks them among the n `readings`; `windows` [m, …] are theirs, in the same order; `centers` [n] are
        those of `_push_live`. A `Choice` passes from window to window, so that a branch stays in use for its period; a
        restart or a new history resets it.
        """
        values: list[np.float32] = []
        times = np.array([reading.now_ms for reading in readings]) / 1000  # seconds
        choice = Choice()
        starts = history_starts(times, self.inputs.step_seconds, self.inputs.window, np.nan)
        for index, (reading, has_window) in enumerate(zip(readings, ran.tolist(), strict=True)):
            choice = Choice() if reading.restart or index in starts else choice
            if has_window:
                window = windows[len(values)][None]  # there is a value for each window before this one
                newest = float(np.float32(reading.numbers[0]))
                values.append(self._value(window, choice, self._first_channel(centers[index]), newest))
        return np.array(values, np.float32)

    def _first_channel(self, center: float) -> InputChannel:
        """Return how channel 0 is scaled with this center; NaN stands for the center in the file."""
        channel = self.model.descriptor.channels[0]
        rounded = float(np.float32(center))
        return channel if np.isnan(center) else channel._replace(center=rounded, rest=center - rounded)

    def _value(self, window: np.ndarray, choice: Choice, channel: InputChannel, newest: float) -> np.float32:
        """Calibrate a window [1, …], with the rounding of scare.c; `newest` is the newest reading of channel 0.

        As in `scare_calibrate`, the output of the model is raised to the lower bound, continued in a straight line for
        a reading beyond the clamp, converted to the target's unit, and raised to the floor. NaN if it is not finite.
        """
        descriptor, training = self.model.descriptor, self.model.descriptor.training
        with np.errstate(all="ignore"):
            precise = window if self.exact else window.astype(np.float64)
            output = run(self.reference_plan, precise, choice).astype(np.float32)[0]
            scaled = channel.scale(newest)
            clamped = np.clip(scaled, *np.array(channel.clamp, np.float32))
            if clamped >= training.rising:  # training saw no lower result from these readings up
                output = np.maximum(output, np.float32(training.lowest))
            output = output + (scaled - clamped) * np.float32(training.slope)
            value = output * np.float32(descriptor.target_scale) + np.float32(descriptor.target_center)
        return max(value, np.float32(descriptor.floor)) if np.isfinite(value) else np.float32(np.nan)

    def _window_difference(self, numpy: np.ndarray, c: np.ndarray) -> tuple[float, float]:
        """Compare windows of NumPy and of C: their largest difference, and the largest that is allowed.

        Fixed point counts in steps of the int16 window; float32 is relative to the larger of NumPy's number and 1.
        """
        if self.exact:
            numpy_steps = window_q(numpy, {"quantum": np.array(self.model.program.quanta, np.float32)}, {})
            return float(np.abs(numpy_steps.astype(int) - c).max(initial=0)), 1.0
        relative = np.abs(c.astype(float) - numpy) / np.maximum(np.abs(numpy), 1)
        return float(relative.max(initial=0.0)), READING_TOLERANCE


def _bias_reasons(error: FixedPointError | None) -> Iterator[str]:
    """Report that the mean of fixed point differs from that of float32 by more than is negligible.

    Negligible is less than a small share of the differences' standard deviation and of the target's, and whatever the
    tolerance of float32 allows. Fewer than 1 / `MEAN_OF_SD`² windows say nothing: the standard error of their mean is
    larger than the limit.
    """
    if error is None or error.windows * MEAN_OF_SD**2 < 1:
        return
    by_scatter, by_target = MEAN_OF_SD * error.sd, MEAN_OF_TARGET * error.deviation
    if abs(error.mean) > max(min(by_scatter, by_target), FLOAT32_TOLERANCE * error.deviation):
        yield (
            f"fixed point differs from float32 by {error.mean:.3g} in the mean of {error.windows:,} windows; allowed is"
            f" {MEAN_OF_SD:g} of the difference's standard deviation ({by_scatter:.3g}), and {MEAN_OF_TARGET:g} of the"
            f" target's ({by_target:.3g})"
        )


def _status_differences(live: StreamAnswers, host: StreamAnswers, board: StreamAnswers) -> Iterator[str]:
    """Report statuses that differ, and values that do not fit the status: a reading has one exactly if it is OK."""
    count = len(host.statuses)
    for name, other in (("the board", board), ("Python", live)):
        differing = np.flatnonzero(host.statuses != other.statuses)
        if len(differing):
            index = int(differing[0])
            on_host, on_other = (STATUSES[int(answers.statuses[index])] for answers in (host, other))
            first = f"the first is reading {index}: {on_host} and {on_other}"
            yield f"host and {name} report different statuses for {len(differing):,} of {count:,} readings; {first}"
    for name, answers in (("host", host), ("the board", board)):
        has_value = ~np.isnan(answers.values)
        if (has_value != (answers.statuses == OK)).any():
            yield f"{name} gives a value without the status ok, or the status ok without a value"
    if not (host.statuses == OK).any():
        yield "no reading got a value"


def _finite_max(numbers: np.ndarray) -> float:
    """Return the largest finite number; 0 if there is none."""
    finite = numbers[np.isfinite(numbers)]
    return float(finite.max(initial=0.0))
