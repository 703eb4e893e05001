"""A fleet without a reference: how large an error to expect of each box, and which boxes drift.

    readings → hourly means → daily sums → first days against last days → a report for each box, the worst first

The expected error is how many times as wide the calibrator's intervals are in the last days as in the first: in other
air, any box has other errors. A box drifts if it changes relative to the others. Changes of the fleet's median are
weather, so each box is compared with the median, by ridge regression over the hours of a period:

    calibrated − fleet  =  neighbours  +  (gain − 1) · fleet  +  humidity · RH

`neighbours` is how much more a box reads than the others, evaluated at the average air of training. A change is
measured in alarm units: a number for each measure (`RULES`), or a multiple of the spread of the boxes here (median
absolute deviation), whichever is larger. One unit on `ALARM_DAYS` successive days is an alarm. How the numbers were
chosen is in docs/benchmarks/drift.md, with the false alarms on other fleets. `report/page` shows the report;
`live_drift` does the same as readings arrive.
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
from scare.upkeep.schedule import describe_schedule
from scare.windowing.inputs import Inputs
from scare.words import plural

HOUR, DAY = 3600.0, 86400.0
LEFT_OUT = Flag.SPIKE | Flag.WARM_UP | Flag.EARLY  # rows with these flags are not averaged

FEWEST_BOXES = 3  # boxes that must have a value in the same hour: of two, the one that drifts cannot be identified
FEWEST_HOURS = 36  # hours that a period must have to be measured
CLEAN_HOURS = 6  # hours of a day with the lowest median of the fleet: "night"
CLIPPED = 5.0  # distances from the fleet are clipped at this many scaled units
PENALTY = 6.0  # ridge penalty: as if six more hours had shown that the box is like the others
FLEET_MEASURES = ("neighbours", "gain", "humidity", "night", "response", "liveliness", "stuck", "silent")

USUAL_DAYS, RECENT_DAYS = 14, 7  # the first days are a box's baseline, the last days are compared with it
MEASURED_HOURS = 12  # hours of a day that must have a value for the day to count
FEWEST_DAYS = 8  # days needed to compare two days with four others, on three successive days
ALARM_DAYS = 3  # successive days on which a box must reach one alarm unit
LONGEST_STEP_HOURS = 24 // MEASURED_HOURS  # with longer steps no day has enough hours
SPREAD_FACTOR = 5.6  # an alarm unit is at least so many times the spread of the boxes
ENOUGH_BOXES = 5  # boxes needed to estimate their spread
MIN_SPREAD = 3.0  # factor on the rule's alarm unit when fewer than 5 boxes are known
MAD_TO_SD = 1.4826  # from a median absolute deviation to a standard deviation, for normal values
MIN_GAIN = 0.1  # below this gain relative to its neighbours a box counts as unresponsive

SHOWN_EVIDENCE = 3  # most pieces of evidence shown per box, the strongest first
WORTH_SHOWING = 1.0  # weaker evidence, in alarm units, is not shown


class DriftState(IntEnum):
    """What to do about a box; `UNKNOWN` is that of a box that has nothing to be compared with."""

    UNKNOWN = -1
    FINE = 0
    LOOK = 1
    RECOLLOCATE = 2

    @property
    def label(self) -> str:
        """The state as shown to people.

        >>> DriftState.RECOLLOCATE.label
        're-collocate'
        """
        return ("cannot be judged", "fine", "look", "re-collocate")[self + 1]  # `UNKNOWN` is -1


@dataclass(frozen=True)
class DriftRule:
    """How a measure is assessed: its alarm unit, the state that an alarm leads to, and when it is used."""

    unit: float
    state: DriftState = DriftState.RECOLLOCATE
    alone: bool = False  # used for a box without a fleet
    fleet: bool = True  # used for a box of a fleet
    change: bool = True  # the change since the first days counts; False: the present level
    ratio: bool = False  # the change is the logarithm of a ratio, not a difference
    falls: bool = False  # only a fall counts


RULES = {  # by the first word of a measure
    "neighbours": DriftRule(0.45),
    "gain": DriftRule(0.225, ratio=True),
    "humidity": DriftRule(0.11),
    "night": DriftRule(0.5),
    # A sensor that dies follows less of the air; one that follows more than in its first days stands in livelier air.
    "response": DriftRule(0.225, ratio=True, falls=True),
    "shift": DriftRule(0.9),
    "liveliness": DriftRule(1.4, DriftState.LOOK, alone=True, fleet=False),
    "stuck": DriftRule(1 / 3, alone=True, change=False),
    "silent": DriftRule(0.9, DriftState.LOOK, alone=True, change=False),
}


@dataclass(frozen=True)
class Hours:
    """Hourly means of boxes, NaN where missing; `values` are [boxes, days, 24, 1 + channels], scaled.

    The first column is the calibrated value; `first` is the first day, in days since 1970.
    """

    devices: tuple[str, ...]
    first: int
    values: np.ndarray


@dataclass(frozen=True)
class Periods:
    """Sums (`DriftMeter.sum_day`) over each box's first (`usual`) and last (`recent`) days [boxes, sums].

    `usual_days` and `recent_days` are the numbers of days summed [boxes].
    """

    usual: np.ndarray
    recent: np.ndarray
    usual_days: np.ndarray
    recent_days: np.ndarray


@dataclass(frozen=True)
class Assessment:
    """What each measure of drift says of each box [boxes, measures], and the states that follow from it [boxes].

    `values` are changes since the first days, or present values, in the measures' own units; `units` are the same in
    alarm units. `expected` [boxes] is how many times as large as in the first days errors are likely to be in the air
    of the last days, NaN if it is not known.
    """

    measures: tuple[str, ...]
    values: np.ndarray
    units: np.ndarray
    states: np.ndarray
    expected: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """The largest change of each box in alarm units [boxes], 0 where nothing is known."""
        return np.nan_to_num(self.units, nan=0.0).max(axis=1)

    @property
    def compared(self) -> np.ndarray:
        """Whether a change relative to other boxes was measured (bool [boxes]); only such a box can be called fine."""
        rules = [RULES[name.split(" ", 1)[0]] for name in self.measures]
        return np.isfinite(self.units[:, [rule.fleet and rule.change for rule in rules]]).any(axis=1)


@dataclass(frozen=True)
class Evidence:
    """A measure of a box, its value, the value in alarm units, and a sentence that explains it."""

    measure: str
    value: float
    units: float
    sentence: str


@dataclass(frozen=True)
class BoxReport:
    """One box: the error to expect, whether it drifts and what shows it, and its days with data.

    `expected_error` is how many times as large its errors are to be expected in the last days as in the first, NaN if
    it is not known; `history` has it for each day. `score` is the change of the last days in alarm units.
    """

    device: str
    expected_error: float
    state: DriftState
    score: float
    evidence: tuple[Evidence, ...]
    days: int
    history: tuple[float, ...]

    @property
    def expected_words(self) -> str:
        """The expected error as shown to people, such as "× 1.4"."""
        return f"× {self.expected_error:.2g}" if np.isfinite(self.expected_error) else "–"


@dataclass(frozen=True)
class FleetReport:
    """Boxes, worst first; the period (`first` in days since 1970, `days` long); what could not be assessed, and why.

    `schedule` says when the boxes are due at a reference, whatever their states.
    """

    boxes: tuple[BoxReport, ...]
    first: int
    days: int
    notes: tuple[str, ...]
    schedule: str = ""


@dataclass(frozen=True)
class DriftMeter:
    """Measures boxes: hourly means → sums of a day → sums of a period, by addition → measures.

    Hours [boxes, 24, 1 + channels] are means of the calibrated value, in the target's scale, and of each channel, in
    its device's. `width` gives the widths of the intervals around calibrated values, both of any shape.
    """

    channels: tuple[str, ...]
    width: Callable[[np.ndarray], np.ndarray] = np.zeros_like

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures, in the order of `measure`."""
        return (*FLEET_MEASURES, *(f"shift {channel}" for channel in self.channels))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of sums in each part of a day's sums.

        These are the regression on the fleet, the clean hours (their number and sum), changes from hour to hour
        (`_change_sums`), three counts of hours, squared widths of intervals, and a regression for each channel.
        """
        # The normal equations of n coefficients are n(n+1)/2 squares and n products: 9 for three, 5 for two.
        return (9, 2, 4, 3, 1, 5 * len(self.channels))

    @property
    def humidity(self) -> int | None:
        """The index of the channel that is relative humidity; None without one."""
        return next((index for index, name in enumerate(self.channels) if is_called(name, "RH")), None)

    def sum_day(self, hours: np.ndarray) -> np.ndarray:
        """Return the sums of a day's hours [boxes, 24, 1 + channels], from which `measure` computes: [boxes, sums]."""
        calibrated, readings = hours[..., 0], hours[..., 1:]
        sensor = hours[..., 1]  # the first channel
        fleet, air = fleet_median(calibrated), fleet_median(readings)  # [24], [24, channels]
        excess = np.clip(calibrated - fleet, -CLIPPED, CLIPPED)
        humidity = np.zeros(len(fleet)) if self.humidity is None else air[:, self.humidity]
        is_cleanest = fleet <= np.sort(fleet)[CLEAN_HOURS - 1]
        clean_excess = np.where(is_cleanest, excess, np.nan)
        is_known = np.isfinite(calibrated)
        stuck = (np.diff(sensor, axis=1) == 0).sum(axis=1)
        each_channel = range(len(self.channels))
        parts = [  # as `sizes` lists them
            _line_sums(excess, np.stack([fleet, humidity], axis=1)),
            np.stack([np.isfinite(clean_excess).sum(axis=1), np.nansum(clean_excess, axis=1)], axis=1),
            _change_sums(sensor, air[:, 0]),
            # Hours with a value, hours in which the sensor repeats the one before, hours in which any box has a value.
            np.stack([is_known.sum(axis=1), stuck, np.full(len(is_known), is_known.any(axis=0).sum())], axis=1),
            np.nansum(np.square(self.width(calibrated)), axis=1, keepdims=True),
            *(_line_sums(readings[..., index] - air[:, index], air[:, index, None]) for index in each_channel),
        ]
        return np.concatenate(parts, axis=1)

    def measure(self, sums: np.ndarray) -> np.ndarray:
        """Compute the measures of periods [..., measures] from the total of their days' sums [..., sums].

        NaN where there are too few hours.
        """
        fleet_line, clean, changes, counts, _, channel_lines = self._split(sums)
        # The line calibrated − fleet = neighbours + excess_gain · fleet + humidity · RH. All are scaled, so
        # that average air of training is 0: the constant is how much more the box reads there than its neighbours.
        neighbours, excess_gain, humidity = np.moveaxis(_solve_line(fleet_line), -1, 0)
        # The hours of each day in which the fleet reads least: how many there were, and the sum of calibrated − fleet.
        clean_hours, clean_excess = np.moveaxis(clean, -1, 0)
        night = _ratio(clean_excess, clean_hours)
        # Squares and products of changes from hour to hour.
        fleet_squares, products, own_squares, own_changes = np.moveaxis(changes, -1, 0)
        response = _ratio(products, fleet_squares)  # slope of a box's changes on those of the fleet
        # The logarithm of the root mean square of the sensor's changes.
        liveliness = np.log(np.maximum(_ratio(own_squares, own_changes), 1e-12)) / 2
        known_hours, stuck_hours, all_hours = np.moveaxis(counts, -1, 0)
        # For each channel a line: reading − fleet = shift + slope · fleet, of which the constant is wanted.
        by_channel = channel_lines.reshape(*channel_lines.shape[:-1], len(self.channels), -1)  # [..., channels, 5]
        shifts = np.moveaxis(_solve_line(by_channel)[..., 0], -1, 0)
        fleet_hours = fleet_line[..., 0]  # the sum of 1 · 1: hours in which the box and the fleet have a value
        columns = [  # in the order of `measures`
            *_if_enough(fleet_hours, neighbours, 1 + excess_gain, humidity, night, response),
            *_if_enough(known_hours, liveliness, _ratio(stuck_hours, known_hours)),
            1 - _ratio(known_hours, all_hours),
            *_if_enough(fleet_hours, *shifts),
        ]
        return np.stack(columns, axis=-1)

    def mean_square_width(self, sums: np.ndarray) -> np.ndarray:
        """Compute the mean of squared widths of the intervals of periods [...] from sums [..., sums]; NaN if none."""
        _, _, _, counts, squares, _ = self._split(sums)
        return _ratio(squares[..., 0], counts[..., 0])

    def _split(self, sums: np.ndarray) -> list[np.ndarray]:
        """Split sums [..., sums] into the parts that `sizes` lists."""
        return np.split(sums, list(accumulate(self.sizes))[:-1], axis=-1)


