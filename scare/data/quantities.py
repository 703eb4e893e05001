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
from math import inf
from pathlib import Path
from typing import Literal

from scare.data.readings import Channel
from scare.errors import UsageError
from scare.schema import Positive, convert, load_toml, with_names
from scare.words import suggestion

GAS_CONSTANT = 8.314462618  # kPa l/(mol K)
STANDARD_PRESSURE, STANDARD_TEMPERATURE = 101.325, 25.0  # kPa; degC, unless a user states another
ABSOLUTE_ZERO = -273.15  # degC
MIXING_RATIO, CONCENTRATION = "mixing ratio", "mass concentration"  # dimensions between which only gases convert
TABLE = Path(__file__).with_name("quantities.toml")


@dataclass(frozen=True)
class Unit:
    """A unit: `names` is the pattern by which a name or a text states it, `display` how people write it.

    Units of one `dimension` convert: a value is `factor` times (value - `zero`) in the dimension's first unit.
    """

    name: str
    names: str = ""
    display: str = ""
    dimension: str = ""
    factor: Positive = 1.0
    zero: float = 0.0


@dataclass(frozen=True)
class Quantity:
    """What a sensor measures; the header of `quantities.toml` says what each field is."""

    name: str
    names: tuple[str, ...]
    may: tuple[str, ...] = ()
    unit: str = ""
    low: float = -inf
    high: float = inf
    family: Literal["", "particles", "gas", "weather"] = ""
    usual: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    molar_mass: Positive | None = None
    device_class: str = ""
    pms5003: str = ""
    esphome: tuple[str, str] | None = None

    def channel(self, name: str) -> Channel:
        """Return a channel of this quantity, with its unit and plausible range."""
        return Channel(name, self.unit, self.low, self.high)

    def limits(self, unit: str) -> tuple[float, float]:
        """Return the plausible range in a unit; unlimited in a unit that does not convert.

        >>> quantity("T").limits("degF")
        (-40.0, 185.0)
        """
        to_unit = conversion(self.unit, unit) if self.unit else None
        return (to_unit.apply(self.low), to_unit.apply(self.high)) if to_unit else (-inf, inf)

    def usual_unit(self, percentile_95: float) -> str:
        """Guess the unit by the 95th percentile of the readings; empty if no unit has it in its usual range.

        >>> quantity("T").usual_unit(31.0), quantity("T").usual_unit(96.0), quantity("pressure").usual_unit(30.1)
        ('degC', 'degF', 'inHg')
        """
        return next((unit for unit, (low, high) in self.usual.items() if low <= percentile_95 < high), "")


@dataclass(frozen=True)
class Conversion:
    """How a value converts from one unit to another: `gain` times the value plus `offset`."""

    gain: float
    offset: float = 0.0

    def apply(self, value: float) -> float:
        """Convert a value."""
        return self.gain * value + self.offset


@dataclass(frozen=True)
class Quantities:
    """The table of units and quantities."""

    spellings: Mapping[str, str]
    units: Mapping[str, Unit] = field(default_factory=dict)
    quantities: Mapping[str, Quantity] = field(default_factory=dict)


@cache
def _table() -> Quantities:
    """Return the parsed `quantities.toml`, in which each unit and quantity gets the name of its table."""
    table = load_toml(TABLE)
    named = {section: with_names(table[section]) for section in ("units", "quantities")}
    return convert({**table, **named}, Quantities, TABLE)


def quantities() -> Mapping[str, Quantity]:
    """Return all quantities by name."""
    return _table().quantities


def quantity(name: str) -> Quantity:
    """Look up a quantity by its name in the table; a UsageError for another name suggests the nearest."""
    if name not in quantities():
        raise UsageError(f"no quantity is called '{name}'{suggestion(name, quantities())}")
    return quantities()[name]


def parse_quantity(text: str) -> str:
    """Return the name of the quantity that a person states, however it is written.

    >>> parse_quantity("o3"), parse_quantity("pm25"), parse_quantity("Ozone")
    ('O3', 'PM2.5', 'O3')
    """
    by_name = next((name for name in quantities() if name.lower() == text.lower()), "")
    by_pattern = find_quantity(text)
    return quantity(by_name or (by_pattern.name if by_pattern else text)).name


def find_quantity(name: str) -> Quantity | None:
    """Return the first quantity whose patterns match the name of a column or channel, None if none does."""
    return next((quantity for quantity in quantities().values() if _matches_any(quantity.names, name)), None)


