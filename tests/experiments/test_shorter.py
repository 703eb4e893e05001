"""The largest window that fits a board is the largest: it fits, and one reading more does not."""

from dataclasses import asdict

from scare.board.boards import board
from scare.board.fitting import measure_once
from scare.calibrator.calibrator import Calibrator
from scare.experiments.shorter import largest_window
from scare.experiments.untrained import draw_contender
from scare.models import DLinear

UNO = board("uno")


def dlinear(window: int) -> Calibrator:
    """DLinear of one channel; its file tells the architecture."""
    return draw_contender("dlinear", window).with_facts(model="dlinear", architecture=asdict(DLinear.default()))


def test_the_largest_window_fits_and_one_more_does_not() -> None:
    asked: list[int] = []
    window = largest_window(dlinear(300), "float32", UNO, lambda: asked.append(1))
    assert window is not None
    assert 50 < window < 300
    assert measure_once(dlinear(window), "float32", UNO).fits
    assert not measure_once(dlinear(window + 1), "float32", UNO).fits
    assert len(asked) <= 10


def test_what_is_no_model_of_ours_has_no_other_window() -> None:
    assert largest_window(draw_contender("dlinear", 8), "float32", UNO) is None
