"""Simulated air and what imperfect boxes read in it: the physics behind `simulate`.

Every rate and memory is given in seconds, hours or days, so it means the same at any step. Hours of the
day are UTC. Particles swell with humidity by κ-Köhler theory (Petters and Kreidenweis 2007) in the form
used to correct optical counters (Crilley et al. 2018); the zero of an electrochemical cell rises
exponentially with temperature (Popoola et al. 2016); nitrogen dioxide and ozone share one budget of
oxidant (Clapp and Jenkin 2001). The numbers are plausible, not fitted to any instrument. A `Drift` changes the
sensor itself, before noise, limits and rounding, not the numbers that it reports.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Self

import numpy as np
from numpy.random import Generator

from scare.data.quantities import quantity
from scare.data.readings import Channel
from scare.errors import UsageError

DAY, HOUR = 86400.0, 3600.0

KAPPA, DRY_DENSITY_GCM3, HUMIDITY_CAP_PERCENT = 0.3, 1.65, 98.0
COARSE_SEEN = 0.3  # share of the coarse mass that the laser sees
COUNTS_PER_UGM3_SECOND = 0.5
PM_RAW_MAXIMUM_UGM3 = 1000.0
O3_SEEN_BY_NO2_CELL = 0.2
DROPOUT_SHARE, DROPOUT_SECONDS = 0.01, 900.0  # share of rows in which a box is silent; mean duration of a silence
SPIKES_PER_DAY = 0.5
DYING_SECONDS, DYING_RESPONSE = 6 * HOUR, 0.1  # lag and gain with which a dead cell still follows the air
HUMIDITY_ZERO_NA = 5.0  # shift of a cell's zero from dry to wet air, for a drift of humidity of size 1
PLACE_SECONDS = 6 * HOUR  # time constant of the difference between two places
TEMPERATURE, HUMIDITY = quantity("T").channel("temperature"), quantity("RH").channel("humidity")


class DriftKind(StrEnum):
    """What can drift: the gain, the zero, the effect of humidity, or the whole cell as it dies."""

    GAIN = "gain"
    OFFSET = "offset"
    HUMIDITY = "humidity"
    DYING = "dying"


DRIFT_SIZES = {DriftKind.GAIN: -0.3, DriftKind.OFFSET: 5.0, DriftKind.HUMIDITY: 1.0, DriftKind.DYING: 1.0}


@dataclass(frozen=True)
class Drift:
    """A drift of one box's first channel: it starts on `day` and is complete `ramp_days` later.

    `size` (0: the usual one of its kind) is the relative change of a gain, an offset in the sensor's unit, by how many
    times the effect of humidity grows, or the dead share of a dying cell.
    """

    kind: DriftKind
    box: int = 0
    day: float = 30.0
    ramp_days: float = 14.0
    size: float = 0.0

    def __post_init__(self) -> None:
        if self.box < 0 or self.day < 0 or self.ramp_days < 0:
            raise UsageError(
                f"a drift's box, day and ramp cannot be negative: {self.box}, {self.day:g}, {self.ramp_days:g} days"
            )
        if self.kind is DriftKind.DYING and not 0 <= self.size <= 1:
            raise UsageError(f"the dead share of a cell is {self.size:g}; give a share from 0 to 1")

    def course(self, days: np.ndarray) -> np.ndarray:
        """Return the size of the drift on each of these days.

        >>> Drift(DriftKind.GAIN, day=1, ramp_days=2, size=0.1).course(np.arange(5.0))
        array([0.  , 0.  , 0.05, 0.1 , 0.1 ])
        """
        grown = np.clip((days - self.day) / self.ramp_days, 0, 1) if self.ramp_days else days >= self.day
        return (self.size or DRIFT_SIZES[self.kind]) * grown


@dataclass(frozen=True)
class Wear:
    """Effect of drifts on a sensor, [rows] each: gain factor, offset, extra effect of humidity, dead share (0 to 1)."""

    gain: np.ndarray
    offset: np.ndarray
    humidity: np.ndarray
    dead: np.ndarray

    @staticmethod
    def from_drifts(drifts: Sequence[Drift], days: np.ndarray) -> "Wear":
        """Add up the drifts of a box at rows `days` after the start."""
        courses = {kind: np.zeros(len(days)) for kind in DriftKind}
        for drift in drifts:
            courses[drift.kind] = courses[drift.kind] + drift.course(days)
        return Wear(
            gain=1 + courses[DriftKind.GAIN],
            offset=courses[DriftKind.OFFSET],
            humidity=courses[DriftKind.HUMIDITY],
            dead=np.minimum(courses[DriftKind.DYING], 1.0),
        )


@dataclass(frozen=True)
class Clock:
    """Evenly spaced rows: how many, how far apart, and the second since 1970 of the first."""

    rows: int
    step_seconds: float
    start_seconds: float

    @property
    def hours(self) -> np.ndarray:
        """Hour of the day of each row, 0 to 24."""
        return (self.start_seconds + self.step_seconds * np.arange(self.rows)) % DAY / HOUR

    @property
    def days(self) -> np.ndarray:
        """The days from the first row to each row."""
        return self.step_seconds * np.arange(self.rows) / DAY

    def kept(self, memory_seconds: float) -> float:
        """Return the share that remains after one step of a decay with the time constant `memory_seconds`."""
        return float(np.exp(-self.step_seconds / memory_seconds))


def decaying_sum(inputs: np.ndarray, kept: float) -> np.ndarray:
    """Return the recursion sum[t] = kept · sum[t−1] + inputs[t], in log₂(rows) array operations.

    After each doubling of `shift`, every row holds the decayed sum of its last `shift` inputs.

    >>> decaying_sum(np.array([1.0, 0.0, 0.0, 2.0]), 0.5)
    array([1. , 0.5 , 0.25 , 2.125])
    """
    total = inputs.astype(float)
    shift = 1
    while shift < len(total) and kept**shift > 1e-18:  # smaller terms would vanish in rounding
        total[shift:] += kept**shift * total[:-shift]
        shift *= 2
    return total


def lagged(values: np.ndarray, clock: Clock, lag_seconds: float) -> np.ndarray:
    """Return the response of a first-order lag to values [rows], as if the first value had lasted for long before."""
    share_kept = clock.kept(lag_seconds)
    inputs = (1 - share_kept) * values
    inputs[0] = values[0]
    return decaying_sum(inputs, share_kept)


def ornstein_uhlenbeck(rng: Generator, clock: Clock, memory_seconds: float, spread: float) -> np.ndarray:
    """Draw a stationary Ornstein–Uhlenbeck process [rows] around 0 with this time constant and standard deviation."""
    share_kept = clock.kept(memory_seconds)
    inputs = spread * np.sqrt(1 - share_kept**2) * rng.standard_normal(clock.rows)
    inputs[0] = spread * rng.standard_normal()
    return decaying_sum(inputs, share_kept)


def log_random_walk(rng: Generator, clock: Clock, spread_per_root_day: float) -> np.ndarray:
    """Draw a factor [rows] that starts near 1 and whose logarithm walks randomly, with this deviation after a day."""
    spread = spread_per_root_day * np.sqrt(clock.step_seconds / DAY)
    return np.exp(np.cumsum(spread * rng.standard_normal(clock.rows)))


def plumes(rng: Generator, clock: Clock, per_day: float, height: float, memory_seconds: float) -> np.ndarray:
    """Draw sudden emissions with exponentially distributed heights, each decaying exponentially [rows]."""
    started = rng.poisson(per_day * clock.step_seconds / DAY, clock.rows)
    return decaying_sum(started * rng.exponential(height, clock.rows), clock.kept(memory_seconds))


def daily_bump(clock: Clock, hour: float, width_hours: float) -> np.ndarray:
    """Return a smooth bump of height 1 around this hour of every day, a von Mises curve [rows]."""
    radians_per_hour = 2 * np.pi / 24
    return np.exp((np.cos(radians_per_hour * (clock.hours - hour)) - 1) / (radians_per_hour * width_hours) ** 2)


def growth_factor(humidity_percent: np.ndarray) -> np.ndarray:
    """Return how much mass a particle seems to have in humid air, relative to dry air.

    >>> growth_factor(np.array([0.0, 50.0, 90.0]))
    array([1. , 1.18, 2.64])
    """
    activity = np.minimum(humidity_percent, HUMIDITY_CAP_PERCENT) / 100
    return 1 + KAPPA / DRY_DENSITY_GCM3 * activity / (1 - activity)


def lognormal_constant(rng: Generator, usual: float, spread: float) -> float:
    """Draw a constant of one sensor around the usual value; `spread` is the standard deviation of its logarithm."""
    return float(usual * rng.lognormal(0.0, spread))


def dropouts(rng: Generator, clock: Clock) -> np.ndarray:
    """Draw in which rows a box is silent, bool [rows]: dropouts that together take about `DROPOUT_SHARE` of them."""
    count = rng.poisson(DROPOUT_SHARE * clock.rows * clock.step_seconds / DROPOUT_SECONDS)
    start = rng.integers(0, clock.rows, count)
    length = np.rint(rng.exponential(DROPOUT_SECONDS / clock.step_seconds, count)).astype(int)
    changes = np.zeros(clock.rows + 1, int)  # of the number of dropouts that a row is in; they may overlap
    np.add.at(changes, start, 1)
    np.add.at(changes, np.minimum(start + length, clock.rows), -1)
    return np.cumsum(changes)[:-1] > 0


@dataclass(frozen=True)
class Weather:
    """Temperature and relative humidity at the site, float64 [rows] each."""

    temperature_degc: np.ndarray
    humidity_percent: np.ndarray

    @classmethod
    def draw(cls, rng: Generator, clock: Clock) -> Self:
        """Draw weather around 12 degC with warm, dry afternoons and fronts that last days."""
        daily = 5 * np.cos(2 * np.pi / 24 * (clock.hours - 15))
        anomaly = daily + ornstein_uhlenbeck(rng, clock, 3 * DAY, 4.0)
        dryness = 0.15 * anomaly + ornstein_uhlenbeck(rng, clock, DAY, 0.45) - 0.4
        return cls(12 + anomaly, 15 + 85 / (1 + np.exp(dryness)))  # a humidity between 15 and 100 %

    def read(self, rng: Generator) -> np.ndarray:
        """Return a box's temperature and humidity, with offsets and noise of its own, at 0.1 resolution [rows, 2]."""
        rows = len(self.temperature_degc)
        temperature = self.temperature_degc + rng.normal(0, 0.3) + rng.normal(0, 0.1, rows)
        humidity = self.humidity_percent + rng.normal(0, 2.0) + rng.normal(0, 0.5, rows)
        return np.round(np.stack([temperature, np.clip(humidity, 0, 100)], axis=1), 1)


