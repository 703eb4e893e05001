"""The page has every section, agrees with its numbers, escapes what it is given, and fetches nothing."""

import base64
import hashlib
import json
import re
import time
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from scare.calibrator.model_card import selection_table
from scare.report.chart_data import ALL, ROWS
from scare.report.page import CONTENTS, as_script_data, write_report
from scare.report.sections import bounds
from scare.scorecard.card import Card
from scare.scorecard.run_folder import read_run
from tests.calibrator.test_model_card import FACTS, SUMMARY
from tests.report.small_run import NASTY, board, dataset, method, series, write_run
from tests.report.test_chart_data import unpack

ROWS_OF_STUDY = [
    method("scare", 2.0, winner=True),
    method("ridge", 3.0, to_ours_difference=1.0, to_ours_low=0.8, to_ours_high=1.2),
    {"method": NASTY, "window": 60, "seeds": 0, "failed": NASTY},
]


class Page(HTMLParser):
    """The tags of a page, what they refer to, and the text of its scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.references: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.headers: list[dict[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag == "th":
            self.headers.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            attrs, text = self.scripts[-1]
            self.scripts[-1] = attrs, text + data

    def data(self, name: str) -> Any:
        return next(json.loads(text) for attrs, text in self.scripts if attrs.get("id") == name)


def write(folder: Path, table: pl.DataFrame, **changes: Any) -> str:
    page = write_report(read_run(write_run(folder, table, **changes)), folder / "report.html")
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> str:
    names = ["box-01", NASTY, "box-03"]
    return write(tmp_path_factory.mktemp("run"), series(3, 2.0, names), comparison=ROWS_OF_STUDY)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_every_section_is_there_and_linked(html: str) -> None:
    for name in CONTENTS:
        assert f'<section id="{name}">' in html
        assert f'href="#{name}"' in html


def test_the_page_says_what_the_calibrator_is(html: str, tmp_path: Path) -> None:
    assert "does not record how simpler methods did" in html
    text = unescape(write(tmp_path, series(1, 1.0), model={"window": 60, "step_seconds": 60.0, **FACTS}))
    assert SUMMARY in text
    for line in selection_table(FACTS):
        assert all(cell in text for cell in line)
    assert text.count("network share") == 0  # not among the plain facts


def test_the_page_refers_to_nothing_outside_itself(html: str, page: Page) -> None:
    assert all(reference.startswith("#") for reference in page.references)
    assert "link" not in page.tags
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|WebSocket", html)


def test_its_policy_allows_its_own_scripts_and_no_request(html: str, page: Page) -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', html)
    assert policy.startswith("default-src 'none'")
    ours = [text for attrs, text in page.scripts if "type" not in attrs]
    assert len(ours) == 2
    for text in ours:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy


def test_names_from_data_are_escaped_everywhere(html: str, page: Page) -> None:
    assert "<script>window.hacked" not in html
    assert "<img" not in html
    assert page.tags.count("script") == 4
    assert html.count("&lt;script&gt;window.hacked") >= 6
    assert page.data("data")["views"][1]["name"] == NASTY


def test_the_card_inside_is_the_card_of_the_run(page: Page) -> None:
    inside = page.data("card")
    assert Card.from_json(json.dumps(inside)).as_dict() == inside
    assert inside["comparison"][1]["method"] == "ridge"


def test_the_licence_of_the_chart_library_is_kept(html: str) -> None:
    assert "The MIT License" in html
    assert "Leon Sorokin" in html


def test_every_header_cell_says_what_it_heads(page: Page) -> None:
    assert page.headers
    assert all(one.get("scope") in ("col", "row", "rowgroup") for one in page.headers)


def test_grades_stand_with_their_numbers_and_bounds(html: str) -> None:
    text = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))
    assert re.search(r"Requirement 0 O\s+met\s+label 0 1.2 µg/m³ O ≤ 2 µg/m³ ≤ 4 µg/m³ measured", text)
    assert re.search(r"Requirement 2 X\s+missed", text)
    assert re.search(r"Requirement 3 not graded", text)


def test_views_are_the_devices_and_all_together_with_a_sentence_for_every_chart(page: Page) -> None:
    views = page.data("data")["views"]
    assert [view["name"] for view in views] == ["box-01", NASTY, "box-03", ALL]
    for view in views:
        assert set(view["captions"]) == {"time", "scatter", "agreement", "concentration", "humidity", "changes"}
        assert all(re.search(r"\d", text) for text in view["captions"].values())
    assert views[-1]["time"] is None


def _trained_first(table: pl.DataFrame) -> dict[str, Any]:
    """A card's dataset in which all of the first device is of training."""
    period = [f"{moment:%Y-%m-%dT%H:%M:%SZ}" for moment in (table["time"].min(), table["time"].max())]
    return dataset(table, training_devices=["box-01"], training_period=period)


