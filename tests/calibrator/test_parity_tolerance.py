"""The one rule by which runtimes are compared, and the hash bits that none of them has to match."""

import numpy as np
import pytest

from scare.calibrator.parity_tolerance import (
    Tolerance,
    coded_steps,
    hash_steps,
    nearest_to_tie,
    outputs_and_codes,
    share_of_ties,
)
from scare.calibrator.plan import Plan, Step, run, values
from scare.kernels import hash_activations
from scare.kernels.trees import tree_codes, tree_margins
from tests.calibrator.building import attention_plan, newest_plan, tree_plan


@pytest.mark.parametrize(
    ("result", "difference", "strict", "met"),
    [
        (0.0, 0.9e-5, True, True),  # of the deviation, which is 1
        (0.0, 1.1e-5, False, True),  # but within twice what float32 rounds
        (0.0, 4.1e-5, False, False),
        (100.0, 0.9e-3, True, True),  # of the result
        (7.0, 2.9e-4, True, True),  # of its distance from the center, which is 37
        (np.nan, np.nan, False, False),
    ],
)
def test_a_result_is_judged_by_the_largest_of_three(result: float, difference: float, strict: bool, met: bool) -> None:
    rule = Tolerance(deviation=1.0, unit=1.0, center=0.0 if result != 7.0 else -30.0, rounding=2e-5)
    one = np.array([result]), np.array([difference])
    assert (bool(rule.strict(*one)[0]), bool(rule.met(*one)[0])) == (strict, met)


def test_ties_are_counted_over_all_hash_steps() -> None:
    plan = attention_plan()
    windows = np.random.default_rng(0).normal(size=(40, plan.window, 2)).astype(np.float32)
    computed = values(plan, windows, {"q", "k"})
    steps = {step.inputs[0]: step for step in hash_steps(plan)}
    sizes = [np.abs(hash_activations(computed[name], step.weights, step.settings)) for name, step in steps.items()]
    assert share_of_ties(plan, windows, steps.values()) == pytest.approx(np.mean(np.stack(sizes) < 1e-4))
    assert nearest_to_tie(plan, windows) == pytest.approx(np.stack(sizes).min(axis=(0, 2, 3)))


def test_paths_through_trees_are_codes() -> None:
    plan = tree_plan()
    (step,) = coded_steps(plan)
    windows = np.random.default_rng(0).normal(size=(40, plan.window, 2)).astype(np.float32)
    outputs, codes = outputs_and_codes(plan, windows, [step])
    np.testing.assert_array_equal(outputs, run(plan, windows))
    assert codes.shape == (40, 25 + 1)
    assert hash_steps(plan) == []
    source = values(plan, windows, {"all"})["all"]
    np.testing.assert_array_equal(codes, tree_codes(source, step.weights, step.settings))
    margins = tree_margins(source, step.weights, step.settings)
    assert nearest_to_tie(plan, windows) == pytest.approx(margins.min(axis=(1, 2)))
    assert share_of_ties(plan, windows, [step]) == pytest.approx(np.mean(margins[np.isfinite(margins)] < 1e-4))


def test_a_number_on_a_threshold_is_a_tie() -> None:
    plan = tree_plan(hats=False, guarded=0)
    (step,) = coded_steps(plan)
    windows = np.random.default_rng(0).normal(size=(2, plan.window, 2)).astype(np.float32)
    windows[1].flat[step.weights["feature"][3, 0]] = step.weights["threshold"][3, 0]
    assert (nearest_to_tie(plan, windows) < 1e-6).tolist() == [False, True]


def test_a_plan_without_hashes_has_no_ties() -> None:
    windows = np.zeros((3, 5, 2), np.float32)
    assert share_of_ties(newest_plan(5), windows, hash_steps(newest_plan(5))) is None
    assert np.isinf(nearest_to_tie(newest_plan(5), windows)).all()


def test_a_choice_near_its_threshold_is_undecided() -> None:
    weight = np.ones((1, 1), np.float32)
    steps = [Step("newest", ("x",), "now")]
    steps += [Step("dense", ("now",), name, {"weight": size * weight}) for name, size in (("d", 1), ("s", 2), ("e", 3))]
    periods = {"simple_period": 1, "deep_period": 1}
    plan = Plan(1, 1, (*steps, Step("select", ("d", "s", "e"), "y", settings=periods)))
    windows = np.array([0.5, 0.75, 0.0], np.float32).reshape(3, 1, 1)
    assert nearest_to_tie(plan, windows) == pytest.approx([0.0, 0.25, 0.5])
