"""Doubts about a co-location before anything is trained: what in the data says that the result would mean nothing.

Each doubt is a sentence with its evidence and what to look at. An unrelated reference, a leaking channel and a device
that is there twice make any score worthless, so they stop `scare train` and `compare`; the others are printed.
Comes from `colocation`; goes to `scare train`, `scare compare` and `scare.fit`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np

from scare.data.clock import LEAST_OVERLAP, ClockOffset, find_clock_offset
from scare.data.column_kind import describe_filled, describe_sorted, is_reference_name, words
from scare.data.flags import usable_values
from scare.data.quantities import find_quantity, is_called
from scare.data.readings import REFERENCE, Channel, Readings
from scare.errors import DataError
from scare.words import duration

LEAST_ROWS = 100  # with fewer, nothing is judged
NO_MORE_THAN_CHANCE = 0.02  # R² of a regression on all channels: below, a shifted reference may do as well by chance
SHIFTS = 40  # of the reference against the sensor, to see what chance does
EQUAL_SHARE = 0.95  # of rows in which a channel is the reference, or a device another one
EQUAL_TO = 1e-3  # of the reference's spread: closer than any two instruments
COARSE = 0.5  # standard deviations: a sensor with larger steps tells little
STUCK_SECONDS = 86400.0  # for which a reference may keep a value
RATIO_CHANGE = 3.0  # between reference and sensor, at once: a unit was changed
PARTS, LEAST_PARTS = 16, 3  # of a period, between which a change of the unit is looked for; on each side of it
TOGETHER = 0.5  # correlation within a part
LAG_SECONDS, LEAST_GAIN = 600.0, 0.05  # a shorter shift is the sensor's own lag; of the correlation
FEW_VALUES = 10
MANY_VALUES = 20  # different ones, that something which happens to hardly change does not have
SATURATED_SHARE = 0.02  # of the rows at the highest value
RARE = 3.0  # times as many rows as at the next values
REPEATED_SHARE = 0.9  # of a reference's changes that are a whole number of steps, above one, apart
FAR_RATIO = 30.0  # between the spreads of a sensor and of a reference that measure the same
FEW_DAYS = 4.0


@dataclass(frozen=True)
class Doubt:
    """A reason to distrust a co-location; a `fatal` one makes every score meaningless."""

    text: str
    fatal: bool = False


def check_colocation(readings: Sequence[Readings]) -> list[Doubt]:
    """Find the doubts about all devices; of each kind the first device is named."""
    pairs = [pair for box in readings if (pair := _pair(box)) is not None]
    if not pairs:
        return []
    doubts = [*_unrelated(pairs), *_copied(readings), *_swapped(pairs[0])]
    for check in CHECKS:
        messages = [(pair.readings.device, text) for pair in pairs if (text := check(pair))]
        if messages:
            device, text = messages[0]
            others = f" ({len(messages)} of {len(pairs)} devices)" if len(messages) > 1 else ""
            doubts.append(Doubt(f"{device}: {text}{others}", fatal=check is _leaks))
    if (days := max(np.ptp(pair.times) for pair in pairs) / 86400) < FEW_DAYS:
        doubts.append(Doubt(f"The readings cover {days:.2g} days: what did not happen in them cannot be learned."))
    return doubts


@dataclass(frozen=True)
class _Pair:
    """The rows of a device with all channels and a reference."""

    readings: Readings
    times: np.ndarray  # [rows]
    channels: tuple[Channel, ...]  # those that are not dead
    values: np.ndarray  # [rows, channels]
    targets: np.ndarray  # [rows]


def _pair(readings: Readings) -> _Pair | None:
    """Select a device's complete rows with a reference; None if there are fewer than `LEAST_ROWS`."""
    values = usable_values(readings.values, readings.channels)[0]
    alive = np.isfinite(values).mean(axis=0) > 0.1  # a dead channel is left out elsewhere
    values = values[:, alive]
    channels = tuple(channel for channel, lives in zip(readings.channels, alive, strict=True) if lives)
    known = np.isfinite(values).all(axis=1) & np.isfinite(readings.targets)
    if known.sum() < LEAST_ROWS or not values.shape[1]:
        return None
    return _Pair(readings, readings.times[known], channels, values[known], readings.targets[known])


