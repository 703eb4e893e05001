"""Fixed-point programs in C give what their plans give in NumPy, every value of every window, in every bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare.baselines import DLinear, Tesla
from scare.calibrator.parity_tolerance import outputs_and_codes
from scare.calibrator.plan import Plan, Step, values
from scare.calibrator.plan_passes import fold, fuse
from scare.export.lowering import FIXED_LOWERING, lower_fixed
from scare.export.memory_layout import values_by_name
from scare.export.quantise import quantise
from scare.kernels import FIXED_KERNELS
from scare.kernels.c_arguments import LARGEST_SIZES, CValue, PlacedStep, codes_name, pad_axis
from scare.kernels.fixed_point import WINDOW as STEPS
from scare.models import ABLATION, Architecture, Scare
from tests.calibrator.building import curve_plan, tree_plan
from tests.contract.test_models import random_network
from tests.parity.native import ProgramRunner, array_of, call_on_new_memory

FULL = 32767
words = st.integers(-(2**31), 2**31 - 1)


def strange(window: int, channels: int, seed: int) -> np.ndarray:
    """Windows of int16 steps: ordinary ones, and all that could make a sum too large or too small."""
    rng = np.random.default_rng(seed)
    ordinary = rng.integers(-FULL, FULL + 1, (3, window, channels))
    quiet = rng.integers(-3, 4, (2, window, channels))
    ends = FULL * np.sign(rng.normal(size=(4, window, channels))).astype(int)
    same = np.full((4, window, channels), [[[0]], [[1]], [[FULL]], [[-FULL]]])
    step = np.where(np.arange(window)[:, None] < window // 2, FULL, -FULL) * np.ones((1, 1, channels), int)
    return np.concatenate([ordinary, quiet, ends, same, step]).astype(np.int16)


def check(plan: Plan, seed: int) -> set[str]:
    """Compare all values; the names of the kernels that were called."""
    quanta = np.random.default_rng(seed).uniform(500, 5000, plan.channels)
    quantised = quantise(fuse(plan), quanta)
    machine, windows = ProgramRunner(lower_fixed(quantised)), strange(plan.window, plan.channels, seed)
    without_first = replace(quantised, steps=(_given(quantised), *quantised.steps[1:]))
    computed = {step.output for step in quantised.steps[1:] if step.kernel in FIXED_KERNELS}
    expected = values(without_first, windows, computed)
    places = values_by_name(machine.program)
    coded = [step for step in quantised.steps if codes_name(step.output) in places]
    codes = {codes_name(step.output): outputs_and_codes(without_first, windows, [step])[1] for step in coded}
    for index, window in enumerate(windows):
        machine.run(pad_axis(window.T, -1, 2))
        for name in computed:
            np.testing.assert_array_equal(array_of(places[name], machine.arrays), expected[name][index].ravel(), name)
        for name, own in codes.items():
            memory = machine.arrays[places[name].view_of].view(np.uint8)[places[name].start :]
            np.testing.assert_array_equal(memory[: own.shape[1]], own[index], name)
    return {step.kernel for step in quantised.steps}


def _given(plan: Plan) -> Step:
    """A first step that takes the window as it is."""
    return Step("newest_rows", ("x",), STEPS, settings={"rows": plan.window})


def folded(model: Architecture, window: int, channels: int) -> Plan:
    return fold(random_network(model, window, channels).plan())


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_scare_of_any_size(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from([Scare.default(), Scare.paper(), ABLATION[4]]))
    model = replace(
        model,
        front=replace(model.front, width=data.draw(st.sampled_from([4, 8, 12, 20]))),
        attention=replace(model.attention, bits=data.draw(st.integers(1, 16)), supports=data.draw(st.integers(1, 40))),
        block=replace(model.block, hidden=data.draw(st.integers(1, 70))),
    )
    window, channels = data.draw(st.integers(9, 130)), data.draw(st.integers(1, 3))
    check(folded(model, window, channels), data.draw(st.integers(0, 99)))


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([Tesla.default(), DLinear.default(), ABLATION[3]]), st.integers(9, 130), st.integers(1, 3))
def test_the_other_models_of_any_size(model: Architecture, window: int, channels: int) -> None:
    check(folded(model, window, channels), window)


@pytest.mark.parametrize("model", [Scare.default(), Scare.paper(), Tesla.default()])
@pytest.mark.parametrize("window", [360, 1440])
def test_long_windows(model: Architecture, window: int) -> None:
    check(folded(model, window, 1), window)


@settings(max_examples=20, deadline=None)
@given(st.integers(9, 130), st.integers(1, 5), st.booleans())
def test_a_curve_of_any_size(window: int, channels: int, hats: bool) -> None:
    check(curve_plan(window, channels, hats), window)


@settings(deadline=None)
@given(st.lists(st.tuples(words, words), min_size=1, max_size=9), st.integers(0, 28000))
def test_products_of_any_words(pairs: list[tuple[int, int]], top: int) -> None:
    x, factor = np.array(pairs, np.int32).T.copy()
    step = Step("products_q", ("x",), "y", {"factor": factor}, {"top": top})
    expected = FIXED_KERNELS["products_q"].run(x[None], step.weights, step.settings)[0]
    call, _ = FIXED_LOWERING.call(PlacedStep(step, (CValue("x", "int32_t", x.shape),), (x.shape,), expected.shape))
    assert call is not None
    arrays = {"x": x}
    call_on_new_memory(call, arrays)
    np.testing.assert_array_equal(arrays["y"], expected)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_trees_of_any_size(data: st.DataObject) -> None:
    window, channels, hats = data.draw(st.integers(9, 130)), data.draw(st.integers(1, 3)), data.draw(st.booleans())
    trees, depth, guarded = (data.draw(st.integers(low, high)) for low, high in ((1, 40), (1, 6), (0, 6)))
    check(tree_plan(window, channels, hats, trees, depth, guarded), window)


def test_trees_of_many_numbers() -> None:
    plan = tree_plan(300, 1, hats=False, guarded=9)
    tokens = Step("lens", ("x",), "many", {"weight": np.random.default_rng(0).normal(size=(300, 300))})
    flat = Step("flatten", ("many",), "all")
    assert {"project_q", "trees_q"} <= check(replace(plan, steps=(tokens, flat, *plan.steps[1:])), 1)


def test_every_fixed_point_kernel_is_compared() -> None:
    called: set[str] = set()
    for model, channels in ((Scare.default(), 1), (Scare.default(), 2), (Scare.paper(), 1), (Tesla.default(), 1)):
        called |= check(folded(model, 30, channels), 0)
    newest = Step("newest", ("x",), "now")
    called |= check(Plan(5, 2, (newest, Step("dense", ("now",), "y", {"weight": np.ones((2, 1))}))), 0)
    called |= check(curve_plan(), 0)
    called |= check(tree_plan(), 0)
    assert called - {"flatten", "part"} == set(FIXED_KERNELS)


def test_the_largest_sizes_are_those_of_the_header() -> None:
    from tests.parity.native import RUNTIME

    header = (RUNTIME / "scare_fixed.h").read_text(encoding="utf-8")
    for name, macro in (("width", "WIDEST"), ("supports", "SUPPORTS"), ("hidden", "HIDDEN"), ("tokens", "TOKENS")):
        assert f"#define SCARE_{macro}_Q {LARGEST_SIZES[name]}u" in header
