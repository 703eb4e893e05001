"""Kernels as tensor operations: the NumPy results in every runtime; passes keep them with fewer operations.

Checked: each kernel in ONNX Runtime and LiteRT, joined products, batched hashes, and spans of sparse matrices.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from scare.export.tensor_graph import MEMBER, SAVED, Spans, find_spans, simplify
from scare.kernels import FLOAT_KERNELS, TENSOR_FORMS, hat_matrix
from scare.kernels.linear import tensor_mix_features
from scare.kernels.tensor import Tensor, in_order, size, window
from scare.layers.embedding import HatBasis
from tests.export.test_micropython_source import compute
from tests.kernels.test_families import STUDIED
from tests.kernels.test_kernels import BATCH, EVERY_CALL, Call, as_float32
from tests.needs import needs

NAMES = ("x", "y")
DRAW = np.random.default_rng(6)
x = window(6, 4)


def bits_of(words: np.ndarray, bits: int) -> np.ndarray:
    """Codes as ±1, [..., bits]."""
    return 2.0 * (words[..., None] >> np.arange(bits, dtype=np.uint32) & 1) - 1


def real_inputs(call: Call) -> list[np.ndarray]:
    """The inputs as tensors have them: codes as signs."""
    return [bits_of(x, call.settings["bits"]) if x.dtype == np.uint32 else x for x in call.inputs]


def lowered(name: str, call: Call) -> tuple[Tensor, np.ndarray]:
    """The kernel on parts of one flat input, and that input [batch, numbers, 1]."""
    inputs = real_inputs(call)
    flat = np.concatenate([x.reshape(BATCH, -1) for x in inputs], axis=1)[:, :, None].astype(np.float32)
    source, start, parts = window(flat.shape[1], 1).reshape(flat.shape[1]), 0, []
    for x in inputs:
        count = int(np.prod(x.shape[1:]))
        parts.append(source.rows(start, start + count).reshape(*x.shape[1:]))
        start += count
    result = TENSOR_FORMS[name](*parts, as_float32(call).weights, call.settings)
    return result.reshape(size(result)), flat


def expected(name: str, call: Call) -> np.ndarray:
    outputs = call.run(name)
    signs = bits_of(outputs, call.weights["projection"].shape[1]) if name == "hash_codes" else outputs
    return signs.reshape(BATCH, -1)


def test_every_kernel_is_lowered_but_those_in_integers() -> None:
    assert TENSOR_FORMS.keys() == FLOAT_KERNELS.keys() - {STUDIED}


@needs("onnx")
@pytest.mark.parametrize(("name", "call"), [one for one in EVERY_CALL if one.values[0] in TENSOR_FORMS])
def test_in_onnx_runtime(name: str, call: Call) -> None:
    import onnxruntime

    from scare.export.onnx import onnx_model

    result, flat = lowered(name, call)
    session = onnxruntime.InferenceSession(onnx_model(result, NAMES, {}), providers=["CPUExecutionProvider"])
    assert_allclose(session.run(None, {"x": flat})[0], expected(name, call), rtol=2e-5, atol=2e-5)
    assert_allclose(session.run(None, {"x": flat[:1]})[0], expected(name, call)[:1], rtol=2e-5, atol=2e-5)


@needs("tflite")
@pytest.mark.parametrize("name", sorted(TENSOR_FORMS))
@pytest.mark.parametrize("end", [-1, pytest.param(0, marks=pytest.mark.slow)])
def test_in_litert(name: str, end: int) -> None:
    from scare.export.tflite import flatbuffer, run_flatbuffer

    call = next(parameter.values[1] for parameter in EVERY_CALL if parameter.values[0] == name)
    result, flat = lowered(name, call)
    at = range(size(result))[end]
    content = flatbuffer(result.rows(at, at + 1), NAMES)
    assert_allclose(run_flatbuffer(content, flat), expected(name, call)[:, at], rtol=2e-5, atol=2e-5)


def operations(result: Tensor) -> list[str]:
    return [tensor.operation for tensor in in_order(result)]


def weights(*shape: int) -> np.ndarray:
    return DRAW.normal(size=shape).astype(np.float32)


def head(vector: Tensor) -> Tensor:
    return tensor_mix_features(vector, weights(vector.shape[0], 1), weights(1))


def attention(alike: bool = True) -> Tensor:
    """One number of tokens that attend to each other by the bits of their queries and keys."""
    hashing, settings = {"supports": weights(5, 4), "projection": weights(5, 7)}, {"sharpness": 1.0, "epsilon": 1e-12}
    query, key, value = (x @ weights(4, 4) + weights(6, 4) for _ in range(3))
    codes = [
        TENSOR_FORMS["hash_codes"](rows, hashing, settings) for rows in (query, key if alike else key.apply("tanh"))
    ]
    mixed = TENSOR_FORMS["bitwise_attention"](*codes, value, {}, {"bias": 8})
    return mixed.rows(5, 6).reshape(4).rows(2, 3)


def test_a_sum_of_products_is_one_product() -> None:
    parts = [x.reshape(24), x.rows(5, 6).reshape(4), x.rows(0, 1).reshape(4)]
    result = (head(parts[0]) + head(parts[1]) + head(parts[2])) * 3.0 + 1.0
    shorter = simplify(result)
    assert operations(result).count("matmul") == 3
    assert operations(shorter).count("matmul") == operations(shorter).count("concatenate") == 1
    assert_allclose(compute(shorter)[0], compute(result)[0], rtol=1e-6)


def test_what_is_read_elsewhere_stays() -> None:
    first, second = head(x.reshape(24)), head(x.rows(5, 6).reshape(4))
    assert operations(simplify((first + second) * first)).count("matmul") == 2


@needs("tflite")
@pytest.mark.parametrize("alike", [True, False])
def test_queries_and_keys_that_are_alike_go_through_one_hash(alike: bool) -> None:
    from scare.export.tflite import flatbuffer, run_flatbuffer, run_micro

    result = attention(alike)
    shorter = operations(simplify(result))
    assert (shorter.count("sign"), shorter.count(MEMBER)) == ((1, 2) if alike else (2, 0))
    windows = np.random.default_rng(4).normal(size=(1, 6, 4)).astype(np.float32)  # of the other test, first number
    content = flatbuffer(result, ("x", "y"))
    for run in (run_flatbuffer, run_micro):
        assert_allclose(run(content, windows), compute(result)[0], rtol=1e-5)


def hats(rows: int) -> np.ndarray:
    basis = HatBasis(rows)
    return hat_matrix(*basis.knot_shares, basis.size).astype(np.float32)


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