@dataclass(frozen=True)
class Air(ABC):
    """One site's air: the truth and the reference instrument's view of it, float64 [rows] each."""

    channels: ClassVar[tuple[Channel, ...]]
    target: ClassVar[Channel]

    clock: Clock
    truth: np.ndarray
    reference: np.ndarray

    @classmethod
    @abstractmethod
    def draw(cls, rng: Generator, clock: Clock) -> Self:
        """Draw a random period of such air."""

    @abstractmethod
    def read(self, rng: Generator, wear: Wear) -> tuple[np.ndarray, np.ndarray]:
        """Return readings of a new box [rows, channels], NaN where it is silent, and which rows are faults [rows]."""

    def elsewhere(self, rng: Generator, spread: float) -> Self:
        """Return the air elsewhere in town: truth and reference times a factor that wanders slowly around one.

        `spread` is the standard deviation of the factor's logarithm.
        """
        factor = np.exp(rng.normal(0, spread) + ornstein_uhlenbeck(rng, self.clock, PLACE_SECONDS, spread))
        return replace(self, truth=factor * self.truth, reference=np.round(factor * self.reference, 1))


@dataclass(frozen=True)
class WeatheredAir(Air):
    """Air with weather, read by boxes that fall silent and that spike in their first channel."""

    weather: Weather

    @abstractmethod
    def sense(self, rng: Generator, spikes: np.ndarray, wear: Wear) -> list[np.ndarray]:
        """Return the readings of one new box's sensing cells, with a fault where `spikes` is true."""

    def followed(self, air: np.ndarray, lag_seconds: float, dead: np.ndarray) -> np.ndarray:
        """Follow the air with this lag [rows]; the `dead` share [rows] of the cell responds weakly and late."""
        response = lagged(air, self.clock, lag_seconds)
        if not dead.any():
            return response
        return (1 - dead) * response + dead * DYING_RESPONSE * lagged(air, self.clock, DYING_SECONDS)

    def read(self, rng: Generator, wear: Wear) -> tuple[np.ndarray, np.ndarray]:
        """Return a new box's readings, sensing cells first, then its weather, and which rows are faults."""
        silent = dropouts(rng, self.clock)
        spikes = rng.random(self.clock.rows) < SPIKES_PER_DAY * self.clock.step_seconds / DAY
        spikes &= ~silent
        values = np.column_stack([*self.sense(rng, spikes, wear), self.weather.read(rng)])
        values[silent] = np.nan
        return values, spikes


