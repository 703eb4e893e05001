"""What presets say, and what a recipe refuses."""

import pytest

from scare.errors import UsageError
from scare.models import Scare
from scare.training.recipe import PRESETS, Recipe


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
    assert (recipe.window, recipe.scaling, recipe.policy.name) == (60, "standard", "recent")
    assert (settings.steps, settings.epochs, settings.batch, settings.checkpoints) == (3000, 0, 64, 10)
    assert (settings.rate, settings.warm_up, settings.cosine, settings.clip) == (5e-3, 0.05, True, 1.0)
    assert (settings.weight_decay, settings.average, settings.freeze_at) == (1e-2, 0.995, 0.6)


def test_the_paper_preset_is_plain_adam_on_constant_scaling() -> None:
    recipe, settings = Recipe.preset("paper"), Recipe.preset("paper").settings
    assert (recipe.scaling, recipe.per_device) == ("constant", False)
    assert (settings.epochs, settings.batch, settings.warm_up) == (10, 32, 0.0)
    assert (settings.weight_decay, settings.clip, settings.average) == (0.0, 0.0, 0.0)
