"""The config file: every key is on its page with its default, and the page's example is one."""

import json
import re
from dataclasses import asdict
from math import inf
from pathlib import Path

import pytest

from scare.baselines import MODELS
from scare.cli.config import RECIPE, Config, read_config
from scare.errors import UsageError
from scare.models import Scare
from scare.training.recipe import Recipe, TrainingSettings, flattened, make_recipe, recipe_tables

PAGE = (Path(__file__).parents[2] / "docs" / "config.md").read_text(encoding="utf-8")


def defaults() -> dict[str, object]:
    """Every key with its default; a table that may hold anything is one key."""
    sections = {name: table for name, table in asdict(Config()).items() if name not in RECIPE}
    whole = {f"{name}.{key}": value for name, table in sections.items() for key, value in table.items()}
    recipe = Recipe(model=Scare.default(), settings=TrainingSettings())  # other tests' presets train a line
    named = {"model.name": "scare", "model.preset": recipe.name}
    return whole | named | flattened(recipe_tables(recipe))


def test_every_key_is_on_the_page_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \| ?`?([^|`]*?)`? \|", PAGE, re.MULTILINE))
    assert rows == {key: "" if value is None else json.dumps(value) for key, value in defaults().items()}


def test_the_page_names_every_model() -> None:
    (row,) = (line for line in PAGE.splitlines() if line.startswith("| `model.name`"))
    assert set(re.findall(r"`([a-z]+)`", row)) == {*MODELS}


def test_the_example_of_the_page_is_a_config(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "c.toml").write_text(example)
    given = read_config(tmp_path / "c.toml")
    assert [channel.name for channel in given.config.data.channels] == ["NO2", "RH"]
    assert given.config.compare.windows == (60, 360)
    assert given.recipe.keys() == {"model", "training"}


def test_an_option_names_another_column_and_one_the_file_describes_stays_described(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        "[data]\nreference = {name = 'Ref.NO2', unit = 'ppb', low = 0.0}\nchannels = [{name='OX', unit='nA'}, 'T']\n"
    )
    for given, expected in (
        ({}, ("Ref.NO2", "ppb", 0.0)),
        ({"reference": "Ref.NO2"}, ("Ref.NO2", "ppb", 0.0)),
        ({"reference": "Ref.O3"}, ("Ref.O3", "", -inf)),
        ({"reference": None, "channels": ["T", "OX"]}, ("Ref.NO2", "ppb", 0.0)),
    ):
        data = read_config(tmp_path / "c.toml", data=given).config.data
        assert data.reference is not None
        assert (data.reference.name, data.reference.unit, data.reference.low) == expected
    assert [(channel.name, channel.unit) for channel in data.channels] == [("T", ""), ("OX", "nA")]


@pytest.mark.parametrize("name", MODELS)
def test_the_keys_of_every_model_are_those_of_its_record(name: str) -> None:
    recipe = Recipe.preset("default", model=name)
    assert (
        make_recipe(recipe_tables(recipe) | {"model": recipe_tables(recipe)["model"] | {"name": name}}, "c") == recipe
    )


@pytest.mark.parametrize(
    ("setting", "key", "value"),
    [
        ("training.rate=0.1", "training.rate", 0.1),
        ("training.members=3", "training.members", 3),
        ("model.gap_policy=strict", "model.gap_policy", "strict"),
        ("data.sort=true", "data.sort", True),
        ('split.borders=["2020-01-24T00:00", "2020-01-25"]', "split.borders", ["2020-01-24T00:00", "2020-01-25"]),
        ("split.column=part", "split.column", "part"),
    ],
)
def test_every_key_can_be_given_on_the_command_line(setting: str, key: str, value: object) -> None:
    section, name = key.split(".")
    assert read_config(None, [setting]).tables[section][name] == value


def test_a_setting_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--set takes key=value, such as training.seed=3, not 'seed'"):
        read_config(None, ["seed"])
    with pytest.raises(UsageError, match=r"unknown key 'sed' in \[split\]"):
        read_config(None, ["split.sed=3"])


def test_an_option_wins_over_a_setting_and_a_setting_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[compare]\nseeds = 1\njobs = 1\n")
    given = read_config(tmp_path / "c.toml", ["compare.seeds=2", "compare.jobs=2"], compare={"jobs": 3})
    assert (given.config.compare.seeds, given.config.compare.jobs) == (2, 3)
