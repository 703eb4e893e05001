"""Every failure to read a record is one message: the file, the key, what is there and what it takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Lt, MinLen

from scare.errors import DataError, UsageError
from scare.schema import convert, merge, read_json, read_toml


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True)
class Lamp:
    colour: Colour
    watts: Annotated[float, Gt(0)] = 1.0
    label: str | None = None

    def __post_init__(self) -> None:
        if self.label == "":
            raise UsageError("a label has letters; leave it out")


@dataclass(frozen=True)
class Building:
    floors: Annotated[int, Ge(1), Lt(100)]
    lamps: tuple[Lamp, ...] = ()
    prices: Mapping[str, float] = field(default_factory=dict)
    names: Annotated[tuple[str, ...], MinLen(1)] = ("building",)
    shape: Literal["round", "square"] = "square"
    open: bool = False
    hall: Lamp | None = None
    value: float | str | None = None


def test_plain_values_become_records_of_records() -> None:
    facts = {"floors": 2, "lamps": [{"colour": "red", "watts": 3}], "prices": {"oil": 4}, "hall": {"colour": "green"}}
    building = convert({**facts, "names": ["a", "b"]}, Building, "x")
    assert building == Building(2, (Lamp(Colour.RED, 3.0),), {"oil": 4.0}, ("a", "b"), hall=Lamp(Colour.GREEN))
    assert isinstance(building.lamps[0].watts, float)
    assert convert({"floors": 1, "prices": {"oil": float("inf")}}, Building, "x").prices["oil"] == float("inf")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"floors": "2"}, "floors is '2'; it takes a whole number from 1 on and below 100"),
        ({"floors": 0}, "floors is 0; it takes a whole number from 1 on and below 100"),
        ({"floors": 2.0}, "floors is 2.0; it takes a whole number from 1 on and below 100"),
        ({"floors": True}, "floors is True; it takes a whole number from 1 on and below 100"),
        ({"floor": 2}, "unknown key 'floor'; did you mean 'floors'?"),
        ({"names": []}, "names is []; it takes a list of 1 or more"),
        ({"names": "hut"}, "names is 'hut'; it takes a list of 1 or more"),
        ({"names": ["hut", 3]}, "names[1] is 3; it takes text"),
        ({"prices": {"oil": "dear"}}, "prices.oil is 'dear'; it takes a number"),
        ({"prices": 3}, "prices is 3; it takes a table of settings"),
        ({"shape": "sqare"}, "shape is 'sqare'; did you mean 'square'?"),
        ({"open": 1}, "open is 1; it takes true or false"),
        ({"lamps": [{"colour": "rd"}]}, "lamps[0].colour is 'rd'; did you mean 'red'?"),
        (
            {"lamps": [{"colour": "red"}, {"colour": "red", "wats": 1}]},
            "unknown key 'wats' in [lamps[1]]; did",
        ),
        ({"lamps": [{}]}, "the key 'colour' is missing in [lamps[0]]"),
        ({"hall": {"colour": "red", "watts": 0}}, "hall.watts is 0; it takes a number above 0"),
        ({"hall": {"colour": "red", "lable": ""}}, "unknown key 'lable' in [hall]; did you mean 'label'?"),
        ({"hall": {"colour": "red", "label": ""}}, "a label has letters; leave it out"),
        ({"hall": 3}, "hall is 3; it takes a table of settings"),
        ({"value": [1]}, "value is [1]; it takes a number or text"),
    ],
)
def test_what_is_wrong_is_one_message(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        convert({"floors": 2, **change}, Building, "my.toml")
    assert str(caught.value).startswith(f"my.toml: {message}")
    assert "\n" not in str(caught.value)


def test_a_misspelt_key_is_named_before_the_one_it_should_be() -> None:
    with pytest.raises(UsageError, match=r"my.toml: unknown key 'floorz'; did you mean 'floors'"):
        convert({"floorz": 2}, Building, "my.toml")
    with pytest.raises(UsageError, match=r"my.toml: the key 'floors' is missing"):
        convert({}, Building, "my.toml")
    with pytest.raises(UsageError, match=r"my.toml: it is \[1\]; it takes a table of settings"):
        convert([1], Building, "my.toml")


def test_what_a_newer_version_wrote_more_is_ignored_where_asked_for() -> None:
    assert convert({"floors": 2, "hall": {"colour": "red", "new": 1}}, Building, "x", unknown="ignore").hall == Lamp(
        Colour.RED
    )


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    with pytest.raises(UsageError, match=f"cannot read {bad}: No such file"):
        read_toml(bad, Building)
    with pytest.raises(DataError, match=f"cannot read {bad}: No such file"):
        read_json(bad, Building)
    bad.write_bytes(b"\xff = ")
    with pytest.raises(UsageError, match=f"{bad}: cannot be read as TOML"):
        read_toml(bad, Building)
    with pytest.raises(DataError, match=f"{bad}: cannot be read as JSON"):
        read_json(bad, Building)
    bad.write_text('{"floors": []}')
    with pytest.raises(DataError, match=rf"{bad}: floors is \[\]; it takes a whole number"):
        read_json(bad, Building)


def test_merged_tables_leave_the_given_ones_as_they_are() -> None:
    ours = {"a": {"b": {"c": 1, "d": 2}}, "e": 3}
    assert merge(ours, {"a": {"b": {"d": 4}}, "e": {"f": 5}}) == {"a": {"b": {"c": 1, "d": 4}}, "e": {"f": 5}}
    assert ours == {"a": {"b": {"c": 1, "d": 2}}, "e": 3}
