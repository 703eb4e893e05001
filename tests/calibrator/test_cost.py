"""Costs of small plans, counted by hand."""

import numpy as np
import pytest

from scare.calibrator.cost import count
from scare.calibrator.plan import Plan, Step
from scare.kernels import KERNELS, Operations
from tests.calibrator.building import attention_plan, newest_plan


def dense(source: str, output: str, *shape: int) -> Step:
    return Step("dense", (source,), output, {"weight": np.zeros(shape, np.float32)})


def test_the_newest_row_weighted() -> None:
    cost = count(newest_plan(5))
    assert cost.operations == Operations(multiply_adds=2)
    assert cost.peak_bytes == 4 * (5 * 2 + 2)  # x and the newest row; then the newest row and y
    assert cost.retained_bytes == 4 * (5 * 2 + 2 + 1)
    assert (cost.weight_bytes, cost.weights) == (4 * 3, 3)


def test_flatten_is_a_view() -> None:
    cost = count(Plan(10, 3, (Step("flatten", ("x",), "flat"), dense("flat", "y", 30, 1))))
    assert cost.operations == Operations(multiply_adds=30)
    assert cost.peak_bytes == cost.retained_bytes == 4 * (30 + 1)


def test_a_view_keeps_what_it_looks_at_alive() -> None:
    steps = (
        dense("x", "a", 2, 5),  # 4·5 numbers
        Step("flatten", ("a",), "flat"),
        dense("flat", "b", 20, 3),
        dense("b", "c", 3, 30),
        dense("flat", "d", 20, 30),
        Step("add", ("c", "d"), "e"),
        dense("e", "y", 30, 1),
    )
    cost = count(Plan(4, 2, steps))
    # a: x 8 + 20; b: 20 + 3; c: a 20 + b 3 + c 30; d: a 20 + c 30 + d 30; e: c 30 + d 30 + e 30; y: 30 + 1
    assert cost.peak_bytes == 4 * 90
    assert cost.retained_bytes == 4 * (8 + 20 + 3 + 30 + 30 + 30 + 1)
    multiply_adds = 8 * 5 + 20 * 3 + 3 * 30 + 20 * 30 + 30
    assert cost.operations == Operations(multiply_adds=multiply_adds, additions=30)
    assert cost.weights == 10 + 60 + 90 + 600 + 30


def test_the_peak_of_a_chain_is_its_widest_neighbours() -> None:
    steps = (Step("newest", ("x",), "now"), dense("now", "a", 2, 7), dense("a", "b", 7, 9), dense("b", "y", 9, 1))
    cost = count(Plan(3, 2, steps))
    assert cost.peak_bytes == 4 * (7 + 9)
    assert cost.retained_bytes == 4 * (6 + 2 + 7 + 9 + 1)


def test_weights_are_counted_in_their_own_number_type() -> None:
    assert count(newest_plan().astype(np.float64)).weight_bytes == 8 * 3


@pytest.mark.parametrize(
    ("kernel", "shapes", "weights", "settings", "expected"),
    [
        ("hat_basis", [(10, 2)], {"knot": (10,)}, {"knots": 4}, Operations(20, 40)),
        ("lens", [(10, 2)], {"weight": (10, 4)}, {}, Operations(80)),
        ("dense", [(3, 5)], {"weight": (5, 7)}, {}, Operations(105)),
        ("add_outer", [(3, 5), (5,)], {"share": (3,)}, {}, Operations(15)),
        ("add", [(3, 5), (3, 5)], {}, {}, Operations(0, 15)),
        ("relu", [(3, 5)], {}, {}, Operations()),
        ("flatten", [(3, 5)], {}, {}, Operations()),
        ("newest", [(3, 5)], {}, {}, Operations()),
        ("layer_norm", [(3, 5)], {"gain": (5,)}, {}, Operations(45, 30, divisions=6)),
        # a token: squares 5, unit vector 5, 6 dot products of 5, 6·8 of the projection
        (
            "hash_codes",
            [(3, 5)],
            {"supports": (6, 5), "projection": (6, 8)},
            {},
            Operations(3 * (5 + 5 + 30 + 48), 18, exponentials=18, divisions=6),
        ),
        # a token: squares 5, 6 distances of 5 products, two sums and a scale, 6·8 of the projection
        (
            "raw_hash_codes",
            [(3, 5)],
            {"supports": (6, 5), "projection": (6, 8)},
            {},
            Operations(3 * (5 + 30 + 6 + 48), 36, exponentials=18),
        ),
        # 3·4 pairs: XOR and popcount, one sum of weights, 5 values each; a division a query
        ("bitwise_attention", [(3,), (4,), (4, 5)], {}, {"bits": 8}, Operations(60, 12, 24, divisions=3)),
        # 3·4 pairs: dot product of 6 and 4 values; a head: largest, sum and exponential of each score
        (
            "softmax_attention",
            [(3, 6), (4, 6), (4, 4)],
            {},
            {"heads": 2},
            Operations(120, 48, exponentials=24, divisions=6),
        ),
        ("products", [(4,)], {}, {"limit": 3.0}, Operations(10)),
        ("leaky_relu", [(16,)], {}, {}, Operations(16)),
        # 100 trees: 3 comparisons and a leaf each; 4 guarded numbers between two limits
        ("trees", [(10,)], {"feature": (100, 7), "low": (4,)}, {}, Operations(0, 408)),
        ("sigmoid_mean", [(10, 2)], {}, {}, Operations(0, 40, exponentials=20, divisions=22)),
        ("select", [(1,), (1,), (1,)], {}, {}, Operations()),
        # 10 rows of 3 units: 4·(2 + 3) products of gates and 3 more; 3 sigmoids (+ 1) and 2 tanh (± 1)
        (
            "lstm",
            [(10, 2)],
            {"input": (2, 12), "hidden": (3, 12)},
            {},
            Operations(30 * 23, 30 * 7, exponentials=150, divisions=150),
        ),
    ],
)
def test_each_kernel_counted_by_hand(
    kernel: str,
    shapes: list[tuple[int, ...]],
    weights: dict[str, tuple[int, ...]],
    settings: dict[str, int],
    expected: Operations,
) -> None:
    assert KERNELS[kernel].cost(*shapes, weights, settings) == expected


def test_a_plan_costs_the_sum_of_its_steps() -> None:
    plan, total = attention_plan(), Operations()
    for step in plan.steps:
        shapes = [plan.shapes[name] for name in step.inputs]
        total += KERNELS[step.kernel].cost(*shapes, step.weight_shapes, step.settings)
    assert count(plan).operations == total
    assert total.multiply_adds > 0
    assert total.bit_operations == 2 * 3 * 3
