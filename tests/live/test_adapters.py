"""Messages as devices write them become the numbers they mean."""

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest

from scare.live.messages import RejectedError, channel_fields, field_value, find_adapters, parse_time, read_message

ADAPTERS = find_adapters({})
TASMOTA = {
    "Time": "2026-01-31T12:00:00",
    "PMS5003": {"CF1": 5, "CF2.5": 9, "CF10": 11, "PM1": 5, "PM2.5": 8, "PM10": 11, "PB0.3": 1260},
    "BME280": {"Temperature": 21.3, "Humidity": 45.1, "DewPoint": 8.9, "Pressure": 1013.2},
    "TempUnit": "C",
}
SENSOR_COMMUNITY = {
    "esp8266id": "12345678",
    "software_version": "NRZ-2020-133",
    "sensordatavalues": [
        {"value_type": "SDS_P1", "value": "14.35"},
        {"value_type": "SDS_P2", "value": "7.10"},
        {"value_type": "BME280_temperature", "value": "21.40"},
        {"value_type": "BME280_pressure", "value": "101325.00"},
        {"value_type": "BME280_humidity", "value": "40.20"},
        {"value_type": "signal", "value": "-62"},
    ],
}
PURPLEAIR = {
    "SensorId": "84:f3:eb:7b:c8:ee",
    "DateTime": "2026/01/31T12:00:00z",
    "current_temp_f": 77,
    "current_humidity": 29,
    "pressure": 1002.5,
    "pm2_5_cf_1": 9.0,
    "pm2_5_atm": 8.0,
    "pm2_5_cf_1_b": 11.0,
    "pm2_5_atm_b": 10.0,
}
AIRGRADIENT = {"wifi": -46, "serialno": "ecda3b1eaaaf", "pm02": 7, "pm10": 8, "atmp": 25.87, "rhum": 43, "rco2": 447}
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("name", "topic", "content", "device", "time", "numbers"),
    [
        (
            "tasmota",
            "tele/attic/SENSOR",
            TASMOTA,
            "attic",
            NOON,
            {"pm25": 8, "pm25_cf1": 9, "temperature": 21.3, "pressure": 1013.2},
        ),
        (
            "sensor-community",
            "",
            SENSOR_COMMUNITY,
            "12345678",
            None,
            {"pm25": 7.1, "pm10": 14.35, "temperature": 21.4, "humidity": 40.2, "pressure": 1013.25, "pm1": math.nan},
        ),
        (
            "purpleair",
            "",
            PURPLEAIR,
            "84:f3:eb:7b:c8:ee",
            NOON,
            {"pm25_cf1": 10, "pm25_cf1_a": 9, "pm25_atm": 9, "pm25_atm_b": 10, "temperature": 25, "humidity": 29},
        ),
        ("airgradient", "", AIRGRADIENT, "ecda3b1eaaaf", None, {"pm25": 7, "temperature": 25.87, "co2": 447}),
        ("airgradient", "airgradient/readings/x1", AIRGRADIENT, "x1", None, {"pm25": 7}),
        ("json", "", {"device": "b", "time": NOON, "a/b": 3}, "b", NOON, {"a/b": 3, "c": math.nan}),
    ],
)
def test_a_message_holds_device_time_and_numbers(
    name: str, topic: str, content: Any, device: str, time: float | None, numbers: dict[str, float]
) -> None:
    adapter = ADAPTERS[name]
    message = read_message(adapter, json.dumps(content).encode(), topic)
    assert message.device == device
    assert (message.time if time is None else parse_time(message.time)) == time
    fields = channel_fields(adapter, {}, numbers)
    found = {name: field_value(fields[name], message.content) for name in numbers}
    assert found == pytest.approx(numbers, nan_ok=True)


def test_one_number_a_topic_is_an_object_of_one_field() -> None:
    message = read_message(ADAPTERS["esphome"], b"12.5", "attic/sensor/pm_2_5/state")
    assert (message.device, message.content) == ("attic", {"pm_2_5": "12.5"})


def test_a_channel_is_a_field_a_place_or_a_key_of_the_same_name() -> None:
    content = read_message(ADAPTERS["tasmota"], json.dumps(TASMOTA).encode(), "tele/a/SENSOR").content
    fields = channel_fields(ADAPTERS["tasmota"], {"raw": "pm25", "dew": "/BME280/DewPoint"}, ["raw", "dew", "pm10"])
    assert {name: field_value(one, content) for name, one in fields.items()} == {"raw": 8, "dew": 8.9, "pm10": 11}


def test_a_config_changes_keys_of_the_table_and_adds_adapters() -> None:
    own = {"tasmota": {"time": "/UTC"}, "mine": {"device": "/id", "fields": {"dust": ["/a", "/b"]}}}
    found = find_adapters(own)
    assert found["tasmota"].time == "/UTC"
    assert found["tasmota"].fields == ADAPTERS["tasmota"].fields
    content = read_message(found["mine"], b'{"id": "x", "a": "1", "b": 4}').content
    assert field_value(found["mine"].fields["dust"], content) == 2.5


@pytest.mark.parametrize("payload", [b"", b"[1]", b"3", b"{", b"\xff", b'{"a":' * 40 + b"1" + b"}" * 40, b"[" * 60000])
def test_what_is_no_object_is_refused(payload: bytes) -> None:
    with pytest.raises(RejectedError):
        read_message(ADAPTERS["json"], payload)