def watch(
    calibrator: Calibrator, readings: Sequence[Readings], progress: Callable[[str], object] = lambda device: None
) -> FleetReport:
    """Assess boxes by their readings, whose first days must be from healthy boxes: they are the baseline.

    `progress` is called with the name of each box that is done.
    """
    step_hours = calibrator.inputs.step_seconds / HOUR
    if step_hours > LONGEST_STEP_HOURS:
        raise DataError(
            f"the model takes a reading every {step_hours:g} hours, but drift can only be measured with one at least"
            f" every {LONGEST_STEP_HOURS} hours"
        )
    boxes = []
    for box in readings:
        boxes.append((box.device, *box_hours(calibrator, box)))
        progress(box.device)
    if not any(np.isfinite(means[:, 0]).any() for _, _, means in boxes):
        raise DataError("no row of any box has a calibrated value; 'scare predict' flags every row with the reason")
    return watch_hours(calibrator, align_boxes(boxes))


def watch_hours(calibrator: Calibrator, hours: Hours) -> FleetReport:
    """Assess boxes by their hourly means, whose first days must be from healthy boxes: they are the baseline."""
    meter = drift_meter(calibrator)
    days = hours.values.shape[1]
    sums = np.stack([meter.sum_day(hours.values[:, day]) for day in range(days)], axis=1)
    lengths = split_days(days)  # days in the first and in the last period
    daily = [assess(periods(sums[:, : day + 1], meter, *lengths), meter) for day in range(days)]
    latest = daily[-1]
    states = lasting(np.stack([assessment.states for assessment in daily], axis=1))[:, -1]
    measured = (known_hours(sums, meter) >= MEASURED_HOURS).sum(axis=1)
    compared = latest.compared
    boxes = [
        BoxReport(
            device,
            float(latest.expected[index]),
            # Without a comparison, a box can be worse than fine, but not fine.
            DriftState(states[index]) if states[index] or compared[index] else DriftState.UNKNOWN,
            float(latest.scores[index]),
            _find_evidence(latest, index, calibrator),
            int(measured[index]),
            tuple(float(assessment.expected[index]) for assessment in daily),
        )
        for index, device in enumerate(hours.devices)
    ]
    # Alarms first, because they are rare; then by the error to expect, boxes of which it is not known last.
    boxes.sort(key=lambda box: (-max(box.state, 0), -np.nan_to_num(box.expected_error), box.device))
    notes = _notes(len(boxes), days, lengths)
    incomplete = [box.device for box in boxes if box.days < sum(lengths) and lengths[0]]
    if incomplete:
        notes.append(
            f"{', '.join(incomplete)}: fewer than {sum(lengths)} days have {MEASURED_HOURS} hours of values, so no"
            " change can be measured"
        )
    schedule = describe_schedule(calibrator, (hours.first + days) * DAY)
    return FleetReport(tuple(boxes), hours.first, days, tuple(notes), schedule)


