"""Tensor expressions: the graph that a plan becomes before it is written as TensorFlow Lite, ONNX or MicroPython.

Shapes are known and leave out the batch; constants have no batch. There are few operations, so that each format needs
only a short table. Input: the tensor forms of the kernels; output: what `export/tensor_graph.py` simplifies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from scare.kernels.contract import Shape

INPUT, CONSTANT = "input", "constant"
Number = float | np.ndarray
MakeTensor = Callable[..., "Tensor"]  # (*inputs, weights, settings): a kernel as tensor operations


@dataclass(frozen=True, eq=False)
class Tensor:
    """A node of the graph: an operation, the tensors it reads, and the shape of its result, without the batch.

    Operators and methods do not compute anything: they return a new node.
    """

    operation: str
    inputs: tuple[Tensor, ...]
    shape: Shape
    settings: Mapping[str, Any] = field(default_factory=dict)
    constant: np.ndarray | None = None

    def __add__(self, other: Tensor | Number) -> Tensor:
        return _pointwise("add", self, other)

    def __sub__(self, other: Tensor | Number) -> Tensor:
        return _pointwise("subtract", self, other)

    def __mul__(self, other: Tensor | Number) -> Tensor:
        return _pointwise("multiply", self, other)

    def __truediv__(self, other: Tensor | Number) -> Tensor:
        return _pointwise("divide", self, other)

    def __matmul__(self, other: Tensor | np.ndarray) -> Tensor:
        """Multiply matrices over the last two axes; leading axes (a batch, heads) are matched one by one."""
        other = as_tensor(other)
        return Tensor("matmul", (self, other), (*self.shape[:-1], other.shape[-1]))

    @property
    def transposed(self) -> Tensor:
        """Exchange the last two axes: by a reshape, which costs nothing at run time, if one of them has length 1."""
        *front, rows, columns = self.shape
        if 1 in (rows, columns):
            return self.reshape(*front, columns, rows)
        return self.permute(*range(len(front)), len(front) + 1, len(front))

    def reshape(self, *shape: int) -> Tensor:
        """Read the same numbers in another shape."""
        return self if shape == self.shape else Tensor("reshape", (self,), shape)

    def permute(self, *axes: int) -> Tensor:
        """Reorder the axes."""
        return Tensor("permute", (self,), tuple(self.shape[axis] for axis in axes), {"axes": axes})

    def rows(self, start: int, stop: int, axis: int = 0) -> Tensor:
        """Slice from `start` to before `stop`, along the first axis unless another is given."""
        if (start, stop) == (0, self.shape[axis]):
            return self
        shape = (*self.shape[:axis], stop - start, *self.shape[axis + 1 :])
        return Tensor("slice", (self,), shape, {"start": start, "stop": stop, "axis": axis})

    def take(self, rows: np.ndarray) -> Tensor:
        """Gather rows of the first axis by index [n]."""
        return Tensor("gather", (self,), (len(rows), *self.shape[1:]), {"rows": rows.astype(np.int32)})

    def sum(self, axis: int = -1) -> Tensor:
        """Sum along an axis, which stays with length 1."""
        axis %= len(self.shape)
        return Tensor("sum", (self,), (*self.shape[:axis], 1, *self.shape[axis + 1 :]), {"axis": axis})

    def mean(self, axis: int = -1) -> Tensor:
        """Return the mean along an axis, which stays with length 1."""
        return self.sum(axis) * (1 / self.shape[axis])

    def apply(self, function: str) -> Tensor:
        """Apply exp, log, tanh, sigmoid, inverse_root, relu, abs or sign (sign(0) = 1); softmax over the last axis."""
        return Tensor(function, (self,), self.shape)

    def at_least(self, other: Tensor | Number) -> Tensor:
        """Compare elementwise: true where self >= other."""
        return _pointwise("at_least", self, other)

    def choose(self, true: Tensor | Number, false: Tensor | Number) -> Tensor:
        """Select elementwise: `true` where this tensor, a comparison, holds, else `false`."""
        parts = (self, as_tensor(true), as_tensor(false))
        return Tensor("choose", parts, np.broadcast_shapes(*(part.shape for part in parts)))

    def maximum(self, other: Tensor | Number) -> Tensor:
        """Take the elementwise maximum."""
        return _pointwise("maximum", self, other)

    def minimum(self, other: Tensor | Number) -> Tensor:
        """Take the elementwise minimum."""
        return _pointwise("minimum", self, other)

    def later_sum(self) -> Tensor:
        """Sum the later rows for each row of the first axis: a reverse cumulative sum without the row itself."""
        return Tensor("later_sum", (self,), self.shape)

    def after_zeros(self, rows: int) -> Tensor:
        """Prepend rows of zeros."""
        return Tensor("after_zeros", (self,), (rows + self.shape[0], *self.shape[1:]), {"rows": rows})


def window(rows: int, channels: int) -> Tensor:
    """Make the input of a graph, [rows, channels]."""
    return Tensor(INPUT, (), (rows, channels))


def as_tensor(value: Tensor | Number) -> Tensor:
    """Turn numbers into a float32 constant; return a tensor as it is."""
    if isinstance(value, Tensor):
        return value
    constant = np.asarray(value, np.float32)
    return Tensor(CONSTANT, (), constant.shape, {}, constant)


def concatenate(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join tensors along an axis."""
    if len(parts) == 1:
        return parts[0]
    length = sum(part.shape[axis] for part in parts)
    first = parts[0].shape
    return Tensor("concatenate", tuple(parts), (*first[:axis], length, *first[axis + 1 :]), {"axis": axis})


def in_order(result: Tensor) -> list[Tensor]:
    """Sort a tensor and everything it depends on topologically; the tensor itself is last."""
    ordered: dict[int, Tensor] = {}
    pending = [(result, False)]  # tensors, and whether their inputs are in `ordered` by now
    while pending:
        tensor, ready = pending.pop()
        if id(tensor) in ordered:
            continue
        if ready:
            ordered[id(tensor)] = tensor
        else:
            pending.append((tensor, True))
            pending += [(part, False) for part in reversed(tensor.inputs)]
    return list(ordered.values())


def size(tensor: Tensor) -> int:
    """Return the number of elements."""
    return prod(tensor.shape)


def _pointwise(operation: str, a: Tensor, b: Tensor | Number) -> Tensor:
    """Make the node of an elementwise operation with NumPy's broadcasting."""
    b = as_tensor(b)
    return Tensor(operation, (a, b), np.broadcast_shapes(a.shape, b.shape))
