"""Watch: which boxes of a fleet drift, without a reference, and what speaks for it.

Readings → `hours` → a day's sums (`measures`) → the first and the last days (`judging`) → a verdict for each box, the
worst first. Goes to the page (`report/watch_page`) and to JSON.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.data.flags import Flag
from scare.data.quantities import display_unit, is_called
from scare.data.readings import CALIBRATED, FLAGS, Channel, Readings
from scare.errors import DataError
from scare.windowing.inputs import Inputs

# A day of a box as sums of its hours; days add up to a period, and a period has measures.
#
# Hours [boxes, 24, 1 + channels] are means: of the calibrated value in the target's scale, then of each channel in its
# device's. Most sums are of a box beside the fleet's median: what weather does to all boxes is no drift of one of them.
#
#     calibrated  =  neighbours  +  gain · fleet  +  humidity · RH        least squares over the hours of a period
#
# `neighbours` is then how much more a box says in the air that training had on average, however clean this week is.
# Comes from `hours`; goes to `judging`.


FEWEST_BOXES = 2  # at the same hour, to have a median to compare with
FEWEST_HOURS = 36  # of a period that is measured
CLEAN_HOURS = 6  # of a day, by the fleet's median
CLIPPED = 5.0  # scales: what is further from the fleet counts no more
PENALTY = 6.0  # hours' worth of evidence that a box is as the others are
BINS = 8  # of equal weight in training
OF_ALL = ("neighbours", "gain", "humidity", "night", "response", "liveliness", "stuck", "silent")


@dataclass(frozen=True)
class DriftMeter:
    """What hours are measured by: the channels, and the inner borders of training's `BINS`, scaled [7, channels]."""

    channels: tuple[str, ...]
    borders: np.ndarray

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures of a period, in their order."""
        return (*OF_ALL, *(f"{kind} {channel}" for kind in ("shift", "PSI") for channel in self.channels))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many sums each part of a day's has."""
        channels = len(self.channels)
        return (9, 2, 4, 3, 5 * channels, BINS * channels)

    @property
    def humidity(self) -> int | None:
        """Which channel is relative humidity."""
        return next((at for at, name in enumerate(self.channels) if is_called(name, "RH")), None)

    def sum_day(self, hours: np.ndarray) -> np.ndarray:
        """The sums of a day's hours [boxes, 24, 1 + channels], of each box [boxes, sums]."""
        calibrated, channels = hours[..., 0], hours[..., 1:]
        fleet, air = fleet_median(calibrated), fleet_median(channels)
        apart = np.clip(calibrated - fleet, -CLIPPED, CLIPPED)
        wet = np.zeros(len(fleet)) if self.humidity is None else air[:, self.humidity]
        clean = np.where(_cleanest(fleet), apart, np.nan)
        parts = [
            _line_sums(apart, np.stack([fleet, wet], axis=1)),
            np.stack([np.isfinite(clean).sum(axis=1), np.nansum(clean, axis=1)], axis=1),
            _change_sums(channels[..., 0], air[:, 0]),
            _counts(calibrated, channels[..., 0]),
            *(_line_sums(channels[..., one] - air[:, one], air[:, one, None]) for one in range(len(self.channels))),
            *(_bin_counts(channels[..., one], self.borders[:, one]) for one in range(len(self.channels))),
        ]
        return np.concatenate(parts, axis=1)

    def measure(self, sums: np.ndarray) -> np.ndarray:
        """The measures of periods [..., sums]: [..., measures], NaN where there are too few hours."""
        line, night, changes, counts, levels, bins = np.split(sums, list(accumulate(self.sizes))[:-1], axis=-1)
        level, gain, humidity = np.moveaxis(_solved(line), -1, 0)
        known, stuck, hours = np.moveaxis(counts, -1, 0)
        shared = line[..., 0]  # hours in which there was a fleet
        columns = [
            *_if_enough(shared, level, 1 + gain, humidity, _ratio(night[..., 1], night[..., 0])),
            *_if_enough(shared, _ratio(changes[..., 1], changes[..., 0])),
            *_if_enough(known, np.log(np.maximum(_ratio(changes[..., 2], changes[..., 3]), 1e-12)) / 2),
            *_if_enough(known, _ratio(stuck, known)),
            1 - _ratio(known, hours),
            *_if_enough(shared, *np.moveaxis(_solved(self._by_channel(levels))[..., 0], -1, 0)),
            *_if_enough(known, *np.moveaxis(_population_stability(self._by_channel(bins)), -1, 0)),
        ]
        return np.stack(columns, axis=-1)

    def _by_channel(self, part: np.ndarray) -> np.ndarray:
        return part.reshape(*part.shape[:-1], len(self.channels), -1)


