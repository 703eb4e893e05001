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
    """A unit: `names` is the pattern by which a column name states it, `display` how people write it.

    Its size is a `volume` (mixing ratio, in ppb) or a `mass` (concentration, in ug/m3); other units have neither.
    """

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
        """A channel of this quantity, with its unit and plausible range."""
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
    """The parsed `quantities.toml`, in which each unit and quantity gets the name of its table."""
    table = load_toml(TABLE)
    named = {section: with_names(table[section]) for section in ("units", "quantities")}
    return convert({**table, **named}, Quantities, TABLE)


def quantities() -> Mapping[str, Quantity]:
    """All quantities by name."""
    return _table().quantities


def quantity(name: str) -> Quantity:
    """Look up a quantity by its name in the table; a UsageError for an unknown name suggests the nearest."""
    if name not in quantities():
        raise UsageError(f"no quantity is called '{name}'{suggestion(name, quantities())}")
    return quantities()[name]


def find_quantity(name: str) -> Quantity | None:
    """The first quantity whose patterns match the name of a column or channel, None if none does."""
    return next((one for one in quantities().values() if _matches_any(one.names, name)), None)


def is_called(name: str, quantity: str) -> bool:
    """Whether a channel of this name is, or could be, this quantity; an ambiguous name counts.

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
    """The factor from `unit` to `other`, both as `spell_unit` spells them; None if they do not convert.

    From a mixing ratio to a mass concentration the molar mass (g/mol) is needed; the other way is not supported.

    >>> unit_factor("ppm", "ppb", None), unit_factor("ppb", "ug/m3", 48.0), unit_factor("ppb", "nA", 48.0)
    (1000.0, 1.963, None)
    """
    units = {spell_unit(name): one for name, one in _table().units.items()}
    if unit not in units or other not in units:
        return None
    source, target = units[unit], units[other]
    if source.mass and target.mass:
        return source.mass / target.mass
    if source.volume and target.volume:
        return source.volume / target.volume
    if source.volume and target.mass and molar_mass:
        return source.volume * molar_mass / _table().molar_volume / target.mass
    return None


def _matches_any(patterns: Sequence[str], name: str) -> bool:
    return any(re.search(pattern, name.lower()) for pattern in patterns)
