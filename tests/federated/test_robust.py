"""A robust mean: hostile sites cannot move it beyond what honest ones sent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.errors import DataError
from scare.federated.robust import MOST_NORM, robust_mean


@given(st.integers(0, 10_000), st.integers(1, 3), st.floats(-1e12, 1e12))
def test_scaled_updates_of_hostile_sites_are_bounded(seed: int, hostile: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    honest = rng.normal(1, 0.3, size=(2 * hostile + 1 - hostile, 20))
    updates = rng.permutation(np.concatenate([honest, factor * rng.normal(size=(hostile, 20))]))
    mean = robust_mean(updates, hostile)
    assert np.linalg.norm(mean) <= MOST_NORM * np.linalg.norm(honest, axis=1).max() * np.sqrt(20)
    low, high = np.minimum(honest.min(axis=0), 0), np.maximum(honest.max(axis=0), 0)  # shortened towards 0
    assert ((mean >= low - 1e-9) & (mean <= high + 1e-9)).all()


def test_alike_updates_are_averaged() -> None:
    updates = np.random.default_rng(0).normal(1, 1e-3, size=(5, 8))
    np.testing.assert_allclose(robust_mean(updates, 0), updates.mean(axis=0))
    np.testing.assert_allclose(robust_mean(updates, 1), 1, atol=2e-3)


def test_two_sites_are_averaged() -> None:
    np.testing.assert_allclose(robust_mean(np.array([[1.0, 0.0], [0.0, 1.0]]), 1), 0.5)


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(DataError, match="not finite"):
        robust_mean(np.array([[1.0], [np.nan]]), 1)
