"""`scare fetch`, `scare data` and `scare align` against a web on this computer, and against none."""

import hashlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare.cli import fetch
from tests.cli.output import RunCli
from tests.cli.small_web import serving, write, write_airnow, write_aqs, write_openaq, write_sensor_community

CONTENT = b"date,NO2\n" * 1000


@pytest.fixture
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The path of sources that lead to what a test writes into the folder it is in."""
    with serving(tmp_path_factory.mktemp("web")) as sources:
        yield sources


def test_openaq_becomes_a_row_an_hour_with_units_and_licence_beside_it(scare: RunCli, web: Path) -> None:
    for day in ("2022-05-01", "2022-05-02", "2022-05-03"):
        write_openaq(web.parent, 7, day)
    line = f"scare fetch openaq 7 --from 2022-05-01 --to 2022-05-02 --out out --sources {web}"
    output = scare(f"{line} --json")
    assert output.code == 0, output.err
    table = pl.read_parquet("out/device=7/2022-05.parquet")
    assert table.columns == ["time", "pm25", "no2_ppm"]
    assert table.row(0) == (datetime(2022, 5, 1, 6, tzinfo=UTC), 5.0, 0.25)
    assert json.loads(output.out)["devices"] == {"7": table.height}
    sidecar = json.loads(Path("out/_source.json").read_text())
    assert sidecar["units"]["pm25"] == "ug/m3"
    assert sidecar["devices"]["7"]["latitude"] == 35.1
    assert "provider" in sidecar["licence"]


def test_what_has_been_downloaded_is_not_downloaded_again(scare: RunCli, web: Path) -> None:
    write_openaq(web.parent, 7, "2022-05-01")
    line = f"scare fetch openaq 7 --from 2022-05-01 --to 2022-05-01 --out out --sources {web}"
    assert scare(line).code == 0
    (downloaded,) = Path("out/.downloaded").iterdir()
    before = downloaded.stat().st_mtime_ns
    assert scare(line).code == 0
    assert downloaded.stat().st_mtime_ns == before


def test_sensor_community_by_number_and_by_place_in_new_and_old_folders(scare: RunCli, web: Path) -> None:
    write_sensor_community(web.parent, 42, "2023-01-01")
    write_sensor_community(web.parent, 42, "2022-12-31", by_year=True)
    days = f"--from 2022-12-31 --to 2023-01-01 --sources {web}"
    assert scare(f"scare fetch sensor-community 42 {days} --out a").code == 0
    assert scare(f"scare fetch sensor-community --near 48.78,9.18 --within 3 {days} --out b").code == 0
    for month in ("2022-12", "2023-01"):
        table = pl.read_parquet(f"a/device=42/{month}.parquet")
        assert table.equals(pl.read_parquet(f"b/device=42/{month}.parquet"))
        assert (table["pm10"].to_list()[:2], table["pm25"].to_list()[:2]) == ([10.5, 11.5], [4.25, 5.25])


def test_an_hour_of_a_station_carries_its_end(scare: RunCli, web: Path) -> None:
    write_airnow(web.parent, "2023-01-01")
    line = f"--from 2023-01-01 --to 2023-01-01 --sources {web}"
    assert scare(f"scare fetch airnow 06-037-1103 {line} --out a").code == 0
    table = pl.read_parquet("a/device=060371103/2023-01.parquet")
    assert table["time"].dt.hour().to_list() == [1, 2, 0]
    assert (table["pm25"].to_list(), table["o3"].to_list()) == ([12, 13, 35], [30, 31, 53])
    assert scare(f"scare fetch airnow --near 43,-88 --within 50 {line} --out b").code == 0
    assert [path.name for path in Path("b").glob("device=*")] == ["device=550790026"]


def test_a_year_of_the_air_quality_system_is_read_for_the_stations_asked_for(scare: RunCli, web: Path) -> None:
    write_aqs(web.parent, 2022)
    output = scare(
        f"scare fetch airnow 060371103 --aqs 44201 --from 2022-01-01 --to 2022-12-31 --out out --sources {web}"
    )
    assert output.code == 0, output.err
    table = pl.read_parquet("out/device=060371103/2022.parquet")
    assert table["time"].dt.hour().to_list() == [8, 9]
    np.testing.assert_allclose(table["o3"], [47.0, 48.0])


def test_files_of_purpleair_new_and_old(scare: RunCli) -> None:
    write(
        Path("77 2023-01-01 2023-01-02 60-Minute Average.csv"),
        "time_stamp,humidity,temperature,pm2.5_atm_a\n2023-01-01T00:00:00Z,40,50,9.5\n",
    )
    write(Path("roof.csv"), "created_at,PM2.5_CF1_ug/m3,Temperature_F,Humidity_%\n2019-01-01 00:02:00 UTC,8.5,32,30\n")
    output = scare("scare fetch purpleair '77 2023-01-01 2023-01-02 60-Minute Average.csv' roof.csv --out out")
    assert output.code == 0, output.err
    new, old = pl.read_parquet("out/device=77/2023-01.parquet"), pl.read_parquet("out/device=roof/2019-01.parquet")
    assert new.row(0, named=True) == {
        "time": datetime(2023, 1, 1, tzinfo=UTC),
        "pm25_atm_a": 9.5,
        "temperature": 10.0,
        "humidity": 40.0,
    }
    assert (old["temperature"][0], old["time"][0].minute) == (0.0, 2)
    assert "license" in output.err


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("openaq --from 2022-05-01 --to 2022-05-01", 2, "name devices, or a place with --near"),
        ("openaq --near 1,2 --from 2022-05-01 --to 2022-05-01", 2, "only with an API key: set OPENAQ_API_KEY"),
        ("openaq 7 --from may --to 2022-05-01", 2, "--from takes a day like 2026-01-31, not 'may'"),
        ("openaq 7 --from 2022-05-02 --to 2022-05-01", 2, "--to 2022-05-01 is before --from 2022-05-02"),
        ("airnow 1 --near x --from 2022-05-01 --to 2022-05-01", 2, "--near takes LAT,LON"),
        ("airnow 1 --near 99,0 --from 2022-05-01 --to 2022-05-01", 2, "is out of range"),
        ("sensor-community 7 --from 2022-05-01 --to 2022-05-01", 3, "nothing was found"),
    ],
)
def test_what_cannot_be_fetched_is_said(
    scare: RunCli, web: Path, monkeypatch: pytest.MonkeyPatch, line: str, code: int, sentence: str
) -> None:
    monkeypatch.delenv("OPENAQ_API_KEY", raising=False)
    output = scare(f"scare fetch {line} --out out --sources {web}")
    assert (output.code, sentence in output.err) == (code, True), output.err


def test_without_a_network_one_sentence_says_what_was_not_reachable(scare: RunCli, web: Path) -> None:
    closed = web.read_text().replace("127.0.0.1:", "127.0.0.1:1")[:]
    Path("closed.toml").write_text(closed.replace(f":1{web.read_text().split('127.0.0.1:')[1].split('/')[0]}", ":9"))
    output = scare("scare fetch openaq 7 --from 2022-05-01 --to 2022-05-01 --out out --sources closed.toml")
    assert output.code == 7
    assert "could not reach http://127.0.0.1:9/openaq-data-archive" in output.err


def test_the_lines_of_the_page_are_understood(scare: RunCli, web: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/fetch.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\$ (scare fetch .*)$", page, re.MULTILINE)
    assert len(lines) == 5
    found = {line: scare(f"{line} --sources {web}").code for line in lines}
    assert set(found.values()) <= {3, 7}, found  # nothing is there; not a wrong option


# --- aligning ---


def write_pair(shift_minutes: int = 0) -> None:
    """An hourly reference of two stations, and a sensor of minutes that reads twice as much, its clock wrong."""
    draw = np.random.default_rng(3)
    hours = np.repeat(20 + draw.normal(0, 5, 72).cumsum().clip(-15, 60), 60)
    minutes = pl.datetime_range(datetime(2026, 1, 1, 0, 1), datetime(2026, 1, 4), "1m", eager=True, time_zone="UTC")
    shifted = minutes.dt.offset_by(f"{shift_minutes}m")
    Path("sensors/device=box").mkdir(parents=True)
    sensor = pl.DataFrame({"time": shifted, "pm25": 2 * hours + draw.normal(0, 0.1, len(hours)), "humidity": 50.0})
    sensor[:2000].write_parquet("sensors/device=box/a.parquet")
    sensor[2000:].write_parquet("sensors/device=box/b.parquet")
    for station in ("one", "two"):
        Path(f"stations/device={station}").mkdir(parents=True)
        hourly = pl.DataFrame({"time": minutes[59::60], "pm25": hours[59::60], "o3": 30.0})
        hourly.write_parquet(f"stations/device={station}/2026-01.parquet")


def test_a_sensor_and_a_station_become_a_colocation_with_a_picture_of_their_clocks(scare: RunCli) -> None:
    write_pair(shift_minutes=120)
    line = "scare align sensors stations --station one --channels pm25,humidity --reference pm25"
    output = scare(f"{line} --apply-offset --json")
    assert output.code == 0, output.err
    facts = json.loads(output.out)
    assert facts["offsets"]["box"]["seconds"] == -7200
    table = pl.read_csv("colocation.csv").drop_nulls()
    assert table.columns == ["device", "time", "pm25", "humidity", "reference_pm25"]
    np.testing.assert_allclose(table["pm25"], 2 * table["reference_pm25"], atol=0.5)
    assert Path("colocation.svg").read_text().count("<polyline") == 1


def test_what_an_alignment_needs_is_asked_for(scare: RunCli) -> None:
    write_pair()
    assert "choose the reference with --station: one, two" in scare("scare align sensors stations --reference pm25").err
    guessed = scare("scare align sensors stations --station one --json")  # o3 never changes, and the sensor has none
    assert json.loads(guessed.out)["reference"] == "reference_pm25"
    assert (
        "no station 'tow'; did you mean 'two'?"
        in scare("scare align sensors stations --station tow --reference o3").err
    )


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a folder with a record of one file."""
    folder = tmp_path_factory.mktemp("served")
    handler = type(
        "Handler", (Quiet,), {"__init__": lambda self, *given: Quiet.__init__(self, *given, directory=folder)}
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        entry = {
            "key": "city.zip",
            "size": len(CONTENT),
            "checksum": f"md5:{hashlib.md5(CONTENT).hexdigest()}",
            "links": {"self": f"{address}/city.zip"},
        }
        (folder / "city.zip").write_bytes(CONTENT)
        (folder / fetch.SENSEURCITY).write_text(json.dumps({"files": [entry]}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield address
        server.shutdown()


def test_the_files_of_the_record_arrive(scare: RunCli, server: str) -> None:
    output = scare(f"scare data senseurcity --out cities --server {server}")
    assert output.code == 0, output.err
    assert "1 files are in cities." in output.err
    assert output.out == ""
    assert [path.name for path in Path("cities").iterdir()] == ["city.zip"]
    assert Path("cities/city.zip").read_bytes() == CONTENT


def test_the_files_are_listed_as_json(scare: RunCli, server: str) -> None:
    output = scare(f"scare data senseurcity --out cities --server {server} --json")
    assert json.loads(output.out) == {"files": ["cities/city.zip"]}


def test_without_a_network_one_sentence_is_said(scare: RunCli, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    output = scare(f"scare data senseurcity --out cities --server http://127.0.0.1:{port}")
    assert output.code == 7
    (sentence,) = output.err.splitlines()
    assert sentence.startswith(f"scare: could not reach http://127.0.0.1:{port}/")
    assert "run the same command again to resume" in sentence
    assert list(tmp_path.iterdir()) == []


def test_a_record_that_is_not_there_is_unreachable(scare: RunCli, server: str) -> None:
    output = scare(f"scare data senseurcity --out cities --server {server}/elsewhere")
    assert output.code == 7
    assert "HTTP 404" in output.err


def test_an_interrupted_download_says_that_it_can_be_resumed(scare: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fetch, "download_record", interrupt)
    output = scare("scare data senseurcity --out cities")
    assert output.code == 130
    assert output.err.splitlines() == [
        "Downloaded files stay in cities. Run the same command to resume.",
        "scare: interrupted",
    ]
