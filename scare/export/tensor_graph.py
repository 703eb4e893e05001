"""Lowering writes a plan as tensor operations, kernel by kernel (`export/kernels/<family>/tensors.py`).

A test holds every kernel to its NumPy body. Hash codes are signs here, ±1 for each bit: formats without words of bits
compute with them as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from scare.calibrator.plan import INPUT, Plan
from scare.kernels import TENSOR_FORMS, Shape
from scare.kernels.tensor import CONSTANT, Tensor, concatenate, window


def lower(plan: Plan, scale: float = 1.0, center: float = 0.0) -> Tensor:
    """What the plan gives for a scaled window, times `scale` plus `center`, as a tensor [1].

    Where the plan chooses a branch, both are computed and every window chooses for itself.
    """
    held = {INPUT: window(plan.window, plan.channels)}
    for step in plan.steps:
        inputs = [held[name] for name in step.inputs]
        held[step.output] = TENSOR_FORMS[step.kernel](*inputs, step.weights, step.settings)
    return held[plan.steps[-1].output] * scale + center


# Tensors computed alike, with other constants, as one: queries and keys go through the same hash.
#
# For a format in which every operator has its price: the chain is there once, on an axis in front for its members.


MEMBER = "member"  # one of those along the first axis
EACH = {  # operations that are the same with an axis in front
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "at_least", "choose"),
    *("exp", "log", "tanh", "sigmoid", "inverse_root", "relu", "abs", "sign", "softmax", "matmul", "sum", "reshape"),
}


def batch_alike(product: Tensor) -> Tensor:
    """The tensor, or, if it is a product a bᵀ of two that are alike, the same from one chain of both."""
    if product.operation != "matmul" or product.inputs[1].operation != "permute":
        return product
    first, turned = product.inputs
    both = _Batch().of((first, turned.inputs[0]))
    if both is None or both.shape != (2, *first.shape):
        return product
    one, other = (Tensor(MEMBER, (both,), first.shape, {"at": at}) for at in (0, 1))
    return replace(product, inputs=(one, replace(turned, inputs=(other,))))


class _Batch:
    """Chains of tensors as one: what has been met before is the same tensor."""

    def __init__(self) -> None:
        self._met: dict[tuple[int, ...], Tensor | None] = {}

    def of(self, parts: Sequence[Tensor]) -> Tensor | None:
        """Tensors with an axis in front for them, or the one that they all are; None of what is not alike."""
        key = tuple(map(id, parts))
        if key not in self._met:
            self._met[key] = self._made(parts)
        return self._met[key]

    def _made(self, parts: Sequence[Tensor]) -> Tensor | None:
        first = parts[0]
        if all(part is first for part in parts):
            return first
        if len({(part.operation, part.shape, repr(part.settings)) for part in parts}) > 1:
            return None
        if first.operation == CONSTANT:
            return _stacked([np.asarray(part.constant) for part in parts])
        inputs = [self.of(column) for column in zip(*(part.inputs for part in parts), strict=True)]
        known = [one for one in inputs if one is not None]
        if len(known) < len(inputs) or first.operation not in EACH:
            return None
        if all(one.shape == part.shape for one, part in zip(known, first.inputs, strict=True)):
            return first
        shape = (len(parts), *first.shape)
        aligned = [_aligned(one, part, shape) for one, part in zip(known, first.inputs, strict=True)]
        return Tensor(first.operation, tuple(aligned), shape, _behind(first.settings))


def _stacked(numbers: Sequence[np.ndarray]) -> Tensor:
    """Constants, or the one that they all are."""
    same = all(np.array_equal(one, numbers[0]) for one in numbers)
    constant = numbers[0] if same else np.stack(numbers)
    return Tensor(CONSTANT, (), constant.shape, {}, constant)


def _behind(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The axis is one further."""
    return {**settings, "axis": settings["axis"] + 1} if "axis" in settings else settings


def _aligned(batched: Tensor, own: Tensor, shape: Shape) -> Tensor:
    """With axes of one row behind the first, as many as a broadcast to this shape lacks."""
    missing = len(shape) - len(batched.shape)
    if batched.shape == own.shape or not missing:
        return batched
    aligned = (batched.shape[0], *[1] * missing, *own.shape)
    if batched.constant is None:
        return batched.reshape(*aligned)
    return replace(batched, shape=aligned, constant=batched.constant.reshape(aligned))


# Places in flat arrays as sums of loop variables: what `python_module` prints between brackets.


Index = dict[str, int]  # a sum: how often each variable is in it, and "" for the number


def address(places: Sequence[Index], shape: Shape) -> Index:
    """Where the number at these places is in a flat array of this shape."""
    total: Index = {}
    stride = prod(shape)
    for place, length in zip(places, shape, strict=True):
        stride //= length
        for name, times in place.items():
            total[name] = total.get(name, 0) + times * stride
    return total


def broadcast(places: Sequence[Index], shape: Shape) -> list[Index]:
    """The places in an operand of this shape: its axes are the last ones, those of length 1 stand still."""
    last = places[len(places) - len(shape) :]
    return [place if length > 1 else {} for place, length in zip(last, shape, strict=True)]