def lasting(states: np.ndarray) -> np.ndarray:
    """Return the states of boxes by day [boxes, days] if one begins, and ends, only after `ALARM_DAYS` successive days.

    >>> lasting(np.array([[0, 2, 0, 2, 2, 2, 1, 2, 0, 0, 0]]))
    array([[0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 0]])
    """
    lasted = np.zeros_like(states)
    for day in range(ALARM_DAYS - 1, states.shape[1]):
        successive = states[:, day + 1 - ALARM_DAYS : day + 1]
        lasted[:, day] = next_state(lasted[:, day - 1], successive)
    return lasted


def next_state(state: np.ndarray, successive: np.ndarray) -> np.ndarray:
    """Raise states [boxes] to the lowest of the last days [boxes, days], or lower them to the highest.

    So a state changes only when all of these days are above it, or all below.
    """
    return np.clip(state, successive.min(axis=1), successive.max(axis=1))


def split_days(days: int) -> tuple[int, int]:
    """Decide how many of these days are the baseline, and how many are compared with it.

    >>> split_days(21), split_days(10), split_days(7)
    ((14, 7), (5, 2), (0, 7))
    """
    if days < FEWEST_DAYS:
        return 0, days
    if days < USUAL_DAYS + RECENT_DAYS:
        return days // 2, max(2, days // 4)
    return USUAL_DAYS, RECENT_DAYS


