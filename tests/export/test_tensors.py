"""Every kernel written as tensor operations computes what its NumPy body computes, in ONNX Runtime and in LiteRT."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from scare.export.tflite import gptq_round
from scare.kernels import FLOAT_KERNELS, TENSOR_FORMS
from scare.kernels.tensor import Tensor, size, window
from tests.kernels.test_families import STUDIED
from tests.kernels.test_kernels import BATCH, EVERY_CALL, Call, as_float32
from tests.needs import needs

NAMES = ("x", "y")


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
def test_in_litert(name: str) -> None:
    from scare.export.tflite import flatbuffer, run_flatbuffer

    call = next(parameter.values[1] for parameter in EVERY_CALL if parameter.values[0] == name)
    result, flat = lowered(name, call)
    for at in {0, size(result) - 1}:
        content = flatbuffer(result.rows(at, at + 1), NAMES)
        assert_allclose(run_flatbuffer(content, flat), expected(name, call)[:, at], rtol=2e-5, atol=2e-5)


def test_rounding_makes_up_for_itself() -> None:
    """Inputs that go together hardly notice rounding that is fitted to them."""
    rng = np.random.default_rng(0)
    inputs = np.cumsum(rng.normal(size=(500, 120)), axis=1)
    weights = rng.normal(size=(3, 120)) * np.exp(-np.arange(120) / 30)
    scales = np.abs(weights).max(axis=1) / 127
    fitted, nearest = gptq_round(weights, scales, inputs), np.rint(weights / scales[:, None])
    errors = [np.std(inputs @ (steps * scales[:, None] - weights).T) for steps in (fitted, nearest)]
    assert errors[0] < errors[1] / 3
    assert np.abs(fitted - weights / scales[:, None]).max() < 8
