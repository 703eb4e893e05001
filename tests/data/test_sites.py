"""Sites: a box is at one place at a time, a place may have one box after the other."""

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from scare.data.sites import Sites, read_places, read_sites
from scare.errors import DataError, UsageError

STAYS = """site,device,from,to
Main Street,box-1,,2026-03-01
Main Street,box-2,2026-03-01,
Harbour,box-1,2026-03-02T12:00:00+02:00,
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "sites.csv"
    path.write_text(text)
    return path


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_a_series_survives_a_box_being_swapped(tmp_path: Path) -> None:
    sites = read_sites(write(tmp_path, STAYS))
    assert sites.at("box-1", at("2026-02-28T23:59")) == "Main Street"
    assert sites.at("box-2", at("2026-02-28T23:59")) == ""
    assert sites.at("box-2", at("2026-03-01")) == "Main Street"
    assert sites.at("box-1", at("2026-03-02T09:59")) == ""
    assert sites.at("box-1", at("2026-03-02T10:00")) == "Harbour"


def test_rows_get_the_site_of_their_time(tmp_path: Path) -> None:
    sites = read_sites(write(tmp_path, STAYS))
    times = pl.datetime_range(datetime(2026, 2, 28), datetime(2026, 3, 3), "1d", time_zone="UTC", eager=True)
    rows = pl.concat([pl.DataFrame({"device": name, "time": times}) for name in ("box-1", "box-2", "box-3")])
    found = sites.add_to(rows)
    assert found.columns == ["device", "site", "time"]
    expected = [sites.at(device, time.timestamp()) or None for device, time in rows.iter_rows()]
    assert found["site"].to_list() == expected
    assert Sites().add_to(rows).columns == ["device", "time"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("place,device,from,to\na,b,,\n", "the header must be site,device,from,to, not place,device,from,to"),
        ("site,device,from,to\na,,,\n", "row 2: 'device' is empty"),
        ("site,device,from,to\na,b,1.3.2026,\n", "row 2: 'from' is '1.3.2026'; write a time such as 2026-03-01"),
        ("site,device,from,to\na,b,2026-03-01,2026-03-01\n", "row 2: 'to' is not later than 'from'"),
        ("site,device,from,to\na,b,,\nc,b,2026-03-01,\n", "b is at a and at c from 2026-03-01 00:00 on; give its stay"),
        ("site,device,from,to\na,b,,\nc,b,,\n", "b is at a and at c from the start on"),
    ],
)
def test_a_mistake_in_the_table_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_sites(write(tmp_path, text))


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_sites(tmp_path / "none.csv")


def test_places_are_read_and_distances_are_those_on_the_globe(tmp_path: Path) -> None:
    text = "site,latitude,longitude,kind\nAntwerp,51.2194,4.4025,traffic\nBrussels,50.8503,4.3517,\n"
    places = read_places(write(tmp_path, text))
    assert places["Antwerp"].kind == "traffic"
    # By Vincenty's formula on the ellipsoid 41.22 km.
    assert places["Antwerp"].metres_to(places["Brussels"]) == pytest.approx(41_220, rel=0.005)
    assert places["Antwerp"].metres_to(places["Antwerp"]) == 0


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("A,95,4,", "row 2: 'latitude' is '95'; write degrees from -90 to 90"),
        ("A,51.2,east,", "row 2: 'longitude' is 'east'"),
        ("A,51.2,nan,", "row 2: 'longitude' is 'nan'"),
        (",51.2,4,", "row 2: 'site' is empty"),
        ("A,51.2,4,\nA,51.2,4,", "row 3: site 'A' is named twice"),
    ],
)
def test_a_wrong_place_is_named_with_its_row(tmp_path: Path, row: str, words: str) -> None:
    path = write(tmp_path, f"site,latitude,longitude,kind\n{row}\n")
    with pytest.raises(DataError, match=words):
        read_places(path)
