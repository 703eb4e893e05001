"""Soft labels: where in time a deep branch pays (SenDaL, second stage of training).

A box is the 50 examples before, the example itself and the 49 after it, as in the published code. Boxes run over the
border between two devices.
Differs from the published code: beyond the ends the first and the last label go on (there zeros), the range of the
labels is that of training alone, and a label that is the same everywhere is not scaled (it would always mean the simple
branch).
"""

import numpy as np

BOX = 100  # windows over which labels are smoothed and their changes counted


def soft_labels(targets: np.ndarray, simple: np.ndarray, deep: np.ndarray, margin: float) -> np.ndarray:
    """How much the deep branch pays at each example in time order, 0 to 1: [n] from targets and both outputs [n].

    It pays where its error is smaller by more than the margin. Added are whether it mostly pays within the box around
    an example, and how often that changes in the box; the sum is scaled to [0, 1] and small values are magnified.
    """
    pays = np.abs(targets - simple) - np.abs(targets - deep) > margin
    around = np.pad(pays, (BOX // 2 + 1, BOX // 2 - 1), mode="edge")
    changes = (around[1:] != around[:-1]).astype(float)
    mostly = np.convolve(around[1:], np.ones(BOX), "valid") > BOX / 2
    label = mostly + np.convolve(changes, np.ones(BOX), "valid")
    if label.min() == label.max():
        return mostly.astype(np.float32)
    label = (label - label.min()) / (label.max() - label.min() + 1e-4)
    return (4 * label / (3 * label + 1)).astype(np.float32)