def moved(place: Index, number: int) -> Index:
    """The place so many numbers further."""
    return {**place, "": place.get("", 0) + number}


def index_text(index: Index) -> str:
    """As Python.

    >>> index_text({"i": 8, "": -3, "j": 1}), index_text({})
    ('8 * i + j - 3', '0')
    """
    number = index.get("", 0)
    terms = [name if times == 1 else f"{times} * {name}" for name, times in index.items() if name and times]
    if not terms:
        return str(number)
    end = f" {'+' if number > 0 else '-'} {abs(number)}" if number else ""
    return " + ".join(terms) + end


def split_axes(shape: Shape, source: Shape) -> list[slice] | None:
    """For each axis of the source the axes of `shape` that it is split into, which may be none; None: some are joined.

    >>> split_axes((5, 2, 3), (5, 6)), split_axes((30,), (5, 6))
    ([slice(0, 1, None), slice(1, 3, None)], None)
    """
    parts, at = [], 0
    for length in source:
        start, product = at, 1
        while product < length and at < len(shape):
            product *= shape[at]
            at += 1
        if product != length:
            return None
        parts.append(slice(start, at))
    return parts


# A sum of products is one product: x A + y B = [x y] [A; B].


def join_products(total: Tensor) -> Tensor:
    """The tensor, or, if it is the sum of two products with constant matrices, the same as one product."""
    if total.operation != "add" or total.inputs[0].shape != total.inputs[1].shape:
        return total
    first, second = map(_product, total.inputs)
    if first is None or second is None:
        return total
    rows = concatenate([*first.parts, *second.parts], axis=1)
    product = rows @ np.concatenate([first.matrix, second.matrix])
    return (product + (first.bias + second.bias)).reshape(*total.shape)


@dataclass(frozen=True)
class _Product:
    """Rows [n, I] times a constant matrix [I, O], plus a constant."""

    rows: Tensor
    matrix: np.ndarray
    bias: np.ndarray | float = 0.0

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """What the rows were joined from, side by side."""
        beside = self.rows.operation == "concatenate" and self.rows.settings["axis"] == 1
        return self.rows.inputs if beside else (self.rows,)


def _product(tensor: Tensor) -> _Product | None:
    if tensor.operation == "reshape" and tensor.inputs[0].shape == (1, *tensor.shape):
        return _product(tensor.inputs[0])
    if tensor.operation == "add" and tensor.inputs[1].constant is not None:
        inner = _product(tensor.inputs[0])
        return inner and replace(inner, bias=inner.bias + tensor.inputs[1].constant)
    if tensor.operation == "matmul" and tensor.inputs[1].constant is not None and len(tensor.shape) == 2:
        return _Product(tensor.inputs[0], tensor.inputs[1].constant)
    return None


# A matrix as sums over spans of rows: hats and bins without their zeros.
#
# Each column of such a matrix has its numbers in rows that follow each other. Columns that have no row in common
# share a layer, so that bins need one number a row and hats, of which two overlap, two. A column's product is then a
# difference of two cumulative sums, taken where its span starts and where it has ended.


SAVED = 512  # numbers that spans must save, to be worth their operators


@dataclass(frozen=True)
class Spans:
    """Numbers by layer [layers, rows]; for each column where its span starts and has ended, layer after layer.

    A span that reaches the last row has ended after all layers. Where two layers share each row, the second has what
    the first leaves.
    """

    layers: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    shared: bool


def spans_of(matrix: np.ndarray | None) -> Spans | None:
    """The spans of a matrix [rows, columns]; None if it has no such form, or saves too little by it.

    >>> hats = np.repeat(np.eye(40), 9, axis=0) / 2
    >>> hats[:, 1:] += hats[:, :-1]
    >>> spans = spans_of(hats)
    >>> spans.shared, spans.layers.shape, spans.starts[:3].tolist(), spans.ends[:3].tolist(), spans.ends[-1].item()
    (False, (2, 360), [0, 360, 9], [9, 378, 27], 720)
    """
    if matrix is None or matrix.ndim != 2 or not matrix.any(axis=0).all():
        return None
    held, (rows, columns) = matrix != 0, matrix.shape
    count = int(held.sum(axis=1).max())
    if rows * (columns - count) < SAVED:
        return None
    start, end, layer = held.argmax(axis=0), rows - held[::-1].argmax(axis=0), np.arange(columns) % count
    layers, owners = np.zeros((count, rows), matrix.dtype), np.zeros((count, rows), int)
    for column in range(columns):
        span = layer[column], slice(start[column], end[column])
        layers[span] = matrix[span[1], column]
        owners[span] += 1
    if owners.max() > 1:
        return None
    ends = np.where(end == rows, count * rows, layer * rows + end)
    shared = count == 2 and np.allclose(layers.sum(axis=0), 1.0, rtol=0.0, atol=1e-6)
    stored = layers[:1] if shared else layers
    return Spans(stored, (layer * rows + start).astype(np.int32), ends.astype(np.int32), shared)
