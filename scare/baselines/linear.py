"""Linear layer of the rivals, initialised as in their published code: uniform within ±1/√inputs, bias included."""

import equinox as eqx
import jax
from jax import Array

from scare.calibrator.plan import Step
from scare.layers.plan_steps import dense


class Linear(eqx.Module):
    """x W + b on the last axis."""

    weight: Array  # [inputs, outputs]
    bias: Array  # [outputs]

    @staticmethod
    def create(inputs: int, outputs: int, key: Array) -> "Linear":
        """Weight and bias uniform within ±1/√inputs."""
        first, second = jax.random.split(key)
        return Linear(draw_within(first, (inputs, outputs), inputs), draw_within(second, (outputs,), inputs))

    def __call__(self, x: Array) -> Array:
        """Map x [..., inputs] to [..., outputs]."""
        return project(x, self.weight) + self.bias

    def steps(self, source: str, output: str) -> list[Step]:
        """The layer as kernel calls."""
        return [dense(source, output, self.weight, self.bias)]


def project(x: Array, weight: Array) -> Array:
    """x [..., inputs] · weight as one large product: its gradient takes a quarter of the time on a CPU."""
    return (x.reshape(-1, x.shape[-1]) @ weight).reshape(*x.shape[:-1], weight.shape[1])


def draw_within(key: Array, shape: tuple[int, ...], inputs: int) -> Array:
    """Numbers uniform within ±1/√inputs."""
    return jax.random.uniform(key, shape, minval=-(inputs**-0.5), maxval=inputs**-0.5)
