"""The setup of a session: the person's selections, completed by guesses from the previews of the files.

Input: previews and selections; output: the config file that every command reads.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args

import tomli_w
from annotated_types import Ge, Lt

from scare.data.known_formats import Stamp
from scare.data.tables import AS_FOUND, TableOptions
from scare.report.deployment import Deployment
from scare.schema import Positive, convert
from scare.windowing.windows import AUTO, WindowLength

FILES = "files"  # folder of a session
SENSOR, REFERENCE = "sensor", "reference"  # kinds of files, and roles of columns
CHANNELS = ("target", SENSOR, "temperature", "humidity")  # roles of columns that a calibrator reads
STATION = re.compile(r"ref|station|monitor|fem|frm|bam|teom", re.IGNORECASE)  # in a reference file's name
Kind = Literal["sensor", "reference"]
Role = Literal["target", "sensor", "temperature", "humidity", "reference", "time", "device", "nothing"]
# How long to train: the keys of [training] that each choice sets.
LENGTHS: dict[str, dict[str, Any]] = {"quick": {"steps": 300}, "usual": {}, "thorough": {"members": 3}}
ROLES = get_args(Role)
Moment = Annotated[float, Ge(0), Lt(253_402_300_800)]  # seconds since 1970, before the year 10000
EMPTY: tuple[Any, ...] = (None, "", [])  # a fact that is not stated
BASELINES = ["ridge", "boosting"]  # scored beside the raw reading and linear regression


@dataclass(frozen=True)
class Selections:
    """Everything that a person may select; all of it is optional."""

    kinds: Mapping[str, Kind] = field(default_factory=dict)  # by file
    roles: Mapping[str, Mapping[str, Role]] = field(default_factory=dict)  # by file and column
    units: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by file and column
    tables: Mapping[str, TableOptions] = field(default_factory=dict)  # how each file is written, by file
    apply_offset: bool = False
    quantity: str = ""
    stamp: Stamp = ""
    split: Literal["time", "device"] = "time"
    borders: tuple[Moment, ...] = ()
    window: WindowLength = AUTO
    step: Positive | None = None
    length: Literal["quick", "usual", "thorough"] = "usual"
    board: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)  # of the deployment, as `Deployment` has them
    reference_uncertainty: str = ""  # u(bs,RM), or the name of the reference analyser
    targets: str = ""  # sets of targets to grade a co-location by while it runs


@dataclass(frozen=True)
class Setup:
    """The selections, completed: files by kind, and the role and unit of each column, by file and column."""

    sensors: tuple[str, ...]
    reference_file: str
    roles: Mapping[str, Mapping[str, str]]
    units: Mapping[str, Mapping[str, str]]
    sort: bool
    quantity: str  # quantity of the reference
    selections: Selections
    missing: str  # a sentence that asks for what training still needs, or ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The sensors' files within the session's folder."""
        return tuple(f"{FILES}/{name}" for name in self.sensors)

    def config(self) -> str:
        """Return the setup as the text of a config file (TOML); the columns of the first sensor file hold for all."""
        first = self.sensors[0]
        station = self.reference_file or first
        selections = self.selections
        columns: dict[str, list[str]] = {role: [] for role in ROLES}
        for name, role in self.roles[first].items():
            columns[role].append(name)
        channels = [self._channel(first, name) for role in CHANNELS for name in columns[role]]
        data: dict[str, Any] = {"time": columns["time"], "channels": channels, **self.written(first)}
        data |= {"device_column": columns["device"][0]} if columns["device"] else {}
        if self.reference_file:
            times = [name for name, role in self.roles[station].items() if role == "time"]
            data |= {"reference_file": f"{FILES}/{self.reference_file}", "apply_offset": selections.apply_offset}
            data |= {"reference_table": {"time": times, **self.written(station)}}
        data |= {"reference": self._channel(station, _with_role(self.roles[station], REFERENCE))}
        stated: dict[str, Any] = {"sort": self.sort, "step": selections.step}
        stated |= {"quantity": self.quantity, "stamp": selections.stamp} if self.reference_file else {}
        data |= {name: value for name, value in stated.items() if value}
        borders = [datetime.fromtimestamp(border, UTC).isoformat() for border in selections.borders]
        split = {"by": selections.split} | ({"borders": borders} if borders and selections.split == "time" else {})
        model = {"window": selections.window}
        training = LENGTHS[selections.length]
        tables = {"data": data, "split": split, "model": model, "compare": {"beside": BASELINES}}
        return tomli_w.dumps({**tables, **({"training": training} if training else {})})

    def site(self) -> str:
        """Return the facts of the deployment as the text of a file (TOML)."""
        return tomli_w.dumps({name: fact for name, fact in self.selections.facts.items() if fact not in EMPTY})

    def written(self, file: str) -> dict[str, Any]:
        """Return the selected table options of a file; those of one of the sensor's files hold for all of them."""
        alike = [file] if file == self.reference_file else [file, *self.sensors]  # files written in the same way
        stated = [self.selections.tables.get(name, AS_FOUND).table_options for name in alike]
        return next(filter(None, stated), {})

    def _channel(self, file: str, column: str) -> dict[str, str]:
        """Return a column as a channel of [data], with its unit if it is known."""
        unit = self.units[file].get(column, "")
        return {"name": column, **({"unit": unit} if unit else {})}


