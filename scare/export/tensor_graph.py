"""Tensor graph: a plan as tensor operations, and passes that make the graph smaller for a FlatBuffer.

    Plan -> lower_to_tensors (kernel by kernel) -> Tensor -> tflite.py, onnx.py, micropython_source.py

Hash codes are signs here, ±1 for each bit, because the formats have no bit operations.

Passes for TFLite, where every operator takes memory:
- `join_products`: x A + y B = [x y] [A; B];
- `batch_alike`: chains that differ only in constants are computed at once with a batch axis in front (queries and keys
  go through the same hash);
- `find_spans`: products with a matrix of hats or bins as differences of cumulative sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import INPUT, Plan
from scare.kernels import TENSOR_FORMS, Shape
from scare.kernels.tensor import CONSTANT, Tensor, concatenate, in_order, window

MEMBER = "member"  # operation: one element along the first axis
BATCHABLE = {  # operations that may get a batch axis in front
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "at_least", "choose"),
    *("exp", "log", "tanh", "sigmoid", "inverse_root", "relu", "abs", "sign", "softmax", "matmul", "sum", "reshape"),
}
SAVED = 512  # constants that spans must save at least, to be worth their operators


def lower_to_tensors(plan: Plan, scale: float = 1.0, center: float = 0.0) -> Tensor:
    """Lower a plan to a tensor graph: scaled window in, result [1] times `scale` plus `center` out.

    If the plan has branches, both are computed and every window chooses by itself.
    """
    values = {INPUT: window(plan.window, plan.channels)}
    for step in plan.steps:
        inputs = [values[name] for name in step.inputs]
        values[step.output] = TENSOR_FORMS[step.kernel](*inputs, step.weights, step.settings)
    return values[plan.steps[-1].output] * scale + center


def calibrator_graph(calibrator: Calibrator) -> Tensor:
    """Lower a calibrator: scaled window in, value in the target's unit out [1]."""
    target = calibrator.inputs.scaling.target
    return lower_to_tensors(calibrator.plan, float(target.scale[0]), float(target.center[0]))


def simplify(result: Tensor) -> Tensor:
    """Apply `join_products` and `batch_alike` wherever they shorten the graph; the result stays the same."""
    ordered = in_order(result)
    reader_counts = Counter(id(operand) for tensor in ordered for operand in tensor.inputs)
    rewritten: dict[int, Tensor] = {}  # by the id of the original
    for tensor in ordered:
        rebuilt = replace(tensor, inputs=tuple(rewritten[id(operand)] for operand in tensor.inputs))
        if all(reader_counts[id(operand)] == 1 for operand in tensor.inputs):  # else a product would be computed twice
            rebuilt = join_products(rebuilt)
        rewritten[id(tensor)] = batch_alike(rebuilt)
    return rewritten[id(result)]


def join_products(total: Tensor) -> Tensor:
    """Rewrite a sum of two products with constant matrices as one product; other tensors stay as they are."""
    if total.operation != "add" or total.inputs[0].shape != total.inputs[1].shape:
        return total
    first, second = map(_match_product, total.inputs)
    if first is None or second is None:
        return total
    # [n, I] @ [I, O] + [n, J] @ [J, O] becomes [n, I + J] @ [I + J, O].
    rows = concatenate([*first.parts, *second.parts], axis=1)
    product = rows @ np.concatenate([first.matrix, second.matrix])
    return (product + (first.bias + second.bias)).reshape(*total.shape)


def batch_alike(product: Tensor) -> Tensor:
    """Rewrite a product a bᵀ so that a and b are computed as one batch; other tensors stay as they are.

    It needs an a and a b that are computed alike, but for constants.
    """
    if product.operation != "matmul" or product.inputs[1].operation != "permute":
        return product
    a, transposed = product.inputs
    batch = _Batch().combine((a, transposed.inputs[0]))
    if batch is None or batch.shape != (2, *a.shape):
        return product
    batched_a, batched_b = (Tensor(MEMBER, (batch,), a.shape, {"at": index}) for index in (0, 1))
    return replace(product, inputs=(batched_a, replace(transposed, inputs=(batched_b,))))


@dataclass(frozen=True)
class Spans:
    """A matrix whose columns are nonzero in consecutive rows only (their span), stored as layers [layers, rows].

    A layer holds columns whose spans do not overlap: bins need one layer; hats, of which two overlap, need two. The
    product with a column is the difference of two cumulative sums, at the start and at the end of its span. `starts`
    and `ends` are positions in the layers joined end to end. `shared`: two layers sum to 1 in each row, so only the
    first is stored.
    """

    layers: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    shared: bool


