"""Devices graded against a set of targets: which class each reaches, and how sure that is.

    averages (hours, days) → measures (regression, errors, expanded uncertainty, between units) → the class reached

A device reaches the best class whose bounds all its measures are within. Resampled blocks of days say how often it
would have reached another one. What a set asks for and could not be measured, such as units side by side, is named and
not assumed. This is not a certification.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from scare.data.quantities import display_unit, spell_unit
from scare.data.readings import Channel
from scare.scorecard.averages import Averages, Averaging, common_periods
from scare.scorecard.series import DeviceSeries
from scare.scorecard.targets import Classes, Target, TargetSet, measures_of
from scare.scorecard.uncertainty import (
    HETEROSCEDASTIC,
    Regression,
    Sample,
    between_units,
    breusch_pagan,
    expand,
    fit_line,
    number_blocks,
    reference_uncertainty,
    share_of_draws,
)

LINE = ("slope", "intercept")  # measures that are shown in any case
OF_SEVERAL = ("sd", "cv", "between_units")  # measures of units side by side
SAME_PLACE = 0.05  # share of the mean by which references at one place may differ
FEWEST = 3  # averages needed for a result
BELOW_ALL = "none"  # the class of a device that reaches none
CERTAIN = 0.95  # share of the resamples that reach the class of a result that is certain
LIKELY = 0.005  # share of the resamples from which a class is named
LEVEL = (2.5, 97.5)  # percentiles of a 95 % interval
CURVE_POINTS, CURVE_END = 40, 1.05  # of the uncertainty over concentration, up to so many times limit or highest value
Interval = tuple[float, float]


@dataclass(frozen=True)
class Curve:
    """Relative expanded uncertainty over the reference `x`, and its 95 % interval; shares, [k] each.

    `random` and `bias` are the axes of a modified target diagram: two standard uncertainties of the random part, and
    twice the bias, over x. `low` and `high` are empty with too few days.
    """

    x: tuple[float, ...]
    uncertainty: tuple[float, ...]
    random: tuple[float, ...]
    bias: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class TargetResult:
    """Measures of one device, or of several side by side, and the class they reach.

    `met` says of each class which measures are within its bounds; `reached` is a class, `BELOW_ALL`, or empty if
    nothing could be measured. `chances` are shares of the resamples by class; with too few days there are none.
    """

    device: str
    averages: int
    days: int
    values: Mapping[str, float | None]
    met: Mapping[str, Mapping[str, bool]]
    reached: str
    chances: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, Interval] = field(default_factory=dict)  # 95 %, by measure
    standard_uncertainties: Mapping[str, float] = field(default_factory=dict)  # of slope and intercept
    spread_depends_on_level: bool | None = None
    highest_reference: float | None = None
    curve: Curve | None = None

    @property
    def certain(self) -> bool:
        """Whether nearly all resamples reach the same class."""
        return self.chances.get(self.reached, 0.0) >= CERTAIN

    @property
    def certainty(self) -> str:
        """How sure the class is, in words.

        >>> TargetResult("a", 90, 9, {}, {}, "class 2", {"class 2": 0.8, "class 3": 0.2}).certainty
        'uncertain: class 2 80 %, class 3 20 %'
        """
        if not self.reached:
            return ""
        if not self.chances:
            return "uncertain: few days"
        if self.certain:
            return f"sure: {100 * self.chances[self.reached]:.0f} %"
        likely = {name: share for name, share in self.chances.items() if share >= LIKELY}
        named = (f"{'no class' if name == BELOW_ALL else name} {100 * share:.0f} %" for name, share in likely.items())
        return f"uncertain: {', '.join(named)}"


@dataclass(frozen=True)
class Assessment:
    """The results of all devices, with the target that they were graded against, converted to the readings' unit."""

    name: str
    title: str
    pollutant: str
    unit: str
    average_hours: int
    limit: float | None
    regression: Regression
    completeness: float
    through_hours: bool
    source: str
    second_hand: str
    as_of: str
    remarks: tuple[str, ...]
    classes: Classes
    either: tuple[tuple[str, ...], ...]
    units_needed: int
    days_needed: int | None
    converted: str
    reference_uncertainty: float
    reference_source: str
    devices: tuple[TargetResult, ...]
    together: TargetResult | None

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures for which at least one class has bounds."""
        return measures_of(self.classes)

    @property
    def deming_ratio(self) -> float | None:
        """The ratio of the error variances in a Deming regression, u²(bs,s) / u²(bs,RM); None if one is unknown."""
        u_between = self.together.values.get("between_units") if self.together else None
        return (u_between / self.reference_uncertainty) ** 2 if u_between and self.reference_uncertainty else None

    @property
    def untested(self) -> tuple[str, ...]:
        """The measures with bounds for which neither a device nor the units side by side have a value."""
        results = [*self.devices, *([self.together] if self.together else [])]
        return tuple(name for name in self.measures if not any(name in result.values for result in results))

    def beyond(self, result: TargetResult) -> bool:
        """Whether the uncertainty of a device is judged at a concentration that it has not seen."""
        highest = result.highest_reference
        return self.limit is not None and highest is not None and highest < self.limit


def assess(
    series: Sequence[DeviceSeries], channel: Channel, targets: TargetSet, reference: str = ""
) -> Assessment | None:
    """Assess devices against a set of targets; None if it has none for the channel's quantity, or in its unit.

    `reference` is the uncertainty of the reference analyser or its name, as `reference_uncertainty` takes it.
    """
    published = targets.find(channel)
    target = published.in_unit(spell_unit(channel.unit), targets.temperature) if published else None
    if published is None or target is None:
        return None
    u_reference, source = 0.0, ""
    if reference:
        u_reference, source = reference_uncertainty(reference, target.name, target.unit, targets.temperature)
    grader = _Grader(targets, target, u_reference)
    averages = {
        device_series.device: grader.averaging.of_scored(device_series)
        for device_series in series
        if len(device_series.scored)
    }
    together = grader.side_by_side(averages)
    u_between = (together.values.get("between_units") if together else None) or 0.0
    converted = ""
    if published.unit != target.unit:
        units = f"{display_unit(published.unit)} to {display_unit(target.unit)}"
        converted = f"from {units} at {targets.temperature:g} °C and 1013 hPa"
    return Assessment(
        name=targets.name,
        title=targets.title,
        pollutant=target.name,
        unit=target.unit,
        average_hours=target.average_hours,
        limit=target.limit,
        regression=targets.regression,
        completeness=targets.completeness,
        through_hours=targets.through_hours,
        source=target.source or targets.source,
        second_hand=targets.second_hand,
        as_of=str(targets.as_of),
        remarks=targets.remarks,
        classes=target.classes,
        either=targets.either,
        units_needed=targets.units,
        days_needed=targets.days,
        converted=converted,
        reference_uncertainty=u_reference,
        reference_source=source,
        devices=tuple(
            grader.grade(device_series, averages[device_series.device], u_between)
            for device_series in series
            if device_series.device in averages
        ),
        together=together,
    )


@dataclass(frozen=True)
class _Grader:
    """Grades devices against a target in the readings' unit; `u_reference` is u(bs,RM), that of the reference."""

    targets: TargetSet
    target: Target
    u_reference: float

    @property
    def averaging(self) -> Averaging:
        """How the target's averages are made."""
        return Averaging(self.target.average_hours, self.targets.completeness, self.targets.through_hours)

    def side_by_side(self, averages: Mapping[str, Averages]) -> TargetResult | None:
        """Measure how far units side by side differ, over the averages that all of them have.

        None for too few units or averages, or if their references differ, so that they are not at one place.
        """
        units = {device: means for device, means in averages.items() if len(means) >= FEWEST}
        bounded = [name for name in OF_SEVERAL if name in self.target.measures]
        if not bounded or len(units) < max(2, self.targets.units):
            return None
        common = common_periods(list(units.values()))
        side_by_side = [means.select(common) for means in units.values()]
        reference = np.array([means.reference for means in side_by_side])  # [units, periods]
        difference = np.abs(reference - reference[0]).mean() if len(common) else np.inf
        if len(common) < FEWEST or difference > SAME_PLACE * np.abs(reference[0]).mean():
            return None
        values = np.array([means.calibrated for means in side_by_side])  # [units, periods]
        # The sd of EPA's report: all units' differences from the mean of each period together.
        sd = float(np.sqrt(np.square(values - values.mean(axis=0)).sum() / (values.size - 1)))
        measures = {"sd": sd, "cv": sd / float(values.mean()), "between_units": between_units(values.T)}
        return self.judge(", ".join(units), side_by_side[0], {name: measures[name] for name in bounded})

    def grade(self, series: DeviceSeries, averages: Averages, u_between: float) -> TargetResult:
        """Measure and judge one device; `u_between` is u(bs,s) of the units beside it, 0 if unknown."""
        if len(averages) < FEWEST or np.ptp(averages.reference) == 0 or np.ptp(averages.calibrated) == 0:
            return self.judge(series.device, averages, {})
        block = number_blocks(averages.days)  # None: too few days to resample
        one_block = np.zeros(len(averages), int)
        sample = Sample.blocks(averages.reference, averages.calibrated, one_block if block is None else block)
        # The ratio of the error variances, for a Deming regression; 1 if one of them is not known.
        ratio = (u_between / self.u_reference) ** 2 if self.u_reference and u_between else 1.0
        line = fit_line(sample.whole, self.targets.regression, ratio)
        residuals = averages.calibrated - line.intercept - line.slope * averages.reference
        # Whether the calibrated values scatter more, or less, where the reference is higher.
        by_level = breusch_pagan(averages.reference, residuals) < HETEROSCEDASTIC
        curve_end = CURVE_END * max(self.target.limit or 0.0, float(averages.reference.max()))
        measurer = _Measurer(self, ratio, by_level, u_between, curve_end)
        # Two measures do not come from the sample, so they are the same in every resample.
        known = {"data_capture": self.averaging.capture(series), "between_units": u_between or None}
        fixed = {name: value for name, value in known.items() if name in self.target.measures and value is not None}
        values, curve = measurer.measure(sample.whole)
        result = replace(
            self.judge(series.device, averages, {**values, **fixed}),
            standard_uncertainties={
                "slope": float(line.slope_uncertainty),
                "intercept": float(line.intercept_uncertainty),
            },
            spread_depends_on_level=by_level,
            highest_reference=float(averages.reference.max()),
            curve=curve,
        )
        if block is None:
            return result
        draws, curve_interval = measurer.measure(sample.resampled())
        percentiles = {name: np.nanpercentile(values, LEVEL).tolist() for name, values in draws.items()}
        reached = np.broadcast_to(self.reach({**draws, **fixed}), len(draws["slope"]))
        if curve and curve_interval:
            curve = replace(curve, low=curve_interval.low, high=curve_interval.high)
        return replace(
            result,
            chances=share_of_draws(reached),
            intervals={name: (low, high) for name, (low, high) in percentiles.items()},
            curve=curve,
        )

    def judge(self, device: str, averages: Averages, values: Mapping[str, float | np.ndarray]) -> TargetResult:
        """Return which measures are within the bounds of each class, and which class is reached."""
        measured = {name: float(value) for name, value in values.items()}
        met: dict[str, dict[str, bool]] = {}
        for name, bounds in self.target.classes.items():
            known = {measure: limits for measure, limits in bounds.items() if measure in measured}
            met[name] = {measure: low <= measured[measure] <= high for measure, (low, high) in known.items()}
        reached = str(self.reach(measured)) if measured else ""
        return TargetResult(device, len(averages), len(np.unique(averages.days)), measured, met, reached)

    def reach(self, values: Mapping[str, float | np.ndarray]) -> np.ndarray:
        """Find the best class whose bounds all values are within.

        Of a pair of measures in the set's `either`, such as rmse and nrmse, one within its bounds is enough. Values are
        numbers, or one for each resample [draws]; the result has the same shape.
        """
        reached = np.array(BELOW_ALL)
        for name, bounds in reversed(list(self.target.classes.items())):  # the best class last
            within: dict[str, np.ndarray] = {}
            for measure, (low, high) in bounds.items():
                if measure in values:
                    value = np.asarray(values[measure])
                    within[measure] = (low <= value) & (value <= high)
            met = np.array(bool(within))  # a class of which nothing was measured is not reached
            for group in self._groups(within):
                met = met & np.any([within[measure] for measure in group], axis=0)
            reached = np.where(met, name, reached)
        return reached

    def _groups(self, names: Mapping[str, object]) -> Iterator[list[str]]:
        """Yield groups of these measures; of each group, one has to be within its bounds.

        A pair in the set's `either` is a group, and so is every other measure by itself.
        """
        pairs = [[name for name in pair if name in names] for pair in self.targets.either]
        yield from filter(None, pairs)
        yield from ([name] for name in names if not any(name in pair for pair in pairs))


