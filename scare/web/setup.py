"""What a session comes to: what the person said, and for the rest what its files look like; as a config file.

Comes from `looking`; goes, as TOML, to every command.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import tomli_w

from scare.data.times import Dates
from scare.records import Count, Positive, convert

SENSOR, REFERENCE = "sensor", "reference"
CHANNELS = ("target", SENSOR, "temperature", "humidity")  # roles of columns that a calibrator reads
STATION = re.compile(r"ref|station|monitor|fem|frm|bam|teom", re.IGNORECASE)
Kind = Literal["sensor", "reference"]
Role = Literal["target", "sensor", "temperature", "humidity", "reference", "time", "device", "nothing"]
LENGTHS: dict[str, dict[str, Any]] = {"quick": {"steps": 300}, "usual": {}, "thorough": {"members": 3}}
ROLES = get_args(Role)
BESIDE = ["ridge", "boosting"]  # fitted for the bars, beside raw and lines


@dataclass(frozen=True)
class Said:
    """What a person may choose; nothing of it must be."""

    kinds: Mapping[str, Kind] = field(default_factory=dict)  # of a file
    roles: Mapping[str, Mapping[str, Role]] = field(default_factory=dict)  # of a file's columns
    units: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of a file's columns
    dates: Dates = ""
    apply_offset: bool = False
    split: Literal["time", "device"] = "time"
    borders: tuple[float, ...] = ()  # seconds since 1970
    window: Count = 60
    step: Positive | None = None
    length: Literal["quick", "usual", "thorough"] = "usual"
    board: str = ""


@dataclass(frozen=True)
class Choices:
    """What holds: files by kind, columns by role, and all else that was said."""

    sensors: tuple[str, ...]
    reference_file: str
    roles: Mapping[str, Mapping[str, str]]
    units: Mapping[str, Mapping[str, str]]
    sort: bool
    said: Said
    missing: str  # what keeps it from being trained, in words

    def as_dict(self) -> dict[str, Any]:
        """All of it, for the page."""
        return asdict(self)

    def config(self) -> str:
        """The same as every command reads it."""
        first, station = self.sensors[0], self.reference_file or self.sensors[0]
        named = {role: [name for name, one in self.roles[first].items() if one == role] for role in ROLES}
        channels = [self._channel(first, name) for role in CHANNELS for name in named[role]]
        data: dict[str, Any] = {"time": named["time"], "channels": channels}
        data |= {"device_column": named["device"][0]} if named["device"] else {}
        if self.reference_file:
            data |= {"reference_file": f"files/{self.reference_file}", "apply_offset": self.said.apply_offset}
        data |= {"reference": self._channel(station, _with_role(self.roles[station], REFERENCE))}
        data |= {"dates": self.said.dates} if self.said.dates else {}
        data |= ({"sort": True} if self.sort else {}) | ({"step": self.said.step} if self.said.step else {})
        borders = [datetime.fromtimestamp(one, UTC).isoformat() for one in self.said.borders]
        split = {"by": self.said.split} | ({"borders": borders} if borders and self.said.split == "time" else {})
        tables = {"data": data, "split": split, "model": {"window": self.said.window}, "compare": {"beside": BESIDE}}
        training = LENGTHS[self.said.length]
        return tomli_w.dumps({**tables, **({"training": training} if training else {})})

    def _channel(self, file: str, column: str) -> dict[str, str]:
        unit = self.units[file].get(column, "")
        return {"name": column, **({"unit": unit} if unit else {})}


def read_said(said: Mapping[str, Any]) -> Said:
    """What was said, if it can be."""
    return convert(dict(said), Said, "the choices")


def choose(looks: Mapping[str, Mapping[str, Any]], said: Said) -> Choices:
    """What holds for files that look like this (`looking.look`, by name)."""
    kinds = {**_kinds(looks), **{name: kind for name, kind in said.kinds.items() if name in looks}}
    sensors = tuple(name for name, kind in kinds.items() if kind == SENSOR)
    station = next((name for name, kind in kinds.items() if kind == REFERENCE), "")
    roles = {name: _roles(look, kinds[name], said.roles.get(name, {}), bool(station)) for name, look in looks.items()}
    units = {name: _units(look) | dict(said.units.get(name, {})) for name, look in looks.items()}
    sort = any(looks[name]["sort"] for name in sensors)
    return Choices(sensors, station, roles, units, sort, said, _missing(sensors, station, roles))


def _units(look: Mapping[str, Any]) -> dict[str, str]:
    return {column["name"]: column.get("unit", "") for column in look["columns"]}


def _kinds(looks: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """All are sensors', but for one that is unlike the others and looks like a station's where none has a reference."""
    kinds = dict.fromkeys(looks, SENSOR)
    if len(looks) < 2 or all(_with_looks(look, REFERENCE) and _with_looks(look, SENSOR) for look in looks.values()):
        return kinds
    columns = [[column["name"] for column in look["columns"]] for look in looks.values()]
    alone = [name for name, own in zip(looks, columns, strict=True) if columns.count(own) == 1]
    likely = [name for name in alone if STATION.search(name) or _with_looks(looks[name], REFERENCE)]
    if likely or len(looks) == 2:
        fewest = min(likely or alone or looks, key=lambda name: len(looks[name]["columns"]))
        kinds[fewest] = REFERENCE
    return kinds


def _with_looks(look: Mapping[str, Any], what: str) -> bool:
    return any(column["looks"] == what for column in look["columns"])


def _roles(look: Mapping[str, Any], kind: str, said: Mapping[str, str], has_station: bool) -> dict[str, str]:
    """Each column's role: as said, else as it looks; one column is the target, one the reference."""
    roles = {column["name"]: column["looks"] for column in look["columns"]}
    roles = {name: role if role in ROLES else "nothing" for name, role in roles.items()}
    if kind == REFERENCE:
        likely = [name for name, role in roles.items() if role == REFERENCE]
        likely += [name for name, role in roles.items() if role == SENSOR]
        roles = {name: role if role == "time" else "nothing" for name, role in roles.items()}
        roles |= dict.fromkeys(likely[:1], REFERENCE)
    else:
        known = [name for name, role in roles.items() if role == REFERENCE]
        roles |= dict.fromkeys(known if has_station else known[1:], "nothing")
        roles |= dict.fromkeys([name for name, role in roles.items() if role == SENSOR][:1], "target")
    for name, role in said.items():
        if name in roles and role in ROLES:
            roles = _given(roles, name, role)
    return roles


def _given(roles: Mapping[str, str], name: str, role: str) -> dict[str, str]:
    """The roles with one changed; the column that had a role of which there is one gives it up."""
    heir = {"target": SENSOR, REFERENCE: "nothing", "device": "nothing"}.get(role)
    others = {other: heir if heir and one == role else one for other, one in roles.items()}
    return {**others, name: role}


def _with_role(roles: Mapping[str, str], role: str) -> str:
    return next((name for name, one in roles.items() if one == role), "")


def _missing(sensors: Sequence[str], station: str, roles: Mapping[str, Mapping[str, str]]) -> str:
    if not sensors:
        return "Drop a file of your sensor."
    if not _with_role(roles[sensors[0]], "target"):
        return f"Say which column of {sensors[0]} is the sensor to calibrate."
    if not _with_role(roles[sensors[0]], "time"):
        return f"Say which column of {sensors[0]} is the time."
    if not _with_role(roles[station or sensors[0]], REFERENCE):
        return f"Say which column is the reference, or drop a file of the reference instrument beside {sensors[0]}."
    return ""
