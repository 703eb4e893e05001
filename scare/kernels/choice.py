"""Choice kernels: a classifier decides for each window which of a plan's two branches to run.

`select` must be a plan's last step: `plan.run` then computes the decision first and runs the chosen branch only. In a
stream a decision holds for several windows (`Choice`), so that the classifier does not run at every reading.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from scare.kernels.c_arguments import CForm, MakeForm, PlacedStep
from scare.kernels.c_extents import extents
from scare.kernels.contract import Kernel, Operations, Settings, Shape, Shapes, Weights, expect, free, per_number
from scare.kernels.tensor import MakeTensor, Tensor, as_tensor
from scare.schema import Count, Positive

THRESHOLD = 0.5  # a decision above it chooses the deep branch
PERIODS = ("simple_period", "deep_period")  # settings: windows for which a decision holds; index 1 is the deep branch


def select(
    decision: np.ndarray, simple: np.ndarray, deep: np.ndarray, weights: Weights, settings: Settings
) -> np.ndarray:
    """Take the deep branch's value [1] where the decision [1] is above a half, else the simple branch's: [1]."""
    return np.where(decision > THRESHOLD, deep, simple)


def _select_shape(decision: Shape, simple: Shape, deep: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from three single numbers [1] to one; both periods must be at least 1."""
    expect(decision == simple == deep == (1,), "select")
    expect(all(settings[name] >= 1 for name in PERIODS), "select periods")
    return deep


def _tensor_select(decision: Tensor, simple: Tensor, deep: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Compute both branches; `threshold >= decision` selects the simple one, because tensors have no `>`."""
    return as_tensor(THRESHOLD).at_least(decision).choose(simple, deep)


@dataclass
class Choice:
    """State of a stream between windows: the branch in use, and for how many more windows."""

    deep: bool = False  # whether the deep branch is in use
    left: int = 0  # windows until the next decision


@dataclass
class BatchChoice:
    """Like `Choice`, for many streams side by side, [streams] each."""

    deep: np.ndarray
    left: np.ndarray


def choose(decisions: np.ndarray, settings: Settings, choice: Choice | BatchChoice | None = None) -> np.ndarray:
    """Choose the deep branch (True) or the simple one for windows with these decisions [n], oldest first: [n].

    Without `choice` each window decides for itself. With a `Choice`, the windows follow each other in one stream, and a
    decision holds for `deep_period` or `simple_period` of them, whose own decisions are then ignored. With a
    `BatchChoice`, they are the next windows of n streams, one each. Either is updated in place.

    >>> choose(np.array([0.9, 0.1, 0.1, 0.9]), {"deep_period": 2, "simple_period": 3}, Choice())
    array([ True,  True, False, False])
    """
    if choice is None:
        return decisions > THRESHOLD
    if isinstance(choice, BatchChoice):
        has_expired = choice.left == 0
        periods = np.array([settings[name] for name in PERIODS])  # of the simple branch, of the deep branch
        choice.deep = np.where(has_expired, decisions > THRESHOLD, choice.deep)
        choice.left = np.where(has_expired, periods[choice.deep.astype(int)], choice.left) - 1
        return choice.deep
    chosen, window = np.empty(len(decisions), bool), 0
    while window < len(decisions):
        if choice.left == 0:
            choice.deep = bool(decisions[window] > THRESHOLD)
            choice.left = settings[PERIODS[choice.deep]]  # index 0 or 1: simple or deep
        count = min(choice.left, len(decisions) - window)  # windows that this decision covers here
        chosen[window : window + count] = choice.deep
        choice.left, window = choice.left - count, window + count
    return chosen


def leaky_relu(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Multiply numbers below zero by the slope: the larger of x and slope · x, because 0 < slope < 1."""
    return np.maximum(x, x.dtype.type(settings["slope"]) * x)


def _leaky_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(0 < settings["slope"] < 1, "leaky_relu slope")
    return x


def _c_leaky_relu_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_leaky_relu_f32(out, x, count, slope)`."""
    return CForm((prod(placed.out), float(placed.step.settings["slope"])), in_place=(0,))


def _tensor_leaky_relu(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    return x.maximum(x * settings["slope"])


def sigmoid_mean(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Return the mean over time of the sigmoid of x [T, C]: [C]."""
    return sigmoid(x).mean(axis=1)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Compute 1 / (1 + exp(−x)) as (1 + tanh(x / 2)) / 2, which does not overflow."""
    number = x.dtype.type
    return number(0.5) * np.tanh(number(0.5) * x) + number(0.5)


def _mean_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [T, C] to [C]."""
    expect(len(x) == 2, "sigmoid_mean")
    return x[1:]


def _mean_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count exp, 1 + exp, a reciprocal and an addition to the sum for each number, and a division for each mean."""
    return Operations(additions=2 * prod(x), exponentials=prod(x), divisions=prod(x) + x[1])


def _c_sigmoid_mean_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_sigmoid_mean_f32(out, x, rows, width)`."""
    return CForm(placed.shapes[0])


def _tensor_sigmoid_mean(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    return x.apply("sigmoid").mean(0).reshape(x.shape[1])


FLOAT_KERNELS = {
    "leaky_relu": Kernel(leaky_relu, _leaky_shape, per_number(multiply_adds=1), takes={"slope": Positive}),
    "sigmoid_mean": Kernel(sigmoid_mean, _mean_shape, _mean_cost),
    "select": Kernel(select, _select_shape, free, takes=dict.fromkeys(PERIODS, Count)),
}
C_FLOAT32: dict[str, MakeForm] = {
    "leaky_relu": _c_leaky_relu_f32,
    "sigmoid_mean": _c_sigmoid_mean_f32,
}
C_EXTENTS = {
    "leaky_relu_f32": extents(out="count", x="count", over="x"),
    "sigmoid_mean_f32": extents(out="width", x="rows * width"),
}
TENSOR_FORMS: dict[str, MakeTensor] = {
    "leaky_relu": _tensor_leaky_relu,
    "sigmoid_mean": _tensor_sigmoid_mean,
    "select": _tensor_select,
}