def periods(sums: np.ndarray, meter: DriftMeter, usual_days: int, recent_days: int) -> Periods:
    """Add up the first days that have enough hours, and the last days; `sums` are [boxes, days, sums].

    A box's sums of first days are zero if its periods overlap, or if fewer than `usual_days` days have enough hours.
    """
    # Which days belong to which period of a box [boxes, days].
    is_measured = known_hours(sums, meter) >= MEASURED_HOURS
    measured_so_far = np.cumsum(is_measured, axis=1)
    is_usual = (measured_so_far <= usual_days) & is_measured
    is_recent = np.zeros(is_usual.shape, bool)
    is_recent[:, -recent_days:] = True
    has_no_baseline = (is_usual & is_recent).any(axis=1) | (measured_so_far[:, -1] < usual_days)  # [boxes]
    usual_sums = np.where((is_usual & ~has_no_baseline[:, None])[..., None], sums, 0.0).sum(axis=1)
    recent_sums = np.where(is_recent[..., None], sums, 0.0).sum(axis=1)
    return Periods(usual_sums, recent_sums, is_usual.sum(axis=1), is_recent.sum(axis=1))


def known_hours(sums: np.ndarray, meter: DriftMeter) -> np.ndarray:
    """Return the number of hours with a value in each day, [boxes, days], from daily sums [boxes, days, sums]."""
    return np.asarray(sums[..., sum(meter.sizes[:3])])  # the first of the counts, the fourth part of a day's sums


