"""Messages as devices write them become the numbers they mean; whatever arrives is a reading or is rejected."""

import json
import math
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scare.live.messages import (
    MAX_PAYLOAD,
    Reader,
    Reading,
    RejectedError,
    channel_fields,
    check_device,
    check_time,
    field_value,
    find_adapters,
    parse_json,
    parse_time,
    read_message,
    read_topic,
    topic_level,
)

NOW = 1.8e9
ADAPTERS = find_adapters({})
CHANNELS = ("pm25", "temperature")
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
# Written by us in the shapes that the projects document; the adapters' table has the addresses.
ZIGBEE2MQTT = {"pm25": 9, "voc_index": 120, "temperature": 22, "humidity": 41, "linkquality": 87}
CHIRPSTACK = {
    "deduplicationId": "00000000-0000-4000-8000-000000000001",
    "time": "2026-01-31T12:00:00.775023242+00:00",
    "deviceInfo": {"applicationName": "air", "deviceName": "Roof 1", "devEui": "0a0b0c0d0e0f0001", "tags": {}},
    "fPort": 2,
    "data": "AQI=",
    "object": {"pm2_5": 11.5, "temperatureSensor": {"1": 21.5}},
    "rxInfo": [{"gatewayId": "0a0b0c0d0e0f0002", "rssi": -60, "snr": 7.2}],
}
THE_THINGS_STACK = {
    "end_device_ids": {"device_id": "roof-1", "application_ids": {"application_id": "air"}},
    "received_at": "2026-01-31T12:00:00.470559141Z",
    "uplink_message": {
        "f_port": 2,
        "frm_payload": "AQI=",
        "decoded_payload": {"pm25": 0, "temperature_1": 21.5, "gps_1": {"altitude": 12}},
        "rx_metadata": [{"gateway_ids": {"gateway_id": "gate"}, "rssi": -60, "time": "2026-01-31T11:59:59Z"}],
        "received_at": "2026-01-31T12:00:00.265072191Z",
    },
}
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()


def read(payload: bytes, adapter: str = "json", topic: str = "readings/b") -> Reading | None:
    return Reader(ADAPTERS[adapter], CHANNELS).read(payload, topic, NOW)


def test_a_message_too_large_is_rejected() -> None:
    assert len(parse_json(b'"' + b"a" * (MAX_PAYLOAD - 2) + b'"')) == MAX_PAYLOAD - 2
    with pytest.raises(RejectedError, match="at most 65,536"):
        parse_json(b" " * (MAX_PAYLOAD + 1))


@pytest.mark.parametrize("name", ["", "  ", "a" * 65, "a\n", "a\0b", "a\x7f", "a\u200b", "a\ud800", None, 3, {"a": 1}])
def test_a_bad_device_name_is_rejected(name: object) -> None:
    with pytest.raises(RejectedError, match="is not a device name"):
        check_device(name)


PRINTABLE = st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), min_size=1, max_size=64)


@given(PRINTABLE.filter(str.strip), PRINTABLE.filter(str.strip))
@example("box 1/2", "box 1%2F2")
@example("Küche +1 #2", "<b>")
def test_a_printable_name_is_one_level_of_a_topic_and_comes_back(name: str, other: str) -> None:
    assert check_device(name) == name
    level = topic_level(name)
    assert not set(level) & set("/+#")
    assert unquote(level) == name
    assert (topic_level(other) == level) == (other == name)


@pytest.mark.parametrize("name", ["box-1", "AA:BB:cc-1.x_"])
def test_a_plain_name_stays_as_it_is(name: str) -> None:
    assert topic_level(name) == name


@pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf, 0.0, 9.4e8, 1e300])
def test_an_implausible_time_is_rejected(time: float) -> None:
    with pytest.raises(RejectedError):
        check_time(time)


@pytest.mark.parametrize("time", ["", "noon", "31/01/2026", None, [], True, "2026-13-01", 5, -1e300, "9" * 5000])
def test_what_is_not_a_time_is_rejected(time: object) -> None:
    with pytest.raises(RejectedError, match="is not a time"):
        parse_time(time)


def test_a_time_without_a_zone_is_of_the_inputs_zone() -> None:
    message = b'{"Time": "2026-07-01T12:00:00", "X": {"Temperature": 1}}'
    local = ZoneInfo("Europe/Berlin")
    found = Reader(ADAPTERS["tasmota"], CHANNELS, zone=local).read(message, "tele/a/SENSOR", NOW)
    assert found is not None
    assert found.time == parse_time("2026-07-01T10:00:00Z")


