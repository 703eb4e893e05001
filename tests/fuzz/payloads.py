"""Messages of boxes, changed: each is a reading or one message of why not."""

import json
import math
from functools import cache
from pathlib import Path
from random import Random

from scare.errors import DataError
from scare.live.messages import Reader, RejectedError, find_adapters
from tests.fuzz.mutating import mutate
from tests.fuzz.target import LieError, Target
from tests.live.test_mutated import SEEDS

NOW, CHANNELS = 1.8e9, ("pm25", "temperature")


def make(chance: Random) -> bytes:
    """The adapter's name, and what a box sends."""
    adapter, payload = chance.choice(SEEDS)
    return (
        adapter.encode()
        + b"\n"
        + (_change_values(payload, chance) if chance.random() < 0.3 else mutate(payload, chance))
    )


def _change_values(payload: bytes, chance: Random) -> bytes:
    """A value of another kind."""
    content = json.loads(payload)
    if isinstance(content, dict):
        nasty = (None, True, [], {}, "x", "nan", "1e999", 1e308, -1e308, 10**400, "\ud800", "12,5", [1], {"value": 1})
        content[chance.choice(list(content))] = chance.choice(nasty)
    return json.dumps(content).encode()


@cache
def _readers() -> dict[str, Reader]:
    adapters = find_adapters({})
    return {name: Reader(adapters[name], CHANNELS) for name, _ in SEEDS}


def use(path: Path) -> None:
    """Read it as the gateway does."""
    adapter, _, payload = path.read_bytes().partition(b"\n")
    name = adapter.decode()
    topic = find_adapters({})[name].topic.replace("{device}", "b").replace("{field}", "pm25")
    try:
        reading = _readers()[name].read(payload, topic, NOW)
    except RejectedError as refused:
        raise DataError(str(refused)) from refused
    if reading is not None and not math.isfinite(reading.time):
        raise LieError("a reading of no time")


TARGET = Target("payloads", ".txt", make, use)
