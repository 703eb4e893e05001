"""Linear calibrators of the newest row: the sensor reading as is, with an offset, or a linear regression."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.cost import count
from scare.calibrator.plan import INPUT, Plan, Step
from scare.data.quantities import STANDARD_TEMPERATURE, Conversion, conversion, find_quantity, spell_unit
from scare.data.readings import Channel
from scare.kernels import add_step, dense_step
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import Affine, Scaling

PRODUCT_LIMIT = 3.0  # standard deviations at which readings are clamped before they are multiplied


def raw_reading(
    inputs: Inputs, target: Channel, offset: float = 0.0, standard_temperature: float = STANDARD_TEMPERATURE
) -> Calibrator:
    """Make a calibrator that returns the first channel in the target's unit, plus an offset.

    A channel whose unit does not convert to the target's is returned as it is.
    """
    to_target = to_unit(inputs.channels[0], target, standard_temperature) or Conversion(1.0)
    identity = Affine(np.zeros(1), np.ones(1))
    inputs = replace(newest_inputs(inputs, [0]), scaling=Scaling("constant", identity, identity))
    name = "offset" if offset else "raw"
    return linear_calibrator(inputs, target, np.array([to_target.gain]), to_target.offset + offset, name)


def to_unit(channel: Channel, target: Channel, standard_temperature: float = STANDARD_TEMPERATURE) -> Conversion | None:
    """Return how a channel converts to the target's unit; None if it does not.

    If one of the units is unknown, the channel is taken to be in the target's.
    """
    if not (channel.unit and target.unit):
        return Conversion(1.0)
    quantity = find_quantity(channel.name) or find_quantity(target.name)
    return conversion(channel.unit, target.unit, quantity.molar_mass if quantity else None, standard_temperature)


def same_unit(channel: Channel, target: Channel) -> bool:
    """Whether a channel may be in the target's unit: true if either unit is unknown."""
    return not (channel.unit and target.unit) or spell_unit(channel.unit) == spell_unit(target.unit)


def newest_inputs(inputs: Inputs, channels: Sequence[int]) -> Inputs:
    """Narrow inputs to these channels of the newest row, without a training range; channel 0 must be the first."""
    indices = list(channels)
    scaling = inputs.scaling

    def narrowed(affine: Affine) -> Affine:
        return Affine(affine.center[indices], affine.scale[indices])

    devices = {device: narrowed(affine) for device, affine in scaling.devices.items()}
    own_share = None if scaling.own_share is None else scaling.own_share[indices]
    if own_share is None or not own_share.any():  # no channel is left that a new device centres by its own mean
        scaling, own_share = replace(scaling, settle=0), None
    scaling = replace(scaling, fleet=narrowed(scaling.fleet), devices=devices, own_share=own_share)
    narrowed_channels = tuple(inputs.channels[index] for index in indices)
    return replace(inputs, channels=narrowed_channels, scaling=scaling, window=1, training_range=None)


def linear_calibrator(
    inputs: Inputs, target: Channel, weights: np.ndarray, bias: float, name: str, curve: np.ndarray | None = None
) -> Calibrator:
    """Make a calibrator from the weights [channels] and bias of a linear regression on the scaled newest row.

    `curve` [channels·(channels+1)/2] are the weights of the products of two readings each, if the regression has them.
    """
    channels = len(inputs.channels)
    line = {"weight": weights[:, None].astype(np.float32), "bias": np.array([bias], np.float32)}
    steps = [Step("newest", (INPUT,), "now"), Step("dense", ("now",), "y" if curve is None else "straight", line)]
    if curve is not None:
        steps.append(Step("products", ("now",), "pairs", settings={"limit": PRODUCT_LIMIT}))
        steps.append(dense_step("pairs", "curved", curve[:, None].astype(np.float32)))
        steps.append(add_step("straight", "curved", "y"))
    plan = Plan(1, channels, tuple(steps))
    no_windows = Sample(np.empty((0, 1, channels), np.float32), np.empty(0))
    facts = {"model": name, "parameters": count(plan).weights, "bytes": count(plan).weight_bytes}
    return Calibrator(plan, inputs, target, no_windows, no_windows, facts)
