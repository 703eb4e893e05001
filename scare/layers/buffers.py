"""Buffers: arrays that are part of a network but that no gradient updates, such as running statistics."""

from typing import Any

import equinox as eqx
import jax
from jax import Array


class Buffer(eqx.Module):
    """An array that no optimiser updates; calling it gives the array without a gradient."""

    array: Array

    def __call__(self) -> Array:
        """Return the array, without a gradient."""
        return jax.lax.stop_gradient(self.array)


def is_buffer(node: Any) -> bool:
    """Whether a node of a model's tree is a `Buffer`, for `is_leaf` of jax.tree functions."""
    return isinstance(node, Buffer)


def split_trainable(model: Any) -> tuple[Any, Any]:
    """Split a model into (trained parameters, everything else); `eqx.combine` joins them again."""
    trained = jax.tree.map(lambda leaf: not is_buffer(leaf) and eqx.is_inexact_array(leaf), model, is_leaf=is_buffer)
    return eqx.partition(model, trained)
