"""Clocks that are wrong by a known amount, drift, were reset or follow daylight saving, in made air."""

from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from scare.data.alignment import average, shift
from scare.data.clock import check_clock, find_clock_offset
from scare.data.readings import Channel, Readings
from scare.errors import DataError

START = datetime(2026, 2, 1, tzinfo=UTC).timestamp()
DAY, HOUR, MINUTE = 86400.0, 3600.0, 60.0


def readings(times: np.ndarray, values: np.ndarray, device: str = "box") -> Readings:
    """Values at times in seconds since the start of February 2026."""
    stamps = pl.Series("time", ((START + times) * 1e6).round().astype(np.int64)).cast(pl.Datetime("us", "UTC"))
    return Readings(device, pl.DataFrame({"time": stamps, "pm25": values}), (Channel("pm25", "ug/m3"),))


def air(days: float, step: float = 120.0, daily: float = 0.3, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Times and values of air that forgets in four hours and has a daily cycle."""
    draw, times = np.random.default_rng(seed), np.arange(step, days * DAY + 1, step)
    kept = np.exp(-step / (4 * HOUR))
    steps = draw.normal(0, np.sqrt(1 - kept**2), len(times) + 2000)
    slow = np.convolve(steps, kept ** np.arange(2000))[2000 : 2000 + len(times)]
    return times, np.exp(2.3 + 0.6 * slow + daily * np.sin(2 * np.pi * times / DAY))


def pair(days: float, late: float | np.ndarray, lost: float = 0.3, hourly: bool = True) -> tuple[Readings, Readings]:
    """A noisy sensor whose clock is `late` seconds behind an hourly reference, a share of its rows lost."""
    times, values = air(days)
    draw = np.random.default_rng(2)
    kept = draw.random(len(times)) >= lost
    noisy = 1.6 * values * np.exp(draw.normal(0, 0.2, len(times)))
    station = readings(times, values, "station")
    return readings((times - late)[kept], noisy[kept]), average(station, HOUR) if hourly else station


@pytest.mark.parametrize("hours", [0.0, 5.0, -1.0, 4.5, -5.75, -13.0])
def test_a_wrong_clock_is_found_beside_an_hourly_reference(hours: float) -> None:
    check = check_clock(*pair(20, hours * HOUR), "pm25")
    assert check.offset.seconds == hours * HOUR
    assert check.offset.correlation > 0.98
    assert check.is_off == (hours != 0)
    assert check.change is None
    assert check.drift == 0
    assert check.correlations.as_good == ()


def test_the_sentences_give_the_shift_and_the_zone_that_explains_it() -> None:
    first, *rest = check_clock(*pair(20, 5 * HOUR), "pm25").describe()
    assert first.startswith("box: the clocks disagree: correlation 0.99")
    assert "with the sensor shifted by +5 hours, 0." in first
    assert rest == [
        "box: sensor times in America/New_York (--timezone) or reference times in Asia/Karachi (--reference-timezone)"
        " would explain it"
    ]
    (agree,) = check_clock(*pair(20, 0.0), "pm25").describe()
    assert agree.startswith("box: the clocks agree (correlation 0.99")


def test_an_hour_may_be_a_reference_that_stamps_the_beginning() -> None:
    times, values = air(15)
    beginning = shift(average(readings(times, values, "station"), HOUR), -HOUR)
    check = check_clock(readings(times, values), beginning, "pm25")
    assert check.is_stamped_at_beginning
    assert any("stamp its means of 1 hour at their beginning: --stamp begin" in line for line in check.describe())
    assert check_clock(readings(times, values), shift(beginning, HOUR), "pm25").is_stamped_at_beginning is False


@pytest.mark.parametrize("hourly", [True, False])
def test_a_drift_is_measured_in_seconds_a_day(hourly: bool) -> None:
    times, _ = air(60)
    check = check_clock(*pair(60, -45 * times / DAY, hourly=hourly), "pm25")
    assert check.drift == pytest.approx(-45, abs=4)
    assert check.change is None
    assert "drifts by -4" in check.describe()[0]


def test_a_reset_is_dated_and_has_two_shifts() -> None:
    times, _ = air(60)
    check = check_clock(*pair(60, np.where(times < 35 * DAY, 0.0, -7200.0)), "pm25")
    assert check.change is not None
    assert (check.change.before, check.change.after) == (0.0, -7200.0)
    assert abs(check.change.time.timestamp() - START - 35 * DAY) < DAY
    assert check.is_off


def test_daylight_saving_names_a_zone_that_has_it() -> None:
    times, _ = air(90)
    change = datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp() - START
    berlin = check_clock(*pair(90, np.where(times < change, -HOUR, -2 * HOUR), lost=0.0), "pm25")
    assert berlin.sensor_zone == "Europe/Berlin"
    assert berlin.change is not None
    assert berlin.change.time.date().isoformat() in ("2026-03-28", "2026-03-29")
    winter_time = check_clock(*pair(90, -HOUR, lost=0.0), "pm25")  # all year, as many loggers do
    assert winter_time.sensor_zone == "Africa/Lagos"


def test_a_daily_cycle_fits_several_shifts_and_it_is_said() -> None:
    draw, times = np.random.default_rng(3), np.arange(120.0, 10 * DAY, 120.0)
    daily = 10 + 5 * np.sin(2 * np.pi * times / DAY)
    sensor, station = (daily + draw.normal(0, 0.5, len(times)) for _ in range(2))
    check = check_clock(readings(times + 11 * HOUR, sensor), readings(times, station), "pm25")
    shifts = sorted([check.offset.seconds, *check.correlations.as_good])
    assert_allclose(shifts, [-11 * HOUR, HOUR, 13 * HOUR], atol=HOUR)  # with its opposite phase
    assert any("fits as well, as a daily cycle repeats" in line for line in check.describe())


def test_a_shift_at_the_end_of_the_search_is_said() -> None:
    check = check_clock(*pair(20, 3.5 * HOUR), "pm25", max_seconds=3 * HOUR)
    assert check.correlations.is_at_end
    assert any("a larger shift may fit better" in line for line in check.describe())


def test_series_that_do_not_correlate_have_no_clock_to_compare() -> None:
    sensor, _ = pair(20, 0.0)
    other = readings(*air(20, seed=9), "station")
    (line,) = check_clock(sensor, average(other, HOUR), "pm25").describe()
    assert "hardly correlate" in line


def test_a_gap_of_a_week_does_not_matter() -> None:
    sensor, station = pair(30, 3 * HOUR)
    day = (sensor.times - START) / DAY
    assert check_clock(sensor.rows((day < 8) | (day > 15)), station, "pm25").offset.seconds == 3 * HOUR


def test_a_finer_reference_is_compared_with_the_means_of_the_sensor() -> None:
    sensor, station = pair(20, -90 * MINUTE, lost=0.0, hourly=False)
    assert find_clock_offset(average(sensor, HOUR), station, "pm25").seconds == -90 * MINUTE


def noisy_minutes(rows: int, late: int, sign: float = 1.0) -> tuple[Readings, Readings]:
    """A reference and a noisy sensor whose clock is `late` minutes behind, a fifth of their rows lost."""
    rng = np.random.default_rng(5)
    truth = 100 + np.convolve(rng.normal(size=rows + 400), np.exp(-np.arange(60) / 15), "same")[200:-200]
    sensor = 500 + sign * truth + rng.normal(0, 0.5 * truth.std(), rows)
    kept, known = rng.random(rows) < 0.8, rng.random(rows) < 0.8
    at = MINUTE * np.arange(rows)
    return readings(at[kept] - MINUTE * late, sensor[kept]), readings(at[known], truth[known], "station")


@pytest.mark.parametrize(("late", "sign"), [(0, 1.0), (37, 1.0), (-60, 1.0), (119, -1.0)])
def test_a_clock_offset_is_found_to_the_minute_through_noise_and_gaps(late: int, sign: float) -> None:
    sensor, reference = noisy_minutes(3000, late, sign)
    offset = find_clock_offset(sensor, reference, "pm25")
    assert offset.seconds == MINUTE * late
    assert abs(offset.correlation - sign * 0.89) < 0.03
    assert (offset.correlation == offset.correlation_at_zero) == (late == 0)
    assert find_clock_offset(shift(sensor, offset.seconds), reference, "pm25").seconds == 0.0


def test_the_correlation_of_a_clock_offset_is_pearsons_over_shared_rows() -> None:
    sensor, reference = noisy_minutes(500, 0)
    found = find_clock_offset(sensor, reference, "pm25", max_seconds=0.0)
    shared = sensor.frame.join(reference.frame, on="time")
    assert_allclose(found.correlation, np.corrcoef(shared["pm25"], shared["pm25_right"])[0, 1])


def test_clocks_need_a_channel_that_exists_and_varies_at_shared_times() -> None:
    one = readings(MINUTE * np.arange(50), np.full(50, 0.1))
    with pytest.raises(DataError, match="no channel 'o3'; there are pm25"):
        find_clock_offset(one, one, "o3")
    with pytest.raises(DataError, match="never vary at the same times"):
        find_clock_offset(one, one, "pm25")
    with pytest.raises(DataError, match="no clock offset up to 14 hours brings the readings and"):
        find_clock_offset(one, shift(one, 2 * DAY), "pm25")
