"""The page in a real browser: from files to firmware, with whatever people do on the way."""

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from scare.board.boards import boards
from scare.cli.app import run
from scare.web.server import Server
from tests.calibrator.building import make_calibrator
from tests.needs import needs
from tests.npm_packages import npm_package
from tests.report.browser import find_browser
from tests.web.browser_session import PHONE, Visitor, serving, visiting
from tests.web.journeys import german_logger_and_station, purpleair_and_aqs, two_weeks_and_hourly
from tests.web.tables import write_messy, write_tidy, write_xlsx

pytestmark = [
    pytest.mark.skipif(find_browser() is None, reason="chromium (Debian) would run it"),
    needs("web", "train"),
]
NASTY = "<img src=x onerror=hacked=1>"
SERIOUS = """axe.run(document, {iframes: false}).then(({violations}) => violations
    .filter(({impact}) => impact === 'serious' || impact === 'critical')
    .map(({id, nodes}) => id + ': ' + nodes.map(one => one.html).join(' ')))"""
ROLES = """Object.fromEntries([...document.querySelectorAll('#files tbody tr')]
    .map(one => [one.cells[0].textContent, one.querySelector('select').value]))"""
BARS = "[...document.querySelectorAll('.bars tbody th')].map(one => one.textContent)"
TYPED = ["simulate", "train", "info", "score", "report", "predict", *["board"] * len(boards()), "export", "verify"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as server:
        yield server


@pytest.fixture
def visitor(server: Server, tmp_path: Path) -> Iterator[Visitor]:
    with visiting(server, tmp_path / "profile") as visitor:
        yield visitor
    assert visitor.tab.problems == []


def session(server: Server) -> Path:
    (found,) = server.sessions.list()
    return found.folder


def is_fine(visitor: Visitor) -> None:
    """Nobody is kept out: labels, roles, contrast."""
    axe = npm_package("axe-core", "4.14.0") / "axe.min.js"
    visitor.tab.value(axe.read_text(encoding="utf-8") + "; 1")
    assert visitor.tab.value(SERIOUS) == []


@pytest.mark.slow
def test_who_has_a_calibrator_calibrates_without_the_packages_of_training(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scare.web.server.missing", lambda extra: f"run: pip install '{extra}'")
    make_calibrator().save(tmp_path / "roof.scare")
    rows = "".join(f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00Z,30,300\n" for minute in range(120))
    (tmp_path / "later.csv").write_text(f"time,pm25,current\n{rows}", encoding="utf-8")
    with visiting(server, tmp_path / "profile") as visitor:
        visitor.sees("#own-model")
        visitor.tab.choose_files("#own-model", tmp_path / "roof.scare")
        visitor.sees("#another")
        is_fine(visitor)
        assert "pip install 'board'" in visitor.text("#no-board")
        visitor.tab.choose_files("#another", tmp_path / "later.csv")
        visitor.sees("[id='save-calibrated/later.csv']")
        (folder,) = (one.folder for one in server.sessions.list())
        assert (folder / "calibrated" / "later.csv").exists()
        visitor.click("#home")
        visitor.begin("Another")
        visitor.drop(write_tidy(tmp_path / "box.csv", 300))
        visitor.click("#go-3")
        visitor.reads("#no-training", "pip install 'train'")
        is_fine(visitor)
        assert visitor.tab.problems == []


@pytest.mark.slow
def test_what_is_no_calibrator_is_refused_as_on_the_command_line(server: Server, tmp_path: Path) -> None:
    (tmp_path / "roof.scare").write_bytes(b"PK")
    with visiting(server, tmp_path / "profile") as visitor:
        visitor.sees("#own-model")
        visitor.tab.choose_files("#own-model", tmp_path / "roof.scare")
        visitor.reads("#files-5", "model.scare")
        assert visitor.tab.value("document.getElementById('another')") is None


def test_files_are_looked_at_and_refused_with_the_message_of_the_command_line(
    server: Server,
    visitor: Visitor,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "bad.csv").write_text("time,pm25\n2026-01-01T00:00:00Z,1\nyesterday,2\n")
    visitor.begin(NASTY)
    assert "token" not in visitor.tab.value("location.href")
    visitor.drop(write_tidy(tmp_path / "box.csv", 300), tmp_path / "bad.csv")
    visitor.sees("#files table svg path.target")
    assert visitor.tab.value(ROLES) == {
        **{"time": "time", "pm25_raw": "target", "temperature": "temperature"},
        **{"humidity": "humidity", "pm25_reference": "reference"},
    }
    visitor.sees("#files .problem")
    monkeypatch.chdir(session(server))
    assert run(["inspect", "files/bad.csv"]) == 3
    assert visitor.text("#files .problem") == capsys.readouterr().err.strip().removeprefix("scare: ")
    assert visitor.text("#session-title") == NASTY
    assert visitor.tab.value("window.hacked") is None
    assert all(url.startswith(server.address) for url in visitor.tab.requests)


@pytest.mark.slow
def test_the_slider_spans_fourteen_hours_and_a_city_is_a_time_zone(
    server: Server, visitor: Visitor, tmp_path: Path
) -> None:
    visitor.begin("Kitchen")
    visitor.drop(*write_messy(tmp_path))
    visitor.reads("#clock", "This would explain it: The sensor's times are in Europe/Berlin")
    for seconds, words in ((14 * 3600, "sensor 14 h later"), (-5 * 3600 - 1800, "sensor 5 h 30 min earlier")):
        slide = f"one.value = {seconds}; one.dispatchEvent(new Event('input'))"
        visitor.tab.value(f"(one => {{ {slide} }})(document.getElementById('slide'))")
        assert visitor.text("#slid") == words
    assert visitor.tab.value("document.querySelectorAll('#zones option').length") > 300
    visitor.click("[id='written-Kuche_Box_7.csv'] summary")
    is_fine(visitor)
    visitor.choose("[id='timezone-Kuche_Box_7.csv']", "kolkata")
    visitor.until("document.getElementById('timezone-Kuche_Box_7.csv').value === 'Asia/Kolkata'")
    visitor.reads("#clock", "The curves fit best with the sensor 4 h 30 min later")
    assert 'timezone = "Asia/Kolkata"' in (session(server) / "draft.toml").read_text()


def test_a_spreadsheet_can_be_dropped(visitor: Visitor, tmp_path: Path) -> None:
    visitor.begin("Roof")
    visitor.drop(write_xlsx(tmp_path / "Box 1.xlsx"))
    visitor.sees("#files table svg path.target")
    roles = visitor.tab.value(ROLES)
    assert (roles["pm25_raw"], roles["pm25_reference"]) == ("target", "reference")
    visitor.until("!document.getElementById('next-2').disabled")


@pytest.mark.slow
@pytest.mark.parametrize("write", [purpleair_and_aqs, german_logger_and_station, two_weeks_and_hourly])
def test_the_files_of_a_stranger_become_a_calibrator_with_a_verdict_and_an_equation(
    write: Callable[[Path], tuple[Path, Path]], server: Server, visitor: Visitor, tmp_path: Path
) -> None:
    visitor.begin("Roof")
    visitor.drop(*write(tmp_path))
    visitor.sees("#clock .card")
    if write is german_logger_and_station:
        visitor.reads("#clock", "The curves fit best with the sensor 1 h earlier")
    # what the page offers as the reason, if the clocks do not agree
    visitor.tab.value("(document.querySelector('#stamp-begin') ?? document.querySelector('#zone-of-sensor'))?.click()")
    visitor.reads("#clock", "The clocks agree")
    visitor.click("#next-2")
    visitor.sees(".band i.test")
    visitor.choose("#length", "quick")
    visitor.click("#next-3")
    visitor.click("#train")
    visitor.reads("#verdict", "Explains 9")
    visitor.reads("#equation", " × pm2" if write is not german_logger_and_station else " × PM2,5")


def train_quickly(visitor: Visitor) -> None:
    """From the split to a calibrator."""
    visitor.click("#next-2")
    visitor.sees(".band i.test")
    visitor.choose("#length", "quick")
    visitor.choose("#window", "8")
    visitor.until("document.getElementById('window').value === '8'")
    visitor.click("#next-3")
    visitor.click("#train")


@pytest.mark.slow
def test_the_whole_way_with_the_example(server: Server, visitor: Visitor, tmp_path: Path) -> None:
    downloads = tmp_path / "downloads"
    visitor.tab.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
    visitor.sees("#title")
    is_fine(visitor)
    visitor.begin("Roof")
    visitor.click("#example")
    visitor.sees("#files table svg")
    is_fine(visitor)
    train_quickly(visitor)
    visitor.sees("#train-curve canvas")
    before = visitor.tab.value("performance.now()")
    visitor.tab.value("document.getElementById('go-1').click()")
    visitor.sees("#files table")
    assert visitor.tab.value("performance.now()") - before < 2000  # while it trains
    visitor.click("#go-3")
    visitor.sees("#train-end table.bars")
    rivals = {"sensor reading as is", "ridge regression", "gradient boosting", "calibrated by scare"}
    assert rivals <= {*visitor.tab.value(BARS)}
    is_fine(visitor)
    visitor.click("#next-4")
    visitor.sees("iframe.report[src]")
    is_fine(visitor)
    assert "Scorecard" in (session(server) / "run" / "report.html").read_text(encoding="utf-8")
    visitor.click("#next-5")
    visitor.click("#export-arduino")
    visitor.click("[id='save-exports/arduino.zip']")
    visitor.click("#verify")
    visitor.click("[id='predict-example.csv']")
    visitor.reads("#proof .good", "Passed")
    visitor.reads("#boards", "does not fit: fixed point needs an int of 32 bits")
    visitor.until(f"document.querySelectorAll('#boards .good').length === {len(boards()) - 1}")  # all but the Uno
    visitor.sees("[id='save-calibrated/example.csv']")
    visitor.reads("#files-5 li", "rows have a calibrated value")
    visitor.reads("#files-5 li", "All 4 devices were in training.")
    is_fine(visitor)
    zipped = downloads / "arduino.zip"
    assert "library.properties" in {name.rpartition("/")[2] for name in ZipFile(zipped).namelist()}
    again_by_commands(visitor.text("#command-list"), session(server), tmp_path)


def again_by_commands(text: str, folder: Path, scratch: Path) -> None:
    """The lines of the page, typed elsewhere, do the same."""
    first, *lines = text.splitlines()
    assert first == f"cd {folder}"
    assert [line.split()[1] for line in lines] == TYPED
    copy = scratch / "typed"
    copy.mkdir()
    (copy / "config.toml").write_bytes((folder / "config.toml").read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(copy)
        for line in [*lines[:2], lines[-2]]:
            assert run(shlex.split(line)[1:]) == 0
    names = ("model.scare", "exports/arduino.zip")
    assert [(copy / name).read_bytes() == (folder / name).read_bytes() for name in names] == [True, True]


@pytest.mark.slow
def test_two_messy_files_whose_clocks_differ(server: Server, visitor: Visitor, tmp_path: Path) -> None:
    visitor.begin("Kitchen")
    visitor.drop(*write_messy(tmp_path))
    visitor.reads("#clock", "The curves fit best with the sensor 1 h earlier")
    assert visitor.text("#slid") == "as in the files"
    is_fine(visitor)
    assert "apply_offset = false" in (session(server) / "draft.toml").read_text()
    visitor.click("#apply-offset")
    visitor.until("document.getElementById('slid').textContent === 'sensor 1 h earlier'")
    train_quickly(visitor)
    visitor.sees("#train-end table.bars")
    config = (session(server) / "config.toml").read_text()
    assert "apply_offset = true" in config
    assert 'reference_file = "files/station.csv"' in config
    assert visitor.tab.value("document.querySelectorAll('.problem:not([hidden])').length") == 0
    scores = json.loads((session(server) / "jobs" / "train.json").read_text())["results"][0]["scores"]
    ours = list(scores.values())[-1]
    assert ours["r2"] > 0.9
    visitor.click("#next-4")
    visitor.sees("iframe.report[src]")
    card = json.loads((session(server) / "run" / "scorecard.json").read_text())
    (error,) = (one for one in card["entries"] if one["measure"] == "rmse")
    assert (error["value"], card["dataset"]["rows_scored"]) == (pytest.approx(ours["rmse"], rel=1e-4), ours["rows"])
    visitor.click("#go-1")
    visitor.click("#apply-offset")
    visitor.click("#go-3")
    visitor.reads("#train-start .hint", "The setup has changed since")
    assert "apply_offset = true" in (session(server) / "config.toml").read_text()


@pytest.mark.slow
def test_stop_keeps_the_best_and_a_reload_in_the_middle_loses_nothing(
    server: Server, visitor: Visitor, tmp_path: Path
) -> None:
    visitor.begin("Roof")
    visitor.drop(write_tidy(tmp_path / "box.csv", 4000))
    visitor.click("#next-2")
    visitor.choose("#length", "thorough")
    visitor.click("#next-3")
    visitor.click("#train")
    visitor.sees("#train-curve canvas")
    visitor.tab.value("window.before = 1; location.reload()")
    visitor.until("!window.before")
    visitor.sees("#train-curve canvas")
    visitor.click("#stop")
    visitor.sees("#train-end table.bars")
    visitor.reads("#train-end .hint", "Stopped early")
    assert (session(server) / "model.scare").exists()
    visitor.click("#next-4")
    visitor.sees("iframe.report[src]")


@pytest.mark.slow
def test_with_the_keyboard_alone_on_a_phone(server: Server, tmp_path: Path) -> None:
    with visiting(server, tmp_path / "profile", PHONE) as visitor:
        visitor.sees("#title")
        go_to(visitor, "title")
        visitor.tab.write_text("Roof")
        visitor.tab.press("Enter")
        visitor.sees("#example")
        for step in ("example", "next-2", "next-3", "train", "next-4", "next-5", "export-arduino"):
            if step == "next-3":
                go_to(visitor, "length")
                visitor.tab.press("Home")
                visitor.until("document.getElementById('length').value === 'quick'")
            visitor.until(f"(one => one && !one.disabled)(document.getElementById('{step}'))")
            go_to(visitor, step)
            assert visitor.tab.value("document.documentElement.scrollWidth") <= PHONE[0], step
            visitor.tab.press("Enter")
        visitor.sees("[id='save-exports/arduino.zip']")
        is_fine(visitor)
        assert visitor.tab.problems == []


def go_to(visitor: Visitor, name: str) -> None:
    """Tab until something has the focus, which can be seen."""
    for _ in range(120):
        if visitor.tab.value("document.activeElement.id") == name:
            break
        visitor.tab.press("Tab")
    assert visitor.tab.value("document.activeElement.id") == name
    assert visitor.tab.value("document.activeElement.matches(':focus-visible')")
