"""When runtimes agree: the certificate's rules, on what each of them gave for the same windows.

Whole numbers must be equal in every bit everywhere. In float32 host and board must be; NumPy adds in another order, so
its hash codes must be equal for at least 99.99 % of all tokens, and its results within the tolerance wherever the codes
are. The tolerances are in `parity`. Comes from `certificate`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from scare.board.trials import UNDEFINED, USUAL
from scare.calibrator.parity import FLOAT32_TOLERANCE, TOKENS, Tolerance, most_unlike


@dataclass(frozen=True)
class Computed:
    """What one runtime gave for n windows: outputs, float32 [n], and hash codes [n, tokens]."""

    outputs: np.ndarray
    codes: np.ndarray

    def equal_bits(self, other: "Computed") -> np.ndarray:
        """For which windows all is the same; what is not a number is the same as its like. [n]."""
        outputs = self.outputs.view(np.uint32) == other.outputs.view(np.uint32)
        unknown = np.isnan(self.outputs) & np.isnan(other.outputs)
        return (outputs | unknown) & (self.codes == other.codes).all(axis=1)


@dataclass(frozen=True)
class Listed:
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
    listed: tuple[Listed, ...] = ()
    reasons: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Runtimes:
    """What NumPy, the C on this computer and the C on the board gave for windows of these kinds [n]."""

    kinds: np.ndarray
    python: Computed
    host: Computed
    board: Computed

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
        if count > most_unlike(tokens):
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

    def _list(self, from_tie: Mapping[int, float]) -> Iterator[Listed]:
        unlike, differences = self.unlike.sum(axis=1), self.differences
        for index in np.flatnonzero(unlike).tolist():
            facts = str(self.kinds[index]), int(unlike[index]), float(differences[index])
            yield Listed(index, *facts, from_tie.get(index, 0.0))

    def _first(self, places: np.ndarray) -> str:
        return f"the first is window {places[0]} ({self.kinds[places[0]]})"


def _most(numbers: np.ndarray) -> float:
    finite = numbers[np.isfinite(numbers)]
    return float(finite.max(initial=0.0))
