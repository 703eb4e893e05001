"""Two laser counters of one box: which columns they are, and where their mean counts."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.data.column_guess import inspect_table
from scare.data.column_mapping import read_readings
from scare.data.laser_pairs import find_laser_pairs, mean_of_lasers

CONCENTRATIONS = st.floats(0, 1000)


@pytest.mark.parametrize(
    ("columns", "pairs"),
    [
        (["PM2.5_CF1_A", "PM2.5_CF1_B"], {"PM2.5_CF1": ("PM2.5_CF1_A", "PM2.5_CF1_B")}),
        (["pm25_a_ugm3", "pm25_b_ugm3"], {"pm25_ugm3": ("pm25_a_ugm3", "pm25_b_ugm3")}),
        (["pm25A", "pm25B", "pm10"], {"pm25": ("pm25A", "pm25B")}),
        (["pm2.5_atm", "pm2.5_atm_a", "pm2.5_atm_b"], {"pm2.5_atm": ("pm2.5_atm_a", "pm2.5_atm_b")}),
        (["pm2.5_atm_a"], {}),
        (["humidity_a", "humidity_b", "0.3_um_count_a", "0.3_um_count_b"], {}),
    ],
)
def test_counters_are_paired_by_their_letter(columns: list[str], pairs: dict[str, tuple[str, str]]) -> None:
    assert find_laser_pairs(columns) == pairs


@given(CONCENTRATIONS, CONCENTRATIONS)
def test_the_mean_counts_within_5_or_70_percent(first: float, second: float) -> None:
    mean, apart = (first + second) / 2, abs(first - second)
    (found,) = mean_of_lasers(pl.Series([first]), pl.Series([second]), "ug/m3").to_list()
    assert found == (mean if apart <= 5 or apart <= 0.7 * mean else None)
    (same,) = mean_of_lasers(pl.Series([second]), pl.Series([first]), "").to_list()
    assert same == found


def test_the_limit_follows_the_unit() -> None:
    first, second = pl.Series([0.002, 0.002]), pl.Series([0.006, 0.02])
    assert mean_of_lasers(first, second, "mg/m3").to_list() == [0.004, None]


def test_a_table_with_both_is_read_as_their_mean_and_the_rest_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "box.csv"
    rows = [(10, 12), (11, 60), (12, 13), (None, 9), (20, 22)]
    lines = [f"2026-01-01T00:0{row}Z,{'' if a is None else a},{b}" for row, (a, b) in enumerate(rows)]
    path.write_text("\n".join(["time,pm2.5_cf_1_a,pm2.5_cf_1_b", *lines]))
    found = inspect_table(path)
    assert [column.name for column in found.channels] == ["pm2.5_cf_1"]
    assert dict(found.left_out)["pm2.5_cf_1_b"] == "a laser counter of pm2.5_cf_1"
    counted = "it is missing in 1 of 4 rows, where they differ by more than 5 µg/m³ and 70%"
    assert any(counted in note for note in found.notes)
    (box,) = read_readings(path, found.mapping)
    assert box.frame["pm2.5_cf_1"].to_list() == [11.0, None, 12.5, None, 21.0]
