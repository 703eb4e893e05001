"""A graph that was shortened gives the same numbers with fewer operations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from scare.export.tensor_graph import MEMBER, simplify
from scare.kernels import TENSOR_FORMS
from scare.kernels.linear import tensor_mix_features
from scare.kernels.tensor import Tensor, in_order, window
from tests.export.test_python_source import compute
from tests.needs import needs

DRAW = np.random.default_rng(6)
x = window(6, 4)


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
