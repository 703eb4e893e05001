"""Passes keep what a plan computes: folded, fused, averaged, or with a learned correction at its end."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from scare.baselines import Sendal
from scare.baselines.sendal import Deep
from scare.calibrator.cost import all_operations, count
from scare.calibrator.plan import Plan, Step, run
from scare.calibrator.plan_passes import as_shipped, average, fold, fuse, with_effect, with_learned
from scare.export.lowering import lower_float32
from scare.export.quantise import quantise
from scare.models import Architecture, Scare
from tests.calibrator.building import attention_plan, curve_plan, newest_plan
from tests.contract.test_models import CASES, draw_network, random_network, random_windows
from tests.kernels.test_choice import choice_plan
from tests.parity.native import ProgramRunner


class Writer:
    """Writes a plan step by step, with drawn sizes and weights."""

    def __init__(self, window: int, channels: int, seed: int) -> None:
        self.window, self.channels = window, channels
        self.rng = np.random.default_rng(seed)
        self.steps: list[Step] = []
        self.shapes: dict[str, tuple[int, ...]] = {"x": (window, channels)}
        self.now = "x"

    def write(self, kernel: str, inputs: tuple[str, ...], shape: tuple[int, ...], **weights: np.ndarray) -> str:
        output = f"v{len(self.steps)}"
        self.steps.append(Step(kernel, inputs, output, weights))
        self.shapes[output] = shape
        return output

    def draw(self, *shape: int) -> np.ndarray:
        return self.rng.normal(size=shape)

    def dense(self, source: str, width: int) -> str:
        shape = self.shapes[source]
        biases = [{}, {"bias": self.draw(width)}, {"bias": self.draw(*shape[:-1], width)}]
        chosen = biases[self.rng.integers(3)]
        return self.write("dense", (source,), (*shape[:-1], width), weight=self.draw(shape[-1], width), **chosen)

    def lens(self, lenses: int) -> str:
        rows, width = self.shapes[self.now]
        bias = {"bias": self.draw(lenses)} if self.rng.integers(2) else {}
        return self.write("lens", (self.now,), (lenses, width), weight=self.draw(rows, lenses), **bias)

    def flatten(self, source: str) -> str:
        return self.write("flatten", (source,), (int(np.prod(self.shapes[source])),))

    def add_outer(self) -> str:
        rows, width = self.shapes[self.now]
        shared = self.dense(self.flatten("x"), width)
        return self.write("add_outer", (self.now, shared), (rows, width), share=self.draw(rows))

    def add(self) -> str:
        shape = self.shapes[self.now]
        return self.write("add", (self.now, self.dense(self.now, shape[-1])), shape)

    def take(self, kind: str, size: int) -> None:
        flat = len(self.shapes[self.now]) == 1
        choices: dict[str, Callable[[], str]] = {
            "dense": lambda: self.dense(self.now, size),
            "relu": lambda: self.write("relu", (self.now,), self.shapes[self.now]),
            "add": self.add,
            "unread": lambda: (self.dense(self.now, size), self.now)[1],
            "lens": lambda: self.now if flat else self.lens(size),
            "flatten": lambda: self.flatten(self.now),
            "add_outer": lambda: self.now if flat else self.add_outer(),
        }
        self.now = choices[kind]()

    def finish(self) -> Plan:
        self.dense(self.now if len(self.shapes[self.now]) == 1 else self.flatten(self.now), 1)
        return Plan(self.window, self.channels, tuple(self.steps))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    writer = Writer(draw(st.integers(1, 8)), draw(st.integers(1, 3)), draw(st.integers(0, 2**31)))
    kinds = st.sampled_from(["dense", "dense", "lens", "lens", "flatten", "add_outer", "relu", "add", "unread"])
    for kind, size in draw(st.lists(st.tuples(kinds, st.integers(1, 7)), max_size=7)):
        writer.take(kind, size)
    return writer.finish()


def assert_same_function(one: Plan, other: Plan, relative: float = 1e-9) -> None:
    windows = np.random.default_rng(1).normal(size=(20, one.window, one.channels))
    expected = run(one, windows)
    assert_allclose(run(other, windows), expected, rtol=relative, atol=relative * np.abs(expected).max())


def kernels(plan: Plan) -> list[str]:
    return [step.kernel for step in plan.steps]


def prices(plan: Plan) -> tuple[int, int]:
    return count(plan).operations.multiply_adds, len(plan.steps)


@settings(deadline=None, max_examples=300)
@given(plan=plans())
def test_a_folded_plan_is_the_same_function_and_never_dearer(plan: Plan) -> None:
    folded = fold(plan)
    assert_same_function(plan, folded)
    assert prices(folded) <= prices(plan)
    assert all(folded.readers(step.output) for step in folded.steps[:-1])  # nothing is left unread


@settings(deadline=None, max_examples=100)
@given(plan=plans())
def test_folding_twice_is_folding_once(plan: Plan) -> None:
    once = fold(plan)
    twice = fold(once)
    assert [(s.kernel, s.inputs, s.output) for s in twice.steps] == [(s.kernel, s.inputs, s.output) for s in once.steps]


def weighted(kernel: str, source: str, output: str, *shape: int, bias: tuple[int, ...] | None = None) -> Step:
    rng = np.random.default_rng(len(output))
    weights = {"weight": rng.normal(size=shape)} | ({} if bias is None else {"bias": rng.normal(size=bias)})
    return Step(kernel, (source,), output, weights)


def test_a_lens_flattened_into_a_dense_step_is_one_dense_step() -> None:
    steps = (
        weighted("lens", "x", "trend", 10, 6, bias=(6,)),
        Step("flatten", ("trend",), "flat"),
        weighted("dense", "flat", "y", 18, 1, bias=(1,)),
    )
    plan = Plan(10, 3, steps)
    folded = fold(plan)
    assert kernels(folded) == ["flatten", "dense"]
    assert folded.steps[-1].weights["weight"].shape == (30, 1)
    assert_same_function(plan, folded)


def test_a_lens_of_a_lens_folds_too() -> None:
    steps = (
        weighted("lens", "x", "a", 5, 4, bias=(4,)),
        weighted("lens", "a", "bb", 4, 4),
        weighted("lens", "bb", "ccc", 4, 5, bias=(5,)),
        Step("flatten", ("ccc",), "flat"),
        weighted("dense", "flat", "y", 10, 1),
    )
    plan = Plan(5, 2, steps)
    assert kernels(fold(plan)) == ["flatten", "dense"]
    assert_same_function(plan, fold(plan))


def test_a_chain_of_linear_steps_is_one_step() -> None:
    steps = (
        Step("flatten", ("x",), "flat"),
        weighted("dense", "flat", "a", 8, 5, bias=(5,)),
        weighted("dense", "a", "bb", 5, 5),
        weighted("dense", "bb", "y", 5, 1, bias=(1,)),
    )
    plan = Plan(4, 2, steps)
    assert kernels(fold(plan)) == ["flatten", "dense"]
    assert_same_function(plan, fold(plan))


def test_a_narrow_middle_is_kept_where_it_is_cheaper() -> None:
    steps = (
        Step("flatten", ("x",), "flat"),
        weighted("dense", "flat", "thin", 20, 1),
        weighted("dense", "thin", "wide", 1, 20),
        Step("relu", ("wide",), "cut"),
        weighted("dense", "cut", "y", 20, 1),
    )
    plan = Plan(20, 1, steps)
    assert kernels(fold(plan)) == kernels(plan)  # 20 + 20, not 400


def test_a_projection_of_tokens_is_taken_before_they_are_spread_out() -> None:
    steps = (
        weighted("dense", "x", "e", 1, 8, bias=(6, 8)),
        Step("flatten", ("x",), "flat"),
        weighted("dense", "flat", "g", 6, 8),
        Step("add_outer", ("e", "g"), "z", {"share": np.arange(6.0)}),
        weighted("dense", "z", "q", 8, 8),
        Step("relu", ("q",), "cut"),
        Step("flatten", ("cut",), "all"),
        weighted("dense", "all", "y", 48, 1),
    )
    plan = Plan(6, 1, steps)
    folded = fold(plan)
    assert "z" not in folded.shapes
    assert count(folded).operations.multiply_adds < count(plan).operations.multiply_adds / 2
    assert_same_function(plan, folded)


def test_a_nonlinear_step_is_never_folded_away() -> None:
    steps = (
        Step("flatten", ("x",), "flat"),
        weighted("dense", "flat", "a", 8, 5),
        Step("relu", ("a",), "cut"),
        weighted("dense", "cut", "y", 5, 1),
    )
    assert kernels(fold(Plan(4, 2, steps))) == kernels(Plan(4, 2, steps))


def test_a_whole_network_folds_to_the_same_numbers() -> None:
    plan = attention_plan().astype(np.float64)
    assert_same_function(plan, fold(plan))
    assert count(fold(plan)).operations.multiply_adds <= count(plan).operations.multiply_adds


@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_folding_keeps_the_number_type(number: type[np.floating]) -> None:
    folded = fold(attention_plan().astype(number))
    types = {weight.dtype for step in folded.steps for weight in step.weights.values() if weight.dtype.kind == "f"}
    assert types == {np.dtype(number)}


LSTM = {"sendal-lstm": replace(Sendal.default(), deep=Deep.LSTM)}
every_model = pytest.mark.parametrize("model", (CASES | LSTM).values(), ids=CASES | LSTM)


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


def test_the_head_absorbs_the_outer_layer_where_nothing_bends_between_them() -> None:
    model = Scare.default()
    network = random_network(model, 60, 2)
    plan, windows = network.plan(), random_windows(2, 60)
    assert_allclose(run(fold(plan), windows), run(plan, windows), rtol=1e-9, atol=1e-9)
    fused = fuse(fold(plan))
    assert kernels(fused).count("read_out") == 1
    assert not {"feed_forward", "relu"} & set(kernels(fused))
    outer = model.tokens(60) * model.block.hidden * model.front.width
    assert all_operations(plan).multiply_adds - all_operations(fold(plan)).multiply_adds > outer - outer / 4


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


def test_a_device_adds_its_effect_to_either_branch_of_a_choice() -> None:
    plan = choice_plan()
    windows = np.random.default_rng(0).normal(size=(40, plan.window, plan.channels)).astype(np.float32)
    added = run(with_effect(plan, 0.5, 0.1), windows) - run(plan, windows)
    assert_allclose(added.ravel(), 0.5 + 0.1 * windows[:, -1, 0], rtol=1e-4, atol=1e-6)


def test_a_plan_with_too_many_orders_keeps_its_own() -> None:
    names = [f"v{i}" for i in range(16)]
    scales = {"scale": np.ones(1), "shift": np.ones(1)}
    steps = [Step("newest", ("x",), "now"), *(Step("affine", ("now",), name, scales) for name in names)]
    sums = [Step("add", pair, f"s{i}") for i, pair in enumerate(zip(names[::2], names[1::2], strict=True))]
    totals = [Step("add", (f"t{i}" if i else "s0", f"s{i + 1}"), f"t{i + 1}") for i in range(7)]
    plan = Plan(3, 1, (*steps, *sums, *totals))
    assert kernels(fuse(plan)) == kernels(plan)


models_without_branches = pytest.mark.parametrize("model", [m for n, m in CASES.items() if n != "sendal-default"])


def plans_of(model: Architecture, count: int, window: int = 16, channels: int = 2) -> list[Plan]:
    return [draw_network(model, window, channels, seed).plan() for seed in range(count)]


@models_without_branches
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
