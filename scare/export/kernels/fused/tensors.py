"""The fused kernels as tensor operations."""

import numpy as np

from scare.calibrator.kernels import Shape
from scare.calibrator.kernels.kernel import Settings, Weights
from scare.export.kernels.linear.tensors import mix_features
from scare.export.kernels.pointwise.tensors import TENSORS as POINTWISE
from scare.export.tensors.tensor import MakeTensor, Tensor


def token_rows(seen: Tensor, shared: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """What tokens see, and their share of what they share."""
    common = mix_features(shared, weights["mix"], None) if "mix" in weights else shared
    own = mix_features(seen, weights["local"], weights["bias"])
    return own + common.reshape(1, *common.shape) * weights["share"][:, None]


def feed_forward(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Dense, activation, dense."""
    hidden = POINTWISE[settings["activation"]](mix_features(x, weights["inner"], weights["inner_bias"]), {}, {})
    return mix_features(hidden, weights["outer"], weights["outer_bias"])


def part(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """A run of numbers in another shape."""
    shape: Shape = tuple(settings["shape"])
    return x.rows(settings["start"], settings["start"] + int(np.prod(shape))).reshape(*shape)


TENSORS: dict[str, MakeTensor] = {
    "token_rows": token_rows,
    "feed_forward": feed_forward,
    "part": part,
}
