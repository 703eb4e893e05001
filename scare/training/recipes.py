"""Recipes as TOML: what differs from a preset, in tables of the same shape as `Recipe`.

    window = 120
    [model.front]
    width = 12
    [settings]
    rate = 0.0025

`scare tune` writes them, `scare train --recipe` reads them.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from scare.errors import UsageError
from scare.training.presets import Recipe
from scare.words import suggestion

TABLES = ("window", "model", "settings")
KINDS = {int: "a whole number", bool: "true or false", str: "text", float: "a number"}
Table = Mapping[str, Any]


def read_table(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; one that cannot be read is refused with the reason."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read as TOML ({error})") from error


def adjust(recipe: Recipe, table: Table, where: str) -> Recipe:
    """The recipe with the values of a table; `where` it came from begins the message about a wrong one.

    >>> adjust(Recipe(), {"window": 24, "model": {"front": {"width": 4}}}, "r.toml").model.front.width
    4
    >>> adjust(Recipe(), {"settings": {"rat": 0.1}}, "r.toml")
    Traceback (most recent call last):
    scare.errors.UsageError: r.toml: unknown setting 'settings.rat'; did you mean 'rate'?
    """
    for name in table:
        if name not in TABLES:
            raise UsageError(f"{where}: unknown setting '{name}'{suggestion(name, TABLES)}")
    settings = table.get("settings")
    if isinstance(settings, Mapping) and "steps" in settings:
        table = {**table, "settings": {"epochs": 0, **settings}}
    return _changed(recipe, table, where, "")


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted name as tables in tables.

    >>> nested({"window": 24, "model.front.width": 4})
    {'window': 24, 'model': {'front': {'width': 4}}}
    """
    tables: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        table = tables
        for part in path:
            table = table.setdefault(part, {})
        table[last] = value
    return tables


def flattened(tables: Table, prefix: str = "") -> dict[str, Any]:
    """Tables in tables as values by dotted name: the inverse of `nested`."""
    flat: dict[str, Any] = {}
    for name, value in tables.items():
        flat |= flattened(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def look_up(recipe: Recipe, name: str) -> Any:
    """The recipe's value of a dotted name."""
    found: Any = recipe
    for part in name.split("."):
        found = getattr(found, part)
    return found


def print_recipe(flat: Mapping[str, int | float]) -> str:
    """Numbers by dotted name as TOML that `scare train --recipe` reads.

    >>> print(print_recipe({"settings.rate": 0.01, "window": 24}))
    window = 24
    <BLANKLINE>
    [settings]
    rate = 0.01
    """
    tables: dict[str, list[str]] = {"": []}
    for name, value in flat.items():
        table, _, last = name.rpartition(".")
        tables.setdefault(table, []).append(f"{last} = {value!r}")
    blocks = ["\n".join([f"[{table}]"] * bool(table) + lines) for table, lines in tables.items() if lines]
    return "\n\n".join(blocks) + "\n"


def _changed(record: Any, table: Table, where: str, prefix: str) -> Any:
    known = {field.name: getattr(record, field.name) for field in fields(record)}
    changes: dict[str, Any] = {}
    for name, value in table.items():
        if name not in known:
            raise UsageError(f"{where}: unknown setting '{prefix}{name}'{suggestion(name, known)}")
        if is_dataclass(known[name]):
            if not isinstance(value, Mapping):
                raise UsageError(f"{where}: '{prefix}{name}' should be a table of settings, not {value!r}")
            changes[name] = _changed(known[name], value, where, f"{prefix}{name}.")
        else:
            changes[name] = _as_kind(known[name], value, f"{where}: '{prefix}{name}'", prefix.startswith("model"))
    try:
        return replace(record, **changes)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _as_kind(now: Any, value: Any, where: str, positive: bool) -> Any:
    """The value as the kind of thing that is there now; whole numbers of an architecture are at least 1."""
    if isinstance(now, Enum):
        known = [str(one) for one in type(now)]
        if value not in known:
            raise UsageError(f"{where} cannot be {value!r}{suggestion(str(value), known)}")
        return type(now)(value)
    if isinstance(now, float) and isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value < math.inf:
            raise UsageError(f"{where} must be a number from 0 on, not {value!r}")
        return float(value)
    if type(value) is not type(now):
        raise UsageError(f"{where} should be {KINDS.get(type(now), 'left out')}, not {value!r}")
    if positive and isinstance(value, int) and not isinstance(value, bool) and value < 1:
        raise UsageError(f"{where} must be at least 1, not {value}")
    return value
