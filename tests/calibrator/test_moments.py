"""Moments: those of parts, pooled, are those of all rows; errors and regressions follow from them alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.calibrator.moments import Moments


def rows_of(seed: int, count: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlated columns about a large level, and a target."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, columns)) @ rng.normal(size=(columns, columns)) + 1e4 * rng.random(columns)
    return rows, rows @ rng.normal(size=columns) + rng.normal(size=count) - 300


@given(
    st.integers(0, 10_000), st.integers(1, 5), st.lists(st.integers(1, 40), min_size=2, max_size=5), st.floats(1e-6, 1)
)
def test_the_regression_of_pooled_moments_is_that_of_all_rows(
    seed: int, columns: int, counts: list[int], penalty: float
) -> None:
    rows, targets = rows_of(seed, sum(counts), columns)
    borders = np.cumsum(counts)[:-1]
    parts = zip(np.split(rows, borders), np.split(targets, borders), strict=True)
    weights, bias = Moments.pooled([Moments.from_rows(*part) for part in parts]).solve(penalty)
    # Ridge regression by its definition, as least squares with one more row for each weight.
    centered = np.concatenate([rows - rows.mean(axis=0), np.sqrt(penalty * len(rows)) * np.eye(columns)])
    wanted = np.linalg.lstsq(centered, np.concatenate([targets - targets.mean(), np.zeros(columns)]), rcond=None)[0]
    level = np.abs(wanted).max() + 1e-12
    np.testing.assert_allclose(weights / level, wanted / level, rtol=0, atol=1e-7)
    assert bias == pytest.approx(targets.mean() - rows.mean(axis=0) @ weights, rel=1e-9)


@given(st.integers(0, 10_000), st.integers(2, 60), st.integers(1, 4))
def test_an_error_follows_from_moments(seed: int, count: int, columns: int) -> None:
    rows, targets = rows_of(seed, count, columns)
    rng = np.random.default_rng(seed + 1)
    weights, bias = rng.normal(size=columns), float(rng.normal())
    wanted = float(np.square(targets - rows @ weights - bias).mean())
    assert Moments.from_rows(rows, targets).mean_squared_error((weights, bias)) == pytest.approx(wanted, rel=1e-8)


@given(st.integers(0, 10_000))
def test_scaled_moments_are_those_of_scaled_rows(seed: int) -> None:
    rows, targets = rows_of(seed, 30, 3)
    center, scale = rows.mean(axis=0) + 1, np.array([0.5, 2.0, 7.0])
    scaled = Moments.from_rows(rows, targets).scaled(center, scale, 5.0, 3.0)
    wanted = Moments.from_rows((rows - center) / scale, (targets - 5) / 3)
    for name, value in vars(wanted).items():
        np.testing.assert_allclose(getattr(scaled, name), value, rtol=1e-7, atol=1e-7)


def test_columns_that_are_left_out_have_no_weight() -> None:
    rows, targets = rows_of(0, 50, 4)
    weights, _ = Moments.from_rows(rows, targets).solve(1e-3, np.array([1, 3]))
    alone, _ = Moments.from_rows(rows[:, [1, 3]], targets).solve(1e-3)
    np.testing.assert_allclose(weights, [0, alone[0], 0, alone[1]])
