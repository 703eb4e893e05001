"""A window as patches, each a token; a window's own mean and deviation, taken out and put back (PatchTST's front)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from scare.calibrator.plan import Step
from scare.kernels import count_patches, patch_rows
from scare.layers.linear import Linear
from scare.layers.steps import dense

EPSILON = 1e-5  # under the root of a window's variance


class PatchEmbedding(eqx.Module):
    """Windows [batch, rows, channels] to one token a patch, [batch, patches, width]."""

    linear: Linear  # [patch·channels, width]
    position: Array  # [patches, width]
    patch: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)

    @staticmethod
    def create(shape: tuple[int, int], patch: int, stride: int, width: int, key: Array) -> "PatchEmbedding":
        """For windows of this shape (rows, channels); positions uniform within ±0.02."""
        first, second = jax.random.split(key)
        patches = count_patches(shape[0], patch, stride)
        position = jax.random.uniform(second, (patches, width), minval=-0.02, maxval=0.02)
        return PatchEmbedding(Linear.create(patch * shape[1], width, first), position, patch, stride)

    def __call__(self, x: Array) -> Array:
        """Patches overlap; the newest row is repeated until the last one is full."""
        rows = patch_rows(x.shape[1], self.patch, self.stride)
        cut = x[:, rows].reshape(len(x), len(rows), self.patch * x.shape[2])
        return self.linear(cut) + self.position

    def steps(self, source: str, output: str) -> list[Step]:
        """The same as kernel calls; the positions become biases."""
        settings = {"patch": self.patch, "stride": self.stride}
        return [
            Step("patches", (source,), f"{output}.patches", settings=settings),
            dense(f"{output}.patches", output, self.linear.weight, self.linear.bias + self.position),
        ]


def standardize(x: Array) -> tuple[Array, Array]:
    """Windows [batch, rows, channels] to mean 0 and deviation 1 of each channel, and the moments [batch, 2, channels].

    Reversible instance normalisation (Kim et al. 2022) without its affine part.
    """
    mean = x.mean(axis=1, keepdims=True)
    deviation = jnp.sqrt(jnp.square(x - mean).mean(axis=1, keepdims=True) + EPSILON)
    return (x - mean) / deviation, jnp.concatenate([mean, deviation], axis=1)


def restore(outputs: Array, moments: Array) -> Array:
    """Outputs [batch] in the scale of the first channel.

    Differs from the published code: there each channel forecasts itself; here the first is the sensor's own.
    """
    return outputs * moments[:, 1, 0] + moments[:, 0, 0]


def standardize_steps(source: str, output: str, moments: str) -> list[Step]:
    """`standardize` as kernel calls."""
    return [
        Step("window_moments", (source,), moments, settings={"epsilon": EPSILON}),
        Step("standardize", (source, moments), output),
    ]