def test_a_page_opens_on_a_device_with_rows_scored_and_says_why_another_has_none(tmp_path: Path) -> None:
    table = series(4, 4.0)
    html = write(tmp_path, table, dataset=_trained_first(table))
    data = Page(html).data("data")
    trained, opened = data["views"][0], data["views"][data["opening"]]
    assert opened["name"] == "box-02"
    assert set(trained["captions"]) == set(opened["captions"])
    assert all("are of training or validation, which are not scored" in text for text in trained["captions"].values())
    assert '<option value="1" selected>box-02' in html
    assert "box-01 (not scored)" in html
    assert "too few averages" not in html
    assert "US EPA, base testing: agreement between units" in html
    assert re.search(r'scope="row">box-02, box-03, box-04</th>', html)


def test_both_kinds_of_r2_are_named_apart(html: str, page: Page) -> None:
    table = series(3, 2.0).filter(pl.col("device") == "box-01").drop_nulls(["reference", "calibrated"])
    x, y = table["reference"].to_numpy(), table["calibrated"].to_numpy()
    caption = page.data("data")["views"][0]["captions"]["scatter"]
    assert f"r² {np.corrcoef(x, y)[0, 1] ** 2:.3g} (squared correlation)" in caption
    assert f"1:1 line R² is {1 - np.square(y - x).sum() / np.square(x - x.mean()).sum():.3g}." in caption
    assert not re.search(r"R²(?! \(1:1\)| is)", html.split("<script")[0])


def test_the_pollutant_is_named_as_people_write_it(tmp_path: Path) -> None:
    html = write(tmp_path, series(1, 0.2), target={"name": "pm25_reference", "unit": "ug/m3"})
    assert "<h1>PM2.5 [µg/m³]</h1>" in html
    assert Page(html).data("data")["target"] == "PM2.5"


def test_a_model_of_simulated_readings_is_said_to_be_one(tmp_path: Path) -> None:
    facts = {"model": "scare", "data": "simulated stand-in", "window": 60, "step_seconds": 60.0}
    assert "The model was made from: simulated stand-in." in write(tmp_path, series(1, 0.2), model=facts)


def test_a_cell_carries_the_name_of_its_column(html: str) -> None:
    assert '<td data-label="O from">≤ 2 µg/m³</td>' in html


def test_chart_values_are_those_of_the_series(page: Page, html: str) -> None:
    table = series(3, 2.0, ["box-01", NASTY, "box-03"]).filter(pl.col("device") == "box-01")
    shown = page.data("data")["views"][0]["time"]
    known = table["reference"].fill_null(np.nan).to_numpy()
    np.testing.assert_allclose(unpack(shown["reference"]), known, atol=np.ptp(known) / 65000)
    np.testing.assert_allclose(unpack(shown["times"]), table["time"].dt.epoch("us").to_numpy() / 1e6, atol=0.01)
    error = (table["calibrated"] - table["reference"]).drop_nulls().to_numpy()
    rmse = f"{np.sqrt(np.square(error).mean()):.3g}"
    assert (
        f"rows scored the calibrated reading differs from the reference by {rmse} µg/m³ (RMSE)"
        in page.data("data")["views"][0]["captions"]["time"]
    )


def test_the_time_chart_has_the_interval_where_there_is_one(page: Page, tmp_path: Path) -> None:
    without = page.data("data")["views"][0]
    assert not {"low", "high"} & without["time"].keys()
    assert "interval" not in without["captions"]["time"]
    table = series(1, 1.0).with_columns(low=pl.col("calibrated") - 2.0, high=pl.col("calibrated") + 3.0)
    view = Page(write(tmp_path, table)).data("data")["views"][0]
    low, calibrated, high = (unpack(view["time"][name]) for name in ("low", "calibrated", "high"))
    step = np.ptp(calibrated[np.isfinite(calibrated)]) / 65000
    np.testing.assert_allclose(low, calibrated - 2.0, atol=2 * step)
    np.testing.assert_allclose(high, calibrated + 3.0, atol=2 * step)
    assert "The band is the prediction interval." in view["captions"]["time"]


def test_methods_are_ranked_with_ours_marked_and_the_failed_named(html: str) -> None:
    assert html.index("★ scare") < html.index('scope="row">ridge')
    assert "+1 [+0.8, +1.2]" in html
    assert "no score: &lt;script&gt;" in html


def test_no_word_claims_a_certificate(html: str) -> None:
    text = html.split("<footer>")[0]
    assert not re.search(r"certif|approved by|endorsed by", text, re.IGNORECASE)
    assert "neither an approval nor an endorsement" in text


def test_targets_are_in_words_when_there_are_none_or_no_unit(tmp_path: Path) -> None:
    small = series(1, 0.2)
    other = write(tmp_path / "a", small, target={"name": "CO2", "unit": "ppm"})
    assert "by its name, CO2 is none of them" in other
    unknown = write(tmp_path / "b", small, target={"name": "no2", "unit": ""})
    assert "the unit of these readings is unknown. Give it in a config file" in unknown
    assert "not known to be in the same unit" in unknown


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    table = series(1, 0.2).drop("humidity")
    html = write(tmp_path, table, board=None, target={"name": "Ref.NO2", "unit": "ppb"})
    views = Page(html).data("data")["views"]
    assert views[0]["captions"]["humidity"].startswith("No channel is known to be relative humidity")
    assert views[0]["humidity"] == []
    assert "raw" not in views[0]["scatter"]
    assert "No board was asked for" in html
    assert "No study was given" in html
    assert 'id="device"' not in html


