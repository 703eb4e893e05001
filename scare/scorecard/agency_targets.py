"""Comparison of calibrated readings with US EPA's performance targets for air sensors, from a dated data file.

Averages are of calibrated and reference readings at the same rows: days (in UTC) for particles, hours for gases. A
regression has the reference on the x axis; r² is the squared correlation. This is not a certification.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np

from scare.data.quantities import conversion, find_quantity, quantity, spell_unit
from scare.data.readings import Channel
from scare.records import Amount, Count, convert, load_toml, with_names
from scare.scorecard.accuracy import rmse, squared_correlation
from scare.scorecard.series import DeviceSeries

TABLE = Path(__file__).with_name("agency_targets.toml")
EITHER = (("rmse", "nrmse"), ("sd", "cv"))  # pairs of measures; it is enough to meet one of a pair
IN_UNIT = ("intercept", "rmse", "sd")  # bounds that have the unit; the others are ratios
SAME_PLACE = 0.05  # share of the mean by which references at one place may differ
FEWEST = 3  # averages needed for a result
Bounds = tuple[float, float]  # lowest and highest value


@dataclass(frozen=True)
class AgencyTarget:
    """The targets for one pollutant: bounds by measure, in the unit for intercept, rmse and sd."""

    name: str
    unit: str
    average_hours: Count
    source: str
    bounds: Mapping[str, Bounds]

    def in_unit(self, unit: str) -> "AgencyTarget | None":
        """Convert the bounds to another unit; None if there is no conversion."""
        found = conversion(self.unit, unit, quantity(self.name).molar_mass)
        if found is None:
            return None
        scaled = {name: (found.gain * self.bounds[name][0], found.gain * self.bounds[name][1]) for name in IN_UNIT}
        return replace(self, unit=unit, bounds={**self.bounds, **scaled})


@dataclass(frozen=True)
class AgencyTargets:
    """The data file: its date, the protocol (completeness of an average, sensors side by side, days), the targets."""

    as_of: date
    completeness: Amount  # share of the readings that an average needs
    units: Count  # sensors side by side that EPA asks for
    days: Count  # length of the test that EPA asks for
    targets: Mapping[str, AgencyTarget]


@dataclass(frozen=True)
class TargetResult:
    """Measures of one device, or of several for precision, and whether each is within its bounds.

    `one_is_enough`: whether one measure of a pair in `EITHER` is within its bounds; None where there is no pair.
    """

    device: str
    averages: int
    days: int
    values: Mapping[str, float | None]
    met: Mapping[str, bool]
    one_is_enough: bool | None


@dataclass(frozen=True)
class Assessment:
    """Results of all devices with the targets of their pollutant, as in a card."""

    pollutant: str
    unit: str
    average_hours: int
    source: str
    as_of: str
    bounds: Mapping[str, Bounds]
    devices: tuple[TargetResult, ...]
    precision: TargetResult | None


@cache
def agency_targets() -> AgencyTargets:
    """Load the data file."""
    table = load_toml(TABLE)
    return convert({**table, "targets": with_names(table["targets"])}, AgencyTargets, TABLE)


def find_target(channel: Channel) -> AgencyTarget | None:
    """The targets of the pollutant that a channel is named after, in EPA's unit.

    >>> find_target(Channel("Ref.NO2")).unit, find_target(Channel("co2"))
    ('ppb', None)
    """
    found = find_quantity(channel.name)
    return agency_targets().targets.get(found.name) if found else None


def title(channel: Channel) -> str:
    """The usual spelling of what a channel measures; the channel's name where there is no target.

    >>> title(Channel("pm25_reference")), title(Channel("co2"))
    ('PM2.5', 'co2')
    """
    found = find_target(channel)
    return found.name if found else channel.name


def assess(series: Sequence[DeviceSeries], channel: Channel) -> Assessment | None:
    """Assess devices against EPA's bounds; None for another quantity or a unit that cannot be converted."""
    found = find_target(channel)
    target = found and found.in_unit(spell_unit(channel.unit))
    if not target:
        return None
    scored = [one for one in series if len(one.scored)]
    return Assessment(
        pollutant=target.name,
        unit=target.unit,
        average_hours=target.average_hours,
        source=target.source,
        as_of=str(agency_targets().as_of),
        bounds=target.bounds,
        devices=tuple(assess_device(one, target) for one in scored),
        precision=assess_precision(scored, target),
    )


