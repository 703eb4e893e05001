"""The mean of plans is one plan: the same numbers, shared steps once, in C too."""

import numpy as np
import pytest

from scare.baselines import Sendal
from scare.calibrator.cost import all_operations
from scare.calibrator.passes import average, fold, fuse, quantise
from scare.calibrator.plan import Plan, run
from scare.export.lowering import lower_float32
from scare.models import Architecture, Scare
from tests.contract.test_models import CASES, draw_network, random_windows
from tests.parity.native import ProgramRunner

every_model = pytest.mark.parametrize("model", [m for n, m in CASES.items() if n != "sendal-default"])


def plans_of(model: Architecture, count: int, window: int = 16, channels: int = 2) -> list[Plan]:
    return [draw_network(model, window, channels, seed).plan() for seed in range(count)]


@every_model
def test_the_mean_of_plans_is_one_plan(model: Architecture) -> None:
    plans, windows = plans_of(model, 3), random_windows(2)
    expected = np.mean([run(plan, windows) for plan in plans], axis=0)
    mean = average(plans)
    for plan in (mean, fold(mean), fuse(fold(mean))):
        np.testing.assert_allclose(run(plan, windows), expected, rtol=1e-9, atol=1e-9)


def test_the_window_is_read_once() -> None:
    plans = plans_of(Scare.default(), 3, window=60)
    mean, one = fuse(fold(average(plans))), fuse(fold(plans[0]))
    assert sum(step.kernel == "hat_basis" for step in mean.steps) == 1
    window = 60 * 2  # multiplications of the hats
    most = 3 * (all_operations(one).multiply_adds - window) + window + 3
    assert all_operations(mean).multiply_adds <= most


def test_one_channel_has_one_projection_for_all() -> None:
    mean = fuse(fold(average(plans_of(Scare.default(), 3, window=60, channels=1))))
    (hats,) = [step for step in mean.steps if step.kernel == "hat_basis"]
    views = [step.output for step in mean.readers(hats.output)]
    assert [step.kernel for view in views for step in mean.readers(view) if step.kernel != "part"] == ["dense"]


def test_members_run_in_c_and_in_integers() -> None:
    mean = fuse(fold(average(plans_of(Scare.default(), 3, window=30, channels=1)))).astype(np.float32)
    windows = random_windows(1, 30).astype(np.float32)
    machine, expected = ProgramRunner(lower_float32(mean)), run(mean, windows)
    np.testing.assert_allclose([machine.run(window) for window in windows], expected, rtol=1e-4, atol=1e-4)
    integer = run(quantise(mean, np.array([4000.0])), windows)
    assert np.corrcoef(integer, expected)[0, 1] > 0.99


def test_one_plan_is_its_own_mean() -> None:
    (plan,) = plans_of(Scare.default(), 1)
    assert average([plan]) is plan


def test_plans_that_choose_have_no_mean() -> None:
    with pytest.raises(ValueError, match="cannot be averaged"):
        average(plans_of(Sendal.default(), 2))


def test_what_several_plans_have_in_common_is_done_once() -> None:
    one, other = plans_of(Scare.default(), 2)
    assert len(average([one, one, one]).steps) <= len(one.steps)
    windows = random_windows(2)
    expected = (2 * run(one, windows) + run(other, windows)) / 3
    mean = average([one, other, one])
    np.testing.assert_allclose(run(mean, windows), expected, rtol=1e-9)
    assert len(mean.steps) == len(average([one, other]).steps)
