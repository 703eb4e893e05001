"""Layers with known random numbers, and their kernel calls run as the plan of a calibrator runs them."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from scare.calibrator.plan import Plan, Step, values


def random_layer(create: Callable[..., Any], *sizes: Any, seed: int = 0) -> Any:
    """The layer `create(*sizes, key)` makes, every number drawn anew: biases too, and nothing to compile."""
    rng = np.random.default_rng(seed)
    shapes = eqx.filter_eval_shape(create, *sizes, jax.random.key(0))
    return jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), shapes)


def random_tokens(*shape: int, seed: int = 1) -> np.ndarray:
    """Numbers of this shape."""
    return np.random.default_rng(seed).normal(size=shape)


def compute(steps: list[Step], output: str, shape: tuple[int, int], x: np.ndarray) -> np.ndarray:
    """What `steps` call `output`, of this shape, made of x [batch, rows, channels]."""
    flat = Step("flatten", (output,), "end.flat")
    end = Step("dense", ("end.flat",), "end", {"weight": np.ones((shape[0] * shape[1], 1))})
    return values(Plan(x.shape[1], x.shape[2], (*steps, flat, end)), x, {output})[output]
