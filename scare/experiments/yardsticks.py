"""Yardsticks are what users have today; each is a calibrator, so it is scored and saved like any model."""

from collections.abc import Sequence

import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.plan import INPUT, Plan, Step
from scare.data.quality import DEFAULT_SETTINGS, usable_values
from scare.data.readings import Channel, Readings
from scare.errors import DataError
from scare.windowing.feeding import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.slicing import STRICT


def raw_reading(readings: Sequence[Readings]) -> Calibrator:
    """The first channel as it is."""
    return _on_newest(readings, 1, np.ones(1), 0.0, "raw")


def linear_regression(readings: Sequence[Readings], channels: int = 1) -> Calibrator:
    """Least squares on the newest reading of the first `channels` channels."""
    values = np.concatenate([usable_values(one.values, one.channels, DEFAULT_SETTINGS)[0] for one in readings])
    targets = np.concatenate([one.targets for one in readings])
    known = np.isfinite(values[:, :channels]).all(axis=1) & np.isfinite(targets)
    if not known.any():
        raise DataError("no row has both a reading and a reference")
    design = np.column_stack([values[known, :channels], np.ones(known.sum())])
    solution, *_ = np.linalg.lstsq(design, targets[known], rcond=None)
    return _on_newest(readings, channels, solution[:-1], float(solution[-1]), "linear" if channels == 1 else "multiple")


def _on_newest(readings: Sequence[Readings], channels: int, weights: np.ndarray, bias: float, name: str) -> Calibrator:
    """A calibrator that multiplies the newest readings and adds a bias."""
    first = readings[0]
    parts = {"weight": weights[:, None].astype(np.float32), "bias": np.array([bias], np.float32)}
    plan = Plan(1, channels, (Step("newest", (INPUT,), "now"), Step("dense", ("now",), "y", parts)))
    as_is = Affine(np.zeros(channels), np.ones(channels))
    scaling = Scaling("constant", as_is, Affine(np.zeros(1), np.ones(1)))
    inputs = Inputs(first.channels[:channels], scaling, first.step_seconds, 1, STRICT, DEFAULT_SETTINGS)
    none = Sample(np.empty((0, 1, channels), np.float32), np.empty(0))
    return Calibrator(plan, inputs, first.reference or Channel("target"), none, none, {"model": name})
