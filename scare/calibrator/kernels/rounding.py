"""Rounding weights to int8, int16 and words: to the nearest number, or with each error passed on along time.

The matrices of a FlatBuffer are rounded by its own rule, in `export/tensors/integer_matrices`.
"""

import numpy as np

from scare.errors import NotApplicableError

FULL_INT8 = 127  # the largest number of 8 bits that has a negative twin
MOST_SUM = 65000  # of the magnitudes of weights: their products with numbers of 16 bits add up to a word


def whole(numbers: np.ndarray, kind: type[np.signedinteger]) -> np.ndarray:
    """Rounded, and checked to fit."""
    rounded = np.rint(numbers)
    if not np.abs(rounded).max(initial=0) <= np.iinfo(kind).max:  # also if it is no number
        raise NotApplicableError("float32 only: its weights are too large or too unlike for integers")
    return rounded.astype(kind)


def halves(weight: np.ndarray) -> np.ndarray:
    """Weights of 16 bits, for products that drop their lowest 16."""
    return whole(weight * 65536, np.int16)


def words(bias: np.ndarray, unit: np.ndarray | float) -> np.ndarray:
    """A bias as words."""
    return whole(bias / unit, np.int32)


def scales(weights: np.ndarray, most: int) -> np.ndarray:
    """What 1 stands for, for each R of weights [T, C, R]: they fit ±most, their products with a window a word."""
    largest, total = np.abs(weights).max(axis=(0, 1), initial=0.0), np.abs(weights).sum(axis=(0, 1))
    return np.maximum(np.maximum(largest / most, total / MOST_SUM), 1e-30)


def diffused(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights [T, C, R] as int8, rounded along time, and the scale of each of the R."""
    scale = scales(weights, FULL_INT8)
    return rounded_along_time(weights / scale, FULL_INT8).astype(np.int8), scale


def rounded_along_time(weights: np.ndarray, most: int) -> np.ndarray:
    """Weights [T, ...] as whole numbers within ±most; what a rounding loses the next row makes up for."""
    lost, rounded = np.zeros(weights.shape[1:]), np.empty(weights.shape)
    for row, exact in enumerate(weights):
        rounded[row] = np.clip(np.rint(exact + lost), -most, most)
        lost = exact + lost - rounded[row]
    return rounded
