"""Matrices of which each column is a span of rows: the same products, with a fraction of the numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from scare.export.tensor_graph import SAVED, Spans, find_spans
from scare.kernels import hat_matrix
from scare.kernels.tensor import window
from scare.layers.front import HatBasis
from tests.needs import needs


def hats(rows: int) -> np.ndarray:
    basis = HatBasis(rows)
    return hat_matrix(*basis.sums, basis.size).astype(np.float32)


def bins(lengths: list[int], draw: np.random.Generator) -> np.ndarray:
    """Runs of these lengths, each with numbers of its own in its own column."""
    run = np.repeat(np.arange(len(lengths)), lengths)
    matrix = np.zeros((len(run), len(lengths)), np.float32)
    matrix[np.arange(len(run)), run] = draw.uniform(0.5, 2.0, len(run))
    return matrix


def product(x: np.ndarray, spans: Spans) -> np.ndarray:
    """x [rows] times the matrix, as cumulative sums give it."""
    layers = [x * layer for layer in spans.layers]
    layers += [x - layers[0]] if spans.shared else []
    sums = np.concatenate([*(layer[::-1].cumsum()[::-1] for layer in layers), [0.0]])
    return sums[spans.starts] - sums[spans.ends]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 90), min_size=9, max_size=30), st.integers(0, 99), st.booleans())
def test_sums_over_spans_are_the_products(lengths: list[int], seed: int, overlapping: bool) -> None:
    draw = np.random.default_rng(seed)
    matrix = bins(lengths, draw).astype(np.float64)
    if overlapping:
        matrix[:, 1:] += 0.5 * matrix[:, :-1]
    spans = find_spans(matrix)
    if spans is None:
        assert len(matrix) * (len(lengths) - 2) < SAVED
    else:
        x = draw.normal(size=len(matrix))
        assert_allclose(product(x, spans), x @ matrix, rtol=1e-9, atol=1e-9)


def test_hats_need_one_number_a_row() -> None:
    spans = find_spans(hats(1440))
    assert spans is not None
    assert spans.shared
    assert spans.layers.shape == (1, 1440)


@pytest.mark.parametrize(
    "matrix",
    [np.ones((90, 12)), np.eye(20), np.zeros((90, 12)), np.tile(np.eye(12), (9, 1)), None],
    ids=["full", "small", "nothing", "columns in pieces", "not constant"],
)
def test_other_matrices_have_no_spans(matrix: np.ndarray | None) -> None:
    assert find_spans(matrix) is None


@needs("tflite")
@pytest.mark.parametrize("channels", [1, 2])
def test_hats_in_litert_and_micro(channels: int) -> None:
    """Each hat is as exact as float32 lets it be, though sums over a whole window are taken from each other."""
    from scare.export.tflite import flatbuffer, flatbuffer_operators, run_flatbuffer, run_micro

    matrix, size = hats(1440), HatBasis(1440).size
    weights = np.random.default_rng(2).normal(size=(size * channels, 1)).astype(np.float32)
    weights /= np.repeat(matrix.sum(axis=0), channels)[:, None]
    mixed = (window(1440, channels).transposed @ matrix).transposed
    content = flatbuffer((mixed.reshape(1, size * channels) @ weights).reshape(1), ("x", "y"))
    assert flatbuffer_operators(content).count("CUMSUM") == 2
    assert len(content) < 4 * 1440 + 3000
    x = 3 + np.random.default_rng(3).normal(size=(20, 1440, channels)).astype(np.float32)
    exact = (np.swapaxes(x.astype(np.float64), 1, 2) @ matrix).swapaxes(1, 2).reshape(20, -1) * weights[:, 0]
    for run in (run_flatbuffer, run_micro):
        differences = run(content, x) - exact.sum(axis=1)
        assert (np.abs(differences) < 2e-6 * np.abs(exact).sum(axis=1)).all()
