"""DLinear (Zeng et al. 2023): a moving average splits the window in two parts, each with its own linear map.

    x [N, C] ─┬─ trend = moving average of x ── · trend weights ────┐
              └─ x − trend ──────────────────── · seasonal weights ─ + ─ y

The average is a fixed matrix A [N, N], so the two maps are one: x·(s + Aᵀ(t − s)), in training and in the plan.

Differs from the published code: every channel has weights of its own and their parts are summed, because
calibration has one target; with one channel this is the published form.
"""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.plan import INPUT, Plan, Step
from scare.errors import UsageError
from scare.kernels import Operations
from scare.models.contract import Network
from scare.schema import Count

Weights = TypeVar("Weights", Array, np.ndarray)  # [window, channels], in training and in the plan


@dataclass(frozen=True)
class DLinear:
    """The architecture of DLinear."""

    kernel: Count = 25  # readings in the moving average, odd

    citation: ClassVar[str] = "Zeng, Chen, Zhang, Xu: Are Transformers Effective for Time Series Forecasting? AAAI 2023"
    complexity: ClassVar[str] = "O(N)"
    exempt: ClassVar[dict[str, str]] = {
        "another_key_gives_other_parameters": "all weights start equal, as a mean of the window",
    }

    def __post_init__(self) -> None:
        if self.kernel < 1 or self.kernel % 2 == 0:
            raise UsageError(f"DLinear's moving average needs an odd number of readings, not {self.kernel}")

    @staticmethod
    def default() -> "DLinear":
        """Return the published architecture, with a moving average of 25 readings."""
        return DLinear()

    def build(self, window: int, channels: int, key: Array) -> "DLinearNetwork":
        """Start all weights at 1/(N·C), so that the output is the window's mean; the key is not needed."""
        start = jnp.full((window, channels), 1 / (window * channels))
        return DLinearNetwork(window, channels, self.kernel, start, jnp.zeros(()), start, jnp.zeros(()))

    def parameters(self, window: int, channels: int) -> int:
        """Return the number of trained parameters: two linear maps with a bias each."""
        return 2 * (window * channels + 1)

    def operations(self, window: int, channels: int) -> Operations:
        """Return one multiply-add per reading, because the two maps are joined."""
        return Operations(multiply_adds=window * channels)


class DLinearNetwork(Network):
    """The parameters of DLinear."""

    kernel: int = eqx.field(static=True)
    seasonal: Array  # [window, channels]
    seasonal_bias: Array  # []
    trend: Array  # [window, channels]
    trend_bias: Array  # []

    undecayed = frozenset({"seasonal_bias", "trend_bias"})

    def joined(self, seasonal: Weights, trend: Weights) -> Weights:
        """Return the weights [window, channels] of one map that does what both do.

        With seasonal weights s, trend weights t and moving average A: s·(x − Ax) + t·Ax = (s + Aᵀ(t − s))·x.
        """
        average = moving_average(self.window, self.kernel).astype(trend.dtype)
        return seasonal + average.T @ (trend - seasonal)

    def __call__(self, features: Array) -> Array:
        """Return the scaled targets [batch] of features [batch, rows, channels]."""
        mixed = jnp.einsum("btc,tc->b", features, self.joined(self.seasonal, self.trend))
        return mixed + self.seasonal_bias + self.trend_bias

    def plan(self) -> Plan:
        """Return the network as a plan of kernel calls, from the window to the scaled target."""
        weight = self.joined(np.asarray(self.seasonal), np.asarray(self.trend)).reshape(-1, 1)
        bias = (np.asarray(self.seasonal_bias) + np.asarray(self.trend_bias)).reshape(1)
        dense = Step("dense", ("flat",), "y", {"weight": weight, "bias": bias})
        return Plan(self.window, self.channels, (Step("flatten", (INPUT,), "flat"), dense))


@cache
def moving_average(window: int, kernel: int) -> np.ndarray:
    """Return the centred moving average as a matrix [window, window]; beyond its ends the end readings repeat.

    >>> moving_average(4, 3) * 3
    array([[2., 1., 0., 0.],
           [1., 1., 1., 0.],
           [0., 1., 1., 1.],
           [0., 0., 1., 2.]])
    """
    half, rows = kernel // 2, np.arange(window)
    matrix = np.zeros((window, window))
    for offset in range(-half, half + 1):
        matrix[rows, np.clip(rows + offset, 0, window - 1)] += 1 / kernel
    return matrix