def is_called(name: str, quantity: str) -> bool:
    """Whether a channel of this name is, or could be, this quantity; an ambiguous name counts.

    >>> is_called("Ref.PM2.5", "PM2.5"), is_called("pm_raw", "PM10"), is_called("PM10", "PM2.5")
    (True, True, False)
    """
    named_quantity = quantities()[quantity]
    return find_quantity(name) is named_quantity or _matches_any(named_quantity.may, name)


def guess_unit(name: str) -> str:
    """Return the unit that a name states, or else that of the quantity it names; empty if unknown.

    >>> guess_unit("Ref.PM2.5"), guess_unit("Temperature_int"), guess_unit("NO2_B43F_P1"), guess_unit("NO2 [ppb]")
    ('ug/m3', 'degC', '', 'ppb')
    """
    units_of_name = (
        quantity.unit for quantity in quantities().values() if quantity.unit and _matches_any(quantity.names, name)
    )
    return find_unit(name) or next(units_of_name, "")


def find_unit(text: str) -> str:
    """Return the unit that a name or a text states; empty if there is none.

    >>> find_unit("Micrograms/cubic meter (LC)"), find_unit("Parts per million"), find_unit("current_temp_f")
    ('ug/m3', 'ppm', 'degF')
    """
    return next(
        (unit.name for unit in _table().units.values() if unit.names and re.search(unit.names, text.lower())), ""
    )


def quantity_of_unit(unit: str) -> Quantity | None:
    """Return the quantity that alone has a unit of this dimension: temperature or pressure; None for any other unit.

    >>> quantity_of_unit("degF").name, quantity_of_unit("ug/m3")
    ('T', None)
    """
    known_unit = _table().units.get(unit)
    name = {"temperature": "T", "pressure": "pressure"}.get(known_unit.dimension if known_unit else "", "")
    return quantities().get(name)


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
    """Return a unit as people write it.

    >>> display_unit("ug/m3"), display_unit("nA")
    ('µg/m³', 'nA')
    """
    return _displays().get(spell_unit(unit)) or unit


@cache
def _displays() -> dict[str, str]:
    return {spell_unit(unit.name): unit.display for unit in _table().units.values()}


def units() -> dict[str, str]:
    """Return all units as people write them, by name."""
    return {name: unit.display or name for name, unit in _table().units.items()}


def conversion(
    unit: str, other: str, molar_mass: float | None = None, standard_temperature: float = STANDARD_TEMPERATURE
) -> Conversion | None:
    """Return how to convert from `unit` to `other`, however they are written; None if they do not convert.

    Between a mixing ratio and a mass concentration the molar mass (g/mol) is needed, and the temperature (degC) that
    the mass concentration refers to, at 1013.25 hPa: 25 degC in the United States (40 CFR 50.3), 20 degC in the
    European Union (2008/50/EC, annex VI).

    >>> conversion("degF", "degC").apply(212.0), conversion("mg/m3", "ug/m3").gain, conversion("ppb", "nA")
    (100.0, 1000.0, None)
    >>> [round(conversion("ppb", "ug/m3", 46.01, temperature).gain, 4) for temperature in (25.0, 20.0)]
    [1.8806, 1.9127]
    """
    by_spelling = {spell_unit(name): known for name, known in _table().units.items()}
    source, target = by_spelling.get(spell_unit(unit)), by_spelling.get(spell_unit(other))
    if source is None or target is None:
        return Conversion(1.0) if spell_unit(unit) == spell_unit(other) else None
    factor = 1.0  # from the first unit of the source's dimension to that of the target's
    if {source.dimension, target.dimension} == {MIXING_RATIO, CONCENTRATION} and molar_mass:
        litres_per_mole = GAS_CONSTANT * (standard_temperature - ABSOLUTE_ZERO) / STANDARD_PRESSURE
        density = molar_mass / litres_per_mole
        factor = density if target.dimension == CONCENTRATION else 1 / density
    elif source is not target and (not source.dimension or source.dimension != target.dimension):
        return None
    gain = source.factor * factor / target.factor
    return Conversion(gain, target.zero - gain * source.zero)


def _matches_any(patterns: Sequence[str], name: str) -> bool:
    return any(re.search(pattern, name.lower()) for pattern in patterns)
