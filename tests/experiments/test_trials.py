"""The search space: the default one, that of a config file, and which hyperparameters change the cost on a board."""

import re
import tomllib
from pathlib import Path

import pytest

from scare.errors import UsageError
from scare.experiments.trials import HYPERPARAMETERS, architecture, default_space, make_space, preset_values
from scare.training.recipe import Recipe, adjust, nested


def test_the_preset_is_among_the_values_of_every_hyperparameter_and_each_value_is_allowed() -> None:
    preset = Recipe(window=60)
    space = default_space(preset)
    assert space["model.window"] == (30, 60, 120, 240)
    for name, value in preset_values(space, preset).items():
        assert value in space[name]
        assert list(space[name]) == sorted(set(space[name]))
        for other in space[name]:
            adjust(preset, nested({name: other}), "knobs")


def test_a_short_window_has_no_lengths_below_four() -> None:
    assert default_space(Recipe(window=6))["model.window"] == (4, 6, 12, 24)


def test_a_file_names_other_hyperparameters() -> None:
    tables = {
        "training": {"rate": [0.2, 0.1]},
        "model": {"front": {"width": [8, 6]}},
        "selection": {"tolerance": [0.2]},
    }
    assert make_space(tables, Recipe(window=24), "c.toml") == {
        "model.window": (24,),
        "training.rate": (0.005, 0.1, 0.2),
        "model.front.width": (6, 8),
        "selection.tolerance": (0.15, 0.2),
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[training]\nrate = 0.1", "training.rate is 0.1; it takes a list of 1 or more"),
        ("[training]\nrate = []", "training.rate is []; it takes a list of 1 or more"),
        ("[training]\nrte = [0.1]", "unknown key 'rte' in [training]; did you mean 'rate'?"),
        ("[training]\ncosine = [true]", "training.cosine[0] is True; it takes a whole number or a number"),
        ("[model]\nwindow = [2]", "c.toml: model.window is 2; it takes a whole number from 4 on"),
        (
            "[training]\nseed = [1, 2]",
            "c.toml: 'training.seed' cannot be tuned, since a seed that scores better is luck; leave it out",
        ),
    ],
)
def test_a_hyperparameter_that_cannot_be_tuned_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=re.escape(reason)):
        make_space(tomllib.loads(text), Recipe(window=24), "c.toml")


def test_training_changes_nothing_on_a_board_but_for_the_members() -> None:
    without_effect = {"training.steps", "training.rate", "training.weight_decay"}
    assert {*HYPERPARAMETERS} - {*architecture(preset_values(HYPERPARAMETERS, Recipe()))} == without_effect


def test_the_page_lists_the_hyperparameters_as_they_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tune.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z_.]+)`[^|]*\| ([^|]+) \|$", page, re.MULTILINE))
    assert {
        name: ", ".join(f"{value:g}" for value in values) for name, values in HYPERPARAMETERS.items()
    }.items() <= rows.items()
    assert {*rows} - {"table.json"} == {"model.window", *HYPERPARAMETERS}
