"""The formula kernels as tensor operations."""

from scare.calibrator.kernels.kernel import Settings, Weights
from scare.export.kernels.linear.tensors import mix_features
from scare.export.tensors.tensor import MakeTensor, Tensor, concatenate


def polynomial(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Each term as a product of single numbers."""
    numbers = [x.rows(at, at + 1) for at in range(x.shape[0])]
    terms = []
    for powers in settings["powers"]:
        factors = [number for number, power in zip(numbers, powers, strict=True) for _ in range(power)]
        term = factors[0]
        for factor in factors[1:]:
            term = term * factor
        terms.append(term)
    return mix_features(concatenate(terms), weights["weight"], weights.get("bias"))


def products(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Row by row of the upper triangle: a number times those from itself on. One alone is held as its square."""
    if x.shape == (1,):
        return (x * x).least(settings["limit"] ** 2)
    held = x.least(settings["limit"]).largest(-settings["limit"])
    count = x.shape[0]
    return concatenate([held.rows(at, count) * held.rows(at, at + 1) for at in range(count)])


def blend(formulas: Tensor, x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """The first formula, and of each passage its share of the difference to the next."""
    decides, count = x.rows(0, 1), formulas.shape[0]
    share = decides * weights["slope"] + weights["offset"]
    share = decides.at_least(weights["low"]).choose(decides.at_least(weights["high"]).choose(1.0, share), 0.0)
    return formulas.rows(0, 1) + (share * (formulas.rows(1, count) - formulas.rows(0, count - 1))).sum()


TENSORS: dict[str, MakeTensor] = {
    "polynomial": polynomial,
    "products": products,
    "blend": blend,
    "divide": lambda a, b, weights, settings: a / b,
}
