"""Retraining fits a calibrator's recipe anew to old and new readings, and has it judged on the newest day."""

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
KEYS = "architecture", "settings", "preset"  # facts that a recipe is made of


@dataclass(frozen=True)
class Retrained:
    """The better one, whether that is the new one, and both errors on the newest day, in the target's unit."""

    calibrator: Calibrator
    changed: bool
    before: float
    after: float


@dataclass(frozen=True)
class Newest:
    """What is learned from, and what judges: everything before the newest day, and all rows with those of that day.

    Targets of the day begin a window after its border, so that no window of theirs reaches across it.
    """

    before: tuple[Readings, ...]
    every: tuple[Readings, ...]
    start: float

    @staticmethod
    def of(readings: Sequence[Readings], window_seconds: float) -> "Newest":
        """The newest day of these readings with a reference."""
        border = float(reference_times(readings)[-1]) - DAY - window_seconds
        before = tuple(one.rows(one.times < border) for one in readings)
        if not any(np.isfinite(one.targets).any() for one in before):
            raise DataError("there is nothing to learn from before the newest day; give the readings it was trained on")
        return Newest(tuple(one for one in before if len(one)), tuple(readings), border + window_seconds)

    def choose(self, old: Calibrator, new: Calibrator) -> "Retrained":
        """The better one on that day; the old one among equals."""
        before, after = self.errors(old, new)
        return Retrained(new if after < before else old, after < before, before, after)

    def errors(self, *calibrators: Calibrator) -> list[float]:
        """The RMSE of each on the day's rows that all have a value for, in the target's unit."""
        squares = [[np.empty(0)] for _ in calibrators]
        for one in self.every:
            values = [calibrator.predict(one)[CALIBRATED].fill_null(np.nan).to_numpy() for calibrator in calibrators]
            rows = np.isfinite([one.targets, *values]).all(axis=0) & (one.times >= self.start)
            for found, estimates in zip(squares, values, strict=True):
                found.append(np.square(estimates - one.targets)[rows])
        if not sum(map(len, squares[0])):
            raise DataError("no row of the newest day has a value from both: nothing can be compared")
        return [float(np.sqrt(np.concatenate(found).mean())) for found in squares]


def recipe_of(calibrator: Calibrator) -> Recipe:
    """The recipe that a calibrator was trained by, as its facts tell it."""
    facts = calibrator.facts
    if any(key not in facts for key in KEYS):
        raise UsageError("its file does not say how it was trained: it cannot be trained anew, use scare train")
    preset, model = str(facts["preset"]).split("+")[0], str(facts["model"])
    recipe = Recipe.preset(preset if preset in PRESETS else "default", model=model if model in MODELS else "scare")
    tables = {"model": {**facts["architecture"], "window": calibrator.window}, "training": dict(facts["settings"])}
    changed = adjust(recipe, tables, "its facts")
    return replace(changed, name=str(facts["preset"]), policy=calibrator.inputs.policy)


def join_devices(old: Sequence[Readings], new: Sequence[Readings]) -> list[Readings]:
    """The readings of each device in the order of time; where both have a row, the new one's."""
    joined = {one.device: one for one in old}
    for one in new:
        known = joined.get(one.device)
        joined[one.device] = one if known is None else replace(one, frame=_join(known, one))
    return list(joined.values())


def _join(old: Readings, new: Readings) -> pl.DataFrame:
    both = pl.concat([old.frame.select(new.frame.columns), new.frame], how="vertical_relaxed")
    return both.unique(TIME, keep="last", maintain_order=True).sort(TIME)
