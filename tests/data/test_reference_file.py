"""A sensor and a reference in files of their own: which columns belong together, units, steps and stamps."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare.data.colocation import read_files
from scare.data.column_mapping import DataSection
from scare.data.readings import Channel, Readings
from scare.errors import DataError, UsageError

START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def air(seed: int, rows: int = 6 * 24 * 12, memory: int = 30) -> np.ndarray:
    """Twelve days of ten-minute values that forget in some hours."""
    steps = np.random.default_rng(seed).normal(size=rows + 500)
    return 30 + 4 * np.convolve(steps, np.exp(-np.arange(500) / memory))[500 : 500 + rows]


def write(path: Path, columns: Mapping[str, object], step: float = 600.0, late: float = 0.0) -> Path:
    """A table with a time at the end of each step."""
    frame = pl.DataFrame(columns)
    seconds = START + step * np.arange(1, frame.height + 1) + late
    times = pl.Series("time", (1e6 * seconds).astype(np.int64)).cast(pl.Datetime("us", "UTC"))
    frame.insert_column(0, times).write_csv(path, datetime_format="%Y-%m-%dT%H:%M:%SZ")
    return path


Join = Callable[..., tuple[Readings, list[str]]]


@pytest.fixture
def join(tmp_path: Path) -> Join:
    """Joins a sensor's file and a reference's, hourly means at the ends of hours; returns the notes too."""

    def joined(
        sensor: Mapping[str, np.ndarray], station: Mapping[str, object], late: float = 0.0, **options: object
    ) -> tuple[Readings, list[str]]:
        hourly = {
            name: value.reshape(-1, 6).mean(axis=1) if isinstance(value, np.ndarray) else value
            for name, value in station.items()
        }
        write(tmp_path / "box.csv", sensor)
        write(tmp_path / "station.csv", hourly, 3600.0, late)
        data = DataSection(reference_file=str(tmp_path / "station.csv"), **options)  # type: ignore[arg-type]
        notes: list[str] = []
        (found,) = read_files([tmp_path / "box.csv"], data, notes.append)
        return found, notes

    return joined


PM, O3, NO2 = air(1), air(2), air(3)


def test_sensor_and_reference_have_one_quantity_wherever_they_stand(join: Join) -> None:
    found, notes = join(
        {"humidity": air(7), "no2": 3 * NO2, "o3": 2 * O3}, {"pm25": PM, "o3 station": O3, "wind": air(5)}
    )
    assert found.channels[0].name == "o3"
    assert found.reference == Channel("o3 station")
    assert any(note.endswith("guessed --reference 'o3 station'") for note in notes)
    assert any("averaged readings from 10 minutes to 1 hour" in note for note in notes)
    assert any("the clocks agree" in note for note in notes)
    known = np.isfinite(found.targets)
    np.testing.assert_allclose(found.values[known, 0], 2 * found.targets[known], rtol=1e-6)


def test_several_shared_quantities_are_decided_by_correlation(join: Join) -> None:
    other = air(9)
    found, notes = join({"no2": other, "o3": 2 * O3}, {"NO2": NO2, "O3": O3})
    assert (found.channels[0].name, found.reference and found.reference.name) == ("o3", "O3")
    assert any("O3 correlates best with the sensor (1.00); there are also NO2" in note for note in notes)
    stated, _ = join({"no2": other, "o3": 2 * O3}, {"NO2": NO2, "O3": O3}, quantity="no2")
    assert (stated.channels[0].name, stated.reference and stated.reference.name) == ("no2", "NO2")


def test_a_value_of_no_known_quantity_finds_its_channel_by_correlation(join: Join) -> None:
    found, notes = join({"field1": air(8), "field2": 5 + 2 * O3}, {"Value": O3}, quantity="O3")
    assert found.channels[0].name == "field2"
    assert found.reference == Channel("O3")
    assert any("no column is O3; field2 correlates best with it (1.00)" in note for note in notes)
    assert any("Value is O3" in note for note in notes)


def test_equal_names_become_two(join: Join) -> None:
    found, _ = join({"pm25": 2 * PM}, {"pm25": PM})
    assert found.reference == Channel("reference_pm25", "ug/m3", -100, 1100)


def test_units_that_differ_are_said_with_their_conversion(join: Join) -> None:
    _, notes = join({"pm25_ug/m3": 2 * PM}, {"PM2.5 [mg/m3]": PM / 1000})
    assert any(
        "the reference in mg/m³: compared as 0.001 × pm25_ug/m3; the model takes µg/m³" in note for note in notes
    )
    _, american = join({"o3_ppb": O3}, {"O3 (µg/m³)": 2 * O3})
    assert any("compared as 1.962 × o3_ppb at 25 °C (--standard-temperature)" in note for note in american)
    _, european = join({"o3_ppb": O3}, {"O3 (µg/m³)": 2 * O3}, standard_temperature=20.0)
    assert any("compared as 1.995 × o3_ppb at 20 °C" in note for note in european)
    _, current = join({"o3_mgm-3": O3}, {"O3 [%]": 2 * O3})
    assert any("which do not convert: the raw reading is not compared" in note for note in current)


def test_a_stamp_at_the_beginning_is_moved_to_the_end(join: Join) -> None:
    as_is, notes = join({"pm25": PM}, {"pm25": PM}, late=-3600.0)
    assert any("--stamp begin" in note for note in notes)
    right, notes = join({"pm25": PM}, {"pm25": PM}, late=-3600.0, stamp="begin")
    assert any("a time is the beginning of its 1 hour; moved to the end" in note for note in notes)
    assert any("the clocks agree" in note for note in notes)
    errors = [np.nanmean(np.abs(one.values[:, 0] - one.targets)) for one in (as_is, right)]
    assert errors[0] > 1
    assert errors[1] < 1e-6


def test_several_stations_in_one_file_are_refused_with_the_command_that_takes_one(join: Join, tmp_path: Path) -> None:
    sites = pl.DataFrame({"site": ["A", "B"] * 288, "pm25": PM[:576]})
    times = [f"2026-01-{1 + row // 48:02d}T{row // 2 % 24:02d}:00Z" for row in range(576)]
    sites.insert_column(0, pl.Series("time", times)).write_csv(tmp_path / "many.csv")
    write(tmp_path / "box.csv", {"pm25": PM})
    data = DataSection(reference_file=str(tmp_path / "many.csv"))
    with pytest.raises(DataError, match=r"the column 'site' names 2 stations \(A, B\); join one with 'scare align"):
        read_files([tmp_path / "box.csv"], data, print)


def test_an_unknown_pollutant_is_refused_with_the_nearest(join: Join) -> None:
    with pytest.raises(UsageError, match="no quantity is called 'oson'"):
        join({"o3": O3}, {"O3": O3}, quantity="oson")
