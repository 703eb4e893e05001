"""Tables of integer kernels, in the order in which C reads them, and the sizes C has room for."""

import numpy as np

from scare.errors import NotApplicableError
from scare.export.program import Table

LARGEST = {"width": 32, "supports": 64, "hidden": 128, "value pairs": 128, "tokens": 32, "bits": 16}  # scare_integer.h
USUAL = 8  # numbers in a token for which kernels are compiled anew


def fits(what: str, size: int) -> int:
    """A size that the kernels have room for."""
    if size > LARGEST[what]:
        raise NotApplicableError(f"float32 only: {what} of {size}; the integer kernels have room for {LARGEST[what]}")
    return size


def table(array: np.ndarray, about: str, kind: type[np.integer] | None = None) -> Table:
    """Numbers as they are, one after the other."""
    return Table(np.ascontiguousarray(array if kind is None else array.astype(kind)).reshape(-1), about)


def padded(array: np.ndarray, multiple: int) -> np.ndarray:
    """The last axis filled up with zeros."""
    missing = -array.shape[-1] % multiple
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])


def by_four(weight: np.ndarray) -> np.ndarray:
    """Weights [I, O] in blocks of four outputs and two inputs: [O / 4, I / 2, 2, 4]."""
    filled = padded(padded(weight, 4).T, 2).T
    return filled.reshape(len(filled) // 2, 2, -1, 4).transpose(2, 0, 1, 3)


def after_bias(bias: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """For each output of weights [I, O] the two halves of a word, its bias, then its weights, padded to eight."""
    return np.concatenate([bias.astype("<i4").view("<i2").reshape(-1, 2), padded(weight.T, 8)], axis=1)
