"""The card: grades, JSON both ways, its published form, and demands on it."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.errors import DataError, UsageError
from scare.scorecard import card as card_module
from scare.scorecard.card import Card, missed_demands, read_card, read_demands
from scare.scorecard.requirements import Finding, RequirementTable

TABLE = RequirementTable.load()
SCHEMA = json.loads(Path(card_module.__file__).with_name("scorecard.schema.json").read_text(encoding="utf-8"))
FORM = jsonschema.Draft202012Validator(SCHEMA)
NUMBERS = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))
DIGEST = "0" * 64


def make_card(*findings: Finding) -> Card:
    entries = tuple(TABLE.make_entry(finding, "µg/m³") for finding in findings)
    dataset: dict[str, Any] = {"devices": ["a"], "channels": [{"name": "x", "unit": ""}], "inputs": ["x"]}
    dataset |= {"reference": None, "period": ["2026", "2027"], "step_seconds": 60.0, "flags": {"GAP": 1}}
    rows = ("rows", "rows_with_reference", "rows_calibrated", "rows_of_training", "rows_scored")
    dataset |= dict.fromkeys(rows, 5) | {
        f"{part}_{what}": [] for part in ("training", "validation") for what in ("period", "devices")
    }
    origin: dict[str, Any] = {"made": "now", "model_file": None, "model_sha256": None, "seed": None}
    origin |= {"data": [{"file": "a.csv", "sha256": DIGEST}], "arithmetic": "fixed", "protocol": {}}
    origin |= {"versions": {}, "computer": {}}
    model = {"model": "scare", "window": 60, "step_seconds": 60.0}
    return Card(model, {"name": "PM", "unit": "µg/m³"}, entries, dataset, None, origin)


CARD = make_card(
    Finding("rmse", 3.0, 4.0),
    Finding("top5_rmse", 3.0, float("nan")),
    Finding("ram", 1800, 262_144),
    Finding("fits_ram", 1.0),
    Finding("cpu", 80.0),
    Finding("declared_complexity", "O(N)"),
    Finding("exponent", None),
)


@given(st.dictionaries(st.sampled_from(list(TABLE.measures)), st.tuples(NUMBERS, st.floats(0, 1e6)), min_size=1))
def test_any_card_goes_through_json_and_has_the_published_form(numbers: dict[str, tuple[float | None, float]]) -> None:
    card = make_card(*(Finding(name, value, per, {"also": value}) for name, (value, per) in numbers.items()))
    text = card.to_json()
    FORM.validate(json.loads(text))
    assert Card.from_json(text).to_json() == text


def test_the_form_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("spoil", [{"grade": "A"}, {"source": "guessed"}, {"value": [1]}, {"dimension": "beauty"}])
def test_the_form_refuses_what_no_card_has(spoil: dict[str, Any]) -> None:
    facts = json.loads(CARD.to_json())
    facts["entries"][0] |= spoil
    with pytest.raises(jsonschema.ValidationError):
        FORM.validate(facts)


def test_a_requirement_has_the_worst_grade_of_its_numbers() -> None:
    expected = {"mean-accuracy": "△", "instant-accuracy": None, "memory": "O", "compatibility": "X", "complexity": None}
    assert CARD.grades() == expected
    assert json.loads(CARD.to_json())["grades"] == expected


def test_a_grade_may_inform_without_counting() -> None:
    card = make_card(Finding("top5_rmse", 1.0, 4.0), Finding("interval_coverage", 60.0, 90.0))
    assert [entry.grade for entry in card.entries] == ["O", "X"]
    assert card.grades() == {"instant-accuracy": "O"}


@pytest.mark.parametrize(
    ("numbers", "grade"),
    [
        ({"fits_ram": 1.0, "deadline": 1.0}, "O"),
        ({"fits_ram": 1.0, "deadline": None}, None),
        ({"fits_ram": 0.0, "deadline": None}, "X"),
        ({"cpu": 20.0, "deadline": None}, None),
    ],
)
def test_what_is_not_known_is_not_taken_for_good(numbers: dict[str, float | None], grade: str | None) -> None:
    card = make_card(*(Finding(name, value) for name, value in numbers.items()))
    assert card.grades() == {"compatibility": grade}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "other/2"}', '{"schema": "scare/scorecard/2"}'])
def test_a_file_that_is_not_a_card_is_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "scorecard.json"
    path.write_text(text)
    with pytest.raises(DataError, match="this is not a card"):
        read_card(path)


def test_a_card_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read"):
        read_card(tmp_path / "scorecard.json")


@pytest.mark.parametrize(
    ("demand", "message"),
    [
        ("rmse=3", ""),
        ("rmse=2.9", "rmse is 3 µg/m³, at most 2.9 was required"),
        ("rmse=△", ""),
        ("rmse=O", "rmse is △, not O"),
        ("fits_ram=1", ""),
        ("memory=O", ""),
        ("compatibility=△", "compatibility is X, not △"),
        ("complexity=O", "complexity is not graded, not O"),
        ("sampling-jitter=O", "sampling-jitter is not graded, not O"),
        ("flash=9", "flash has no value here"),
        ("exponent=2", "exponent has no value here"),
        ("top5_rmse=O", "top5_rmse is not graded, not O"),
    ],
)
def test_a_demand_is_met_or_the_message_names_what_was_missed(demand: str, message: str) -> None:
    missed = missed_demands(read_demands(demand, TABLE), CARD, TABLE)
    assert missed == ([message] if message else [])


def test_a_higher_number_may_be_the_better_one() -> None:
    small = make_card(Finding("fits_ram", 0.0))
    assert missed_demands(read_demands("fits_ram=1", TABLE), small, TABLE) == ["fits_ram is 0, at least 1 was required"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rsme=5", "no requirement is called 'rsme'; did you mean 'rmse'"),
        ("rmse", "rmse takes a number, O or △, not ''"),
        ("rmse=nan", "rmse takes a number, O or △, not 'nan'"),
        ("memory=5", "memory takes O or △, not '5'"),
        ("memory=X", "memory takes O or △, not 'X'"),
        ("operations=O", "operations takes a number, not 'O'"),
        ("declared_complexity=5", "did you mean 'complexity'"),
    ],
)
def test_a_demand_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_demands(text, TABLE)
    assert message in str(caught.value)