def _unrelated(pairs: Sequence[_Pair]) -> Iterator[Doubt]:
    """Yield a doubt if no channel explains more of the reference than of the same reference shifted at random.

    A shift keeps the autocorrelation, by which two unrelated series seem to agree.
    """
    random = np.random.default_rng(0)
    total = sum(float(((pair.targets - pair.targets.mean()) ** 2).sum()) for pair in pairs)
    if not total:  # a constant reference, which a split refuses
        return

    def explained(shares: Sequence[float]) -> float:
        left = sum(_unexplained(pair, share) for pair, share in zip(pairs, shares, strict=True))
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
    """Regress the reference, rolled by a share of its rows, on all channels; return the residual sum of squares."""
    targets = np.roll(pair.targets, int(share * len(pair.targets)))
    columns = np.column_stack([np.ones(len(targets)), pair.values])
    return float(((targets - columns @ np.linalg.lstsq(columns, targets, rcond=None)[0]) ** 2).sum())


def _copied(readings: Sequence[Readings]) -> Iterator[Doubt]:
    """Yield a doubt if two devices have the same readings at the same times, as two copies of a file."""
    for box, copy in combinations(readings, 2):
        _, rows, copied_rows = np.intersect1d(box.times, copy.times, return_indices=True)
        values = box.values[rows]
        known = np.isfinite(values).all(axis=1)
        equal = (values == copy.values[copied_rows])[known].all(axis=1)
        if len(equal) >= LEAST_ROWS and equal.mean() >= EQUAL_SHARE and len(np.unique(values[known, 0])) >= MANY_VALUES:
            yield Doubt(
                f"{box.device} and {copy.device} have the same readings in {100 * equal.mean():.0f} % of their"
                f" {len(equal):,} common rows: is a file there twice? Leave one out.",
                fatal=True,
            )
            return


def _swapped(pair: _Pair) -> Iterator[Doubt]:
    """Yield a doubt if sensor and reference are called as each other, or measure different things by their names."""
    first, truth = pair.readings.channels[0], pair.readings.reference or Channel(REFERENCE)
    if _is_station(first.name) and not _is_station(truth.name):
        yield Doubt(f"{first.name} is calibrated to {truth.name}: are sensor and reference in each other's place?")
    sensed, known = find_quantity(first.name), find_quantity(truth.name)
    if sensed is None or known is None or sensed == known or {"PM", "OX"} & {sensed.name, known.name}:
        return
    other_does = any(is_called(channel.name, known.name) for channel in pair.channels)
    if not other_does and {sensed.family, known.family} <= {"particles", "gas"}:
        yield Doubt(f"{first.name} measures {sensed.name}, and the reference {truth.name} is {known.name}.")


def _is_station(name: str) -> bool:
    return is_reference_name(name) or bool(words(name) & {"station", "reference"})


def _leaks(pair: _Pair) -> str:
    """Return a message if a channel is the reference itself; else empty, as from the other checks."""
    for column, channel in zip(pair.values.T, pair.channels, strict=True):
        if pair.targets.std() > 0 and np.mean(column == pair.targets) >= EQUAL_SHARE:
            return f"{channel.name} is the reference itself; leave it out with --channels."
    return ""


def _derived(pair: _Pair) -> str:
    """Return a message if a channel is the reference in another unit."""
    truth, close = pair.targets, EQUAL_TO * float(pair.targets.std())
    for column, channel in zip(pair.values.T, pair.channels, strict=True):
        gain, offset = _robust_line(column, truth)
        if gain and np.mean(np.abs(truth - gain * column - offset) < close) >= EQUAL_SHARE:
            line = f"{gain:.4g} times {channel.name} {'-+'[offset >= 0]} {abs(offset):.4g}"
            return f"the reference is {line}, closer than two instruments agree: is one computed from the other?"
    return ""


