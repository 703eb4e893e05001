"""Recipes as TOML: what differs from a preset, in tables of the same shape as `Recipe`.

    window = 120
    [model.front]
    width = 12
    [settings]
    rate = 0.0025

`scare tune` writes them, `scare train --recipe` reads them.
"""

from collections.abc import Mapping
from dataclasses import asdict, make_dataclass, replace
from functools import cache
from typing import Any

from scare.records import convert, merged
from scare.training.presets import Recipe, Window
from scare.training.settings import Settings

Table = Mapping[str, Any]


def adjust(recipe: Recipe, table: Table, where: str) -> Recipe:
    """The recipe with the values of a table; `where` it came from begins the message about a wrong one.

    >>> adjust(Recipe(), {"window": 24, "model": {"front": {"width": 4}}}, "r.toml").model.front.width
    4
    >>> adjust(Recipe(), {"settings": {"rat": 0.1}}, "r.toml")
    Traceback (most recent call last):
    scare.errors.UsageError: r.toml: unknown key 'rat' in [settings]; did you mean 'rate'?
    """
    settings = table.get("settings")
    if isinstance(settings, Mapping) and "steps" in settings:
        table = {**table, "settings": {"epochs": 0, **settings}}
    model: Any = recipe.model
    now = {"window": recipe.window, "model": asdict(model), "settings": asdict(recipe.settings)}
    changed = convert(merged(now, table), _adjustable(model.__class__), where)
    return replace(recipe, **{name: getattr(changed, name) for name in now})


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


@cache
def _adjustable(model: Any) -> Any:
    """What a table may change in a recipe of a model."""
    return make_dataclass("Adjustable", [("window", Window), ("model", model), ("settings", Settings)])
