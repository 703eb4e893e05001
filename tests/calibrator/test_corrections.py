"""Published corrections: their worked vectors, the mistakes seen in the field, and what binds them to a user's file."""

from pathlib import Path

import numpy as np
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import (
    ALL_VERSIONS,
    CORRECTIONS,
    Correction,
    Growth,
    bind,
    find_channels,
    find_correction,
    page,
)
from scare.calibrator.cost import count
from scare.calibrator.plan import run
from scare.data.flags import Flag
from scare.data.readings import Channel
from scare.errors import NotApplicableError, UsageError
from tests.calibrator.building import make_readings

PAGE = Path(__file__).parents[2] / "docs" / "corrections.md"
PM, RH = Channel("pm2.5", "ug/m3"), Channel("RH", "%")
AIRNOW = CORRECTIONS["airnow-2021"]
every_correction = pytest.mark.parametrize("correction", ALL_VERSIONS.values(), ids=ALL_VERSIONS)


def bound(correction: Correction) -> Calibrator:
    return bind(correction, {"pm": PM, "humidity": RH}, 60.0)


def corrected(correction: Correction, pm: np.ndarray | float, humidity: np.ndarray | float) -> np.ndarray:
    """What the correction makes of readings, in float64: [n]."""
    rows = np.column_stack(np.broadcast_arrays(np.atleast_1d(pm), humidity)).astype(float)
    return run(bound(correction).plan.astype(np.float64), rows[:, None])


def airnow_by_hand(pm: float, humidity: float) -> float:
    """The form of EPA's slide, band by band."""
    low, high = pm / 20 - 3 / 2, pm / 50 - 21 / 5
    if pm < 30:
        return 0.524 * pm - 0.0862 * humidity + 5.75
    if pm < 50:
        return (0.786 * low + 0.524 * (1 - low)) * pm - 0.0862 * humidity + 5.75
    if pm < 210:
        return 0.786 * pm - 0.0862 * humidity + 5.75
    if pm < 260:
        slope = 0.69 * high + 0.786 * (1 - high)
        rest = 2.966 * high + 5.75 * (1 - high) + 8.84e-4 * pm**2 * high
        return slope * pm - 0.0862 * humidity * (1 - high) + rest
    return 2.966 + 0.69 * pm + 8.84e-4 * pm**2


@every_correction
def test_the_worked_vectors_come_out(correction: Correction) -> None:
    expected = [vector["expected"] for vector in correction.vectors]
    pm, humidity = ([vector[role] for vector in correction.vectors] for role in ("pm", "humidity"))
    np.testing.assert_allclose(corrected(correction, np.array(pm), np.array(humidity)), expected, rtol=1e-6)
    np.testing.assert_allclose(bound(correction).golden.numbers, expected, rtol=1e-5)


@every_correction
def test_an_entry_says_where_it_comes_from_and_keeps_its_vectors_in_range(correction: Correction) -> None:
    assert correction.source
    assert correction.certainty
    assert correction.doi.startswith("10.") or "cfpub.epa.gov" in correction.source
    assert [role.name for role in correction.roles] == ["pm", "humidity"]
    for vector in correction.vectors:
        for role in correction.roles:
            assert role.low <= vector[role.name] <= role.high


