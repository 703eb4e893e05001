"""Formula kernels: what published corrections and curves are made of. A missing number (NaN) stays missing in all."""

from math import inf, prod
from typing import Annotated

import numpy as np
from annotated_types import MaxLen

from scare.calibrator.kernels.kernel import Kernel, Operations, Settings, Shape, Shapes, Weights, expect, one_product
from scare.records import Positive

TERMS = 4096  # of a polynomial, at most


def polynomial(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Polynomials of x [C], one a column of weight [M, O]: Σ_m weight[m] · Π_c x[c]^powers[m][c] (+ bias): [O]."""
    terms = [_monomial(x, powers) for powers in settings["powers"]]
    mixed = one_product(np.stack(terms, axis=-1), weights["weight"])
    return mixed + weights["bias"] if "bias" in weights else mixed


def _monomial(x: np.ndarray, powers: list[int]) -> np.ndarray:
    """The product of the features of x [batch, C], each as often as its power says: [batch]."""
    term: np.ndarray | None = None
    for feature, power in enumerate(powers):
        for _ in range(power):
            term = x[:, feature] if term is None else term * x[:, feature]
    assert term is not None  # the shape refuses a constant term: that is the bias
    return term


def _polynomial_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    powers, weight = settings["powers"], weights["weight"]
    expect(len(x) == 1 and len(weight) == 2 and len(powers) == weight[0] >= 1, "polynomial weight")
    for term in powers:
        expect(len(term) == x[0] and min(term) >= 0 and 1 <= sum(term) <= 8, "polynomial powers")
    expect("bias" not in weights or weights["bias"] == weight[1:], "polynomial bias")
    return weight[1:]


def _polynomial_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """The products inside each term, then each term into each output."""
    inside = sum(sum(term) - 1 for term in settings["powers"])
    return Operations(multiply_adds=inside + prod(weights["weight"]))


def products(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """All products of two numbers of x [C], each first held within ±limit, in the order of triu_indices: [C(C+1)/2]."""
    limit = x.dtype.type(settings["limit"])
    held = np.clip(x, -limit, limit)
    first, second = np.triu_indices(x.shape[1])
    return held[:, first] * held[:, second]


def _products_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(len(x) == 1 and 0 < settings["limit"] < inf, "products")
    return (x[0] * (x[0] + 1) // 2,)


def _products_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=x[0] * (x[0] + 1) // 2)


def blend(formulas: np.ndarray, x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """One of K formulas [K], or a mixture of two neighbours, as the first number of x [C] decides: [1].

    Passage k leads from formula k to k + 1: the share of the later one is 0 below low[k], 1 from high[k] on, and
    slope[k] · x + offset[k] between them. Passages follow each other: high[k] ≤ low[k + 1].
    """
    decides = x[:, :1]
    share = decides * weights["slope"] + weights["offset"]
    share = np.where(decides < weights["low"], 0, np.where(decides >= weights["high"], 1, share))
    return formulas[:, :1] + np.einsum("bk,bk->b", share, np.diff(formulas, axis=1))[:, None]


def _blend_shape(formulas: Shape, x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(len(formulas) == len(x) == 1 and formulas[0] >= 2, "blend")
    expect(all(weights[name] == (formulas[0] - 1,) for name in ("low", "high", "slope", "offset")), "blend passages")
    return (1,)


def _blend_cost(formulas: Shape, x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """The share, the difference of two formulas and its part of each passage."""
    passages = formulas[0] - 1
    return Operations(multiply_adds=2 * passages, additions=passages)


def divide(a: np.ndarray, b: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Divides two values of one shape."""
    return a / b


def _divide_shape(a: Shape, b: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(a == b, "divide")
    return a


def _divide_cost(a: Shape, b: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(divisions=prod(a))


FLOATS = {
    "polynomial": Kernel(
        polynomial,
        _polynomial_shape,
        _polynomial_cost,
        takes={"powers": Annotated[list[list[int]], MaxLen(TERMS)]},
        scratch=lambda x, weights, settings: len(settings["powers"]),
    ),
    "products": Kernel(products, _products_shape, _products_cost, takes={"limit": Positive}),
    "blend": Kernel(blend, _blend_shape, _blend_cost),
    "divide": Kernel(divide, _divide_shape, _divide_cost),
}
