"""Tensors printed as loops give what NumPy gives, whatever axes are exchanged, cut, joined or broadcast."""

from array import array
from math import inf, log, sqrt, tanh
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from scare.export.micropython_runtime import scare_live
from scare.export.micropython_source import Constants, print_function
from scare.kernels.tensor import Tensor, as_tensor, concatenate, window

X = np.random.default_rng(4).normal(size=(6, 4)).astype(np.float32)
WEIGHT = np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32)
ZEROS = np.zeros((4, 3), np.float32)
SPARSE = np.where(np.arange(12).reshape(4, 3) % 5 == 0, WEIGHT, 0)


def compute(result: Tensor) -> tuple[float, str, int]:
    """The value for `X`, the function's text, and the bytes it keeps."""
    constants = Constants()
    function = print_function(result, constants)
    lines = [*constants.lines, "def run(x):", *(f"    {line}" for line in function.lines)]
    names: dict[str, Any] = {**vars(scare_live), "array": array, "log": log, "sqrt": sqrt, "tanh": tanh}
    exec("\n".join(lines), names)
    return names["run"](array("f", X.ravel())), "\n".join(lines), function.scratch_bytes


def total(tensor: Tensor) -> Tensor:
    """Every number of a tensor counts differently in the result."""
    flat = tensor.reshape(int(np.prod(tensor.shape)))
    return (flat * np.arange(1, flat.shape[0] + 1, dtype=np.float32)).sum()


def weighed(numbers: np.ndarray) -> float:
    return float(numbers.ravel() @ np.arange(1, numbers.size + 1))


x = window(6, 4)
heads = X.reshape(6, 2, 2).transpose(1, 0, 2)
SHIFTED = np.concatenate([np.zeros((2, 4)), X[:4]])
GRAPHS = {
    "a matrix": (total(x @ WEIGHT), weighed(X @ WEIGHT)),
    "a matrix with few numbers": (total(x @ SPARSE), weighed(X @ SPARSE)),
    "a matrix of zeros": (total(x @ ZEROS), 0.0),
    "along time": (total((x.transposed @ X).transposed), weighed((X.T @ X).T)),
    "a row": (total(x.rows(5, 6) @ WEIGHT), weighed(X[5:] @ WEIGHT)),
    "one column": (total(x.rows(1, 2, axis=1) @ np.array([[2.0]])), weighed(2 * X[:, 1:2])),
    "heads": (total(x.reshape(6, 2, 2).permute(1, 0, 2)), weighed(heads)),
    "heads joined": (total(x.reshape(6, 2, 2).permute(1, 0, 2).reshape(4, 6)), weighed(heads)),
    "heads with heads": (
        total(x.reshape(6, 2, 2).permute(1, 0, 2) @ x.reshape(6, 2, 2).permute(1, 2, 0)),
        weighed(heads @ heads.swapaxes(1, 2)),
    ),
    "rows joined": (total(concatenate([x.rows(3, 6), x * 2.0])), weighed(np.concatenate([X[3:], 2 * X]))),
    "columns joined": (
        total(concatenate([x, x.rows(2, 4, axis=1)], axis=1)),
        weighed(np.concatenate([X, X[:, 2:]], axis=1)),
    ),
    "rows by number": (total(x.take(np.array([5, 0, 5]))), weighed(X[[5, 0, 5]])),
    "sums": (total(x.sum(0)) + total(x.sum(1)), weighed(X.sum(0)) + weighed(X.sum(1))),
    "both ways": (total(x.mean(0) * x.mean(1)), weighed(X.mean(0) * X.mean(1)[:, None])),
    "zeros before": (total(x.rows(0, 4).after_zeros(2) + x), weighed(SHIFTED + X)),
    "sums of later rows": (total(x.later_sum()), weighed(X.sum(0) - X.cumsum(0))),
    "shares": (total(x.apply("softmax")), weighed(np.exp(X) / np.exp(X).sum(1, keepdims=True))),
    "shares of one": (total((x.rows(0, 1).rows(0, 1, axis=1) * 3.0).apply("softmax")), 1.0),
    "no limit": (total(x.minimum(inf).maximum(as_tensor(-inf))), weighed(X)),
    "a choice": (total(x.at_least(0.5).choose(x * x, -1.0)), weighed(np.where(X >= 0.5, X * X, -1))),
    "more than once": (
        total(x.apply("tanh") * x.apply("exp") + x.apply("tanh")),
        weighed(np.tanh(X) * (np.exp(X) + 1)),
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_loops_give_what_numpy_gives(name: str) -> None:
    result, expected = GRAPHS[name]
    assert_allclose(compute(result)[0], expected, rtol=1e-5, atol=1e-5)


def test_a_matrix_that_is_mostly_zero_costs_what_is_not() -> None:
    constants = Constants()
    print_function(total(x @ SPARSE), constants)
    assert constants.bytes == 4 * 18 + 3 * (4 + 1) + 4  # places in the total; numbers and rows; starts


def test_views_are_not_copied_and_what_is_read_once_is_not_kept() -> None:
    _, text, kept = compute(total((x.transposed * 2.0 + 1.0).transposed.rows(1, 5)))
    assert "zeros" in text
    assert kept == 4 * 16  # joined rows, once
    assert compute((x @ WEIGHT).sum(0).rows(0, 1, axis=1).reshape(1))[2] == 0


def test_arrays_are_dropped_after_their_last_reader() -> None:
    first = x @ WEIGHT
    second = (first * first) @ WEIGHT.T
    _, text, kept = compute(total(second * second * second))
    assert "del t0" in text
    assert kept < 4 * (18 + 18 + 24 + 24)


def test_the_same_numbers_are_there_once() -> None:
    constants = Constants()
    assert constants.name(WEIGHT) == constants.name(WEIGHT.copy()) != constants.name(ZEROS)
    assert constants.bytes == 2 * WEIGHT.nbytes
    assert all(len(line) <= 120 for line in constants.lines)
