"""Patch kernels: overlapping patches of a window, standardisation by the window's own moments, affine features."""

from math import prod

import numpy as np

from scare.kernels.c_arguments import CForm, MakeForm, PlacedStep, tables_f32
from scare.kernels.c_extents import extents
from scare.kernels.contract import Kernel, Operations, Settings, Shape, Shapes, Weights, expect, free, per_number
from scare.kernels.tensor import MakeTensor, Tensor, concatenate
from scare.schema import Count, Positive


def patches(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Cut x [T, C] into patches of `patch` rows, one every `stride` rows: [patches, patch·C].

    The newest row is repeated `stride` times at the end, as PatchTST pads.
    """
    rows = patch_rows(x.shape[1], settings["patch"], settings["stride"])
    return x[:, rows].reshape(len(x), len(rows), rows.shape[1] * x.shape[2])


def patch_rows(rows: int, patch: int, stride: int) -> np.ndarray:
    """Return the row indices of each patch, [patches, patch]; past the end of the window, that of the newest row."""
    starts = stride * np.arange(count_patches(rows, patch, stride))
    return np.minimum(starts[:, None] + np.arange(patch), rows - 1)


def count_patches(rows: int, patch: int, stride: int) -> int:
    """Count the patches of a window of `rows` whose newest row is repeated `stride` times.

    >>> [count_patches(rows, 16, 8) for rows in (15, 60, 360, 720, 1440)]
    [1, 7, 45, 90, 180]
    """
    return (rows + stride - patch) // stride + 1


def _patches_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [T, C] to [patches, patch·C]."""
    patch, stride = settings["patch"], settings["stride"]
    expect(len(x) == 2 and patch >= 1 and stride >= 1 and x[0] + stride >= patch, "patches")
    return (count_patches(x[0], patch, stride), patch * x[1])


def _c_patches_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_patches_f32(out, x, rows, channels, count, patch, stride)`."""
    (rows, channels), settings = placed.shapes[0], placed.step.settings
    patch, stride = settings["patch"], settings["stride"]
    return CForm((rows, channels, count_patches(rows, patch, stride), patch, stride))


def _tensor_patches(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Gather rows by index, patch after patch."""
    rows = patch_rows(x.shape[0], settings["patch"], settings["stride"])
    return x.take(rows.ravel()).reshape(len(rows), rows.shape[1] * x.shape[1])


def affine(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Multiply each feature of x [..., D] by its `scale` [D] and add its `shift` [D]."""
    return x * weights["scale"] + weights["shift"]


def _affine_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(weights["scale"] == weights["shift"] == x[-1:], "affine")
    return x


def _c_affine_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_affine_f32(out, x, scale, shift, rows, width)`."""
    return CForm((*tables_f32(placed, "scale", "shift"), *placed.rows_and_width), in_place=(0,))


def _tensor_affine(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    return x * weights["scale"] + weights["shift"]


def window_moments(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Return the mean and standard deviation √(variance + epsilon) of each channel of x [T, C]: [2, C]."""
    mean = x.mean(axis=1, keepdims=True)
    variance = np.square(x - mean).mean(axis=1, keepdims=True)
    return np.concatenate([mean, np.sqrt(variance + x.dtype.type(settings["epsilon"]))], axis=1)


def _moments_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [T, C] to mean and deviation, [2, C]."""
    expect(len(x) == 2, "window_moments")
    return (2, x[1])


def _moments_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count a sum, a difference to the mean and its square for each number, and a root for each channel."""
    return Operations(multiply_adds=prod(x), additions=2 * prod(x), divisions=x[1])


def _c_window_moments_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_window_moments_f32(moments, x, rows, channels, epsilon)`."""
    return CForm((*placed.shapes[0], float(placed.step.settings["epsilon"])))


def _tensor_window_moments(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Compute the deviation as variance times its inverse root, because tensors have no root."""
    mean = x.mean(0)
    centred = x - mean
    variance = (centred * centred).mean(0) + settings["epsilon"]
    return concatenate([mean, variance * variance.apply("inverse_root")])


def standardize(x: np.ndarray, moments: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Subtract the mean and divide by the deviation of the `moments` [2, C] of x [T, C]: [T, C]."""
    return (x - moments[:, :1]) / moments[:, 1:]


def _standardize_shape(x: Shape, moments: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [T, C] and moments [2, C] to [T, C]."""
    expect(len(x) == 2 and moments == (2, x[1]), "standardize")
    return x


def _standardize_cost(x: Shape, moments: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count a difference and a product with the inverse for each number, and a division for each channel."""
    return Operations(multiply_adds=prod(x), additions=prod(x), divisions=x[1])


def _c_standardize_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_standardize_f32(out, x, moments, rows, channels)`."""
    return CForm(placed.out, in_place=(0,))


def _tensor_standardize(x: Tensor, moments: Tensor, weights: Weights, settings: Settings) -> Tensor:
    return (x - moments.rows(0, 1)) / moments.rows(1, 2)


def restore(y: np.ndarray, moments: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Undo `standardize` for y [1] with the mean and deviation of the first channel of moments [2, C]: [1]."""
    return y * moments[:, 1, :1] + moments[:, 0, :1]


def _restore_shape(y: Shape, moments: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from y [1] and moments [2, C] to [1]."""
    expect(y == (1,) and len(moments) == 2 and moments[0] == 2, "restore")
    return y


def _c_restore_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_restore_f32(out, y, moments, channels)`."""
    return CForm((placed.shapes[1][1],), in_place=(0,))


def _tensor_restore(y: Tensor, moments: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Tensor form of `restore`; rows 0 and 1 of `moments` [2, C] are means and deviations."""
    mean, deviation = (moments.rows(row, row + 1).rows(0, 1, axis=1).reshape(1) for row in (0, 1))
    return y * deviation + mean


FLOAT_KERNELS = {
    "patches": Kernel(patches, _patches_shape, free, takes={"patch": Count, "stride": Count}),
    "affine": Kernel(affine, _affine_shape, per_number(multiply_adds=1)),
    "window_moments": Kernel(window_moments, _moments_shape, _moments_cost, takes={"epsilon": Positive}),
    "standardize": Kernel(standardize, _standardize_shape, _standardize_cost),
    "restore": Kernel(restore, _restore_shape, per_number(multiply_adds=1)),
}
C_FLOAT32: dict[str, MakeForm] = {
    "patches": _c_patches_f32,
    "affine": _c_affine_f32,
    "window_moments": _c_window_moments_f32,
    "standardize": _c_standardize_f32,
    "restore": _c_restore_f32,
}
C_EXTENTS = {
    "patches_f32": extents(out="count * patch * channels", x="rows * channels", where="rows >= 1"),
    "affine_f32": extents(out="rows * width", x="rows * width", scale="width", shift="width", over="x"),
    "window_moments_f32": extents(moments="2 * channels", x="rows * channels"),
    "standardize_f32": extents(out="rows * channels", x="rows * channels", moments="2 * channels", over="x"),
    "restore_f32": extents(out="1", y="1", moments="2 * channels", where="channels >= 1", over="y"),
}
TENSOR_FORMS: dict[str, MakeTensor] = {
    "patches": _tensor_patches,
    "affine": _tensor_affine,
    "window_moments": _tensor_window_moments,
    "standardize": _tensor_standardize,
    "restore": _tensor_restore,
}
