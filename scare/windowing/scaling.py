"""Scaling of channels and target, per device.

A device of the training set keeps the scaling of its training period. A new device has the fleet's: its air may differ
from that of training, so its own mean and spread say little about the sensor. Only for raw electrical channels, whose
offsets differ from cell to cell, the centre moves towards the device's own mean (`own_share`) after `settle` real
readings; until then rows have the flag `UNSETTLED`. Only past readings are used, never later ones. Devices of training
may also have an effect on the output (`DeviceEffect`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from scare.errors import DataError
from scare.windowing.device_arrays import DeviceArrays

SMALLEST_SCALE = 1e-290  # a smaller divisor may make a quotient overflow
FREE = -1  # the row count of a place in `Settling` that no device has


@dataclass(frozen=True)
class Affine:
    """Subtract `center`, divide by `scale`; both [channels].

    >>> Affine(np.array([10.0]), np.array([2.0])).apply(np.array([[14.0]]))
    array([[2.]])
    """

    center: np.ndarray
    scale: np.ndarray

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Scale physical values [..., channels]."""
        return (values - self.center) / self.scale

    def invert(self, scaled: np.ndarray) -> np.ndarray:
        """Convert scaled values [..., channels] back to physical ones."""
        return scaled * self.scale + self.center


def constant(values: np.ndarray, factor: float = 300.0) -> Affine:
    """Divide by the same factor whatever the data, as the paper does (by 300)."""
    return Affine(np.zeros_like(values[..., 0, :]), np.full_like(values[..., 0, :], factor))


def standard(values: np.ndarray) -> Affine:
    """Scale by mean and standard deviation of each column; a constant column has scale 1."""
    varies = np.ptp(values, axis=-2) > 0  # the deviation of a constant column may be a rounding error, not zero
    return Affine(values.mean(axis=-2), nonzero(np.where(varies, values.std(axis=-2), 0.0)))


def robust(values: np.ndarray) -> Affine:
    """Scale by median and interquartile range of each column.

    Of normal numbers, the range divided by 1.349 is the standard deviation.
    """
    low, middle, high = np.percentile(values, [25, 50, 75], axis=-2)
    return Affine(middle, nonzero((high - low) / 1.349))


# Functions that fit center and scale [..., channels] to rows [..., rows, channels], by the name of the method.
METHODS: dict[str, Callable[[np.ndarray], Affine]] = {"constant": constant, "standard": standard, "robust": robust}


class DeviceEffect(NamedTuple):
    """What a device adds to the scaled output: an offset, and a slope of the newest scaled reading of channel 0."""

    offset: float
    slope: float


NO_EFFECT = DeviceEffect(0.0, 0.0)


@dataclass(frozen=True)
class Scaling:
    """Scaling of each device's channels and of the target; part of the calibrator."""

    method: str  # a key of METHODS
    fleet: Affine  # fitted to all training devices together
    target: Affine  # for the reference
    devices: Mapping[str, Affine] = field(default_factory=dict)  # for training devices that have their own
    settle: int = 0  # real readings until a new device has its own scaling; 0 = it keeps the fleet's
    effects: Mapping[str, DeviceEffect] = field(default_factory=dict)
    # How far the centre of a new device's channel moves from the fleet's (0) to the device's own mean (1): [channels].
    own_share: np.ndarray | None = None  # None: all 0

    def effect(self, device: str) -> DeviceEffect:
        """Look up what a device adds to the output: `NO_EFFECT` if it was not in training."""
        return self.effects.get(device, NO_EFFECT)

    def own(self, rows: np.ndarray) -> Affine:
        """Fit a new device's scaling to its first real rows [rows, channels]."""
        return self.shifted(rows.mean(axis=0) - self.fleet.center)

    def shifted(self, differences: np.ndarray) -> Affine:
        """Return the scaling of devices whose means differ from the fleet's centre by `differences` [..., channels]."""
        share = np.zeros(len(self.fleet.center)) if self.own_share is None else self.own_share
        center = self.fleet.center + share * differences
        return Affine(center, np.broadcast_to(self.fleet.scale, center.shape))

    def known(self, device: str) -> Affine | None:
        """Look up the scaling of a device; None for a new one that gets its own after its first readings."""
        return self.devices.get(device, None if self.settle else self.fleet)


