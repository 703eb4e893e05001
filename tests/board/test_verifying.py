"""How results of an export are judged."""

import numpy as np
import pytest

from scare.board.verifying import judge
from scare.calibrator.plan import Plan, Step
from scare.export.expected import Expected, from_tie


def expected(ties: list[bool]) -> Expected:
    count = len(ties)
    return Expected(np.zeros((count, 1, 1)), np.zeros(count), np.full(count, 0.1), np.array(ties), 4 * count)


@pytest.mark.parametrize(
    ("results", "ties", "reasons", "excused"),
    [
        ([0.0, 0.1, -0.1], [False, False, False], 0, ()),
        ([0.0, 0.2, 0.0], [False, False, False], 1, ()),
        ([0.0, 0.2, 0.0], [False, True, False], 0, (1,)),
        ([0.0, 0.2, 9.0], [False, True, True], 1, (1, 2)),
        ([0.0, np.nan, 0.0], [False, True, False], 1, ()),
        ([0.0, np.inf, 0.0], [False, True, False], 1, ()),
    ],
)
def test_one_undecided_window_is_excused(
    results: list[float], ties: list[bool], reasons: int, excused: tuple[int, ...]
) -> None:
    tried = judge("m", "here", np.array(results), expected(ties))
    assert (len(tried.reasons), tried.ties) == (reasons, excused)


def test_the_largest_difference_is_of_windows_that_are_decided() -> None:
    tried = judge("m", "here", np.array([0.05, 7.0]), expected([False, True]))
    assert (tried.largest, tried.share) == pytest.approx((0.05, 0.5))


def test_a_choice_near_its_threshold_is_undecided() -> None:
    weight = np.ones((1, 1), np.float32)
    steps = [Step("newest", ("x",), "now")]
    steps += [Step("dense", ("now",), name, {"weight": size * weight}) for name, size in (("d", 1), ("s", 2), ("e", 3))]
    periods = {"simple_period": 1, "deep_period": 1}
    plan = Plan(1, 1, (*steps, Step("select", ("d", "s", "e"), "y", settings=periods)))
    windows = np.array([0.5, 0.75, 0.0], np.float32).reshape(3, 1, 1)
    assert from_tie(plan, windows) == pytest.approx([0.0, 0.25, 0.5])