def read_selections(selections: Mapping[str, Any]) -> Selections:
    """Check and convert selections of the page.

    The key `dates` is ignored: sessions of an earlier version had one order of dates for all files.
    """
    current = {name: selection for name, selection in selections.items() if name != "dates"}
    converted = convert(current, Selections, "the selections")
    convert(converted.facts, Deployment, "the facts of the deployment")  # only to raise an error if they are wrong
    return converted


def make_setup(previews: Mapping[str, Mapping[str, Any]], selections: Selections) -> Setup:
    """Complete the selections by guesses; `previews` are what `preview.preview_file` returned, by file name."""
    selected_kinds = {name: kind for name, kind in selections.kinds.items() if name in previews}
    kinds = {**_guess_kinds(previews), **selected_kinds}
    sensors = tuple(name for name, kind in kinds.items() if kind == SENSOR)
    station = next((name for name, kind in kinds.items() if kind == REFERENCE), "")
    roles, units = {}, {}
    # Columns are guessed by the quantity that both files measure.
    shared = _shared_quantity(previews[sensors[0]], previews[station]) if sensors and station else ""
    for name, preview in previews.items():
        roles[name] = _guess_roles(preview, kinds[name], bool(station), selections.quantity or shared)
        roles[name] = _select(roles[name], selections.roles.get(name, {}))
        guessed = {column["name"]: column.get("unit", "") for column in preview["columns"]}
        units[name] = guessed | dict(selections.units.get(name, {}))
    # The quantity of the setup is that of the reference column, guessed or selected.
    measured = {column["name"]: column["quantity"] for column in previews[station]["columns"]} if station else {}
    quantity = selections.quantity or measured.get(_with_role(roles.get(station, {}), REFERENCE), "")
    sort = any(previews[name]["sort"] for name in sensors)
    return Setup(sensors, station, roles, units, sort, quantity, selections, _missing(sensors, station, roles))


