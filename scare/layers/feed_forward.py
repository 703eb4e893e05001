"""Linear layer, feed-forward network and layer normalisation: what blocks have besides attention."""

from enum import StrEnum

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.plan import Step
from scare.kernels import dense_step


class Activation(StrEnum):
    """Activation of a feed-forward network; its value is the kernel's name."""

    RELU = "relu"
    GELU = "gelu"  # in its tanh form

    def __call__(self, x: Array) -> Array:
        """Apply the activation to each number of x."""
        return jax.nn.relu(x) if self is Activation.RELU else jax.nn.gelu(x, approximate=True)


class FeedForward(eqx.Module):
    """Two dense layers on each token x: activation(x W1 + b1) W2 + b2."""

    inner: Array  # [width, hidden]
    inner_bias: Array
    outer: Array  # [hidden, width]
    outer_bias: Array
    activation: Activation = eqx.field(static=True, default=Activation.RELU)

    @staticmethod
    def create(width: int, hidden: int, key: Array, activation: Activation = Activation.RELU) -> "FeedForward":
        """Draw He weights; biases are zero."""
        first, second = jax.random.split(key)
        he = jax.nn.initializers.he_normal()
        inner, outer = he(first, (width, hidden)), he(second, (hidden, width))
        return FeedForward(inner, jnp.zeros(hidden), outer, jnp.zeros(width), activation)

    def __call__(self, tokens: Array) -> Array:
        """Apply both layers to each token [batch, tokens, width]: same shape."""
        return self.activation(tokens @ self.inner + self.inner_bias) @ self.outer + self.outer_bias

    def steps(self, source: str, output: str) -> list[Step]:
        """Return the layer as steps of a plan, from the value `source` to the value `output`."""
        return [
            dense_step(source, "hidden", self.inner, self.inner_bias),
            Step(self.activation.value, ("hidden",), "active"),
            dense_step("active", output, self.outer, self.outer_bias),
        ]


class LayerNorm(eqx.Module):
    """Normalise each token to mean 0 and variance 1, then apply gain and bias."""

    gain: Array
    bias: Array
    epsilon: float = eqx.field(static=True, default=1e-6)

    @staticmethod
    def create(width: int) -> "LayerNorm":
        """Start with gain 1 and bias 0."""
        return LayerNorm(jnp.ones(width), jnp.zeros(width))

    def __call__(self, tokens: Array) -> Array:
        """Normalise each token [batch, tokens, width]: same shape."""
        centred = tokens - tokens.mean(axis=-1, keepdims=True)
        variance = jnp.square(centred).mean(axis=-1, keepdims=True)
        return centred / jnp.sqrt(variance + self.epsilon) * self.gain + self.bias

    def steps(self, source: str, output: str) -> list[Step]:
        """Return the layer as steps of a plan, from the value `source` to the value `output`."""
        weights = {"gain": np.asarray(self.gain), "bias": np.asarray(self.bias)}
        return [Step("layer_norm", (source,), output, weights, {"epsilon": self.epsilon})]


class Linear(eqx.Module):
    """x W + b on the last axis, initialised as in the rivals' published code (PyTorch's default)."""

    weight: Array  # [inputs, outputs]
    bias: Array  # [outputs]

    @staticmethod
    def create(inputs: int, outputs: int, key: Array) -> "Linear":
        """Draw weight and bias uniform within ±1/√inputs."""
        first, second = jax.random.split(key)
        return Linear(draw_within(first, (inputs, outputs), inputs), draw_within(second, (outputs,), inputs))

    def __call__(self, x: Array) -> Array:
        """Map x [..., inputs] to [..., outputs]."""
        return project(x, self.weight) + self.bias

    def steps(self, source: str, output: str) -> list[Step]:
        """Return the layer as steps of a plan, from the value `source` to the value `output`."""
        return [dense_step(source, output, self.weight, self.bias)]


def project(x: Array, weight: Array) -> Array:
    """Compute x [..., inputs] · weight [inputs, outputs] as one large product.

    Its gradient takes a quarter of the time of one product for each window.
    """
    return (x.reshape(-1, x.shape[-1]) @ weight).reshape(*x.shape[:-1], weight.shape[1])


def draw_within(key: Array, shape: tuple[int, ...], inputs: int) -> Array:
    """Draw numbers uniform within ±1/√inputs."""
    return jax.random.uniform(key, shape, minval=-(inputs**-0.5), maxval=inputs**-0.5)
