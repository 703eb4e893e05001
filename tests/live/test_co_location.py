"""A box beside the reference: its hours are kept as a table, and what `scare progress` says of them is shown."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import RATE, Intervals
from scare.cli.progress import assess_live
from scare.data.readings import Channel
from scare.live.co_location import CoLocation
from scare.live.config import CoLocationSettings
from scare.live.messages import Reading
from scare.live.pipeline import Result
from tests.calibrator.building import DUST, make_calibrator
from tests.live.broker import wait_for
from tests.live.test_http import ask, lines, make_config, working

START = 1.7e9 // 86400 * 86400
SMALL = make_calibrator()
TEN_MINUTES = replace(
    SMALL, inputs=replace(SMALL.inputs, channels=(DUST, Channel("humidity", "%")), step_seconds=600.0), target=DUST
)
# 90 % of Gaussian errors with a standard deviation of 1.
HOURLY = replace(
    TEN_MINUTES,
    inputs=replace(TEN_MINUTES.inputs, step_seconds=3600.0),
    intervals=Intervals(0.9, (), (1.645,), (1.645,)),
)


def readings(hours: range, device: str = "box 1", every: int = 10) -> Iterator[Reading]:
    for hour in hours:
        for minute in range(0, 60, every):
            values = {"pm25": 10.0 + 5 * np.sin(hour / 4) + minute / 60, "humidity": 50.0 + 10 * np.cos(hour / 24)}
            yield Reading(device, START + 3600 * hour + 60 * minute, values)


def station(path: Path, hours: int) -> None:
    rows = [(datetime.fromtimestamp(START + 3600 * hour, UTC), 4 + 2.5 * np.sin(hour / 4)) for hour in range(hours)]
    path.write_text("time,PM2.5\n" + "".join(f"{when:%Y-%m-%dT%H:%M:%SZ},{value:.4f}\n" for when, value in rows))


def beside(folder: Path, sent: dict[str, str], *deployment: str, calibrator: Calibrator = TEN_MINUTES) -> CoLocation:
    settings = CoLocationSettings(("box 1",), str(folder / "station.csv"), deployment=deployment)
    assess = assess_live if calibrator is TEN_MINUTES else lambda files, settings: {"advice": ""}
    return CoLocation(settings, folder / "hours", lambda device: calibrator, assess, sent.__setitem__)


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "hours" / "box 1.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("cut", [3, 30, 150])  # bytes from the end: in a line, a line and a half, in the header
def test_a_line_that_a_power_failure_cut_off_is_written_again(tmp_path: Path, cut: int) -> None:
    beside(tmp_path, {}).take(readings(range(4)))
    whole = rows(tmp_path)
    file = tmp_path / "hours" / "box 1.csv"
    file.write_bytes(file.read_bytes()[:-cut])
    beside(tmp_path, {}).take(readings(range(4)))
    assert rows(tmp_path) == whole
    assert len(whole) == 3


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


def drifting(folder: Path, kept: CoLocation, hours: int, per_hour: int = 1) -> np.ndarray:
    """Hours of readings and results while the box drifts; returns which references the interval as fitted contains."""
    rng = np.random.default_rng(3)
    truth = 40 + 8 * np.sin(np.arange(hours) / 9)
    values = truth + np.linspace(1, 2, hours) * rng.normal(size=hours)
    for hour, value in enumerate(values.tolist()):
        for time in START + 3600 * (hour + np.arange(per_hour) / per_hour):
            kept.take([Reading("box 1", time, {"pm25": 2 * value, "humidity": 50.0})])
            kept.publish([Result("box 1", time, 2 * value, value, value, value, 0, "pm")])
    when = (datetime.fromtimestamp(START + 3600 * hour, UTC) for hour in range(hours))
    rows = (f"{moment:%Y-%m-%dT%H:%M:%SZ},{true:.4f}\n" for moment, true in zip(when, truth, strict=True))
    (folder / "station.csv").write_text("time,PM2.5\n" + "".join(rows))
    return np.abs(values - truth) <= 1.645


def test_intervals_hold_their_level_while_the_box_drifts(tmp_path: Path) -> None:
    kept = beside(tmp_path, {}, calibrator=HOURLY)
    as_fitted = drifting(tmp_path, kept, 4000)
    kept.look()
    found = kept.latest["intervals"]["box 1"]
    assert found["hours"] == 3999  # the last hour is not over
    assert as_fitted.mean() < 0.75
    assert found["covered"] == pytest.approx(0.9, abs=np.log(2) / (RATE * 4000))  # the known bound
    assert kept.widths == {"box 1": pytest.approx(1.9, abs=0.3)}
    assert f"{found['width']:.2f} times as wide" in kept.remarks()[1]
    again = beside(tmp_path, {}, calibrator=HOURLY)  # after a restart
    again.look()
    assert again.widths == kept.widths
    other = beside(tmp_path, {}, calibrator=replace(HOURLY, intervals=Intervals(0.9, (), (9.0,), (9.0,))))
    other.look()
    assert other.widths == {}


def test_hourly_means_do_not_make_intervals_of_minutes_narrower(tmp_path: Path) -> None:
    half_hourly = replace(HOURLY.inputs, step_seconds=1800.0)
    kept = beside(
        tmp_path, {}, calibrator=replace(HOURLY, inputs=half_hourly, intervals=Intervals(0.9, (), (20.0,), (20.0,)))
    )
    drifting(tmp_path, kept, 100, per_hour=2)
    kept.look()
    assert kept.latest["intervals"]["box 1"] == {"width": 1.0, "hours": 99, "covered": 1.0}


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