def _guess_kinds(previews: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Guess which file, if any, holds the reference, and return the kind of each file.

    A reference file has columns that no other file has together, and its format, its name or its columns show that it
    is a station's. Of two files one always holds the reference, unless each has sensor and reference columns.
    """
    kinds = dict.fromkeys(previews, SENSOR)
    if len(previews) < 2 or all(_has(preview, REFERENCE) and _has(preview, SENSOR) for preview in previews.values()):
        return kinds
    columns = [[column["name"] for column in preview["columns"]] for preview in previews.values()]
    distinct_files = [name for name, names in zip(previews, columns, strict=True) if columns.count(names) == 1]
    # sure: the format is a station's; likely: the name or a column says so; possible: the format is not a sensor's.
    sure = [name for name in distinct_files if previews[name].get("kind") == REFERENCE]
    likely = [name for name in distinct_files if STATION.search(name) or _has(previews[name], REFERENCE)]
    possible = [name for name in distinct_files if previews[name].get("kind") != SENSOR]
    if sure or likely or len(previews) == 2:
        # A station's file usually has fewer quantities than a sensor's.
        quantities = {
            name: sum(column["looks"] in (*CHANNELS, REFERENCE) for column in preview["columns"])
            for name, preview in previews.items()
        }
        station = min(sure or likely or possible or previews, key=quantities.__getitem__)
        kinds[station] = REFERENCE
    return kinds


def _has(preview: Mapping[str, Any], kind: str) -> bool:
    """Whether a column of the file looks like a sensor's or a reference's."""
    return any(column["looks"] == kind for column in preview["columns"])


def _shared_quantity(sensor: Mapping[str, Any], station: Mapping[str, Any]) -> str:
    """Return the first quantity of the reference's file that the sensor's file has too, or ""."""
    of_sensor = {column["quantity"] for column in sensor["columns"] if column["looks"] == SENSOR}
    of_station = [column["quantity"] for column in station["columns"] if column["looks"] in (REFERENCE, SENSOR)]
    return next((quantity for quantity in of_station if quantity and quantity in of_sensor), "")


def _guess_roles(preview: Mapping[str, Any], kind: str, has_station: bool, quantity: str) -> dict[str, str]:
    """Guess the role of each column of a file of this kind.

    A sensor file gets a target, a reference file a reference: a column of the `quantity` that is calibrated, if it is
    known. Unless a station has a file of its own (`has_station`), the reference may be a column of the sensor file.
    """
    columns = {column["name"]: column for column in preview["columns"]}
    roles = {name: "time" if name in preview["time"] else "nothing" for name in columns}
    if kind == REFERENCE:  # only its time and one column are used
        measured = [column for column in columns.values() if column["looks"] in (REFERENCE, SENSOR)]
        if measured:  # best: a column of the quantity, and among these one that looks like a reference
            best = min(measured, key=lambda column: (column["quantity"] != quantity, column["looks"] != REFERENCE))
            roles[best["name"]] = REFERENCE
        return roles
    # The columns to calibrate the quantity with; those of "" if the file does not measure it.
    channels = preview["channels"].get(quantity) or preview["channels"].get("", [])
    roles |= {name: columns[name]["looks"] for name in channels}
    if sensors := [name for name in channels if roles[name] == SENSOR]:
        roles[sensors[0]] = "target"
    roles |= {column["name"]: "device" for column in columns.values() if column["looks"] == "device"}
    if preview["reference"] and not has_station:
        roles[preview["reference"]] = REFERENCE
    return roles


def _select(roles: Mapping[str, str], selected: Mapping[str, str]) -> dict[str, str]:
    """Give columns the selected roles; a selected time column replaces those that were guessed."""
    if "time" in selected.values():
        roles = {name: "nothing" if role == "time" else role for name, role in roles.items()}
    for name, role in selected.items():
        if name in roles:
            roles = _assign(roles, name, role)
    return dict(roles)


def _assign(roles: Mapping[str, str], name: str, role: str) -> dict[str, str]:
    """Give a column a role; if only one column may have it, the column that had it gets another role."""
    fallback = {"target": SENSOR, REFERENCE: "nothing", "device": "nothing"}.get(role)
    if fallback:
        roles = {other: fallback if its_role == role else its_role for other, its_role in roles.items()}
    return {**roles, name: role}


def _with_role(roles: Mapping[str, str], role: str) -> str:
    """Return the first column with this role, or ""."""
    return next((name for name, its_role in roles.items() if its_role == role), "")


def _missing(sensors: Sequence[str], station: str, roles: Mapping[str, Mapping[str, str]]) -> str:
    """Return a sentence that asks for the first thing that training still needs, or ""."""
    if not sensors:
        return "Add a file of your sensor."
    if not _with_role(roles[sensors[0]], "target"):
        return f"Select the column of {sensors[0]} that is the sensor to calibrate."
    if not _with_role(roles[sensors[0]], "time"):
        return f"Select the column of {sensors[0]} that is the time."
    if not _with_role(roles[station or sensors[0]], REFERENCE):
        return f"Select the column that is the reference, or add a file of the reference instrument to {sensors[0]}."
    return ""
