"""How results of an export are judged."""

import numpy as np
import pytest

from scare.board.verify_export import compare
from scare.export.scare_json import GoldenVectors


def expected(ties: list[bool]) -> GoldenVectors:
    count = len(ties)
    return GoldenVectors(np.zeros((count, 1, 1)), np.zeros(count), np.full(count, 0.1), np.array(ties), 4 * count)


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
    compared = compare("m", "here", np.array(results), expected(ties))
    assert (len(compared.reasons), compared.ties) == (reasons, excused)


def test_the_largest_difference_is_of_windows_that_are_decided() -> None:
    compared = compare("m", "here", np.array([0.05, 7.0]), expected([False, True]))
    assert (compared.largest, compared.share) == pytest.approx((0.05, 0.5))
