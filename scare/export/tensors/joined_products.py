"""A sum of products is one product: x A + y B = [x y] [A; B]."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scare.kernels.tensor import Tensor, concatenate


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
