"""Buffers: arrays that are part of a network but that no gradient updates, such as running statistics."""

from typing import Any

import equinox as eqx
import jax
from jax import Array


class Buffer(eqx.Module):
    """An array that the optimiser does not update, such as a hash function's support set."""

    array: Array

    def __call__(self) -> Array:
        """The array, without a gradient."""
        return jax.lax.stop_gradient(self.array)


def is_buffer(node: Any) -> bool:
    """Whether a node of a model is a buffer."""
    return isinstance(node, Buffer)


def split_trainable(model: Any) -> tuple[Any, Any]:
    """Split a model into (trained parameters, everything else); `eqx.combine` joins them again."""
    wanted = jax.tree.map(lambda leaf: not is_buffer(leaf) and eqx.is_inexact_array(leaf), model, is_leaf=is_buffer)
    return eqx.partition(model, wanted)