def test_without_a_time_it_is_that_of_the_arrival_and_what_is_missing_is_nan() -> None:
    found = read(b'{"pm25": "3"}')
    assert found is not None
    assert (found.device, found.time, found.values["pm25"]) == ("b", NOW, 3.0)
    assert math.isnan(found.values["temperature"])
    silent = read(b'{"pm25": null}')  # a box whose sensors have all failed
    assert silent is not None
    assert all(map(math.isnan, silent.values.values()))
    with pytest.raises(RejectedError, match="no number for pm25, temperature"):
        read(b'{"dust": 3}')


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
        ("zigbee2mqtt", "zigbee2mqtt/Upper hall", ZIGBEE2MQTT, "Upper hall", None, {"pm25": 9, "humidity": 41}),
        (
            "zigbee2mqtt",
            "zigbee2mqtt/a",
            ZIGBEE2MQTT | {"last_seen": 1000 * NOON},
            "a",
            NOON,
            {"temperature": 22},
        ),
        (
            "chirpstack",
            "application/ec0a/device/0a0b0c0d0e0f0001/event/up",
            CHIRPSTACK,
            "0a0b0c0d0e0f0001",
            NOON + 0.775023,
            {"pm2_5": 11.5, "rssi": math.nan},
        ),
        ("chirpstack", "", CHIRPSTACK, "0a0b0c0d0e0f0001", NOON + 0.775023, {"pm2_5": 11.5}),
        (
            "the-things-stack",
            "v3/air@ttn/devices/roof-1/up",
            THE_THINGS_STACK,
            "roof-1",
            NOON + 0.265072,
            {"pm25": 0, "temperature_1": 21.5},
        ),
        ("the-things-stack", "", THE_THINGS_STACK, "roof-1", NOON + 0.265072, {"temperature_1": 21.5}),
        ("json", "", {"device": "b", "time": NOON, "a/b": 3}, "b", NOON, {"a/b": 3, "c": math.nan}),
    ],
)
def test_a_message_holds_device_time_and_numbers(
    name: str, topic: str, content: Any, device: str, time: float | None, numbers: dict[str, float]
) -> None:
    adapter = ADAPTERS[name]
    found_device, found_time, found_content = read_message(adapter, json.dumps(content).encode(), topic)
    assert found_device == device
    assert (found_time if time is None else parse_time(found_time)) == time
    fields = channel_fields(adapter, {}, numbers)
    found = {name: field_value(fields[name], found_content) for name in numbers}
    assert found == pytest.approx(numbers, nan_ok=True)


def test_an_uplink_that_was_not_decoded_is_rejected_with_the_place_of_its_numbers() -> None:
    undecoded = {key: value for key, value in CHIRPSTACK.items() if key != "object"}
    with pytest.raises(RejectedError, match="no object /object in the message"):
        read(json.dumps(undecoded).encode(), "chirpstack", "application/ec0a/device/x/event/up")


def test_a_path_of_a_channel_begins_where_the_numbers_are() -> None:
    reader = Reader(ADAPTERS["chirpstack"], ["t"], {"t": "/temperatureSensor/1"})
    found = reader.read(json.dumps(CHIRPSTACK).encode(), "", NOW)
    assert found is not None
    assert found.values == {"t": 21.5}


@pytest.mark.parametrize(
    ("topic", "device"),
    [("zigbee2mqtt/attic/air", "attic/air"), ("zigbee2mqtt/attic", None), ("zigbee2mqtt/a/b/c", None)],
)
def test_several_levels_are_one_name_with_slashes(topic: str, device: str | None) -> None:
    adapter = find_adapters({"zigbee2mqtt": {"topic": "zigbee2mqtt/{device}/{device}"}})["zigbee2mqtt"]
    assert read_topic(adapter, topic).get("device") == device


def test_one_number_a_topic_is_an_object_of_one_field() -> None:
    device, _, content = read_message(ADAPTERS["esphome"], b"12.5", "attic/sensor/pm_2_5/state")
    assert (device, content) == ("attic", {"pm_2_5": "12.5"})


def test_a_channel_is_a_field_a_path_or_a_key_of_the_same_name() -> None:
    content = read_message(ADAPTERS["tasmota"], json.dumps(TASMOTA).encode(), "tele/a/SENSOR")[2]
    fields = channel_fields(ADAPTERS["tasmota"], {"raw": "pm25", "dew": "/BME280/DewPoint"}, ["raw", "dew", "pm10"])
    assert {name: field_value(one, content) for name, one in fields.items()} == {"raw": 8, "dew": 8.9, "pm10": 11}


def test_a_config_changes_keys_of_the_table_and_adds_adapters() -> None:
    own = {"tasmota": {"time": "/UTC"}, "mine": {"device": "/id", "fields": {"dust": ["/a", "/b"]}}}
    found = find_adapters(own)
    assert found["tasmota"].time == "/UTC"
    assert found["tasmota"].fields == ADAPTERS["tasmota"].fields
    content = read_message(found["mine"], b'{"id": "x", "a": "1", "b": 4}')[2]
    assert field_value(found["mine"].fields["dust"], content) == 2.5


@pytest.mark.parametrize("payload", [b"", b"[1]", b"3", b"{", b"\xff", b'{"a":' * 40 + b"1" + b"}" * 40, b"[" * 60000])
def test_what_is_not_an_object_is_rejected(payload: bytes) -> None:
    with pytest.raises(RejectedError):
        read_message(ADAPTERS["json"], payload)


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["pm25", "time", "PMS", "x"]), inner),
    max_leaves=8,
)


@given(st.sampled_from(sorted(ADAPTERS)), st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()))
@example("json", b'{"pm25": 1' + b"0" * 5000 + b"}")
@example("esphome", b"\xff\xff")
def test_whatever_arrives_is_a_reading_or_rejected_in_one_line(adapter: str, payload: bytes) -> None:
    topic = ADAPTERS[adapter].topic.replace("{device}", "b").replace("{field}", "pm25")
    try:
        found: Reading | str | None = read(payload, adapter, topic)
    except RejectedError as rejected:
        found = str(rejected)
    if isinstance(found, str):
        assert "\n" not in found
        assert len(found) < 400
    elif found is not None:
        assert found.time <= NOW + 300
        assert not any(map(math.isinf, found.values.values()))
