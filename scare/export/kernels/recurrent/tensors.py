"""The recurrent kernels as tensor operations."""

from scare.calibrator.kernels.kernel import Settings, Weights
from scare.export.tensors.tensor import MakeTensor, Tensor, as_tensor


def lstm(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """One operation, which each format writes in its own way."""
    size = weights["hidden"].shape[0]
    return Tensor("lstm", (x, *(as_tensor(weights[name]) for name in ("input", "hidden", "bias"))), (size,))


TENSORS: dict[str, MakeTensor] = {
    "lstm": lstm,
}
