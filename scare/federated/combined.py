"""A site's own regression, drawn towards the federation's: the longer its co-location, the more it is its own.

    rows of the site ───────────┐
                                ├ ways to combine them ─ the one with the least error ─ combined calibrator
    regression of all sites ────┘    errors: forward in time at this site, and at the other sites (task "ways")

Boxes of one kind differ: the regression of all sites fits no box well, and one of few rows fits only these. A way to
combine both says what is the site's own from the first row on (nothing, the offset, offset and gain), and how many rows
the federation counts for in the rest. Ridge regressions of the site alone are among the ways.

Sites with many rows try all ways on short co-locations of their own, and send the mean error of each. So a site that
has a few days of rows need not choose by these alone, and sends nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.intervals import CalibrationErrors, Intervals, fit_intervals
from scare.calibrator.linear import linear_calibrator
from scare.calibrator.model_card import SHARED_FACT
from scare.calibrator.moments import Moments, Solution
from scare.data.readings import Readings
from scare.errors import DataError
from scare.federated.rows import Rows, collect_rows, column_sets
from scare.schema import Finite, convert
from scare.windowing.scaling import Affine
from scare.windowing.windows import STRICT
from scare.words import plural

STRENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e4, 1e5, np.inf)  # rows that the federation counts for
PENALTIES_ALONE = (1e-4, 1e-2)  # of a site's own ridge regressions
FORWARD_SHARES = (0.4, 0.6, 0.8, 1.0)  # of a site's rows: those before each are fitted, those up to the next are tested
SHORT_DAYS = (2.0, 4.0, 7.0, 14.0)  # lengths of co-locations that sites with many rows try
PLACES = (0.0, 0.5, 1.0)  # where in a site's period a short one is, from as early to as late as possible
FEWEST_ROWS = 5  # to fit and to test
DAY = 86_400.0  # seconds
LEAST_ERROR = 1e-6  # scaled; smaller ones count as equal
FEDERATED, ALONE = "the federation's", "alone"

Way = Callable[[Moments], Solution]
Split = tuple[np.ndarray, np.ndarray]  # masks [n] of the rows to fit, and of later ones to test


@dataclass(frozen=True)
class SharedRegression:
    """The federation's regression of scaled columns, and how well each way to combine it served its sites.

    `errors` has the logarithm of the scaled RMSE of each way, the mean over sites; it is empty if no site sent any.
    """

    channels: int
    inputs: tuple[int, ...]  # indices of its columns
    weights: tuple[Finite, ...]  # [columns]
    bias: Finite
    errors: Mapping[str, Finite]

    def __post_init__(self) -> None:
        columns = len(self.weights)
        if not (1 <= self.channels <= columns and self.inputs and 0 <= min(self.inputs) <= max(self.inputs) < columns):
            raise DataError("the regression of the federation names a column that it does not have")

    @property
    def solution(self) -> Solution:
        """The weights [columns] and the bias of the regression."""
        return np.array(self.weights), self.bias


def combine(calibrator: Calibrator, readings: Sequence[Readings], others: Solution | None = None) -> Calibrator:
    """Make a site's calibrator from a federation's and the site's readings, in the way with the least error.

    Its facts tell the way, and RMSE forward in time of the site alone, of the federation and of both combined.
    `others` is the regression of all other sites, if this one takes part: it stands for the federation where errors
    are estimated, because the regression of all sites has seen these rows.
    """
    if SHARED_FACT not in calibrator.facts:
        raise DataError("this calibrator has no regression to combine with; take one that 'scare federate' made")
    shared = convert(calibrator.facts[SHARED_FACT], SharedRegression, SHARED_FACT, DataError)
    fleet, target = calibrator.inputs.scaling.fleet, calibrator.inputs.scaling.target
    center, scale = float(target.center[0]), float(target.scale[0])
    rows = collect_rows(readings).scaled(fleet.center, fleet.scale, center, scale, len(shared.weights))
    splits = forward_splits(rows.times)
    forward_ways = make_ways(shared, others or shared.solution)
    found = mean_errors(rows, splits, forward_ways)
    # Of both, errors are logarithms: here, and at the other sites relative to their mean.
    chosen = min(found, key=lambda name: found[name] + shared.errors.get(name, 0.0))
    errors = {"alone": min(error for name, error in found.items() if name.startswith(ALONE))}
    errors |= {"federated": found[FEDERATED], "combined": found[chosen]}
    rmse = {who: round(scale * float(np.exp(error)), 6) for who, error in errors.items()}
    weights, bias = make_ways(shared, shared.solution)[chosen](rows.moments)
    # Columns after the channels are their products, which make the line a curve.
    curve = weights[shared.channels :] if np.any(weights[shared.channels :]) else None
    inputs = replace(calibrator.inputs, window=1, policy=STRICT)
    made = linear_calibrator(
        inputs, calibrator.target, weights[: shared.channels], bias, "combined ridge", curve
    ).with_facts(way=chosen, rows=len(rows), forward_rmse=rmse)
    windows = calibrator.golden.windows[:, -1:]  # their newest rows; they were drawn, not taken from a site
    intervals = _learn_intervals(rows, splits, forward_ways[chosen], target) or calibrator.intervals
    return replace(made, golden=Sample(windows, made.compute(windows)), intervals=intervals)


def make_ways(shared: SharedRegression, solution: Solution) -> dict[str, Way]:
    """Return all ways to combine a site's moments with the federation's `solution`, by name."""
    weights, _ = solution
    inputs = np.array(shared.inputs)
    # Directions in (bias, weights): the bias alone, and all weights together in proportion.
    offset, gain = np.eye(1 + len(inputs))[0], np.array([0.0, *weights[inputs]])
    length = np.linalg.norm(gain)
    # What is the site's own from the first row on: the directions in which a change costs nothing.
    own = {
        "": [],
        "own offset, ": [offset],
        "own offset and gain, ": [offset, *([gain / length] if length > 0 else [])],
    }
    found: dict[str, Way] = {}
    for what, directions in own.items():
        free = np.array(directions).reshape(-1, 1 + len(inputs))
        for strength in STRENGTHS:
            rest = f"the federation as {strength:g} rows" if np.isfinite(strength) else "the rest the federation's"
            name = f"{what}{rest}" if what or np.isfinite(strength) else FEDERATED
            found[name] = partial(solve_towards, solution, inputs, free, strength)
    for name, columns in column_sets(len(weights), shared.channels).items():
        for penalty in PENALTIES_ALONE:
            found[f"{ALONE}: {name}, penalty {penalty:g}"] = partial(Moments.solve, penalty=penalty, inputs=columns)
    return found


def solve_towards(solution: Solution, inputs: np.ndarray, free: np.ndarray, strength: float, own: Moments) -> Solution:
    """Fit a site's rows, whose moments are `own`, with a penalty on any change from `solution`.

    Minimises  Σ (y - b - w·x)² + strength · |P (change of b and w[inputs])|². So `solution` weighs about as much as
    `strength` rows. The projection P removes the directions `free`, orthonormal [directions, 1 + inputs]: a change
    along them costs nothing, and is the only one that an infinite strength allows.
    """
    weights, bias = solution
    removed = free.T @ free
    penalised = np.eye(1 + len(inputs)) - removed
    mean = np.array([1.0, *own.mean[inputs]])
    gram = np.outer(mean, mean)  # mean of (1, x) (1, x)ᵀ over rows
    gram[1:, 1:] += own.covariance[np.ix_(inputs, inputs)]
    wanted = own.target_mean * mean  # mean of (1, x) y
    wanted[1:] += own.target_covariance[inputs]
    missing = wanted - gram @ [bias, *weights[inputs]]
    # Each direction of change is scaled by its width, so that penalties are 1: free ones have the width 1, penalised
    # ones 1 / √strength, which is 0 if the strength is infinite.
    width = removed + penalised / np.sqrt(strength)
    change = width @ np.linalg.lstsq(own.count * width @ gram @ width + penalised, own.count * width @ missing)[0]
    moved = weights.copy()
    moved[inputs] += change[1:]
    return moved, bias + float(change[0])


def forward_splits(times: np.ndarray) -> list[Split]:
    """Return splits (rows to fit, rows to test) of a site's rows: earlier ones are fitted, the next fifth tested."""
    borders = [times[int(share * len(times)) - 1] for share in FORWARD_SHARES] if len(times) else []
    return [(times <= start, (times > start) & (times <= end)) for start, end in pairwise(borders)]


