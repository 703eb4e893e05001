"""Grades: measures as an independent computation has them, the right class, and how sure it is."""

from dataclasses import replace

import numpy as np
import pytest

from scare.data.readings import Channel
from scare.scorecard.assessment import Assessment, assess
from scare.scorecard.averages import Averaging, uptime
from scare.scorecard.series import DeviceSeries
from scare.scorecard.targets import target_sets

EPA, CEN, EU = (target_sets()[name] for name in ("epa", "cen", "eu-2008-50"))
PM25, NO2 = Channel("Ref.PM2.5", "ug/m3"), Channel("Ref.NO2", "ug/m3")


def make_series(reference: np.ndarray, calibrated: np.ndarray, step: float = 3600.0, device: str = "a") -> DeviceSeries:
    """Rows on the hour with these values."""
    times = step * np.arange(len(reference))
    nothing, no = np.full(len(times), np.nan), np.zeros(len(times), bool)
    flags = no.astype(np.uint32)
    return DeviceSeries(
        device, step, times, nothing, reference, calibrated, *[nothing] * 4, flags, nothing, nothing, no, nothing
    )


def epa(series: list[DeviceSeries], channel: Channel = PM25) -> Assessment:
    found = assess(series, channel, EPA)
    assert found is not None
    return found


def cen(series: list[DeviceSeries], channel: Channel = NO2, reference: str = "") -> Assessment:
    found = assess(series, channel, CEN, reference)
    assert found is not None
    return found


def test_measures_are_those_of_complete_averages() -> None:
    rng = np.random.default_rng(5)
    reference = rng.gamma(3.0, 4.0, 24 * 40)
    calibrated = 0.9 * reference + 1.0 + rng.normal(0, 1.0, len(reference))
    calibrated[:10] = np.nan  # the first day has 14 hours: not complete
    calibrated[24:29] = np.nan  # the second has 19: complete
    found = epa([make_series(reference, calibrated)]).devices[0]
    days = [slice(29, 48), *(slice(24 * day, 24 * day + 24) for day in range(2, 40))]
    x, y = (np.array([values[day].mean() for day in days]) for values in (reference, calibrated))
    design = np.stack([x, np.ones_like(x)], axis=1)
    slope, intercept = np.linalg.lstsq(design, y, rcond=None)[0]
    assert (found.averages, found.days) == (39, 39)
    assert found.values["slope"] == pytest.approx(slope)
    assert found.values["intercept"] == pytest.approx(intercept)
    assert found.values["rmse"] == pytest.approx(np.sqrt(np.mean((x - y) ** 2)))
    assert found.values["nrmse"] == pytest.approx(found.values["rmse"] / x.mean())
    residual = y - design @ [slope, intercept]
    assert found.values["r2"] == pytest.approx(1 - residual @ residual / np.square(y - y.mean()).sum())


def test_rmse_or_its_share_of_the_mean_is_enough() -> None:
    reference = np.linspace(100, 200, 24 * 35)
    found = epa([make_series(reference, 1.1 * reference - 2)]).devices[0]
    assert found.met["target"] == {"slope": True, "intercept": True, "r2": True, "rmse": False, "nrmse": True}
    assert found.reached == "target"
    far = epa([make_series(reference, reference + 20.0)]).devices[0]
    assert not far.met["target"]["intercept"]
    assert far.reached == "none"


def test_too_few_averages_are_not_judged() -> None:
    found = epa([make_series(np.arange(24.0), np.arange(24.0))]).devices[0]
    assert (found.values, found.reached, found.certainty) == ({}, "", "")


def test_readings_further_apart_than_an_average_give_none() -> None:
    daily = make_series(np.arange(50.0), np.arange(50.0), step=86400.0)
    assert assess([daily], NO2, EPA) is not None
    assert cen([daily]).devices[0].averages == 0


def test_precision_is_the_spread_of_three_devices_at_one_reference() -> None:
    reference = np.linspace(10, 20, 50)
    no2 = Channel("NO2", "ppb")
    three = [
        make_series(reference, reference + shift, device=name) for name, shift in zip("abc", (-1, 0, 1), strict=True)
    ]
    found = epa(three, no2).together
    assert found is not None
    assert found.values["sd"] == pytest.approx(np.sqrt(100 / 149))
    assert found.values["cv"] == pytest.approx(found.values["sd"] / 15)
    assert found.reached == "target"
    assert epa(three[:2], no2).together is None
    assert epa(three[:2], no2).untested == ("sd", "cv")
    silent = make_series(reference, np.full(50, np.nan), device="d")
    assert epa([silent, *three], no2).together == found
    elsewhere = replace(three[2], reference=reference[::-1])
    assert epa([*three[:2], elsewhere], no2).together is None


def no2_box(seed: int, days: int = 60, noise: float = 10.0, slope: float = 1.0, device: str = "a") -> DeviceSeries:
    """Hours of NO2 in µg/m³ up to about 200, with errors that a day shares."""
    rng = np.random.default_rng(7)
    reference = np.clip(rng.gamma(2.0, 25.0, 24 * days), 1, 250)
    own = np.random.default_rng(seed)
    error = np.repeat(own.normal(0, noise / 2, days), 24) + own.normal(0, noise, 24 * days)
    return make_series(reference, slope * reference + error, device=device)


