"""A fleet: many devices, each calibrated with its own history as it reports, in batches.

Called by `pipeline`, with at most one row of each device at a time. A row gets what `Calibrator.live` of its device
would give. Which calibrator reads which device is data (`Route`). All state can be saved as plain arrays and restored
(`journal`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import isnan

import numpy as np

from scare.calibrator.calibrator import CalibratedRows, Calibrator
from scare.data.flags import NO_VALUE, Flag
from scare.errors import DataError, UsageError
from scare.kernels import BatchChoice
from scare.upkeep.live_drift import DriftMonitor
from scare.windowing.device_arrays import DeviceArrays
from scare.windowing.inputs import Inputs
from scare.windowing.live_windows import LiveWindows

DEFAULT = "*"
GAPS = 8  # number of times between readings by which a device's step is judged
BLOCK = 512  # rows calibrated at once: few enough to stay in a core's cache


@dataclass(frozen=True)
class Route:
    """Devices whose name is `pattern` or matches it (`*`, `?`, `[abc]`) are read by this calibrator."""

    pattern: str
    calibrator: str


@dataclass(frozen=True)
class FleetState:
    """Everything that a fleet remembers: plain arrays by name, and for each calibrator its devices and history key."""

    arrays: Mapping[str, np.ndarray]
    devices: Mapping[str, Sequence[str]]
    histories: Mapping[str, str]


class Fleet:
    """Devices with their calibrators, by name.

    If several routes match, an exact name wins over a pattern, a pattern over `*`, and the first over the others.

    >>> from scare.calibrator.corrections import CORRECTIONS, bind
    >>> barkjohn = CORRECTIONS["barkjohn-2021"]
    >>> calibrator = bind(barkjohn, {role.name: role.channel for role in barkjohn.roles}, 60.0)
    >>> fleet = Fleet({"pm25": calibrator}, [Route("*", "pm25")])
    >>> values, _, _, flags = fleet.push(["roof", "yard"], np.full(2, 1.8e9), np.array([[20.0, 50.0], [np.nan, 50.0]]))
    >>> values.round(2), [str(Flag(flag).name) for flag in flags.tolist()]
    (array([11.92,   nan]), ['WARM_UP', 'WARM_UP|MISSING'])
    """

    def __init__(self, calibrators: Mapping[str, Calibrator], routes: Sequence[Route]) -> None:
        for route in routes:
            if route.calibrator not in calibrators:
                known = ", ".join(calibrators)
                raise UsageError(f"route '{route.pattern}': there is no calibrator '{route.calibrator}', only {known}")
        self._groups = {name: DeviceGroup(calibrator) for name, calibrator in calibrators.items()}
        self._routes = list(routes)
        self._models: dict[str, str] = {}  # device → name of its calibrator

    def __len__(self) -> int:
        return len(self._models)

    def __contains__(self, device: str) -> bool:
        return device in self._models

    @property
    def devices(self) -> dict[str, str]:
        """The name of each admitted device's calibrator."""
        return dict(self._models)

    def route(self, device: str) -> str:
        """Return the name of the calibrator that reads this device."""
        if name := choose_route(self._routes, device):
            return name
        raise DataError(f"{device}: no route leads to a calibrator; add one for it, or a default for '{DEFAULT}'")

    def admit(self, device: str) -> None:
        """Add a device to the fleet, with the calibrator that its route names."""
        self._models[device] = self.route(device)

    def model(self, device: str) -> str:
        """Return the name of the calibrator of an admitted device."""
        return self._models[device]

    def calibrator(self, device: str) -> Calibrator:
        """Return the calibrator of an admitted device."""
        return self._groups[self._models[device]].calibrator

    def last_time(self, device: str) -> float:
        """Return the time of the newest reading of an admitted device; NaN before the first."""
        return self._groups[self._models[device]].last_time(device)

    def record_time(self, device: str, time: float) -> None:
        """Record when an admitted device sent a reading, whether or not the reading is used."""
        self._groups[self._models[device]].record_time(device, time)

    def gaps(self, device: str) -> list[float]:
        """Return the last times between readings of an admitted device, in seconds, the shortest first."""
        return self._groups[self._models[device]].gaps(device)

    def push(
        self,
        devices: Sequence[str],
        times: np.ndarray,
        rows: np.ndarray | Sequence[np.ndarray],
        widths: Mapping[str, float] | None = None,
    ) -> CalibratedRows:
        """Calibrate one row of each device, no device twice; a batch with an error changes nothing.

        `times` are seconds since 1970, UTC [n]. A row holds the values that the device's calibrator reads, in its order
        of channels: [n, channels], or a sequence of rows where calibrators differ in how many they read. `widths` says
        of some devices how many times as wide as usual their intervals are.
        """
        times = np.asarray(times, float)
        count = len(devices)
        if times.shape != (count,) or len(rows) != count:
            raise DataError(
                f"{count} devices need as many rows and times, not {len(rows)} rows and times {times.shape}"
            )
        if len(set(devices)) < count:
            twice = next(device for index, device in enumerate(devices) if device in devices[:index])
            raise DataError(f"{twice} is in the batch twice; push its second row in another batch")
        if not np.isfinite(times).all():
            wrong = int(np.argmin(np.isfinite(times)))
            raise DataError(f"{devices[wrong]}: the time {times[wrong]} is not a number of seconds")
        models = {device: self._models.get(device) or self.route(device) for device in devices}
        indices_by_name = _group_by_name(models[device] for device in devices)
        # All rows are checked before anything changes.
        stacked = {name: self._stack_rows(name, indices, devices, rows) for name, indices in indices_by_name.items()}
        self._models |= models
        factors = np.array([widths.get(device, 1.0) for device in devices]) if widths else np.ones(count)
        if len(stacked) == 1:
            ((name, all_rows),) = stacked.items()  # all devices have one calibrator: nothing to put together
            return self._groups[name].push(devices, times, all_rows, factors)
        low, value, high = np.empty((3, len(devices)))
        calibrated = CalibratedRows(value, low, high, np.empty(len(devices), np.uint32))
        for name, indices in indices_by_name.items():
            members = [devices[index] for index in indices.tolist()]
            of_group = self._groups[name].push(members, times[indices], stacked[name], factors[indices])
            for column, numbers in zip(calibrated, of_group, strict=True):
                column[indices] = numbers
        return calibrated

    def beyond_training(self, device: str, row: np.ndarray) -> tuple[float, str]:
        """Return how far a device's newest row lies beyond training, in training ranges, and in which channel.

        The row must be flagged OUTSIDE. The channel is empty if no value lies beyond training by itself: then such
        values did not occur together there.
        """
        return self._groups[self._models[device]].beyond_training(device, row)

    def watched(self, devices: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return expected error and drift state of each device (`upkeep.live_drift`) after the last whole day.

        Both are [n]; NaN and `DriftState.UNKNOWN` where they are not known.
        """
        expected, states = np.empty(len(devices)), np.empty(len(devices), np.int8)
        for name, indices in _group_by_name(self._models[device] for device in devices).items():
            some = self._groups[name].watched([devices[index] for index in indices.tolist()])
            expected[indices], states[indices] = some
        return expected, states

    def replace(self, name: str, calibrator: Calibrator) -> None:
        """Use another calibrator in place of the one of this name.

        Devices keep their windows if both calibrators have the same channels, step, window, rules and way to scale new
        devices; otherwise they start new histories, and the next row of each gets the flag RESTART. Drift starts anew.
        """
        if name not in self._groups:
            raise UsageError(f"there is no calibrator '{name}' to replace, only {', '.join(self._groups)}")
        self._groups[name] = self._groups[name].with_calibrator(calibrator)

    def state(self) -> FleetState:
        """Return everything remembered; the next push changes the arrays."""
        groups = self._groups.items()
        arrays = {f"{name}/{key}": array for name, group in groups for key, array in group.state().items()}
        devices = {name: list(group.devices) for name, group in groups}
        return FleetState(arrays, devices, {name: group.history_key for name, group in groups})

    def restore(self, state: FleetState) -> None:
        """Continue from a state; devices whose calibrator now has another history key start a new history."""
        for name, group in self._groups.items():
            devices = state.devices.get(name, ())
            prefix = f"{name}/"
            if state.histories.get(name) == group.history_key:
                saved = state.arrays.items()
                group.restore(
                    devices, {key.removeprefix(prefix): array for key, array in saved if key.startswith(prefix)}
                )
            else:
                group.restart(devices)
            for device in devices:
                self.admit(device)

    def _stack_rows(
        self, name: str, indices: np.ndarray, devices: Sequence[str], rows: np.ndarray | Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return the rows at these indices, all of the calibrator `name`, as an array [n, channels]."""
        channels = self._groups[name].calibrator.inputs.channels
        if isinstance(rows, np.ndarray):
            wrong = None if rows.shape[1:] == (len(channels),) else int(indices[0])
        else:
            wrong = next((index for index in indices.tolist() if np.shape(rows[index]) != (len(channels),)), None)
        if wrong is not None:
            names = ", ".join(channel.name for channel in channels)
            raise DataError(
                f"{devices[wrong]}: its row has the shape {np.shape(rows[wrong])};"
                f" '{name}' reads {len(channels)} numbers ({names})"
            )
        if isinstance(rows, np.ndarray):
            return np.asarray(rows[indices], float)
        return np.array([rows[index] for index in indices.tolist()], float)


class DeviceGroup:
    """The devices of one calibrator, in the order in which they first reported."""

    def __init__(self, calibrator: Calibrator) -> None:
        self.calibrator = calibrator
        self._windows = LiveWindows(calibrator.inputs)
        self._drift = DriftMonitor(calibrator)
        self._choices = DeviceArrays(
            {
                "deep": np.array(False),  # whether the deep branch is in use
                "left": np.array(0, np.int32),  # for how many more windows the branch stays
            }
        )
        self._pace = DeviceArrays(
            {
                "newest": np.array(np.nan),  # time of the newest reading, in seconds
                "gaps": np.full(GAPS, np.nan),  # seconds between the last readings, the newest last
            }
        )

    @property
    def devices(self) -> Mapping[str, int]:
        """The index of each device, by name."""
        return self._windows.devices

    @property
    def history_key(self) -> str:
        """A key that two calibrators share if one can continue the histories of the other's devices."""
        return _history_key(self.calibrator.inputs)

    def last_time(self, device: str) -> float:
        """Return the time of the newest reading of a device, NaN before the first."""
        index = self.devices.get(device)
        if index is None:
            return np.nan
        newest = self._pace["newest"].item(index)
        return self._windows.last_time(index) if isnan(newest) else newest  # NaN in a snapshot of an older version

    def record_time(self, device: str, time: float) -> None:
        """Take note of the time of a device's reading; a late one changes nothing, unless the clock was set back."""
        inputs = self.calibrator.inputs
        index = self.devices.get(device)
        if index is None:
            index = int(self._find([device])[0])  # adds it
        gap = time - self._pace["newest"].item(index)
        if -inputs.window * inputs.step_seconds <= gap <= 0:  # late; further back than a window, the clock was set back
            return
        self._pace["newest"][index] = time
        if gap > 0:
            gaps = self._pace["gaps"][index]
            gaps[:-1], gaps[-1] = gaps[1:], gap

    def gaps(self, device: str) -> list[float]:
        """Return the last times between readings of a device, in seconds, the shortest first."""
        index = self.devices.get(device)
        known = () if index is None else self._pace["gaps"][index].tolist()
        return sorted(gap for gap in known if not isnan(gap))

    def push(self, devices: Sequence[str], times: np.ndarray, rows: np.ndarray, widths: np.ndarray) -> CalibratedRows:
        """Calibrate a row [n, channels] of each device, whose intervals are `widths` [n] times as wide as usual."""
        indices = self._find(devices)
        values = np.empty(len(devices))
        flags = np.empty(len(devices), np.uint32)
        for start in range(0, len(indices), BLOCK):
            block = slice(start, start + BLOCK)
            values[block], flags[block] = self._push_block(indices[block], times[block], rows[block])
        return self.calibrator.add_intervals(values, flags, widths)

    def with_calibrator(self, calibrator: Calibrator) -> "DeviceGroup":
        """Switch the devices to another calibrator and return the group to use from now on.

        If the history keys agree, this is the group itself, changed in place, and histories continue. Otherwise it is a
        new group in which every device starts a new history. Drift is always assessed anew: what is usual for a device
        was measured with the calibrator that is replaced.
        """
        if _history_key(calibrator.inputs) == self.history_key:
            self.calibrator = calibrator
            self._drift = DriftMonitor(calibrator)
            self._drift.add(len(self.devices))
            self._windows.replace_inputs(calibrator.inputs)
            return self
        group = DeviceGroup(calibrator)
        group.restart(list(self.devices))
        return group

    def restart(self, devices: Sequence[str]) -> None:
        """Start new histories for these devices; their next rows get the flag RESTART."""
        self._windows.restart(self._find(devices))

    def beyond_training(self, device: str, row: np.ndarray) -> tuple[float, str]:
        """Return how far a device's newest row lies beyond training, in training ranges, and in which channel.

        The channel is empty if no value lies beyond training by itself, only all of them together.
        """
        ranges, channels = self._windows.beyond_training(self._find([device]), row[None])
        return float(ranges[0]), self.calibrator.inputs.channels[channels[0]].name if ranges[0] > 0 else ""

    def watched(self, devices: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return expected error and drift state of each device after the last whole day, both [n].

        They are NaN and `DriftState.UNKNOWN` where they are not known.
        """
        indices = self._find(devices)
        return self._drift.expected_errors(indices), self._drift.states(indices)

    def state(self) -> dict[str, np.ndarray]:
        """Return everything remembered: plain arrays by name, which the next push changes."""
        drift = {f"watching.{name}": array for name, array in self._drift.state().items()}
        choices = {f"device.{name}": array for name, array in self._choices.state().items()}
        pace = {f"pace.{name}": array for name, array in self._pace.state().items()}
        return {**self._windows.state(), **choices, **pace, **drift}

    def restore(self, devices: Sequence[str], state: Mapping[str, np.ndarray]) -> None:
        """Take over the state of another group, whose arrays have a row for each of these devices, in this order."""
        self._windows.restore(devices, state)
        self._choices.restore({name: state[f"device.{name}"] for name in ("deep", "left")})
        drift = {key.removeprefix("watching."): array for key, array in state.items() if key.startswith("watching.")}
        if drift:
            self._drift.restore(drift)
        else:  # a snapshot of an older version; so below
            self._drift.add(len(devices))
        pace = {key.removeprefix("pace."): array for key, array in state.items() if key.startswith("pace.")}
        if pace:
            self._pace.restore(pace)
        else:
            self._pace.add(len(devices))

    def _find(self, devices: Sequence[str]) -> np.ndarray:
        """Return the indices of devices [n]; new ones are added."""
        count_before = len(self.devices)
        indices = self._windows.find(devices)
        if new := len(self.devices) - count_before:
            self._choices.add(new)
            self._drift.add(new)
            self._pace.add(new)
        return indices

    def _push_block(self, indices: np.ndarray, times: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Calibrate a row [n, channels] of each device, given by index [n], and record it for drift.

        Returns values and flags [n].
        """
        windows, flags, usable = self._windows.push(indices, times, rows)
        self._choices.clear(indices[(flags & Flag.RESTART) > 0])
        values = np.full(len(indices), np.nan)
        has_window = (flags & NO_VALUE) == 0  # `windows` are of these rows only
        values[has_window] = self._compute(indices[has_window], windows)
        scaled_values = self.calibrator.inputs.scaling.target.apply(values[:, None])
        watched = np.column_stack([scaled_values, self._windows.as_trained(indices, usable)])
        self._drift.record(indices, times, watched, flags)
        return values, flags

    def _compute(self, indices: np.ndarray, windows: np.ndarray) -> np.ndarray:
        """Compute the values [m] of windows [m, window, channels], going on from each device's choice of branch."""
        choices = BatchChoice(self._choices["deep"][indices], self._choices["left"][indices])
        values = self.calibrator.compute(windows, choices, self._windows.effects(indices))
        self._choices["deep"][indices], self._choices["left"][indices] = choices.deep, choices.left
        return values


def split_batches(devices: Sequence[str]) -> list[list[int]]:
    """Split a sequence of devices into batches with at most one of each, as indices in the order of the sequence.

    >>> split_batches(["a", "a", "b"])
    [[0, 2], [1]]
    """
    batches: list[list[int]] = []
    counts: Counter[str] = Counter()
    for index, device in enumerate(devices):
        number = counts[device]  # a device's nth reading goes to the nth batch
        counts[device] += 1
        if number == len(batches):
            batches.append([])
        batches[number].append(index)
    return batches


def choose_route(routes: Sequence[Route], device: str) -> str | None:
    """Return the calibrator of the most specific route that matches a device: name, pattern, then `*`."""

    def generality(route: Route) -> int:
        return 2 if route.pattern == DEFAULT else int(any(sign in route.pattern for sign in "*?["))

    matching = (route for route in routes if device == route.pattern or fnmatchcase(device, route.pattern))
    best = min(matching, key=generality, default=None)
    return best.calibrator if best else None


def _history_key(inputs: Inputs) -> str:
    """Return as text what a device's history depends on.

    That is channels, step, window, the rules for gaps and quality, and how a new device's scaling settles.
    """
    own_share = inputs.scaling.own_share
    settling = (inputs.scaling.settle, None if own_share is None else own_share.tolist())
    return repr((inputs.channels, inputs.step_seconds, inputs.window, inputs.policy, inputs.quality, *settling))


def _group_by_name(names: Iterable[str]) -> dict[str, np.ndarray]:
    """Return the indices [n] at which each name occurs."""
    indices: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        indices.setdefault(name, []).append(index)
    return {name: np.array(of_name) for name, of_name in indices.items()}
