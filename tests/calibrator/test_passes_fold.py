"""Folding gives the same function for the same number of operations or fewer."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from scare.calibrator.cost import count
from scare.calibrator.passes import fold
from scare.calibrator.plan import Plan, Step, run
from tests.calibrator.building import attention_plan


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
