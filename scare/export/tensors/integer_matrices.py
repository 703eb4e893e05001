"""Matrices of a FlatBuffer in integers: int8 weights, int16 in and out, the rest as it was in float32.

TensorFlow's converter makes all of a graph integer or none of it. All of it is no use here: a window of a sensor has
more than the 256 steps of int8, and in int16 TFLite-Micro lacks some operators and others lose the result. So every
matrix is tried, the largest first, and stays integer if the file is smaller with it and the result does not suffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scare.export.tensors.flatbuffer import run_flatbuffer, values_of
from scare.export.tensors.flatbuffer_bytes import read_flatbuffer, write_flatbuffer

INT8, INT16 = 127, 32767
DAMPING = 0.01  # of the mean square of the inputs, so that what the examples do not show stays as it was


@dataclass(frozen=True)
class FlatBuffer:
    """The content of a file, how many weights its matrices have, how many are int8, and its bytes without these."""

    content: bytes
    weights: int = 0
    integer_weights: int = 0
    float32_bytes: int = 0


def with_integer_matrices(content: bytes, examples: np.ndarray, limit: float) -> FlatBuffer:
    """As many matrices in integers as make the file smaller and leave results within `limit` of what they were.

    Results are those of these windows [n, window, channels], `limit` is in their unit.
    """
    matrices = _Matrices(content, examples)
    results = run_flatbuffer(content, examples)
    chosen, smallest = list[int](), content
    for index in matrices.largest_first:
        tried = matrices.rewritten([*chosen, index])
        if len(tried) < len(smallest) and np.allclose(run_flatbuffer(tried, examples), results, rtol=0.0, atol=limit):
            chosen, smallest = [*chosen, index], tried
    integer = sum(matrices.sizes[index] for index in chosen)
    return FlatBuffer(smallest, sum(matrices.sizes.values()), integer, len(content))


def fitted_rounding(weights: np.ndarray, scales: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """Weights [O, I] in int8 steps of `scales` [O] such that the products with these inputs [n, I] change least.

    One weight after the other is rounded, and what that changes is made up for by those not rounded yet, as far as
    the inputs go together (Frantar et al. 2023, GPTQ).

    >>> alike = np.ones((4, 3)) * [[1.0], [2.0], [-1.0], [0.5]]
    >>> int(fitted_rounding(np.array([[0.4, 0.4, 0.4]]), np.array([1.0]), alike).sum())
    1
    """
    together = inputs.T.astype(np.float64) @ inputs / len(inputs)
    together += DAMPING * max(float(np.trace(together)) / len(together), 1e-12) * np.eye(len(together))
    passing_on = np.linalg.cholesky(np.linalg.inv(together)).T
    left = weights.astype(np.float64) / scales[:, None]
    rounded = np.empty(weights.shape, np.int8)
    for at in range(weights.shape[1]):
        rounded[:, at] = np.clip(np.rint(left[:, at]), -INT8, INT8)
        error = (left[:, at] - rounded[:, at]) / passing_on[at, at]
        left[:, at:] -= error[:, None] * passing_on[at, at:]
    return rounded


class _Matrices:
    """The matrices of a FlatBuffer, by the number of their operator, and the values around them on the examples."""

    def __init__(self, content: bytes, examples: np.ndarray) -> None:
        from tensorflow.lite.python import schema_py_generated as schema

        self.content, self.schema = content, schema
        model = read_flatbuffer(content)
        kind, limited = schema.BuiltinOperator.FULLY_CONNECTED, schema.ActivationFunctionType.RELU_N1_TO_1
        self.weights: dict[int, np.ndarray] = {}
        self._signs, around = set[int](), set[int]()
        for index, operator in enumerate(model.subgraphs[0].operators):
            if model.operatorCodes[operator.opcodeIndex].builtinCode == kind:
                weights = _floats(model, operator.inputs[1])
                if weights is not None:
                    self.weights[index] = weights
                    around |= {int(operator.inputs[0]), int(operator.outputs[0])}
                    self._signs |= {index} if operator.builtinOptions.fusedActivationFunction == limited else set()
        self.sizes = {index: weights.size for index, weights in self.weights.items()}
        self.values = values_of(content, examples, around)
        self._steps: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def largest_first(self) -> list[int]:
        """Those that may be integer: what gives signs, by numbers beyond any steps, may not."""
        return sorted(self.sizes.keys() - self._signs, key=lambda index: (-self.sizes[index], index))

    def rewritten(self, chosen: Sequence[int]) -> bytes:
        """The FlatBuffer with these matrices in integers."""
        model = read_flatbuffer(self.content)
        graph, replaced = _Graph(model, self.schema), []
        for index, operator in enumerate(graph.graph.operators):
            replaced += self._in_integers(graph, index, operator) if index in chosen else [operator]
        graph.graph.operators = replaced
        return write_flatbuffer(model)

    def steps(self, index: int, source: int) -> tuple[np.ndarray, np.ndarray]:
        """The scale of each row of a matrix, and its weights in such steps."""
        if index not in self._steps:
            weights = self.weights[index]
            scales = np.maximum(np.abs(weights).max(axis=1), 1e-12) / INT8
            self._steps[index] = scales, fitted_rounding(weights, scales, self.values[source])
        return self._steps[index]

    def _in_integers(self, graph: _Graph, index: int, operator: Any) -> list[Any]:
        """int16, the matrix, float32 again."""
        kinds, builtin = self.schema.TensorType, self.schema.BuiltinOperator
        source, weights, *rest = (int(one) for one in operator.inputs)
        (result,) = (int(one) for one in operator.outputs)
        scales, steps = self.steps(index, source)
        unit_in, unit_out = (max(float(np.abs(self.values[one]).max()), 1e-6) / INT16 for one in (source, result))
        inner = graph.tensor(source, kinds.INT16, [unit_in])
        outer = graph.tensor(result, kinds.INT16, [unit_out])
        read = [inner, graph.tensor(weights, kinds.INT8, scales, steps)]
        bias = _floats(graph.model, rest[0]) if rest and rest[0] >= 0 else None
        if bias is not None:
            units = scales * unit_in
            read.append(graph.tensor(rest[0], kinds.INT64, units, np.rint(bias / units).astype(np.int64)))
        first = graph.operator(builtin.QUANTIZE, [source], [inner])
        last = graph.operator(builtin.DEQUANTIZE, [outer], [result])
        operator.inputs, operator.outputs = np.array(read, np.int32), np.array([outer], np.int32)
        return [first, operator, last]


class _Graph:
    """A FlatBuffer's object form, to which tensors and operators are added."""

    def __init__(self, model: Any, schema: Any) -> None:
        self.model, self.graph, self.schema = model, model.subgraphs[0], schema

    def tensor(self, like: int, kind: int, scales: Any, numbers: np.ndarray | None = None) -> int:
        """A new tensor of the shape of another, in steps of these scales; its number."""
        tensor, buffer, steps = self.schema.TensorT(), self.schema.BufferT(), self.schema.QuantizationParametersT()
        steps.scale = np.asarray(scales, np.float32)
        steps.zeroPoint = np.zeros(len(steps.scale), np.int64)
        tensor.shape, tensor.type, tensor.quantization = self.graph.tensors[like].shape, kind, steps
        if numbers is not None:
            buffer.data = np.frombuffer(numbers.tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        tensor.buffer = len(self.model.buffers) - 1
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def operator(self, builtin: int, inputs: list[int], outputs: list[int]) -> Any:
        """A new operator without options."""
        operator = self.schema.OperatorT()
        operator.opcodeIndex = self._code(builtin)
        operator.inputs, operator.outputs = np.array(inputs, np.int32), np.array(outputs, np.int32)
        return operator

    def _code(self, builtin: int) -> int:
        """The number of an operator's code, entered once."""
        for index, code in enumerate(self.model.operatorCodes):
            if code.builtinCode == builtin:
                return index
        code = self.schema.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, builtin, 1
        self.model.operatorCodes.append(code)
        return len(self.model.operatorCodes) - 1


def _floats(model: Any, index: int) -> np.ndarray | None:
    """The numbers of a constant; None of what is computed."""
    tensor = model.subgraphs[0].tensors[index]
    data = model.buffers[tensor.buffer].data
    if data is None or not len(data):
        return None
    return np.frombuffer(np.asarray(data, np.uint8).tobytes(), np.float32).reshape(tensor.shape)
