"""The sections: interval coverage against counts, rows of an earlier study."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from scare.data.flags import Flag
from scare.report.blocks import Banner, Note, ReportTable
from scare.report.sections import comparison, coverage
from scare.scorecard.requirements import Finding, RequirementTable
from scare.scorecard.run_folder import Run, make_run
from scare.windowing.training_range import OUTSIDE_GRADES
from tests.report.small_run import card, method, series


def make(shift: float) -> tuple[pl.DataFrame, Run]:
    """A run of two boxes whose intervals contain 90 % of the rows, or fewer where they are shifted."""
    table = series(2, 3.0, ["box-01", "box-02"])
    noise = np.random.default_rng(1).uniform(-1, 1, table.height)
    middle = table["reference"] + noise + shift
    table = table.with_columns((middle - 0.9).alias("low"), (middle + 0.9).alias("high"))
    entry = RequirementTable.load().make_entry(Finding("interval_coverage", 90.0, 90.0, {"level": 0.9}), "ug/m3")
    return table, make_run(replace(card(table), entries=(entry,)), table)


def test_tables_count_every_row_once_and_say_what_was_covered() -> None:
    table, run = make(0.0)
    banner, *tables = coverage(run)
    scored = table.drop_nulls(["reference", "calibrated"])
    share = scored["reference"].is_between(scored["low"], scored["high"]).mean()
    assert isinstance(banner, Banner)
    assert banner.badge.kind == "good"
    assert f"{100 * share:.1f} % of {scored.height:,} rows" in banner.text
    assert "1.8 µg/m³ wide" in banner.text
    assert [one.caption for one in tables if isinstance(one, ReportTable)] == [
        "By flag",
        "By concentration",
        "By device",
        "Over time",
    ]
    for one in tables:
        assert isinstance(one, ReportTable)
        assert sum(int(str(row[1]).replace(",", "")) for row in one.rows) == scored.height
        shares = [float(str(row[2]).removesuffix(" %")) for row in one.rows if str(row[2]) != "–"]
        assert min(shares) > 70


def test_rows_outside_training_are_told_apart_by_how_far_they_are() -> None:
    table, run = make(0.0)
    far = np.resize([0.0, 0.05, 0.05, 0.5, 7.0], table.height)
    flags = np.where(np.arange(table.height) < 100, int(Flag.OUTSIDE), 0).astype(np.uint32)
    graded = make_run(run.card, table.with_columns(pl.Series("outside_ranges", far), pl.Series("flags", flags)))
    found = next(one for one in coverage(graded) if isinstance(one, ReportTable) and one.caption == "Outside training")
    scored = graded.series[0].rows(graded.series[0].is_scored & (graded.series[0].flags > 0))
    counts = [int((scored.outside_ranges == one).sum()) for one in (0.0, 0.05, 0.5, 7.0)]
    assert [[str(cell) for cell in row[:2]] for row in found.rows] == [
        [text, str(count)] for text, count in zip(OUTSIDE_GRADES, counts, strict=True)
    ]


def test_less_than_stated_is_said() -> None:
    _, run = make(0.8)
    banner = coverage(run)[0]
    assert isinstance(banner, Banner)
    assert banner.badge.kind == "bad"
    assert "less than they state" in banner.text


@pytest.mark.parametrize("columns", [[], ["low", "high"]])
def test_a_run_without_intervals_says_so(columns: list[str]) -> None:
    table = series(1, 1.0, ["box-01"]).with_columns(pl.lit(None, pl.Float64).alias(name) for name in columns)
    (note,) = coverage(make_run(card(table), table))
    assert isinstance(note, Note)
    assert "no intervals" in note.text


def test_a_study_of_an_earlier_version_is_shown() -> None:
    current = method("ridge", 3.0)
    earlier = {"contender" if name == "method" else name: value for name, value in current.items()}
    assert comparison([earlier], [], "ppb") == comparison([current], [], "ppb")
