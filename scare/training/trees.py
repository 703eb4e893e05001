"""Small gradient-boosted trees on the residuals of a linear model.

Every tree is perfect: `DEPTH` comparisons lead to one of 2^DEPTH leaves, so that each value costs the same number of
instructions on a board. A shorter branch is padded with comparisons that always go left. Beyond the range of training
a tree could only repeat its outermost leaf, so the trees are switched off there and the linear model is used alone.
Called by `combination`; in a plan, trees are the kernel `trees`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from scare.calibrator.plan import Step
from scare.executor import one_thread
from scare.kernels import KERNELS

ROUNDS, RATE, DEPTH, SEED = 100, 0.1, 3, 0  # trees, learning rate, comparisons in a row, random seed
MOST_LEAVES, FEWEST_ROWS, MOST_ROWS = 50, 20, 200  # a leaf has at least a 50th of all rows, within these bounds
MARGIN = 1e-5  # in features, whose spread is about 1; runtimes differ by less
EDGE = 0.5  # percent: trees are switched off below this percentile of the newest readings and above 100 minus it


@dataclass(frozen=True)
class Trees:
    """Trees that predict the residuals of a linear model from flat features [n, features].

    The first features are the newest readings of all channels.
    """

    feature: np.ndarray  # [trees, 2^DEPTH - 1]
    threshold: np.ndarray  # [trees, 2^DEPTH - 1]; above it a row goes right
    leaf: np.ndarray  # [trees, 2^DEPTH]
    low: np.ndarray  # [channels], or [0] if the trees are never switched off
    high: np.ndarray

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Predict the residuals [n] of the linear model from flat features [n, rows·channels]."""
        return np.asarray(KERNELS["trees"].run(features, vars(self), {}))[:, 0]

    def step(self, source: str, scale: np.ndarray, share: float) -> Step:
        """Return the plan step of the trees times `share`.

        Its input, the value `source`, is the flat features divided by `scale` [features], so thresholds are, too.
        """
        largest = float(np.finfo(np.float32).max)  # a threshold at which every row goes left
        threshold = np.where(self.threshold < largest, self.threshold / scale[self.feature], largest)
        weights = {
            "threshold": threshold,
            "leaf": share * self.leaf,
            "low": self.low / scale[: len(self.low)],
            "high": self.high / scale[: len(self.high)],
        }
        single = {name: values.astype(np.float32) for name, values in weights.items()}
        return Step("trees", (source,), "trees", {"feature": self.feature, **single})


def fit_trees(features: np.ndarray, residuals: np.ndarray, channels: int, guarded: bool) -> Trees:
    """Fit trees to the residuals [n] of a linear model, on flat features [n, rows·channels].

    The first `channels` features are the newest readings; `guarded` trees are switched off outside the range of these.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    rows_of_leaf = int(np.clip(len(residuals) / MOST_LEAVES, FEWEST_ROWS, MOST_ROWS))
    boosting = HistGradientBoostingRegressor(
        max_iter=ROUNDS,
        learning_rate=RATE,
        max_leaf_nodes=2**DEPTH,
        max_depth=DEPTH,
        min_samples_leaf=rows_of_leaf,
        early_stopping=False,
        random_state=SEED,
    )
    with one_thread():
        boosting.fit(features, residuals)
    padded = [_pad_tree(stage[0].nodes) for stage in boosting._predictors]
    feature, threshold, leaf = (np.stack(parts) for parts in zip(*padded, strict=True))
    _center_thresholds(feature, threshold, features)
    leaf[0] += float(boosting._baseline_prediction.ravel()[0])  # the mean, which every row gets with the first tree
    low, high = np.empty(0), np.empty(0)
    if guarded:
        low, high = np.percentile(features[:, :channels], [EDGE, 100 - EDGE], axis=0)
    return Trees(feature, threshold, leaf, low, high)


def outside_share(features: np.ndarray, training_features: np.ndarray, channels: int) -> float:
    """Return the share of rows at which trees fitted to `training_features` would be switched off."""
    low, high = np.percentile(training_features[:, :channels], [EDGE, 100 - EDGE], axis=0)
    newest = features[:, :channels]
    return float(((newest < low) | (newest > high)).any(axis=1).mean())


def _pad_tree(nodes: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pad a fitted tree to `DEPTH`; returns feature and threshold of each comparison, and the leaves."""
    inner = 2**DEPTH - 1
    # A comparison with infinity always goes left.
    feature, threshold, leaf = np.zeros(inner, np.int32), np.full(inner, np.inf), np.zeros(inner + 1)
    todo = [(0, 0)]  # pairs of (position in the perfect tree, index in `nodes`)
    while todo:
        position, number = todo.pop()
        node = nodes[number]
        if position >= inner:
            leaf[position - inner] = node["value"]
        elif node["is_leaf"]:  # a shorter branch: both children repeat the leaf
            todo += [(2 * position + 1, number), (2 * position + 2, number)]
        else:
            feature[position] = node["feature_idx"]
            threshold[position] = node["num_threshold"]
            todo += [(2 * position + 1, node["left"]), (2 * position + 2, node["right"])]
    return feature, threshold, leaf


def _center_thresholds(feature: np.ndarray, threshold: np.ndarray, features: np.ndarray) -> None:
    """Move each threshold, in place, to the middle between the nearest training values on its two sides.

    Quantised readings give many rows the same feature up to rounding, and a threshold among them would send such a row
    left on one runtime and right on another.
    """
    for number in np.unique(feature):
        values = np.unique(features[:, number])
        compares = (feature == number) & np.isfinite(threshold)  # comparisons of this feature
        next_above = np.searchsorted(values, threshold[compares] + MARGIN, side="right").clip(1, len(values) - 1)
        threshold[compares] = (values[next_above - 1].astype(np.float64) + values[next_above]) / 2
    # Rounded down to float32, a threshold still separates all float32 values in the same way.
    largest = np.finfo(np.float32).max
    rounded = np.minimum(threshold, largest).astype(np.float32)
    threshold[:] = np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)
