"""Previews of files become a config that the commands read; what the person selected wins."""

from pathlib import Path
from typing import Any

import pytest

from scare.cli.config import read_config
from scare.data.tables import TableOptions
from scare.errors import UsageError
from scare.web.session_setup import CHANNELS, ROLES, Selections, Setup, make_setup, read_selections


def preview(**columns: str) -> dict[str, Any]:
    """The preview of a file with these columns, each of which looks like something, or like something: a quantity."""
    looks = {name: look.partition(": ") for name, look in columns.items()}
    listed = [{"name": name, "looks": look, "quantity": quantity} for name, (look, _, quantity) in looks.items()]
    named = {kind: [name for name, one in looks.items() if one[0] == kind] for kind in ROLES}
    channels = [name for kind in CHANNELS for name in named[kind]]
    chosen = {"time": named["time"], "channels": {"": channels}, "reference": next(iter(named["reference"]), "")}
    return {"sort": False, "columns": listed, **chosen}


BOX = preview(when="time", PM="sensor", PM10="sensor", T="temperature", RH="humidity")
STATION = preview(Date="time", PM25="sensor", NO2="sensor")
BOTH = preview(when="time", PM="sensor", T="temperature", Ref="reference", RefT="reference", box="device")


def config(setup: Setup, folder: Path) -> Any:
    (folder / "c.toml").write_text(setup.config())
    return read_config(folder / "c.toml").config


def test_one_file_with_both(tmp_path: Path) -> None:
    setup = make_setup({"all.csv": BOTH}, Selections())
    assert setup.missing == ""
    data = config(setup, tmp_path).data
    assert ([one.name for one in data.channels], data.reference.name) == (["PM", "T"], "Ref")
    assert (data.time, data.device_column, data.reference_file) == (("when",), "box", "")


def test_of_two_files_the_smaller_is_the_reference_unless_a_name_says_otherwise(tmp_path: Path) -> None:
    setup = make_setup({"a.csv": BOX, "b.csv": STATION}, Selections())
    assert (setup.sensors, setup.reference_file, setup.missing) == (("a.csv",), "b.csv", "")
    data = config(setup, tmp_path).data
    assert [one.name for one in data.channels] == ["PM", "PM10", "T", "RH"]
    assert (data.reference_file, data.reference.name, data.apply_offset) == ("files/b.csv", "PM25", False)
    named = make_setup({"reference.csv": BOX, "b.csv": STATION}, Selections())
    assert named.reference_file == "reference.csv"
    selected = make_setup({"a.csv": BOX, "b.csv": STATION}, Selections(kinds={"a.csv": "reference", "b.csv": "sensor"}))
    assert (selected.sensors, selected.reference_file) == (("b.csv",), "a.csv")


def test_of_several_boxes_the_one_that_is_unlike_them_is_the_reference() -> None:
    looks = {"box1.csv": BOX, "box2.csv": BOX, "station.csv": STATION, "box3.csv": BOX}
    assert make_setup(looks, Selections()).reference_file == "station.csv"
    assert make_setup({"box1.csv": BOTH, "box2.csv": BOTH, "box3.csv": BOTH}, Selections()).reference_file == ""


def test_units_are_those_of_the_columns_unless_another_is_selected(tmp_path: Path) -> None:
    box = {**BOTH, "columns": [{**one, "unit": {"PM": "ug/m3"}.get(one["name"], "")} for one in BOTH["columns"]]}
    data = config(make_setup({"all.csv": box}, Selections(units={"all.csv": {"Ref": "mg/m3"}})), tmp_path).data
    assert [one.unit for one in (*data.channels, data.reference)] == ["ug/m3", "", "mg/m3"]


def test_sensor_and_reference_are_columns_of_one_quantity(tmp_path: Path) -> None:
    box = preview(when="time", CO="sensor: CO", O3="sensor: O3", T="temperature")
    box["channels"] = {"": ["CO", "O3", "T"], "O3": ["O3", "T"]}
    looks = {"box.csv": box, "station.csv": preview(Date="time", NO2="sensor: NO2", Ozone="sensor: O3")}
    data = config(make_setup(looks, Selections()), tmp_path).data
    assert ([one.name for one in data.channels], data.reference.name) == (["O3", "T"], "Ozone")
    stated = make_setup(looks, Selections(quantity="NO2"))
    assert stated.roles["station.csv"]["NO2"] == "reference"


def test_each_file_is_read_as_it_is_said_to_be_written(tmp_path: Path) -> None:
    stated = {
        "b.csv": TableOptions(timezone="Europe/Berlin", missing=("-999",)),
        "station.csv": TableOptions(skip_rows=3),
    }
    looks = {"a.csv": BOX, "b.csv": BOX, "station.csv": preview(local="time", utc="nothing", PM25="sensor")}
    selections = Selections(tables=stated, roles={"station.csv": {"utc": "time"}})
    data = config(make_setup(looks, selections), tmp_path).data
    assert (data.timezone, data.missing, data.skip_rows) == ("Europe/Berlin", ("-999",), None)
    assert (data.reference_table.timezone, data.reference_table.skip_rows) == ("", 3)
    assert data.reference_table.time == ("utc",)


def test_a_role_of_which_there_is_one_is_given_up_by_whoever_had_it(tmp_path: Path) -> None:
    selections = Selections(roles={"all.csv": {"T": "target", "RefT": "reference", "gone": "time"}})
    setup = make_setup({"all.csv": BOTH}, selections)
    data = config(setup, tmp_path).data
    assert ([one.name for one in data.channels], data.reference.name) == (["T", "PM"], "RefT")


@pytest.mark.parametrize(
    ("looks", "selections", "missing"),
    [
        ({}, {}, "Add a file of your sensor."),
        ({"a.csv": BOX}, {}, "Select the column that is the reference, or add a file"),
        ({"a.csv": BOTH}, {"roles": {"a.csv": {"when": "nothing"}}}, "the column of a.csv that is the time"),
        ({"a.csv": preview(t="time", T="temperature")}, {}, "the column of a.csv that is the sensor to calibrate"),
    ],
)
def test_a_sentence_names_what_is_missing(looks: dict[str, Any], selections: dict[str, Any], missing: str) -> None:
    assert missing in make_setup(looks, read_selections(selections)).missing


def test_all_selections_reach_the_config(tmp_path: Path) -> None:
    selections = {"apply_offset": True, "borders": [1e9, 1.1e9], "window": 24, "step": 3600.0, "length": "thorough"}
    looks = {"a.csv": {**BOX, "sort": True}, "b.csv": STATION}
    found = config(make_setup(looks, read_selections(selections)), tmp_path)
    assert (found.data.apply_offset, found.data.sort, found.data.step) == (True, True, 3600)
    assert found.split.borders == ("2001-09-09T01:46:40+00:00", "2004-11-09T11:33:20+00:00")
    assert (found.model["window"], found.training["members"]) == (24, 3)
    assert found.compare.beside == ("ridge", "boosting")


@pytest.mark.parametrize(
    "selections",
    [{"window": 0}, {"window": "many"}, {"colour": 1}, {"length": 3}, {"tables": {"a.csv": {"zone": "UTC"}}}],
)
def test_impossible_selections_are_refused(selections: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="the selections: "):
        read_selections(selections)
