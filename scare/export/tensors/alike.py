"""Tensors computed alike, with other constants, as one: queries and keys go through the same hash.

For a format in which every operator has its price: the chain is there once, on an axis in front for its members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scare.kernels import Shape
from scare.kernels.tensor import CONSTANT, Tensor

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
