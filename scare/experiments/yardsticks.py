"""Yardsticks are what users have today, each fitted by one call: (training, validation, inputs, target).

What comes back has `predict(readings)` with the column `calibrated`, and `facts` with `parameters` and `bytes`. The
linear ones and the published corrections are calibrators, so they are saved and exported like any model. A yardstick
that the data do not allow raises `NotApplicableError` with the reason. A regression sees its channels scaled per
device as the rival's are: a practitioner fits each box, too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import polars as pl

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.corrections import CORRECTIONS, bind, find_channels
from scare.calibrator.newest import newest_of, on_newest, raw_reading, same_unit
from scare.data.flags import usable_values
from scare.data.quantities import is_called
from scare.data.readings import Channel, Readings
from scare.errors import DataError, NotApplicableError
from scare.experiments.boosting import boosted, ridge_and_boosted
from scare.experiments.persistence import persistence
from scare.experiments.window_ridge import GOLDEN, window_ridge
from scare.windowing.feeding import Inputs


class Predictor(Protocol):
    """What a comparison needs of a calibrator or a yardstick."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What it is; its `parameters` and `bytes` among it."""
        ...

    def predict(self, readings: Readings) -> pl.DataFrame:
        """The rows of one device with `calibrated`, null where there is no value."""
        ...


Yardstick = Callable[[Sequence[Readings], Sequence[Readings], Inputs, Channel], Predictor]


def linear_regression(readings: Sequence[Readings], inputs: Inputs, target: Channel, channels: int = 1) -> Calibrator:
    """Least squares on the newest reading of the first `channels` channels."""
    inputs = newest_of(inputs, channels)
    rows, targets = [], []
    for one in readings:
        values, _ = usable_values(inputs.select(one), inputs.channels, inputs.quality)
        affine = inputs.scaling.known(one.device) or inputs.scaling.fleet
        rows.append(affine.apply(values))
        targets.append(inputs.scaling.target.apply(one.targets[:, None])[:, 0])
    design, wanted = np.concatenate(rows), np.concatenate(targets)
    known = np.isfinite(design).all(axis=1) & np.isfinite(wanted)
    if not known.any():
        raise DataError("no row has both a reading and a reference")
    solution, *_ = np.linalg.lstsq(np.column_stack([design, np.ones(len(design))])[known], wanted[known], rcond=None)
    line = on_newest(inputs, target, solution[:-1], float(solution[-1]), "linear")
    golden = design[known][:GOLDEN, None].astype(np.float32)
    return replace(line, golden=Sample(golden, line.compute(golden)))


def _raw(train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, target: Channel) -> Calibrator:
    first = inputs.channels[0]
    if not same_unit(first, target):
        raise NotApplicableError(f"needs a reading in {target.unit}; {first.name} is in {first.unit}")
    return raw_reading(inputs, target)


def _linear(train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, target: Channel) -> Calibrator:
    return linear_regression(train, inputs, target)


def _multiple(train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, target: Channel) -> Calibrator:
    if len(inputs.channels) < 2:
        raise NotApplicableError(f"needs a second channel, such as T or RH; there is only {inputs.channels[0].name}")
    calibrator = linear_regression(train, inputs, target, len(inputs.channels))
    return calibrator.with_facts(model="multiple-linear")


def _published(name: str) -> Yardstick:
    """A published correction as a yardstick: nothing is fitted, channels are recognised by name."""
    correction = CORRECTIONS[name]

    def fit(train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, target: Channel) -> Calibrator:
        if not is_called(target.name, correction.quantity):
            raise NotApplicableError(f"is for {correction.quantity}, not for {target.name}")
        calibrator = bind(correction, find_channels(correction, inputs.channels), inputs.step_seconds, target)
        return replace(calibrator, inputs=replace(calibrator.inputs, quality=inputs.quality))

    return fit


YARDSTICKS: dict[str, Yardstick] = {
    "raw": _raw,
    "linear": _linear,
    "multiple-linear": _multiple,
    "ridge": window_ridge,
    "boosting": boosted,
    "ridge-boosting": ridge_and_boosted,
    "persistence": persistence,
    **{name: _published(name) for name in CORRECTIONS},
}
UNFITTED = frozenset({"raw", "persistence", *CORRECTIONS})
