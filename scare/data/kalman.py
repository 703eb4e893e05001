"""A linear-Gaussian world, and the best any estimator can do in it: the yardstick of the learned models.

The truth is a first-order autoregression; the sensor follows it with a first-order lag and adds white
noise. All boxes share the same known constants. The Kalman filter (Kalman 1960) is then the optimal
estimator from past readings, and the fixed point of its Riccati equation gives its error exactly.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.random import Generator

from scare.data.readings import Channel
from scare.data.simulated_air import Air, Clock, lagged, wandering
from scare.data.simulated_drift import Wear

MEAN_UGM3, SPREAD_UGM3, MEMORY_SECONDS = 40.0, 8.0, 1800.0
GAIN, OFFSET_UGM3, LAG_SECONDS, NOISE_UGM3 = 1.4, 3.0, 120.0, 4.0
REFERENCE_NOISE_UGM3 = 0.5


@dataclass(frozen=True)
class LinearAir(Air):
    """Air whose PM (`truth`, ug/m3) and whose sensors are linear and Gaussian."""

    channels = (Channel("pm25_raw", "ug/m3"),)
    target = Channel("pm25_reference", "ug/m3")

    @classmethod
    def drawn(cls, rng: Generator, clock: Clock) -> Self:
        """PM that wanders around its mean, and a reference with white noise."""
        pm_ugm3 = MEAN_UGM3 + wandering(rng, clock, MEMORY_SECONDS, SPREAD_UGM3)
        return cls(clock, pm_ugm3, pm_ugm3 + rng.normal(0, REFERENCE_NOISE_UGM3, clock.rows))

    def read(self, rng: Generator, wear: Wear) -> tuple[np.ndarray, np.ndarray]:
        """A lagged, scaled and noisy copy of the truth without faults."""
        followed = lagged(self.truth, self.clock, LAG_SECONDS)
        raw_ugm3 = wear.gain * GAIN * followed + wear.offset + OFFSET_UGM3 + rng.normal(0, NOISE_UGM3, self.clock.rows)
        return raw_ugm3[:, None], np.zeros(self.clock.rows, bool)


@dataclass(frozen=True)
class StateSpace:
    """The system x[t] = transition · x[t−1] + N(0, process), y[t] = observation · x[t] + N(0, noise)."""

    transition: np.ndarray
    process: np.ndarray
    observation: np.ndarray
    noise: np.ndarray


def linear_system(step_seconds: float) -> StateSpace:
    """The linear world at this step; the state is (truth, lagged truth), both without their mean."""
    kept, followed = np.exp(-step_seconds / MEMORY_SECONDS), np.exp(-step_seconds / LAG_SECONDS)
    transition = np.array([[kept, 0.0], [(1 - followed) * kept, followed]])
    shock = np.array([[1.0], [1 - followed]])
    process = SPREAD_UGM3**2 * (1 - kept**2) * shock @ shock.T
    return StateSpace(transition, process, np.array([[0.0, GAIN]]), np.array([[NOISE_UGM3**2]]))


def filtered_covariance(system: StateSpace) -> np.ndarray:
    """The state's error covariance given all readings up to now, in steady state.

    A random walk of unit steps, read with noise of variance 2, is known to variance 1:

    >>> one = np.eye(1)
    >>> filtered_covariance(StateSpace(one, one, one, 2 * one))
    array([[1.]])
    """
    covariance, change = system.process, np.inf
    while change > 1e-13:
        before = covariance
        predicted = system.transition @ before @ system.transition.T + system.process
        surprise = system.observation @ predicted @ system.observation.T + system.noise
        gain = predicted @ system.observation.T @ np.linalg.inv(surprise)
        covariance = predicted - gain @ system.observation @ predicted
        change = np.abs(covariance - before).max() / np.abs(covariance).max()
    return covariance


def best_linear_rmse(step_seconds: float) -> float:
    """The smallest root mean square error (ug/m3) at which the noisy reference can be estimated."""
    truth_variance = filtered_covariance(linear_system(step_seconds))[0, 0]
    return float(np.sqrt(truth_variance + REFERENCE_NOISE_UGM3**2))
