"""A box beside the reference: its hours are kept as a table, and what `scare progress` says of them is shown."""

import csv
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from scare.cli.progress import assess_live
from scare.live.co_location import CoLocation
from scare.live.config import CoLocationSettings
from scare.live.messages import Reading
from tests.live.broker import wait_for
from tests.live.test_http import ask, lines, make_config, working

START = 1.7e9 // 86400 * 86400
CHANNELS = ["pm25", "humidity"]


def readings(hours: range, device: str = "box 1", every: int = 10) -> Iterator[Reading]:
    for hour in hours:
        for minute in range(0, 60, every):
            values = {"pm25": 10.0 + 5 * np.sin(hour / 4) + minute / 60, "humidity": 50.0 + 10 * np.cos(hour / 24)}
            yield Reading(device, START + 3600 * hour + 60 * minute, values)


def station(path: Path, hours: int) -> None:
    rows = [(datetime.fromtimestamp(START + 3600 * hour, UTC), 4 + 2.5 * np.sin(hour / 4)) for hour in range(hours)]
    path.write_text("time,PM2.5\n" + "".join(f"{when:%Y-%m-%dT%H:%M:%SZ},{value:.4f}\n" for when, value in rows))


def beside(folder: Path, sent: dict[str, str], *deployment: str) -> CoLocation:
    settings = CoLocationSettings(("box 1",), str(folder / "station.csv"), deployment=deployment)
    return CoLocation(settings, folder / "hours", lambda device: (CHANNELS, 600.0), assess_live, sent.__setitem__)


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "hours" / "box 1.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_hours_with_enough_readings_are_kept_once_whatever_is_sent_again(tmp_path: Path) -> None:
    kept = beside(tmp_path, {})
    kept.take(readings(range(3)))
    kept.take(readings(range(3), "box 2"))
    kept.take(list(readings(range(3, 4)))[:3])  # half an hour
    kept.take(readings(range(4, 6)))
    assert [float(row["time"][11:13]) for row in rows(tmp_path)] == [0, 1, 2, 4]
    assert float(rows(tmp_path)[0]["pm25"]) == pytest.approx(10 + 25 / 60, rel=1e-5)
    again = beside(tmp_path, {})  # another process, which replays its journal
    again.take(readings(range(4, 8)))
    assert [float(row["time"][11:13]) for row in rows(tmp_path)] == [0, 1, 2, 4, 5, 6]


def test_it_says_what_the_command_says(tmp_path: Path) -> None:
    sent: dict[str, str] = {}
    kept = beside(tmp_path, sent)
    kept.take(readings(range(40)))
    station(tmp_path / "station.csv", 300)
    kept.look()
    assert "48 hours" in kept.latest["advice"]
    kept.take(readings(range(40, 24 * 9)))
    kept.look()
    assert kept.latest["advice"].startswith(("Go on", "Stop"))
    assert kept.latest["days"] == pytest.approx(9, abs=0.1)
    assert kept.latest["error"] < 1.0
    assert kept.remarks() == [f"Beside the reference (box 1): {kept.latest['advice']}"]
    assert kept.latest["advice"] in sent["co-location"]


def test_conditions_of_the_deployment_count(tmp_path: Path) -> None:
    kept = beside(tmp_path, {}, str(tmp_path / "last*.csv"))
    kept.take(readings(range(24 * 9)))
    station(tmp_path / "station.csv", 300)
    kept.look()
    assert kept.latest["advice"].endswith("last*.csv: co_location.deployment names it, but there is no such file")
    times = [datetime.fromtimestamp(START - 3600 * hour, UTC) for hour in range(100)]
    for name, low in (("last.csv", 40), ("last year.csv", 0)):
        table = [f"{when:%Y-%m-%dT%H:%M:%SZ},{low + index % 21}" for index, when in enumerate(times)]
        (tmp_path / name).write_text("\n".join(["time,humidity", *table]))
    kept.take(readings(range(24 * 9, 24 * 9 + 2)))
    kept.look()
    (humidity,) = kept.latest["conditions"]
    assert humidity["name"] == "humidity"
    assert humidity["share"] == pytest.approx(0.5, abs=0.1)
    assert "humidity has seen" in kept.latest["advice"]


def test_the_gateway_shows_it(tmp_path: Path) -> None:
    station(tmp_path / "station.csv", 300)
    settings = CoLocationSettings(("box 1",), str(tmp_path / "station.csv"))
    config = make_config(tmp_path, co_location=settings)
    with working(config, assess_live) as gateway:
        values = [
            Reading(one.device, one.time, one.values | {"current": 300.0}) for one in readings(range(30), every=1)
        ]
        assert ask(gateway, "POST", "/v1/readings", lines(values))[1]["accepted"] == len(values)
        wait_for(lambda: (tmp_path / "state" / "co-location" / "box 1.csv").exists())
        assert "co-location" not in ask(gateway, "GET", "/healthz")[1]["problems"]
        assert ask(gateway, "GET", "/v1/co-location")[1]["advice"]
    with working(make_config(tmp_path)) as gateway:
        assert ask(gateway, "GET", "/v1/co-location")[0] == 404