def test_the_bands_are_those_of_the_slide() -> None:
    rng = np.random.default_rng(0)
    pm, humidity = rng.uniform(0, 1000, 500), rng.uniform(0, 100, 500)
    pm[:60] = np.repeat([29.999, 30, 49.999, 50, 209.999, 210, 259.999, 260, 31, 240, 0, 1000], 5)
    expected = [airnow_by_hand(*pair) for pair in zip(pm, humidity, strict=True)]
    np.testing.assert_allclose(corrected(AIRNOW, pm, humidity), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("edge", [30.0, 50.0, 210.0, 260.0])
@pytest.mark.parametrize("humidity", [0.0, 50.0, 100.0])
def test_the_bands_meet_at_their_edges(edge: float, humidity: float) -> None:
    below, at = corrected(AIRNOW, np.array([np.nextafter(edge, 0), edge]), humidity)
    assert at == pytest.approx(below, abs=1e-4)


def test_the_steps_of_the_correction_for_extreme_smoke_are_the_published_ones() -> None:
    pm = np.array([569.999, 570, 610.999, 611])
    before, low, high, after = corrected(CORRECTIONS["barkjohn-2022"], pm, 50.0)
    assert low - before == pytest.approx(0.008 * (363.6629 - 300.12), abs=0.01)
    assert after - high == pytest.approx(-0.0084 * (400.1202 - 321.604), abs=0.01)


def test_integer_division_in_the_band_weights_is_a_mistake() -> None:
    wrong = (0.786 * (35 / 20 - 3 // 2) + 0.524 * (1 - (35 / 20 - 3 // 2))) * 35 - 0.0862 * 50 + 5.75
    assert wrong == pytest.approx(26.6575)
    assert corrected(AIRNOW, 35.0, 50.0)[0] == pytest.approx(22.0725)
    jump = (0.786 * 0.5 + 0.524 * 0.5) * 30 - 0.524 * 30  # the weight is one half too large at 30
    assert jump == pytest.approx(3.93)


def test_a_missing_square_is_a_mistake() -> None:
    wrong = 2.966 + 0.69 * 400 + 8.84e-4 * 400
    assert wrong == pytest.approx(279.3196)
    assert corrected(AIRNOW, 400.0, 50.0)[0] == pytest.approx(420.406)


def test_a_power_of_the_wrong_base_is_a_mistake() -> None:
    wrong = 2.966 + 0.69 * 400 + 8.8410**-4 * 400**2
    assert wrong == pytest.approx(305.15, abs=0.01)
    assert corrected(AIRNOW, 400.0, 50.0)[0] == pytest.approx(420.406)


def test_corrected_humidity_is_another_number_and_is_not_taken_for_the_raw_one() -> None:
    raw, warmed = 50.0, 1.259 * 50.0 + 7.34  # what a firmware makes of its raw humidity
    wrong = 0.524 * 20 - 0.0862 * warmed + 5.75
    assert wrong == pytest.approx(10.171002)
    assert corrected(AIRNOW, 20.0, raw)[0] == pytest.approx(11.92)
    channels = [PM, Channel("humidity_corrected", "%"), Channel("humidity", "%")]
    assert find_channels(AIRNOW, channels)["humidity"].name == "humidity"
    with pytest.raises(NotApplicableError, match=r"needs relative humidity .* not corrected; humidity_corr"):
        find_channels(AIRNOW, channels[:2])


def test_the_fields_of_a_laser_counter_are_told_apart() -> None:
    both = [Channel("pm2.5_cf_1"), Channel("pm2.5_atm"), Channel("humidity_a")]
    assert find_channels(AIRNOW, both)["pm"].name == "pm2.5_atm"
    assert find_channels(CORRECTIONS["barkjohn-2021"], both)["pm"].name == "pm2.5_cf_1"
    with pytest.raises(NotApplicableError, match=r"CF = 1; pm2.5_atm is another field"):
        find_channels(CORRECTIONS["barkjohn-2021"], both[1:])
    assert find_channels(CORRECTIONS["barkjohn-2021"], [Channel("PM2_5"), RH])["pm"].name == "PM2_5"


def test_the_coefficients_that_circulate_differ_by_less_than_a_tenth() -> None:
    pm, humidity = np.meshgrid(np.linspace(0, 500, 11), np.linspace(0, 100, 11))
    one, other = (CORRECTIONS[name] for name in ("barkjohn-2021", "barkjohn-2021-sensortoolkit"))
    difference = corrected(other, pm.ravel(), humidity.ravel()) - corrected(one, pm.ravel(), humidity.ravel())
    np.testing.assert_allclose(difference, 0.001 * humidity.ravel() - 0.03, atol=1e-5)


def test_growth_in_humid_air_is_what_the_formula_says() -> None:
    humidity = np.linspace(1, 95, 95)
    growth = 1 + (0.4 / 1.65) / (-1 + 1 / (humidity / 100))
    for name in ("kappa-koehler-pm25", "kappa-koehler-pm10"):
        np.testing.assert_allclose(corrected(CORRECTIONS[name], 50.0, humidity), 50 / growth, rtol=1e-5)
    limited = 1 + 0.24 / (100 / np.clip(humidity, 30, 70) - 1)
    np.testing.assert_allclose(corrected(CORRECTIONS["nilson-2022"], 50.0, humidity), 50 / limited, rtol=1e-5)


def test_a_missing_number_gives_none_and_one_out_of_range_is_flagged() -> None:
    values = np.array([[20.0, 50.0], [np.nan, 50.0], [20.0, np.nan], [1200.0, 50.0], [20.0, 101.0], [-3.0, 50.0]])
    readings = make_readings(60.0 * np.arange(6), values, (PM, RH))
    table = bound(AIRNOW).predict(readings)
    assert table["calibrated"].is_null().to_list() == [False, True, True, True, True, True]
    ranged = [bool(flags & Flag.RANGE) for flags in table["flags"]]
    assert ranged == [False, False, False, True, True, True]
    assert np.isnan(run(bound(AIRNOW).plan, np.array([[[np.nan, 50.0]], [[400.0, np.nan]]], np.float32))).all()


def test_a_narrower_range_of_the_user_stays() -> None:
    calibrator = bind(AIRNOW, {"pm": Channel("pm", "ug/m3", 1.0, 90.0), "humidity": RH}, 60.0)
    assert (calibrator.inputs.channels[0].low, calibrator.inputs.channels[0].high) == (1.0, 90.0)
    assert (calibrator.inputs.channels[1].low, calibrator.inputs.channels[1].high) == (0.0, 100.0)


@every_correction
def test_a_correction_is_saved_and_lives_like_any_calibrator(correction: Correction, tmp_path: Path) -> None:
    calibrator = bound(correction)
    again = Calibrator.load(calibrator.save(tmp_path / "correction.scare"))
    rows = np.column_stack([np.linspace(0, 1000, 40), np.linspace(0, 100, 40)])
    readings = make_readings(60.0 * np.arange(40), rows, (PM, RH))
    once, twice = (one.predict(readings)["calibrated"] for one in (calibrator, again))
    assert once.to_list() == twice.to_list()
    live = again.live()
    values = [live.push(60.0 * i, row)[0] for i, row in enumerate(rows)]
    np.testing.assert_allclose(values, once.fill_null(np.nan).to_numpy(), rtol=1e-6)
    assert again.facts["model"] == correction.name
    assert calibrator.facts["bytes"] == count(calibrator.plan).weight_bytes


@pytest.mark.parametrize("ends", [{"low": 30.0}, {"high": 70.0}])
def test_humidity_is_clamped_at_both_ends_or_at_neither(ends: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="give low and high"):
        Growth(kappa=0.4, **ends)


def test_a_channel_in_another_unit_is_refused() -> None:
    with pytest.raises(NotApplicableError, match=r"is in ug/m3, but dust is in mg/m3"):
        bind(AIRNOW, {"pm": Channel("dust", "mg/m3"), "humidity": RH}, 60.0)
    with pytest.raises(NotApplicableError, match=r"is in ug/m3, but no2 is in ppb"):
        bind(AIRNOW, {"pm": PM, "humidity": RH}, 60.0, Channel("no2", "ppb"))
    spelled = bind(AIRNOW, {"pm": Channel("dust", "µg/m³"), "humidity": Channel("h", "% RH")}, 60.0)
    assert [channel.unit for channel in spelled.inputs.channels] == ["ug/m3", "%"]
    assert [channel.name for channel in spelled.inputs.channels] == ["dust", "h"]


def test_a_role_without_a_channel_says_what_it_needs() -> None:
    with pytest.raises(NotApplicableError, match=r"^needs RH: no channel has such a name; the channels are pm2.5, abs"):
        find_channels(CORRECTIONS["kappa-koehler-pm25"], [PM, Channel("absorption")])
    with pytest.raises(NotApplicableError, match=r"^needs PM10"):
        find_channels(CORRECTIONS["kappa-koehler-pm10"], [PM, RH])
    with pytest.raises(NotApplicableError, match="needs RH: no channel is given for the role 'humidity'"):
        bind(AIRNOW, {"pm": PM}, 60.0)


def test_a_correction_is_found_by_name_and_version() -> None:
    assert find_correction("airnow-2021") is find_correction("airnow-2021@1")
    with pytest.raises(UsageError, match=r"did you mean 'airnow-2021'"):
        find_correction("airnow2021")


def test_the_page_is_the_one_made_from_the_registry() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
