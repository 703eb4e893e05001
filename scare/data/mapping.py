"""A column mapping says which column of a table is what, in flags or as TOML that a person can correct."""

import json
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from scare.data.readings import DEVICE, REFERENCE, RESERVED, Channel
from scare.errors import UsageError
from scare.words import suggestion

MAPPING_KINDS = {
    **{"time": str | list, "channels": list, "reference": dict},
    **{"device_column": str, "site_column": str, "sort": bool},
}
CHANNEL_KINDS = {"name": str, "unit": str, "low": int | float, "high": int | float}


@dataclass(frozen=True)
class ColumnMapping:
    """Which columns of a table hold the time, the channels, the reference, the device and the site.

    Time columns are joined by a space; `sort` orders a device's rows and keeps the first of equal times.

    >>> print(ColumnMapping(("date",), (Channel("pm25", "ug/m3"),), Channel("Ref.PM2.5", "ug/m3")).to_toml())
    time = "date"
    reference = {name = "Ref.PM2.5", unit = "ug/m3"}
    <BLANKLINE>
    [[channels]]
    name = "pm25"
    unit = "ug/m3"
    """

    time: tuple[str, ...]
    channels: tuple[Channel, ...]
    reference: Channel | None = None
    device_column: str = ""
    site_column: str = ""
    sort: bool = False

    def __post_init__(self) -> None:
        if not self.time or not self.channels:
            raise UsageError("a column mapping needs a time column and at least one channel")
        names = [channel.name for channel in self.channels]
        for name in names:
            if name in (*RESERVED, DEVICE):
                raise UsageError(f"a channel cannot be called '{name}'; rename the column in the file")
            if names.count(name) > 1 or (self.reference and name == self.reference.name):
                raise UsageError(f"the column '{name}' is mapped twice")

    @property
    def quantities(self) -> dict[str, str]:
        """The file's column of each channel and of `reference`."""
        named = {channel.name: channel.name for channel in self.channels}
        return {**named, REFERENCE: self.reference.name} if self.reference else named

    @classmethod
    def from_toml(cls, path: Path | str) -> "ColumnMapping":
        """The mapping a TOML file describes, in the form `to_toml` writes."""
        try:
            table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: cannot be read as TOML ({error})") from error
        _check_table(table, MAPPING_KINDS, ("time", "channels"), str(path))
        time = table["time"]
        table["time"] = (time,) if isinstance(time, str) else tuple(map(str, time))
        table["channels"] = tuple(_channel(channel, str(path)) for channel in table["channels"])
        if "reference" in table:
            table["reference"] = _channel(table["reference"], str(path))
        return cls(**table)

    def to_toml(self) -> str:
        """The mapping as TOML, without the settings that are at their default."""
        lines = [f"time = {_toml(self.time[0] if len(self.time) == 1 else self.time)}"]
        if self.reference:
            lines.append(f"reference = {{{', '.join(_settings(self.reference, *CHANNEL_KINDS))}}}")
        lines += _settings(self, "device_column", "site_column", "sort")
        for channel in self.channels:
            lines += ["", "[[channels]]", *_settings(channel, *CHANNEL_KINDS)]
        return "\n".join(lines) + "\n"


def _settings(described: ColumnMapping | Channel, *names: str) -> list[str]:
    defaults = {field.name: field.default for field in fields(described)}
    pairs = [(name, getattr(described, name)) for name in names]
    return [f"{name} = {_toml(value)}" for name, value in pairs if value != defaults[name]]


def _toml(value: object) -> str:
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _channel(table: dict[str, Any], where: str) -> Channel:
    _check_table(table, CHANNEL_KINDS, ("name",), f"{where}: channel")
    limits = {key: float(table[key]) for key in ("low", "high") if key in table}
    return Channel(table["name"], table.get("unit", ""), **limits)


def _check_table(table: object, kinds: dict[str, Any], needed: tuple[str, ...], where: str) -> None:
    if not isinstance(table, dict):
        raise UsageError(f"{where}: {table!r} should be a table of settings")
    for key, value in table.items():
        if key not in kinds:
            raise UsageError(f"{where}: unknown setting '{key}'{suggestion(key, kinds)}")
        if not isinstance(value, kinds[key]):
            raise UsageError(f"{where}: '{key}' cannot be {_toml(value)}")
    for key in needed:
        if key not in table:
            raise UsageError(f"{where}: the setting '{key}' is missing")
