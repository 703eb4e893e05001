"""A column mapping says which column of a table is what, in flags or as TOML that a person can correct."""

import json
from dataclasses import dataclass, fields
from pathlib import Path

from scare.data.readings import DEVICE, REFERENCE, RESERVED, Channel
from scare.errors import UsageError
from scare.records import convert, load_toml

CHANNEL = tuple(field.name for field in fields(Channel))


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
        table = load_toml(path)
        if not isinstance(time := table.get("time", []), list):
            table["time"] = [time]
        return convert(table, cls, path)

    def to_toml(self) -> str:
        """The mapping as TOML, without the settings that are at their default."""
        lines = [f"time = {_toml(self.time[0] if len(self.time) == 1 else self.time)}"]
        if self.reference:
            lines.append(f"reference = {{{', '.join(_settings(self.reference, *CHANNEL))}}}")
        lines += _settings(self, "device_column", "site_column", "sort")
        for channel in self.channels:
            lines += ["", "[[channels]]", *_settings(channel, *CHANNEL)]
        return "\n".join(lines) + "\n"


def _settings(described: ColumnMapping | Channel, *names: str) -> list[str]:
    defaults = {field.name: field.default for field in fields(described)}
    pairs = [(name, getattr(described, name)) for name in names]
    return [f"{name} = {_toml(value)}" for name, value in pairs if value != defaults[name]]


def _toml(value: object) -> str:
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
