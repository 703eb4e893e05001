"""A candidate is taken only where validation says that it pays; the mix of what is taken never loses to any of it."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare.models.selection import CANDIDATES, Selection, SelectionRules, mix, select
from scare.windowing.examples import DesignMatrix

ROWS, COUNT, USUAL = 3, 1200, SelectionRules()
LINE, OTHERS, HISTORY, WITH_FIRST, EVERY = CANDIDATES
Truth = Callable[
    [np.ndarray, np.ndarray, np.ndarray], np.ndarray
]  # of the newest two readings and the oldest first one


def products(features: np.ndarray) -> np.ndarray:
    first, second = np.triu_indices(features.shape[2])
    return features[:, 0, first] * features[:, 0, second]


def selected(truth: Truth, noise: float = 0.3, rules: SelectionRules = USUAL, channels: int = 2) -> Selection:
    """Selection on features [n, rows, channels], whose row 0 is the newest."""
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
def test_exactly_the_candidates_that_the_truth_needs_are_admitted(truth: Truth, admitted: set[str]) -> None:
    found = selected(truth)
    assert {candidate.name for candidate in found.candidates if candidate.admitted} == admitted
    assert found.rmse == pytest.approx(0.3, rel=0.1)


def test_a_line_keeps_the_slope_of_training_however_flat_validation_is() -> None:
    x = np.random.default_rng(3).normal(size=(400, 1, 1))
    times = np.arange(400.0)
    train, flat = DesignMatrix(x, 2 * x[:, 0, 0], times), DesignMatrix(x, 0.5 * x[:, 0, 0], times)
    assert select(train, flat, 0, None, USUAL).solution[0] == pytest.approx([2.0], rel=1e-3)


def test_a_small_improvement_is_admitted_only_if_it_is_significant() -> None:
    def truth(a: np.ndarray, b: np.ndarray, old: np.ndarray) -> np.ndarray:
        return a + 0.1 * b  # lowers the error by about 5 %

    for z_score, expected in ((1.64, True), (50.0, False)):
        found = selected(truth, rules=SelectionRules(z_score=z_score))
        others = next(candidate for candidate in found.candidates if candidate.name == OTHERS)
        assert USUAL.significant_improvement < others.improvement < USUAL.clear_improvement
        assert others.admitted is expected
    assert not selected(truth, rules=SelectionRules(significant_improvement=0.07)).candidates[1].admitted


def test_one_channel_has_no_candidate_of_other_channels() -> None:
    found = selected(lambda a, b, old: a, channels=1)
    assert [candidate.name for candidate in found.candidates] == [LINE, HISTORY, WITH_FIRST]


def test_weights_are_zero_where_nothing_admitted_reads() -> None:
    weights, _ = selected(lambda a, b, old: 2 * a - b).solution
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
