"""Recipes as TOML: what is read is what was written, and what makes no sense is refused with its place."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.errors import UsageError
from scare.experiments.tuning.knobs import KNOBS
from scare.models.scare import Sampling
from scare.records import load_toml
from scare.training.presets import Recipe
from scare.training.recipes import adjust, flattened, look_up, nested, print_recipe

VALUES = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in KNOBS.items()})


@given(VALUES, st.integers(4, 2000))
def test_what_is_printed_is_what_is_read(values: dict[str, int | float], window: int) -> None:
    flat = {**values, "window": window}
    tables = tomllib.loads(print_recipe(flat))
    assert tables == nested(flat)
    assert flattened(tables) == flat
    recipe = adjust(Recipe(), tables, "r.toml")
    assert {name: look_up(recipe, name) for name in flat} == flat


def test_steps_replace_the_epochs_of_a_preset() -> None:
    recipe = adjust(Recipe.preset("paper"), {"settings": {"steps": 7}}, "r.toml")
    assert (recipe.settings.steps, recipe.settings.epochs) == (7, 0)
    assert adjust(Recipe.preset("paper"), {"settings": {"rate": 1}}, "r.toml").settings.epochs == 10


def test_choices_are_named() -> None:
    changed = adjust(Recipe(), {"model": {"attention": {"sampling": "uniform"}, "block": {"norm": True}}}, "r.toml")
    assert look_up(changed, "model.attention.sampling") is Sampling.UNIFORM
    assert look_up(changed, "model.block.norm") is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("windows = 5", "r.toml: unknown key 'windows'; did you mean 'window'?"),
        ("[model.fron]\nwidth = 5", "unknown key 'fron' in [model]; did you mean 'front'?"),
        ("[settings]\nweight_deca = 5", "unknown key 'weight_deca' in [settings]; did you mean 'weight_decay'?"),
        ("[model.front]\nwidth = 0", "model.front.width is 0; it takes a whole number from 1 on"),
        ("[model.front]\nwidth = 2.5", "model.front.width is 2.5; it takes a whole number"),
        ("[model.front]\nwidth = true", "model.front.width is True; it takes a whole number"),
        ("[model.block]\nnorm = 1", "model.block.norm is 1; it takes true or false"),
        ("[model]\nfront = 1", "model.front is 1; it takes a table of settings"),
        ("settings = 1", "settings is 1; it takes a table of settings"),
        ("[settings]\nweight_decay = -1", "settings.weight_decay is -1; it takes a number from 0 on"),
        ("[settings]\nrate = inf", "settings.rate is inf; it takes a number from 0 on and below inf"),
        ("[settings]\nrate = 0", "r.toml: the learning rate must be above 0"),
        ("[model.attention]\nbits = 33", "r.toml: a hash code has 1 to 32 bits"),
        ("[model.attention]\nmix = 'bitwize'", "model.attention.mix is 'bitwize'; did you mean 'bitwise'?"),
        ("window = 2", "r.toml: window is 2; it takes a whole number from 4 on"),
        ("window = ", "cannot be read as TOML"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        adjust(Recipe(), load_toml(path), "r.toml")
    assert reason in str(caught.value)