def assess(periods: Periods, meter: DriftMeter) -> Assessment:
    """Compare the boxes of a fleet with their first days and with each other."""
    names = meter.measures
    rules = [RULES[name.split(" ", 1)[0]] for name in names]
    recent, usual = meter.measure(periods.recent), meter.measure(periods.usual)  # [boxes, measures]
    changes = [_change(rule, now, before) for rule, now, before in zip(rules, recent.T, usual.T, strict=True)]
    values = np.stack(changes, axis=1)
    has_fleet = np.isfinite(recent[:, 0])  # `neighbours` could be measured
    has_fleet &= has_fleet.sum() >= FEWEST_BOXES
    if has_fleet.any():
        values = values - median(values, 0)  # what changes for all boxes is weather
    is_assessed = np.where(has_fleet[:, None], [rule.fleet for rule in rules], [rule.alone for rule in rules])
    sizes = np.where([rule.falls for rule in rules], np.maximum(-values, 0.0), np.abs(values))
    units = np.where(is_assessed, sizes / _alarm_units(values, rules), np.nan)
    # The state that each measure leads to [boxes, measures].
    states = np.where(np.nan_to_num(units) >= 1, [rule.state for rule in rules], DriftState.FINE)
    # A change over few days leads to LOOK at most; a present value to any state.
    is_short = (periods.usual_days < USUAL_DAYS) | (periods.recent_days < RECENT_DAYS)
    is_change = np.array([rule.change for rule in rules])
    states = np.where(is_change & is_short[:, None], np.minimum(states, DriftState.LOOK), states)
    mean_squares = (meter.mean_square_width(sums) for sums in (periods.recent, periods.usual))
    expected = np.sqrt(_ratio(*mean_squares))
    return Assessment(names, values, units, np.asarray(states.max(axis=1), int), expected)


def drift_meter(calibrator: Calibrator) -> DriftMeter:
    """Return the meter for a calibrator's boxes."""
    names = tuple(channel.name for channel in calibrator.inputs.channels)
    intervals = calibrator.intervals
    if intervals is None or not intervals.edges:  # intervals of one width say nothing of the air
        return DriftMeter(names)

    def width(calibrated: np.ndarray) -> np.ndarray:
        values = calibrator.inputs.scaling.target.invert(calibrated.reshape(-1, 1))[:, 0]
        low, high = intervals.around(values, np.zeros(len(values), np.uint32))
        return (high - low).reshape(calibrated.shape)

    return DriftMeter(names, width)