def test_a_baseline_that_is_not_known_gives_no_bounds() -> None:
    known = {"better": "lower", "good": 0.5, "fair": 1.0, "yardstick": "sd", "yardstick_value": 4.0}
    assert bounds(known, "ppb") == ("≤ 2 ppb", "≤ 4 ppb")
    assert bounds({**known, "yardstick_value": None}, "ppb") == ("", "")
    assert bounds({**known, "yardstick": "", "yardstick_value": None}, "%") == ("≤ 0.5 %", "≤ 1 %")


def _constant(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(reference=pl.lit(5.0))


def _one_row(table: pl.DataFrame) -> pl.DataFrame:
    return table.tail(1)


def _two_far_rows(table: pl.DataFrame) -> pl.DataFrame:
    return table[[100, 250]]


def _no_raw(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pm25_raw=pl.lit(None, pl.Float64))


def _silent_device(table: pl.DataFrame) -> pl.DataFrame:
    silent = table.with_columns(device=pl.lit("silent"), calibrated=pl.lit(None, pl.Float64))
    return pl.concat([silent, table])


@pytest.mark.parametrize("change", [_constant, _one_row, _two_far_rows, _no_raw, _silent_device])
def test_odd_series_make_a_page_too(tmp_path: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    views = Page(write(tmp_path, change(series(1, 0.2)))).data("data")["views"]
    assert all(view["captions"]["time"] for view in views)


def test_a_board_too_small_or_too_slow_is_said(tmp_path: Path) -> None:
    slow = board(fits=False, reasons=["needs 300,000 B of RAM <b>"], meets_deadline=False, ram_bytes=300_000)
    html = write(tmp_path, series(1, 0.2), board=slow)
    assert "does not fit" in html
    assert "needs 300,000 B of RAM &lt;b&gt;" in html
    assert "too slow" in html
    unknown = board(fits=False, reasons=["no kernel"], meets_deadline=None, worst=None)
    for name in (
        "instructions",
        "cycles",
        "milliseconds",
        "ram_bytes",
        "flash_bytes",
        "duty_cycle",
        "energy_microjoules",
        "battery_share",
    ):
        unknown.pop(name)
    page = write(tmp_path, series(1, 0.2), board=unknown)
    assert "not known" in page
    assert "two AA cells" in html
    assert "two AA cells" not in page


def test_script_data_is_plain_json() -> None:
    odd = {"a": float("nan"), "b": [float("inf"), 1.5], "c": "</script><!--"}
    text = as_script_data(odd)
    assert "<" not in text
    assert json.loads(text) == {"a": None, "b": [None, 1.5], "c": "</script><!--"}


def test_three_months_of_minutes_make_a_small_page_quickly(tmp_path: Path) -> None:
    folder = write_run(tmp_path, series(1, 90))
    start = time.process_time()
    path = write_report(read_run(folder), folder / "report.html")
    assert time.process_time() - start < 10  # it takes one
    assert path.stat().st_size < 3e6
    shown = Page(path.read_text(encoding="utf-8")).data("data")["views"][0]["time"]
    assert len(unpack(shown["times"])) > 100_000  # down to the minute


def test_of_many_devices_the_page_shows_less_and_the_files_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scare.report.chart_data.MANY", 2)
    for module in ("blocks", "sections"):
        monkeypatch.setattr(f"scare.report.{module}.MOST_ROWS", 3)
    page = write(tmp_path, series(3, 0.2))
    *alone, together = Page(page).data("data")["views"]
    assert all("changes" not in view and "scatter" in view for view in alone)
    assert "only all together" in alone[0]["captions"]["changes"]
    assert together["changes"]["count"]
    assert "The first 3 of 8 rows. The CSV file beside the page has all of them." in page
    (accuracy,) = (tmp_path / "report-tables").glob("01-accuracy*.csv")
    names = [line.partition(",")[0].strip('"') for line in accuracy.read_text(encoding="utf-8").splitlines()]
    assert (len(names), names[1][:3]) == (9, "all")


def test_more_rows_than_a_page_holds_are_decimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scare.report.chart_data.ROWS", 600)
    table = series(2, 1.0)
    views = Page(write(tmp_path, table)).data("data")["views"]
    assert ROWS > 600
    for view, device in zip(views, ("box-01", "box-02"), strict=False):
        raw = unpack(view["time"]["raw"])
        assert len(raw) < 400
        known = table.filter(pl.col("device") == device)["pm25_raw"]
        assert np.nanmax(raw) == pytest.approx(known.max(), rel=1e-4)
