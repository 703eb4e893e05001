"""A plan is checked when it is made, forgets what nobody reads any more, and computes what its steps say."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from scare.calibrator.plan import Plan, Step, run, values
from scare.kernels import KERNELS
from tests.calibrator.building import attention_plan, newest_plan

TO_ONE = np.ones((2, 1), np.float32)


def dense(source: str, output: str, weight: np.ndarray = TO_ONE) -> Step:
    return Step("dense", (source,), output, {"weight": weight})


NOW = Step("newest", ("x",), "now")


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((), "the last step"),
        ((NOW,), "the last step"),
        ((Step("magic", ("x",), "y"),), "no kernel called 'magic'"),
        ((NOW, dense("later", "y")), r"dense reads \['later'\]"),
        ((dense("now", "y"), NOW), r"dense reads \['now'\]"),
        ((NOW, NOW, dense("now", "y")), "writes 'now' twice"),
        ((Step("newest", ("x",), "x"),), "writes 'x' twice"),
        ((NOW, dense("now", "y", np.ones((3, 1)))), "dense weight do not fit"),
        ((NOW, dense("now", "y", np.ones((2, 2)))), "the last step"),
        ((NOW, dense("now", "y"), Step("add", ("now", "y"), "z")), "add do not fit"),
    ],
)
def test_a_plan_that_cannot_run_is_refused(steps: tuple[Step, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Plan(3, 2, steps)


@pytest.mark.parametrize(("window", "channels"), [(0, 2), (-1, 2), (3, 0)])
def test_a_plan_reads_at_least_one_row_of_one_channel(window: int, channels: int) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        Plan(window, channels, (NOW, dense("now", "y", np.ones((channels, 1)))))


def test_running_is_calling_the_kernels_in_order() -> None:
    windows = np.random.default_rng(0).normal(size=(7, 12, 2)).astype(np.float32)
    plan = attention_plan()
    computed = {"x": windows}
    for step in plan.steps:
        computed[step.output] = KERNELS[step.kernel].run(
            *[computed[name] for name in step.inputs], step.weights, step.settings
        )
        assert computed[step.output].shape == (7, *plan.shapes[step.output])
    assert_array_equal(run(plan, windows), computed["y"][:, 0])
    assert run(plan, windows).dtype == np.float32
    assert_array_equal(values(plan, windows, {"z", "hq"})["hq"], computed["hq"])


def test_no_windows_give_no_numbers() -> None:
    assert run(attention_plan(), np.empty((0, 12, 2), np.float32)).shape == (0,)


def test_a_value_is_forgotten_after_its_last_reader() -> None:
    names = ["x", *"abcdefghij"]
    cuts = [Step("relu", (source,), output) for source, output in pairwise(names)]
    plan = Plan(1, 64, (*cuts, Step("flatten", ("j",), "flat"), dense("flat", "y", np.ones((64, 1), np.float32))))
    windows = np.ones((4000, 1, 64), np.float32)
    run(plan, windows)
    tracemalloc.start()
    run(plan, windows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert windows.nbytes < peak < 2.2 * windows.nbytes  # what a step reads and what it writes


def test_readers_are_the_steps_that_read_a_value() -> None:
    plan = attention_plan()
    assert [step.output for step in plan.readers("z")] == ["q", "k", "v", "r"]
    assert plan.readers("y") == []


def test_astype_changes_real_weights_only() -> None:
    plan = attention_plan()
    wide = plan.astype(np.float64)
    for step, wide_step in zip(plan.steps, wide.steps, strict=True):
        for name, weight in step.weights.items():
            expected = np.float64 if weight.dtype.kind == "f" else weight.dtype
            assert wide_step.weights[name].dtype == expected
            assert_array_equal(wide_step.weights[name], weight)
    windows = np.random.default_rng(0).normal(size=(20, 12, 2))
    assert run(wide, windows).dtype == np.float64
    assert_allclose(run(plan, windows.astype(np.float32)), run(wide, windows), rtol=1e-4, atol=1e-5)
    assert plan.steps[2].weights["weight"].dtype == np.float32


def test_the_smallest_plan_is_a_weighted_newest_row() -> None:
    windows = np.random.default_rng(0).normal(size=(4, 5, 2)).astype(np.float32)
    assert_allclose(run(newest_plan(), windows), 2 * windows[:, -1, 0] - 0.5 * windows[:, -1, 1] + 0.25, rtol=1e-6)
