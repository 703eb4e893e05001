"""Options that several commands share, and what they mean for the files given."""

import shlex
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from scare.data.inspection import inspect_table
from scare.data.mapping import ColumnMapping
from scare.data.readings import Channel
from scare.errors import UsageError

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
Seed = Annotated[int, typer.Option("--seed", help="Same seed, same result.")]
MappingFile = Annotated[
    Path | None, typer.Option("--mapping", help="TOML that maps columns, as 'scare inspect' prints it.")
]
TimeColumns = Annotated[
    str, typer.Option("--time", help="Time column (or columns, joined: Date,Time). Naive times are UTC.")
]
Channels = Annotated[str, typer.Option("--channels", help="Input columns, the sensor to calibrate first: NO2,OX,T,RH.")]
Reference = Annotated[str, typer.Option("--reference", help="Column of the reference instrument.")]
DeviceColumn = Annotated[str, typer.Option("--device-column", help="Column that names the device, for one long file.")]
SiteColumn = Annotated[str, typer.Option("--site-column", help="Column that names the site.")]
Sort = Annotated[bool, typer.Option("--sort", help="Sort rows by time and keep the first of equal times.")]
Step = Annotated[float | None, typer.Option("--step", min=1e-3, help="Average to this many seconds first.")]
Borders = Annotated[str, typer.Option("--borders", help="Two times for --split time: where validation and test begin.")]
Epochs = Annotated[int | None, typer.Option("--epochs", min=1, help="Length in epochs, not the preset's.")]
Steps = Annotated[int | None, typer.Option("--steps", min=1, help="Length in steps, not the preset's.")]


def column_mapping(path: Path, mapping: Path | None, **columns: str | bool) -> tuple[ColumnMapping, bool]:
    """The mapping of a file from a TOML, flags, or a look at the file; and whether anything was guessed."""
    given = {name: value for name, value in columns.items() if value}
    if mapping is not None:
        return _overridden(ColumnMapping.from_toml(mapping), given), False
    if {"time", "channels"} <= given.keys():
        time, channels = names(str(given["time"])), names(str(given["channels"]))
        bare = ColumnMapping(time, tuple(Channel(name) for name in channels))
        return _overridden(bare, given), False
    guess = inspect_table(path).mapping
    return _overridden(guess, given), True


def _overridden(mapping: ColumnMapping, given: Mapping[str, str | bool]) -> ColumnMapping:
    """The mapping with what the flags say; a channel named by a flag keeps the unit it had."""
    known = {channel.name: channel for channel in mapping.channels}
    changes: dict[str, object] = {name: value for name, value in given.items() if name not in ("channels", "reference")}
    if "time" in given:
        changes["time"] = names(str(given["time"]))
    if "channels" in given:
        changes["channels"] = tuple(known.get(name, Channel(name)) for name in names(str(given["channels"])))
    if "reference" in given:
        name = str(given["reference"])
        same = mapping.reference is not None and mapping.reference.name == name
        changes["reference"] = mapping.reference if same else known.get(name, Channel(name))
        if "channels" not in given:
            changes["channels"] = tuple(channel for channel in mapping.channels if channel.name != name)
    return replace(mapping, **changes)  # type: ignore[arg-type]


def as_flags(mapping: ColumnMapping, given: Collection[str] = ()) -> str:
    """The mapping as options to paste, without those given.

    >>> as_flags(ColumnMapping(("date",), (Channel("NO2"), Channel("T")), Channel("Ref.NO2")))
    '--time date --channels NO2,T --reference Ref.NO2'
    >>> as_flags(ColumnMapping(("date",), (Channel("NO2"),), Channel("Ref.NO2")), ["reference"])
    '--time date --channels NO2'
    """
    columns = {
        "time": ",".join(mapping.time),
        "channels": ",".join(channel.name for channel in mapping.channels),
        "reference": mapping.reference.name if mapping.reference else "",
        "device_column": mapping.device_column,
        "site_column": mapping.site_column,
    }
    shown = {name.replace("_", "-"): value for name, value in columns.items() if value and name not in given}
    flags = [f"--{name} {shlex.quote(value)}" for name, value in shown.items()]
    return " ".join([*flags, *(["--sort"] if mapping.sort and "sort" not in given else [])])


def counts(flags: Mapping[str, int]) -> str:
    """How many rows carry each flag, in words, without those that none carries.

    >>> counts({"SPIKE": 1200, "GAP": 0, "WARM_UP": 3})
    '1,200 spike, 3 warm-up'
    """
    return ", ".join(f"{count:,} {name.lower().replace('_', '-')}" for name, count in flags.items() if count)


def names(text: str) -> tuple[str, ...]:
    """Column names from a comma-separated list."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise UsageError(f"'{text}' names no column")
    return found
