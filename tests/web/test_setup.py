"""What files look like becomes a config that the commands read; what was said wins."""

from pathlib import Path
from typing import Any

import pytest

from scare.cli.config import read_config
from scare.errors import UsageError
from scare.web.setup import Choices, Said, choose, read_said


def look(**columns: str) -> dict[str, Any]:
    """What `looking.look` would say of a file with these columns."""
    return {"sort": False, "columns": [{"name": name, "looks": looks} for name, looks in columns.items()]}


BOX = look(when="time", PM="sensor", PM10="sensor", T="temperature", RH="humidity")
STATION = look(Date="time", PM25="sensor", NO2="sensor")
BOTH = look(when="time", PM="sensor", T="temperature", Ref="reference", RefT="reference", box="device")


def config(choices: Choices, folder: Path) -> Any:
    (folder / "c.toml").write_text(choices.config())
    return read_config(folder / "c.toml").config


def test_one_file_with_both(tmp_path: Path) -> None:
    choices = choose({"all.csv": BOTH}, Said())
    assert choices.missing == ""
    data = config(choices, tmp_path).data
    assert ([one.name for one in data.channels], data.reference.name) == (["PM", "T"], "Ref")
    assert (data.time, data.device_column, data.reference_file) == (("when",), "box", "")


def test_of_two_files_the_smaller_is_the_reference_unless_a_name_says_otherwise(tmp_path: Path) -> None:
    choices = choose({"a.csv": BOX, "b.csv": STATION}, Said())
    assert (choices.sensors, choices.reference_file, choices.missing) == (("a.csv",), "b.csv", "")
    data = config(choices, tmp_path).data
    assert [one.name for one in data.channels] == ["PM", "PM10", "T", "RH"]
    assert (data.reference_file, data.reference.name, data.apply_offset) == ("files/b.csv", "PM25", False)
    named = choose({"reference.csv": BOX, "b.csv": STATION}, Said())
    assert named.reference_file == "reference.csv"
    said = choose({"a.csv": BOX, "b.csv": STATION}, Said(kinds={"a.csv": "reference", "b.csv": "sensor"}))
    assert (said.sensors, said.reference_file) == (("b.csv",), "a.csv")


def test_of_several_boxes_the_one_that_is_unlike_them_is_the_reference() -> None:
    looks = {"box1.csv": BOX, "box2.csv": BOX, "station.csv": STATION, "box3.csv": BOX}
    assert choose(looks, Said()).reference_file == "station.csv"
    assert choose({"box1.csv": BOTH, "box2.csv": BOTH, "box3.csv": BOTH}, Said()).reference_file == ""


def test_units_are_those_of_the_columns_unless_another_is_said(tmp_path: Path) -> None:
    box = {"sort": False, "columns": [{**one, "unit": {"PM": "ug/m3"}.get(one["name"], "")} for one in BOTH["columns"]]}
    data = config(choose({"all.csv": box}, Said(units={"all.csv": {"Ref": "mg/m3"}})), tmp_path).data
    assert [one.unit for one in (*data.channels, data.reference)] == ["ug/m3", "", "mg/m3"]


def test_a_role_of_which_there_is_one_is_given_up_by_whoever_had_it(tmp_path: Path) -> None:
    said = Said(roles={"all.csv": {"T": "target", "RefT": "reference", "gone": "time"}})
    choices = choose({"all.csv": BOTH}, said)
    data = config(choices, tmp_path).data
    assert ([one.name for one in data.channels], data.reference.name) == (["T", "PM"], "RefT")


@pytest.mark.parametrize(
    ("looks", "said", "missing"),
    [
        ({}, {}, "Drop a file of your sensor."),
        ({"a.csv": BOX}, {}, "Say which column is the reference, or drop a file"),
        ({"a.csv": BOTH}, {"roles": {"a.csv": {"when": "nothing"}}}, "which column of a.csv is the time"),
        ({"a.csv": look(t="time", T="temperature")}, {}, "which column of a.csv is the sensor to calibrate"),
    ],
)
def test_what_is_missing_is_said(looks: dict[str, Any], said: dict[str, Any], missing: str) -> None:
    assert missing in choose(looks, read_said(said)).missing


def test_all_that_is_said_reaches_the_config(tmp_path: Path) -> None:
    said = {"apply_offset": True, "borders": [1e9, 1.1e9], "window": 24, "step": 3600.0, "length": "thorough"}
    looks = {"a.csv": {**BOX, "sort": True}, "b.csv": STATION}
    found = config(choose(looks, read_said(said)), tmp_path)
    assert (found.data.apply_offset, found.data.sort, found.data.step) == (True, True, 3600)
    assert found.split.borders == ("2001-09-09T01:46:40+00:00", "2004-11-09T11:33:20+00:00")
    assert (found.model["window"], found.training["members"]) == (24, 3)
    assert found.compare.beside == ("ridge", "boosting")


@pytest.mark.parametrize("said", [{"window": 0}, {"window": "many"}, {"colour": 1}, {"length": 3}, {"length": "long"}])
def test_what_cannot_be_said_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="the choices: "):
        read_said(said)
