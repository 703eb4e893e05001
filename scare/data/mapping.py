"""Column mappings: which column of a table is what, from options or from TOML that a person can correct.

Comes from `inspection` or a `--config` file; goes to `tables`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import tomli_w

from scare.data.readings import DEVICE, REFERENCE, RESERVED, Channel
from scare.data.times import Dates
from scare.errors import UsageError
from scare.records import Positive


@dataclass(frozen=True)
class ColumnMapping:
    """Which columns of a table hold the time, the channels, the reference, the device and the site.

    Parameters
    ----------
    time
        Time column, or columns to join with a space.
    channels
        Input columns, first the channel to calibrate.
    reference
        Column of the reference instrument.
    device_column, site_column
        Columns that name the device and the site; empty if there are none.
    sort
        Order a device's rows and keep the first of equal times.
    dates
        `day-first` or `month-first`, for dates like 3/4/2026 in a file that does not show it.

    Raises
    ------
    UsageError
        If there is no time column or no channel, or if a column is mapped twice.

    Examples
    --------
    >>> print(ColumnMapping(("date",), (Channel("pm25", "ug/m3"),), Channel("Ref.PM2.5", "ug/m3")).to_toml())
    [data]
    time = "date"
    channels = [
        { name = "pm25", unit = "ug/m3" },
    ]
    <BLANKLINE>
    [data.reference]
    name = "Ref.PM2.5"
    unit = "ug/m3"
    """

    time: tuple[str, ...]
    channels: tuple[Channel, ...]
    reference: Channel | None = None
    device_column: str = ""
    site_column: str = ""
    sort: bool = False
    dates: Dates = ""

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

    def to_toml(self) -> str:
        """Write the mapping as a `--config` file, without defaults."""
        table = {**_non_defaults(self), "time": self.time[0] if len(self.time) == 1 else list(self.time)}
        if self.reference:
            table["reference"] = _non_defaults(self.reference)
        table["channels"] = [_non_defaults(channel) for channel in self.channels]
        return tomli_w.dumps({"data": table})


@dataclass(frozen=True)
class DataSection:
    """The section [data] of a `--config` file: columns, as far as they are given, and how rows are prepared."""

    time: tuple[str, ...] = ()
    channels: tuple[Channel, ...] = ()
    reference: Channel | None = None
    device_column: str = ""
    site_column: str = ""
    sort: bool = False
    dates: Dates = ""
    step: Positive | None = None
    reference_file: str = ""
    apply_offset: bool = False


def tidy_columns(data: Mapping[str, Any]) -> dict[str, Any]:
    """Expand the columns of [data]: a time column becomes a list of one, a channel's name becomes a table.

    >>> tidy_columns({"time": "date", "channels": ["NO2"], "reference": "Ref.NO2"})
    {'time': ['date'], 'channels': [{'name': 'NO2'}], 'reference': {'name': 'Ref.NO2'}}
    """
    tidy = dict(data)
    if isinstance(time := tidy.get("time"), str):
        tidy["time"] = [time]
    if isinstance(channels := tidy.get("channels"), list):
        tidy["channels"] = [{"name": one} if isinstance(one, str) else one for one in channels]
    if isinstance(reference := tidy.get("reference"), str):
        tidy["reference"] = {"name": reference}
    return tidy


def _non_defaults(record: ColumnMapping | Channel) -> dict[str, Any]:
    pairs = [(field, getattr(record, field.name)) for field in fields(record)]
    return {field.name: value for field, value in pairs if value != field.default}
