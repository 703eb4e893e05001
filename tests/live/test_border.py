"""What may come in: sizes, names, times; whatever comes is a reading or one sentence."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scare.live.config import Input
from scare.live.messages import (
    LARGEST_PAYLOAD,
    Reading,
    RejectedError,
    check_device,
    check_time,
    find_adapters,
    parse_json,
    parse_time,
)
from scare.live.reader import Assembly, Reader

NOW = 1.8e9
ADAPTERS = find_adapters({})
CHANNELS = ("pm25", "temperature")


def read(payload: bytes, adapter: str = "json", topic: str = "readings/b") -> Reading | None:
    return Reader(ADAPTERS[adapter], Input(adapter), CHANNELS).read(payload, topic, NOW)


def test_a_message_too_large_is_refused() -> None:
    assert len(parse_json(b'"' + b"a" * (LARGEST_PAYLOAD - 2) + b'"')) == LARGEST_PAYLOAD - 2
    with pytest.raises(RejectedError, match="at most 65,536"):
        parse_json(b" " * (LARGEST_PAYLOAD + 1))


@pytest.mark.parametrize("name", ["", "a" * 65, "a b", "a/b", "<b>", "é", "a\n", None, 3, {"a": 1}])
def test_a_name_that_is_none_is_refused(name: object) -> None:
    with pytest.raises(RejectedError, match="no name of a device"):
        check_device(name)


@pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf, 0.0, 9.4e8, NOW + 301, 1e300])
def test_a_time_nobody_can_believe_is_refused(time: float) -> None:
    with pytest.raises(RejectedError):
        check_time(time, NOW)


@pytest.mark.parametrize("time", ["", "noon", "31/01/2026", None, [], True, "2026-13-01", 5, -1e300, "9" * 5000])
def test_what_is_no_time_is_refused(time: object) -> None:
    with pytest.raises(RejectedError, match="is not a time"):
        parse_time(time)


def test_a_time_without_a_zone_is_of_the_inputs_zone() -> None:
    message = b'{"Time": "2026-07-01T12:00:00", "X": {"Temperature": 1}}'
    local = Input("tasmota", time_zone="Europe/Berlin")
    found = Reader(ADAPTERS["tasmota"], local, CHANNELS).read(message, "tele/a/SENSOR", NOW)
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


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["pm25", "time", "PMS", "x"]), inner),
    max_leaves=8,
)


@given(st.sampled_from(sorted(ADAPTERS)), st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()))
@example("json", b'{"pm25": 1' + b"0" * 5000 + b"}")
@example("esphome", b"\xff\xff")
def test_whatever_comes_is_a_reading_or_one_sentence(adapter: str, payload: bytes) -> None:
    topic = ADAPTERS[adapter].topic.replace("{device}", "b").replace("{field}", "pm25")
    try:
        found: Reading | str | None = read(payload, adapter, topic)
    except RejectedError as refused:
        found = str(refused)
    if isinstance(found, str):
        assert "\n" not in found
        assert len(found) < 400
    elif found is not None:
        assert found.time <= NOW + 300
        assert not any(map(math.isinf, found.values.values()))


def part(device: str, time: float, **values: float) -> Reading:
    return Reading(device, time, values)


def test_numbers_that_come_one_by_one_become_a_row_when_all_are_there() -> None:
    assembly, done = Assembly(lambda _: (frozenset(CHANNELS), 60.0)), []
    assert assembly.take(part("a", 0.0, pm25=1.0), lambda: done.append(1)) == []
    assert assembly.take(part("b", 1.0, pm25=9.0), lambda: done.append(9)) == []
    ((reading, tokens),) = assembly.take(part("a", 2.0, temperature=2.0), lambda: done.append(2))
    assert reading == Reading("a", 0.0, {"pm25": 1.0, "temperature": 2.0})
    for token in tokens:
        token()
    assert done == [1, 2]


def test_a_row_waits_half_a_step_and_goes_without_what_is_missing() -> None:
    assembly = Assembly(lambda _: (frozenset(CHANNELS), 60.0))
    assert assembly.take(part("a", 0.0, pm25=1.0), print) == []
    assert assembly.due(30.0) == []
    ((reading, _),) = assembly.due(30.5)
    assert (reading.values["pm25"], math.isnan(reading.values["temperature"])) == (1.0, True)
    assert assembly.due(100.0) == []
    assembly.take(part("a", 100.0, pm25=1.0), print)
    assembly.take(part("a", 110.0, pm25=3.0), print)  # the newer one counts
    ((late, _),) = assembly.take(part("a", 160.0, pm25=2.0), print)
    assert replace(late, values={"pm25": late.values["pm25"]}) == part("a", 100.0, pm25=3.0)