def fleet_median(values: np.ndarray) -> np.ndarray:
    """The median over boxes [boxes, hours, …], NaN in hours that too few of them have."""
    enough = np.isfinite(values).sum(axis=0) >= FEWEST_BOXES
    return np.where(enough, median(values, 0), np.nan)


def median(values: np.ndarray, axis: int) -> np.ndarray:
    """The median of what is known along an axis, NaN where nothing is.

    >>> median(np.array([[3.0, np.nan, 1.0], [np.nan] * 3]), 1)
    array([ 2., nan])
    """
    ordered = np.sort(np.moveaxis(values, axis, 0), axis=0)  # what is not known comes last
    last = np.maximum(np.isfinite(ordered).sum(axis=0) - 1, 0)[None]
    low, high = (np.take_along_axis(ordered, place, axis=0)[0] for place in (last // 2, (last + 1) // 2))
    return np.asarray(low + 0.5 * (high - low))


def borders_of(rows: np.ndarray) -> np.ndarray:
    """The inner borders of bins of equal weight of the known hours of training [n, channels]: [7, channels]."""
    return np.nanquantile(rows, np.arange(1, BINS) / BINS, axis=0)


def _cleanest(fleet: np.ndarray) -> np.ndarray:
    """The hours with the lowest median of the fleet, bool [hours]."""
    return np.asarray(fleet <= np.sort(fleet)[CLEAN_HOURS - 1])


def _line_sums(apart: np.ndarray, by: np.ndarray) -> np.ndarray:
    """What least squares of `apart` [boxes, hours] by 1 and columns [hours, n] needs: [boxes, (n+1)(n+2)/2 + n+1]."""
    known = np.isfinite(apart) & np.isfinite(by).all(axis=1)
    design = np.nan_to_num(np.column_stack([np.ones(len(by)), by]))
    wanted = np.where(known, apart, 0.0)
    upper = np.triu_indices(design.shape[1])
    squares = (design[:, :, None] * design[:, None, :])[:, *upper]
    return np.concatenate([known @ squares, wanted @ design], axis=1)


def _solved(sums: np.ndarray) -> np.ndarray:
    """The coefficients [..., n] of such sums, drawn a little towards none."""
    size = {9: 3, 5: 2}[sums.shape[-1]]
    square = np.zeros((*sums.shape[:-1], size, size))
    rows, columns = np.triu_indices(size)
    square[..., rows, columns] = square[..., columns, rows] = sums[..., :-size]
    return np.linalg.solve(square + PENALTY * np.eye(size), sums[..., -size:, None])[..., 0]


def _change_sums(sensor: np.ndarray, air: np.ndarray) -> np.ndarray:
    """Of changes from hour to hour: squares of the fleet's, products, squares of the box's, how many [boxes, 4]."""
    change, usual = np.clip(np.diff(sensor, axis=1), -CLIPPED, CLIPPED), np.diff(air)
    both = np.isfinite(change) & np.isfinite(usual)
    squares, products = both @ np.nan_to_num(usual**2), np.where(both, change * usual, 0.0).sum(axis=1)
    return np.stack([squares, products, np.nansum(change**2, axis=1), np.isfinite(change).sum(axis=1)], axis=1)


def _counts(calibrated: np.ndarray, sensor: np.ndarray) -> np.ndarray:
    """Hours with a value, hours in which the sensor reads as in the one before, hours that any box has [boxes, 3]."""
    known, stuck = np.isfinite(calibrated), (np.diff(sensor, axis=1) == 0).sum(axis=1)
    return np.stack([known.sum(axis=1), stuck, np.full(len(known), known.any(axis=0).sum())], axis=1)


def _bin_counts(channel: np.ndarray, borders: np.ndarray) -> np.ndarray:
    """How many hours of a channel [boxes, hours] are in each bin of training [boxes, bins]."""
    place = np.searchsorted(borders, channel)
    return ((place[..., None] == np.arange(BINS)) & np.isfinite(channel)[..., None]).sum(axis=1)


def _population_stability(bins: np.ndarray) -> np.ndarray:
    """The population stability index of counts [..., bins] against bins of equal weight; half an hour is in each.

    >>> _population_stability(np.array([[10.0] * 8, [80.0] + [0.0] * 7]))
    array([0. , 4.23])
    """
    share = (bins + 0.5) / (bins + 0.5).sum(axis=-1, keepdims=True)
    return np.asarray(((share - 1 / BINS) * np.log(share * BINS)).sum(axis=-1))


def _if_enough(hours: np.ndarray, *measures: np.ndarray) -> list[np.ndarray]:
    """Measures where there are hours enough, NaN elsewhere."""
    return [np.where(hours >= FEWEST_HOURS, one, np.nan) for one in measures]


def _ratio(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0)


# Hours: what boxes calibrated and read, as means by the hour in scales that make boxes and channels alike.
#
# Comes from readings and a calibrator; goes, a day at a time, to `measures`.


HOUR, DAY = 3600.0, 86400.0
LEFT_OUT = Flag.SPIKE | Flag.WARM_UP | Flag.EARLY  # rows that are of no hour


@dataclass(frozen=True)
class Hours:
    """Means of boxes side by side [boxes, days, 24, 1 + channels], NaN for none, from day `first` (since 1970) on."""

    devices: tuple[str, ...]
    first: int
    values: np.ndarray


def drift_meter(calibrator: Calibrator) -> DriftMeter:
    """What days of this calibrator's boxes are measured by; an older file's from the windows that it kept."""
    names = tuple(channel.name for channel in calibrator.inputs.channels)
    if calibrator.training_hours is not None:
        return DriftMeter(names, calibrator.training_hours)
    rows = max(1, round(HOUR / calibrator.inputs.step_seconds))
    kept = calibrator.validation.windows[:, -rows:].mean(axis=1)
    if not len(kept):  # a published correction has seen no air
        return DriftMeter(names, np.full((BINS - 1, len(names)), np.nan))
    return DriftMeter(names, borders_of(kept))


def training_hours(inputs: Inputs, readings: Sequence[Readings]) -> np.ndarray:
    """What a calibrator keeps of the hours that it was trained on: borders of bins [7, channels], scaled."""
    rows = [_scaled(inputs, one.device, inputs.select(one)) for one in readings]
    hours = [hourly(one.times, part)[1] for one, part in zip(readings, rows, strict=True)]
    return borders_of(np.concatenate(hours)).astype(np.float32)


def box_hours(calibrator: Calibrator, readings: Readings) -> tuple[np.ndarray, np.ndarray]:
    """The hours since 1970 in which a box has rows, and their means [hours, 1 + channels]."""
    table, inputs = calibrator.predict(readings), calibrator.inputs
    calibrated = table[CALIBRATED].fill_null(np.nan).to_numpy()
    rows = scaled_rows(inputs, readings.device, calibrated, inputs.select(readings))
    kept = (table[FLAGS].to_numpy() & LEFT_OUT) == 0
    return hourly(readings.times[kept], rows[kept])


def scaled_rows(inputs: Inputs, device: str, calibrated: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Calibrated values [n] and readings [n, channels] of a device in scales [n, 1 + channels]."""
    return np.column_stack([inputs.scaling.target.apply(calibrated[:, None]), _scaled(inputs, device, values)])


def _scaled(inputs: Inputs, device: str, values: np.ndarray) -> np.ndarray:
    """The usable readings [n, channels] of a device in its scales, in the fleet's if it was not in training."""
    return (inputs.scaling.known(device) or inputs.scaling.fleet).apply(inputs.usable_rows(values)[0])


def hourly(times: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The hours of `times` (seconds), and the mean of what is known of the rows [n, columns] in each.

    >>> hourly(np.array([0.0, 1800.0, 3600.0]), np.array([[1.0], [2.0], [np.nan]]))
    (array([0, 1]), array([[1.5], [nan]]))
    """
    hours, place = np.unique((times // HOUR).astype(np.int64), return_inverse=True)
    known = np.isfinite(rows)
    totals, counts = np.zeros((len(hours), rows.shape[1])), np.zeros((len(hours), rows.shape[1]))
    np.add.at(totals, place, np.where(known, rows, 0.0))
    np.add.at(counts, place, known)
    return hours, np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=counts > 0)


def side_by_side(boxes: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> Hours:
    """Boxes (device, hours since 1970, means) on one calendar, which begins and ends at midnight UTC."""
    known = [hours for _, hours, _ in boxes if len(hours)]
    first, last = min(hours[0] for hours in known) // 24, max(hours[-1] for hours in known) // 24
    columns = boxes[0][2].shape[1]
    values = np.full((len(boxes), (last - first + 1) * 24, columns), np.nan)
    for index, (_, hours, means) in enumerate(boxes):
        values[index, hours - first * 24] = means
    return Hours(tuple(device for device, _, _ in boxes), int(first), values.reshape(len(boxes), -1, 24, columns))


# Judging: what has changed since a box's own first days, more than between boxes that are well.
#
# A change is a measure of the last days less that of the first; what the fleet's median changes by is weather. It
# counts in units: what one healthy box in a hundred shows (`RULES`), or five times the scatter of the boxes here, if
# that is more. Units and states were chosen on simulated fleets; docs/benchmarks/drift.md tells on others how many
# false alarms a box and month they cost. Comes from `measures`; goes to `watch` and `live`.


USUAL_DAYS, RECENT_DAYS = 14, 7  # a box's own drift_meter, and what is held against it
MEASURED_HOURS = 12  # of a day that counts among the usual ones
SCATTER = 5.0  # times the boxes' own, as a unit
ENOUGH_BOXES = 5  # for their scatter to be known; with fewer it is taken to be a town's
TOWN = 3.0  # units that a town's boxes scatter by
LEAST = 0.1  # of the others' changes: a box that follows less follows nothing


class State(IntEnum):
    """What to do about a box."""

    FINE = 0
    LOOK = 1
    RECOLLOCATE = 2

    @property
    def words(self) -> str:
        """As people read it.

        >>> State.RECOLLOCATE.words
        're-collocate'
        """
        return ("fine", "look", "re-collocate")[self]


FROM = {State.LOOK: 1.25, State.RECOLLOCATE: 2.0}  # units


@dataclass(frozen=True)
class Rule:
    """How a measure is judged: its unit, the most it can ask for, and whether for a box without a fleet."""

    unit: float
    most: State = State.RECOLLOCATE
    alone: bool = False
    fleet: bool = True
    change: bool = True  # since the first days; False: as it is now
    ratio: bool = False  # of now to the first days, as a logarithm; not the difference


RULES = {  # by the first word of a measure
    "neighbours": Rule(0.4),
    "gain": Rule(0.2, ratio=True),
    "humidity": Rule(0.1),
    "night": Rule(0.45),
    "response": Rule(0.2, ratio=True),
    "shift": Rule(0.8),
    "liveliness": Rule(1.1, State.LOOK, alone=True, fleet=False),
    "PSI": Rule(2.7, State.LOOK, alone=True, fleet=False),
    "stuck": Rule(1 / 6, alone=True, change=False),
    "silent": Rule(1 / 3, State.LOOK, alone=True, change=False),
}


@dataclass(frozen=True)
class Periods:
    """The sums of the first and of the last days of boxes [boxes, sums], and how many days each has [boxes]."""

    usual: np.ndarray
    recent: np.ndarray
    usual_days: np.ndarray
    recent_days: np.ndarray


@dataclass(frozen=True)
class Judged:
    """Changes (or levels) and their sizes in units [boxes, measures], and states [boxes]."""

    measures: tuple[str, ...]
    values: np.ndarray
    units: np.ndarray
    states: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """How many units the greatest change of a box is [boxes], 0 where nothing can be said."""
        return np.nan_to_num(self.units, nan=0.0).max(axis=1)


def judge(periods: Periods, drift_meter: DriftMeter) -> Judged:
    """The boxes of a fleet as they are now."""
    names = drift_meter.measures
    rules = [RULES[name.split(" ", 1)[0]] for name in names]
    now, usual = drift_meter.measure(periods.recent), drift_meter.measure(periods.usual)
    values = np.stack([_value(rule, *pair) for rule, *pair in zip(rules, now.T, usual.T, strict=True)], axis=1)
    with_others = np.isfinite(now[:, 0])  # has neighbours
    if with_others.sum() > 2:
        values = values - median(values, 0)
    used = np.where(with_others[:, None], [rule.fleet for rule in rules], [rule.alone for rule in rules])
    units = np.where(used, np.abs(values) / _sizes(values, rules), np.nan)
    short = (periods.usual_days < USUAL_DAYS) | (periods.recent_days < RECENT_DAYS)
    doubtful = short | (with_others.sum() == 2)  # few days say little, two boxes accuse each other
    return Judged(names, values, units, _states(units, rules, doubtful))


def _value(rule: Rule, now: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """What is judged of a measure of boxes [boxes]."""
    if rule.ratio:
        return np.log(np.maximum(now, LEAST) / np.maximum(usual, LEAST))
    return now - usual if rule.change else now


def _sizes(values: np.ndarray, rules: Sequence[Rule]) -> np.ndarray:
    """What counts as one unit of each measure."""
    unit = np.array([rule.unit for rule in rules])
    known = np.isfinite(values).sum(axis=0)
    scatter = SCATTER * 1.4826 * median(np.abs(values), 0)
    relative = np.array([rule.change and rule.fleet for rule in rules])
    town = np.where(known >= ENOUGH_BOXES, np.fmax(unit, scatter), TOWN * unit)
    return np.where(relative & (known > 0), town, unit)


def _states(units: np.ndarray, rules: Sequence[Rule], doubtful: np.ndarray) -> np.ndarray:
    """The state of each box [boxes]; what a box is now is believed where a change would be doubtful."""
    asked = sum((np.nan_to_num(units) >= least).astype(int) for least in FROM.values())
    asked = np.minimum(asked, [rule.most for rule in rules])
    change = np.array([rule.change for rule in rules])
    asked = np.where(change & doubtful[:, None], np.minimum(asked, State.LOOK), asked)
    return np.asarray(asked.max(axis=1), int)


# Evidence: what speaks for a drift, in sentences with units.


SHOWN = 3  # of a box, the strongest
WORTH_SAYING = 1.0  # units


@dataclass(frozen=True)
class Evidence:
    """A measure of a box, its value as the measure has it, how many units that is, and a sentence."""

    measure: str
    value: float
    units: float
    sentence: str


def describe(judged: Judged, box: int, calibrator: Calibrator) -> tuple[Evidence, ...]:
    """What speaks for a drift of a box, strongest first."""
    units = np.nan_to_num(judged.units[box], nan=0.0)
    strongest = [at for at in np.argsort(-units) if units[at] >= WORTH_SAYING][:SHOWN]
    return tuple(_evidence(judged, box, int(at), calibrator) for at in strongest)


def _evidence(judged: Judged, box: int, at: int, calibrator: Calibrator) -> Evidence:
    name, value = judged.measures[at], float(judged.values[box, at])
    kind, _, channel = name.partition(" ")
    sentence = SENTENCES[kind](value, _Scales(calibrator), channel)
    return Evidence(name, value, float(judged.units[box, at]), sentence)


@dataclass(frozen=True)
class _Scales:
    """Measures in units of the target and of channels."""

    calibrator: Calibrator

    def target(self, value: float) -> str:
        """A difference of calibrated values."""
        return _quantity(value * float(self.calibrator.inputs.scaling.target.scale[0]), self.calibrator.target)

    def channel(self, value: float, name: str) -> str:
        """A difference of a channel's readings."""
        at = [one.name for one in self.calibrator.inputs.channels].index(name)
        scale = float(self.calibrator.inputs.scaling.fleet.scale[at])
        return _quantity(value * scale, self.calibrator.inputs.channels[at])

    def humidity(self) -> str:
        """One scale of the channel that is humidity."""
        at = next(at for at, one in enumerate(self.calibrator.inputs.channels) if is_called(one.name, "RH"))
        return f"{float(self.calibrator.inputs.scaling.fleet.scale[at]):.3g} % RH"


def _quantity(value: float, of: Channel) -> str:
    return f"{abs(value):.3g} {display_unit(of.unit)}".strip()


def _percent(logarithm: float) -> str:
    return f"{100 * abs(np.expm1(logarithm)):.0f} %"


def _more(value: float) -> str:
    return "more" if value > 0 else "less"


Sentence = Callable[[float, _Scales, str], str]
SENTENCES: dict[str, Sentence] = {
    "neighbours": lambda value, scales, _: (
        f"in the same air it says {scales.target(value)} {_more(value)} beside the others than in its first days"
    ),
    "gain": lambda value, scales, _: (
        f"when the others rise it rises by {_percent(value)} {_more(value)} than in its first days"
    ),
    "humidity": lambda value, scales, _: (
        f"with {scales.humidity()} more it says {scales.target(value)} {_more(value)} than it did beside the others"
    ),
    "night": lambda value, scales, _: (
        f"in the cleanest hours it says {scales.target(value)} {_more(value)} beside the others than in its first days"
    ),
    "response": lambda value, scales, _: (
        f"its sensor follows the others from hour to hour by {_percent(value)} {_more(value)} than it did"
    ),
    "shift": lambda value, scales, channel: (
        f"{channel} reads {scales.channel(value, channel)} {_more(value)} beside the others than in its first days"
    ),
    "liveliness": lambda value, scales, _: (
        f"its sensor's changes from hour to hour are {np.exp(value):.2g} times those of its first days"
    ),
    "PSI": lambda value, scales, channel: (
        f"{channel} is further from training than in its first days: PSI {value:+.1f}"
    ),
    "stuck": lambda value, scales, _: f"{100 * value:.0f} % of its hours repeat the hour before",
    "silent": lambda value, scales, _: f"no value in {100 * value:.0f} % of the hours that others have",
}


FEWEST_DAYS = 4  # two to compare two with
LONGEST_STEP_HOURS = 24 // MEASURED_HOURS


@dataclass(frozen=True)
class Verdict:
    """A box: what to do about it, how far it is from usual in units, what speaks for it, and its way there by day."""

    device: str
    state: State
    score: float
    evidence: tuple[Evidence, ...]
    days: int
    history: tuple[float, ...]


@dataclass(frozen=True)
class Watch:
    """The verdicts of a fleet, worst first, day `first` (since 1970) to the last, and what could not be judged."""

    verdicts: tuple[Verdict, ...]
    first: int
    days: int
    notes: tuple[str, ...]


def watch(
    calibrator: Calibrator, readings: Sequence[Readings], progress: Callable[[str], object] = lambda device: None
) -> Watch:
    """Judge boxes by their readings from when they were known to be well on."""
    step_hours = calibrator.inputs.step_seconds / HOUR
    if step_hours > LONGEST_STEP_HOURS:
        raise DataError(
            f"the model reads every {step_hours:g} hours; to watch boxes a reading is needed every"
            f" {LONGEST_STEP_HOURS} hours or more often"
        )
    boxes = []
    for one in readings:
        boxes.append((one.device, *box_hours(calibrator, one)))
        progress(one.device)
    if not any(np.isfinite(means[:, 0]).any() for _, _, means in boxes):
        raise DataError("no row of any box has a calibrated value; 'scare predict' flags every row with the reason")
    return watch_hours(calibrator, side_by_side(boxes))


def watch_hours(calibrator: Calibrator, hours: Hours) -> Watch:
    """The same of hours that are there already."""
    known = drift_meter(calibrator)
    sums = np.stack([known.sum_day(hours.values[:, day]) for day in range(hours.values.shape[1])], axis=1)
    lengths = split_days(sums.shape[1])
    judged = [judge(periods(sums[:, : day + 1], known, *lengths), known) for day in range(sums.shape[1])]
    history = np.stack([one.scores for one in judged], axis=1)
    order = sorted(range(len(hours.devices)), key=lambda box: _rank(judged[-1], box, hours.devices[box]))
    measured = (known_hours(sums, known) >= MEASURED_HOURS).sum(axis=1)
    verdicts = tuple(
        Verdict(
            hours.devices[box],
            State(judged[-1].states[box]),
            float(judged[-1].scores[box]),
            describe(judged[-1], box, calibrator),
            int(measured[box]),
            tuple(history[box].round(3).tolist()),
        )
        for box in order
    )
    notes = [*_notes(calibrator, sums.shape, lengths), *_unheard(verdicts, lengths)]
    return Watch(verdicts, hours.first, sums.shape[1], tuple(notes))


def split_days(days: int) -> tuple[int, int]:
    """How many days are the usual ones and how many the recent ones, of so many.

    >>> split_days(21), split_days(10), split_days(3)
    ((14, 7), (5, 2), (0, 3))
    """
    if days < FEWEST_DAYS:
        return 0, days
    if days < USUAL_DAYS + RECENT_DAYS:
        return days // 2, max(2, days // 4)
    return USUAL_DAYS, RECENT_DAYS


def known_hours(sums: np.ndarray, known: DriftMeter) -> np.ndarray:
    """How many hours with a value the days of boxes [boxes, days, sums] have: [boxes, days]."""
    return np.asarray(sums[..., sum(known.sizes[:3])])


def periods(sums: np.ndarray, known: DriftMeter, usual_days: int, recent_days: int) -> Periods:
    """The first days that count and the last days after them, of boxes [boxes, days, sums]."""
    counts = np.cumsum(known_hours(sums, known) >= MEASURED_HOURS, axis=1)
    usual = (counts <= usual_days) & (known_hours(sums, known) >= MEASURED_HOURS)
    recent = np.zeros(usual.shape, bool)
    recent[:, -recent_days:] = True
    settled = counts[:, -1] >= usual_days
    overlap = (usual & recent).any(axis=1) | ~settled
    first = np.where((usual & ~overlap[:, None])[..., None], sums, 0.0).sum(axis=1)
    last = np.where(recent[..., None], sums, 0.0).sum(axis=1)
    return Periods(first, last, usual.sum(axis=1), recent.sum(axis=1))


def _rank(judged: Judged, box: int, device: str) -> tuple[int, float, str]:
    return -int(judged.states[box]), -float(judged.scores[box]), device


def _unheard(verdicts: Sequence[Verdict], lengths: tuple[int, int]) -> list[str]:
    """The boxes that were there for too few days."""
    few = [one.device for one in verdicts if one.days < sum(lengths) and lengths[0]]
    told = f"with {MEASURED_HOURS} hours or more: no change of theirs can be told"
    return [f"{', '.join(few)}: fewer than {sum(lengths)} days {told}"] if few else []


def _notes(calibrator: Calibrator, shape: tuple[int, ...], lengths: tuple[int, int]) -> list[str]:
    """What could not be judged in a fleet of so many boxes and days, and why."""
    boxes, days = shape[:2]
    found = []
    if boxes == 1:
        found.append("one box has no neighbours: only what it reads is compared with training and with its first days,")
        found[-1] += " and a season looks like a drift"
    if boxes == 2:
        found.append("two boxes accuse each other: neither is asked to be re-collocated for what only the other says")
    if 2 < boxes < 5:
        found.append(f"{boxes} boxes do not tell how much boxes differ here: three times as much has to change")
    if days < FEWEST_DAYS:
        found.append(f"{days} days are too few to tell a change; give at least {FEWEST_DAYS}")
    elif days < USUAL_DAYS + RECENT_DAYS:
        short = f"{days} days: the first {lengths[0]} are held against the last {lengths[1]}"
        found.append(f"{short}; no change asks for re-collocation before there are {USUAL_DAYS + RECENT_DAYS}")
    if calibrator.training_hours is None:
        found.append("the model's file does not tell the hours of training: PSI is by the windows that it kept")
    return found
