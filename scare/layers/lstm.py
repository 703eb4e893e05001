"""A long short-term memory read at its last row (Hochreiter and Schmidhuber 1997, with forget gate)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from scare.calibrator.plan import Step
from scare.layers.linear import draw_within
from scare.layers.steps import numbers


class Lstm(eqx.Module):
    """Rows [batch, rows, channels] to the last hidden state [batch, hidden]; gates i, f, g, o side by side.

    There are two bias vectors, as in the frameworks' own layer; only their sum matters, and the plan holds the sum.
    """

    input: Array  # [channels, 4·hidden]
    hidden: Array  # [hidden, 4·hidden]
    input_bias: Array  # [4·hidden]
    hidden_bias: Array

    @staticmethod
    def create(channels: int, hidden: int, key: Array) -> "Lstm":
        """Everything uniform within ±1/√hidden."""
        shapes = ((channels, 4 * hidden), (hidden, 4 * hidden), (4 * hidden,), (4 * hidden,))
        keys = jax.random.split(key, len(shapes))
        return Lstm(*(draw_within(one, shape, hidden) for one, shape in zip(keys, shapes, strict=True)))

    def __call__(self, x: Array) -> Array:
        """The state after the last row, from zero."""
        seen = x @ self.input + (self.input_bias + self.hidden_bias)
        start = jnp.zeros((len(x), len(self.hidden)), seen.dtype)

        def step(carried: tuple[Array, Array], row: Array) -> tuple[tuple[Array, Array], None]:
            state, memory = carried
            write, keep, new, show = jnp.split(row + state @ self.hidden, 4, axis=1)
            memory = jax.nn.sigmoid(keep) * memory + jax.nn.sigmoid(write) * jnp.tanh(new)
            return (jax.nn.sigmoid(show) * jnp.tanh(memory), memory), None

        (state, _), _ = jax.lax.scan(step, (start, start), seen.swapaxes(0, 1))
        return state

    def steps(self, source: str, output: str) -> list[Step]:
        """The same as kernel calls."""
        weights = {"input": self.input, "hidden": self.hidden, "bias": self.input_bias + self.hidden_bias}
        return [Step("lstm", (source,), output, {name: numbers(array) for name, array in weights.items()})]
