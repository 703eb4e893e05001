"""What a name means is defined in one table, the same for tables, corrections, sketches and reports."""

import re

import pytest

from scare.calibrator.corrections import CORRECTIONS
from scare.data.quantities import (
    conversion,
    find_quantity,
    find_unit,
    guess_unit,
    is_called,
    quantities,
    quantity,
    spell_unit,
)
from scare.errors import UsageError


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("PM2.5", "PM2.5"), ("pm02", "PM2.5"), ("pm_2_5_std", "PM2.5"), ("Ref.PM10", "PM10"), ("5325CAT", "PM2.5")),
        *(("pm1", "PM"), ("pm_raw", "PM"), ("OPCN3PM1", "PM"), ("PM100", "PM"), ("CO(GT)", "CO"), ("CO2", "CO2")),
        *(("NO2_B43F_P1", "NO2"), ("Ref.NO2", "NO2"), ("NOx", "NOx"), ("ozone_ppb", "O3"), ("SO2 (ppb)", "SO2")),
        *(("SHT31HE", "RH"), ("SHT31TE", "T"), ("T", "T"), ("Absolute_humidity", "absolute humidity")),
        *(("strain", None), ("wd", "wind"), ("rain_mm", "rain"), ("inRH", "RH")),
        *(("OX_A431_P1", "OX"), ("NO_B4_P1", "NO"), ("Nitrogen dioxide", "NO2"), ("PM₂,₅", "PM2.5"), ("PM 10", "PM10")),
        *((">=0.3um/dl", "particle count"), ("0.5_um_count", "particle count"), ("PM-2.5 MC", "PM2.5")),
    ],
)
def test_a_name_means_one_quantity(name: str, meant: str | None) -> None:
    found = find_quantity(name)
    assert (found and found.name) == meant


def test_particles_of_a_size_not_told_may_be_either() -> None:
    assert [one for one in ("PM2.5", "PM10", "RH") if is_called("pm_reference", one)] == ["PM2.5", "PM10"]


def test_a_stated_unit_comes_before_a_usual_one() -> None:
    assert (guess_unit("PM2.5 [mg/m3]"), guess_unit("temp"), guess_unit("co2"), guess_unit("O3")) == (
        *("mg/m3", "degC", "ppm"),
        "",
    )


def test_weather_is_told_from_what_is_calibrated() -> None:
    found = {name: find_quantity(name) for name in ("NO2", "T", "rh", "press_hPa", "wind", "PM2.5 RH", "Ref.NO2 at T")}
    weather = [name for name, quantity in found.items() if quantity and quantity.family == "weather"]
    assert weather == ["T", "rh", "press_hPa", "wind"]


def test_a_gas_goes_between_a_mixing_ratio_and_mass_by_its_molar_mass_and_the_standard_temperature() -> None:
    # DEFRA's factors at 20 degC, EPA's at 25 degC: 1 ppb of NO2 is 1.9125 and 1.88 ug/m3, of ozone 1.9957 and 1.96.
    factors = {("NO2", 20.0): 1.9125, ("NO2", 25.0): 1.88, ("O3", 20.0): 1.9957, ("O3", 25.0): 1.96}
    for (name, temperature), factor in factors.items():
        there = conversion("ppb", "ug/m3", quantity(name).molar_mass, temperature)
        back = conversion("ug/m3", "ppb", quantity(name).molar_mass, temperature)
        assert there is not None
        assert back is not None
        assert there.gain == pytest.approx(factor, rel=2e-3)
        assert there.gain * back.gain == pytest.approx(1)
    assert conversion("ppb", "ug/m3") is None
    assert conversion("ppb", "nA", 46.01) is None


@pytest.mark.parametrize(
    ("value", "unit", "same", "other"),
    [
        *((32.0, "degF", 0.0, "degC"), (-40.0, "degF", -40.0, "degC"), (293.15, "K", 20.0, "degC")),
        *((29.9213, "inHg", 1013.25, "hPa"), (101.325, "kPa", 1013.25, "hPa"), (760.0, "mmHg", 1013.25, "hPa")),
        *((0.05, "mg/m3", 50.0, "µg/m³"), (0.031, "ppm", 31.0, "ppb"), (0.55, "fraction", 55.0, "% RH")),
    ],
)
def test_units_of_one_dimension_convert_both_ways(value: float, unit: str, same: float, other: str) -> None:
    there, back = conversion(unit, other), conversion(other, unit)
    assert there is not None
    assert back is not None
    assert there.apply(value) == pytest.approx(same, abs=1e-2)
    assert back.apply(there.apply(value)) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        *(("Micrograms/cubic meter (LC)", "ug/m3"), ("microgram per cubic meter", "ug/m3"), ("UG/M3", "ug/m3")),
        *(("V ugm-3", "ug/m3"), ("ug/m3 LC", "ug/m3"), ("mg/m^3", "mg/m3"), ("Parts per billion", "ppb")),
        *(("Temperature_F", "degF"), ("temp_f", "degF"), ("fahrenheit", "degF"), ("Temp, °C (LGR S/N 1)", "degC")),
        *(("Barometer (in Hg)", "inHg"), ("pressure_mbar", "hPa"), ("Pressure(Pa)", "Pa"), ("%RH", "%"), ("PM2.5", "")),
    ],
)
def test_a_text_states_its_unit(text: str, unit: str) -> None:
    assert find_unit(text) == unit


def test_a_temperature_of_64_to_108_is_not_in_celsius() -> None:
    temperature = quantity("T")
    assert [temperature.usual_unit(high) for high in (35.0, 101.0, 301.0, 5000.0)] == ["degC", "degF", "K", ""]
    assert quantity("PM2.5").usual_unit(0.08) == "mg/m3"  # a DustTrak or E-BAM
    assert quantity("RH").usual_unit(0.98) == "fraction"


def test_an_unknown_quantity_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=re.escape("no quantity is called 'PM25'; did you mean 'PM2.5'?")):
        quantity("PM25")


def test_every_quantity_is_known_by_its_own_unit() -> None:
    for one in quantities().values():
        assert one.low < one.high
        if one.unit and one.device_class:
            assert spell_unit(one.unit) == one.unit.lower()
    roles = [role for correction in CORRECTIONS.values() for role in correction.roles]
    assert {role.unit for role in roles} == {"ug/m3", "%"}
