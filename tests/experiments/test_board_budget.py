"""The largest window that fits a board is the largest: it fits, and one reading more does not."""

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.baselines import DLinear
from scare.board.boards import board
from scare.board.measure import measure_once
from scare.calibrator.calibrator import Calibrator
from scare.experiments.board_budget import largest, largest_window
from scare.experiments.random_weights import draw_method
from scare.export.compiled import compile_calibrator

UNO = board("uno")


def dlinear(window: int) -> Calibrator:
    """DLinear of one channel; its file tells the architecture."""
    return draw_method("dlinear", window).with_facts(model="dlinear", architecture=asdict(DLinear.default()))


@pytest.mark.slow
def test_the_largest_window_fits_and_one_more_does_not() -> None:
    asked: list[int] = []
    window = largest_window(dlinear(300), "float32", UNO, lambda: asked.append(1))
    assert window is not None
    assert 50 < window < 300
    assert measure_once(compile_calibrator(dlinear(window), "float32"), UNO).fits
    assert not measure_once(compile_calibrator(dlinear(window + 1), "float32"), UNO).fits
    assert len(asked) <= 10


def test_what_is_no_model_of_ours_has_no_other_window() -> None:
    assert largest_window(draw_method("dlinear", 8), "float32", UNO) is None


@given(st.integers(0, 200), st.integers(1, 20), st.integers(20, 150))
def test_the_largest_is_found(limit: int, least: int, most: int) -> None:
    asked: list[int] = []

    def fits(number: int) -> bool:
        asked.append(number)
        return number <= limit

    assert largest(fits, least, most) == max((n for n in range(least, most + 1) if n <= limit), default=0)
    assert len(asked) <= (9 if limit >= least else 1)
