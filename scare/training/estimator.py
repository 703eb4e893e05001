"""`SensorCalibrator`: `fit` as a scikit-learn estimator, tables in and arrays out."""

from typing import Any

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, RegressorMixin

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import CALIBRATED, REFERENCE, TIME, Channel, Readings
from scare.errors import UsageError
from scare.training.fit import fit
from scare.training.recipe import Recipe
from scare.windowing.window_length import AUTO


class SensorCalibrator(RegressorMixin, BaseEstimator):
    """Calibrate one device's table: `fit(X, y)`, `predict(X)`, `score(X, y)`.

    X is a table (polars, pandas or a dict of columns) with a `time` column and one column a channel, rows in
    time order; y the reference at each row, NaN where unknown. `predict` gives NaN where there is no value.

    Parameters
    ----------
    window
        Length of a window: readings, a duration such as `1h`, or `auto`, which follows the data.
    preset
        `default` or `paper`.
    steps
        Training steps; None takes the preset's.
    seed
        The same seed gives the same result.
    time
        Name of the time column.

    Examples
    --------
    >>> seconds = 60 * np.arange(400)
    >>> table = {"time": np.datetime64("2026-01-01", "ms") + seconds * 1000, "raw": 5 + np.sin(seconds / 1800)}
    >>> calibrator = SensorCalibrator(window=8, steps=2).fit(table, 2 * table["raw"])
    >>> round(calibrator.score(table, 2 * table["raw"]), 2)
    1.0
    """

    def __init__(
        self,
        window: int | str = AUTO,
        preset: str = "default",
        steps: int | None = None,
        seed: int = 0,
        time: str = TIME,
    ) -> None:
        self.window, self.preset, self.steps, self.seed, self.time = window, preset, steps, seed, time

    def fit(self, X: Any, y: Any) -> "SensorCalibrator":
        """Train on a table and its references [rows]."""
        length: dict[str, Any] = {} if self.steps is None else {"steps": self.steps}
        recipe = Recipe.preset(self.preset, self.window, seed=self.seed, **length)
        self.calibrator_: Calibrator = fit(self._readings(X, y), recipe=recipe)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Calibrated values [rows], NaN where there is none."""
        if not hasattr(self, "calibrator_"):
            raise UsageError("this calibrator is not trained yet; call fit first")
        return self.calibrator_.predict(self._readings(X))[CALIBRATED].fill_null(np.nan).to_numpy()

    def score(self, X: Any, y: Any) -> float:
        """R² over the rows that have a value and a reference."""
        values, targets = self.predict(X), np.asarray(y, float)
        known = np.isfinite(values) & np.isfinite(targets)
        if not known.any():
            return float("nan")
        spread = np.square(targets[known] - targets[known].mean()).sum()
        return float(1 - np.square(values[known] - targets[known]).sum() / spread)

    def _readings(self, table: Any, references: Any = None) -> Readings:
        names = list(table.keys() if isinstance(table, dict) else table.columns)
        if self.time not in names:
            raise UsageError(f"no column '{self.time}' in the table; name the time column with time=")
        channels = [name for name in names if name != self.time]
        frame = pl.DataFrame([self._times(table), *(pl.Series(c, np.asarray(table[c], float)) for c in channels)])
        if references is None:
            return Readings("device", frame, tuple(Channel(name) for name in channels))
        frame = frame.with_columns(pl.Series(REFERENCE, np.asarray(references, float)))
        return Readings("device", frame, tuple(Channel(name) for name in channels), Channel("target"))

    def _times(self, table: Any) -> pl.Series:
        """The time column; times without a zone are UTC."""
        given = np.asarray(table[self.time])
        times = pl.Series(TIME, given.tolist() if given.dtype == object else given)
        if not times.dtype.is_temporal():
            raise UsageError(f"the column '{self.time}' does not hold times; give it as datetimes")
        return times.cast(pl.Datetime("us", getattr(times.dtype, "time_zone", None) or "UTC"))
