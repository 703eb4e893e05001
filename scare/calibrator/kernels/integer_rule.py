"""What an integer rule is: how a kernel becomes integers. The rules themselves are in the `rules.py` of each family.

Every value of an integer plan is a word of 32 bits with a unit, the real number that 1 stands for: a power of two, on
the window's side times the channel's quantum. Units come from exact bounds: no window, whatever it holds, can make a
sum overflow.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from scare.calibrator.kernels.fixed import FULL
from scare.calibrator.kernels.kernel import INPUT, Shape, Step
from scare.errors import NotApplicableError

LARGEST = 2.0**29  # that a word may become, so that the sum of two fits as well
WINDOW = f"{INPUT}.steps"  # the window in whole steps of its quanta


@dataclass(frozen=True)
class Quantized:
    """A float plan on its way into integers: largest magnitudes and units of the values so far, each of its shape.

    `quanta` are the steps of the int16 window for 1, one for each channel.
    """

    steps: tuple[Step, ...]
    shapes: Mapping[str, Shape]
    quanta: np.ndarray
    bounds: dict[str, np.ndarray]
    units: dict[str, np.ndarray]

    @property
    def window(self) -> int:
        """Rows of the window."""
        return self.shapes[INPUT][0]

    @property
    def channels(self) -> int:
        """Channels of the window."""
        return self.shapes[INPUT][1]

    def readers(self, name: str) -> list[Step]:
        """The steps that read a value."""
        return [step for step in self.steps if name in step.inputs]

    def is_window(self, name: str) -> bool:
        """Whether a value is the window, flattened or not."""
        maker = next((step for step in self.steps if step.output == name), None)
        return name == INPUT or (maker is not None and maker.kernel == "flatten" and self.is_window(maker.inputs[0]))

    def unit(self, name: str) -> float:
        """The one unit of all numbers of a value."""
        unit = self.units[name]
        _expect_one((unit == unit.flat[0]).all(), name)
        return float(unit.flat[0])

    def feature_units(self, name: str) -> np.ndarray:
        """The unit of each number of the last axis, the same in every row."""
        rows = self.units[name].reshape(-1, self.shapes[name][-1])
        _expect_one((rows == rows[0]).all(), name)
        return rows[0]


def _expect_one(true: np.bool_, name: str) -> None:
    if not true:
        raise NotApplicableError(f"float32 only: the numbers of '{name}' have no unit in common")


@dataclass(frozen=True)
class Rule:
    """Of one kernel: bound of its output, smallest unit of its output, integer step (None: nothing to do).

    `lacks` names what of a step has no integer form although its kernel has one; empty: nothing.
    """

    bound: Callable[[Quantized, Step], np.ndarray]
    unit: Callable[[Quantized, Step], np.ndarray]
    emit: Callable[[Quantized, Step], Step | None]
    lacks: Callable[[Step], str] = lambda step: ""


def _view(q: Quantized, step: Step, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    shape, start = q.shapes[step.output], step.settings.get("start", 0)
    return arrays[step.inputs[0]].reshape(-1)[start : start + prod(shape)].reshape(shape)


VIEW = Rule(  # of kernels that read the same numbers in another shape
    lambda q, step: _view(q, step, q.bounds),
    lambda q, step: _view(q, step, q.units),
    lambda q, step: None if q.is_window(step.output) else step,
)


def power_above(number: np.ndarray | float) -> np.ndarray:
    """The next power of two, of zero a very small one."""
    return 2.0 ** np.ceil(np.log2(np.maximum(number, 2.0**-80)))


def holding(bound: np.ndarray) -> np.ndarray:
    """The units in which numbers up to these bounds fit a word."""
    return power_above(bound / LARGEST)


def finest(weight: np.ndarray) -> np.ndarray:
    """The smallest units of the outputs [O] in which weights [I, O], units of the input in them, fit as `halves`."""
    return power_above(np.abs(weight).max(axis=0, initial=0.0) * 65536 / FULL)


def bits_between(coarse: np.ndarray | float, fine: np.ndarray | float) -> np.ndarray:
    """By how many bits a word is shifted right to go from one unit to another."""
    return np.rint(np.log2(coarse / fine)).astype(np.int32)


def absolute(x: np.ndarray, weights: np.ndarray, bias: np.ndarray | float = 0.0) -> np.ndarray:
    """The bound of x weights + bias for a bound of x."""
    return x @ np.abs(weights) + np.abs(bias)


def own_unit(q: Quantized, step: Step) -> np.ndarray:
    """The finest unit that holds a value's own bound."""
    return holding(q.bounds[step.output].max())