def _robust_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return gain and offset of the line from x to y, by medians over pairs of rows half the series apart."""
    half = len(x) // 2
    run, rise = x[half : 2 * half] - x[:half], y[half : 2 * half] - y[:half]
    gain = float(np.median(rise[run != 0] / run[run != 0])) if run.any() else 0.0
    return gain, float(np.median(y - gain * x))


def _not_measured(pair: _Pair) -> str:
    """Return a message if a column was sorted by itself, or a gap of it filled."""
    columns = [(channel.name, column) for channel, column in zip(pair.channels, pair.values.T, strict=True)]
    columns.append(("the reference", pair.targets))
    messages = (
        text for name, values in columns for text in (describe_sorted(name, values), describe_filled(name, values))
    )
    return next(filter(None, messages), "")


def _coarse(pair: _Pair) -> str:
    """Return a message if the sensor's values are few and far apart."""
    first, name = pair.values[:, 0], pair.channels[0].name
    steps = np.diff(np.unique(first))
    if not len(steps):
        return f"{name} never changes."
    if len(steps) < FEW_VALUES and np.median(steps) > COARSE * first.std():
        return f"{name} has only {len(steps) + 1} different values, {np.median(steps):.3g} apart."
    return ""


def _saturated(pair: _Pair) -> str:
    """Return a message if the sensor is often at its highest value, and seldom just below it."""
    values, counts = np.unique(pair.values[:, 0], return_counts=True)
    share = counts[-1] / len(pair.targets)
    if len(values) < MANY_VALUES or share < SATURATED_SHARE or counts[-1] < RARE * counts[-FEW_VALUES:-1].max():
        return ""
    name = pair.channels[0].name
    return f"{name} is {values[-1]:.4g}, its highest value, in {100 * share:.0f} % of the rows: is that its limit?"


def _repeats(pair: _Pair) -> str:
    """Return a message if the reference only changes every few rows, as hourly means do that are repeated."""
    step = pair.readings.step_seconds
    changes = pair.times[1:][np.diff(pair.targets) != 0]
    gaps = np.round(np.diff(changes) / step).astype(int)
    usual = int(np.median(gaps)) if len(gaps) >= MANY_VALUES else 1
    if usual == 1 or np.mean(gaps % usual == 0) < REPEATED_SHARE or np.mean(np.diff(pair.values[:, 0]) != 0) < 0.5:
        return ""
    return (
        f"the reference changes every {duration(usual * step)} and the sensor every {duration(step)}: train on means of"
        f" the longer time (--set data.step={usual * step:g})."
    )


def _other_scale(pair: _Pair) -> str:
    """Return a message if sensor and reference of one quantity differ in sign or by orders of magnitude."""
    first, truth = pair.channels[0], pair.readings.reference or Channel(REFERENCE)
    sensed, known = find_quantity(first.name), find_quantity(truth.name)
    same = sensed == known or (known is None and sensed is not None and sensed.family == "particles")
    x, y = pair.values[:, 0], pair.targets
    if sensed is None or not (same and sensed.unit and x.std() and y.std()):
        return ""
    correlation = np.corrcoef(x, y)[0, 1]
    if abs(correlation) < TOGETHER:
        return ""
    if correlation < 0:
        return f"the reference falls when {first.name} rises: has one of them the wrong sign?"
    ratio = float(y.std() / x.std())
    if 1 / FAR_RATIO < ratio < FAR_RATIO:
        return ""
    return f"the reference varies {ratio:.3g} times as much as {first.name}: another unit, or not {sensed.name}?"


def _stuck(pair: _Pair) -> str:
    """Return a message if the reference keeps one value for days."""
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
    value = pair.targets[edges[longest]]
    length = duration(float(lengths[longest]))
    return f"the reference stays at {value:.4g} for {length} from {start:%Y-%m-%d %H:%M}."


def _changes_unit(pair: _Pair) -> str:
    """Return a message if the reference's spread beside the sensor's changes at once, as when a logger changes units.

    Only parts of the period are compared in which the two go together.
    """
    cuts = np.linspace(0, len(pair.targets), PARTS + 1).astype(int)
    ratios, starts = [], []
    for start, end in pairwise(cuts):
        x, y = pair.values[start:end, 0], pair.targets[start:end]
        if x.std() > 0 and y.std() > 0 and abs(np.corrcoef(x, y)[0, 1]) > TOGETHER:
            ratios.append(float(np.log(y.std() / x.std())))
            starts.append(start)
    # For each border between two parts: how far the ratios before it and after it are apart; negative if they overlap.
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
    """Return a message if sensor and reference correlate clearly better when one of them is shifted in time."""
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


CHECKS = (
    *(_leaks, _derived, _not_measured, _coarse, _saturated),
    *(_stuck, _repeats, _changes_unit, _other_scale, _shifted),
)
