"""Quantise a plan: its fixed-point version, whose weights and values are integers, bit for bit what C computes.

How a kernel becomes integers is beside it in `kernels/<family>.py` (its `QuantisationRule`); the arithmetic is in
`kernels/fixed_point.py`. Called by `lowering`, which makes C calls of the result.
"""

from dataclasses import replace

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import INPUT, Plan, run
from scare.errors import NotApplicableError
from scare.kernels import FIXED_KERNELS, FULL, KERNELS, QUANTISATION, Step
from scare.kernels.fixed_point import MOST_OFFSET, WINDOW, QuantisationState

# How far an int16 window reaches, as a multiple of the largest scaled value in the file's windows.
HEADROOM = 8.0  # for a channel without a valid range
FARTHEST = 64.0  # at most, for a channel with one


def quantise(plan: Plan, quanta: np.ndarray) -> Plan:
    """Make the fixed-point version of a fused plan; `quanta` [channels] are steps of the int16 window per scaled unit.

    The first pass over the steps finds bounds and units of all values, the second writes the integer steps.
    """
    lacking = set()
    for step in plan.steps:
        lacking.add(QUANTISATION[step.kernel].lacks(step) if step.kernel in QUANTISATION else step.kernel)
    lacking.discard("")  # what `lacks` returns if nothing is missing
    if lacking:
        raise NotApplicableError(f"float32 only: there is no fixed-point form of {', '.join(sorted(lacking))}")
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            exact, quanta = plan.astype(np.float64), np.asarray(quanta, float)
            units = np.broadcast_to(1 / quanta, exact.shapes[INPUT])  # scaled units per step [window, channels]
            state = QuantisationState(exact.steps, exact.shapes, quanta, {INPUT: FULL * units}, {INPUT: units})
            for step in exact.steps:
                rule = QUANTISATION[step.kernel]
                shape = exact.shapes[step.output]
                state.bounds[step.output] = np.broadcast_to(rule.bound(state, step), shape)
                state.units[step.output] = np.broadcast_to(rule.unit(state, step), shape)
            # None for a step that fixed point does not need.
            integer_steps = [QUANTISATION[step.kernel].emit(state, step) for step in state.steps]
    except ArithmeticError as error:
        raise NotApplicableError("float32 only: its numbers are too large or too small for fixed point") from error
    last = plan.steps[-1].output
    first = Step("window_q", (INPUT,), WINDOW, {"quantum": state.quanta.astype(np.float32)})
    result = Step("result_q", (last,), f"{last}.real", settings={"unit": state.unit(last), "offset": 0})
    steps = (first, *(step for step in integer_steps if step is not None), result)
    for step in steps:
        if step.kernel not in KERNELS:
            raise FIXED_KERNELS.missing(step.kernel)
    return replace(plan, steps=steps)


def correct_bias(integer: Plan, exact: Plan, windows: np.ndarray) -> Plan:
    """Add an offset to the result of a fixed-point plan, so that its mean on these windows is that of the exact plan.

    That is bias correction (Nagel et al. 2019). How much rounded weights shift the mean of a result depends on the mean
    of their inputs, which no rounding constant of a kernel can know.
    """
    if not len(windows):
        return integer
    *steps, result = integer.steps
    difference = run(integer, windows) - run(exact.astype(np.float64), windows.astype(np.float64))
    offset = round(float(np.clip(-difference.mean() / result.settings["unit"], -MOST_OFFSET, MOST_OFFSET)))
    return replace(integer, steps=(*steps, replace(result, settings={**result.settings, "offset": offset})))


def window_quanta(calibrator: Calibrator) -> np.ndarray:
    """Choose the steps of an int16 window per scaled unit [channels].

    The window must hold every clamped reading, and valid readings up to a multiple of those seen: a wider range would
    make its steps coarse.
    """
    # All are magnitudes of scaled values [channels].
    windows = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])  # [n, window, channels]
    largest_seen = np.maximum(np.abs(windows).max(axis=(0, 1), initial=0.0), 1e-3)  # not 0, which has no step
    scaling, training_range = calibrator.inputs.scaling, calibrator.inputs.training_range
    clamp = np.abs([training_range.clamp_low, training_range.clamp_high]).max(axis=0) if training_range else 0.0
    limits = np.array([(channel.low, channel.high) for channel in calibrator.inputs.channels]).T  # [2, channels]
    by_device = [np.abs(affine.apply(limits)).max(axis=0) for affine in (scaling.fleet, *scaling.devices.values())]
    largest_valid = np.max(by_device, axis=0)
    reach = np.where(
        np.isfinite(largest_valid), np.minimum(largest_valid, FARTHEST * largest_seen), HEADROOM * largest_seen
    )
    return FULL / np.maximum(reach, clamp)
