"""Live windows: the windows and flags of `windows` and `inputs`, one reading per device at a time, in fixed memory.

    reading → unusable values as missing → ring buffer (gap rule) → quality rules → device's scaling → training range

The state machine is the same for one device (`Calibrator.live`) and for all devices of a calibrator (`live/fleet`):
every array has one row per device, and a push takes at most one reading of each. `at` are always the indices of these
rows [n]. The results must agree to the bit with `windows.make_grid` and `inputs.WindowStream`, which do the same for a
table; as there, a *real* row was measured and is complete.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from scare.data.flags import NO_VALUE, Flag, FlagState
from scare.windowing.device_arrays import DeviceArrays
from scare.windowing.inputs import Inputs, check_rows
from scare.windowing.scaling import Affine, Settling
from scare.windowing.training_range import update_slow_mean
from scare.windowing.windows import GapPolicy

# In "settling", in place of an index into `Settling`:
SETTLED, KNOWN = -1, -2  # a new device that has its own scaling by now; a device whose scaling the calibrator knows
ONLY = np.zeros(1, np.int64)  # the indices `at` where there is one device

EARLY, MISSING, HISTORY, RESTART, OUTSIDE, UNSETTLED, NO_WINDOW, NOT_REAL = map(
    np.uint32,  # NumPy takes several times as long to combine an array with a member of Flag
    (
        Flag.EARLY,
        Flag.MISSING,
        Flag.HISTORY,
        Flag.RESTART,
        Flag.OUTSIDE,
        Flag.UNSETTLED,
        NO_VALUE,
        Flag.EARLY | Flag.MISSING,
    ),
)


class RingBuffer(DeviceArrays):
    """The newest `window` slots of each device, under the gap rule of `windows`.

    >>> from scare.windowing.windows import STRICT
    >>> ring = RingBuffer(2, 1, 60.0, STRICT)
    >>> both = ring.add(2)
    >>> [ring.push(both, np.full(2, 60.0 * i), np.array([[i], [10.0 * i]])).tolist() for i in range(2)]
    [[1024, 1024], [0, 0]]
    >>> ring.windows(both)[..., 0]
    array([[ 0.,  1.], [ 0., 10.]])
    """

    def __init__(self, window: int, channels: int, step_seconds: float, policy: GapPolicy) -> None:
        self._policy, self._window, self._step_seconds = policy, window, step_seconds
        self._needed, self._order = policy.rows_needed(window), np.arange(window)
        zero = np.array(0, np.int32)
        super().__init__(
            {
                "rows": np.full((window, channels), np.nan),
                "checked": np.zeros(policy.rows_checked(window), bool),  # was each of the newest rows real? a ring, too
                "next": zero,  # the slot of the next row, which overwrites the oldest one
                "next_checked": zero,  # like "next", for the ring "checked"
                "age": zero + policy.hold + 1,  # steps since the last real row
                "since_broken": zero,  # slots since a row was repeated for longer than the policy allows
                "filled": np.array(False),  # has there been a real row?
                "last_time": np.array(np.nan),
            }
        )

    def push(self, at: np.ndarray, times: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Take a row [n, channels], with NaN for missing values, at `times` (seconds) [n] of each device `at`.

        Returns flags, uint32 [n]: EARLY, MISSING or HISTORY if the row has no window, and RESTART if the clock went
        back by more than a window.
        """
        flags = np.zeros(len(at), np.uint32)
        last = self["last_time"][at]
        went_back = times < last - self._window * self._step_seconds
        if np.count_nonzero(went_back):
            self.clear(at[went_back])
            flags[went_back] = RESTART
            last[went_back] = np.nan
        # Slots from the last row to this one, which `astype` rounds down later; 0.5 makes that half up.
        jumps = np.where(np.isnan(last), 1.0, (times - last) / self._step_seconds + 0.5)
        used = jumps >= 1
        real = np.isfinite(rows).all(axis=1)
        if np.count_nonzero(used & real & (jumps < 2)) == len(at):  # the usual case needs no masks
            return flags | self._take(at, times, rows)
        flags[~used] |= EARLY
        flags[used & ~real] |= MISSING
        self["last_time"][at[used]] = times[used]
        # Slots to fill by repeating the row before: all of a jump but its last, which the new row takes if it is real.
        holes = np.minimum(jumps, self._policy.longest_jump(self._window)).astype(np.int64) - real  # [n]
        for filled in range(holes[used].max(initial=0)):
            self._repeat(at[used & (holes > filled)])
        real &= used
        flags[real] |= self._take(at[real], times[real], rows[real])
        return flags

    def windows(self, at: np.ndarray) -> np.ndarray:
        """Copy the window of each device `at`, oldest row first: [n, window, channels]."""
        order = (self["next"][at, None] + self._order) % self._window
        rows = self["rows"]
        return rows.reshape(-1, rows.shape[2]).take(order + self._window * at[:, None], axis=0)

    def _take(self, at: np.ndarray, times: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Put a real row [n, channels] into the next slot of each device.

        Returns HISTORY where the gap policy does not allow the window, else 0: uint32 [n].
        """
        first = ~self["filled"][at]
        if np.count_nonzero(first):  # the first row fills the window
            self["rows"][at[first]] = rows[first, None]
            self["filled"][at[first]] = True
        slot = self["next"][at]
        self["rows"][at, slot] = rows
        self["last_time"][at] = times
        self["age"][at] = 0
        since_broken = self["since_broken"][at] = self["since_broken"][at] + 1
        checked = self._advance(at, slot, real=True)
        # Of the rows that the policy checks, enough are real, and none repeats a row that is too old.
        has_window = (checked.sum(axis=1) >= self._needed) & (since_broken >= checked.shape[1])
        return HISTORY * ~has_window

    def _repeat(self, at: np.ndarray) -> None:
        """Fill the next slot of each device, a hole, with its newest row."""
        slot = self["next"][at]
        # A longer age says no more: at `hold` + 1 the row is too old already.
        age = np.minimum(self["age"][at], self._policy.hold) + 1
        self["rows"][at, slot] = self["rows"][at, slot - 1]  # before slot 0 comes the last one, -1
        self["age"][at] = age
        self["since_broken"][at] = np.where(age > self._policy.hold, 0, self["since_broken"][at] + 1)
        self._advance(at, slot, real=False)

    def _advance(self, at: np.ndarray, slot: np.ndarray, real: bool) -> np.ndarray:
        """Move on from `slot` [n], which now has a row: a real one (`real`), or the row before it once more.

        Returns which of the newest rows, those that the gap policy checks, are real: bool [n, checked].
        """
        self["next"][at] = (slot + 1) % self._window
        checked, slot = self["checked"], self["next_checked"][at]
        checked[at, slot] = real
        self["next_checked"][at] = (slot + 1) % checked.shape[1]
        return checked[at]


class LiveWindows:
    """Scaled windows and flags of any number of devices, as their readings arrive.

    `devices` maps names to the indices of their rows in every array.
    """

    def __init__(self, inputs: Inputs, devices: Sequence[str] = ()) -> None:
        channels = len(inputs.channels)
        self._inputs, self._quality, self.devices = inputs, inputs.flagging(), dict[str, int]()
        self._ring = RingBuffer(inputs.window, channels, inputs.step_seconds, inputs.policy)
        self._past = DeviceArrays({name: array[0] for name, array in vars(FlagState.empty(1, channels)).items()})
        self._settling = Settling(inputs.scaling)
        self._scaling = DeviceArrays(
            {
                "center": np.zeros(channels),
                "scale": np.ones(channels),
                "mean": np.full(channels, np.nan),  # mean of the first readings of a settled device
                "settling": np.array(KNOWN, np.int32),  # the device's place in `Settling`, SETTLED or KNOWN
                "restarted": np.array(False),  # is the next row the first of a new history?
                "slow": np.array(self._usual_distance),  # exponential moving average of the distances to training
            }
        )
        # `DeviceEffect` of each device: derived from the inputs, so not part of the saved state.
        self._effects = DeviceArrays({"offset": np.array(0.0), "slope": np.array(0.0)})
        self.find(devices)

    def find(self, devices: Sequence[str]) -> np.ndarray:
        """Look up the indices of these devices [n]; devices not seen before are added."""
        new = [device for device in devices if device not in self.devices]
        if new:
            at = self._ring.add(len(new))
            self._past.add(len(new))
            self._scaling.add(len(new))
            self._effects.add(len(new))
            self.devices.update(zip(new, at.tolist(), strict=True))
            self._assign_scaling(new, at)
        return np.fromiter((self.devices[device] for device in devices), np.int64, len(devices))

    def push(self, at: np.ndarray, times: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Take a row [n, channels] at `times` (seconds) [n] of each device `at`, none of them twice.

        Returns the scaled windows [m, window, channels], float32, of the m rows without a `NO_VALUE` flag; all flags,
        uint32 [n]; and the rows with NaN for unusable values [n, channels].
        """
        scaling = self._scaling
        usable, flags = self._inputs.usable_rows(rows)
        reasons = self._ring.push(at, times, usable)
        if np.count_nonzero(restarted := scaling["restarted"][at]):
            reasons[restarted] |= RESTART
            scaling["restarted"][at] = False
        if np.count_nonzero(reasons & RESTART):  # a new history begins; only the scaling stays
            restarting = at[(reasons & RESTART) > 0]
            self._past.clear(restarting)
            scaling["slow"][restarting] = self._usual_distance
        flags |= reasons | self._quality_flags(at, times, usable)
        # Devices with a place in `Settling`, 0 or above, do not have their own scaling yet.
        if not np.count_nonzero(reasons & NO_WINDOW):  # the usual case needs no masks
            flags |= self._compare_with_training(at, usable)
            flags[scaling["settling"][at] >= 0] |= UNSETTLED
            return self._scaled_windows(at), flags, usable
        real, has_window = (reasons & NOT_REAL) == 0, (reasons & NO_WINDOW) == 0
        flags[real] |= self._compare_with_training(at[real], usable[real])
        flags[has_window & (scaling["settling"][at] >= 0)] |= UNSETTLED
        return self._scaled_windows(at[has_window]), flags, usable

    def push_one(self, time: float, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Like `push`, for a row [channels] of the only device.

        Returns its window, if it has one, [0 or 1, window, channels], and its flags [1].
        """
        times, rows = np.full(1, time), np.asarray(row, float)[None]
        (device,) = self.devices
        check_rows(self._inputs, device, times, rows)
        windows, flags, _ = self.push(ONLY, times, rows)
        return windows, flags

    def last_time(self, index: int) -> float:
        """Return the time of the newest row of the device with this index, NaN before the first."""
        return float(self._ring["last_time"][index])

    def as_trained(self, at: np.ndarray, usable: np.ndarray) -> np.ndarray:
        """Scale rows [n, channels] as training did: a device that was not in training has the fleet's scaling.

        Unlike here, a new device has its own scaling in the windows, once it has sent enough readings.
        """
        fleet = self._inputs.scaling.fleet
        is_known = (self._scaling["settling"][at] == KNOWN)[:, None]
        center = np.where(is_known, self._scaling["center"][at], fleet.center)
        scale = np.where(is_known, self._scaling["scale"][at], fleet.scale)
        return Affine(center, scale).apply(usable)

    def beyond_training(self, at: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how far the newest rows [n, channels] lie beyond training, and in which channel: two arrays [n].

        The distance is in widths of that channel's range in training.
        """
        assert self._inputs.training_range is not None
        scaled = Affine(self._scaling["center"][at], self._scaling["scale"][at]).apply(values).astype(np.float32)
        return self._inputs.training_range.beyond(scaled)

    def effects(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Look up what each device adds to the scaled output: offsets [n] and slopes of channel 0 [n]."""
        return self._effects["offset"][at], self._effects["slope"][at]

    def restart(self, at: np.ndarray) -> None:
        """Flag the next row of these devices with RESTART, because their model was replaced."""
        self._scaling["restarted"][at] = True

    def replace_inputs(self, inputs: Inputs) -> None:
        """Continue with inputs that differ only in their scaling and training range."""
        self._inputs = inputs
        self._settling.replace_scaling(inputs.scaling)
        self._assign_scaling(list(self.devices), np.arange(len(self.devices)))

    def state(self) -> dict[str, np.ndarray]:
        """Return the state of all devices, as plain arrays by name, which the next push changes."""
        parts = self._parts.items()
        return {f"{part}.{name}": array for part, arrays in parts for name, array in arrays.state().items()}

    def restore(self, devices: Sequence[str], state: Mapping[str, np.ndarray]) -> None:
        """Replace the state by that of other live windows with these devices."""
        for part, arrays in self._parts.items():
            arrays.restore(
                {name.partition(".")[2]: array for name, array in state.items() if name.startswith(f"{part}.")}
            )
        self.devices = {device: index for index, device in enumerate(devices)}
        self._effects.add(len(devices) - len(self._effects))  # they are not saved, only given as many rows
        self._assign_scaling(devices, np.arange(len(devices)))

    @property
    def _parts(self) -> dict[str, DeviceArrays]:
        """The saved arrays, by the prefix of their names in `state`."""
        return {"ring": self._ring, "past": self._past, "settling": self._settling, "device": self._scaling}

    @property
    def _usual_distance(self) -> float:
        return self._inputs.training_range.usual if self._inputs.training_range else 0.0

    def _assign_scaling(self, devices: Sequence[str], at: np.ndarray) -> None:
        """Give devices the scaling that the calibrator has for them.

        A device that it does not know has the fleet's until it has sent enough readings for its own (`_settle`). One
        that had its own before the fleet's was replaced keeps its mean, from which its centre is computed again.
        """
        scaling, current = self._inputs.scaling, self._scaling
        for device, index in zip(devices, at.tolist(), strict=True):
            self._effects["offset"][index], self._effects["slope"][index] = scaling.effect(device)
            known, place = scaling.known(device), current["settling"][index]
            affine = known or scaling.fleet
            if place == SETTLED and known is None:
                if np.isnan(current["mean"][index]).any():  # a snapshot of an older version: the scaling stays as it is
                    continue
                affine = scaling.shifted(current["mean"][index] - scaling.fleet.center)
            current["center"][index], current["scale"][index] = affine.center, affine.scale
            if known is not None:
                if place >= 0:  # it was about to get a scaling from its first readings
                    self._settling.release(np.array([place]))
                current["settling"][index] = KNOWN
            elif place == KNOWN:  # as new devices are, too
                current["settling"][index] = self._settling.allocate(1)[0]

    def _quality_flags(self, at: np.ndarray, times: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Apply the quality rules, which remember each device's past, to a row of each device: uint32 [n]."""
        # `_quality` has the past of one batch of devices: load that of the devices `at`, and store it again afterwards.
        past = self._past
        self._quality.past = FlagState(**{name: past[name][at] for name in vars(self._quality.past)})
        flags = self._quality.push(times[None], values[None])[0]
        for name, array in vars(self._quality.past).items():
            past[name][at] = array
        return flags

    def _compare_with_training(self, at: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Take a real row of each device; return OUTSIDE or 0, uint32 [n].

        It counts for the scaling of a device that does not have its own yet, and for the moving average of the device's
        distances to training.
        """
        scaling, training_range = self._scaling, self._inputs.training_range
        is_unsettled = scaling["settling"][at] >= 0  # a place in `Settling`: the device has no scaling of its own yet
        if np.count_nonzero(is_unsettled):
            self._settle(at[is_unsettled], rows[is_unsettled])
        if training_range is None:
            return np.zeros(len(at), np.uint32)
        scaled = Affine(scaling["center"][at], scaling["scale"][at]).apply(rows).astype(np.float32)
        distances = training_range.distances(scaled)
        slow = scaling["slow"][at] = update_slow_mean(scaling["slow"][at], distances, self._inputs.window)
        return OUTSIDE * training_range.outside(scaled, distances, slow)

    def _settle(self, at: np.ndarray, rows: np.ndarray) -> None:
        """Count a real row of each device whose scaling is not settled; one with enough of them gets its own."""
        scaling = self._scaling
        places = scaling["settling"][at]
        has_settled = self._settling.update(places, rows)
        if has_settled.any():
            settled, freed = at[has_settled], places[has_settled]
            affine = self._settling.affine(freed)
            scaling["center"][settled] = affine.center
            scaling["scale"][settled] = affine.scale
            scaling["mean"][settled] = self._settling.means(freed)
            scaling["settling"][settled] = SETTLED
            self._settling.release(freed)

    def _scaled_windows(self, at: np.ndarray) -> np.ndarray:
        """Return the windows of the devices `at`, each with its device's scaling: float32 [n, window, channels]."""
        windows, center, scale = self._ring.windows(at), self._scaling["center"][at], self._scaling["scale"][at]
        scaled = np.empty(windows.shape, np.float32)
        for channel in range(windows.shape[2]):  # per channel, NumPy's inner loops are long and fast
            affine = Affine(center[:, channel, None], scale[:, channel, None])  # [n, 1]: of each device
            scaled[..., channel] = affine.apply(windows[..., channel])
        return scaled
