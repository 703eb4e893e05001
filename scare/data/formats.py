"""Known formats: exports of makers and agencies, how they are recognised and what their columns mean.

The table is `formats.toml`. Comes from `tables.open_table`, which recognises the format of a file; goes to `times`
(zone), `column_guess` (roles and units) and `alignment` (stamp).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from scare.records import convert, load_toml, with_names

SPOKEN = ("HOBO", "DEFRA")  # said as words
TABLE = Path(__file__).with_name("formats.toml")
Kind = Literal["", "sensor", "reference", "weather"]
Role = Literal["", "channel", "reference", "weather", "time", "device", "site", "unit", "flag", "ignore"]
Stamp = Literal["", "begin", "end"]


@dataclass(frozen=True)
class FormatColumn:
    """What a column of a known format is: quantity and unit as in `quantities.toml`, and role."""

    quantity: str = ""
    unit: str = ""
    role: Role = ""


@dataclass(frozen=True)
class TableFormat:
    """A maker's format; the header of `formats.toml` says what each field is."""

    name: str
    title: str
    source: str
    checked: bool = False
    kind: Kind = ""
    header: tuple[str, ...] = ()
    preamble: str = ""
    row: str = ""
    names: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    timezone: str = ""
    dates: Literal["", "day-first", "month-first"] = ""
    stamp: Stamp = ""
    missing: tuple[str, ...] = ()
    codes: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, FormatColumn] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """What `scare inspect` says of a file of this format."""
        first = self.title.split()[0]
        spelled = first.isupper() and first not in SPOKEN  # letter by letter, as in "an SDFS file", "a UBA file"
        return f"This looks like {'an' if first[0] in ('AEFHILMNORSX' if spelled else 'AEIO') else 'a'} {self.title}."


@cache
def formats() -> Mapping[str, TableFormat]:
    """All known formats by name.

    >>> formats()["purpleair-map"].timezone
    'UTC'
    """
    return convert(with_names(load_toml(TABLE)), dict[str, TableFormat], TABLE)


def recognise(columns: Sequence[str], remarks: Sequence[str] = ()) -> TableFormat | None:
    """The first known format whose columns are all there, or whose preamble is."""
    names, text = {name.lower() for name in columns}, "\n".join(remarks)
    for one in formats().values():
        if one.row or (one.header and not all(name.lower() in names for name in one.header)):
            continue
        if one.preamble and not re.search(one.preamble, text, re.IGNORECASE):
            continue
        return one
    return None


def recognise_row(line: str) -> TableFormat | None:
    """The known format without a header whose rows look like this line."""
    return next((one for one in formats().values() if one.row and re.match(one.row, line)), None)
