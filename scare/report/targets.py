"""Calibrated readings beside US EPA's performance targets for air sensors, from a dated data file.

Averages are of calibrated and reference readings at the same rows: days (in UTC) for particles, hours for gases. A
regression has the reference on the x axis; r² is the squared correlation. Nothing here certifies anything.
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from scare.data.readings import Channel
from scare.report.run import Series
from scare.scorecard.accuracy import rmse, squared_correlation

EITHER = (("rmse", "nrmse"), ("sd", "cv"))  # meeting one of two is enough
IN_UNIT = ("intercept", "rmse", "sd")  # bounds that have the unit; the others are ratios
PPB = {"ppb": 1.0, "ppm": 1e3}
UGM3 = {"ug/m3": 1.0, "mg/m3": 1e3}
SAME_PLACE = 0.05  # of the mean: references that differ by more are not of one place
FEWEST = 3  # averages that say something
Bounds = tuple[float, float]


@dataclass(frozen=True)
class Target:
    """The targets for one pollutant: bounds by measure, in the unit for intercept, rmse and sd."""

    title: str
    name: str
    unit: str
    average_hours: int
    source: str
    bounds: dict[str, Bounds]
    molar_mass: float = 0.0

    def in_unit(self, unit: str) -> "Target | None":
        """The same targets in another unit, None if there is no way there."""
        factor = _factor(self.unit, unit, self.molar_mass)
        if factor is None:
            return None
        scaled = {name: (factor * self.bounds[name][0], factor * self.bounds[name][1]) for name in IN_UNIT}
        return replace(self, unit=unit, bounds={**self.bounds, **scaled})


@dataclass(frozen=True)
class Judged:
    """One device, or several as one for precision: its averages, measures, and whether each is within its bounds.

    Of the measures of a pair in `EITHER` one within is enough.
    """

    device: str
    averages: int
    days: int
    values: dict[str, float]
    met: dict[str, bool]

    @property
    def enough(self) -> bool | None:
        """Whether one of a pair is within its bounds; None where there is no pair."""
        pair = next((pair for pair in EITHER if set(pair) <= self.met.keys()), ())
        return any(self.met[name] for name in pair) if pair else None


@cache
def protocol() -> dict[str, Any]:
    """What the data file says of all pollutants: its date, completeness, units side by side, days."""
    return {name: value for name, value in _file().items() if not isinstance(value, dict)}


@cache
def targets() -> tuple[Target, ...]:
    """The targets of all pollutants."""
    made = []
    for facts in _file().values():
        if isinstance(facts, dict):
            bounds = {name: tuple(value) for name, value in facts.items() if isinstance(value, list)}
            made.append(Target(**{k: v for k, v in facts.items() if k not in bounds}, bounds=bounds))
    return tuple(made)


def find_target(channel: Channel) -> Target | None:
    """The targets of the pollutant that a channel is named after, in EPA's unit.

    >>> find_target(Channel("Ref.NO2")).title, find_target(Channel("co2"))
    ('NO2', None)
    """
    return next((one for one in targets() if re.search(one.name, channel.name.lower())), None)


def named(channel: Channel) -> str:
    """What a channel measures, as people write it; its own name where that is not known.

    >>> named(Channel("pm25_reference")), named(Channel("co2"))
    ('PM2.5', 'co2')
    """
    found = find_target(channel)
    return found.title if found else channel.name


def judge(series: Series, target: Target) -> Judged:
    """One device's measures on averages, with the bounds they are within."""
    found = _Averages.of(series, target.average_hours)
    days = len(np.unique(found.numbers * target.average_hours // 24))
    if len(found.numbers) < FEWEST or np.ptp(found.reference) == 0 or np.ptp(found.calibrated) == 0:
        return Judged(series.device, len(found.numbers), days, {}, {})
    error = rmse(found.calibrated - found.reference)
    slope, intercept = np.polyfit(found.reference, found.calibrated, 1).tolist()
    r2 = squared_correlation(found.calibrated, found.reference)
    values = {"slope": slope, "intercept": intercept, "r2": r2, "rmse": error}
    values["nrmse"] = error / float(found.reference.mean())
    values = {name: value for name, value in values.items() if name in target.bounds}
    return Judged(series.device, len(found.numbers), days, values, _met(values, target))


def judge_precision(series: Sequence[Series], target: Target) -> Judged | None:
    """How alike devices side by side are, or None: too few with averages, or not beside the same reference."""
    averages = {one.device: _Averages.of(one, target.average_hours) for one in series}
    averages = {device: one for device, one in averages.items() if len(one.numbers) >= FEWEST}
    found = list(averages.values())
    if len(found) < protocol()["units"]:
        return None
    common = found[0].numbers
    for one in found[1:]:
        common = np.intersect1d(common, one.numbers)
    kept = [one.at(common) for one in found]
    reference = np.array([one.reference for one in kept])
    apart = np.abs(reference - reference[0]).mean() if len(common) else np.inf
    if len(common) < FEWEST or apart > SAME_PLACE * np.abs(reference[0]).mean():
        return None
    values = np.array([one.calibrated for one in kept])
    spread = float(np.sqrt(np.square(values - values.mean(axis=0)).sum() / (values.size - 1)))
    measures = {"sd": spread, "cv": spread / float(values.mean())}
    days = len(np.unique(common * target.average_hours // 24))
    return Judged(", ".join(averages), len(common), days, measures, _met(measures, target))


@dataclass(frozen=True)
class _Averages:
    """Averages of complete hours or days, by their number since 1970."""

    numbers: np.ndarray
    reference: np.ndarray
    calibrated: np.ndarray

    @staticmethod
    def of(series: Series, hours: int) -> "_Averages":
        scored, seconds = series.scored, 3600.0 * hours
        numbers, place, counts = np.unique(scored.times // seconds, return_inverse=True, return_counts=True)
        expected = max(1.0, seconds / series.step_seconds) if series.step_seconds else 1.0
        complete = counts >= protocol()["completeness"] * expected
        sums = [np.bincount(place, column, len(numbers)) for column in (scored.reference, scored.calibrated)]
        return _Averages(numbers[complete], *(one[complete] / counts[complete] for one in sums))

    def at(self, numbers: np.ndarray) -> "_Averages":
        keep = np.isin(self.numbers, numbers)
        return _Averages(self.numbers[keep], self.reference[keep], self.calibrated[keep])


def _met(values: dict[str, float], target: Target) -> dict[str, bool]:
    return {name: target.bounds[name][0] <= value <= target.bounds[name][1] for name, value in values.items()}


def _factor(unit: str, other: str, molar_mass: float) -> float | None:
    """How many of `other` one `unit` is; ppb and ug/m3 by the molar volume."""
    for scale in (PPB, UGM3):
        if unit in scale and other in scale:
            return scale[unit] / scale[other]
    if unit in PPB and other in UGM3 and molar_mass:
        return PPB[unit] * molar_mass / float(protocol()["molar_volume"]) / UGM3[other]
    return None


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("targets.toml").read_text(encoding="utf-8"))
