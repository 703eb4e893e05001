"""The report says what share of the rows the intervals hold, and where that is less than stated."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from scare.report.blocks import Note, Table, Verdict
from scare.report.sections import sureness
from scare.scorecard.requirements import Finding, RequirementTable
from scare.scorecard.run import Run, make_run
from tests.report.small_run import card, series


def make(shift: float) -> tuple[pl.DataFrame, Run]:
    """A run of two boxes whose intervals hold 90 % of the rows, or fewer where they are shifted."""
    table = series(2, 3.0, ["box-01", "box-02"])
    noise = np.random.default_rng(1).uniform(-1, 1, table.height)
    middle = table["reference"] + noise + shift
    table = table.with_columns((middle - 0.9).alias("low"), (middle + 0.9).alias("high"))
    entry = RequirementTable.load().make_entry(Finding("interval_coverage", 90.0, 90.0, {"level": 0.9}), "ug/m3")
    return table, make_run(replace(card(table), entries=(entry,)), table)


def test_tables_count_every_row_once_and_say_what_was_held() -> None:
    table, run = make(0.0)
    verdict, *tables = sureness(run)
    held = table.drop_nulls(["reference", "calibrated"])
    share = held["reference"].is_between(held["low"], held["high"]).mean()
    assert isinstance(verdict, Verdict)
    assert verdict.badge.kind == "good"
    assert f"{100 * share:.1f} % of {held.height:,} rows" in verdict.text
    assert "1.8 µg/m³ wide" in verdict.text
    assert [one.caption for one in tables if isinstance(one, Table)] == ["By concentration", "By device", "Over time"]
    for one in tables:
        assert isinstance(one, Table)
        assert sum(int(str(row[1]).replace(",", "")) for row in one.rows) == held.height
        shares = [float(str(row[2]).removesuffix(" %")) for row in one.rows if str(row[2]) != "–"]
        assert min(shares) > 70


def test_less_than_stated_is_said() -> None:
    _, run = make(0.8)
    verdict = sureness(run)[0]
    assert isinstance(verdict, Verdict)
    assert verdict.badge.kind == "bad"
    assert "less than they state" in verdict.text


@pytest.mark.parametrize("columns", [[], ["low", "high"]])
def test_a_run_without_intervals_says_so(columns: list[str]) -> None:
    table = series(1, 1.0, ["box-01"]).with_columns(pl.lit(None, pl.Float64).alias(name) for name in columns)
    (note,) = sureness(make_run(card(table), table))
    assert isinstance(note, Note)
    assert "no intervals" in note.text
