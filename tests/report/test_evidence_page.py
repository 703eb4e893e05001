"""What an agency gets: drawings, facts of the deployment, tables as CSV, a PDF, and grades that could fail."""

import csv
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare.data.readings import Channel
from scare.errors import UsageError
from scare.report.blocks import Note, ReportTable, quantity
from scare.report.deployment import read_deployment
from scare.report.drawings import LETTER, Drawing, uncertainty_drawings
from scare.report.files import BROWSERS, print_pdf, tables_folder
from scare.report.index_section import index_blocks
from scare.report.page import write_report
from scare.report.targets import class_lines, precision
from scare.scorecard.averages import Averaging
from scare.scorecard.requirements import Finding, RequirementTable
from scare.scorecard.run_folder import read_run, summarize
from scare.scorecard.targets import choose_sets
from tests.report.small_run import card, series, write_run
from tests.scorecard.own_targets import HOURLY

TABLE = RequirementTable.load()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"), series(3, 9.5))


def test_the_curve_ends_at_the_uncertainty_of_the_table(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "hourly.toml").write_text(HOURLY)
    run = read_run(folder)
    run = replace(run, card=replace(run.card, **summarize(run, choose_sets(str(tmp_path / "hourly.toml")))))
    (assessment,) = run.card.assessments
    curve, diagram = uncertainty_drawings(assessment)
    assert "At the limit of 25 µg/m³ (Hourly PM2.5): A box-01: " in curve.caption
    assert len(curve.curves) == 3
    assert len(diagram.circles) == 3  # a dot for each box
    device = assessment.devices[0]
    assert device.curve is not None
    for uncertainty, random, bias in zip(device.curve.uncertainty, device.curve.random, device.curve.bias, strict=True):
        assert uncertainty == pytest.approx((random**2 + bias**2) ** 0.5)
    page = write_report(run, tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count('<div class="drawing">') == 2 + 3  # of the targets; by temperature, humidity and dew point
    assert 0 < page.index('id="readings"') < page.index('id="targets"') < page.index('id="scorecard"')


def test_letters_of_devices_do_not_cover_each_other() -> None:
    drawing = Drawing("", "")
    drawing.letters({"A": (0.0, 50.0), "B": (0.0, 51.0), "C": (0.0, 20.0)}, 10.0)
    heights = {letter: height for _, height, letter, _ in drawing.texts}
    assert heights["C"] < heights["A"]
    assert heights["B"] - heights["A"] >= LETTER


def test_the_first_page_says_the_class_and_precision_has_its_section(folder: Path, tmp_path: Path) -> None:
    run = read_run(folder)
    cen = replace(run, card=replace(run.card, **summarize(run, choose_sets("cen"))))
    (line,) = class_lines(cen.card.assessments)
    assert line == "CEN/TS 17660, field part (second-hand): class 1 for 3 of 3 devices; sure, extrapolated."
    page = write_report(cen, tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.index(line) < page.index('id="readings"')
    order = [
        page.index(f'<section id="{name}"') for name in ("deployment", "accuracy", "precision", "weather", "targets")
    ]
    assert order == sorted(order)  # as in EPA's report
    assert page.index("agreement between units") > order[2]
    alone = replace(run, card=replace(run.card, **summarize(replace(run, series=run.series[:1]), choose_sets("cen"))))
    (note,) = precision(alone)
    assert "2 or more units" in note.text


def test_units_side_by_side_are_drawn_with_their_difference_to_the_mean(folder: Path) -> None:
    run = read_run(folder)
    run = replace(run, card=replace(run.card, **summarize(run, choose_sets("epa"))))
    _, drawing = precision(run)
    assert isinstance(drawing, Drawing)
    daily = [Averaging(24, 0.75, through_hours=False).of_scored(one) for one in run.series]
    values = np.array([means.calibrated for means in daily])
    for letter, one, apart in zip("ABC", run.series, values - values.mean(axis=0), strict=True):
        assert f"{letter} {one.device}: {quantity(apart.mean(), 'ug/m3')}" in drawing.caption
    assert len(drawing.curves) == 3


def test_the_index_is_compared_with_that_of_the_reference(folder: Path) -> None:
    run = read_run(folder)
    sure = [replace(one, calibrated=one.reference, low=one.reference, high=one.reference) for one in run.series]
    table = index_blocks(replace(run, series=sure))[0]
    assert isinstance(table, ReportTable)
    assert table.caption == "US AQI, hour by hour"
    categories, *_, everything = table.rows
    assert (categories[0], categories[2], everything[2]) == ("good", "100 %", "100 %")
    (note,) = index_blocks(replace(run, target=Channel("CO2", "ppm")))[:1]
    assert isinstance(note, Note)
    assert note.text == "The index us-aqi is for PM2.5, PM10, O3; CO2 is none of them."


def test_facts_of_the_deployment_are_shown_and_what_is_missing_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text('place = "<b>Ispra"\nsensor_height_m = 3.5\nphotos = ["north.jpg"]\n')
    found = read_deployment(tmp_path / "site.toml")
    page = write_report(read_run(folder), tmp_path / "page.html", deployment=found).read_text(encoding="utf-8")
    assert "&lt;b&gt;Ispra" in page
    assert "height of the sensors&#39; inlets [m]" in page
    assert "Not stated: latitude [°], longitude [°]" in page
    (tmp_path / "site.toml").write_text("latitude = 95\n")
    with pytest.raises(UsageError, match="latitude is 95"):
        read_deployment(tmp_path / "site.toml")


def test_tables_are_csv_beside_the_page(folder: Path, tmp_path: Path) -> None:
    written = tables_folder(write_report(read_run(folder), tmp_path / "page.html"))
    assert written.name == "page-tables"
    names = sorted(path.name for path in written.iterdir())
    assert any("us-epa-base-testing" in name for name in names)
    with (written / names[0]).open(newline="", encoding="utf-8") as handle:
        rows = list(csv.reader(handle))
    assert rows[0][0] == "device"
    assert rows[1][0] == "box-01, raw"


@pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no Chromium")
def test_the_page_prints_to_a_pdf(folder: Path, tmp_path: Path) -> None:
    page = write_report(read_run(folder), tmp_path / "page.html")
    made = print_pdf(page)
    content = made.read_bytes()
    assert content.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", content)) >= 4
    assert len(content) < 3e6


def test_without_a_browser_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="needs Chromium or Chrome"):
        print_pdf(tmp_path / "page.html")


def test_a_grade_that_cannot_fail_does_not_count() -> None:
    def graded(step_ms: float, latency_ms: float) -> frozenset[str]:
        names = ("latency_mean", "latency_max", "latency_jitter")
        entries = [TABLE.make_entry(Finding(name, latency_ms, step_ms), "ppb") for name in names]
        entries.append(TABLE.make_entry(Finding("rmse", 0.1, 1.0), "ppb"))
        return replace(card(pl.DataFrame(series(1, 0.1))), entries=tuple(entries)).trivially_met()

    assert graded(3_600_000.0, 0.001) == {"mean-latency", "max-latency", "sampling-jitter"}
    assert graded(10.0, 0.001) == frozenset()
    assert graded(3_600_000.0, 1e6) == frozenset()  # missed, however wide the bound
