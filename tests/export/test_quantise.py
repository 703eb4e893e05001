"""A quantized plan computes nearly what the plan computes; fixed-point arithmetic keeps what it promises."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.calibrator.parity_tolerance import coded_steps, outputs_and_codes
from scare.calibrator.plan import Plan, Step, run, values
from scare.calibrator.plan_passes import fold, fuse
from scare.errors import NotApplicableError
from scare.export.quantise import correct_bias, quantise
from scare.kernels import KERNELS, dense_step
from scare.kernels.attention import power_of_two
from scare.kernels.fixed_point import (
    LARGEST,
    error_diffused,
    inverse_root_of,
    leading_zeros,
    power_of_two_above,
    rounding_shift,
    spare_bits,
    to_top,
    unit_rows,
)
from scare.models import Architecture
from tests.calibrator.building import curve_plan, tree_plan
from tests.contract.test_models import CASES, random_network

INTEGER = ("scare-default", "scare-paper", "tesla-default", "dlinear-default", "nlinear-default")
words = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=9)


def wandering(window: int, channels: int, count: int = 200) -> np.ndarray:
    """Windows like those of a sensor: a level, and a walk around it."""
    rng = np.random.default_rng(0)
    walk = 0.1 * rng.normal(size=(count, window, channels)).cumsum(axis=1)
    return (walk + rng.normal(size=(count, 1, channels))).astype(np.float32)


@pytest.mark.parametrize("name", INTEGER)
@pytest.mark.parametrize(("window", "channels"), [(15, 1), (60, 1), (61, 3), (360, 1)])
def test_integers_give_nearly_the_same(name: str, window: int, channels: int) -> None:
    plan = fuse(fold(random_network(CASES[name], window, channels).plan()))
    integer, windows = quantise(plan, np.full(channels, 32767 / 8)), wandering(window, channels)
    coded = {step.output for step in plan.steps if step.kernel == "hash_codes"}
    ours, theirs = values(plan, windows, coded), values(integer, windows, coded)
    alike = np.ones(len(windows), bool)
    for code in coded:
        assert np.bitwise_count(ours[code] ^ theirs[code]).mean() / 16 < 0.002
        alike &= (ours[code] == theirs[code]).all(axis=1)
    expected, got = run(plan, windows), run(integer, windows)
    assert np.sqrt(np.mean((expected - got)[alike] ** 2)) < 0.01 * expected.std()
    assert np.corrcoef(expected, got)[0, 1] > 0.995


@pytest.mark.parametrize("model", [CASES[name] for name in CASES if "ablation" not in name and name not in INTEGER])
def test_what_has_no_integer_form_says_so(model: Architecture) -> None:
    with pytest.raises(NotApplicableError, match="float32 only"):
        quantise(fuse(fold(random_network(model, 16, 1).plan())), np.ones(1))


def test_large_and_small_inputs_lose_nothing_of_their_shape() -> None:
    """Doubling or halving the window's unit, and the quanta with it, changes no bit."""
    plan = fuse(fold(random_network(CASES["scare-default"], 30, 1).plan()))
    integer, windows = quantise(plan, np.array([1000.0])), wandering(30, 1)
    assert len(np.unique(run(integer, windows))) > 190
    same = run(integer, np.full((1, 30, 1), 1e30, np.float32)), run(integer, np.full((1, 30, 1), 32.767, np.float32))
    assert same[0] == same[1]


def test_a_plan_without_weights_is_exact() -> None:
    newest = Step("newest", ("x",), "now")
    plan = Plan(4, 1, (newest, Step("dense", ("now",), "y", {"weight": np.ones((1, 1)), "bias": np.array([0.5])})))
    integer = quantise(plan, np.array([64.0]))
    windows = np.array([0.25, -3.0, 100.0], np.float32)[:, None, None] * np.ones((1, 4, 1), np.float32)
    np.testing.assert_allclose(run(integer, windows), [0.75, -2.5, 100.5], rtol=1e-4)


