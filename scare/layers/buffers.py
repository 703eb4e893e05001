"""A buffer is an array that training carries along but no gradient moves."""

from typing import Any

import equinox as eqx
import jax
from jax import Array


class Buffer(eqx.Module):
    """An array outside the optimiser's reach, such as a hash function's support set."""

    array: Array

    def __call__(self) -> Array:
        """The array, cut off from gradients."""
        return jax.lax.stop_gradient(self.array)


def is_buffer(node: Any) -> bool:
    """Whether a node of a model is a buffer."""
    return isinstance(node, Buffer)


def split_trainable(model: Any) -> tuple[Any, Any]:
    """A model as (what gradients move, everything else); `eqx.combine` joins them again."""
    wanted = jax.tree.map(lambda leaf: not is_buffer(leaf) and eqx.is_inexact_array(leaf), model, is_leaf=is_buffer)
    return eqx.partition(model, wanted)
