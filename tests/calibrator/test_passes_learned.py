"""What was learned is steps at the end of a plan: they add what they say, whatever the plan, and come off again."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from scare.calibrator.passes import as_shipped, fuse, with_learned
from scare.calibrator.plan import Plan, run
from tests.calibrator.building import attention_plan, curve_plan, newest_plan
from tests.kernels.test_choice import choice_plan

NUMBERS = np.array([0.25, -0.5, 0.125, 0.75])
PLANS = [newest_plan(), curve_plan(), attention_plan(), choice_plan()]


@pytest.mark.parametrize("plan", PLANS)
def test_they_add_what_they_say(plan: Plan) -> None:
    windows = np.random.default_rng(2).normal(size=(20, plan.window, plan.channels)).astype(np.float32)
    values = run(plan, windows)
    expected = values + np.column_stack([values, windows[:, -1], np.ones(20)]) @ NUMBERS
    learned = with_learned(plan, NUMBERS)
    for one in (learned, fuse(learned), with_learned(learned, NUMBERS)):
        assert_allclose(run(one, windows), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("plan", PLANS)
def test_they_come_off_again(plan: Plan) -> None:
    assert as_shipped(with_learned(plan, NUMBERS)) == plan
    assert as_shipped(plan) == plan
    assert with_learned(with_learned(plan, NUMBERS), np.zeros(4)) == plan


def test_inputs_beyond_the_numbers_have_none() -> None:
    weight = with_learned(newest_plan(), np.array([0.1, 0.2, 0.3])).steps[-3].weights["weight"]
    assert_allclose(weight, [[0.2], [0.0]])