def short_splits(times: np.ndarray) -> list[Split]:
    """Return splits (rows to fit, rows to test): a short co-location, and all that came later, at least as long."""
    first, last = times[0], times[-1]
    lengths = [days * DAY for days in SHORT_DAYS if 2 * days * DAY <= last - first] or [(last - first) / 2]
    splits = []
    for length in lengths:
        for place in PLACES:
            start = first + place * (last - first - 2 * length)
            splits.append(((times >= start) & (times < start + length), times >= start + length))
    return splits


def mean_errors(rows: Rows, splits: Sequence[Split], ways: Mapping[str, Way]) -> dict[str, float]:
    """Return, for each way, the logarithm of its RMSE (in scaled units) on the tested rows, as the mean over splits."""
    parts = [(rows.where(earlier), rows.where(later)) for earlier, later in splits]
    moments = [
        (earlier.moments, later.moments) for earlier, later in parts if min(len(earlier), len(later)) >= FEWEST_ROWS
    ]
    if not moments:
        # The last rows, which are only tested, must be `FEWEST_ROWS` at least.
        raise DataError(
            f"{plural(len(rows), 'complete row')} with a reference are too few to tell how well anything fits them;"
            f" it takes about {round(FEWEST_ROWS / (1 - FORWARD_SHARES[-2]))}"
        )
    found = {}
    for name, solve in ways.items():
        squares = [later.mean_squared_error(solve(earlier)) for earlier, later in moments]
        found[name] = float(np.mean(np.log(np.sqrt(np.maximum(squares, LEAST_ERROR**2)))))
    return found


def _learn_intervals(rows: Rows, splits: Sequence[Split], way: Way, target: Affine) -> Intervals | None:
    """Learn intervals from the errors of one way on the tested rows of splits; None if they are too few."""
    tested = [(rows.where(later), way(rows.where(earlier).moments)) for earlier, later in splits]
    values = np.concatenate([later.columns @ weights + bias for later, (weights, bias) in tested])
    references = np.concatenate([later.targets for later, _ in tested])
    times = np.concatenate([later.times for later, _ in tested])
    center, scale = float(target.center[0]), float(target.scale[0])
    no_flags = np.zeros(len(times), np.uint32)
    return fit_intervals([CalibrationErrors(center + scale * values, center + scale * references, times, no_flags)])
