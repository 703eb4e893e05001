"""A fleet is any number of devices calibrated as they report: each row with its device's history, many rows at once.

Which device is read by which calibrator is data (`Route`). Rows come in batches with at most one row of a device; what
`push` gives for a row is what `Calibrator.live` of that device would give. All state can be taken out as plain arrays
and put back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.errors import DataError, UsageError
from scare.live.group import Group

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
