"""Extrapolation: the training range of each channel, and how the output continues beyond it.

A plan that extrapolates almost linearly by itself may do so. A sweep tests this by letting the first channel step out
of the training range, some rows before the newest. If the output always follows in the direction of the target, and not
too steeply, the channel is clamped only far out; otherwise at the end of the range, with a linear slope beyond.
If validation has enough rows beyond the clamps, their errors decide instead.
docs/decisions/training_range.md tells what each choice costs.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.equation import line_weights
from scare.calibrator.plan import Plan, run
from scare.data.readings import Readings
from scare.windowing.inputs import Inputs, RangeMonitor
from scare.windowing.training_examples import Examples
from scare.windowing.training_range import FALSE_ALARMS, TrainingRange, fit_training_range

FAR = 8.0  # widths of the range beyond its ends: where a first channel is clamped if the plan extrapolates well
STEEPEST = 3.0  # standard deviations of the target for one of the first channel: steeper is not plausible
FLAT = 1e-6  # a decrease by a smaller share of the steepest slope is rounding
SWEPT_WINDOWS = 32  # windows that the sweep is tried on
STRIDES = (0.0, 0.1, 0.4, 1.0)  # points of the sweep, from the end of the range (0) to the far clamp (1)
TAIL = 0.8  # quantile of the first channel above which the slope is fitted
MOST_WINDOWS = 2000  # most windows from which a slope or the lowest output is found
FEWEST_CLAMPED, MIN_CLAMPED = 50, 0.02  # validation rows beyond the clamps, and their share, that decide about clamping


def with_training_range(
    calibrator: Calibrator, readings: Sequence[Readings], examples: Examples, free: bool = False
) -> Calibrator:
    """Add the training range of these readings to a calibrator; `examples` are their windows as it reads them.

    If `free`, every channel is clamped only far out, where only a broken sensor reads.
    """
    training_range = fit_training_range(scaled_rows(readings, calibrator.inputs), calibrator.window)
    if free:
        low, high = np.array(training_range.low), np.array(training_range.high)
        clamp_low, clamp_high = low - FAR * (high - low), high + FAR * (high - low)
        training_range = replace(training_range, clamp_low=tuple(clamp_low), clamp_high=tuple(clamp_high))
    else:
        training_range = _clamp_by_sweep(training_range, calibrator, examples)
    training_range = replace(
        training_range,
        slope=_slope(calibrator.plan, examples),
        lower_bound=_lower_bound(calibrator.plan, examples),
    )
    return replace(calibrator, inputs=replace(calibrator.inputs, training_range=training_range))


def is_better_free(calibrator: Calibrator, free: Calibrator, validation: Examples) -> bool:
    """Whether clamping changes enough validation rows to decide, and `free`, clamped far out, is better on them."""
    training_range = calibrator.inputs.training_range
    assert training_range is not None
    newest = validation.series[validation.ends]
    changed = (training_range.clamp(newest) != newest).any(axis=1)
    if changed.sum() < max(FEWEST_CLAMPED, MIN_CLAMPED * len(changed)):
        return False
    windows = validation.windows(np.flatnonzero(changed))
    targets = validation.targets[changed].astype(np.float64)
    references = calibrator.inputs.scaling.target.invert(targets[:, None])[:, 0]
    clamped_error, free_error = (np.square(each.compute(windows) - references).mean() for each in (calibrator, free))
    return bool(free_error < clamped_error)


def flagged_outside(inputs: Inputs, **parts: Sequence[Readings]) -> dict[str, float]:
    """Compute the share of rows flagged OUTSIDE in each of `parts`, by name.

    The key `at_most` is added, with the share of rows allowed in training. Devices that were not in training have the
    fleet's scaling.
    """
    flags = {
        name: [RangeMonitor(inputs).take(rows) > 0 for rows in scaled_rows(part, inputs)]
        for name, part in parts.items()
    }
    shares = {name: float(f"{np.concatenate(rows).mean():.4g}") for name, rows in flags.items() if rows}
    return {"at_most": FALSE_ALARMS, **shares}


def scaled_rows(readings: Sequence[Readings], inputs: Inputs) -> list[np.ndarray]:
    """Collect the complete usable rows of each device that has any, scaled [rows, channels]."""
    rows = []
    for box in readings:
        values = inputs.usable(box)
        affine = inputs.scaling.known(box.device) or inputs.scaling.fleet
        rows.append(affine.apply(values[np.isfinite(values).all(axis=1)]).astype(np.float32))
    return [device_rows for device_rows in rows if len(device_rows)]


def _clamp_by_sweep(training_range: TrainingRange, calibrator: Calibrator, examples: Examples) -> TrainingRange:
    """Choose, for each side, whether the first channel is clamped at the end of its range or far out.

    "Far out" is FAR widths of the range beyond its end, or the channel's physical limit if that is nearer.
    """
    low, high = training_range.low[0], training_range.high[0]
    lowest, highest = _limits(calibrator.inputs)
    far_low = max(low - FAR * (high - low), min(low, lowest))  # not inside the range, whatever the limit
    far_high = min(high + FAR * (high - low), max(high, highest))
    windows = examples.windows(examples.spread(SWEPT_WINDOWS))
    deviation = float(_first(examples).std())
    steepest = _direction(examples) * STEEPEST * float(examples.targets.std()) / deviation if deviation else 0.0
    below, above = (
        far if _extrapolates(calibrator.plan, windows, near, far, steepest) else near
        for near, far in ((low, far_low), (high, far_high))
    )
    return replace(
        training_range,
        clamp_low=(below, *training_range.clamp_low[1:]),
        clamp_high=(above, *training_range.clamp_high[1:]),
    )


def _limits(inputs: Inputs) -> tuple[float, float]:
    """Return the physical limits of the first channel, scaled: a reading beyond them is not used."""
    channel = inputs.channels[0]
    affines = (inputs.scaling.fleet, *inputs.scaling.devices.values())
    lowest = min((channel.low - affine.center[0]) / affine.scale[0] for affine in affines)
    highest = max((channel.high - affine.center[0]) / affine.scale[0] for affine in affines)
    return float(lowest), float(highest)


def _extrapolates(plan: Plan, windows: np.ndarray, start: float, end: float, steepest: float) -> bool:
    """Whether outputs keep moving, but not too steeply, as the first channel steps from `start` towards `end`.

    The step is tried 1, 2, 4 … rows before the end of the window. `steepest` is the largest slope allowed; if it is
    negative, outputs must fall. False if `end` is `start`, since nothing is known beyond it.
    """
    if end == start:
        return False
    levels = start + (end - start) * np.array(STRIDES)
    ages = {min(2**power, plan.window) for power in range(plan.window.bit_length() + 1)}  # 1, 2, 4 … the whole window
    for age in ages:
        outputs = []
        for level in levels:
            stepped = windows.copy()
            stepped[:, -age:, 0] = level
            outputs.append(run(plan, stepped))
        limit = steepest * np.diff(levels)[:, None]  # negative where outputs must fall
        moves = np.sign(limit) * np.diff(np.stack(outputs), axis=0)
        if not ((moves >= -FLAT * np.abs(limit)) & (moves <= np.abs(limit))).all():
            return False
    return True


def _slope(plan: Plan, examples: Examples) -> float:
    """Fit the slope of the output beyond the clamp, per unit of the first channel.

    A linear plan keeps its slope. For others, training windows are clamped at the quantile TAIL, and their errors are
    regressed on how far they were clamped. A slope against the direction of the target becomes zero.
    """
    direction = _direction(examples)
    line = line_weights(plan)
    if line is not None:
        return direction * max(0.0, direction * float(line[0]))
    first = _first(examples)
    clamp = np.quantile(first, TAIL)
    above = np.flatnonzero(first > clamp)
    if not len(above):
        return 0.0
    which = above[np.linspace(0, len(above) - 1, min(len(above), MOST_WINDOWS)).astype(int)]  # evenly spread
    windows = examples.windows(which)
    excess = windows[:, -1, 0] - clamp
    np.minimum(windows[..., 0], clamp, out=windows[..., 0])
    errors = examples.targets[which] - run(plan, windows)
    slope = float(excess @ errors / (excess @ excess))  # least squares through zero
    return direction * max(0.0, direction * slope)


def _lower_bound(plan: Plan, examples: Examples) -> float | None:
    """Return the lowest output or reference of training, scaled; None if the target falls with the first channel."""
    if _direction(examples) < 0:
        return None
    return float(min(examples.targets.min(), run(plan, examples.windows(examples.spread(MOST_WINDOWS))).min()))


def _direction(examples: Examples) -> float:
    """Return 1 if the target rises with the first channel, -1 if it falls."""
    first, targets = _first(examples), examples.targets
    return -1.0 if (first - first.mean()) @ (targets - targets.mean()) < 0 else 1.0


def _first(examples: Examples) -> np.ndarray:
    """Return the first channel of the newest row of each example, scaled [n]."""
    return examples.series[examples.ends, 0].astype(np.float64)
