"""Retrain a calibrator by its own recipe on old and new readings, and keep the better one on the newest day."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from scare.baselines import MODELS
from scare.calibrator.calibrator import Calibrator
from scare.data.readings import CALIBRATED, TIME, Readings
from scare.data.split import reference_times
from scare.errors import DataError, UsageError
from scare.training.recipe import PRESETS, Recipe, adjust

DAY = 86400.0


@dataclass(frozen=True)
class Retrained:
    """The better calibrator, whether it is the new one, and the errors of both on the newest day (target's unit)."""

    calibrator: Calibrator
    changed: bool
    before: float
    after: float


@dataclass(frozen=True)
class NewestDay:
    """Holds out the newest day with a reference to compare calibrators, which are trained on the rows before it.

    Between the two lies a window that is not scored, so that no window has rows of both.
    """

    before: tuple[Readings, ...]
    readings: tuple[Readings, ...]  # all of them
    start: float  # seconds, of the first row that is scored

    @staticmethod
    def split_off(readings: Sequence[Readings], window_seconds: float) -> "NewestDay":
        """Split off the newest day of these readings that has a reference."""
        border = float(reference_times(readings)[-1]) - DAY - window_seconds
        before = tuple(box.rows(box.times < border) for box in readings)
        if not any(np.isfinite(box.targets).any() for box in before):
            raise DataError(
                "no row before the newest day has a reference; also give the readings that it was trained on"
            )
        return NewestDay(tuple(box for box in before if len(box)), tuple(readings), border + window_seconds)

    def choose(self, old: Calibrator, new: Calibrator) -> "Retrained":
        """Keep the calibrator with the lower error on that day; the old one if they are equal."""
        before, after = self.errors(old, new)
        return Retrained(new if after < before else old, after < before, before, after)

    def errors(self, *calibrators: Calibrator) -> list[float]:
        """Compute each calibrator's RMSE, in the target's unit, on the day's rows that all of them calibrate."""
        squares = [[np.empty(0)] for _ in calibrators]  # squared errors of each calibrator, by device
        for box in self.readings:
            values = [calibrator.predict(box)[CALIBRATED].fill_null(np.nan).to_numpy() for calibrator in calibrators]
            rows = np.isfinite([box.targets, *values]).all(axis=0) & (box.times >= self.start)
            for own_squares, own_values in zip(squares, values, strict=True):
                own_squares.append(np.square(own_values - box.targets)[rows])
        if not sum(map(len, squares[0])):
            raise DataError("no row of the newest day has a value from both calibrators: they cannot be compared")
        return [float(np.sqrt(np.concatenate(own_squares).mean())) for own_squares in squares]


def recipe_of(calibrator: Calibrator) -> Recipe:
    """Rebuild the recipe that a calibrator was trained with from its facts."""
    facts = calibrator.facts
    if any(key not in facts for key in ("architecture", "settings", "preset")):
        raise UsageError("the file does not contain its training settings, so it cannot be retrained: use scare train")
    preset, model = str(facts["preset"]).split("+")[0], str(facts["model"])
    recipe = Recipe.preset(preset if preset in PRESETS else "default", model=model if model in MODELS else "scare")
    window = facts.get("training_window", calibrator.window)  # the shipped plan may read a shorter one
    tables = {"model": {**facts["architecture"], "window": window}, "training": dict(facts["settings"])}
    changed = adjust(recipe, tables, "its facts")
    return replace(changed, name=str(facts["preset"]), policy=calibrator.inputs.policy)


def join_devices(old: Sequence[Readings], new: Sequence[Readings]) -> list[Readings]:
    """Join the readings of each device in order of time; where both have a row, the new one is kept."""
    joined = {box.device: box for box in old}
    for box in new:
        known = joined.get(box.device)
        if known is not None:
            both = pl.concat([known.frame.select(box.frame.columns), box.frame], how="vertical_relaxed")
            box = replace(box, frame=both.unique(TIME, keep="last", maintain_order=True).sort(TIME))
        joined[box.device] = box
    return list(joined.values())