@pytest.mark.parametrize("hats", [True, False])
@pytest.mark.parametrize(("window", "channels"), [(9, 1), (60, 4)])
def test_a_curve_in_integers_is_nearly_the_curve(hats: bool, window: int, channels: int) -> None:
    plan, windows = fuse(fold(curve_plan(window, channels, hats))), 2 * wandering(window, channels)
    integer = quantise(plan, np.linspace(3000, 500, channels))
    assert "products_q" in [step.kernel for step in integer.steps]
    assert 3 < np.abs(windows[:, -1]).max() <= np.abs(windows).max() < 32767 / 3000
    expected = run(plan, windows)
    assert np.abs(run(integer, windows) - expected).max() < 0.001 * expected.std()


@pytest.mark.parametrize("hats", [True, False])
@pytest.mark.parametrize(("window", "channels"), [(9, 1), (60, 4)])
def test_trees_in_integers_are_nearly_the_trees(hats: bool, window: int, channels: int) -> None:
    plan = tree_plan(window, channels, hats, trees=100)
    plan = fuse(replace(plan, steps=plan.leading_to("correction")))
    windows = np.random.default_rng(3).normal(size=(2000, window, channels)).astype(np.float32)
    quanta = np.linspace(4000, 1000, channels)
    integer, (step,) = quantise(plan, quanta), coded_steps(plan)
    (whole,) = coded_steps(integer)
    assert (whole.weights["threshold"].dtype, whole.weights["leaf"].dtype) == (np.int16, np.int16)
    expected, paths = outputs_and_codes(plan, np.rint(windows * quanta) / quanta, [step])
    got, whole_paths = outputs_and_codes(integer, windows, [whole])
    assert (paths[:, -1] == whole_paths[:, -1]).mean() > 0.999
    unit, trees = power_of_two_above(np.abs(step.weights["leaf"]).max() / 32767), np.arange(100)
    leaves = step.weights["leaf"][trees, paths[:, :-1] - np.uint32(8)]
    whole_leaves = unit * whole.weights["leaf"][trees, whole_paths[:, :-1] - np.uint32(8)]
    moved = np.abs(leaves - whole_leaves) > unit  # a padded node may go either way: both lead to the same leaf
    assert moved.mean() < 0.002
    apart = got - expected
    assert np.sqrt(np.mean(apart**2)) < 0.03 * expected.std()
    assert abs(apart.mean()) < 3 * (apart.std() / np.sqrt(len(apart)) + 10 * unit / np.sqrt(12))  # not rounded down
    alike = ~moved.any(axis=1) & (paths[:, -1] == whole_paths[:, -1])
    assert np.abs(apart[alike]).max() < 50 * unit


@given(st.integers(-300, 300), st.integers(-32767, 32767), st.floats(1.0, 1000.0))
def test_a_tree_in_integers_goes_where_the_nearest_step_goes(quarters: int, reading: int, quantum: float) -> None:
    """A threshold between two steps of the window divides them; one on a step belongs to the step."""
    weights = {
        "feature": np.zeros((1, 1), int),
        "threshold": np.array([[quarters / 4 / quantum]]),
        "leaf": np.array([[-1.0, 1.0]]),
    }
    ends = {name: np.array([sign * 30000 / quantum]) for name, sign in (("low", -1), ("high", 1))}
    for source, first in (("now", Step("newest", ("x",), "now")), ("all", Step("flatten", ("x",), "all"))):
        plan = Plan(1, 1, (first, Step("trees", (source,), "y", weights | ends)))
        got = run(quantise(plan, np.array([quantum])), np.full((1, 1, 1), reading / quantum))
        inside = abs(reading) <= 30000
        assert got[0] == pytest.approx(inside * (1.0 if reading > quarters / 4 + 1e-6 else -1.0), abs=1e-4)


def test_comparisons_that_no_window_changes_cost_no_precision() -> None:
    plan = tree_plan(trees=60)
    (step,) = coded_steps(plan)
    padded = step.weights["threshold"] > 1e30
    assert 10 < padded.sum() < padded.size / 2
    (whole,) = coded_steps(quantise(fuse(plan), np.full(2, 1000.0)))
    assert whole.settings["shift"] < 14
    assert (whole.weights["threshold"][padded] == 0).sum() > 0.6 * padded.sum()  # the others lie under another one
    never = {**step.weights, "threshold": np.full_like(step.weights["threshold"], -np.finfo(np.float32).max)}
    windows = np.random.default_rng(0).normal(size=(5, plan.window, 2)).astype(np.float32) / 9
    for weights in (never, {**never, "threshold": -never["threshold"]}):
        other = replace(plan, steps=(*plan.steps[:3], replace(step, weights=weights), *plan.steps[4:]))
        got, expected = run(quantise(fuse(other), np.full(2, 1000.0)), windows), run(other, windows)
        np.testing.assert_allclose(got, expected, atol=2e-3)


