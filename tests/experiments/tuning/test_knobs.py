"""Knobs: the usual ones, those of a file, and which of them a board notices."""

import re
from pathlib import Path

import pytest

from scare.errors import UsageError
from scare.experiments.tuning.knobs import KNOBS, architecture, preset_values, read_knobs, usual_knobs
from scare.training.presets import Recipe
from scare.training.recipes import adjust, nested


def test_the_preset_is_among_the_values_of_every_knob_and_each_value_is_allowed() -> None:
    knobs = usual_knobs(60)
    assert knobs["window"] == (30, 60, 120, 240)
    for name, value in preset_values(knobs, 60).items():
        assert value in knobs[name]
        assert list(knobs[name]) == sorted(set(knobs[name]))
        for other in knobs[name]:
            adjust(Recipe(), nested({name: other}), "knobs")


def test_a_short_window_has_no_lengths_below_four() -> None:
    assert usual_knobs(6)["window"] == (4, 6, 12, 24)


def test_a_file_names_other_knobs(tmp_path: Path) -> None:
    path = tmp_path / "knobs.toml"
    path.write_text("[settings]\nrate = [0.2, 0.1]\n[model.front]\nwidth = [8, 6]\n")
    assert read_knobs(path, 24) == {"window": (24,), "settings.rate": (0.005, 0.1, 0.2), "model.front.width": (6, 8)}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[settings]\nrate = 0.1", "settings.rate is 0.1; it takes a list of 1 or more"),
        ("[settings]\nrate = []", "settings.rate is []; it takes a list of 1 or more"),
        ("[settings]\nrte = [0.1]", "unknown key 'rte' in [settings]; did you mean 'rate'?"),
        ("[settings]\ncosine = [true]", "settings.cosine[0] is True; it takes a whole number or a number"),
        ("window = [2]", "knobs.toml: window is 2; it takes a whole number from 4 on"),
        ("[settings]\nseed = [1, 2]", "knobs.toml: 'settings.seed' is no knob"),
    ],
)
def test_a_knob_that_cannot_be_searched_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "knobs.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(reason)):
        read_knobs(path, 24)


def test_training_changes_nothing_on_a_board_but_for_the_members() -> None:
    unnoticed = {"settings.steps", "settings.rate", "settings.weight_decay"}
    assert {*KNOBS} - {*architecture(preset_values(KNOBS, 60))} == unnoticed


def test_the_page_lists_the_knobs_as_they_are() -> None:
    page = (Path(__file__).parents[3] / "docs" / "tune.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z_.]+)`[^|]*\| ([^|]+) \|$", page, re.MULTILINE))
    assert {name: ", ".join(f"{value:g}" for value in values) for name, values in KNOBS.items()}.items() <= rows.items()
    assert {*rows} - {"table.json"} == {"window", *KNOBS}
