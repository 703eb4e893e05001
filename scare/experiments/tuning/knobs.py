"""Knobs: what a search may turn, each by its name in a recipe, with the values it may take."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from annotated_types import MinLen

from scare.errors import UsageError
from scare.records import convert
from scare.training.presets import Recipe
from scare.training.recipes import adjust, flattened, look_up, nested

Number = int | float
Knobs = Mapping[str, tuple[Number, ...]]

KNOBS: dict[str, tuple[Number, ...]] = {
    "model.front.width": (4, 8, 12, 16),  # D
    "model.block.hidden": (16, 32, 64),  # F
    "model.attention.bits": (4, 8, 16),  # c
    "model.attention.supports": (8, 16, 32),  # m
    "training.steps": (1500, 3000, 6000),
    "training.rate": (0.00125, 0.0025, 0.005, 0.01, 0.02),
    "training.weight_decay": (0.0, 0.001, 0.01, 0.1),
    "training.members": (1, 2, 3),
}
WINDOW, SEED = "model.window", "training.seed"
LENGTHS = (0.5, 1, 2, 4)  # times the window of the preset
ON_BOARD = ("model.", "training.members")  # how names of knobs begin that change what a board must do


def usual_knobs(preset: Recipe) -> Knobs:
    """The usual knobs, with window lengths around the preset's.

    >>> usual_knobs(Recipe(window=24))["model.window"]
    (12, 24, 48, 96)
    """
    lengths = tuple(max(4, round(share * preset.window)) for share in LENGTHS)
    return _with_preset({WINDOW: lengths, **KNOBS}, preset)


def make_knobs(tables: Mapping[str, Any], preset: Recipe, where: Path | str) -> Knobs:
    """The knobs of [tune.knobs]: the tables of a recipe, with a list of numbers for each key."""
    listed = convert(flattened(tables), dict[str, Annotated[tuple[Number, ...], MinLen(1)]], where)
    if SEED in listed:
        raise UsageError(f"{where}: '{SEED}' is no knob: a seed that scores better is luck")
    for name, values in listed.items():
        for value in values:
            adjust(preset, nested({name: value}), where)
    return _with_preset({WINDOW: (preset.window,), **listed}, preset)


def preset_values(knobs: Knobs, preset: Recipe) -> dict[str, Number]:
    """The preset's own value of each knob."""
    return {name: look_up(preset, name) for name in knobs}


def architecture(values: Mapping[str, Number]) -> dict[str, Number]:
    """The values that change what a board must do."""
    return {name: value for name, value in values.items() if name.startswith(ON_BOARD)}


def _with_preset(knobs: Mapping[str, tuple[Number, ...]], preset: Recipe) -> Knobs:
    """The knobs in order, with the preset's own values among theirs."""
    return {name: tuple(sorted({*knobs[name], value})) for name, value in preset_values(knobs, preset).items()}
