"""NLinear (Zeng et al. 2023): a linear map of the window's differences to its newest reading, which is added back.

    y = w·(x − x_N) + b + x_N = Σ w_t x_t + (1 − Σ w_t) x_N + b

The weights of the readings always sum to one: NLinear can correct an offset or a lag of the sensor but not its
gain (of the scaled reading, against the scaled target). That is the published model.

Differs from the published code: every channel has its own weights for differences to its own newest reading, the
channels are summed, and the first channel's newest reading is added back; with one channel this is the published form.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.plan import INPUT, Plan, Step
from scare.kernels import Operations
from scare.models.contract import Network


@dataclass(frozen=True)
class NLinear:
    """The architecture of NLinear, which has no hyper-parameters."""

    citation: ClassVar[str] = "Zeng, Chen, Zhang, Xu: Are Transformers Effective for Time Series Forecasting? AAAI 2023"
    complexity: ClassVar[str] = "O(N)"
    exempt: ClassVar[dict[str, str]] = {
        "another_key_gives_other_parameters": "all weights start equal, as a mean of the window",
        "a_model_learns_a_gain": "its weights sum to one, so it gives back the level it was given",
    }

    @staticmethod
    def default() -> "NLinear":
        """Return the published form."""
        return NLinear()

    def build(self, window: int, channels: int, key: Array) -> "NLinearNetwork":
        """Start all weights at 1/(N·C), so that the output is the window's mean; the key is not needed."""
        start = jnp.full((window, channels), 1 / (window * channels))
        return NLinearNetwork(window, channels, start, jnp.zeros(()))

    def parameters(self, window: int, channels: int) -> int:
        """Return the number of trained parameters: a weight per reading, and a bias.

        The weights of the newest reading count, but do nothing: its difference to itself is zero.
        """
        return window * channels + 1

    def operations(self, window: int, channels: int) -> Operations:
        """Return one multiply-add per reading; the subtraction is part of the weights."""
        return Operations(multiply_adds=window * channels)


class NLinearNetwork(Network):
    """The parameters of NLinear."""

    weight: Array  # [window, channels]; the newest row multiplies zero
    bias: Array  # []

    undecayed = frozenset({"bias"})

    def __call__(self, features: Array) -> Array:
        """Return the scaled targets [batch] of features [batch, rows, channels]."""
        newest = jax.lax.stop_gradient(features[:, -1:, :])  # detached in the published code
        return jnp.einsum("btc,tc->b", features - newest, self.weight) + self.bias + newest[:, 0, 0]

    def plan(self) -> Plan:
        """Return the network as kernel calls; subtracting and adding back are folded into the newest row's weights."""
        weight = np.asarray(self.weight).copy()
        weight[-1] -= weight.sum(axis=0)
        weight[-1, 0] += 1
        weights = {"weight": weight.reshape(-1, 1), "bias": np.asarray(self.bias).reshape(1)}
        steps = Step("flatten", (INPUT,), "flat"), Step("dense", ("flat",), "y", weights)
        return Plan(self.window, self.channels, steps)
