"""Windows on the board are of all kinds and of both branches, however few they are."""

from functools import partial

import numpy as np
import pytest

from scare.board.vectors import board_windows
from scare.calibrator.plan import run
from scare.experiments.untrained import draw_method
from scare.kernels import choose
from scare.scorecard.scoring import CANDIDATES, board_trials

SHORT = 15


def test_few_windows_are_spread_over_all_of_them() -> None:
    calibrator = draw_method("dlinear", SHORT)
    every = board_windows(calibrator, CANDIDATES)
    few = board_trials(calibrator, 5)
    np.testing.assert_array_equal(few, every[[0, 249, 499, 749, 999]])
    np.testing.assert_array_equal(board_trials(calibrator, CANDIDATES), every)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_few_windows_take_both_branches(count: int) -> None:
    calibrator = draw_method("sendal", SHORT)
    branches = calibrator.plan.branches
    assert branches is not None
    chosen = partial(choose, settings=calibrator.plan.steps[-1].settings)
    front = board_windows(calibrator, CANDIDATES)[:count]
    assert len(set(chosen(run(branches[0], front)).tolist())) == 1
    taken = chosen(run(branches[0], board_trials(calibrator, count)))
    assert set(taken.tolist()) == {False, True}