def fit_scaling(
    method: str,
    rows: Mapping[str, np.ndarray],
    targets: np.ndarray,
    per_device: bool,
    settle: int = 0,
    own_share: np.ndarray | None = None,
) -> Scaling:
    """Fit a scaling to each device's real training rows [rows, channels] and the targets [rows].

    A new device has the fleet's scaling; where `own_share` is above 0, its centre moves after `settle` readings.
    Training devices follow the same rule, unless each has a scaling of its own (`per_device`).

    >>> rows = {"a": np.array([[1.0], [3.0]]), "b": np.array([[10.0], [14.0]])}
    >>> scaling = fit_scaling("standard", rows, np.array([0.0, 2.0]), per_device=False, settle=2, own_share=np.ones(1))
    >>> scaling.known("b").center, scaling.known("c") is None, scaling.fleet.center
    (array([12.]), True, array([7.]))
    """
    if method not in METHODS:
        raise DataError(f"there is no scaling '{method}'; choose one of {', '.join(METHODS)}")
    fit = METHODS[method]
    # Whether a new device's centre moves towards its own mean.
    settles = own_share is not None and bool(own_share.any()) and method != "constant" and settle > 0
    scaling = Scaling(
        method,
        fleet=fit(np.concatenate(list(rows.values()))),
        target=fit(targets[:, None]),
        settle=settle if settles else 0,
        own_share=own_share if settles else None,
    )
    if per_device and method != "constant":
        return replace(scaling, devices={device: fit(values) for device, values in rows.items()})
    if settles:
        return replace(scaling, devices={device: scaling.own(values) for device, values in rows.items()})
    return scaling


def add_devices(scaling: Scaling, rows: Mapping[str, np.ndarray]) -> Scaling:
    """Add the devices that `scaling` lacks, fitted to their rows [rows, channels] like the devices that it has.

    Returns `scaling` itself if all devices share the fleet's.

    >>> scaling = fit_scaling("standard", {"a": np.array([[1.0], [3.0]])}, np.array([0.0, 2.0]), per_device=True)
    >>> add_devices(scaling, {"b": np.array([[10.0], [14.0]])}).devices["b"].scale
    array([2.])
    """
    if not scaling.devices:
        return scaling
    # `fit_scaling` gave each device a scale of its own (`per_device`), or moved its centre alone, by `own_share`. The
    # scale of a single device is the fleet's in both cases.
    per_device = any((affine.scale != scaling.fleet.scale).any() for affine in scaling.devices.values())
    fit = METHODS[scaling.method] if per_device or scaling.own_share is None else scaling.own
    new = {device: fit(values) for device, values in rows.items() if device not in scaling.devices}
    return replace(scaling, devices={**scaling.devices, **new})


def nonzero(scale: np.ndarray) -> np.ndarray:
    """Replace scales of 0, and those so small that a quotient overflows, by 1."""
    return np.where(scale > SMALLEST_SCALE, scale, 1.0)


class Settling(DeviceArrays):
    """Means of the first `settle` real rows of new devices, in fixed memory.

    It sums differences to `base` rather than values, to keep precision. `base` is stored because the fleet's centre may
    be replaced before a device has settled. A device's place (its row of the arrays) is reused once it has settled.
    """

    def __init__(self, scaling: Scaling) -> None:
        self._scaling = scaling
        center = scaling.fleet.center
        super().__init__({"count": np.array(0), "total": np.zeros(len(center)), "base": center})
        self._free: list[int] = []

    def allocate(self, count: int) -> np.ndarray:
        """Give each of `count` new devices a place, released ones first; returns the places [count]."""
        reused = np.array(self._free[:count], np.int64)
        del self._free[:count]
        self.clear(reused)
        return np.concatenate([reused, self.add(count - len(reused))])

    def release(self, places: np.ndarray) -> None:
        """Free these places for other devices."""
        self["count"][places] = FREE
        self._free += places.tolist()

    def replace_scaling(self, scaling: Scaling) -> None:
        """Continue with another scaling, of the same method and for as many rows (`settle`)."""
        self._scaling = scaling

    def rows_missing(self, place: int) -> int:
        """Count the rows that the device in this place still needs."""
        return self._scaling.settle - int(self["count"][place])

    def update(self, places: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Take one real row [n, channels] of each of n devices; returns which of them now have enough, bool [n]."""
        self._add_to_totals(places, values)
        self["count"][places] += 1
        return self["count"][places] == self._scaling.settle

    def update_one(self, place: int, values: np.ndarray) -> None:
        """Take real rows [n, channels] of a single device, at most as many as `rows_missing`."""
        self._add_to_totals(np.full(len(values), place), values)
        self["count"][place] += len(values)

    def means(self, places: np.ndarray) -> np.ndarray:
        """Return the means over the rows of devices that have all they need [n, channels]."""
        return self["base"][places] + self["total"][places] / self._scaling.settle

    def affine(self, places: np.ndarray) -> Affine:
        """Return the scalings of n devices that have all the rows they need: center and scale [n, channels].

        `places` are the devices' rows in the arrays of this object [n], as `allocate` gave them.
        """
        base_difference = self["base"][places] - self._scaling.fleet.center
        return self._scaling.shifted(self["total"][places] / self._scaling.settle + base_difference)

    def _add_to_totals(self, places: np.ndarray, values: np.ndarray) -> None:
        np.add.at(self["total"], places, values - self["base"][places])  # `+=` would count a repeated place once

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Replace the state by that of another `Settling`."""
        super().restore(state)
        self._free = np.flatnonzero(self["count"] == FREE).tolist()
