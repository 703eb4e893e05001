"""Scaling brings channels and target to the size a model likes, per device, and back.

A device of the training set keeps the numbers of its training period. A device never seen before is scaled
as the fleet is (and flagged `UNSETTLED`) until it has given `settle` real readings; from then on by its own
first `settle` readings. Only the past is ever used.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from scare.errors import DataError


@dataclass(frozen=True)
class Affine:
    """Subtract `center`, divide by `scale`; both [channels].

    >>> Affine(np.array([10.0]), np.array([2.0])).apply(np.array([[14.0]]))
    array([[2.]])
    """

    center: np.ndarray
    scale: np.ndarray

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Physical values to scaled ones."""
        return (values - self.center) / self.scale

    def invert(self, scaled: np.ndarray) -> np.ndarray:
        """Scaled values to physical ones."""
        return scaled * self.scale + self.center


def constant(values: np.ndarray, factor: float = 300.0) -> Affine:
    """The paper's scaling: divide by 300, whatever the data."""
    return Affine(np.zeros_like(values[..., 0, :]), np.full_like(values[..., 0, :], factor))


def standard(values: np.ndarray) -> Affine:
    """Mean and standard deviation of each column; a constant column keeps its size."""
    varies = np.ptp(values, axis=-2) > 0  # the deviation of a constant column may be a rounding error, not zero
    return Affine(values.mean(axis=-2), nonzero(np.where(varies, values.std(axis=-2), 0.0)))


def robust(values: np.ndarray) -> Affine:
    """Median and interquartile range (as a standard deviation) of each column."""
    low, middle, high = np.percentile(values, [25, 50, 75], axis=-2)
    return Affine(middle, nonzero((high - low) / 1.349))


# of rows [..., rows, channels]
METHODS: dict[str, Callable[[np.ndarray], Affine]] = {"constant": constant, "standard": standard, "robust": robust}


@dataclass(frozen=True)
class Scaling:
    """How each device's channels and the target are scaled; travels inside the calibrator."""

    method: str
    fleet: Affine
    target: Affine
    devices: Mapping[str, Affine] = field(default_factory=dict)
    settle: int = 0  # real readings until a new device has a scaling of its own; 0 = never, the fleet's holds

    def own(self, first: np.ndarray) -> Affine:
        """The scaling of a new device from its first real rows [..., rows, channels]."""
        return METHODS[self.method](first)

    def known(self, device: str) -> Affine | None:
        """The scaling of a device that needs no settling, or None."""
        return self.devices.get(device, None if self.settle else self.fleet)


def fit_scaling(
    method: str, rows: Mapping[str, np.ndarray], targets: np.ndarray, per_device: bool, settle: int
) -> Scaling:
    """Fit a scaling to each device's real training rows [rows, channels] and the targets [rows].

    >>> rows = {"a": np.array([[1.0], [3.0]]), "b": np.array([[10.0], [14.0]])}
    >>> scaling = fit_scaling("standard", rows, np.array([0.0, 2.0]), per_device=True, settle=2)
    >>> scaling.known("b").center, scaling.known("c") is None, scaling.fleet.center
    (array([12.]), True, array([7.]))
    """
    if method not in METHODS:
        raise DataError(f"no scaling called '{method}'; there are {', '.join(METHODS)}")
    fit = METHODS[method]
    everything = np.concatenate(list(rows.values()))
    apart = per_device and method != "constant"
    devices = {device: fit(values) for device, values in rows.items()} if apart else {}
    return Scaling(method, fit(everything), fit(targets[:, None]), devices, settle if apart else 0)


def nonzero(scale: np.ndarray) -> np.ndarray:
    """The same scales with 1 in place of 0."""
    return np.where(scale > 0, scale, 1.0)
