"""Simulate co-locations: any number of boxes beside one reference, with the truth known.

All boxes of a simulation share the same air, drawn from the seed; box `index` draws its own flaws from
(seed, index), so it comes out the same alone or in a fleet. The physics is in `simulated_air`.

`LinearAir` is a linear-Gaussian world: the truth is a first-order autoregression, the sensor follows it with a
first-order lag and adds white noise, and all boxes share the same known constants. The Kalman filter (Kalman 1960)
is then the optimal estimator from past readings, and the fixed point of its Riccati equation gives its error
exactly: a lower bound for every learned model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl
from numpy.random import Generator

from scare.data.readings import DEVICE, REFERENCE, TIME, TIME_TYPE, Channel, Readings
from scare.data.simulated_air import (
    DAY,
    Air,
    Clock,
    Drift,
    DriftKind,
    GasAir,
    ParticleAir,
    Wear,
    lagged,
    ornstein_uhlenbeck,
)
from scare.data.tables import table_writer
from scare.errors import UsageError
from scare.words import duration

# Constants of `LinearAir`: its truth, its sensor and its reference.
MEAN_UGM3, SPREAD_UGM3, MEMORY_SECONDS = 40.0, 8.0, 1800.0
GAIN, OFFSET_UGM3, LAG_SECONDS, NOISE_UGM3 = 1.4, 3.0, 120.0, 4.0
REFERENCE_NOISE_UGM3 = 0.5


class SimulationKind(StrEnum):
    """What can be simulated: particles, a gas cell, or a linear-Gaussian world."""

    PM = "pm"
    GAS = "gas"
    LINEAR = "linear"


@dataclass(frozen=True)
class LinearAir(Air):
    """Air with autoregressive Gaussian PM (`truth`, ug/m3), read by a linear sensor with lag and white noise."""

    channels = (Channel("pm25_raw", "ug/m3"),)
    target = Channel("pm25_reference", "ug/m3")

    @classmethod
    def draw(cls, rng: Generator, clock: Clock) -> Self:
        """Draw autoregressive PM around its mean, and a reference with white noise."""
        pm_ugm3 = MEAN_UGM3 + ornstein_uhlenbeck(rng, clock, MEMORY_SECONDS, SPREAD_UGM3)
        return cls(clock, pm_ugm3, pm_ugm3 + rng.normal(0, REFERENCE_NOISE_UGM3, clock.rows))

    def read(self, rng: Generator, wear: Wear) -> tuple[np.ndarray, np.ndarray]:
        """Read a lagged, scaled and noisy copy of the truth, without faults."""
        followed = lagged(self.truth, self.clock, LAG_SECONDS)
        raw_ugm3 = wear.gain * GAIN * followed + wear.offset + OFFSET_UGM3 + rng.normal(0, NOISE_UGM3, self.clock.rows)
        return raw_ugm3[:, None], np.zeros(self.clock.rows, bool)


AIR: dict[SimulationKind, type[Air]] = {
    SimulationKind.PM: ParticleAir,
    SimulationKind.GAS: GasAir,
    SimulationKind.LINEAR: LinearAir,
}


@dataclass(frozen=True)
class Simulation:
    """What to simulate; equal simulations give identical readings.

    Parameters
    ----------
    boxes
        Boxes beside the reference.
    days
        Length of the readings.
    step_seconds
        Time between rows.
    kind
        Particle sensor, electrochemical gas cell, or linear.
    seed
        The same seed gives the same readings.
    start
        Time of the first row, with a time zone.
    place_spread
        Relative spread of the air between boxes; 0 if all stand side by side.
    drifts
        Boxes that drift, from which day and how.

    Raises
    ------
    UsageError
        If a number is out of range, the start has no time zone, or a drift has no box.

    Examples
    --------
    >>> Simulation(days=1).clock.rows
    1440
    """

    boxes: int = 4
    days: float = 30.0
    step_seconds: float = 60.0
    kind: SimulationKind = SimulationKind.PM
    seed: int = 0
    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    place_spread: float = 0.0
    drifts: tuple[Drift, ...] = ()

    def __post_init__(self) -> None:
        if self.boxes < 1:
            raise UsageError(f"cannot simulate {self.boxes} boxes; ask for one or more")
        if not 0 < 2 * self.step_seconds <= self.days * DAY:
            raise UsageError(f"two steps of {duration(self.step_seconds)} do not fit into {self.days:g} days")
        if self.seed < 0:
            raise UsageError(f"the seed must not be negative, but it is {self.seed}")
        if self.start.tzinfo is None:
            raise UsageError(f"the start {self.start} has no time zone; add one, such as +00:00")
        if not 0 <= self.place_spread <= 1:
            raise UsageError(f"the air of boxes cannot differ by {self.place_spread:g}; give a share from 0 to 1")
        for drift in self.drifts:
            if drift.box >= self.boxes:
                raise UsageError(f"there is no box-{drift.box + 1:02d} to drift; the last is box-{self.boxes:02d}")
            if self.kind is SimulationKind.LINEAR and drift.kind not in (DriftKind.GAIN, DriftKind.OFFSET):
                raise UsageError(f"a linear simulation has no drift '{drift.kind}'; choose gain or offset")

    @property
    def clock(self) -> Clock:
        """The times of the rows, the same for every box."""
        rows = round(self.days * DAY / self.step_seconds)
        return Clock(rows, self.step_seconds, self.start.timestamp())


@dataclass(frozen=True)
class SimulatedBox:
    """One device: its readings, the noise-free truth, and in which rows the sensor reported a faulty spike (bool)."""

    readings: Readings
    truth: np.ndarray
    spikes: np.ndarray


def simulate(simulation: Simulation) -> list[Readings]:
    """Simulate the readings of all boxes, side by side in the same air.

    Parameters
    ----------
    simulation
        What to simulate.

    Returns
    -------
    list of Readings
        One for each box, with a reference.

    Examples
    --------
    >>> fleet = simulate(Simulation(boxes=2, days=1))
    >>> [readings.device for readings in fleet], len(fleet[0])
    (['box-01', 'box-02'], 1440)
    >>> [channel.name for channel in fleet[0].channels]
    ['pm25_raw', 'temperature', 'humidity']
    """
    air = _draw_air(simulation)
    return [_read_box(simulation, air, index).readings for index in range(simulation.boxes)]


def simulate_box(simulation: Simulation, index: int) -> SimulatedBox:
    """Simulate the box at `index` (from 0) with its truth, without the others.

    >>> box = simulate_box(Simulation(boxes=1000, days=1), 2)
    >>> box.readings.device, box.truth.shape, box.spikes.shape
    ('box-03', (1440,), (1440,))
    """
    if not 0 <= index < simulation.boxes:
        raise UsageError(f"no box {index} in a simulation of boxes 0 to {simulation.boxes - 1}")
    return _read_box(simulation, _draw_air(simulation), index)


def best_achievable_rmse(simulation: Simulation) -> float:
    """Return the error (ug/m3) that no estimator from past readings can beat, known exactly in the linear world.

    >>> best_achievable_rmse(Simulation(kind=SimulationKind.LINEAR))
    2.7
    """
    if simulation.kind is not SimulationKind.LINEAR:
        raise UsageError(f"the best error is known for kind '{SimulationKind.LINEAR}', not '{simulation.kind}'")
    truth_variance = filtered_covariance(linear_system(simulation.step_seconds))[0, 0]
    return float(np.sqrt(truth_variance + REFERENCE_NOISE_UGM3**2))


def write_simulation(
    simulation: Simulation, path: Path | str, progress: Callable[[int, int], None] | None = None
) -> None:
    """Write all boxes to one Parquet or CSV file, one box in memory at a time.

    The columns are device, time, the channels and the reference by the target's name; `progress` is called with the
    boxes done and the boxes in all.
    """
    if Path(path).suffix not in (".parquet", ".csv"):
        raise UsageError(f"cannot write {path}: name it .parquet or .csv")
    air = _draw_air(simulation)
    with table_writer(path) as write:
        for index in range(simulation.boxes):
            frame = _read_box(simulation, air, index).readings.frame.rename({REFERENCE: air.target.name})
            names = [channel.name for channel in air.channels]
            write(frame.select(pl.lit(f"box-{index + 1:02d}").alias(DEVICE), TIME, *names, air.target.name))
            if progress:
                progress(index + 1, simulation.boxes)


@dataclass(frozen=True)
class StateSpace:
    """The system x[t] = transition · x[t−1] + N(0, process), y[t] = observation · x[t] + N(0, noise)."""

    transition: np.ndarray
    process: np.ndarray
    observation: np.ndarray
    noise: np.ndarray


def linear_system(step_seconds: float) -> StateSpace:
    """Return the state space of `LinearAir` at this step; a state is (truth, lagged truth), both without their mean."""
    truth_decay, lag_decay = np.exp(-step_seconds / MEMORY_SECONDS), np.exp(-step_seconds / LAG_SECONDS)  # per step
    transition = np.array([[truth_decay, 0.0], [(1 - lag_decay) * truth_decay, lag_decay]])
    shock = np.array([[1.0], [1 - lag_decay]])  # the sensor follows the truth of the same step, so a shock reaches both
    process = SPREAD_UGM3**2 * (1 - truth_decay**2) * shock @ shock.T
    return StateSpace(transition, process, np.array([[0.0, GAIN]]), np.array([[NOISE_UGM3**2]]))


def filtered_covariance(system: StateSpace) -> np.ndarray:
    """Return the Kalman filter's error covariance given all readings up to now, in steady state.

    A random walk of unit steps, read with noise of variance 2, is known to variance 1:

    >>> unit = np.eye(1)
    >>> filtered_covariance(StateSpace(unit, unit, unit, 2 * unit))
    array([[1.]])
    """
    covariance, change = system.process, np.inf
    while change > 1e-13:  # iterate the Riccati equation to its fixed point
        before = covariance
        predicted = system.transition @ before @ system.transition.T + system.process
        innovation = system.observation @ predicted @ system.observation.T + system.noise
        gain = predicted @ system.observation.T @ np.linalg.inv(innovation)
        covariance = predicted - gain @ system.observation @ predicted
        change = np.abs(covariance - before).max() / np.abs(covariance).max()
    return covariance


def _draw_air(simulation: Simulation) -> Air:
    """Draw the air that all boxes share from the stream (seed, 0)."""
    return AIR[simulation.kind].draw(np.random.default_rng([simulation.seed, 0]), simulation.clock)


def _read_box(simulation: Simulation, air: Air, index: int) -> SimulatedBox:
    """Simulate what box `index` reads in this air.

    Its flaws are drawn from the stream (seed, 1 + index), the air at its place from (seed, 1 + index, 1).
    """
    if simulation.place_spread:
        air = air.elsewhere(np.random.default_rng([simulation.seed, 1 + index, 1]), simulation.place_spread)
    wear = Wear.from_drifts([drift for drift in simulation.drifts if drift.box == index], air.clock.days)
    values, spikes = air.read(np.random.default_rng([simulation.seed, 1 + index]), wear)
    seconds = air.clock.start_seconds + air.clock.step_seconds * np.arange(air.clock.rows)
    columns = {channel.name: values[:, position] for position, channel in enumerate(air.channels)}
    frame = pl.DataFrame({TIME: np.rint(seconds * 1e6).astype(np.int64), **columns, REFERENCE: air.reference})
    frame = frame.with_columns(pl.col(TIME).cast(TIME_TYPE))
    return SimulatedBox(Readings(f"box-{index + 1:02d}", frame, air.channels, air.target), air.truth, spikes)
