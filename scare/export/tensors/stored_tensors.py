"""Which tensors are kept in arrays, and which are computed where they are read, once a graph is printed as loops."""

from collections import defaultdict

import numpy as np

from scare.export.tensors.indices import split_axes
from scare.kernels.tensor import CONSTANT, INPUT, Tensor, in_order, size

VIEWS = ("reshape", "permute", "slice", "gather")
CALLS = ("softmax", "later_sum", "lstm")  # functions on whole arrays
MOSTLY_ZERO = 0.6  # from this share of zeros on, a constant matrix is kept as what is not zero


def choose_stored(result: Tensor) -> tuple[set[int], set[int]]:
    """The tensors that are kept: those read more often than they have numbers; and of them those kept as arrays."""
    reads, stored, arrays = defaultdict[int, list[int]](list), set[int](), set[int]()
    reads[id(result)].append(1)
    for tensor in reversed(in_order(result)):
        mine = reads[id(tensor)]
        if tensor.operation in (INPUT, CONSTANT):
            continue
        if tensor.operation in (*CALLS, "concatenate"):
            arrays.add(id(tensor))
        once = len(mine) == 1 and mine[0] <= size(tensor)
        if id(tensor) in arrays or not (once or tensor.operation in VIEWS):
            stored.add(id(tensor))
        if tensor.operation in CALLS:
            arrays |= {id(unshaped(part)) for part in tensor.inputs}
        if tensor.operation == "reshape" and split_axes(tensor.shape, unshaped(tensor).shape) is None:
            arrays.add(id(unshaped(tensor)))
        for times in [size(tensor)] if id(tensor) in stored else mine:
            for part, factor in zip(tensor.inputs, _factors(tensor), strict=True):
                reads[id(part)].append(times * factor)
    return stored, arrays


def _factors(tensor: Tensor) -> list[int]:
    """How many numbers of each input one number of the tensor needs, about."""
    if tensor.operation == "matmul":
        left, right = tensor.inputs
        if is_sparse(right):
            assert right.constant is not None
            return [-(-int(np.count_nonzero(right.constant)) // right.shape[-1])] * 2
        return [left.shape[-1]] * 2
    if tensor.operation == "sum":
        return [tensor.inputs[0].shape[tensor.settings["axis"]]]
    return [1] * len(tensor.inputs)


def unshaped(tensor: Tensor) -> Tensor:
    """The tensor without its reshapes: the same numbers."""
    while tensor.operation == "reshape":
        tensor = tensor.inputs[0]
    return tensor


def is_sparse(matrix: Tensor) -> bool:
    """Whether it is constant and mostly zero."""
    constant = matrix.constant
    return (
        constant is not None and constant.ndim == 2 and constant.size > 1 and bool((constant == 0).mean() > MOSTLY_ZERO)
    )


def nonzero_columns(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of what is not zero, column after column, rows and numbers; and where each column starts, and the last ends.

    >>> [part.tolist() for part in nonzero_columns(np.array([[0, 2], [0, 0], [0, 3]]))]
    [[0, 2], [2, 3], [0, 0, 2]]
    """
    columns, rows = np.nonzero(matrix.T)
    return rows, matrix[rows, columns], np.searchsorted(columns, np.arange(matrix.shape[1] + 1))
