"""A fleet is any number of devices calibrated as they report: each row with its device's history, many rows at once.

Which device is read by which calibrator is data (`Route`). Rows come in batches with at most one row of a device; what
`push` gives for a row is what `Calibrator.live` of that device would give. All state can be taken out as plain arrays
and put back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from scare.calibrator.calibrator import CalibratedRows, Calibrator
from scare.data.flags import NO_VALUE, Flag, FlagState
from scare.errors import DataError, UsageError
from scare.kernels import BatchChoice
from scare.upkeep.live_drift import DriftMonitor
from scare.windowing.inputs import Inputs
from scare.windowing.live import Columns, Rings
from scare.windowing.scaling import Affine, Settling
from scare.windowing.training_range import update_slow_mean

# A group is the devices that one calibrator reads, side by side: rings, scalings, choices, what is remembered.


OWN, KNOWN = -1, -2  # in place of a place among those who settle: has settled, needs no settling
BLOCK = 512  # rows taken at once: few enough to stay in a core's cache
State = dict[str, np.ndarray]


class Group:
    """Devices and their state; every array has a row for each device, in the order they came."""

    def __init__(self, calibrator: Calibrator) -> None:
        inputs, channels = calibrator.inputs, len(calibrator.inputs.channels)
        self.calibrator, self.devices = calibrator, dict[str, int]()
        self._rings = Rings(inputs.window, channels, inputs.step_seconds, inputs.policy)
        self._past = Columns({name: array[0] for name, array in vars(FlagState.empty(1, channels)).items()})
        self._settling, self._watching = Settling(inputs.scaling), DriftMonitor(calibrator)
        self._columns = Columns(
            {
                "center": np.zeros(channels),
                "scale": np.ones(channels),
                "settling": np.array(KNOWN, np.int32),  # the place among those who settle, or why there is none
                "deep": np.array(False),  # the branch in use, and
                "left": np.array(0, np.int32),  # for how many more windows
                "restarted": np.array(False),  # whether the next row begins a history anew
                "slow": np.array(_usual(calibrator)),  # mean of the distances to training
            }
        )

    @property
    def history(self) -> str:
        """What two calibrators must have in common for one to go on with the other's devices."""
        return history_of(self.calibrator.inputs)

    def push(self, devices: Sequence[str], times: np.ndarray, rows: np.ndarray) -> CalibratedRows:
        """What a row [n, channels] of each device becomes."""
        at, values, flags = self._find(devices), np.empty(len(devices)), np.empty(len(devices), np.uint32)
        for start in range(0, len(at), BLOCK):
            part = slice(start, start + BLOCK)
            values[part], flags[part] = self._push(at[part], times[part], rows[part])
        return self.calibrator.add_intervals(values, flags)

    def with_calibrator(self, calibrator: Calibrator) -> "Group":
        """The same devices read by another calibrator: as if always, or with a history that begins anew."""
        if history_of(calibrator.inputs) == self.history:
            self.calibrator, self._watching = calibrator, DriftMonitor(calibrator)
            self._watching.add(len(self.devices))
            self._settling.follow(calibrator.inputs.scaling)
            self._scale(list(self.devices), np.arange(len(self.devices)))
            return self
        group = Group(calibrator)
        group.restart(list(self.devices))
        return group

    def restart(self, devices: Sequence[str]) -> None:
        """Begin new histories of these devices; their next rows say so."""
        at = self._find(devices)  # before the array is asked for: it may have to grow
        self._columns["restarted"][at] = True

    def watched(self, devices: Sequence[str]) -> np.ndarray:
        """Whether each device drifts (`upkeep.judging.State`), or that it is not known yet [n]."""
        return self._watching.states(self._find(devices))

    def state(self) -> State:
        """Plain arrays by name."""
        return {f"{part}.{name}": array for part, kept in self._parts.items() for name, array in kept.state().items()}

    def restore(self, devices: Sequence[str], state: Mapping[str, np.ndarray]) -> None:
        """Take the state of another group."""
        for part, kept in self._parts.items():
            inside = {name.partition(".")[2]: array for name, array in state.items() if name.startswith(f"{part}.")}
            if inside:
                kept.restore(inside)
            else:  # of an older version
                kept.add(len(devices))
        self.devices = {device: index for index, device in enumerate(devices)}
        self._scale(devices, np.arange(len(devices)))

    def _push(self, at: np.ndarray, times: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inputs = self.calibrator.inputs
        usable, flags = inputs.usable_rows(rows)
        reasons = self._rings.push(at, times, usable) | self._replaced(at)
        self._forget(at[(reasons & Flag.RESTART) > 0])
        flags |= reasons | self._remarks(at, times, usable)
        taken, due = (reasons & (Flag.EARLY | Flag.MISSING)) == 0, (reasons & NO_VALUE) == 0
        self._settle(at[taken], usable[taken])
        flags[taken] |= self._outside(at[taken], usable[taken])
        flags[due & (self._columns["settling"][at] >= 0)] |= np.uint32(Flag.UNSETTLED)
        values = np.full(len(at), np.nan)
        values[due] = self._compute(at[due])
        self._watching.see(at, times, self._in_scales(at, values, usable), flags)
        return values, flags

    @property
    def _parts(self) -> dict[str, Columns]:
        return {
            "ring": self._rings,
            "past": self._past,
            "settling": self._settling,
            "device": self._columns,
            "watching": self._watching,
        }

    def _find(self, devices: Sequence[str]) -> np.ndarray:
        """The numbers of devices, which are given one where they are new."""
        new = [device for device in devices if device not in self.devices]
        if new:
            at = self._rings.add(len(new))
            self._past.add(len(new))
            self._columns.add(len(new))
            self._watching.add(len(new))
            self.devices.update(zip(new, at.tolist(), strict=True))
            self._scale(new, at)
        return np.fromiter((self.devices[device] for device in devices), np.int64, len(devices))

    def _scale(self, devices: Sequence[str], at: np.ndarray) -> None:
        """Give devices the scaling that the calibrator has for them; those it does not know settle."""
        scaling, column = self.calibrator.inputs.scaling, self._columns
        for device, index in zip(devices, at.tolist(), strict=True):
            known, place = scaling.known(device), column["settling"][index]
            if place == OWN and known is None:
                continue
            affine = known or scaling.fleet
            column["center"][index], column["scale"][index] = affine.center, affine.scale
            if known is not None and place >= 0:
                self._settling.leave(np.array([place]))
            if known is not None:
                column["settling"][index] = KNOWN
            elif place == KNOWN:
                column["settling"][index] = self._settling.enter(1)[0]

    def _replaced(self, at: np.ndarray) -> np.ndarray:
        """RESTART where the history begins anew because the calibrator is another, uint32 [n]."""
        flags = np.where(self._columns["restarted"][at], np.uint32(Flag.RESTART), np.uint32(0))
        self._columns["restarted"][at] = False
        return flags

    def _forget(self, at: np.ndarray) -> None:
        """Devices that begin anew: only their scaling stays."""
        self._past.clear(at)
        self._columns["deep"][at], self._columns["left"][at] = False, 0
        self._columns["slow"][at] = _usual(self.calibrator)

    def _remarks(self, at: np.ndarray, times: np.ndarray, usable: np.ndarray) -> np.ndarray:
        """What the quality rules say of a row of each device, uint32 [n]."""
        flagging = self.calibrator.inputs.flagging()
        names = list(vars(flagging.past))
        flagging.past = FlagState(**{name: self._past[name][at] for name in names})
        flags = flagging.push(times[None], usable[None])[0]
        for name in names:
            self._past[name][at] = getattr(flagging.past, name)
        return flags

    def _in_scales(self, at: np.ndarray, values: np.ndarray, usable: np.ndarray) -> np.ndarray:
        """What is watched of rows [n, 1 + channels]: a device that was not in training in the fleet's scales."""
        scaling, column = self.calibrator.inputs.scaling, self._columns
        own = (column["settling"][at] == KNOWN)[:, None]
        center = np.where(own, column["center"][at], scaling.fleet.center)
        scale = np.where(own, column["scale"][at], scaling.fleet.scale)
        return np.column_stack([scaling.target.apply(values[:, None]), Affine(center, scale).apply(usable)])

    def _settle(self, at: np.ndarray, real: np.ndarray) -> None:
        """Take real rows of devices, some of which have no scaling of their own yet."""
        column = self._columns
        unsettled = column["settling"][at] >= 0
        if not unsettled.any():
            return
        at, places = at[unsettled], column["settling"][at[unsettled]]
        done = self._settling.see(places, real[unsettled])
        affine = self._settling.affine(places[done])
        column["center"][at[done]], column["scale"][at[done]] = affine.center, affine.scale
        column["settling"][at[done]] = OWN
        self._settling.leave(places[done])

    def _outside(self, at: np.ndarray, real: np.ndarray) -> np.ndarray:
        """OUTSIDE where a real row of each device is unlike training, uint32 [n]."""
        training_range, column = self.calibrator.inputs.training_range, self._columns
        if training_range is None:
            return np.zeros(len(at), np.uint32)
        rows = Affine(column["center"][at], column["scale"][at]).apply(real).astype(np.float32)
        distances = training_range.distances(rows)
        slow = column["slow"][at] = update_slow_mean(column["slow"][at], distances, self.calibrator.window)
        return np.where(training_range.outside(rows, distances, slow), np.uint32(Flag.OUTSIDE), np.uint32(0))

    def _compute(self, at: np.ndarray) -> np.ndarray:
        """Calibrated values of the windows of devices [n]."""
        column = self._columns
        choices = BatchChoice(column["deep"][at], column["left"][at])
        scaled = _scaled(self._rings.windows(at), column["center"][at], column["scale"][at])
        values = self.calibrator.compute(scaled, choices)
        column["deep"][at], column["left"][at] = choices.deep, choices.left
        return values


def _scaled(windows: np.ndarray, center: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Each window [n, window, channels] by the scaling of its device [n, channels]; one long loop for each channel."""
    scaled = np.empty(windows.shape, np.float32)
    for channel in range(windows.shape[2]):
        own = Affine(center[:, channel, None], scale[:, channel, None])
        scaled[..., channel] = own.apply(windows[..., channel])
    return scaled


def _usual(calibrator: Calibrator) -> float:
    """Where the slow mean of a device begins."""
    return calibrator.inputs.training_range.usual if calibrator.inputs.training_range else 0.0


def history_of(inputs: Inputs) -> str:
    """What makes the history of devices, in words: channels, step, window, rules, how devices settle."""
    method, settle = inputs.scaling.method, inputs.scaling.settle
    return repr((inputs.channels, inputs.step_seconds, inputs.window, inputs.policy, inputs.quality, method, settle))


DEFAULT = "*"


@dataclass(frozen=True)
class Route:
    """Devices whose name is `pattern` or matches it (`*`, `?`, `[abc]`) are read by this calibrator."""

    pattern: str
    calibrator: str


@dataclass(frozen=True)
class Batch:
    """A row of each of some devices, none of them twice.

    `times` are seconds since 1970, UTC, float64 [n]. A row holds the numbers that the device's calibrator reads, in its
    order of channels: float64 [n, channels], or a sequence of rows where calibrators differ in how many they read.
    """

    devices: Sequence[str]
    times: np.ndarray
    rows: np.ndarray | Sequence[np.ndarray]


@dataclass(frozen=True)
class Pushed:
    """What became of a batch, [n] each in its order.

    Calibrated values and their intervals, NaN where there is none; the raw readings of the channel that is calibrated
    (a calibrator's first); all flags.
    """

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    raw: np.ndarray
    flags: np.ndarray


@dataclass(frozen=True)
class FleetState:
    """What a fleet remembers: plain `arrays` by name; by calibrator its `devices`, and what makes their histories."""

    arrays: Mapping[str, np.ndarray]
    devices: Mapping[str, Sequence[str]]
    histories: Mapping[str, str]


class Fleet:
    """Devices with their calibrators, by name.

    Of several routes an exact name comes before a pattern, a pattern before `*`, and the first before the others.

    >>> from scare.calibrator.corrections import CORRECTIONS, bind
    >>> from scare.data.flags import Flag
    >>> barkjohn = CORRECTIONS["barkjohn-2021"]
    >>> calibrator = bind(barkjohn, {role.name: role.channel for role in barkjohn.roles}, 60.0)
    >>> fleet = Fleet({"pm25": calibrator}, [Route("*", "pm25")])
    >>> pushed = fleet.push(Batch(["roof", "yard"], np.full(2, 1.8e9), np.array([[20.0, 50.0], [np.nan, 50.0]])))
    >>> pushed.values.round(2), pushed.raw, [str(Flag(flag).name) for flag in pushed.flags.tolist()]
    (array([11.92,   nan]), array([20., nan]), ['WARM_UP', 'WARM_UP|MISSING'])
    """

    def __init__(self, calibrators: Mapping[str, Calibrator], routes: Sequence[Route]) -> None:
        for route in routes:
            if route.calibrator not in calibrators:
                known = ", ".join(calibrators)
                raise UsageError(f"route '{route.pattern}': no calibrator '{route.calibrator}'; there are {known}")
        self._groups = {name: Group(calibrator) for name, calibrator in calibrators.items()}
        self._routes = list(routes)
        self._routed: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._routed)

    @property
    def calibrators(self) -> dict[str, Calibrator]:
        """The calibrators in use, by name."""
        return {name: group.calibrator for name, group in self._groups.items()}

    def route(self, device: str) -> str:
        """The name of the calibrator that reads this device."""
        if found := choose_route(self._routes, device):
            return found
        raise DataError(f"{device}: no route leads to a calibrator; add one for it, or a default for '{DEFAULT}'")

    def push(self, batch: Batch) -> Pushed:
        """Calibrate a batch; a batch that cannot be taken changes nothing."""
        times, count = np.asarray(batch.times, float), len(batch.devices)
        _check(batch, times)
        values, low, high, raw = np.empty((4, count))
        pushed = Pushed(values, low, high, raw, np.empty(count, np.uint32))
        routed = {device: self._routed.get(device) or self.route(device) for device in batch.devices}
        places = _sort(routed[device] for device in batch.devices)
        parts = {name: (members, self._rows(name, members, batch)) for name, members in places.items()}
        self._routed |= routed
        for name, (members, rows) in parts.items():
            devices = [batch.devices[member] for member in members.tolist()]
            answers = self._groups[name].push(devices, times[members], rows)
            for part, found in answers._asdict().items():
                getattr(pushed, part)[members] = found
            pushed.raw[members] = rows[:, 0]
        return pushed

    def watched(self, devices: Sequence[str]) -> np.ndarray:
        """Whether devices that have reported drift, by their last days (`upkeep.watching`): states [n]."""
        found = np.empty(len(devices), np.int8)
        for name, members in _sort(self._routed[device] for device in devices).items():
            found[members] = self._groups[name].watched([devices[member] for member in members.tolist()])
        return found

    def replace(self, name: str, calibrator: Calibrator) -> None:
        """Use another calibrator in place of the one of this name.

        Devices keep their windows if both read the same channels in the same steps, windows and rules, and let devices
        settle in the same way; else their histories begin anew, and the next row of each is flagged RESTART.
        """
        if name not in self._groups:
            raise UsageError(f"no calibrator '{name}' to replace; there are {', '.join(self._groups)}")
        self._groups[name] = self._groups[name].with_calibrator(calibrator)

    def state(self) -> FleetState:
        """A copy of all that is remembered."""
        groups = self._groups.items()
        arrays = {f"{name}/{kept}": array for name, group in groups for kept, array in group.state().items()}
        devices = {name: list(group.devices) for name, group in groups}
        return FleetState(arrays, devices, {name: group.history for name, group in groups})

    def restore(self, state: FleetState) -> None:
        """Go on from a state. Where a calibrator now reads otherwise, the histories of its devices begin anew."""
        for name, group in self._groups.items():
            devices, lead = state.devices.get(name, ()), f"{name}/"
            if state.histories.get(name) == group.history:
                inside = {kept.removeprefix(lead): one for kept, one in state.arrays.items() if kept.startswith(lead)}
                group.restore(devices, inside)
            else:
                group.restart(devices)
            self._routed |= {device: self.route(device) for device in devices}

    def _rows(self, name: str, members: np.ndarray, batch: Batch) -> np.ndarray:
        """Rows of a calibrator's devices, [members, channels]."""
        channels = self._groups[name].calibrator.inputs.channels
        if not isinstance(batch.rows, np.ndarray):
            wrong = next((one for one in members.tolist() if np.shape(batch.rows[one]) != (len(channels),)), None)
        else:
            wrong = None if batch.rows.shape[1:] == (len(channels),) else int(members[0])
        if wrong is not None:
            names = ", ".join(channel.name for channel in channels)
            raise DataError(
                f"{batch.devices[wrong]}: a row of shape {np.shape(batch.rows[wrong])}; '{name}' reads {len(channels)}"
                f" numbers ({names})"
            )
        if isinstance(batch.rows, np.ndarray):
            return np.asarray(batch.rows[members], float)
        return np.array([batch.rows[one] for one in members.tolist()], float)


def choose_route(routes: Sequence[Route], device: str) -> str | None:
    """The calibrator that these routes name for a device: a name comes before a pattern, a pattern before `*`."""
    fitting = (route for route in routes if device == route.pattern or fnmatchcase(device, route.pattern))
    found = min(fitting, key=_generality, default=None)
    return found.calibrator if found else None


def _generality(route: Route) -> int:
    """0 for a name, 1 for a pattern, 2 for the default."""
    return 2 if route.pattern == DEFAULT else int(any(sign in route.pattern for sign in "*?["))


def _sort(calibrators: Iterable[str]) -> dict[str, np.ndarray]:
    """Where each calibrator is among these."""
    members: dict[str, list[int]] = {}
    for index, name in enumerate(calibrators):
        members.setdefault(name, []).append(index)
    return {name: np.array(some) for name, some in members.items()}


def _check(batch: Batch, times: np.ndarray) -> None:
    count = len(batch.devices)
    if times.shape != (count,) or len(batch.rows) != count:
        raise DataError(f"a batch of {count} devices has {len(batch.rows)} rows at {times.shape} times")
    if len(set(batch.devices)) < count:
        twice = next(device for index, device in enumerate(batch.devices) if device in batch.devices[:index])
        raise DataError(f"{twice} is twice in a batch; push its second row after the first")
    if not np.isfinite(times).all():
        where = int(np.argmin(np.isfinite(times)))
        raise DataError(f"{batch.devices[where]}: its time is {times[where]}, not a number of seconds")
