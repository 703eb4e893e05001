"""A tensor is an operation on tensors: what a plan becomes before it is printed in a format that others run.

Shapes are known and leave out the batch. Constants have none. Operations are few, so that a format is a short table.
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


@dataclass(frozen=True, eq=False)
class Tensor:
    """One operation, the tensors it reads, and the shape of what it gives."""

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
        """Rows of the last axis times a matrix, or, for two tensors with a batch or heads in front, of each."""
        other = as_tensor(other)
        return Tensor("matmul", (self, other), (*self.shape[:-1], other.shape[-1]))

    @property
    def transposed(self) -> Tensor:
        """The last two axes exchanged; for nothing where one of them has a single row."""
        *front, rows, columns = self.shape
        if 1 in (rows, columns):
            return self.reshape(*front, columns, rows)
        return self.permute(*range(len(front)), len(front) + 1, len(front))

    def reshape(self, *shape: int) -> Tensor:
        """The same numbers in another shape."""
        return self if shape == self.shape else Tensor("reshape", (self,), shape)

    def permute(self, *axes: int) -> Tensor:
        """The axes in another order."""
        return Tensor("permute", (self,), tuple(self.shape[axis] for axis in axes), {"axes": axes})

    def rows(self, start: int, stop: int, axis: int = 0) -> Tensor:
        """A part along an axis."""
        if (start, stop) == (0, self.shape[axis]):
            return self
        shape = (*self.shape[:axis], stop - start, *self.shape[axis + 1 :])
        return Tensor("slice", (self,), shape, {"start": start, "stop": stop, "axis": axis})

    def take(self, rows: np.ndarray) -> Tensor:
        """Rows of the first axis by number, [n]."""
        return Tensor("gather", (self,), (len(rows), *self.shape[1:]), {"rows": rows.astype(np.int32)})

    def sum(self, axis: int = -1) -> Tensor:
        """The sum along an axis, which stays with length 1."""
        axis %= len(self.shape)
        return Tensor("sum", (self,), (*self.shape[:axis], 1, *self.shape[axis + 1 :]), {"axis": axis})

    def mean(self, axis: int = -1) -> Tensor:
        """The mean along an axis, which stays with length 1."""
        return self.sum(axis) * (1 / self.shape[axis])

    def apply(self, function: str) -> Tensor:
        """exp, log, tanh, sigmoid, inverse_root, relu, abs or sign (1 of 0) of each number; softmax of a last axis."""
        return Tensor(function, (self,), self.shape)

    def at_least(self, other: Tensor | Number) -> Tensor:
        """Where it is as large."""
        return _pointwise("at_least", self, other)

    def choose(self, true: Tensor | Number, false: Tensor | Number) -> Tensor:
        """The first where this is true, else the second."""
        parts = (self, as_tensor(true), as_tensor(false))
        return Tensor("choose", parts, np.broadcast_shapes(*(part.shape for part in parts)))

    def largest(self, other: Tensor | Number) -> Tensor:
        """The larger of two numbers."""
        return _pointwise("maximum", self, other)

    def least(self, other: Tensor | Number) -> Tensor:
        """The smaller of two numbers."""
        return _pointwise("minimum", self, other)

    def later_sum(self) -> Tensor:
        """For each row of the first axis the sum of all rows after it."""
        return Tensor("later_sum", (self,), self.shape)

    def after_zeros(self, rows: int) -> Tensor:
        """With so many rows of zeros before the first."""
        return Tensor("after_zeros", (self,), (rows + self.shape[0], *self.shape[1:]), {"rows": rows})


def window(rows: int, channels: int) -> Tensor:
    """What the graph reads."""
    return Tensor(INPUT, (), (rows, channels))


def as_tensor(value: Tensor | Number) -> Tensor:
    """The value, a number made a constant."""
    if isinstance(value, Tensor):
        return value
    constant = np.asarray(value, np.float32)
    return Tensor(CONSTANT, (), constant.shape, {}, constant)


def concatenate(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors one after the other along an axis."""
    if len(parts) == 1:
        return parts[0]
    length = sum(part.shape[axis] for part in parts)
    first = parts[0].shape
    return Tensor("concatenate", tuple(parts), (*first[:axis], length, *first[axis + 1 :]), {"axis": axis})


def in_order(result: Tensor) -> list[Tensor]:
    """All that a tensor needs, each after what it reads; itself last."""
    ordered: dict[int, Tensor] = {}
    pending = [(result, False)]
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
    """How many numbers it holds."""
    return prod(tensor.shape)


MakeTensor = Callable[..., Tensor]  # of inputs, weights and settings: a kernel as tensor operations


def _pointwise(operation: str, a: Tensor, b: Tensor | Number) -> Tensor:
    b = as_tensor(b)
    return Tensor(operation, (a, b), np.broadcast_shapes(a.shape, b.shape))
