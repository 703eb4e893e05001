"""The choice kernels as tensor operations."""

from scare.calibrator.kernels import THRESHOLD
from scare.calibrator.kernels.kernel import Settings, Weights
from scare.export.tensors.tensor import MakeTensor, Tensor, as_tensor


def leaky_relu(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """The larger of the number and its small multiple."""
    return x.largest(x * settings["slope"])


def sigmoid_mean(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Over time."""
    return x.apply("sigmoid").mean(0).reshape(x.shape[1])


def select(decision: Tensor, simple: Tensor, deep: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Both branches are there; `decision > threshold` as its contrary."""
    return as_tensor(THRESHOLD).at_least(decision).choose(simple, deep)


TENSORS: dict[str, MakeTensor] = {
    "leaky_relu": leaky_relu,
    "sigmoid_mean": sigmoid_mean,
    "select": select,
}