def find_spans(matrix: np.ndarray | None) -> Spans | None:
    """Find the span of each column of a matrix: the consecutive rows in which it is not zero.

    None if they do not fit into layers without overlap (see `Spans`), or if this saves too little.

    >>> hats = np.repeat(np.eye(40), 9, axis=0) / 2
    >>> hats[:, 1:] += hats[:, :-1]
    >>> spans = find_spans(hats)
    >>> spans.shared, spans.layers.shape, spans.starts[:3].tolist(), spans.ends[:3].tolist(), spans.ends[-1].item()
    (False, (2, 360), [0, 360, 9], [9, 378, 27], 720)
    """
    if matrix is None or matrix.ndim != 2 or not matrix.any(axis=0).all():
        return None
    nonzero, (rows, columns) = matrix != 0, matrix.shape
    count = int(nonzero.sum(axis=1).max())  # layers: as many as columns that are nonzero in one row
    if rows * (columns - count) < SAVED:
        return None
    # First nonzero row of each column, and the row after its last one [columns].
    first_row = nonzero.argmax(axis=0)
    end_row = rows - nonzero[::-1].argmax(axis=0)
    layer = np.arange(columns) % count  # columns take turns, so neighbours, which may overlap, are in other layers
    layers, spans_over = np.zeros((count, rows), matrix.dtype), np.zeros((count, rows), int)
    for column in range(columns):
        span = slice(first_row[column], end_row[column])
        layers[layer[column], span] = matrix[span, column]
        spans_over[layer[column], span] += 1
    if spans_over.max() > 1:  # two columns of a layer overlap
        return None
    starts = layer * rows + first_row
    # A span that ends with its layer ends in the zero that follows the sums of all layers.
    ends = np.where(end_row == rows, count * rows, layer * rows + end_row)
    shared = count == 2 and np.allclose(layers.sum(axis=0), 1.0, rtol=0.0, atol=1e-6)
    stored = layers[:1] if shared else layers
    return Spans(stored, starts.astype(np.int32), ends.astype(np.int32), shared)


class _Batch:
    """Combines chains of tensors that are computed alike into one with a batch axis in front.

    Results are cached, so that parts which several chains share are also combined only once.
    """

    def __init__(self) -> None:
        self._combined: dict[tuple[int, ...], Tensor | None] = {}  # by the ids of the tensors

    def combine(self, parts: Sequence[Tensor]) -> Tensor | None:
        """Combine along a new first axis; if all are the same tensor, return it; None if they cannot be combined."""
        key = tuple(map(id, parts))
        if key not in self._combined:
            self._combined[key] = self._combine(parts)
        return self._combined[key]

    def _combine(self, parts: Sequence[Tensor]) -> Tensor | None:
        """Do what `combine` does, without its cache: combine the inputs, then give the operation a batch axis."""
        first = parts[0]
        if all(part is first for part in parts):
            return first
        if len({(part.operation, part.shape, repr(part.settings)) for part in parts}) > 1:
            return None
        if first.operation == CONSTANT:
            return _stack_constants([np.asarray(part.constant) for part in parts])
        # The first inputs of all parts are combined, then the second inputs, and so on.
        inputs = [self.combine(alike) for alike in zip(*(part.inputs for part in parts), strict=True)]
        batched = [tensor for tensor in inputs if tensor is not None]
        if len(batched) < len(inputs) or first.operation not in BATCHABLE:
            return None
        pairs = list(zip(batched, first.inputs, strict=True))
        if all(combined.shape == single.shape for combined, single in pairs):
            return first  # no input has got a batch axis: all parts are equal
        shape = (len(parts), *first.shape)
        aligned = [_align_batch(combined, single.shape, shape) for combined, single in pairs]
        settings = first.settings
        if "axis" in settings:
            settings = {**settings, "axis": settings["axis"] + 1}
        return Tensor(first.operation, tuple(aligned), shape, settings)


def _stack_constants(numbers: Sequence[np.ndarray]) -> Tensor:
    """Stack constants, or return one of them if all are equal."""
    are_equal = all(np.array_equal(constant, numbers[0]) for constant in numbers)
    constant = numbers[0] if are_equal else np.stack(numbers)
    return Tensor(CONSTANT, (), constant.shape, {}, constant)


def _align_batch(batched: Tensor, single: Shape, shape: Shape) -> Tensor:
    """Insert axes of length 1 after the batch axis of an input, as broadcasting to this shape needs.

    `single` is the input's shape before it was batched.
    """
    missing = len(shape) - len(batched.shape)
    if batched.shape == single or not missing:
        return batched
    aligned = (batched.shape[0], *[1] * missing, *single)
    if batched.constant is None:
        return batched.reshape(*aligned)
    return replace(batched, shape=aligned, constant=batched.constant.reshape(aligned))


@dataclass(frozen=True)
class _Product:
    """Rows [n, I] times a constant matrix [I, O], plus a constant."""

    rows: Tensor
    matrix: np.ndarray
    bias: np.ndarray | float = 0.0

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """The tensors that the rows were concatenated from."""
        joined = self.rows.operation == "concatenate" and self.rows.settings["axis"] == 1
        return self.rows.inputs if joined else (self.rows,)


def _match_product(tensor: Tensor) -> _Product | None:
    """Match a product with a constant matrix, to which constants may have been added; None without a match.

    A reshape from [1, n] to [n] is looked through.
    """
    if tensor.operation == "reshape" and tensor.inputs[0].shape == (1, *tensor.shape):
        return _match_product(tensor.inputs[0])
    if tensor.operation == "add" and tensor.inputs[1].constant is not None:
        inner = _match_product(tensor.inputs[0])
        return inner and replace(inner, bias=inner.bias + tensor.inputs[1].constant)
    if tensor.operation == "matmul" and tensor.inputs[1].constant is not None and len(tensor.shape) == 2:
        return _Product(tensor.inputs[0], tensor.inputs[1].constant)
    return None