def assess_device(series: DeviceSeries, target: AgencyTarget) -> TargetResult:
    """Compute one device's measures on averages and compare them with their bounds; none if there are too few."""
    found = _Averages.from_series(series, target.average_hours)
    days = len(np.unique(found.numbers * target.average_hours // 24))
    if len(found.numbers) < FEWEST or np.ptp(found.reference) == 0 or np.ptp(found.calibrated) == 0:
        return _compare(series.device, len(found.numbers), days, {}, target)
    error = rmse(found.calibrated - found.reference)
    slope, intercept = np.polyfit(found.reference, found.calibrated, 1).tolist()
    r2 = squared_correlation(found.calibrated, found.reference)
    values = {"slope": slope, "intercept": intercept, "r2": r2, "rmse": error}
    values["nrmse"] = error / float(found.reference.mean())
    values = {name: value for name, value in values.items() if name in target.bounds}
    return _compare(series.device, len(found.numbers), days, values, target)


def assess_precision(series: Sequence[DeviceSeries], target: AgencyTarget) -> TargetResult | None:
    """Compute the spread of devices side by side, over the averages that all of them have.

    None for too few devices or averages, or if their references differ, so that they are not at one place.
    """
    averages = {one.device: _Averages.from_series(one, target.average_hours) for one in series}
    averages = {device: one for device, one in averages.items() if len(one.numbers) >= FEWEST}
    found = list(averages.values())
    if len(found) < agency_targets().units:
        return None
    common = found[0].numbers
    for one in found[1:]:
        common = np.intersect1d(common, one.numbers)
    kept = [one.select(common) for one in found]
    reference = np.array([one.reference for one in kept])
    difference = np.abs(reference - reference[0]).mean() if len(common) else np.inf
    if len(common) < FEWEST or difference > SAME_PLACE * np.abs(reference[0]).mean():
        return None
    values = np.array([one.calibrated for one in kept])
    spread = float(np.sqrt(np.square(values - values.mean(axis=0)).sum() / (values.size - 1)))
    measures = {"sd": spread, "cv": spread / float(values.mean())}
    days = len(np.unique(common * target.average_hours // 24))
    return _compare(", ".join(averages), len(common), days, measures, target)


@dataclass(frozen=True)
class _Averages:
    """Averages over complete hours or days [n] each; `numbers` count these periods since 1970."""

    numbers: np.ndarray
    reference: np.ndarray
    calibrated: np.ndarray

    @staticmethod
    def from_series(series: DeviceSeries, hours: int) -> "_Averages":
        """Average the scored rows of a device over periods of `hours`."""
        scored, seconds = series.scored, 3600.0 * hours
        numbers, place, counts = np.unique(scored.times // seconds, return_inverse=True, return_counts=True)
        expected = max(1.0, seconds / series.step_seconds) if series.step_seconds else 1.0  # rows of a full period
        complete = counts >= agency_targets().completeness * expected
        sums = [np.bincount(place, column, len(numbers)) for column in (scored.reference, scored.calibrated)]
        return _Averages(numbers[complete], *(one[complete] / counts[complete] for one in sums))

    def select(self, numbers: np.ndarray) -> "_Averages":
        """Keep the averages with these numbers."""
        keep = np.isin(self.numbers, numbers)
        return _Averages(self.numbers[keep], self.reference[keep], self.calibrated[keep])


def _compare(device: str, averages: int, days: int, values: Mapping[str, float], target: AgencyTarget) -> TargetResult:
    """Make the result of one or several devices: which measures in `values` are within their bounds."""
    met = {name: target.bounds[name][0] <= value <= target.bounds[name][1] for name, value in values.items()}
    pair = next((pair for pair in EITHER if set(pair) <= met.keys()), ())
    return TargetResult(device, averages, days, values, met, any(met[name] for name in pair) if pair else None)
