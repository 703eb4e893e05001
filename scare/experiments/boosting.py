"""Gradient boosting on newest value, lags and rolling means, alone or on the residual of ridge on the same features.

The features are the hats of `layers/hats`, which are just that: the newest value, then averages over lags, each twice
as wide every second step. Trees are kept in memory and never saved: scikit-learn stores them as pickles only, and a
pickle runs code.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from scare.calibrator.cost import BYTES
from scare.data.readings import CALIBRATED, FLAGS, Channel, Readings
from scare.experiments.window_ridge import make_both
from scare.layers.hats import HatBasis
from scare.models.ridge import fit_ridge
from scare.training.examples import known
from scare.windowing.feeding import Feed, Inputs

ROUNDS, RATE, SEED = 200, 0.08, 0
ROWS = 8192  # windows predicted at once


@dataclass(frozen=True)
class Boosted:
    """A fitted yardstick: ridge on the features (zero without), plus trees on the same."""

    inputs: Inputs
    basis: np.ndarray | None  # [window, features a channel]; None: the window itself
    line: tuple[np.ndarray, float]  # weights [features], bias
    trees: Any
    facts: Mapping[str, Any]

    def predict(self, readings: Readings) -> pl.DataFrame:
        """The rows of one device with `calibrated` (null where there is none) and `flags`."""
        segments, flags = Feed(self.inputs, readings.device).take(readings.times, self.inputs.select(readings))
        calibrated = np.full(len(readings), np.nan)
        for segment in segments:
            for start in range(0, len(segment.ends), ROWS):
                part = slice(start, start + ROWS)
                calibrated[segment.rows[part]] = self.compute(segment.grid.windows(segment.ends[part]))
        return readings.frame.with_columns(
            pl.Series(CALIBRATED, calibrated).fill_nan(None), pl.Series(FLAGS, readings.flags | flags)
        )

    def compute(self, windows: np.ndarray) -> np.ndarray:
        """Values in the target's unit of scaled windows [n, window, channels]: [n]."""
        features = windows if self.basis is None else self.basis.T.astype(np.float32) @ windows
        flat = features.reshape(len(windows), -1)
        scaled = flat @ self.line[0] + self.line[1] + one_thread(self.trees.predict, flat)
        return self.inputs.scaling.target.invert(scaled[:, None])[:, 0]


def boosted(train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, target: Channel) -> Boosted:
    """Boosted trees on the features."""
    return _fit(train, validation, inputs, with_ridge=False)


def ridge_and_boosted(
    train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, target: Channel
) -> Boosted:
    """Ridge on the features, its penalty and inputs chosen on validation, and trees on what it leaves over."""
    return _fit(train, validation, inputs, with_ridge=True)


def _fit(train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, with_ridge: bool) -> Boosted:
    examples, held = make_both(train, validation, inputs)
    basis = HatBasis(inputs.window).matrix if inputs.window > 1 else None
    learned = known(examples, basis)
    targets, flat = learned.targets, learned.features.reshape(len(learned.targets), -1)
    line = np.zeros(flat.shape[1]), 0.0
    if with_ridge:
        line = fit_ridge(learned, known(held, basis), newest=0)
    trees = _grow(flat, targets - flat @ line[0] - line[1])
    splits, leaves = _count_nodes(trees)
    numbers = 2 * splits + leaves + (len(line[0]) + 1 if with_ridge else 0)
    facts = {"model": "ridge-boosting" if with_ridge else "boosting", "parameters": numbers, "bytes": BYTES * numbers}
    return Boosted(inputs, basis, line, trees, facts)


def _grow(flat: np.ndarray, targets: np.ndarray) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    trees = HistGradientBoostingRegressor(max_iter=ROUNDS, learning_rate=RATE, early_stopping=False, random_state=SEED)
    return one_thread(trees.fit, flat, targets)


def one_thread(work: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """The result of scikit-learn's work on one thread: its threads wait for each other, long on a busy machine."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        return work(*arrays)


def _count_nodes(trees: Any) -> tuple[int, int]:
    """Splits (a feature and a threshold each) and leaves (a number each) of all trees."""
    nodes = [tree.nodes["is_leaf"] for stage in trees._predictors for tree in stage]
    leaves = int(sum(node.sum() for node in nodes))
    return sum(map(len, nodes)) - leaves, leaves
