"""Tables of float32 kernels, in the order in which C reads them."""

import numpy as np

from scare.export.kernels.c_form import PlacedStep
from scare.export.program import Table

FOUR = 4  # sums side by side
CHUNK = 16  # supports or hidden numbers at a time
USUAL = 8  # numbers in a token for which kernels are compiled anew


def table(values: np.ndarray, about: str) -> Table:
    """Numbers as they are, one after the other."""
    return Table(np.ascontiguousarray(values, np.float32).ravel(), about)


def tables(placed: PlacedStep, *names: str) -> tuple[Table, ...]:
    """Weights of a step as they are."""
    return tuple(table(placed.weight(name), name) for name in names)


def in_fours(*matrices: np.ndarray) -> np.ndarray:
    """The columns of matrices on top of each other, four at a time, those left over one at a time: [...]."""
    matrix = np.concatenate(matrices)
    whole = matrix.shape[1] // FOUR * FOUR
    blocks = [matrix[:, o : o + FOUR] for o in range(0, whole, FOUR)]
    blocks += [matrix[:, o : o + 1] for o in range(whole, matrix.shape[1])]
    return np.concatenate([block.ravel() for block in blocks])


def padded(array: np.ndarray, axis: int, multiple: int, value: float = 0.0) -> np.ndarray:
    """The array with its axis as long as the next multiple."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, -array.shape[axis] % multiple)
    return np.pad(array, widths, constant_values=value)


def chunked(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """Columns of `inner`, then rows of `outer`, 16 at a time."""
    starts = range(0, len(outer), CHUNK)
    pieces = [(in_fours(inner[:, at : at + CHUNK]), in_fours(outer[at : at + CHUNK])) for at in starts]
    return np.concatenate([part for piece in pieces for part in piece])
