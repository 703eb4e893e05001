"""A FlatBuffer is written without what nothing reads, and with nothing twice."""

import numpy as np
import pytest

from scare.kernels.tensor import window
from tests.needs import needs

pytestmark = needs("tflite")
MATRIX = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def content() -> bytes:
    """Of a network that has a matrix twice, once as a constant of its own."""
    from scare.export.tflite import flatbuffer

    x = window(5, 4)
    return flatbuffer(((x @ MATRIX).apply("relu") @ MATRIX * MATRIX.T.copy().reshape(-1)[:4]).sum(0).sum(), ("x", "y"))


def test_what_was_written_is_written_again(content: bytes) -> None:
    from scare.export.tflite import read_flatbuffer, write_flatbuffer

    assert write_flatbuffer(read_flatbuffer(content)) == content


def test_the_same_numbers_are_there_once(content: bytes) -> None:
    assert content.count(MATRIX.T.tobytes()) == 1


def test_nothing_is_there_that_nothing_reads(content: bytes) -> None:
    from scare.export.tflite import read_flatbuffer

    model = read_flatbuffer(content)
    graph = model.subgraphs[0]
    read = {int(index) for operator in graph.operators for index in (*operator.inputs, *operator.outputs)}
    assert read - {-1} == set(range(len(graph.tensors)))
    assert {tensor.buffer for tensor in graph.tensors} == set(range(len(model.buffers)))
    assert sum(tensor.name is not None for tensor in graph.tensors) == 2
    assert not model.metadata
