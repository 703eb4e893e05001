"""FlatBuffers hold nothing that is never read and nothing twice; int8 weights are rounded to suit their inputs."""

import numpy as np
import pytest

from scare.export.tflite import gptq_round
from scare.kernels.tensor import window
from tests.needs import needs

MATRIX = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def content() -> bytes:
    """Of a network that has a matrix twice, once as a constant of its own."""
    from scare.export.tflite import flatbuffer

    x = window(5, 4)
    return flatbuffer(((x @ MATRIX).apply("relu") @ MATRIX * MATRIX.T.copy().reshape(-1)[:4]).sum(0).sum(), ("x", "y"))


@needs("tflite")
def test_what_was_written_is_written_again(content: bytes) -> None:
    from scare.export.tflite import read_flatbuffer, write_flatbuffer

    assert write_flatbuffer(read_flatbuffer(content)) == content


@needs("tflite")
def test_the_same_numbers_are_there_once(content: bytes) -> None:
    assert content.count(MATRIX.T.tobytes()) == 1


@needs("tflite")
def test_nothing_is_there_that_nothing_reads(content: bytes) -> None:
    from scare.export.tflite import read_flatbuffer

    model = read_flatbuffer(content)
    graph = model.subgraphs[0]
    read = {int(index) for operator in graph.operators for index in (*operator.inputs, *operator.outputs)}
    assert read - {-1} == set(range(len(graph.tensors)))
    assert {tensor.buffer for tensor in graph.tensors} == set(range(len(model.buffers)))
    assert sum(tensor.name is not None for tensor in graph.tensors) == 2
    assert not model.metadata


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
