"""A hundred thousand messages tampered with: each is a reading or one message of why not, and memory stays flat."""

import json
import resource
from pathlib import Path

import numpy as np
import pytest

from scare.live.http import parse_body, unpack
from scare.live.messages import Reader, Reading, RejectedError, find_adapters
from tests.live.test_messages import AIRGRADIENT, PURPLEAIR, SENSOR_COMMUNITY, TASMOTA

pytestmark = pytest.mark.slow
MESSAGES, NOW = 100_000, 1.8e9
CHANNELS = ("pm25", "temperature")
ADAPTERS = find_adapters({})
SEEDS = [
    ("tasmota", json.dumps(TASMOTA).encode()),
    ("sensor-community", json.dumps(SENSOR_COMMUNITY).encode()),
    ("purpleair", json.dumps(PURPLEAIR).encode()),
    ("airgradient", json.dumps(AIRGRADIENT).encode()),
    ("json", b'{"device": "b", "time": 1.79e9, "pm25": 3, "temperature": "4.5"}'),
    ("esphome", b"12.5"),
]
PIECES = [
    b"[",
    b"{",
    b'"',
    b"\\u0000",
    b"NaN",
    b"1e999",
    b"-",
    b"null",
    b"\xff\xfe",
    b"9" * 400,
    b"[" * 300,
    b'{"a":' * 50,
]


def mutate(payload: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes changed, left out, doubled, or something nasty put between."""
    found = bytearray(payload)
    for _ in range(rng.integers(1, 6)):
        at = int(rng.integers(len(found) + 1))
        kind = rng.integers(4)
        if kind == 0 and at < len(found):
            found[at] = int(rng.integers(256))
        elif kind == 1:
            del found[at : at + int(rng.integers(1, 20))]
        elif kind == 2:
            found[at:at] = found[at : at + int(rng.integers(1, 40))]
        else:
            found[at:at] = PIECES[rng.integers(len(PIECES))]
    return bytes(found)


def read(adapter: str, payload: bytes, readers: dict[str, Reader]) -> Reading | str | None:
    topic = ADAPTERS[adapter].topic.replace("{device}", "b").replace("{field}", "pm25")
    try:
        return readers[adapter].read(payload, topic, NOW)
    except RejectedError as refused:
        return str(refused)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux would run it")
def test_a_hundred_thousand_mutated_payloads() -> None:
    rng = np.random.default_rng(15)
    readers = {name: Reader(ADAPTERS[name], CHANNELS) for name, _ in SEEDS}
    readings, rejections, before = 0, 0, 0
    for number in range(MESSAGES):
        adapter, seed = SEEDS[number % len(SEEDS)]
        payload = mutate(seed, rng)
        found = read(adapter, payload, readers)
        if isinstance(found, str):
            rejections += 1
            assert "\n" not in found
            assert len(found) < 500
        elif found is not None:
            readings += 1
            assert np.isfinite(found.time)  # the pipeline judges whether it is ahead
            assert all(isinstance(value, float) for value in found.values.values())
        if number % 5 == 0 and adapter != "esphome":
            parse_body(payload, ("text/csv", "application/json")[number % 2], readers[adapter], NOW)
        if number % 97 == 0:
            with pytest.raises(RejectedError):
                unpack(payload, "gzip")
        if number == MESSAGES // 5:
            before = resident()
    assert readings > MESSAGES // 100
    assert rejections > MESSAGES // 100
    assert resident() - before < 5e6
