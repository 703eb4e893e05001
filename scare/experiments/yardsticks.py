"""Yardsticks are what users have today; each is a calibrator, so it is scored and saved like any model.

A regression sees its channels scaled per device as the rival's are: a practitioner fits each box, too.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.plan import INPUT, Plan, Step
from scare.data.quality import usable_values
from scare.data.readings import Channel, Readings
from scare.errors import DataError
from scare.windowing.feeding import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.slicing import STRICT


def raw_reading(inputs: Inputs, target: Channel) -> Calibrator:
    """The first channel as it is."""
    as_is = Affine(np.zeros(1), np.ones(1))
    inputs = replace(_newest_of(inputs, 1), scaling=Scaling("constant", as_is, as_is))
    return _on_newest(inputs, target, np.ones(1), 0.0, "raw")


def linear_regression(readings: Sequence[Readings], inputs: Inputs, target: Channel, channels: int = 1) -> Calibrator:
    """Least squares on the newest reading of the first `channels` channels."""
    inputs = _newest_of(inputs, channels)
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
    return _on_newest(inputs, target, solution[:-1], float(solution[-1]), "linear")


def _newest_of(inputs: Inputs, channels: int) -> Inputs:
    """The first channels of the newest row alone."""

    def first(affine: Affine) -> Affine:
        return Affine(affine.center[:channels], affine.scale[:channels])

    scaling = inputs.scaling
    devices = {device: first(affine) for device, affine in scaling.devices.items()}
    narrowed = replace(scaling, fleet=first(scaling.fleet), devices=devices)
    return replace(inputs, channels=inputs.channels[:channels], scaling=narrowed, window=1, policy=STRICT)


def _on_newest(inputs: Inputs, target: Channel, weights: np.ndarray, bias: float, name: str) -> Calibrator:
    """A calibrator that multiplies the newest readings and adds a bias."""
    channels = len(inputs.channels)
    parts = {"weight": weights[:, None].astype(np.float32), "bias": np.array([bias], np.float32)}
    plan = Plan(1, channels, (Step("newest", (INPUT,), "now"), Step("dense", ("now",), "y", parts)))
    none = Sample(np.empty((0, 1, channels), np.float32), np.empty(0))
    return Calibrator(plan, inputs, target, none, none, {"model": name})
