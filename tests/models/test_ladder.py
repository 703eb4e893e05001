"""A rung is taken only where validation says that it pays; the mix of what is taken never loses to any of it."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare.models.selection import NAMES, Selection, SelectionRules, mix, select
from scare.windowing.examples import DesignMatrix

ROWS, COUNT, USUAL = 3, 1200, SelectionRules()
LINE, OTHERS, HISTORY, WITH_FIRST, EVERY = NAMES
Truth = Callable[
    [np.ndarray, np.ndarray, np.ndarray], np.ndarray
]  # of the newest two readings and the oldest first one


def products(features: np.ndarray) -> np.ndarray:
    first, second = np.triu_indices(features.shape[2])
    return features[:, 0, first] * features[:, 0, second]


def climbed(truth: Truth, noise: float = 0.3, rules: SelectionRules = USUAL, channels: int = 2) -> Selection:
    """The ladder on features [n, rows, channels], whose row 0 is the newest."""
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(2):
        x = rng.normal(size=(COUNT, ROWS, channels))
        target = truth(x[:, 0, 0], x[:, 0, -1], x[:, 2, 0]) + noise * rng.normal(size=COUNT)
        parts.append(DesignMatrix(x, target, np.arange(float(COUNT))))
    return select(*parts, 0, products, rules)


@pytest.mark.parametrize(
    ("truth", "admitted"),
    [
        (lambda a, b, old: 2 * a, {LINE}),
        (lambda a, b, old: 2 * a - b, {LINE, OTHERS}),
        (lambda a, b, old: 2 * a + old, {LINE, HISTORY}),
        (lambda a, b, old: 2 * a + a * b, {LINE, WITH_FIRST}),
        (lambda a, b, old: 2 * a + b * b, {LINE, EVERY}),
    ],
)
def test_exactly_the_rungs_that_the_truth_needs_are_admitted(truth: Truth, admitted: set[str]) -> None:
    found = climbed(truth)
    assert {rung.name for rung in found.rungs if rung.admitted} == admitted
    assert found.rmse == pytest.approx(0.3, rel=0.1)


def test_a_line_keeps_the_slope_of_training_however_flat_validation_is() -> None:
    x = np.random.default_rng(3).normal(size=(400, 1, 1))
    times = np.arange(400.0)
    train, flat = DesignMatrix(x, 2 * x[:, 0, 0], times), DesignMatrix(x, 0.5 * x[:, 0, 0], times)
    assert select(train, flat, 0, None, USUAL).solution[0] == pytest.approx([2.0], rel=1e-3)


def test_a_small_fall_is_admitted_only_if_it_is_sure() -> None:
    def truth(a: np.ndarray, b: np.ndarray, old: np.ndarray) -> np.ndarray:
        return a + 0.1 * b  # lowers the error by about 5 %

    for sureness, expected in ((1.64, True), (50.0, False)):
        found = climbed(truth, rules=SelectionRules(sureness=sureness))
        others = next(rung for rung in found.rungs if rung.name == OTHERS)
        assert USUAL.sure_fall < others.fall < USUAL.clear_fall
        assert others.admitted is expected
    assert not climbed(truth, rules=SelectionRules(sure_fall=0.07)).rungs[1].admitted


def test_one_channel_has_no_rung_of_other_channels() -> None:
    found = climbed(lambda a, b, old: a, channels=1)
    assert [rung.name for rung in found.rungs] == [LINE, HISTORY, WITH_FIRST]


def test_weights_are_zero_where_nothing_admitted_reads() -> None:
    weights, _ = climbed(lambda a, b, old: 2 * a - b).solution
    assert np.count_nonzero(weights) == 2
    np.testing.assert_allclose(weights[:2], [2, -1], atol=0.05)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_a_mix_never_loses_to_what_it_is_made_of(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    wide, targets = rng.normal(size=(80, 4)), rng.normal(size=80)
    solutions = [(rng.normal(size=4), float(rng.normal())) for _ in range(count)]
    errors = [
        np.square(wide @ weights + bias - targets).mean()
        for weights, bias in [*solutions, mix(solutions, wide, targets)]
    ]
    assert errors[-1] <= min(errors) + 1e-6
