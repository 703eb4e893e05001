"""Discovery messages use the keys and spellings that its own schemas allow."""

import json
from dataclasses import replace
from typing import Any

import pytest
from jinja2 import Environment

from scare.calibrator.air_index import IndexReading, find_index
from scare.calibrator.intervals import Intervals
from scare.data.flags import Flag
from scare.data.readings import Channel
from scare.live.home_assistant import Discovery, device_config, object_id
from scare.live.pipeline import Result
from tests.calibrator.building import make_calibrator

# of homeassistant 2026.2: components/mqtt/schemas.py, components/mqtt/sensor.py, components/sensor/const.py
DEVICE_DISCOVERY = {"device", "components", "origin", "state_topic", "command_topic", "qos", "encoding", "availability"}
DEVICE = {"identifiers", "connections", "manufacturer", "model", "model_id", "name", "hw_version", "serial_number"} | {
    *("sw_version", "via_device", "suggested_area", "configuration_url"),
}
ORIGIN = {"name", "sw_version", "support_url"}
AVAILABILITY = {"topic", "payload_available", "payload_not_available", "value_template"}
SENSOR = {"platform", "unique_id", "name", "value_template", "device_class", "state_class", "unit_of_measurement"} | {
    *("expire_after", "force_update", "options", "suggested_display_precision", "entity_category", "icon"),
    *("enabled_by_default", "last_reset_value_template", "state_topic", "qos", "encoding", "default_entity_id"),
}
BINARY_SENSOR = SENSOR - {"state_class", "unit_of_measurement", "options", "suggested_display_precision"}
UNITS = {"pm25": {"\u03bcg/m³"}, "pm10": {"\u03bcg/m³"}, "humidity": {"%"}, "temperature": {"°C", "°F", "K"}}


PM25 = find_index("us-aqi", Channel("PM2.5", "ug/m3"))
SURE = replace(make_calibrator(), intervals=Intervals(0.9, (), (4.0,), (6.0,)))


@pytest.mark.parametrize("device", ["box-1", "84:f3:eb", "a.b"])
def test_every_key_is_allowed(device: str) -> None:
    config = device_config(device, "dust", SURE, "scare", PM25, has_sites=True)
    assert config.keys() <= DEVICE_DISCOVERY
    assert {"device", "components", "origin"} <= config.keys()
    assert config["device"].keys() <= DEVICE
    assert config["origin"].keys() <= ORIGIN
    assert all(one.keys() <= AVAILABILITY for one in config["availability"])
    for one in config["components"].values():
        assert one.keys() <= (SENSOR if one["platform"] == "sensor" else BINARY_SENSOR)
        assert {"platform", "unique_id"} <= one.keys()
        assert one.get("unit_of_measurement") in UNITS.get(one.get("device_class"), {one.get("unit_of_measurement")})
        assert one["expire_after"] == 180  # three steps
    assert config["components"]["raw"]["device_class"] == "pm25"
    assert json.loads(json.dumps(config)) == config


def test_a_unit_that_its_class_does_not_have_goes_without_a_class() -> None:
    calibrator = make_calibrator()
    object.__setattr__(calibrator, "target", Channel("NO2", "ppb"))
    config = device_config("a", "gas", calibrator, "scare")["components"]["calibrated"]
    assert config["unit_of_measurement"] == "ppb"
    assert "device_class" not in config


def shown(config: dict[str, Any], result: Result) -> dict[str, str]:
    """What Home Assistant would show of a result: its templates, with the one filter of its own that they use."""
    environment = Environment(autoescape=False)
    environment.filters["bitwise_and"] = lambda first, second: first & second
    message = json.loads(json.dumps(result.as_json()))
    return {
        key: environment.from_string(one["value_template"]).render(value_json=message)
        for key, one in config["components"].items()
    }


