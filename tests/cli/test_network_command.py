"""`scare network`: a network's tables in, a calibrator for each box, a map and a plan out."""

import json
from html import unescape
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare.data.readings import Channel
from scare.upkeep.network.calibrators import as_it_reads
from scare.upkeep.update import set_line
from tests.cli.output import RunCli

TABLES = "town/readings.csv --references town/references.csv --sites town/stays.csv --places town/places.csv"


@pytest.fixture
def town(scare: RunCli) -> Path:
    assert scare("scare network simulate --journey station --boxes 8 --days 40 --seed 3 --out town").code == 0
    return Path("town")


def error_of(table: pl.DataFrame, value: str) -> float:
    truth = pl.read_csv("town/truth.csv", try_parse_dates=True).rename({"pm25": "truth"})
    both = table.with_columns(pl.col("time").cast(pl.Datetime("us", "UTC"))).join(
        truth.with_columns(pl.col("time").cast(pl.Datetime("us", "UTC"))), on=["time", "device"]
    )
    return float((both[value] - both["truth"]).pow(2).mean() ** 0.5)  # type: ignore[operator]


def test_calibrators_are_closer_to_the_truth_and_the_files_agree(scare: RunCli, town: Path) -> None:
    output = scare(f"scare network solve {TABLES} --out n --json")
    assert output.code == 0, output.err
    printed = json.loads(output.out)
    assert printed == json.loads(Path("n/network.json").read_text(encoding="utf-8"))
    assert len(printed["boxes"]) == 8
    assert all(box["path"][-1]["beside"] == "station-a" for box in printed["boxes"])
    worst = [box["uncertainty"] for box in printed["boxes"]]
    assert worst == sorted(worst, reverse=True)
    done = scare("scare predict town/readings.csv --models n/models.csv --out calibrated")
    assert done.code == 0, done.err
    table = pl.read_parquet("calibrated/readings.parquet")
    raw = pl.read_csv("town/readings.csv", try_parse_dates=True)
    assert error_of(table, "calibrated") < 0.5 * error_of(raw, "pm25")
    inside = (table["low"] <= table["calibrated"]) & (table["calibrated"] <= table["high"])
    assert inside.drop_nulls().all()


def test_the_report_is_made_again_from_the_numbers(scare: RunCli, town: Path) -> None:
    assert "box-05" in scare(f"scare network solve {TABLES} --out n").out
    page = Path("n/network.html").read_bytes()
    Path("n/network.html").unlink()
    assert scare("scare network report n").code == 0
    assert Path("n/network.html").read_bytes() == page


def test_distant_stations_say_what_they_cannot_tell(scare: RunCli, town: Path) -> None:
    alone = json.loads(scare(f"scare network solve {TABLES} --out alone --no-distant --json").out)
    output = scare(f"scare network solve {TABLES} --out n --json")
    assert output.code == 0, output.err
    helped = json.loads(output.out)
    assert {one["kind"] for one in helped["encounters"]} == {"beside", "distant"}
    assert helped["boxes"][0]["uncertainty"] < alone["boxes"][0]["uncertainty"]
    assert not alone["notes"]
    assert "Not identifiable: of box-01, box-02" in output.err  # depot and streets are of other kinds than the station
    assert helped["notes"][0] in unescape(Path("n/network.html").read_text(encoding="utf-8"))


def test_the_wind_of_a_station_chooses_the_hours(scare: RunCli, town: Path) -> None:
    """Every second night is windy, so that half of the hours are compared."""
    references = pl.read_csv("town/references.csv", try_parse_dates=True)
    windy = references.with_columns(wind_ms=5.0 * (pl.col("time").dt.ordinal_day() % 2))
    windy.write_csv("town/windy.csv", datetime_format="%Y-%m-%dT%H:%M:%SZ")
    tables = TABLES.replace("references.csv", "windy.csv") + " --reference-column pm25 --rules rules.toml"
    pairs = []
    for least in (0.0, 2.0):
        Path("rules.toml").write_text(f'distant_wind = {least}\nwind_column = "wind_ms"\nleast_correlation = -1\n')
        output = scare(f"scare network solve {tables} --out n --json")
        assert output.code == 0, output.err
        found = json.loads(output.out)["encounters"]
        pairs.append(sum(one["pairs"] for one in found if one["kind"] == "distant"))
    assert pairs[1] == pytest.approx(pairs[0] / 2, rel=0.1)


def test_a_plan_names_boxes_and_what_they_gain(scare: RunCli, town: Path) -> None:
    output = scare(f"scare network plan {TABLES} --trips 2 --stay box-01 --json")
    assert output.code == 0, output.err
    trips = json.loads(output.out)["trips"]
    assert len(trips) == 2
    assert all(trip["after"] < trip["before"] for trip in trips)
    assert scare(f"scare network plan {TABLES} --stay box-99").code == 2


def test_a_fleet_s_calibrator_is_applied_first(scare: RunCli, town: Path) -> None:
    """A calibrator that doubles everything: the network's lines are half as steep, and values the same."""
    twice = set_line(as_it_reads(Channel("pm25"), Channel("calibrated"), 3600.0), 2.0, 0.0, {})
    twice.save("double.scare")
    alone = json.loads(scare(f"scare network solve {TABLES} --out n --json").out)
    output = scare(f"scare network solve {TABLES} --model double.scare --out m --json")
    assert output.code == 0, output.err
    gains = [{box["device"]: box["gain"] for box in found["boxes"]} for found in (alone, json.loads(output.out))]
    rows = pl.read_csv("town/readings.csv").filter(pl.col("device") == "box-05")
    rows.write_csv("box-05.csv")
    values = []
    for folder in ("n", "m"):
        assert scare(f"scare predict {folder}/calibrators/box-05.scare box-05.csv --out {folder}.parquet").code == 0
        values.append(pl.read_parquet(f"{folder}.parquet")["calibrated"].drop_nulls().to_numpy())
    # Not equal: predicting flags some readings, which then count for nothing.
    assert np.allclose(*values, atol=0.2)
    assert np.allclose([gains[1][name] / gains[0][name] for name in gains[0]], 0.5, rtol=0.05)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ("--places no.csv", 2, "cannot read no.csv"),
        ("--references town/readings.csv", 3, "is among the boxes and among the references"),
        ("--column pm10", 3, "pm10"),
        ("--model x.scare --column pm25", 2, "--column is for networks without --model"),
        ("--rules rules.toml", 2, "unknown key 'meters'; did you mean 'metres'?"),
        ("--rules wind.toml", 3, "wind_column = 'ws', which no table of references or boxes has"),
    ],
)
def test_mistakes_are_named(scare: RunCli, town: Path, change: str, code: int, words: str) -> None:
    Path("rules.toml").write_text("meters = 30\n")
    Path("wind.toml").write_text('wind_column = "ws"\n')
    kept = TABLES.split()
    for option in change.split()[::2]:
        if option in kept:
            at = kept.index(option)
            del kept[at : at + 2]
    output = scare(f"scare network solve {' '.join(kept)} {change} --out n")
    assert output.code == code, output.err
    assert words in " ".join(output.err.split())
    assert not Path("n").exists()


def test_a_site_that_has_no_place_is_named(scare: RunCli, town: Path) -> None:
    places = pl.read_csv("town/places.csv").filter(pl.col("site") != "depot")
    places.write_csv("town/places.csv")
    output = scare(f"scare network solve {TABLES} --out n")
    assert output.code == 3
    assert "stands at 'depot', which is not in the table of places" in " ".join(output.err.split())
