"""`SensorCalibrator`: `fit` as a scikit-learn estimator, tables in and arrays out."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError

from scare.baselines import MODELS
from scare.baselines.classical import Predictor
from scare.data.dataframes import as_polars, read_frame
from scare.data.readings import CALIBRATED, TIME, Channel
from scare.errors import UsageError
from scare.training.fit import fit, fit_baseline
from scare.training.recipe import Recipe
from scare.windowing.windows import AUTO

TARGET = " target"  # no name in a header begins with a space


class NotTrainedError(UsageError, NotFittedError):
    """`predict` was called before `fit`."""


class SensorCalibrator(RegressorMixin, BaseEstimator):
    """Calibrate the table of one device or of several: `fit(X, y)`, `predict(X)`, `score(X, y)`.

    X is a table of pandas or Polars, or a dict of columns: times (a column, or the index of a pandas table) and one
    column of numbers a channel, first the one to calibrate. y is the reference at each row, NaN where unknown. Rows
    may be in any order.

    `predict` gives a number for every row, as scikit-learn's scorers and cross-validation need it. A row that cannot
    be calibrated, because a reading is missing or its window has too little history, gets the **fallback**: a straight
    line through the reading of the first channel, fitted to the same rows; without that reading, the mean of y. With
    `fallback=False` it is NaN. Parts of a cross-validation begin without history, so their first rows fall back.

    Parameters
    ----------
    window
        Length of a window: readings, a duration such as `1h`, or `auto`.
    preset
        `default` or `paper`.
    steps
        Training steps; None takes the preset's.
    seed
        The same seed gives the same result.
    time
        Name of the time column.
    model
        Name of a model (`scare`, `tesla` …) or of a baseline (`linear`, `ridge`, `boosting`, `barkjohn-2021` …).
    device_column
        Column that names the device of each row, for a table of several.
    fallback
        Whether a row without a calibrated value gets the fallback.

    Attributes
    ----------
    calibrator_
        What was fitted: a `Calibrator`, except for `boosting`, `ridge-boosting` and `persistence`.
    fallback_
        Slope and intercept of the line, and the mean of y.

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
        model: str = "scare",
        device_column: str = "",
        fallback: bool = True,
    ) -> None:
        self.window, self.preset, self.steps, self.seed, self.time = window, preset, steps, seed, time
        self.model, self.device_column, self.fallback = model, device_column, fallback

    def fit(self, X: Any, y: Any) -> "SensorCalibrator":
        """Train on a table and its references [rows]."""
        length: dict[str, Any] = {} if self.steps is None else {"steps": self.steps}
        network = self.model if self.model in MODELS else "scare"
        recipe = Recipe.preset(self.preset, self.window, network, seed=self.seed, **length)
        frame, targets = as_polars(X, self.time), np.asarray(y, float)
        if targets.shape != (frame.height,):
            raise UsageError(
                f"y has the shape {targets.shape}; it needs one number for each of the {frame.height:,} rows"
            )
        parts = read_frame(frame.with_columns(pl.Series(TARGET, targets)), (), TARGET, self.time, self.device_column)
        readings = [replace(part.readings, reference=Channel("target")) for part in parts]
        self.channels_ = readings[0].channels
        self.calibrator_: Predictor = (
            fit(readings, recipe=recipe) if self.model in MODELS else fit_baseline(self.model, readings, recipe=recipe)
        )
        # A line from the first channel to y by least squares, for rows without a calibrated value.
        raw = np.concatenate([box.values[:, 0] for box in readings])
        references = np.concatenate([box.targets for box in readings])
        known = np.isfinite(raw) & np.isfinite(references)
        raw, references = raw[known], references[known]
        mean = float(references.mean())
        centred = raw - raw.mean()
        squares = float(np.square(centred).sum())
        slope = float(centred @ references / squares) if squares else 0.0
        self.fallback_ = slope, mean - slope * float(raw.mean()), mean
        self.feature_names_in_ = np.array(frame.columns, object)
        self.n_features_in_ = frame.width
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return calibrated values [rows], in the order of the table; the fallback, or NaN, where there is none."""
        if not hasattr(self, "calibrator_"):
            raise NotTrainedError("this SensorCalibrator is not trained yet; call fit first")
        values = np.full(as_polars(X, self.time).height, np.nan)
        slope, intercept, mean = self.fallback_
        for part in read_frame(X, self.channels_, None, self.time, self.device_column):
            calibrated = self.calibrator_.predict(part.readings)[CALIBRATED].fill_null(np.nan).to_numpy()
            if self.fallback:
                line = slope * part.readings.values[:, 0] + intercept
                calibrated = np.where(np.isnan(calibrated), line, calibrated)
            values[part.numbers] = calibrated  # `numbers` are the rows of this device in the table
        return np.where(np.isnan(values), mean, values) if self.fallback else values

    def score(self, X: Any, y: Any) -> float:
        """Return R² over the rows that have a value and a reference.

        If the reference is constant there, it is 1 without an error and 0 otherwise, as scikit-learn's `r2_score`.
        """
        values, targets = self.predict(X), np.asarray(y, float)
        known = np.isfinite(values) & np.isfinite(targets)
        if not known.any():
            return float("nan")
        errors = float(np.square(values[known] - targets[known]).sum())
        squares = float(np.square(targets[known] - targets[known].mean()).sum())
        return 1 - errors / squares if squares else float(errors == 0)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that a missing number may be NaN."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