def test_too_many_trees_are_refused() -> None:
    plan = tree_plan(trees=(1 << 14) + 1, depth=1)
    with pytest.raises(NotApplicableError, match="too many for fixed point"):
        quantise(fuse(plan), np.full(2, 1000.0))


@given(st.floats(0.01, 1000), st.floats(20, 1e6), st.lists(st.integers(-32767, 32767), min_size=1, max_size=6))
def test_products_in_integers_are_within_their_roundings(limit: float, steps: float, row: list[int]) -> None:
    """For `steps` of the window up to the limit: rounded are the number, its factor and the limit, then the half."""
    now, pairs = Step("newest", ("x",), "now"), Step("products", ("now",), "pairs", settings={"limit": limit})
    weight = np.ones((len(row) * (len(row) + 1) // 2, 1))
    plan = Plan(1, len(row), (now, pairs, Step("dense", ("pairs",), "y", {"weight": weight})))
    step = quantise(plan, np.full(len(row), steps / limit)).steps[2]
    got = KERNELS[step.kernel].run(np.array([row], np.int32) << 14, step.weights, step.settings)[0]
    exact = KERNELS["products"].run(np.array([row]) * (limit / steps), {}, {"limit": limit})[0]
    resolution = 2.0 ** -np.floor(np.log2(28000 / limit))
    assert np.abs(got).max() < LARGEST
    assert np.abs(2 * got * resolution**2 - exact).max() <= 2 * limit * resolution * (0.5 + 1 / 16 + 1)


def test_products_of_steps_larger_than_the_limit_have_no_integer_form() -> None:
    plan = curve_plan(9, 1)
    quantise(plan, np.array([1.1]))
    with pytest.raises(NotApplicableError, match="too coarse for products of readings up to ±3"):
        quantise(plan, np.array([0.9]))


@given(st.integers(1 << 28, (1 << 30) - 1))
def test_inverse_root(x: int) -> None:
    root = inverse_root_of(np.array([x]))[0]
    assert abs(root * 2.0**-27 * (x * 2.0**-30) ** 0.5 - 1) < 1e-5
    assert 0 < root < 1 << 28


@given(st.lists(st.integers(-(2**30), 2**30), min_size=8, max_size=8), st.integers(1, 28), st.integers(0, 2**40))
def test_unit_rows_are_rows_divided_by_their_length(row: list[int], down: int, extra: int) -> None:
    numbers = np.array(row) >> down
    length = np.sqrt(float((numbers.astype(float) ** 2).sum()) + extra)
    exact = numbers / length * (2**15 - 2**2) if length else np.zeros(8)
    got = unit_rows(numbers[None], extra)[0]
    assert np.abs(got - exact).max() < 4
    assert (got == got.astype(np.int16)).all()


@given(words, st.integers(1, 15))
def test_rows_go_to_the_top_and_fit(row: list[int], bits: int) -> None:
    numbers = np.array(row)
    spare = spare_bits(numbers)
    assert (np.abs(numbers << spare) <= 2**31).all()
    top = to_top(numbers, spare, bits)
    assert ((-(2**bits) <= top) & (top < 2**bits)).all()


@given(st.integers(0, 2**32 - 1))
def test_leading_zeros(number: int) -> None:
    assert leading_zeros(np.array([number]))[0] == 32 - number.bit_length()


@given(st.integers(-(2**60), 2**60), st.integers(1, 40))
def test_rounded_is_nearest(number: int, bits: int) -> None:
    assert abs(int(rounding_shift(np.array([number]), bits)[0]) * 2**bits - number) <= 2 ** (bits - 1)


@given(st.floats(0, 30))
def test_power_of_two(power: float) -> None:
    got = power_of_two(np.array([round(power * 65536)]))[0] / 2**13
    assert abs(got - 2.0**-power) < 2**-13 + 1e-4


def test_what_one_rounding_loses_the_next_makes_up_for() -> None:
    weights = np.random.default_rng(0).normal(size=(400, 1, 3))
    small, scale = error_diffused(weights)
    lost = np.cumsum(weights - small * scale, axis=0) / scale
    assert (np.abs(lost) <= 0.5 + 1e-9).all()


# the mean of rounding


def check_mean(got: np.ndarray, exact: np.ndarray, allowed: float) -> None:
    """The mean difference of many independent numbers is that of chance, or at most `allowed`."""
    difference = (got - exact).ravel()
    assert abs(difference.mean()) < allowed + 4 * difference.std() / np.sqrt(len(difference))


def test_dropping_low_bits_does_not_shift_the_mean_of_a_dot_product() -> None:
    rng = np.random.default_rng(0)
    row, weight = Step("newest", ("x",), "row"), rng.normal(size=(72, 1))
    made = quantise(Plan(1, 72, (row, dense_step("row", "y", weight))), np.full(72, 4000.0)).steps[2]
    words = rng.integers(-(2**28), 2**28, (4000, 72))
    exact = words @ (made.weights["weight"] / 65536) / 2.0 ** made.weights["shift"]
    check_mean(KERNELS["dense_q"].run(words, made.weights, {}), exact, 0.1)


def test_dropping_low_bits_does_not_shift_the_mean_of_a_lens() -> None:
    rng = np.random.default_rng(1)
    x, weight = rng.integers(-(2**28), 2**28, (2000, 16, 2)), rng.integers(-32767, 32768, (16, 9)).astype(np.int16)
    exact = np.einsum("btc,tl->blc", x.astype(float), weight / 65536)
    check_mean(KERNELS["lens_q"].run(x, {"weight": weight}, {}), exact, 0.1)


def test_dropping_low_bits_does_not_shift_the_mean_of_tokens() -> None:
    rng = np.random.default_rng(3)
    sizes = {"local": (3, 8), "share": (9,), "mix": (8, 8)}
    weights = {name: rng.normal(size=size) for name, size in sizes.items()}
    parts = [
        Step("part", ("row",), name, settings={"start": start, "shape": shape})
        for name, start, shape in (("seen", 0, [9, 3]), ("shared", 27, [8]))
    ]
    tokens = Step("token_rows", ("seen", "shared"), "tokens", {**weights, "bias": np.zeros((9, 8))})
    ends = Step("flatten", ("tokens",), "flat"), dense_step("flat", "y", np.ones((72, 1)))
    integer = quantise(Plan(1, 35, (Step("newest", ("x",), "row"), *parts, tokens, *ends)), np.full(35, 4000.0))
    made = next(step for step in integer.steps if step.kernel == "token_rows_q")
    inputs = [rng.integers(-(2**28), 2**28, (2000, *shape)) for shape in ((9, 3), (8,))]
    exact = {name: made.weights[name] / 65536 for name in sizes} | {"bias": np.zeros((9, 8))}
    expected = KERNELS["token_rows"].run(*(one.astype(float) for one in inputs), exact, {})
    check_mean(KERNELS["token_rows_q"].run(*inputs, made.weights, {}), expected, 0.25)


def test_dropping_low_bits_does_not_shift_the_mean_of_an_attention() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 1 << 16, (2, 2000, 9)).astype(np.uint32)
    words = rng.integers(-(2**28), 2**28, (2000, 9, 8)).astype(np.int32)
    settings = {"bits": 16, "bias": 17}
    exact = KERNELS["bitwise_attention"].run(*codes, words.astype(float), {}, settings)
    step = 2.0 ** (28 - 15)  # of the values, of which 15 bits are taken
    check_mean(KERNELS["bitwise_attention_q"].run(*codes, words, {}, settings), exact, 0.02 * step)


@pytest.mark.parametrize("name", INTEGER)
def test_the_mean_of_a_network_is_corrected(name: str) -> None:
    plan = fuse(fold(random_network(CASES[name], 60, 1).plan()))
    windows = wandering(60, 1, 400)
    raw = quantise(plan, np.array([4000.0]))
    corrected = correct_bias(raw, plan, windows)
    exact = run(plan.astype(np.float64), windows.astype(np.float64))
    before, after = (run(one, windows) - exact for one in (raw, corrected))
    assert abs(after.mean()) <= 0.51 * corrected.steps[-1].settings["unit"] + 1e-7
    np.testing.assert_allclose(after - after.mean(), before - before.mean(), atol=1e-6)
    assert correct_bias(raw, plan, windows[:0]) is raw
