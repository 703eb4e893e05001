"""Discovery messages use the keys and spellings that its own schemas allow."""

import json

import pytest

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
UNITS = {"pm25": {"\u03bcg/m³"}, "pm10": {"\u03bcg/m³"}, "humidity": {"%"}, "temperature": {"°C", "°F", "K"}}


@pytest.mark.parametrize("device", ["box-1", "84:f3:eb", "a.b"])
def test_every_key_is_allowed(device: str) -> None:
    config = device_config(device, "dust", make_calibrator(), "scare")
    assert config.keys() <= DEVICE_DISCOVERY
    assert {"device", "components", "origin"} <= config.keys()
    assert config["device"].keys() <= DEVICE
    assert config["origin"].keys() <= ORIGIN
    assert all(one.keys() <= AVAILABILITY for one in config["availability"])
    for one in config["components"].values():
        assert one.keys() <= SENSOR
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


def test_names_that_differ_stay_apart() -> None:
    assert len({object_id(name) for name in ("a.b", "a:b", "a_b")}) == 3


def test_a_device_is_told_once_and_again_with_another_model() -> None:
    discovery = Discovery("homeassistant", "scare", {"pm": make_calibrator(), "gas": make_calibrator()})
    first, again = (discovery.update(Result("a", 0.0, 1.0, 1.0, 0.5, 1.5, 0, "pm")) for _ in range(2))
    assert list(first) == ["homeassistant/device/scare_a/config"]
    assert again == {}
    assert discovery.update(Result("a", 0.0, 1.0, 1.0, 0.5, 1.5, 0, "gas")) != {}
    assert len(discovery.all()) == 1
