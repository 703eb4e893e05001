"""Doubts about a co-location before anything is trained: what in the data says that the result would mean nothing.

Each doubt is a sentence with its evidence and what to look at. An unrelated reference and a leaking channel make any
score worthless, so they stop `scare train` and `compare`; the others are printed.
Comes from `colocation`; goes to `scare train`, `scare compare` and `scare.fit`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from scare.data.clock import LEAST_OVERLAP, ClockOffset, find_clock_offset
from scare.data.flags import usable_values
from scare.data.readings import REFERENCE, Channel, Readings
from scare.errors import DataError
from scare.words import duration

LEAST_ROWS = 100  # with fewer, nothing is judged
NO_MORE_THAN_CHANCE = 0.02  # R² of a regression on all channels: below, a shifted reference may do as well by chance
SHIFTS = 40  # of the reference against the sensor, to see what chance does
EQUAL_SHARE = 0.95  # of rows in which a channel is the reference
COARSE = 0.5  # standard deviations: a sensor with larger steps tells little
STUCK_SECONDS = 86400.0  # for which a reference may keep a value
RATIO_CHANGE = 3.0  # between reference and sensor, at once: a unit was changed
PARTS, LEAST_PARTS = 16, 3  # of a period, between which a change of the unit is looked for; on each side of it
TOGETHER = 0.5  # correlation within a part
LAG_SECONDS, LEAST_GAIN = 600.0, 0.05  # a shorter shift is the sensor's own lag; of the correlation
FEW_VALUES = 10
FEW_DAYS = 4.0


@dataclass(frozen=True)
class Doubt:
    """A reason to distrust a co-location; a `fatal` one makes every score meaningless."""

    text: str
    fatal: bool = False


def check_colocation(readings: Sequence[Readings]) -> list[Doubt]:
    """Find the doubts about all devices; of each kind the first device is named."""
    pairs = [pair for one in readings if (pair := _pair(one)) is not None]
    if not pairs:
        return []
    doubts = list(_unrelated(pairs))
    for check in (_leaks, _coarse, _stuck, _changes_unit, _shifted):
        found = [(one.readings.device, text) for one in pairs if (text := check(one))]
        if found:
            device, text = found[0]
            others = f" ({len(found)} of {len(pairs)} devices)" if len(found) > 1 else ""
            doubts.append(Doubt(f"{device}: {text}{others}", fatal=check is _leaks))
    if (days := max(np.ptp(one.times) for one in pairs) / 86400) < FEW_DAYS:
        doubts.append(Doubt(f"The readings cover {days:.2g} days: what did not happen in them cannot be learned."))
    return doubts


@dataclass(frozen=True)
class _Pair:
    """The rows of a device with all channels and a reference."""

    readings: Readings
    times: np.ndarray  # [rows]
    values: np.ndarray  # [rows, channels]
    targets: np.ndarray  # [rows]


def _pair(readings: Readings) -> _Pair | None:
    values = usable_values(readings.values, readings.channels)[0]
    values = values[:, np.isfinite(values).mean(axis=0) > 0.1]  # a dead channel is left out elsewhere
    known = np.isfinite(values).all(axis=1) & np.isfinite(readings.targets)
    if known.sum() < LEAST_ROWS or not values.shape[1]:
        return None
    return _Pair(readings, readings.times[known], values[known], readings.targets[known])


def _unrelated(pairs: Sequence[_Pair]) -> Iterator[Doubt]:
    """Whether no channel explains more of the reference than it explains of the reference shifted at random.

    A shift keeps the autocorrelation, by which two unrelated series seem to agree.
    """
    random = np.random.default_rng(0)
    total = sum(float(((one.targets - one.targets.mean()) ** 2).sum()) for one in pairs)
    if not total:  # a constant reference, which a split refuses
        return

    def explained(shares: Sequence[float]) -> float:
        left = sum(_unexplained(one, share) for one, share in zip(pairs, shares, strict=True))
        return 1 - left / total

    own = explained([0.0] * len(pairs))
    if own > NO_MORE_THAN_CHANCE:
        return
    chance = [explained(random.uniform(0.1, 0.9, len(pairs)).tolist()) for _ in range(SHIFTS)]
    if own < np.quantile(chance, 0.95):
        yield Doubt(
            f"The reference has nothing to do with the sensor: all channels together explain {100 * own:.2g} % of its"
            f" variation, and up to {100 * max(chance):.2g} % if it is shifted at random. Check columns and times.",
            fatal=True,
        )


def _unexplained(pair: _Pair, share: float) -> float:
    """Squares that a regression on all channels leaves of the reference, rolled by a share of its rows."""
    targets = np.roll(pair.targets, int(share * len(pair.targets)))
    columns = np.column_stack([np.ones(len(targets)), pair.values])
    return float(((targets - columns @ np.linalg.lstsq(columns, targets, rcond=None)[0]) ** 2).sum())


def _leaks(pair: _Pair) -> str:
    for column, channel in zip(pair.values.T, pair.readings.channels, strict=False):
        if pair.targets.std() > 0 and np.mean(column == pair.targets) >= EQUAL_SHARE:
            return f"{channel.name} is the reference itself; leave it out with --channels."
    return ""


def _coarse(pair: _Pair) -> str:
    first, name = pair.values[:, 0], pair.readings.channels[0].name
    steps = np.diff(np.unique(first))
    if not len(steps):
        return f"{name} never changes."
    if len(steps) < FEW_VALUES and np.median(steps) > COARSE * first.std():
        return f"{name} has only {len(steps) + 1} different values, {np.median(steps):.3g} apart."
    return ""


def _stuck(pair: _Pair) -> str:
    changes = np.flatnonzero(np.diff(pair.targets)) + 1
    edges = np.concatenate([[0], changes, [len(pair.targets)]])
    lengths = pair.times[edges[1:] - 1] - pair.times[edges[:-1]]
    lengths[np.diff(edges) * pair.readings.step_seconds < 0.5 * lengths] = 0  # equal before and after a gap
    # The lowest value for days is no rain, or the detection limit.
    lengths[(pair.targets[edges[:-1]] == 0) | (pair.targets[edges[:-1]] == pair.targets.min())] = 0
    longest = int(lengths.argmax())
    if lengths[longest] < STUCK_SECONDS:
        return ""
    start = np.datetime64(int(pair.times[edges[longest]]), "s").item()
    value, length = pair.targets[edges[longest]], duration(float(lengths[longest]))
    return f"the reference stays at {value:.4g} for {length} from {start:%Y-%m-%d %H:%M}."


def _changes_unit(pair: _Pair) -> str:
    """Whether the reference's spread beside the sensor's changes at once, as when a logger changes units.

    Only parts of the period are compared in which the two go together.
    """
    cuts = np.linspace(0, len(pair.targets), PARTS + 1).astype(int)
    ratios, starts = [], []
    for start, end in pairwise(cuts):
        x, y = pair.values[start:end, 0], pair.targets[start:end]
        if x.std() > 0 and y.std() > 0 and abs(np.corrcoef(x, y)[0, 1]) > TOGETHER:
            ratios.append(float(np.log(y.std() / x.std())))
            starts.append(start)
    changes = [
        max(min(ratios[at:]) - max(ratios[:at]), min(ratios[:at]) - max(ratios[at:]))
        for at in range(LEAST_PARTS, len(ratios) - LEAST_PARTS + 1)
    ]
    if not changes or max(changes) < np.log(RATIO_CHANGE):
        return ""
    at = LEAST_PARTS + int(np.argmax(changes))
    before, after = (float(np.exp(np.median(side))) for side in (ratios[:at], ratios[at:]))
    day = f"{np.datetime64(int(pair.times[starts[at]]), 's').item():%Y-%m-%d}"
    return f"the reference divided by the sensor changes from {before:.3g} to {after:.3g} about {day}: another unit?"


def _shifted(pair: _Pair) -> str:
    if np.ptp(pair.times) < LEAST_OVERLAP:
        return ""
    first = pair.readings.channels[0]
    channel = pair.readings.reference or Channel(REFERENCE)
    truth = pair.readings.frame.select("time", REFERENCE).rename({REFERENCE: "truth"})
    station = Readings("reference", truth.drop_nulls(), (replace(channel, name="truth"),))
    try:
        offset: ClockOffset = find_clock_offset(pair.readings, station, first.name)
    except DataError:
        return ""
    gain = abs(offset.correlation) - abs(offset.correlation_at_zero)
    if not offset.is_clear or abs(offset.seconds) < LAG_SECONDS or gain < LEAST_GAIN:
        return ""
    return (
        f"the sensor follows the reference better when it is shifted by {duration(offset.seconds, signed=True)}"
        f" (correlation {offset.correlation:.2f} instead of {offset.correlation_at_zero:.2f}): is a clock wrong?"
    )
