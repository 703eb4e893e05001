"""Recipes: length of training, presets and tables; what makes no sense is refused with its place."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.errors import UsageError
from scare.experiments.trials import HYPERPARAMETERS
from scare.models import Scare
from scare.models.scare import Sampling
from scare.schema import load_toml
from scare.training.recipe import PRESETS, Recipe, TrainingSettings, adjust, flattened, look_up, make_recipe, nested
from scare.training.selection import SelectionRules
from scare.windowing.windows import ANY, RECENT, STRICT

VALUES = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in HYPERPARAMETERS.items()})


@given(VALUES, st.integers(4, 2000))
def test_tables_hold_what_names_say(values: dict[str, int | float], window: int) -> None:
    flat = {**values, "model.window": window}
    tables = nested(flat)
    assert flattened(tables) == flat
    recipe = adjust(Recipe(), tables, "r.toml")
    assert {name: look_up(recipe, name) for name in flat} == flat


def test_steps_replace_the_epochs_of_a_preset() -> None:
    recipe = adjust(Recipe.preset("paper"), {"training": {"steps": 7}}, "r.toml")
    assert (recipe.settings.steps, recipe.settings.epochs) == (7, 0)
    assert adjust(Recipe.preset("paper"), {"training": {"rate": 1}}, "r.toml").settings.epochs == 10


def test_a_recipe_is_a_preset_of_a_model_and_what_differs() -> None:
    tables = {"model": {"name": "tesla", "preset": "paper", "window": 24, "scaling": "pooled", "gap_policy": "strict"}}
    recipe = make_recipe(tables | {"training": {"seed": 3}}, "r.toml")
    preset = Recipe.preset("paper", 24, "tesla", seed=3)
    assert recipe == replace(preset, policy=STRICT, scaling="standard", per_device=False)
    with pytest.raises(UsageError, match=r"r.toml: no preset called 'papper'; did you mean 'paper'"):
        make_recipe({"model": {"preset": "papper"}}, "r.toml")


def test_what_complexity_must_earn_and_what_is_learned_from_are_keys() -> None:
    tables = {"selection": {"smallest_within": 0.1, "refit": False}, "model": {"learned_from": "recent"}}
    recipe = adjust(Recipe(), tables, "r.toml")
    assert recipe.rules == SelectionRules(smallest_within=0.1, refit=False)
    assert (Recipe().learned_from, recipe.learned_from) == (ANY, RECENT)
    with pytest.raises(UsageError, match=r"r.toml: min_gain in \[selection\] is now smallest_within"):
        adjust(Recipe(), {"selection": {"min_gain": 0.02}}, "r.toml")


def test_choices_are_named() -> None:
    changed = adjust(Recipe(), {"model": {"attention": {"sampling": "uniform"}, "block": {"norm": True}}}, "r.toml")
    assert look_up(changed, "model.attention.sampling") is Sampling.UNIFORM
    assert look_up(changed, "model.block.norm") is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[model]\nwindows = 5", "r.toml: unknown key 'windows' in [model]; did you mean 'window'?"),
        ("[model.fron]\nwidth = 5", "unknown key 'fron' in [model]; did you mean 'front'?"),
        ("[training]\nweight_deca = 5", "unknown key 'weight_deca' in [training]; did you mean 'weight_decay'?"),
        ("[model.front]\nwidth = 0", "model.front.width is 0; it takes a whole number from 1 on"),
        ("[model.front]\nwidth = 2.5", "model.front.width is 2.5; it takes a whole number"),
        ("[model.front]\nwidth = true", "model.front.width is True; it takes a whole number"),
        ("[model.block]\nnorm = 1", "model.block.norm is 1; it takes true or false"),
        ("[model]\nfront = 1", "model.front is 1; it takes a table of settings"),
        ("training = 1", "training is 1; it takes a table of settings"),
        ("[training]\nweight_decay = -1", "training.weight_decay is -1; it takes a number from 0 on"),
        ("[training]\nrate = inf", "training.rate is inf; it takes a number from 0 on and below inf"),
        ("[training]\nrate = 0", "r.toml: the learning rate must be above 0"),
        ("[model.attention]\nbits = 33", "r.toml: a hash code has 1 to 32 bits"),
        ("[model.attention]\nmix = 'bitwize'", "model.attention.mix is 'bitwize'; did you mean 'bitwise'?"),
        ("[selection]\ntolerance = -0.1", "r.toml: selection.tolerance is -0.1; it takes a number from 0 on"),
        ("[selection]\ntrees = 1", "r.toml: selection.trees is 1; it takes true or false"),
        ("[selection]\nnetwork_from = 0.08", "r.toml: unknown key 'network_from' in [selection]"),
        ("[selection]\nblocks = 0", "selection.blocks is 0; it takes a whole number from 1 on"),
        ("[ladder]\nblocks = 6", "r.toml: [ladder] is now [selection]"),
        ("[model]\ngap_policy = 'any'", "model.gap_policy is 'any'"),
        ("[model]\ngap_policy = 'strikt'", "model.gap_policy is 'strikt'; did you mean 'strict'?"),
        ("[model]\nscaling = 'robus'", "model.scaling is 'robus'; did you mean 'robust'?"),
        ("[model]\nwindow = 2", "r.toml: model.window is 2; it takes a whole number from 4 on"),
        ("window = ", "cannot be read as TOML"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        adjust(Recipe(), load_toml(path), "r.toml")
    assert reason in str(caught.value)


@pytest.mark.parametrize("window", [3, 0, -5])
def test_a_window_needs_four_readings(window: int) -> None:
    with pytest.raises(UsageError, match=f"at least 4 readings, not {window}"):
        Recipe(window=window)
    assert Recipe(window=4).window == 4


def test_an_unknown_preset_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UsageError, match="no preset called 'fast'; there are default, paper"):
        Recipe.preset("fast")


def test_steps_given_replace_the_epochs_of_a_preset() -> None:
    assert Recipe.preset("paper").settings.epochs == 10
    assert Recipe.preset("paper", steps=70).settings.epochs == 0
    assert sum(Recipe.preset("paper", steps=70).settings.rounds(10**6)) == 70
    assert Recipe.preset("paper", steps=70, epochs=0).settings.epochs == 0
    assert Recipe.preset("paper", steps=70, epochs=3).settings.epochs == 3
    assert Recipe.preset("default", epochs=2).settings.rounds(128) == [2, 2]


def test_a_preset_takes_window_and_settings_and_keeps_the_rest() -> None:
    recipe = Recipe.preset("paper", window=24, seed=7)
    assert (recipe.window, recipe.settings.seed, recipe.settings.batch) == (24, 7, 32)
    assert PRESETS["paper"].settings.seed == 0
    assert recipe.model == Scare.paper()


def test_the_default_preset_is_the_recipe() -> None:
    recipe, settings = Recipe.preset("default"), Recipe.preset("default").settings
    assert recipe.model == Scare.default()
    assert (recipe.window, recipe.scaling, recipe.policy.name) == ("auto", "standard", "recent")
    assert (settings.steps, settings.epochs, settings.batch, settings.checkpoints) == (3000, 0, 64, 10)
    assert (settings.rate, settings.warm_up, settings.cosine, settings.clip) == (5e-3, 0.05, True, 1.0)
    assert (settings.weight_decay, settings.average, settings.freeze_at) == (1e-2, 0.995, 0.6)


def test_the_paper_preset_is_plain_adam_on_constant_scaling() -> None:
    recipe, settings = Recipe.preset("paper"), Recipe.preset("paper").settings
    assert (recipe.scaling, recipe.per_device) == ("constant", False)
    assert (settings.epochs, settings.batch, settings.warm_up) == (10, 32, 0.0)
    assert (settings.weight_decay, settings.clip, settings.average) == (0.0, 0.0, 0.0)


@given(steps=st.integers(1, 5000), checkpoints=st.integers(1, 50), examples=st.integers(1, 10**6))
def test_rounds_share_the_steps_evenly(steps: int, checkpoints: int, examples: int) -> None:
    rounds = TrainingSettings(steps=steps, checkpoints=checkpoints).rounds(examples)
    assert sum(rounds) == steps
    assert len(rounds) == min(steps, checkpoints)
    assert max(rounds) - min(rounds) <= 1
    assert min(rounds) >= 1


@given(epochs=st.integers(1, 20), batch=st.integers(1, 500), examples=st.integers(1, 10**5))
def test_an_epoch_is_as_many_steps_as_use_every_example(epochs: int, batch: int, examples: int) -> None:
    rounds = TrainingSettings(epochs=epochs, batch=batch).rounds(examples)
    assert len(rounds) == epochs
    for steps in rounds:
        assert 0 <= steps * batch - examples < batch


@given(windows=st.integers(1, 10**6), batch=st.integers(1, 500), examples=st.integers(1, 10**6))
def test_as_many_windows_whatever_the_batch(windows: int, batch: int, examples: int) -> None:
    steps = sum(TrainingSettings(windows=windows, batch=batch, steps=3).rounds(examples))
    assert 0 <= steps * batch - windows < batch


@pytest.mark.parametrize(
    ("name", "number"),
    [*product(("batch", "checkpoints", "candidates", "steps"), (0, -1)), ("epochs", -1), ("windows", -1)],
)
def test_lengths_must_be_at_least_one(name: str, number: int) -> None:
    with pytest.raises(UsageError, match=r"at least"):
        TrainingSettings(**{name: number})


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_that_cannot_learn_is_refused(rate: float) -> None:
    with pytest.raises(UsageError, match="the learning rate must be above 0"):
        TrainingSettings(rate=rate)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(UsageError, match="the seed must not be negative, but it is -1"):
        TrainingSettings(seed=-1)
