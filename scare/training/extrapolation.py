"""What training had, as a calibrator keeps it: edges from its rows, and how the answer goes on beyond them.

A plan that goes on by itself as a line would is let go on. A sweep finds out: the first channel steps beyond the edge
of training, at every age of the step. Where the answer rises each time, and not too steeply, the channel is held only
far out; otherwise at the edge. docs/decisions/training_range.md has what either costs.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.linear import line_weights
from scare.calibrator.plan import Plan, run
from scare.data.readings import Readings
from scare.windowing.examples import Examples
from scare.windowing.inputs import Inputs, RangeMonitor
from scare.windowing.training_range import FALSE_ALARMS, TrainingRange, fit_training_range

FAR = 8.0  # ranges beyond the range: where a first channel is held that may go on
STEEPEST = 3.0  # deviations of the target for one of the first channel: what rises faster has gone astray
FLAT = 1e-6  # of that: rounding, not a fall
SWEPT = 32  # windows that steps are tried in
STRIDES = (0.0, 0.1, 0.4, 1.0)  # steps, as shares of the way from the edge to where it is held
TAIL = 0.8  # the slope is that of training's rows with more of the first channel than this share has
LOOKED_AT = 2000  # windows, for a slope or the lowest answer


def with_training_range(calibrator: Calibrator, readings: Sequence[Readings], examples: Examples) -> Calibrator:
    """The calibrator with what the readings it was trained on had; `examples` are their windows as it reads them."""
    training_range = fit_training_range(scaled_rows(readings, calibrator.inputs), calibrator.window)
    training_range = _held_by_sweep(training_range, calibrator, examples)
    slope, lower_bound = _slope(calibrator.plan, examples), _lower_bound(calibrator.plan, examples)
    training_range = replace(training_range, slope=slope, lower_bound=lower_bound)
    return replace(calibrator, inputs=replace(calibrator.inputs, training_range=training_range))


def flagged_outside(inputs: Inputs, **parts: Sequence[Readings]) -> dict[str, float]:
    """The share of rows that may be flagged falsely, and the share that are in each part; fleet scaling if unknown."""
    flags = {
        name: [RangeMonitor(inputs).take(rows) > 0 for rows in scaled_rows(part, inputs)]
        for name, part in parts.items()
    }
    shares = {name: float(f"{np.concatenate(some).mean():.4g}") for name, some in flags.items() if some}
    return {"at_most": FALSE_ALARMS, **shares}


def scaled_rows(readings: Sequence[Readings], inputs: Inputs) -> list[np.ndarray]:
    """The usable complete rows of each device that has any, scaled [rows, channels]."""
    rows = []
    for one in readings:
        values = inputs.usable(one)
        affine = inputs.scaling.known(one.device) or inputs.scaling.fleet
        rows.append(affine.apply(values[np.isfinite(values).all(axis=1)]).astype(np.float32))
    return [one for one in rows if len(one)]


def _held_by_sweep(training_range: TrainingRange, calibrator: Calibrator, examples: Examples) -> TrainingRange:
    """With the first channel held far out, no farther than it can be, or at its edge, on each side."""
    low, high = training_range.low[0], training_range.high[0]
    least, most = _limits(calibrator.inputs)
    far = max(low - FAR * (high - low), min(low, least)), min(high + FAR * (high - low), max(high, most))
    windows, spread = examples.windows(examples.spread(SWEPT)), float(_first(examples).std())
    steepest = STEEPEST * float(examples.targets.std()) / spread if spread else 0.0
    below, above = (
        end if _rises(calibrator.plan, windows, edge, end, steepest) else edge
        for edge, end in zip((low, high), far, strict=True)
    )
    return replace(
        training_range,
        clamp_low=(below, *training_range.clamp_low[1:]),
        clamp_high=(above, *training_range.clamp_high[1:]),
    )


def _limits(inputs: Inputs) -> tuple[float, float]:
    """The least and the most that a first channel can be, scaled: a reading beyond its limits is none."""
    channel, affines = inputs.channels[0], (inputs.scaling.fleet, *inputs.scaling.devices.values())
    ends = [
        [(limit - affine.center[0]) / affine.scale[0] for affine in affines] for limit in (channel.low, channel.high)
    ]
    return float(min(ends[0])), float(max(ends[1]))


def _rises(plan: Plan, windows: np.ndarray, edge: float, end: float, steepest: float) -> bool:
    """Whether answers rise, but not too steeply, with steps from the edge on, at every age of a step."""
    levels = edge + (end - edge) * np.array(STRIDES)
    for age in {min(2**power, plan.window) for power in range(plan.window.bit_length() + 1)}:
        answers = [run(plan, _stepped(windows, age, level)) for level in levels]
        rises = np.diff(np.stack(answers), axis=0)
        room = steepest * np.diff(levels)[:, None]  # negative below the range
        if not ((rises >= np.minimum(room, 0) - FLAT * np.abs(room)) & (rises <= np.maximum(room, 0))).all():
            return False
    return end != edge


def _stepped(windows: np.ndarray, age: int, level: float) -> np.ndarray:
    """The windows with a first channel that has stepped to a level so many rows ago."""
    stepped = windows.copy()
    stepped[:, -age:, 0] = level
    return stepped


def _slope(plan: Plan, examples: Examples) -> float:
    """How the target rises with the first channel where a plan no longer sees it, in the upper part of training."""
    line = line_weights(plan)
    if line is not None:
        return max(0.0, float(line[0]))
    first = _first(examples)
    edge = np.quantile(first, TAIL)
    above = np.flatnonzero(first > edge)
    if not len(above):
        return 0.0
    some = above[np.linspace(0, len(above) - 1, min(len(above), LOOKED_AT)).astype(int)]
    windows = examples.windows(some)
    beyond = windows[:, -1, 0] - edge
    np.minimum(windows[..., 0], edge, out=windows[..., 0])
    return max(0.0, float(beyond @ (examples.targets[some] - run(plan, windows)) / (beyond @ beyond)))


def _lower_bound(plan: Plan, examples: Examples) -> float | None:
    """The lowest answer or reference of training, where the target rises with the first channel."""
    first, targets = _first(examples), examples.targets
    if (first - first.mean()) @ (targets - targets.mean()) <= 0:
        return None
    return float(min(targets.min(), run(plan, examples.windows(examples.spread(LOOKED_AT))).min()))


def _first(examples: Examples) -> np.ndarray:
    """The first channel of the newest row of each example, scaled [n]."""
    return examples.series[examples.ends, 0].astype(np.float64)