def test_a_class_is_that_of_the_worst_measure() -> None:
    """Every measure by itself: uncertainty, units side by side, intercept, slope."""
    good = cen([no2_box(1)])
    assert good.devices[0].reached == "class 1"
    assert good.devices[0].certainty == "sure: 100 %"
    assert good.untested == ("between_units",)
    steep = cen([no2_box(1, slope=1.32)]).devices[0]
    assert (steep.reached, steep.met["class 1"]["slope"], steep.met["class 2"]["slope"]) == ("class 2", False, True)
    apart = cen([no2_box(1), no2_box(2, device="b")])
    assert apart.together is not None
    # errors of 10 and 5 (of the day) in each box
    assert apart.together.values["between_units"] == pytest.approx(np.sqrt(125), rel=0.1)
    assert [one.reached for one in apart.devices] == ["class 2", "class 2"]
    assert apart.devices[0].values["between_units"] == apart.together.values["between_units"]


def test_the_uncertainty_is_that_of_the_formula_on_hours() -> None:
    """Minutes are averaged to hours first; u(bs,RM) is subtracted, u(bs,s) added."""
    hourly = [no2_box(1), no2_box(2, device="b")]
    minutes = [
        make_series(np.repeat(one.reference, 60), np.repeat(one.calibrated, 60), 60.0, one.device) for one in hourly
    ]
    for boxes in (hourly, minutes):
        found = cen(boxes, reference="42i")
        result, between = found.devices[0], found.together
        assert between is not None
        x, y = hourly[0].reference, hourly[0].calibrated
        axis = np.linalg.svd(np.stack([x - x.mean(), y - y.mean()], axis=1), full_matrices=False)[2][0]
        slope = axis[1] / axis[0]
        intercept = y.mean() - slope * x.mean()
        variance = np.sum((y - intercept - slope * x) ** 2) / (len(x) - 2)
        part = variance - 1.18**2 + between.values["between_units"] ** 2  # type: ignore[operator]
        expected = 2 * np.sqrt(part + (intercept + (slope - 1) * 200) ** 2) / 200
        assert not result.spread_depends_on_level
        assert result.values["uncertainty"] == pytest.approx(expected, rel=1e-9)
        low, high = result.intervals["uncertainty"]
        assert low < expected < high
        assert found.reference_source.startswith("Thermo 42i")


def test_a_class_that_other_days_could_change_is_uncertain() -> None:
    near = cen([no2_box(1, days=12, noise=14.0)]).devices[0]
    assert len(near.chances) > 1
    assert not near.certain
    assert near.certainty.startswith("uncertain: class")
    few = cen([no2_box(1, days=5)]).devices[0]
    assert (few.chances, few.certainty) == ({}, "uncertain: few days")


def test_a_limit_that_was_not_reached_is_extrapolated() -> None:
    low = no2_box(1)
    low = replace(low, reference=low.reference / 4, calibrated=low.calibrated / 4)
    found = cen([low])
    assert found.beyond(found.devices[0])
    assert not cen([no2_box(1)]).beyond(cen([no2_box(1)]).devices[0])


def test_the_same_boxes_in_ppb_reach_the_same_uncertainty() -> None:
    box = no2_box(1)
    gain = 24.0550 / 46.01
    other = cen([replace(box, reference=gain * box.reference, calibrated=gain * box.calibrated)], Channel("NO2", "ppb"))
    same = cen([box])
    assert other.limit == pytest.approx(200 * gain, rel=1e-4)
    assert other.converted == "from µg/m³ to ppb at 20 °C and 1013 hPa"
    assert other.devices[0].values["uncertainty"] == pytest.approx(same.devices[0].values["uncertainty"], rel=1e-4)
    assert other.devices[0].reached == same.devices[0].reached


def test_eight_hour_values_are_those_of_the_directive_of_2008() -> None:
    ozone = Channel("O3", "ug/m3")
    found = assess([no2_box(1)], ozone, EU)
    assert found is not None
    assert (found.average_hours, found.limit) == (8, 120.0)
    assert found.devices[0].averages == 180
    assert assess([no2_box(1)], PM25, EU) is None


def test_capture_counts_whole_periods_with_enough_of_their_hours() -> None:
    box = no2_box(1, days=10)
    assert Averaging(1, 0.75, True).capture(box) == 1.0
    missing = box.calibrated.copy()
    missing[24:31] = np.nan  # 17 of 24 hours of the second day
    missing[48:54] = np.nan  # 18 of the third
    box = replace(box, calibrated=missing, raw=missing)
    assert Averaging(24, 0.75, True).capture(box) == pytest.approx(0.9)
    assert Averaging(1, 0.75, True).capture(box) == pytest.approx(227 / 240)
    assert uptime(box) == pytest.approx(227 / 240)


def test_an_hour_needs_three_quarters_of_its_minutes_before_a_day_counts_it() -> None:
    times = 60.0 * np.arange(24 * 60)
    keep = (np.arange(24 * 60) % 60) < 44
    values = np.ones((1, int(keep.sum())))
    assert len(Averaging(24, 0.70, True).average(times[keep], values, 60.0)[0]) == 1
    assert len(Averaging(24, 0.75, True).average(times[keep], values, 60.0)[0]) == 0
    sparse = np.arange(24 * 60) < 18.5 * 60  # 18 whole hours and a half
    assert len(Averaging(24, 0.75, True).average(times[sparse], np.ones((1, int(sparse.sum()))), 60.0)[0]) == 1
    half_hours = (np.arange(24 * 60) % 60) < 30
    whole_hours = np.arange(24 * 60) >= 14 * 60
    mixed = half_hours | whole_hours  # 17 of 24 hours' readings, but 10 whole hours
    rows = np.ones((1, int(mixed.sum())))
    assert len(Averaging(24, 0.70, False).average(times[mixed], rows, 60.0)[0]) == 1
    assert len(Averaging(24, 0.70, True).average(times[mixed], rows, 60.0)[0]) == 0
