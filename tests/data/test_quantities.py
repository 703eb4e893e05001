"""What a name means is defined in one table, the same for tables, corrections, sketches and reports."""

import re

import pytest

from scare.calibrator.corrections import CORRECTIONS
from scare.data.quantities import (
    find_quantity,
    guess_unit,
    is_called,
    is_weather,
    quantities,
    quantity,
    spell_unit,
    unit_factor,
)
from scare.errors import UsageError


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("PM2.5", "PM2.5"), ("pm02", "PM2.5"), ("pm_2_5_std", "PM2.5"), ("Ref.PM10", "PM10"), ("5325CAT", "PM2.5")),
        *(("pm1", "PM"), ("pm_raw", "PM"), ("OPCN3PM1", "PM"), ("PM100", "PM"), ("CO(GT)", "CO"), ("CO2", "CO2")),
        *(("NO2_B43F_P1", "NO2"), ("Ref.NO2", "NO2"), ("NOx", None), ("ozone_ppb", "O3"), ("SO2 (ppb)", "SO2")),
        *(("SHT31HE", "RH"), ("SHT31TE", "T"), ("T", "T"), ("Absolute_humidity", "absolute humidity")),
        *(("strain", None), ("wd", "wind"), ("rain_mm", "rain"), ("inRH", "RH")),
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
    assert [name for name in ("NO2", "T", "rh", "press_hPa", "wind", "PM2.5 RH") if is_weather(name)] == [
        *("T", "rh", "press_hPa", "wind")
    ]


def test_a_gas_goes_from_a_mixing_ratio_to_mass_by_its_molar_mass() -> None:
    nitrogen_dioxide = quantity("NO2").molar_mass
    assert unit_factor("ppb", "ug/m3", nitrogen_dioxide) == pytest.approx(1.882, abs=5e-4)
    assert unit_factor("ppm", "mg/m3", nitrogen_dioxide) == pytest.approx(1.882, abs=5e-4)
    assert unit_factor("ppb", "ug/m3", None) is None


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
