"""Recipes as tables: [model], [training] and [ladder] of a `--config` file say what differs from a preset.

    [model]
    preset = "default"
    window = 120
    front = { width = 12 }
    [training]
    rate = 0.0025
    [ladder]
    clear_fall = 0.2

`scare tune` writes them, `scare train` reads them (docs/config.md).
"""

from collections.abc import Mapping
from dataclasses import asdict, fields, make_dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Literal

from scare.errors import UsageError
from scare.models.ladder import Rules
from scare.records import Finite, convert, merged
from scare.training.presets import Recipe, Window
from scare.training.settings import Settings
from scare.windowing.slicing import LEARNED_FROM, POLICIES

Table = Mapping[str, Any]


class ScalingKind(StrEnum):
    """How channels are scaled."""

    AUTO = "auto"  # as the preset does
    DEVICE = "device"
    POOLED = "pooled"
    ROBUST = "robust"
    CONSTANT = "constant"


SCALINGS: dict[ScalingKind, dict[str, Any]] = {
    ScalingKind.AUTO: {},
    ScalingKind.DEVICE: {"scaling": "standard", "per_device": True},
    ScalingKind.POOLED: {"scaling": "standard", "per_device": False},
    ScalingKind.ROBUST: {"scaling": "robust"},
    ScalingKind.CONSTANT: {"scaling": "constant"},
}


def make_recipe(tables: Table, where: Path | str) -> Recipe:
    """The recipe that the tables describe; `where` they came from begins the message about a wrong value.

    >>> make_recipe({"model": {"preset": "paper", "window": 60}, "training": {"seed": 5}}, "r.toml").settings.batch
    32
    """
    model = tables.get("model", {})
    try:
        preset = Recipe.preset(str(model.get("preset", "default")), model=str(model.get("name", "scare")))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return adjust(preset, tables, where)


def adjust(recipe: Recipe, tables: Table, where: Path | str) -> Recipe:
    """The recipe with the values of tables.

    >>> adjust(Recipe(), {"model": {"window": 24, "front": {"width": 4}}}, "r.toml").model.front.width
    4
    >>> adjust(Recipe(), {"training": {"rat": 0.1}}, "r.toml")
    Traceback (most recent call last):
    scare.errors.UsageError: r.toml: unknown key 'rat' in [training]; did you mean 'rate'?
    """
    training = tables.get("training")
    if isinstance(training, Mapping) and training.keys() & {"steps", "windows"}:
        tables = {**tables, "training": {"epochs": 0, **training}}
    kind: Any = recipe.model.__class__
    changed = convert(merged(describe(recipe), tables), _tables_of(kind), where)
    model = kind(**{field.name: getattr(changed.model, field.name) for field in fields(kind)})
    own = changed.model
    parts: dict[str, Any] = {"model": model, "window": own.window, "floor": own.floor, "settings": changed.training}
    parts |= {"policy": POLICIES[own.gap_policy], "learned_from": LEARNED_FROM[own.learned_from]}
    return replace(recipe, **parts, rules=changed.ladder, **SCALINGS[own.scaling])


def describe(recipe: Recipe) -> dict[str, Any]:
    """The tables of a recipe, every key with its value."""
    architecture: Any = recipe.model
    policies = {"gap_policy": recipe.policy.name, "learned_from": recipe.learned_from.name}
    own = {"window": recipe.window, "floor": recipe.floor, "scaling": ScalingKind.AUTO}
    model = {**own, **policies, **asdict(architecture)}
    return {"model": model, "training": asdict(recipe.settings), "ladder": asdict(recipe.rules)}


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted name as tables in tables.

    >>> nested({"model.window": 24, "model.front.width": 4})
    {'model': {'window': 24, 'front': {'width': 4}}}
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
    known = flattened(describe(recipe))
    if name not in known:
        raise UsageError(f"this model has no {name}; [tune.knobs] names what to search instead")
    return known[name]


@cache
def _tables_of(architecture: Any) -> Any:
    """What tables may say of a recipe with this architecture."""
    used: Any = Literal[tuple(POLICIES)]
    learned: Any = Literal[tuple(LEARNED_FROM)]
    policies = [("gap_policy", used, ""), ("learned_from", learned, "")]
    floor = ("floor", Finite | None, None)
    own = [("name", str, ""), ("preset", str, ""), floor, ("scaling", ScalingKind, ""), *policies]
    parts = [(field.name, field.type) for field in fields(architecture)]
    model = make_dataclass("Model", [("window", Window), *parts, *own])
    return make_dataclass("Tables", [("model", model), ("training", Settings), ("ladder", Rules)])
