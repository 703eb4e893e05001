"""The patch kernels as tensor operations."""

from scare.calibrator.kernels import patch_rows
from scare.calibrator.kernels.kernel import Settings, Weights
from scare.export.tensors.tensor import MakeTensor, Tensor, concatenate


def patches(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Rows by number, patch after patch."""
    rows = patch_rows(x.shape[0], settings["patch"], settings["stride"])
    return x.take(rows.ravel()).reshape(len(rows), rows.shape[1] * x.shape[1])


def affine(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Feature by feature."""
    return x * weights["scale"] + weights["shift"]


def window_moments(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Mean, and the standard deviation as variance times its inverse root."""
    mean = x.mean(0)
    centred = x - mean
    variance = (centred * centred).mean(0) + settings["epsilon"]
    return concatenate([mean, variance * variance.apply("inverse_root")])


def standardize(x: Tensor, moments: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Channel by channel."""
    return (x - moments.rows(0, 1)) / moments.rows(1, 2)


def restore(y: Tensor, moments: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """With the moments of the first channel."""
    mean, deviation = (moments.rows(at, at + 1).rows(0, 1, axis=1).reshape(1) for at in (0, 1))
    return y * deviation + mean


TENSORS: dict[str, MakeTensor] = {
    "patches": patches,
    "affine": affine,
    "window_moments": window_moments,
    "standardize": standardize,
    "restore": restore,
}
