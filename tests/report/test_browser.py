"""The page in a real browser without a network: nothing asked for, nothing wrong, charts drawn, wide and on a phone."""

import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare.report.page import write_report
from scare.scorecard.run_folder import read_run
from tests.report.browser import Tab, browsing, find_browser
from tests.report.small_run import NASTY, method, series, write_run

pytestmark = pytest.mark.skipif(find_browser() is None, reason="chromium (Debian) would run it")

FIGURES = ("time", "scatter", "agreement", "concentration", "humidity", "changes")
WIDE, PHONE = (1280, 900), (390, 844)
INKED = """[...document.querySelectorAll('canvas')].map(canvas => {
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    return pixels.some((value, index) => index % 4 === 3 && value > 0);
})"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    rows = [method("scare", 2.0, winner=True), method(NASTY, 3.0)]
    write_run(folder, series(3, 1.0, ["box-01", NASTY, "box-03"]), comparison=rows)
    return write_report(read_run(folder), folder / "report.html")


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    with browsing(tmp_path / "profile") as tab:
        yield tab


def colours(png: bytes) -> int:
    """How many different bytes the picture's rows hold: one of nothing but paper has few."""
    position, packed = 8, b""
    while position < len(png):
        length = int.from_bytes(png[position : position + 4])
        if png[position + 4 : position + 8] == b"IDAT":
            packed += png[position + 8 : position + 8 + length]
        position += 12 + length
    return len(np.unique(np.frombuffer(zlib.decompress(packed), np.uint8)))


@pytest.mark.parametrize(
    ("size", "dark"), [(WIDE, False), (PHONE, False), (PHONE, True)], ids=["wide", "phone", "dark"]
)
def test_the_page_is_whole_without_a_network(report: Path, tab: Tab, size: tuple[int, int], dark: bool) -> None:
    tab.open(report, *size, dark=dark)
    assert tab.requests == [report.resolve().as_uri()]
    assert tab.problems == []
    assert tab.value("document.documentElement.scrollWidth") <= size[0]
    assert tab.value(INKED) == [True] * len(FIGURES)
    assert colours(tab.picture()) > 30
    assert tab.value("window.hacked") is None


def test_every_chart_has_its_sentence_and_another_device_has_others(report: Path, tab: Tab) -> None:
    tab.open(report, *WIDE)
    labels = "[...document.querySelectorAll('.chart')].map(one => one.getAttribute('aria-label'))"
    captions = "[...document.querySelectorAll('figcaption')].map(one => one.textContent)"
    first = tab.value(labels)
    assert len(first) == len(FIGURES)
    assert all(first)
    assert tab.value(captions) == first
    tab.value(
        "{ const list = document.getElementById('device'); list.value = 1; list.dispatchEvent(new Event('change')) }"
    )
    second = tab.value(labels)
    assert second[0].startswith(NASTY)
    assert second != first
    assert tab.value("document.querySelectorAll('canvas').length") == len(FIGURES)
    assert tab.value("window.hacked") is None
    assert tab.problems == []


def test_the_interval_is_a_band_behind_the_calibrated_line(report: Path, tab: Tab, tmp_path: Path) -> None:
    legend = "[...document.querySelectorAll('#time .u-label')].map(one => one.textContent)"
    picture = "document.querySelector('#time canvas').toDataURL()"
    tab.open(report, *WIDE)
    assert tab.value(legend)[1:] == ["raw (pm25_raw)", "reference", "calibrated"]
    table, pictures = series(1, 1.0, ["box-01"]), set()
    for half in (0.5, 5.0):
        sure = table.with_columns(low=pl.col("calibrated") - half, high=pl.col("calibrated") + half)
        folder = write_run(tmp_path / str(half), sure)
        tab.open(write_report(read_run(folder), folder / "report.html"), *WIDE)
        assert tab.value(legend)[1:] == ["raw (pm25_raw)", "reference", "low", "high", "calibrated"]
        assert tab.problems == []
        pictures.add(tab.value(picture))
    assert len(pictures) == 2


def test_all_devices_together_have_no_time_chart(report: Path, tab: Tab) -> None:
    tab.open(report, *WIDE)
    tab.value(
        "{ const list = document.getElementById('device'); list.value = 3; list.dispatchEvent(new Event('change')) }"
    )
    assert tab.value("document.querySelectorAll('canvas').length") == len(FIGURES) - 1
    assert tab.value("document.querySelector('#time .chart').hidden")
    tab.value(
        "{ const list = document.getElementById('device'); list.value = 0; list.dispatchEvent(new Event('change')) }"
    )
    assert tab.value("document.querySelector('#time canvas').clientWidth") > 900
    assert tab.problems == []


def test_no_table_is_cut_off_on_a_phone(report: Path, tab: Tab) -> None:
    tab.open(report, *PHONE)
    wide = "[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 1).length"
    assert tab.value(wide) == 0
    shown = "getComputedStyle(document.querySelector('#scorecard td'), '::before').content"
    assert tab.value(shown) == '"value"'


def test_buttons_zoom_and_come_back(report: Path, tab: Tab) -> None:
    tab.open(report, *WIDE)
    ticks = "document.querySelector('#time canvas').toDataURL()"
    frame = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
    whole = tab.value(ticks)
    tab.value("document.querySelector('[data-zoom=in]').click()")
    tab.value(frame)
    assert tab.value(ticks) != whole
    tab.value("document.querySelector('[data-zoom=all]').click()")
    tab.value(frame)
    assert tab.value(ticks) == whole


def test_it_prints_on_paper_with_light_charts(report: Path, tab: Tab) -> None:
    tab.open(report, *WIDE, dark=True)
    tab.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
    assert tab.problems == []
    assert tab.value("document.documentElement.classList.contains('printing')") is False
