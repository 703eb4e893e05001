"""Quantities and their units: what a column name means, and how others write it (table: `quantities.toml`).

>>> find_quantity("Ref.NO2").name, find_quantity("Temperature_int").unit
('NO2', 'degC')
>>> display_unit("ug/m3"), spell_unit("µg/m³")
('µg/m³', 'ug/m3')
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from math import inf
from pathlib import Path

from scare.data.readings import Channel
from scare.errors import UsageError
from scare.records import Positive, convert, load_toml, with_names
from scare.words import suggestion

TABLE = Path(__file__).with_name("quantities.toml")


@dataclass(frozen=True)
class Unit:
    """A unit: the pattern by which names state it, how people write it, and its size as a mixing ratio or mass."""

    name: str
    names: str = ""
    display: str = ""
    volume: Positive | None = None
    mass: Positive | None = None


@dataclass(frozen=True)
class Quantity:
    """What a sensor measures; the header of `quantities.toml` says what each field is."""

    name: str
    names: tuple[str, ...]
    may: tuple[str, ...] = ()
    unit: str = ""
    low: float = -inf
    high: float = inf
    weather: bool = False
    molar_mass: Positive | None = None
    device_class: str = ""
    pms5003: str = ""
    esphome: tuple[str, str] | None = None

    def channel(self, name: str) -> Channel:
        """A channel of this quantity."""
        return Channel(name, self.unit, self.low, self.high)


@dataclass(frozen=True)
class Quantities:
    """The table of units and quantities."""

    molar_volume: Positive
    spellings: Mapping[str, str]
    units: Mapping[str, Unit] = field(default_factory=dict)
    quantities: Mapping[str, Quantity] = field(default_factory=dict)


@cache
def _table() -> Quantities:
    table = load_toml(TABLE)
    both = {name: with_names(table[name]) for name in ("units", "quantities")}
    return convert({**table, **both}, Quantities, TABLE)


def quantities() -> Mapping[str, Quantity]:
    """All quantities by name."""
    return _table().quantities


def quantity(name: str) -> Quantity:
    """The quantity of this name; a UsageError suggests the nearest name."""
    if name not in quantities():
        raise UsageError(f"no quantity is called '{name}'{suggestion(name, quantities())}")
    return quantities()[name]


def find_quantity(name: str) -> Quantity | None:
    """The quantity that a column or channel of this name holds, None if unknown."""
    return next((one for one in quantities().values() if _matches_any(one.names, name)), None)


def is_called(name: str, quantity: str) -> bool:
    """Whether a channel of this name may be this quantity.

    >>> is_called("Ref.PM2.5", "PM2.5"), is_called("pm_raw", "PM10"), is_called("PM10", "PM2.5")
    (True, True, False)
    """
    found = quantities()[quantity]
    return _matches_any((*found.names, *found.may), name)


def is_weather(name: str) -> bool:
    """Whether a name is that of a weather quantity.

    >>> is_weather("Ref.RH"), is_weather("Ref.NO2"), is_weather("Ref.NO2 at T")
    (True, False, False)
    """
    found = find_quantity(name)
    return found is not None and found.weather


def guess_unit(name: str) -> str:
    """The unit that a name states, or else that of the quantity it names; empty if unknown.

    >>> guess_unit("Ref.PM2.5"), guess_unit("Temperature_int"), guess_unit("NO2_B43F_P1"), guess_unit("NO2 [ppb]")
    ('ug/m3', 'degC', '', 'ppb')
    """
    stated = (unit.name for unit in _table().units.values() if unit.names and _matches_any([unit.names], name))
    meant = (one.unit for one in quantities().values() if one.unit and _matches_any(one.names, name))
    return next(chain(stated, meant), "")


def spell_unit(unit: str) -> str:
    """Normalise a unit to the table's spelling, in lower case.

    >>> spell_unit("µg/m³"), spell_unit("% RH")
    ('ug/m3', '%')
    """
    unit = unit.lower()
    for other, ours in _table().spellings.items():
        unit = unit.replace(other, ours)
    return unit


def display_unit(unit: str) -> str:
    """Write a unit as people do.

    >>> display_unit("ug/m3"), display_unit("nA")
    ('µg/m³', 'nA')
    """
    shown = {spell_unit(one.name): one.display for one in _table().units.values()}
    return shown.get(spell_unit(unit)) or unit


def units() -> dict[str, str]:
    """All units as people write them, by name."""
    return {name: one.display or name for name, one in _table().units.items()}


def unit_factor(unit: str, other: str, molar_mass: float | None) -> float | None:
    """The factor from `unit` to `other`, None if they do not convert; mixing ratio to mass needs the molar mass.

    >>> unit_factor("ppm", "ppb", None), unit_factor("ppb", "ug/m3", 48.0), unit_factor("ppb", "nA", 48.0)
    (1000.0, 1.963, None)
    """
    units = {spell_unit(name): one for name, one in _table().units.items()}
    if unit not in units or other not in units:
        return None
    one, two = units[unit], units[other]
    if one.mass and two.mass:
        return one.mass / two.mass
    if one.volume and two.volume:
        return one.volume / two.volume
    if one.volume and two.mass and molar_mass:
        return one.volume * molar_mass / _table().molar_volume / two.mass
    return None


def _matches_any(patterns: Sequence[str], name: str) -> bool:
    return any(re.search(pattern, name.lower()) for pattern in patterns)
