"""A learner is weighted least squares with a prior, bounded, tested on pairs it has not seen, and can be stored."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from scare.errors import DataError
from scare.upkeep.learner import (
    ARITHMETICS,
    BLOB_WORDS,
    FIXED,
    FLOAT32,
    LIMIT,
    STEP,
    Learner,
    LearnerSettings,
    PairOutcome,
    quotient,
)

SETTINGS = LearnerSettings(size=4, memory_bits=7, round=20)
BOTH = pytest.mark.parametrize("arithmetic", [FLOAT32, FIXED])


def drifted(
    count: int, coefficients: tuple[float, ...], noise: float = 0.1, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Features [count, 4], and residuals that these coefficients explain but for some noise."""
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.normal(size=(count, 3)), np.ones(count)])
    return features, features @ np.array(coefficients) + rng.normal(0, noise, count)


def taught(arithmetic: str, features: np.ndarray, residuals: np.ndarray) -> tuple[Learner, list[PairOutcome]]:
    learner = Learner(SETTINGS, 5, arithmetic)
    return learner, [learner.learn(*pair) for pair in zip(features, residuals, strict=True)]


@BOTH
def test_a_candidate_is_weighted_ridge_regression(arithmetic: str) -> None:
    features, residuals = drifted(100, (0.2, 0.1, -0.1, 0.3))
    learner, _ = taught(arithmetic, features, residuals)
    keep = 1 - 2.0**-SETTINGS.memory_bits
    weights = (1 - keep) * keep ** np.arange(99, -1, -1)
    matrix = (features * weights[:, None]).T @ features + np.diag(SETTINGS.prior)
    expected = np.linalg.solve(matrix, (features * weights[:, None]).T @ residuals)
    scale = 1.0 if arithmetic == FLOAT32 else 2.0**-24
    assert_allclose(learner.state.shadow * scale, expected, atol=1e-5 if arithmetic == FLOAT32 else 2e-3)


@BOTH
def test_a_drift_is_learned_after_two_rounds_and_helps(arithmetic: str) -> None:
    features, residuals = drifted(200, (0.2, 0.0, 0.0, 0.4))
    learner, outcomes = taught(arithmetic, features, residuals)
    assert outcomes.index(PairOutcome.BETTER) == 2 * SETTINGS.round - 1
    correction = ARITHMETICS[arithmetic].correction
    left = residuals - np.array([correction(learner.state.active, row.astype(np.float32)) for row in features])
    assert np.square(left).mean() < 0.2 * np.square(residuals).mean()


@BOTH
def test_noise_teaches_nothing(arithmetic: str) -> None:
    learner, outcomes = taught(arithmetic, *drifted(400, (0.0, 0.0, 0.0, 0.0), noise=0.3))
    assert set(outcomes) == {PairOutcome.TAKEN}
    assert not learner.coefficients.any()


@BOTH
def test_what_was_learned_is_given_up_when_it_is_wrong(arithmetic: str) -> None:
    features, residuals = drifted(60, (0.0, 0.0, 0.0, 0.5))
    learner, outcomes = taught(arithmetic, features, residuals)
    assert PairOutcome.BETTER in outcomes
    features, residuals = drifted(SETTINGS.round, (0.0, 0.0, 0.0, 0.0), seed=1)
    assert PairOutcome.REVERTED in [learner.learn(*pair) for pair in zip(features, residuals, strict=True)]
    assert not learner.coefficients.any()


@BOTH
@given(st.lists(st.tuples(*[st.floats(width=32)] * 4), min_size=6, max_size=12))
@settings(max_examples=20)
def test_whatever_the_pairs_are_coefficients_move_by_steps_and_stay_finite(
    arithmetic: str, pairs: list[tuple[float, ...]]
) -> None:
    learner, before = Learner(LearnerSettings(4, 4, 2), 5, arithmetic), np.zeros(4)
    for *features, residual in pairs:
        learner.learn(np.array([*features, 1.0]), residual)
        assert np.isfinite(learner.coefficients).all()
        assert np.abs(learner.coefficients - before).max() <= STEP * 1.001 or not learner.coefficients.any()
        before = learner.coefficients


@BOTH
@pytest.mark.parametrize("residual", [np.nan, np.inf, 2 * LIMIT])
def test_what_is_no_pair_changes_nothing(arithmetic: str, residual: float) -> None:
    learner = Learner(SETTINGS, 5, arithmetic)
    before = learner.store()
    assert learner.learn(np.ones(4), residual) is PairOutcome.REFUSED
    assert learner.learn(np.array([1.0, np.nan, 0.0, 1.0]), 0.1) is PairOutcome.REFUSED
    assert learner.store() == before


@BOTH
def test_references_that_do_not_follow_the_values_teach_nothing(arithmetic: str) -> None:
    rng = np.random.default_rng(3)
    features = np.column_stack([rng.normal(size=(400, 3)), np.ones(400)])
    for references in (np.full(400, 0.3), rng.normal(size=400), 0.001 * features[:, 0] - 1.0):
        _, outcomes = taught(arithmetic, features, references - features[:, 0])
        assert set(outcomes) == {PairOutcome.TAKEN}


@BOTH
def test_a_stored_learner_goes_on_as_if_nothing_had_happened(arithmetic: str) -> None:
    features, residuals = drifted(150, (0.1, 0.1, 0.0, 0.3))
    whole, _ = taught(arithmetic, features, residuals)
    first, _ = taught(arithmetic, features[:70], residuals[:70])
    second = Learner(SETTINGS, 5, arithmetic)
    blob = first.store()
    assert len(blob) == 4 * BLOB_WORDS == 248
    second.restore(blob)
    for pair in zip(features[70:], residuals[70:], strict=True):
        second.learn(*pair)
    assert second.store() == whole.store()


@BOTH
def test_a_damaged_or_foreign_blob_is_refused(arithmetic: str) -> None:
    learner, _ = taught(arithmetic, *drifted(70, (0.1, 0.1, 0.0, 0.3)))
    blob = learner.store()
    for wrong in (blob[:-1], b"", bytes([blob[0] ^ 1]) + blob[1:], blob[:100] + b"\xff" + blob[101:]):
        with pytest.raises(DataError, match="damaged"):
            Learner(SETTINGS, 5, arithmetic).restore(wrong)
    other = FIXED if arithmetic == FLOAT32 else FLOAT32
    for stranger in (Learner(SETTINGS, 6, arithmetic), Learner(SETTINGS, 5, other)):
        with pytest.raises(DataError, match="another calibrator"):
            stranger.restore(blob)


@given(st.integers(-(2**31) + 1, 2**31 - 1), st.integers(1 << 12, 2**31 - 1))
def test_a_quotient_is_as_good_as_29_bits(number: int, divisor: int) -> None:
    exact = number * 2**24 / divisor
    clamped = min(max(exact, -(2**31) + 1), 2**31 - 1)
    assert abs(quotient(number, divisor) - clamped) <= 2 + abs(clamped) * 2.0**-28