def test_the_templates_show_a_result() -> None:
    """Home Assistant takes the word None as unknown."""
    config = device_config("box-1", "dust", SURE, "scare", PM25, has_sites=True)
    index = IndexReading(20.0, 16.0, 24.0, 71, "moderate", {"good": 0.1, "moderate": 0.9})
    origin: dict[str, Any] = {
        "site": "Main Street",
        "product": "pm@3fa2b1c4d5e6",
        "level": "2B",
        "expected_error": 1.4142,
    }
    good = Result("box-1", 0.0, 30.0, 20.0, 16.0, 24.0, int(Flag.GAP), "dust", 0, **origin, index=index)
    assert shown(config, good) == {
        **{"calibrated": "20.0", "low": "16.0", "high": "24.0", "raw": "30.0", "problem": "OFF"},
        **{"flags": "GAP", "watch": "fine", "product": "pm@3fa2b1c4d5e6", "site": "Main Street"},
        **{"index": "71", "index_category": "moderate", "expected_error": "1.41"},
    }
    nothing = shown(config, Result("box-1", 0.0, *[float("nan")] * 4, int(Flag.MISSING), "dust"))
    assert nothing["problem"] == "ON"
    unknown = ("calibrated", "low", "expected_error", "site", "index", "index_category")
    assert {nothing[key] for key in unknown} == {"None"}
    assert nothing["watch"] == "cannot be judged"
    assert shown(config, replace(good, flags=int(Flag.OUTSIDE)))["problem"] == "ON"


def test_a_co_location_has_a_device_of_its_own() -> None:
    (text,) = Discovery("homeassistant", "scare", {}, reference_unit="ug/m3").all().values()
    config = json.loads(text)
    assert config.keys() <= DEVICE_DISCOVERY
    assert config["state_topic"] == "scare/co-location"
    assert all(one.keys() <= SENSOR for one in config["components"].values())
    environment = Environment(autoescape=False)

    def entities(message: dict[str, Any]) -> dict[str, str]:
        return {
            key: environment.from_string(one["value_template"]).render(value_json=message)
            for key, one in config["components"].items()
        }

    conditions = [{"name": "pm25", "share": 0.95}, {"name": "jointly", "share": 0.7125}]
    status = {"advice": "Stop: so.", "stop": True, "days": 9.04, "error": 1.25, "conditions": conditions}
    assert entities(status) == {
        **{"advice": "Stop: so.", "enough": "ON", "days": "9.0", "error": "1.25", "conditions": "71.25"}
    }
    unknown = {"days": "None", "error": "None", "conditions": "None"}
    assert entities({"advice": "x" * 300}) == {"advice": "x" * 255, "enough": "OFF", **unknown}
    assert Discovery("homeassistant", "scare", {}).all() == {}


def test_only_what_there_is_becomes_an_entity() -> None:
    always = {"calibrated", "raw", "problem", "flags", "watch", "product"}
    assert device_config("a", "dust", make_calibrator(), "scare")["components"].keys() == always
    assert device_config("a", "dust", SURE, "scare")["components"].keys() == always | {"low", "high", "expected_error"}
    bands = find_index("eea", Channel("PM2.5", "ug/m3"))  # has no values
    with_bands = device_config("a", "dust", make_calibrator(), "scare", bands)["components"]
    assert with_bands.keys() == always | {"index_category"}
    assert with_bands["index_category"]["options"][0] == "good"


@pytest.mark.parametrize(("half", "digits"), [(40.0, 0), (4.0, 1), (0.05, 3)])
def test_decimals_are_those_that_the_interval_can_tell(half: float, digits: int) -> None:
    calibrator = replace(make_calibrator(), intervals=Intervals(0.9, (), (half,), (2 * half,)))
    shown = device_config("a", "dust", calibrator, "scare")["components"]
    assert [shown[key]["suggested_display_precision"] for key in ("calibrated", "low", "high")] == [digits] * 3


def test_names_that_differ_stay_apart() -> None:
    assert len({object_id(name) for name in ("a.b", "a:b", "a_b")}) == 3


def test_a_device_is_told_once_and_again_with_another_model() -> None:
    discovery = Discovery("homeassistant", "scare", {"pm": make_calibrator(), "gas": make_calibrator()})
    first, again = (discovery.update(Result("a", 0.0, 1.0, 1.0, 0.5, 1.5, 0, "pm")) for _ in range(2))
    assert list(first) == ["homeassistant/device/scare_a/config"]
    assert again == {}
    assert discovery.update(Result("a", 0.0, 1.0, 1.0, 0.5, 1.5, 0, "gas")) != {}
    assert len(discovery.all()) == 1
