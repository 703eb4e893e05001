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
    """The newest day with a reference, held out to compare calibrators that are trained on the rows before it.

    The rows of one window between the two are neither trained on nor scored, so that no window has rows of both.
    """

    before: tuple[Readings, ...]
    readings: tuple[Readings, ...]  # all of them
    start: float  # seconds, of the first row that is scored

    @staticmethod
    def split_off(readings: Sequence[Readings], window_seconds: float) -> "NewestDay":
        """Split off the newest day of these readings that has a reference."""
        start = float(reference_times(readings)[-1]) - DAY
        before = tuple(box.rows(box.times < start - window_seconds) for box in readings)
        if not any(np.isfinite(box.targets).any() for box in before):
            raise DataError(
                "no row before the newest day has a reference; also give the readings that it was trained on"
            )
        return NewestDay(tuple(box for box in before if len(box)), tuple(readings), start)

    def choose(self, old: Calibrator, new: Calibrator) -> "Retrained":
        """Keep the calibrator with the lower error on that day; the old one if they are equal."""
        before, after = self.errors(old, new)
        return Retrained(new if after < before else old, after < before, before, after)

    def errors(self, *calibrators: Calibrator) -> list[float]:
        """Compute each calibrator's RMSE, in the target's unit, on the day's rows that all of them calibrate."""
        by_device = []  # squared errors [calibrators, rows] of each device
        for box in self.readings:
            values = [calibrator.predict(box)[CALIBRATED].fill_null(np.nan).to_numpy() for calibrator in calibrators]
            scored = np.isfinite([box.targets, *values]).all(axis=0) & (box.times >= self.start)
            by_device.append(np.square(np.array(values) - box.targets)[:, scored])
        squares = np.concatenate(by_device, axis=1)
        if not squares.size:
            raise DataError("no row of the newest day has a value from both calibrators: they cannot be compared")
        return [float(np.sqrt(errors.mean())) for errors in squares]


def recipe_of(calibrator: Calibrator) -> Recipe:
    """Rebuild the recipe that a calibrator was trained with from its facts."""
    facts = calibrator.facts
    if any(key not in facts for key in ("architecture", "settings", "preset")):
        raise UsageError("the file does not contain its training settings, so it cannot be retrained: use scare train")
    # A preset that the file no2.toml changed is called default+no2.
    preset, model = str(facts["preset"]).split("+")[0], str(facts["model"])
    recipe = Recipe.preset(preset if preset in PRESETS else "default", model=model if model in MODELS else "scare")
    window = facts.get("training_window", calibrator.window)  # the shipped plan may read a shorter one
    tables = {"model": {**facts["architecture"], "window": window}, "training": dict(facts["settings"])}
    trained_with = adjust(recipe, tables, "its facts")
    return replace(trained_with, name=str(facts["preset"]), policy=calibrator.inputs.policy)


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
