"""Air quality indices: breakpoints, NowCast by EPA's own steps, and probabilities that are those of the interval."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from scipy import stats

from scare.calibrator.air_index import HourlyIndex, air_indices, find_index
from scare.data.readings import Channel
from scare.errors import UsageError

PM25 = find_index("us-aqi", Channel("PM2.5", "ug/m3"))


@pytest.mark.parametrize(
    ("pollutant", "unit", "concentration", "value"),
    [
        ("PM2.5", "ug/m3", 9.0, 50),
        ("PM2.5", "ug/m3", 9.09, 50),  # truncated to 9.0
        ("PM2.5", "ug/m3", 9.1, 51),
        ("PM2.5", "ug/m3", 35.4, 100),
        ("PM2.5", "ug/m3", 55.4, 150),
        ("PM2.5", "ug/m3", 125.4, 200),
        ("PM2.5", "ug/m3", 225.4, 300),
        ("PM10", "ug/m3", 154.9, 100),
        ("PM10", "ug/m3", 155.0, 101),
        ("O3", "ppb", 70.9, 100),
        ("O3", "ppb", 71.0, 101),
        ("O3", "ppb", 200.0, 300),
    ],
)
def test_breakpoints_have_the_values_of_their_categories(
    pollutant: str, unit: str, concentration: float, value: int
) -> None:
    assert find_index("us-aqi", Channel(pollutant, unit)).value(concentration) == value


def test_a_value_between_breakpoints_is_interpolated_and_rounded() -> None:
    """EPA's equation: (100 − 51) / (35.4 − 9.1) · (20.0 − 9.1) + 51 = 71.3."""
    assert PM25.value(20.0) == 71


def nowcast(hours: list[float]) -> float:
    """EPA's steps 1 to 7, hour by hour, the newest last."""
    known = [value for value in hours if not np.isnan(value)]
    weight = max(0.5, 1 - (max(known) - min(known)) / max(known))
    pairs = [(weight**ago, value) for ago, value in enumerate(reversed(hours)) if not np.isnan(value)]
    return sum(factor * value for factor, value in pairs) / sum(factor for factor, _ in pairs)


def test_the_worked_examples_of_epa() -> None:
    """Of the technical assistance document (O3 of 0.07853333 ppm, PM2.5 of 35.9) and of "NowCast formula"."""
    ozone = find_index("us-aqi", Channel("O3", "ppm"))
    concentration = ozone.gain * 0.07853333
    assert ozone.value(concentration) == 126
    assert ozone.index.categories[ozone.category(concentration)] == "unhealthy for sensitive groups"
    assert PM25.value(35.9) == 102
    newest_first = [13, 16, 10, 21, 74, 64, 53, 82, 90, 75, 80, 50]
    average = PM25.average(np.array(newest_first[::-1], float)[:, None])[0]
    assert average == pytest.approx(17.4139194, abs=1e-6)
    assert PM25.value(average) == 66  # (100 − 51) / (35.4 − 9.1) · (17.4 − 9.1) + 51 = 66.46


@pytest.mark.parametrize("seed", range(4))
def test_nowcast_follows_epas_steps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    hours = rng.uniform(5, 40, 12)
    hours[rng.integers(0, 9, 3)] = np.nan
    assert PM25.average(hours[:, None])[0] == pytest.approx(nowcast(hours.tolist()))


def test_nowcast_needs_two_of_the_last_three_hours() -> None:
    hours = np.full((12, 1), 10.0)
    hours[-2:] = np.nan
    assert np.isnan(PM25.average(hours)[0])
    hours[-1] = 10.0
    assert PM25.average(hours)[0] == 10.0


def test_probabilities_are_those_of_the_interval() -> None:
    found = PM25.probabilities(34.0, 30.0, 40.0, 0.9)
    assert sum(found) == pytest.approx(1.0)
    above = stats.norm.sf((35.5 - 34.0) / (6.0 / stats.norm.ppf(0.95)))
    assert sum(found[2:]) == pytest.approx(above)
    assert sum(found[:2]) == pytest.approx(1 - above)


def test_hours_of_rows_become_an_index_whatever_the_chunks() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    count = 60 * 14
    values = 20 + 10 * np.sin(np.arange(count) / 100)
    rows = pl.DataFrame(
        {
            "device": ["a"] * count,
            "time": [begin + timedelta(minutes=index) for index in range(count)],
            "calibrated": values,
            "low": values - 4,
            "high": values + 4,
        }
    ).with_columns(
        pl.when(pl.col("time").dt.hour() == 5).then(None).otherwise(pl.col("calibrated")).alias("calibrated")
    )
    whole, parts = (HourlyIndex(PM25, 0.9, 60.0) for _ in range(2))
    whole.add(rows)
    for start in range(0, count, 97):
        parts.add(rows[start : start + 97])
    table = whole.table()
    assert table.drop("index").columns == parts.table().drop("index").columns
    for name in ("concentration", "low", "high"):
        np.testing.assert_allclose(table[name], parts.table()[name])
    last = table.row(-1, named=True)
    hours = [float(np.mean(values[60 * hour : 60 * hour + 60])) if hour != 5 else np.nan for hour in range(2, 14)]
    assert last["concentration"] == pytest.approx(nowcast(hours))
    assert last["index"] == PM25.value(last["concentration"])
    assert last["p_moderate"] == pytest.approx(1.0, abs=0.01)
    assert sum(last[name] for name in table.columns if name.startswith("p_")) == pytest.approx(1.0)


def test_a_gas_in_another_unit_is_converted_and_an_index_without_values_has_categories_only() -> None:
    no2 = find_index("eea", Channel("NO2", "ppb"))
    assert no2.gain == pytest.approx(1.9127, rel=1e-4)
    assert no2.value(100.0) is None
    assert no2.index.categories[no2.category(100.0)] == "very poor"
    assert [no2.category(value) for value in (9.9, 10.0, 24.9, 25.0, 59.9, 60.0)] == [0, 1, 1, 2, 2, 3]
    assert all(one.second_hand for one in air_indices().values())


def test_what_has_no_index_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no index is called 'aqi'; did you mean"):
        find_index("aqi", Channel("PM2.5", "ug/m3"))
    with pytest.raises(UsageError, match=r"us-aqi is for PM2.5, PM10, O3; NO2 is none of them$"):
        find_index("us-aqi", Channel("NO2", "ppb"))
    with pytest.raises(UsageError, match="not without a unit"):
        find_index("us-aqi", Channel("O3"))