@dataclass(frozen=True)
class ParticleAir(WeatheredAir):
    """Air with particles, of which a changing share is too coarse for a laser; `truth` is PM2.5 in ug/m3."""

    channels = (Channel("pm25_raw", "ug/m3", 0.0, PM_RAW_MAXIMUM_UGM3), TEMPERATURE, HUMIDITY)
    target = Channel("pm25_reference", "ug/m3", 0.0, PM_RAW_MAXIMUM_UGM3)

    coarse_share: np.ndarray

    @classmethod
    def draw(cls, rng: Generator, clock: Clock) -> Self:
        """Draw log-normal PM with rush hours, a night inversion and plumes."""
        daily = 0.4 * (daily_bump(clock, 8, 1.5) + daily_bump(clock, 18.5, 2)) + 0.3 * daily_bump(clock, 1, 4)
        slow, fast = ornstein_uhlenbeck(rng, clock, 2 * DAY, 0.5), ornstein_uhlenbeck(rng, clock, HOUR, 0.15)
        pm_ugm3 = 10 * np.exp(daily + slow + fast) + plumes(rng, clock, per_day=4.0, height=20.0, memory_seconds=600.0)
        measured = pm_ugm3 + (0.3 + 0.02 * pm_ugm3) * rng.standard_normal(clock.rows)
        coarse_share = 1 / (1 + np.exp(1.2 + ornstein_uhlenbeck(rng, clock, DAY / 2, 0.7)))
        weather = Weather.draw(rng, clock)
        return cls(clock, pm_ugm3, np.round(np.maximum(measured, 0), 1), weather, coarse_share)

    def sense(self, rng: Generator, spikes: np.ndarray, wear: Wear) -> list[np.ndarray]:
        """Return the readings of a laser counter in whole ug/m3: it sees swollen particles, lags, drifts, saturates."""
        lag_seconds = lognormal_constant(rng, 60.0, 0.3)
        response_ugm3 = lagged(self._visible_mass(0.0), self.clock, lag_seconds)
        counts_per_ugm3 = COUNTS_PER_UGM3_SECOND * self.clock.step_seconds
        counted_ugm3 = rng.poisson(counts_per_ugm3 * response_ugm3) / counts_per_ugm3
        gain = lognormal_constant(rng, 1.5, 0.12) * log_random_walk(rng, self.clock, 0.01) * wear.gain
        # Wear scales the counts instead of changing them, so a box with and without a drift has the same noise.
        worn_response_ugm3 = self.followed(self._visible_mass(wear.humidity), lag_seconds, wear.dead)
        gain *= worn_response_ugm3 / response_ugm3
        zero_ugm3 = rng.normal(0, 1.0) + wear.offset
        spikes_ugm3 = spikes * rng.uniform(400, 1000, len(spikes))
        raw_ugm3 = gain * counted_ugm3 + zero_ugm3 + spikes_ugm3
        return [np.clip(np.rint(raw_ugm3), 0, PM_RAW_MAXIMUM_UGM3)]

    def _visible_mass(self, extra: np.ndarray | float) -> np.ndarray:
        """Return the mass that the laser sees, ug/m3; humidity makes it swell (1 + `extra`) times as much as usual."""
        growth = growth_factor(self.weather.humidity_percent)
        growth = growth + extra * (growth - 1)
        return self.truth * ((1 - self.coarse_share) * growth + self.coarse_share * COARSE_SEEN)


