"""A matrix as sums over spans of rows: hats and bins without their zeros.

Each column of such a matrix has its numbers in rows that follow each other. Columns that have no row in common share a
layer, so that bins need one number a row and hats, of which two overlap, two. A column's product is then a difference
of two cumulative sums, taken where its span starts and where it has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
