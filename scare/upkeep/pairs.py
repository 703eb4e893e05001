"""Pairs: what a visit of the reference gives a learner, row by row, scaled as the calibrator's plan sees it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.learned import as_shipped
from scare.data.flags import Flag, without_unusable_references
from scare.data.readings import Readings
from scare.upkeep.rules import LearningRules
from scare.windowing.feeding import Feed

CHUNK = 256  # windows computed at once
DOUBTFUL = ~np.uint32(Flag.GAP | Flag.RESTART | Flag.OUTSIDE)  # a row with any other flag teaches nothing


@dataclass(frozen=True)
class Pairs:
    """Features [n, numbers], what is missing to the reference [n], both scaled; time in seconds [n]."""

    features: np.ndarray
    residuals: np.ndarray
    times: np.ndarray

    def __len__(self) -> int:
        return len(self.times)

    def rows(self, which: np.ndarray) -> "Pairs":
        """Some of them."""
        return Pairs(self.features[which], self.residuals[which], self.times[which])

    @property
    def values(self) -> np.ndarray:
        """What the calibrator gives, as shipped, scaled [n]."""
        return self.features[:, 0]


def find_pairs(calibrator: Calibrator, readings: Sequence[Readings], rules: LearningRules) -> Pairs:
    """The pairs of these readings in the order of time; values are those of the calibrator as it was shipped."""
    shipped = replace(calibrator, plan=as_shipped(calibrator.plan))
    parts = [_pairs_of(shipped, one, rules) for one in readings]
    features, residuals, times = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.argsort(times, kind="stable")
    return Pairs(features[order], residuals[order], times[order])


def _pairs_of(calibrator: Calibrator, readings: Readings, rules: LearningRules) -> tuple[np.ndarray, ...]:
    """The pairs of one device."""
    target, validity, inputs = calibrator.inputs.scaling.target, calibrator.inputs.validity, rules.numbers - 2
    segments, flags = Feed(calibrator.inputs, readings.device).take(readings.times, calibrator.inputs.select(readings))
    references = target.apply(without_unusable_references(readings).targets[:, None])[:, 0]
    usable = np.isfinite(references) & ((flags & DOUBTFUL) == 0)
    features, rows = [np.empty((0, rules.numbers))], [np.empty(0, int)]
    for segment in segments:
        wanted = np.flatnonzero(usable[segment.rows])
        for part in np.split(wanted, range(CHUNK, len(wanted), CHUNK)):
            windows = segment.grid.windows(segment.ends[part])
            values = target.apply(calibrator.compute(windows)[:, None])
            held = validity.hold(windows) if validity else windows
            features.append(np.column_stack([values, held[:, -1, :inputs], np.ones(len(part))]))
            rows.append(segment.rows[part])
    found, where = np.concatenate(features), np.concatenate(rows)
    known = np.isfinite(found).all(axis=1)
    found, where = found[known], where[known]
    return found, references[where] - found[:, 0], readings.times[where]
