"""A FlatBuffer as objects and as bytes, as few as hold it: a board keeps the file in flash.

What nothing reads is left out, with names, versions and notes of the converter. What is there twice is written once and
pointed to: shapes, lists of what operators read, constants, whole tensors of the same kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np

IDENTIFIER = b"TFL3"


def read_flatbuffer(content: bytes) -> Any:
    """A .tflite file as objects."""
    from tensorflow.lite.tools import flatbuffer_utils

    return flatbuffer_utils.read_model_from_bytearray(bytearray(content))


def write_flatbuffer(model: Any) -> bytes:
    """Objects as a .tflite file; they are stripped of what it does not need."""
    builder, written = _builder(), dict[Any, int]()
    for graph in model.subgraphs:
        _drop_unread(graph, model.signatureDefs if graph is model.subgraphs[0] else [])
        _strip(graph)
    model.metadata = model.description = None
    _drop_buffers(model)
    for graph in model.subgraphs:
        graph.tensors = [_Once(tensor, written) for tensor in graph.tensors]
        for operator in graph.operators:
            operator.builtinOptions = operator.builtinOptions and _Once(operator.builtinOptions, written)
    builder.Finish(model.Pack(builder), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def _drop_unread(graph: Any, signatures: Any) -> None:
    """Tensors that no operator knows; the others have new numbers then."""
    known = [*graph.inputs, *graph.outputs]
    for operator in graph.operators:
        known += [*operator.inputs, *operator.outputs]
    kept = sorted({int(index) for index in known} - {-1})
    numbers = {index: number for number, index in enumerate(kept)} | {-1: -1}
    graph.tensors = [graph.tensors[index] for index in kept]
    for owner in (graph, *graph.operators):
        owner.inputs, owner.outputs = (
            np.array([numbers[int(index)] for index in part], np.int32) for part in (owner.inputs, owner.outputs)
        )
    for signature in signatures:
        for named in (*signature.inputs, *signature.outputs):
            named.tensorIndex = numbers[named.tensorIndex]


def _strip(graph: Any) -> None:
    """Names but those of inputs and outputs, empty steps of integers, and that a shape is known."""
    for index, tensor in enumerate(graph.tensors):
        if index not in (*graph.inputs, *graph.outputs):
            tensor.name = None
        if tensor.quantization is not None and tensor.quantization.scale is None:
            tensor.quantization = None
        tensor.hasRank = not len(tensor.shape)


def _drop_buffers(model: Any) -> None:
    """What holds no numbers shares the first buffer, which is empty by the format's rule."""
    kept, places = [model.buffers[0]], dict[int, int]()
    for tensor in (tensor for graph in model.subgraphs for tensor in graph.tensors):
        buffer = model.buffers[tensor.buffer]
        if buffer.data is None or not len(buffer.data):
            tensor.buffer = 0
        else:
            if tensor.buffer not in places:
                places[tensor.buffer] = len(kept)
                kept.append(buffer)
            tensor.buffer = places[tensor.buffer]
    model.buffers = kept


def _builder() -> Any:
    """A builder that points to numbers that were written already."""
    from flatbuffers import Builder

    written: dict[tuple[str, bytes], int] = {}

    class SharingBuilder(Builder):
        def CreateNumpyVector(self, numbers: np.ndarray) -> int:
            key = numbers.dtype.str, numbers.tobytes()
            if key not in written:
                written[key] = super().CreateNumpyVector(numbers)
            return written[key]

    return SharingBuilder()


class _Once:
    """An object that is written if its like was not."""

    def __init__(self, thing: Any, written: dict[Any, int]) -> None:
        self._thing, self._written, self._key = thing, written, _key(thing)

    def Pack(self, builder: Any) -> int:
        """Where it is."""
        if self._key not in self._written:
            self._written[self._key] = self._thing.Pack(builder)
        return self._written[self._key]


def _key(thing: Any) -> Any:
    """All that an object says."""
    if isinstance(thing, np.ndarray):
        return thing.dtype.str, thing.tobytes()
    if hasattr(thing, "__dict__"):
        return type(thing), *((name, _key(value)) for name, value in vars(thing).items())
    return thing
