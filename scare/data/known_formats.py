"""Known formats: exports of makers and agencies, how they are recognised and what their columns mean.

The table is `known_formats.toml`. `tables.open_table` recognises the format of a file. From the format `times` has the
zone, `column_guess` the roles and units of columns, and `alignment` what part of an interval a time stands for.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from scare.schema import convert, load_toml, with_names

SPOKEN = ("HOBO", "DEFRA", "SINCA")  # acronyms that are said as words
TABLE = Path(__file__).with_name("known_formats.toml")
Kind = Literal["", "sensor", "reference", "weather"]
Role = Literal["", "channel", "reference", "weather", "time", "device", "site", "unit", "flag", "index", "ignore"]
Stamp = Literal["", "begin", "end"]


@dataclass(frozen=True)
class FormatColumn:
    """What a column of a known format is: quantity and unit as in `quantities.toml`, and role."""

    quantity: str = ""
    unit: str = ""
    role: Role = ""


@dataclass(frozen=True)
class TableFormat:
    """A maker's format; the header of `known_formats.toml` says what each field is."""

    name: str
    title: str
    source: str
    checked: Literal["", "header", "file"] = ""
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
    flag: str = ""
    valid: tuple[str, ...] = ()
    either: tuple[str, ...] = ()
    codes: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, FormatColumn] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """What `scare inspect` prints of a file of this format."""
        first = self.title.split()[0]
        is_spelled_out = first.isupper() and first not in SPOKEN  # as in "an SDFS file", "a UBA file"
        vowels = "AEFHILMNORSX" if is_spelled_out else "AEIO"  # letters that sound as if they began with a vowel
        return f"This looks like {'an' if first[0].upper() in vowels else 'a'} {self.title}."


@cache
def formats() -> Mapping[str, TableFormat]:
    """Return all known formats by name.

    >>> formats()["purpleair-map"].timezone
    'UTC'
    """
    return convert(with_names(load_toml(TABLE)), dict[str, TableFormat], TABLE)


def recognise(columns: Sequence[str], remarks: Sequence[str] = ()) -> TableFormat | None:
    """Return the first known format whose columns are all in the header and whose preamble is in the lines above it."""
    names = {name.lower() for name in columns}
    text = "\n".join(remarks)
    for candidate in formats().values():
        if candidate.row or (candidate.header and not all(name.lower() in names for name in candidate.header)):
            continue
        if candidate.preamble and not re.search(candidate.preamble, text, re.IGNORECASE):
            continue
        return candidate
    return None


def recognise_row(line: str) -> TableFormat | None:
    """Return the known format without a header whose rows look like this line."""
    return next(
        (candidate for candidate in formats().values() if candidate.row and re.match(candidate.row, line)), None
    )
