"""Every model by every preset, on one channel and on three: a stream of readings is alike in Python and in C."""

from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pytest

from scare.baselines import MODELS
from scare.board.boards import board
from scare.board.certificate import verify_stream
from scare.calibrator.calibrator import Calibrator
from scare.data.readings import Readings
from scare.data.simulate import Simulation, simulate
from scare.errors import NotApplicableError
from scare.export.lowering import Arithmetic
from scare.training.fit import fit
from scare.training.recipe import PRESETS, Recipe
from tests.training.small_fits import NETWORK_STAYS

WINDOW = 15
NANO = board("nano33ble")
FAST = {("scare", "paper", 1, Arithmetic.FIXED), ("scare", "default", 3, Arithmetic.FLOAT32)}


def cases() -> list[Any]:
    every = product(MODELS, PRESETS, (1, 3), Arithmetic)
    return [pytest.param(*case, marks=() if case in FAST else pytest.mark.slow) for case in every]


@cache
def colocation(channels: int) -> list[Readings]:
    boxes = simulate(Simulation(boxes=2, days=1, seed=5))
    return [replace(one, channels=one.channels[:channels]) for one in boxes]


@cache
def trained(name: str, preset: str, channels: int) -> Calibrator:
    """A network after two steps, with the scaling, training range and intervals that a fit adds."""
    recipe = Recipe.preset(preset, WINDOW, name, steps=2, candidates=1)
    return fit(colocation(channels), recipe=replace(recipe, rules=NETWORK_STAYS))


@pytest.mark.parametrize(("name", "preset", "channels", "arithmetic"), cases(), ids=str)
def test_a_stream_is_alike_in_python_and_in_c(name: str, preset: str, channels: int, arithmetic: Arithmetic) -> None:
    calibrator = trained(name, preset, channels)
    assert calibrator.facts["model"] == name
    try:
        streaming = verify_stream(calibrator, NANO, arithmetic)
    except NotApplicableError as reason:
        pytest.skip(str(reason))  # docs/formats.md says which model has which arithmetic, and a test keeps it true
    assert not streaming.reasons
    assert streaming.statuses["ok"] > 100
    assert streaming.flags["OUTSIDE"] > 10