def box_hours(calibrator: Calibrator, readings: Readings) -> tuple[np.ndarray, np.ndarray]:
    """Return the hours since 1970 in which a box has rows, and their means [hours, 1 + channels]."""
    inputs = calibrator.inputs
    table = calibrator.predict(readings)
    calibrated = table[CALIBRATED].fill_null(np.nan).to_numpy()
    rows = scaled_rows(inputs, readings.device, calibrated, inputs.select(readings))
    is_used = (table[FLAGS].to_numpy() & LEFT_OUT) == 0
    return hourly(readings.times[is_used], rows[is_used])


def scaled_rows(inputs: Inputs, device: str, calibrated: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the calibrated values [n] and readings [n, channels] of a device, scaled [n, 1 + channels]."""
    return np.column_stack([inputs.scaling.target.apply(calibrated[:, None]), _scaled(inputs, device, values)])


def hourly(times: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the hours of `times` (seconds), and the mean of the known values of the rows [n, columns] in each.

    >>> hourly(np.array([0.0, 1800.0, 3600.0]), np.array([[1.0], [2.0], [np.nan]]))
    (array([0, 1]), array([[1.5], [nan]]))
    """
    hours, hour_index = np.unique((times // HOUR).astype(np.int64), return_inverse=True)
    known = np.isfinite(rows)
    totals = np.zeros((len(hours), rows.shape[1]))
    counts = np.zeros((len(hours), rows.shape[1]))
    np.add.at(totals, hour_index, np.where(known, rows, 0.0))
    np.add.at(counts, hour_index, known)
    return hours, np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=counts > 0)


def align_boxes(boxes: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> Hours:
    """Put the hourly means of boxes on one calendar, which begins and ends at midnight UTC.

    A box is its device name, its hours since 1970 [n] and their means [n, 1 + channels].
    """
    known = [hours for _, hours, _ in boxes if len(hours)]
    first = min(hours[0] for hours in known) // 24
    last = max(hours[-1] for hours in known) // 24
    columns = boxes[0][2].shape[1]
    values = np.full((len(boxes), (last - first + 1) * 24, columns), np.nan)
    for index, (_, hours, means) in enumerate(boxes):
        values[index, hours - first * 24] = means
    return Hours(tuple(device for device, _, _ in boxes), int(first), values.reshape(len(boxes), -1, 24, columns))


def fleet_median(values: np.ndarray) -> np.ndarray:
    """Return the median over boxes [boxes, hours, …], NaN in hours with a value of fewer than `FEWEST_BOXES`."""
    enough = np.isfinite(values).sum(axis=0) >= FEWEST_BOXES
    return np.where(enough, median(values, 0), np.nan)


def median(values: np.ndarray, axis: int) -> np.ndarray:
    """Return the median of the known values along an axis, NaN where there is none.

    >>> median(np.array([[3.0, np.nan, 1.0], [np.nan] * 3]), 1)
    array([ 2., nan])
    """
    ordered = np.sort(np.moveaxis(values, axis, 0), axis=0)  # NaN sorts last
    last = np.maximum(np.isfinite(ordered).sum(axis=0) - 1, 0)[None]  # index of the largest known value
    # The two values in the middle, which are one if the number of values is odd.
    low, high = (np.take_along_axis(ordered, middle, axis=0)[0] for middle in (last // 2, (last + 1) // 2))
    return np.asarray(low + 0.5 * (high - low))


def _scaled(inputs: Inputs, device: str, values: np.ndarray) -> np.ndarray:
    """Return the usable readings [n, channels] in the scale of a device, or of the fleet if it was not in training."""
    usable, _ = inputs.usable_rows(values)
    return (inputs.scaling.known(device) or inputs.scaling.fleet).apply(usable)


# Sums of a day, and measures of sums


def _line_sums(excess: np.ndarray, regressors: np.ndarray) -> np.ndarray:
    """Return the normal equations of `excess` [boxes, hours] on 1 and `regressors` [hours, n].

    They are sums over hours, [boxes, (n+1)(n+2)/2 + n+1], so those of a period are the sum of its days'.
    """
    is_known = np.isfinite(excess) & np.isfinite(regressors).all(axis=1)  # [boxes, hours]
    design = np.nan_to_num(np.column_stack([np.ones(len(regressors)), regressors]))  # [hours, n + 1]
    rows, columns = np.triu_indices(design.shape[1])
    squares = design[:, rows] * design[:, columns]  # upper triangle of each hour's products
    return np.concatenate([is_known @ squares, np.where(is_known, excess, 0.0) @ design], axis=1)


def _solve_line(sums: np.ndarray) -> np.ndarray:
    """Solve ridge regression from the normal equations of `_line_sums`: coefficients [..., n]."""
    size = {9: 3, 5: 2}[sums.shape[-1]]  # number of coefficients, as `DriftMeter.sizes` explains
    square = np.zeros((*sums.shape[:-1], size, size))
    rows, columns = np.triu_indices(size)
    square[..., rows, columns] = square[..., columns, rows] = sums[..., :-size]
    return np.linalg.solve(square + PENALTY * np.eye(size), sums[..., -size:, None])[..., 0]


def _change_sums(sensor: np.ndarray, air: np.ndarray) -> np.ndarray:
    """Return sums over hourly changes for each box, [boxes, 4], from its `sensor` and the fleet's median `air` [hours].

    They are the sums of fleet's change squared and of box's × fleet's change, over hours known to both; then that of
    the box's change squared, and the number of its changes. A box's changes are clipped at ±`CLIPPED`.
    """
    change = np.clip(np.diff(sensor, axis=1), -CLIPPED, CLIPPED)
    fleet_change = np.diff(air)
    both = np.isfinite(change) & np.isfinite(fleet_change)
    squares = both @ np.nan_to_num(fleet_change**2)
    products = np.where(both, change * fleet_change, 0.0).sum(axis=1)
    return np.stack([squares, products, np.nansum(change**2, axis=1), np.isfinite(change).sum(axis=1)], axis=1)


def _if_enough(hours: np.ndarray, *measures: np.ndarray) -> list[np.ndarray]:
    """Return the measures, NaN where they come from fewer than `FEWEST_HOURS` hours."""
    return [np.where(hours >= FEWEST_HOURS, measure, np.nan) for measure in measures]


def _ratio(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Divide total by count, NaN where the count is 0."""
    return np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0)


# Changes in alarm units, and states


def _change(rule: DriftRule, now: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Return what the rule of a measure assesses [boxes]: its change, the log of a ratio, or its present value."""
    if rule.ratio:
        return np.log(np.maximum(now, MIN_GAIN) / np.maximum(usual, MIN_GAIN))
    return now - usual if rule.change else now


def _alarm_units(values: np.ndarray, rules: Sequence[DriftRule]) -> np.ndarray:
    """Return the alarm unit of each measure [measures]: the rule's, or a multiple of the boxes' spread if larger."""
    unit = np.array([rule.unit for rule in rules])
    boxes = np.isfinite(values).sum(axis=0)  # with a value of the measure
    spread = SPREAD_FACTOR * MAD_TO_SD * median(np.abs(values), 0)  # `values` are relative to their median
    compares_boxes = np.array([rule.change and rule.fleet for rule in rules])
    of_fleet = np.where(boxes >= ENOUGH_BOXES, np.fmax(unit, spread), MIN_SPREAD * unit)
    return np.where(compares_boxes & (boxes > 0), of_fleet, unit)


# Evidence and notes


def _find_evidence(assessment: Assessment, box: int, calibrator: Calibrator) -> tuple[Evidence, ...]:
    """Return the evidence that the box at index `box` drifts, strongest first."""
    units = np.nan_to_num(assessment.units[box], nan=0.0)
    strongest = [measure for measure in np.argsort(-units) if units[measure] >= WORTH_SHOWING]
    evidence = []
    for measure in strongest[:SHOWN_EVIDENCE]:  # indices of measures
        name, value = assessment.measures[measure], float(assessment.values[box, measure])
        kind, _, channel = name.partition(" ")
        sentence = SENTENCES[kind](value, _UnitFormatter(calibrator), channel)
        evidence.append(Evidence(name, value, float(assessment.units[box, measure]), sentence))
    return tuple(evidence)


@dataclass(frozen=True)
class _UnitFormatter:
    """Formats a change in scaled units in the unit of the target or of a channel: "3.2 µg/m³ higher"."""

    calibrator: Calibrator

    def target(self, value: float) -> str:
        """Format a change of the calibrated value, given in the target's scale, in the target's unit."""
        scale = float(self.calibrator.inputs.scaling.target.scale[0])
        return _higher(value * scale, self.calibrator.target)

    def channel(self, value: float, name: str) -> str:
        """Format a change of the channel `name`, given in the fleet's scale, in the channel's unit."""
        index = [channel.name for channel in self.calibrator.inputs.channels].index(name)
        scale = float(self.calibrator.inputs.scaling.fleet.scale[index])
        return _higher(value * scale, self.calibrator.inputs.channels[index])

    def humidity(self) -> str:
        """Return how many % RH one scaled unit of the humidity channel is."""
        channels = self.calibrator.inputs.channels
        index = next(index for index, channel in enumerate(channels) if is_called(channel.name, "RH"))
        return f"{float(self.calibrator.inputs.scaling.fleet.scale[index]):.3g} % RH"


def _higher(value: float, channel: Channel) -> str:
    """Format a difference in the channel's unit, such as "3.2 µg/m³ higher"."""
    return f"{abs(value):.3g} {display_unit(channel.unit)}".strip() + (" higher" if value > 0 else " lower")


def _percent_more(logarithm: float) -> str:
    """Format the logarithm of a ratio, such as "12 % more"."""
    return f"{100 * abs(np.expm1(logarithm)):.0f} % {'more' if logarithm > 0 else 'less'}"


SENTENCES: dict[str, Callable[[float, _UnitFormatter, str], str]] = {
    "neighbours": lambda value, scales, _: (
        f"in the same air it reads {scales.target(value)} relative to the others than in its first days"
    ),
    "gain": lambda value, scales, _: f"when the others rise, it rises {_percent_more(value)} than in its first days",
    "humidity": lambda value, scales, _: (
        f"with {scales.humidity()} more it reads {scales.target(value)} relative to the others than before"
    ),
    "night": lambda value, scales, _: (
        f"in the cleanest hours it reads {scales.target(value)} relative to the others than in its first days"
    ),
    "response": lambda value, scales, _: (
        f"its sensor follows the others from hour to hour {_percent_more(value)} than before"
    ),
    "shift": lambda value, scales, channel: (
        f"{channel} reads {scales.channel(value, channel)} relative to the others than in its first days"
    ),
    "liveliness": lambda value, scales, _: (
        f"its sensor's changes from hour to hour are {np.exp(value):.2g} times those of its first days"
    ),
    "stuck": lambda value, scales, _: f"{100 * value:.0f} % of its hours repeat the hour before",
    "silent": lambda value, scales, _: f"no value in {100 * value:.0f} % of the hours in which others have one",
}


def _notes(boxes: int, days: int, lengths: tuple[int, int]) -> list[str]:
    """Return what could not be assessed in a fleet of this size over these days, and why."""
    notes = []
    if boxes < FEWEST_BOXES:
        notes.append(
            f"with fewer than {FEWEST_BOXES} boxes a drift cannot be told from weather: only a sensor that is stuck,"
            " silent or hardly changes any more is found"
        )
    elif boxes < ENOUGH_BOXES:
        notes.append(f"with {boxes} boxes the normal spread is unknown, so an alarm needs three times the change")
    if days < FEWEST_DAYS:
        notes.append(f"a change cannot be measured in {plural(days, 'day')}; give at least {FEWEST_DAYS}")
    elif days < USUAL_DAYS + RECENT_DAYS:
        notes.append(
            f"{days} days: the last {lengths[1]} are compared with the first {lengths[0]}; re-collocation is only"
            f" recommended from {USUAL_DAYS + RECENT_DAYS} days on"
        )
    return notes
