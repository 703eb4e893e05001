"""Fused kernels: several steps as one, so that what lies between them never needs memory. `fuse` writes them."""

from math import prod
from typing import Annotated, Literal

import numpy as np
from annotated_types import MinLen

from scare.calibrator.kernels.kernel import (
    Kernel,
    Operations,
    Settings,
    Shape,
    Shapes,
    Weights,
    expect,
    free,
    one_product,
)
from scare.calibrator.kernels.pointwise.floats import FLOATS as POINTWISE
from scare.records import Count, Whole

ACTIVATIONS = ("relu", "gelu")


def token_rows(seen: np.ndarray, shared: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Tokens from what they see and what they share: seen·local + bias + share ⊗ (shared·mix): [L, O].

    For seen [L, C], shared [D], local [C, O], bias [L, O], share [L] and mix [D, O]; without mix shared is [O].
    """
    common = shared @ weights["mix"] if "mix" in weights else shared
    own = one_product(seen, weights["local"]) + weights["bias"]
    return own + weights["share"][:, None] * common[:, None, :]


def _token_shape(seen: Shape, shared: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(len(seen) == 2 and len(shared) == 1 and len(weights["local"]) == 2, "token_rows")
    out = (seen[0], weights["local"][1])
    expect(weights["local"][0] == seen[1] and weights["bias"] == out and weights["share"] == out[:1], "token_rows")
    expect(weights["mix"] == (*shared, out[1]) if "mix" in weights else shared == out[1:], "token_rows mix")
    return out


def _token_cost(seen: Shape, shared: Shape, weights: Shapes, settings: Settings) -> Operations:
    rows, outputs = seen[0], weights["local"][1]
    return Operations(multiply_adds=prod(seen) * outputs + prod(weights.get("mix", (0,))) + rows * outputs)


def feed_forward(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Two dense steps with an activation between them, row by row of x [..., D]: [..., O].

    Weights `inner` [D, H], `inner_bias` [H], `outer` [H, O], `outer_bias` [O].
    """
    hidden = one_product(x, weights["inner"]) + weights["inner_bias"]
    active = POINTWISE[settings["activation"]].run(hidden, {}, {})
    return one_product(active, weights["outer"]) + weights["outer_bias"]


def _feed_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    inner, outer = weights["inner"], weights["outer"]
    expect(len(inner) == len(outer) == 2 and inner == (x[-1], outer[0]), "feed_forward")
    expect(weights["inner_bias"] == inner[1:] and weights["outer_bias"] == outer[1:], "feed_forward bias")
    expect(settings["activation"] in ACTIVATIONS, "feed_forward activation")
    return (*x[:-1], outer[1])


def _feed_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    hidden = (*x[:-1], weights["inner"][1])
    products = Operations(multiply_adds=prod(x) * hidden[-1] + prod(hidden) * weights["outer"][1])
    return products + POINTWISE[settings["activation"]].cost(hidden, {}, {})


def part(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """The numbers of x [I] from `start` on, read as `shape`."""
    shape = tuple(settings["shape"])
    return x[:, settings["start"] : settings["start"] + prod(shape)].reshape(len(x), *shape)


def _part_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    start, shape = settings["start"], tuple(settings["shape"])
    expect(len(x) == 1 and start >= 0 and min(shape) >= 1 and start + prod(shape) <= x[0], "part")
    return shape


FLOATS = {
    "token_rows": Kernel(token_rows, _token_shape, _token_cost),
    "feed_forward": Kernel(
        feed_forward,
        _feed_shape,
        _feed_cost,
        takes={"activation": Literal[ACTIVATIONS]},
        scratch=lambda x, weights, settings: prod(x[:-1]) * weights["inner"][1],
    ),
    "part": Kernel(
        part, _part_shape, free, copies=False, takes={"start": Whole, "shape": Annotated[list[Count], MinLen(1)]}
    ),
}
