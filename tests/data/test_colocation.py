"""Co-locations: a reference in a file of its own, and numbers that are no readings."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare.data.colocation import read_colocation, read_files
from scare.data.column_kind import find_limits
from scare.data.column_mapping import DataSection, tidy_columns
from scare.data.readings import Channel
from scare.schema import convert
from tests.data.box_files import write_boxes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_boxes(tmp_path)


def test_the_reference_file_has_time_columns_and_a_unit_of_its_own(folder: Path) -> None:
    late = [f"2026-01-01T05:{minute:02d}:00Z" for minute in range(30)]
    rows = {"local time": late, "UTC": [text.replace("T05", "T00") for text in late], "value": [7.0] * 15 + [8.0] * 15}
    pl.DataFrame(rows).write_csv(folder / "station.csv")
    given = {"time": "when", "channels": ["pm"], "reference": {"name": "value", "unit": "ug/m3"}}
    given |= {"reference_file": str(folder / "station.csv"), "reference_table": {"time": "UTC"}}
    data = convert(tidy_columns(given), DataSection, "a test")
    (box,) = read_files([folder / "box-1.csv"], data, lambda text: None)
    assert box.targets.tolist() == rows["value"]
    assert box.reference == Channel("value", "ug/m3")


@pytest.mark.parametrize(("column", "code"), [("pm25", 9999.0), ("ref", 9999.0), ("cell", 4095.0), ("cell", -127.0)])
def test_a_repeated_code_is_no_reading_though_every_column_was_named(tmp_path: Path, column: str, code: float) -> None:
    times = [f"2026-01-0{1 + row // 1440}T{row // 60 % 24:02d}:{row % 60:02d}:00Z" for row in range(2000)]
    wave = 20 + 15 * np.sin(np.arange(2000) / 40)
    table = pl.DataFrame({"when": times, "pm25": wave, "cell": 500 + wave, "ref": wave / 2})
    broken = pl.when(pl.int_range(pl.len()) % 100 == 7).then(code).otherwise(pl.col(column)).alias(column)
    table.with_columns(broken).write_csv(tmp_path / "box.csv")
    data = DataSection(time=("when",), channels=(Channel("pm25"), Channel("cell")), reference=Channel("ref"), step=600)
    notes: list[str] = []
    (found,) = read_colocation([tmp_path / "box.csv"], data, notes.append)
    assert any(note.startswith(f"{column}: {code:g} (20 times) means 'no reading'") for note in notes)
    values = np.column_stack([found.values, found.targets])
    assert np.nanmax(values) < 600  # the ten-minute means are those of the readings
    assert np.nanmin(values) > 2


def test_readings_that_a_quantity_cannot_have_are_missing_unless_many_are() -> None:
    wave = 20 + 15 * np.sin(np.arange(400) / 40)
    limits = [find_limits(np.append(wave, [1500.0 + one for one in range(odd)]), Channel("pm25")) for odd in (3, 30)]
    assert limits == [(-100, 1100), (-np.inf, np.inf)]


def test_cold_fahrenheit_and_noise_below_zero_are_readings() -> None:
    cold = np.concatenate([np.arange(-1.0, 104.0, 0.5), [-1.0] * 40])
    assert find_limits(cold, Channel("temp_f")) == pytest.approx((-62.5, 207.5))
    assert find_limits(np.array([-1.0, 0.0, 1.0, 2.0, 3.0] * 50), Channel("reference")) == (-np.inf, np.inf)
