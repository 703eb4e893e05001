"""Fusing gives the same function for the same operations, in less memory."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose

from scare.baselines import Sendal
from scare.baselines.sendal import Deep
from scare.calibrator.cost import all_operations, count
from scare.calibrator.passes import fold, fuse
from scare.calibrator.plan import Plan, Step, run
from scare.models import Architecture, Scare
from tests.calibrator.building import attention_plan, curve_plan
from tests.calibrator.test_passes_fold import plans
from tests.contract.test_models import CASES, random_network, random_windows

LSTM = {"sendal-lstm": replace(Sendal.default(), deep=Deep.LSTM)}
every_model = pytest.mark.parametrize("model", (CASES | LSTM).values(), ids=CASES | LSTM)


def kernels(plan: Plan) -> list[str]:
    return [step.kernel for step in plan.steps]


def folded(model: Architecture, window: int, channels: int) -> Plan:
    return fold(random_network(model, window, channels).plan())


@every_model
@pytest.mark.parametrize(("window", "channels"), [(15, 1), (60, 1), (60, 4)])
def test_a_fused_model_computes_the_same_by_the_same_operations(
    model: Architecture, window: int, channels: int
) -> None:
    plan, windows = folded(model, window, channels), random_windows(channels, window)
    fused = fuse(plan)
    assert_allclose(run(fused, windows), run(plan, windows), rtol=1e-9, atol=1e-9)
    assert all_operations(fused) == all_operations(plan)
    assert count(fused).operations == count(plan).operations
    assert count(fused).peak_bytes <= count(plan).peak_bytes


@given(plan=plans())
@settings(deadline=None, max_examples=60)
def test_any_plan_stays_the_same_function(plan: Plan) -> None:
    windows = np.random.default_rng(1).normal(size=(4, plan.window, plan.channels))
    before = fold(plan)
    fused = fuse(before)
    assert_allclose(run(fused, windows), run(before, windows), rtol=1e-9, atol=1e-9)
    assert all_operations(fused) == all_operations(before)
    assert kernels(fuse(fused)) == kernels(fused)


@pytest.mark.parametrize(("channels", "linear"), [(1, ["dense"]), (4, ["lens", "dense"])])
def test_one_projection_touches_the_window_where_one_can(channels: int, linear: list[str]) -> None:
    fused = fuse(folded(Scare.paper(), 60, channels))
    views = {"x", *(step.output for step in fused.steps if step.kernel == "flatten" and step.inputs == ("x",))}
    touching = [step.kernel for step in fused.steps if set(step.inputs) & views and step.kernel != "flatten"]
    assert sorted(touching) == sorted(linear)


def test_a_scare_block_holds_no_hidden_layer_and_no_parts_of_tokens() -> None:
    plan = folded(Scare.paper(), 360, 1)
    fused = fuse(plan)
    assert kernels(fused).count("token_rows") == 4
    assert kernels(fused).count("feed_forward") == 1
    assert not {"add_outer", "relu", "lens"} & set(kernels(fused))
    tokens = 9 * 8 * 4
    numbers = [np.prod(fused.shapes[step.output]) for step in fused.steps if step.kernel != "flatten"]
    assert 4 * max(numbers) == tokens


def test_queries_are_codes_before_keys_are_made() -> None:
    order = kernels(fuse(folded(Scare.paper(), 360, 1)))
    assert order[order.index("token_rows") : order.index("add")] == [
        *("token_rows", "hash_codes") * 2,
        *("token_rows", "bitwise_attention", "token_rows"),
    ]


def test_the_newest_row_is_taken_before_the_others_are_replaced() -> None:
    order = kernels(fuse(folded(CASES["ecoformer-default"], 60, 1)))
    assert order.index("newest") < order.index("layer_norm")


def test_what_several_steps_read_is_not_computed_twice() -> None:
    steps = list(attention_plan().steps)
    steps[-2] = Step("flatten", ("hr",), "hf")
    wide = [step for step in steps if step.output != "y"]
    wide += [
        Step("dense", ("hr",), "one", {"weight": np.ones((6, 2))}),
        Step("flatten", ("one",), "two"),
        Step("dense", ("two",), "three", {"weight": np.ones((6, 1))}),
        Step("dense", ("hf",), "four", {"weight": np.ones((18, 1))}),
        Step("add", ("three", "four"), "y"),
    ]
    plan = replace(attention_plan(), steps=tuple(wide))
    assert "relu" in kernels(fuse(plan))
    assert all_operations(fuse(plan)) == all_operations(plan)


def test_part_of_the_hats_is_read_beside_what_is_stacked_on_them() -> None:
    plan, more = curve_plan(), Step("dense", ("all",), "more", {"weight": np.ones((12, 1), np.float32)})
    plan = replace(plan, steps=(*plan.steps, more, Step("add", ("y", "more"), "z")))
    fused, windows = fuse(plan), random_windows(2, 30)
    assert kernels(fused).count("dense") == 2  # of all hats, and of the products
    assert_allclose(run(fused, windows), run(plan, windows), rtol=1e-9, atol=1e-9)
    assert count(fused).peak_bytes <= count(plan).peak_bytes


def test_what_nobody_reads_goes() -> None:
    few = Step("lens", ("x",), "few", {"weight": np.ones((5, 2))})
    steps = [few, Step("flatten", ("few",), "own"), Step("flatten", ("x",), "flat")]
    steps += [Step("dense", ("flat",), "unread", {"weight": np.ones((5, 2))})]
    steps += [Step("dense", ("own",), "y", {"weight": np.ones((2, 1))})]
    assert kernels(fuse(Plan(5, 1, tuple(steps)))) == ["lens", "flatten", "dense"]


def test_branches_of_a_choice_stay_apart() -> None:
    weights = [{"weight": np.full((3, 1), value)} for value in (1.0, 2.0, 3.0)]
    steps = [Step("dense", ("flat",), name, weight) for name, weight in zip("dsy", weights, strict=True)]
    periods = {"deep_period": 1, "simple_period": 1}
    plan = Plan(
        3, 1, (Step("flatten", ("x",), "flat"), *steps, Step("select", ("d", "s", "y"), "out", settings=periods))
    )
    assert kernels(fuse(plan)) == kernels(plan)


def test_a_plan_with_too_many_orders_keeps_its_own() -> None:
    names = [f"v{i}" for i in range(16)]
    scales = {"scale": np.ones(1), "shift": np.ones(1)}
    steps = [Step("newest", ("x",), "now"), *(Step("affine", ("now",), name, scales) for name in names)]
    sums = [Step("add", pair, f"s{i}") for i, pair in enumerate(zip(names[::2], names[1::2], strict=True))]
    totals = [Step("add", (f"t{i}" if i else "s0", f"s{i + 1}"), f"t{i + 1}") for i in range(7)]
    plan = Plan(3, 1, (*steps, *sums, *totals))
    assert kernels(fuse(plan)) == kernels(plan)