@dataclass(frozen=True)
class _Measurer:
    """Computes measures from a sample, or from all of its resamples at once."""

    grader: _Grader
    ratio: float  # of the variances of errors in a Deming regression
    by_level: bool  # whether the spread depends on the reference
    u_between: float  # u(bs,s)
    curve_end: float  # highest reference of the curve, in the unit of the target

    def measure(self, sample: Sample) -> tuple[dict[str, np.ndarray], Curve | None]:
        """Compute each measure and, if the target bounds the uncertainty, its curve.

        Of resamples, a measure is an array with one number for each, and the curve holds only its 95 % interval.
        """
        target, regression = self.grader.target, self.grader.targets.regression
        n, mean_x, mean_y, sxx, syy, sxy = sample.moments
        line = fit_line(sample, regression, self.ratio)
        # The mean square of y − x is its variance plus the square of its mean; rounding may make it negative.
        rmse = np.sqrt(np.maximum(0.0, (syy + sxx - 2 * sxy) / n + np.square(mean_y - mean_x)))
        with np.errstate(divide="ignore", invalid="ignore"):
            values = {"slope": line.slope, "intercept": line.intercept, "r2": sxy * sxy / (sxx * syy), "rmse": rmse}
            values["nrmse"] = rmse / mean_x
        curve = None
        if "uncertainty" in target.measures and target.limit:
            expanded = expand(sample, line, self.by_level, self.grader.u_reference, self.u_between)
            values["uncertainty"] = expanded.relative(np.array([target.limit]))[..., 0]
            grid = self.curve_end * np.arange(1, CURVE_POINTS + 1) / CURVE_POINTS
            random, bias = 2 * expanded.random(grid) / grid, 2 * expanded.bias(grid) / grid
            curve = _curve(grid, expanded.relative(grid), random, bias)
        return {name: value for name, value in values.items() if name in (*LINE, *target.measures)}, curve


def _curve(grid: np.ndarray, relative: np.ndarray, random: np.ndarray, bias: np.ndarray) -> Curve:
    """Make the curve of a sample from its points [k], or the interval of the curve from resamples [draws, k]."""
    if relative.ndim == 1:
        return Curve(*(tuple(points.tolist()) for points in (grid, relative, random, bias)))
    low, high = np.nanpercentile(relative, LEVEL, axis=0).tolist()
    return Curve((), (), (), (), tuple(low), tuple(high))
