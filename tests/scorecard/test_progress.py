"""The meter of a co-location: forecasts on air whose law is known, conditions, and the advice that follows."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from scare.data.readings import Channel, Readings
from scare.errors import DataError
from scare.scorecard.progress import FAMILIES, assess_progress, fit_family
from scare.scorecard.targets import choose_sets

CHANNELS = (Channel("NO2_raw", "ppb"), Channel("temperature", "degC"))


def make(days: float, seed: int = 0, noise: float = 2.0, step: float = 3600.0, coldest: float = 5.0) -> Readings:
    """A sensor that reads half of NO2 and rises with temperature; the errors of hours are independent."""
    rng = np.random.default_rng(seed)
    count = int(days * 86400 / step)
    times = 1.7e9 - 1.7e9 % 86400 + step * np.arange(count)
    temperature = coldest + 8 + 8 * np.sin(2 * np.pi * times / 86400) + rng.normal(0, 1, count)
    no2 = rng.gamma(3.0, 8.0, count)
    raw = 0.5 * no2 + 0.4 * temperature + rng.normal(0, 0.5 * noise, count)
    stamps = pl.from_epoch(pl.Series((times * 1e6).astype(np.int64)), "us").dt.replace_time_zone("UTC")
    columns = {"time": stamps, "NO2_raw": raw, "temperature": temperature, "reference": no2}
    return Readings(f"box-{seed}", pl.DataFrame(columns), CHANNELS, Channel("Ref.NO2", "ppb"))


def test_the_forecast_is_the_error_that_the_law_of_the_air_leaves() -> None:
    """The best regression of this air has an error of about 2; the sensor as it reads is far off."""
    found = assess_progress([make(30, seed) for seed in range(2)])
    assert found.family in ("linear regression", "interactions")
    assert found.error == pytest.approx(2.0, rel=0.1)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 2.0 < found.high
    assert found.raw_error is not None
    assert found.raw_error > 8
    assert found.in_a_week is not None
    assert found.in_a_week <= found.error
    assert (found.days, found.capture) == (30.0, 1.0)
    assert found.stop
    assert "only 0 %" in found.reason or "only 1 %" in found.reason


def test_the_forecast_holds_for_the_days_that_follow() -> None:
    whole, hits = make(40, 3), 0
    for days in range(8, 20):
        first = Readings("a", whole.frame[: 24 * days], CHANNELS, whole.reference)
        found = assess_progress([first])
        rest = whole.frame[24 * days :]
        values = first.frame.select("NO2_raw", "temperature").to_numpy()
        predict = fit_family(values, first.targets, FAMILIES[found.family])
        error = predict(rest.select("NO2_raw", "temperature").to_numpy()) - rest["reference"].to_numpy()
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= float(np.sqrt(np.mean(error**2))) <= found.high
    assert hits == 12


def test_minutes_are_averaged_to_hours() -> None:
    found = assess_progress([make(8, step=600.0, noise=2.0)])
    assert found.hours == 8 * 24
    assert found.error is not None
    assert found.error < 2.0  # the mean of six


def test_a_few_days_are_too_few_and_unknown_weeks_take_four() -> None:
    few = assess_progress([make(4)])
    assert (few.stop, few.go_on_days) == (False, 3)
    assert "too few days" in few.reason
    unknown = assess_progress([make(20)])
    assert (unknown.stop, unknown.go_on_days) == (False, 8)
    assert "--deployment" in unknown.reason


def test_conditions_that_were_not_seen_are_named_and_keep_it_standing() -> None:
    winter = make(30)
    summer = replace(make(365, 9, coldest=-10.0), device="last year").values
    year = {"NO2_raw": summer[:, 0], "temperature": np.concatenate([summer[:180, 1], summer[180:, 1] + 30])}
    found = assess_progress([winter], deployment={name: values[: len(summer)] for name, values in year.items()})
    shares = {one.name: one.share for one in found.conditions}
    assert set(shares) == {"NO2_raw", "temperature", "NO2_raw, temperature jointly"}
    assert shares["NO2_raw"] > 0.9
    assert shares["temperature"] < 0.7
    assert not found.stop
    assert "of the deployment's conditions" in found.reason
    assert any(line.startswith("temperature between") for line in found.missing)
    same = assess_progress([winter], deployment={"temperature": winter.values[:, 1]})
    assert same.conditions[0].share == 1.0
    assert same.stop


def test_hours_without_a_reference_are_a_reason_to_look() -> None:
    readings = make(30)
    blank = pl.when(pl.int_range(pl.len()) % 3 == 0).then(None).otherwise(pl.col("reference")).alias("reference")
    holes = replace(readings, frame=readings.frame.with_columns(blank))
    found = assess_progress([holes])
    assert found.capture == pytest.approx(2 / 3, abs=0.01)
    assert not found.stop
    assert "67 % of the hours" in found.reason


def test_the_class_is_that_of_estimates_that_had_not_seen_their_day() -> None:
    found = assess_progress([make(30)], choose_sets("cen"))
    (graded,) = found.assessments
    assert graded.devices[0].averages == 28 * 24  # the first two days have no forward estimate
    assert graded.devices[0].reached == "class 1"
    assert "never came near the limit" in " ".join(found.missing)


def test_a_reference_that_is_stuck_is_refused() -> None:
    box = make(15)
    stuck = Readings("a", box.frame.with_columns(reference=pl.lit(5.0)), CHANNELS, box.reference)
    with pytest.raises(DataError, match=r"Ref\.NO2 has been constant \(5\) so far"):
        assess_progress([stuck])


def test_what_is_no_co_location_is_refused() -> None:
    with pytest.raises(DataError, match="no reference is among the columns"):
        assess_progress([replace(make(9), reference=None)])
    with pytest.raises(DataError, match="no device has 48 hours"):
        assess_progress([make(1)])
