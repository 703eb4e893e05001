"""Formula kernels: polynomials, products and blends of published corrections. NaN in gives NaN out."""

from functools import reduce
from math import floor, inf, log2, prod
from operator import mul
from typing import Annotated

import numpy as np
from annotated_types import MaxLen

from scare.errors import NotApplicableError
from scare.kernels.c_arguments import CForm, CTable, MakeForm, PlacedStep, elementwise_form, table_f32, table_q
from scare.kernels.c_extents import extents
from scare.kernels.contract import (
    Kernel,
    Operations,
    Settings,
    Shape,
    Shapes,
    Step,
    Weights,
    equal_shapes,
    expect,
    one_product,
    per_number,
)
from scare.kernels.fixed_point import QuantisationRule, QuantisationState, checked_round, rounding_shift, to_word
from scare.kernels.linear import tensor_mix_features
from scare.kernels.tensor import MakeTensor, Tensor, concatenate
from scare.schema import Positive

TERMS = 4096  # most terms of a polynomial
MOST_FACTOR = 28000  # largest factor of a fixed-point product: half of its square is below 2^29 (`fixed_point.LARGEST`)


def polynomial(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute O polynomials of x [C] with the same M terms: Σ_m weight[m, o] Π_c x[c]^powers[m][c] (+ bias[o]): [O]."""
    terms = []
    for powers in settings["powers"]:  # never all zero: the shape function rejects a constant term, which is the bias
        factors = [x[:, channel] for channel, power in enumerate(powers) for _ in range(power)]
        terms.append(reduce(np.multiply, factors))
    mixed = one_product(np.stack(terms, axis=-1), weights["weight"])
    return mixed + weights["bias"] if "bias" in weights else mixed


def _polynomial_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the shape: from x [C], powers [M][C] and weight [M, O] to [O]; each term has a degree of 1 to 8."""
    powers, weight = settings["powers"], weights["weight"]
    expect(len(x) == 1 and len(weight) == 2 and len(powers) == weight[0] >= 1, "polynomial weight")
    for term in powers:
        expect(len(term) == x[0] and min(term) >= 0 and 1 <= sum(term) <= 8, "polynomial powers")
    expect("bias" not in weights or weights["bias"] == weight[1:], "polynomial bias")
    return weight[1:]


def _polynomial_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count the multiplications inside each term, and a multiply-add for each term and output."""
    within_terms = sum(sum(term) - 1 for term in settings["powers"])
    return Operations(multiply_adds=within_terms + prod(weights["weight"]))


def _c_polynomial_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_polynomial_f32(out, x, powers, weight, terms, inputs, outputs)`."""
    powers = np.array(placed.step.settings["powers"], np.uint8)
    weight = np.concatenate([placed.bias(1, *placed.out), placed.weight("weight")])
    terms = CTable(powers.ravel(), "powers")
    return CForm((terms, table_f32(weight, "bias and weight"), *powers.shape, *placed.out))


def _tensor_polynomial(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Multiply the factors of each term one by one, because tensors have no power."""
    numbers = [x.rows(channel, channel + 1) for channel in range(x.shape[0])]
    terms = []
    for powers in settings["powers"]:
        factors = [number for number, power in zip(numbers, powers, strict=True) for _ in range(power)]
        terms.append(reduce(mul, factors))
    return tensor_mix_features(concatenate(terms), weights["weight"], weights.get("bias"))


def products(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Clamp each number of x [C] at ±limit; return all products of two of them, with the squares: [C(C+1)/2].

    They are in the order of `np.triu_indices`: 0·0, 0·1, … 1·1, 1·2 …
    """
    limit = x.dtype.type(settings["limit"])
    clamped = np.clip(x, -limit, limit)
    first, second = np.triu_indices(x.shape[1])
    return clamped[:, first] * clamped[:, second]


def _products_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [C] to [C(C+1)/2]."""
    expect(len(x) == 1 and 0 < settings["limit"] < inf, "products")
    return (x[0] * (x[0] + 1) // 2,)


def _products_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=x[0] * (x[0] + 1) // 2)


def products_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute `products` in fixed point for words x [C], with half of each product: [C(C+1)/2].

    The words are converted to 16-bit factors first: multiplied by `factor` / 2^32 and clamped at ±top.
    """
    factors = rounding_shift(x.astype(np.int64) * weights["factor"], 32)
    clamped = np.clip(factors, -settings["top"], settings["top"])
    first, second = np.triu_indices(x.shape[1])
    return to_word(rounding_shift(clamped[:, first] * clamped[:, second], 1))


def _products_shape_q(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from words x [C] to [C(C+1)/2]."""
    expect(len(x) == 1 and weights["factor"] == x, "products_q")
    return (x[0] * (x[0] + 1) // 2,)


def _products_bound(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the square of the limit at which both factors are clamped."""
    return np.asarray(step.settings["limit"] ** 2)


def _products_unit(q: QuantisationState, step: Step) -> np.ndarray:
    """Return twice the square of the factors' unit, because `products_q` halves the products."""
    return np.asarray(2.0 ** (1 - 2 * _factor_bits(step)))


def _factor_bits(step: Step) -> int:
    """Return the fractional bits of the factors: as many as keep a factor at the limit below `MOST_FACTOR`."""
    return floor(log2(MOST_FACTOR / step.settings["limit"]))


def _quantise_products(q: QuantisationState, step: Step) -> Step:
    """Make `products_q`, whose `factor` converts each word to a 16-bit number with `_factor_bits` fractional bits."""
    limit, bits = step.settings["limit"], _factor_bits(step)
    factor = np.rint(q.feature_units(step.inputs[0]) * 2.0 ** (bits + 32))  # of the product, C takes the upper 32 bits
    if factor.max() >= 2.0**31:  # too large for an int32
        raise NotApplicableError(
            f"float32 only: the steps of a reading are too coarse for products of readings up to ±{limit:g}"
        )
    weights = {"factor": checked_round(factor, np.int32)}
    return Step("products_q", step.inputs, step.output, weights, {"top": floor(limit * 2.0**bits)})


def _c_products_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_products_f32(out, x, count, limit)`."""
    return CForm((*placed.shapes[0], float(placed.step.settings["limit"])))


def _c_products_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_products_q(out, x, factors, count, top)`."""
    factor = placed.step.weights["factor"]
    return CForm((table_q(factor, f"{placed.step.output} factors"), len(factor), placed.step.settings["top"]))


def _tensor_products(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Tensor form of `products`: the upper triangle of all products, row by row.

    A single number is squared first, so that one operation clamps it.
    """
    if x.shape == (1,):
        return (x * x).minimum(settings["limit"] ** 2)
    clamped = x.minimum(settings["limit"]).maximum(-settings["limit"])
    count = x.shape[0]
    return concatenate([clamped.rows(first, count) * clamped.rows(first, first + 1) for first in range(count)])


def blend(formulas: np.ndarray, x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Blend K formulas [K], from one to the next as the first number of x [C] grows: [1].

    In the passage from formula k to k + 1, the share of k + 1 is 0 below low[k], slope[k] · x + offset[k] up to
    high[k], and 1 above. Passages do not overlap: high[k] ≤ low[k + 1].
    """
    first = x[:, :1]  # [batch, 1]
    share = first * weights["slope"] + weights["offset"]  # of the upper formula of each passage [batch, K - 1]
    share = np.where(first < weights["low"], 0, np.where(first >= weights["high"], 1, share))
    rise = np.diff(formulas, axis=1)  # from each formula to the next [batch, K - 1]
    return formulas[:, :1] + np.einsum("bk,bk->b", share, rise)[:, None]


def _blend_shape(formulas: Shape, x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from formulas [K] and x [C] to [1]; each weight is that of K − 1 passages."""
    expect(len(formulas) == len(x) == 1 and formulas[0] >= 2, "blend")
    expect(all(weights[name] == (formulas[0] - 1,) for name in ("low", "high", "slope", "offset")), "blend passages")
    return (1,)


def _blend_cost(formulas: Shape, x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count for each passage the share, the difference of two formulas, and their product."""
    passages = formulas[0] - 1
    return Operations(multiply_adds=2 * passages, additions=passages)


def _c_blend_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_blend_f32(out, formulas, x, passages, count)`.

    A passage is a row of four numbers: low, high, slope, offset.
    """
    passages = np.stack([placed.weight(name) for name in ("low", "high", "slope", "offset")], axis=1)
    return CForm((table_f32(passages, "low, high, slope, offset"), len(passages)))


def _tensor_blend(formulas: Tensor, x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Tensor form of `blend`: the first formula, plus each passage's share times the difference to the next formula."""
    first, count = x.rows(0, 1), formulas.shape[0]
    share = first * weights["slope"] + weights["offset"]
    share = first.at_least(weights["low"]).choose(first.at_least(weights["high"]).choose(1.0, share), 0.0)
    return formulas.rows(0, 1) + (share * (formulas.rows(1, count) - formulas.rows(0, count - 1))).sum()


def divide(a: np.ndarray, b: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Divide a by b, elementwise."""
    return a / b


FLOAT_KERNELS = {
    "polynomial": Kernel(
        polynomial,
        _polynomial_shape,
        _polynomial_cost,
        takes={"powers": Annotated[list[list[int]], MaxLen(TERMS)]},
        scratch=lambda x, weights, settings: len(settings["powers"]),
    ),
    "products": Kernel(products, _products_shape, _products_cost, takes={"limit": Positive}),
    "blend": Kernel(blend, _blend_shape, _blend_cost),
    "divide": Kernel(divide, equal_shapes("divide"), per_number(divisions=1)),
}
FIXED_KERNELS = {
    "products_q": Kernel(products_q, _products_shape_q, _products_cost),
}
QUANTISATION = {
    "products": QuantisationRule(_products_bound, _products_unit, _quantise_products),
}
C_FLOAT32: dict[str, MakeForm] = {
    "polynomial": _c_polynomial_f32,
    "products": _c_products_f32,
    "blend": _c_blend_f32,
    "divide": elementwise_form,
}
C_FIXED: dict[str, MakeForm] = {"products_q": _c_products_q}
C_EXTENTS = {
    "polynomial_f32": extents(out="outputs", x="inputs", powers="terms * inputs", weight="(1 + terms) * outputs"),
    "products_f32": extents(out="count * (count + 1) // 2", x="count"),
    "blend_f32": extents(out="1", formulas="count + 1", x="1", passages="4 * count"),
    "divide_f32": extents(out="count", a="count", b="count", over="a b"),
    "products_q": extents(out="count * (count + 1) // 2", x="count", factors="count", where="0 <= top <= 32767"),
}
TENSOR_FORMS: dict[str, MakeTensor] = {
    "polynomial": _tensor_polynomial,
    "products": _tensor_products,
    "blend": _tensor_blend,
    "divide": lambda a, b, weights, settings: a / b,
}