@dataclass(frozen=True)
class GasAir(WeatheredAir):
    """Air with nitrogen dioxide and the ozone that is left beside it; `truth` is NO2 in ppb."""

    channels = (Channel("no2_cell", "nA"), Channel("ox_cell", "nA"), TEMPERATURE, HUMIDITY)
    target = Channel("no2_ppb_reference", "ppb", 0.0, 1000.0)

    o3_ppb: np.ndarray

    @classmethod
    def draw(cls, rng: Generator, clock: Clock) -> Self:
        """Draw log-normal NO2 with rush hours and plumes; ozone is the oxidant that NO2 leaves."""
        daily = 0.6 * (daily_bump(clock, 8, 1.5) + daily_bump(clock, 18.5, 2))
        slow, fast = ornstein_uhlenbeck(rng, clock, 1.5 * DAY, 0.35), ornstein_uhlenbeck(rng, clock, HOUR / 2, 0.2)
        no2_ppb = 12 * np.exp(daily + slow + fast) + plumes(rng, clock, per_day=6.0, height=10.0, memory_seconds=300.0)
        measured = no2_ppb + (0.2 + 0.01 * no2_ppb) * rng.standard_normal(clock.rows)
        oxidant_ppb = 40 + 12 * daily_bump(clock, 15, 3) + ornstein_uhlenbeck(rng, clock, DAY, 5.0)
        weather = Weather.draw(rng, clock)
        o3_ppb = np.maximum(oxidant_ppb - no2_ppb, 0)
        return cls(clock, no2_ppb, np.round(np.maximum(measured, 0), 1), weather, o3_ppb)

    def sense(self, rng: Generator, spikes: np.ndarray, wear: Wear) -> list[np.ndarray]:
        """Return currents of a NO2 cell that is cross-sensitive to ozone, and of an unworn OX cell that sees both."""
        no_wear = Wear.from_drifts((), self.clock.days)
        no2_na, ox_na = self.current_na(rng, O3_SEEN_BY_NO2_CELL, wear), self.current_na(rng, 1.0, no_wear)
        return [no2_na + spikes * rng.uniform(100, 300, len(spikes)), ox_na]

    def current_na(self, rng: Generator, o3_seen: float, wear: Wear) -> np.ndarray:
        """Return the current of a cell that lags, drifts and has a zero that rises with temperature.

        `o3_seen` is its response to ozone, relative to that to nitrogen dioxide.
        """
        gas_ppb = self.truth + lognormal_constant(rng, o3_seen, 0.1) * self.o3_ppb
        gas_ppb = self.followed(gas_ppb, lognormal_constant(rng, 60.0, 0.3), wear.dead)
        sensitivity = lognormal_constant(rng, 0.3, 0.12) * log_random_walk(rng, self.clock, 0.01) * wear.gain
        warmth = np.exp((self.weather.temperature_degc - 20) / 12)  # 1 at 20 degC; e times as much every 12 K
        zero_na = rng.normal(0, 3.0) + lognormal_constant(rng, 4.0, 0.3) * warmth + wear.offset
        zero_na = zero_na + wear.humidity * HUMIDITY_ZERO_NA * self.weather.humidity_percent / 100
        return sensitivity * gas_ppb + zero_na + rng.normal(0, 0.5, self.clock.rows)
