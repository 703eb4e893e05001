"""Products of readings: what a line cannot do.

A cell's sensitivity changes with temperature, a particle's size with humidity: effects of two readings together. Both
are held within ±LIMIT standard deviations first, so that a reading never seen in training cannot run away squared.
"""

from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.plan import Step
from scare.layers.plan_steps import numbers

LIMIT = 3.0  # standard deviations

Numbers = TypeVar("Numbers", np.ndarray, Array)


def count_products(channels: int) -> int:
    """How many pairs there are, squares among them."""
    return channels * (channels + 1) // 2


def products(readings: Numbers) -> Numbers:
    """Products of every two of the readings [batch, channels], held within the limit: [batch, pairs].

    >>> products(np.array([[2.0, -5.0]]))
    array([[ 4., -6.,  9.]])
    """
    first, second = np.triu_indices(readings.shape[1])
    held = np.clip(readings, -LIMIT, LIMIT) if isinstance(readings, np.ndarray) else jnp.clip(readings, -LIMIT, LIMIT)
    return held[:, first] * held[:, second]


def product_steps(source: str, output: str, weight: Array, scale: float) -> list[Step]:
    """weight · products of the source [channels], which is 1/scale of the readings, as kernel calls."""
    mixed = (numbers(weight) * scale**2).astype(weight.dtype)[:, None]
    return [
        Step("products", (source,), f"{output}.pairs", settings={"limit": LIMIT / scale}),
        Step("dense", (f"{output}.pairs",), output, {"weight": mixed}),
    ]
