"""Knobs: what a search may turn, each by its name in a recipe, with the values it may take."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from annotated_types import MinLen

from scare.errors import UsageError
from scare.records import convert, load_toml
from scare.training.presets import Recipe
from scare.training.recipes import adjust, flattened, look_up, nested

Number = int | float
Knobs = Mapping[str, tuple[Number, ...]]

KNOBS: dict[str, tuple[Number, ...]] = {
    "model.front.width": (4, 8, 12, 16),  # D
    "model.block.hidden": (16, 32, 64),  # F
    "model.attention.bits": (4, 8, 16),  # c
    "model.attention.supports": (8, 16, 32),  # m
    "settings.steps": (1500, 3000, 6000),
    "settings.rate": (0.00125, 0.0025, 0.005, 0.01, 0.02),
    "settings.weight_decay": (0.0, 0.001, 0.01, 0.1),
    "settings.members": (1, 2, 3),
}
SEED = "settings.seed"
LENGTHS = (0.5, 1, 2, 4)  # times the window given
ON_BOARD = ("window", "model.", "settings.members")  # how names of knobs begin that change what a board must do


def usual_knobs(window: int) -> Knobs:
    """The usual knobs, with window lengths around the one given.

    >>> usual_knobs(24)["window"]
    (12, 24, 48, 96)
    """
    return _with_preset({"window": tuple(max(4, round(share * window)) for share in LENGTHS), **KNOBS}, window)


def read_knobs(file: Path, window: int) -> Knobs:
    """The knobs of a TOML file: the tables of a recipe, with a list of numbers for each setting."""
    listed = convert(flattened(load_toml(file)), dict[str, Annotated[tuple[Number, ...], MinLen(1)]], file)
    if SEED in listed:
        raise UsageError(f"{file}: '{SEED}' is no knob: a seed that scores better is luck; take --seed")
    for name, values in listed.items():
        for value in values:
            adjust(Recipe(), nested({name: value}), str(file))
    return _with_preset({"window": (window,), **listed}, window)


def preset_values(knobs: Knobs, window: int) -> dict[str, Number]:
    """The preset's own value of each knob, with the window given."""
    preset = Recipe.preset("default", window)
    return {name: look_up(preset, name) for name in knobs}


def architecture(values: Mapping[str, Number]) -> dict[str, Number]:
    """The values that change what a board must do."""
    return {name: value for name, value in values.items() if name.startswith(ON_BOARD)}


def _with_preset(knobs: Mapping[str, tuple[Number, ...]], window: int) -> Knobs:
    """The knobs in order, with the preset's own values among theirs."""
    return {name: tuple(sorted({*knobs[name], value})) for name, value in preset_values(knobs, window).items()}
