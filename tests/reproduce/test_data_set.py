"""A described data set: its columns, devices and splits, and the messages about a wrong description."""

from pathlib import Path

import pytest

from benchmarks.reproduce.data_set import read_data_set
from scare.errors import DataError, UsageError
from tests.data.box_files import write_boxes

BOXES = {
    "about": 'about = "four boxes"',
    "files": 'files = "*.csv"',
    "without": 'without = ["box-9"]',
    "data": '[data]\ntime = "when"',
    "pollutants": '[pollutants.PM10]\nchannels = ["pm"]\nreference = "best"\n[pollutants.NO2]\nchannels = ["no"]\n'
    'reference = "best"',
    "places": '[places.first]\nvalidation = "box-2"\ntest = "box-1"\n[places.second]\nvalidation = "box-1"\n'
    'test = "box-2"\ntrain = ["box-3"]',
}


def describe(folder: Path, **changed: str) -> Path:
    """The description of four boxes and one that is left out, with these lines changed."""
    path = folder / "boxes.toml"
    path.write_text("\n".join((BOXES | changed).values()), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_boxes(tmp_path)


def test_each_place_has_its_own_test_and_validation_device(folder: Path) -> None:
    found = read_data_set(describe(folder))
    readings = found.read(folder, "PM10")
    assert [one.device for one in readings] == ["box-1", "box-2", "box-3", "box-4"]
    assert readings[2].values[:2, 0].tolist() == [3.0, 4.0]
    assert readings[2].targets[:2].tolist() == [6.0, 7.0]
    parts = {place: found.split(readings, place).parts for place in found.places}
    devices = {place: [[one.device for one in part] for part in each.values()] for place, each in parts.items()}
    assert devices == {
        "first": [["box-3", "box-4"], ["box-2"], ["box-1"]],
        "second": [["box-3"], ["box-1"], ["box-2"]],
    }


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"about": ""}, "the key 'about' is missing"),
        ({"data": ""}, "the key 'time' is missing in .pollutants.PM10."),
        ({"places": '[places.first]\nvalidation = "box-2"\ntests = "box-1"'}, "unknown key 'tests'.*'test'"),
        (
            {"without": "without = []\npollutants = 3", "data": "", "pollutants": ""},
            "pollutants is 3; it takes a table",
        ),
    ],
)
def test_a_mistake_in_a_description_is_named(folder: Path, changed: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_data_set(describe(folder, **changed))


def test_a_device_that_is_not_there_is_named(folder: Path) -> None:
    found = read_data_set(describe(folder, places='[places.first]\nvalidation = "box-2"\ntest = "box-12"'))
    with pytest.raises(UsageError, match="first: no device 'box-12'"):
        found.split(found.read(folder, "PM10"), "first")


def test_a_folder_without_its_files_is_refused(folder: Path) -> None:
    found = read_data_set(describe(folder))
    (folder / "empty").mkdir()
    with pytest.raises(DataError, match=r"no file \*.csv in .*empty; name the folder"):
        found.read(folder / "empty", "PM10")
