"""Privacy: the noise is exactly as much as (ε, δ) needs, and moments with it can be used."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.errors import DataError, UsageError
from scare.federated.privacy import Privacy, gaussian_sigma

LOW, HIGH = np.array([0.0, -20.0, 0.0]), np.array([100.0, 40.0, 80.0])


def delta_of(epsilon: float, sensitivity: float, sigma: float) -> float:
    """The smallest δ by definition: the mass by which one outcome's density exceeds e^ε times the other's."""
    x = np.linspace(-40 * sigma, 40 * sigma + sensitivity, 400_001)
    here, there = (np.exp(-0.5 * ((x - at) / sigma) ** 2) / sigma / np.sqrt(2 * np.pi) for at in (sensitivity, 0.0))
    return float(np.trapezoid(np.maximum(here - np.exp(epsilon) * there, 0), x))


@pytest.mark.parametrize("epsilon", [0.1, 0.9, 2.0, 8.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
@pytest.mark.parametrize("sensitivity", [1.0, 120.0])
def test_the_noise_gives_epsilon_and_delta_and_no_more_than_that(
    epsilon: float, delta: float, sensitivity: float
) -> None:
    sigma = gaussian_sigma(epsilon, delta, sensitivity)
    assert delta_of(epsilon, sensitivity, sigma) == pytest.approx(delta, rel=2e-3)
    assert delta_of(epsilon, sensitivity, 0.97 * sigma) > 1.02 * delta
    if epsilon < 1:
        assert sigma < np.sqrt(2 * np.log(1.25 / delta)) * sensitivity / epsilon


@given(st.integers(0, 1000), st.integers(2, 6))
def test_a_row_changes_the_sums_by_no_more_than_their_sensitivity(seed: int, size: int) -> None:
    z = np.append(1.0, np.random.default_rng(seed).uniform(-1, 1, size - 1))
    changed = np.outer(z, z)[np.triu_indices(size)]  # each of the numbers that get noise, once
    assert np.linalg.norm(changed) <= size
    assert Privacy(1.0, rows=24).sigma(size) == gaussian_sigma(1.0, 1e-6, 24 * size)


def test_moments_with_noise_are_close_with_many_rows_and_could_be_those_of_rows() -> None:
    rng = np.random.default_rng(1)
    columns = np.column_stack([rng.uniform(5, 60, 20_000), rng.normal(12, 6, 20_000)])
    targets = 0.8 * columns[:, 0] + rng.normal(0, 2, 20_000)
    moments = Privacy(1.0).noisy_moments(columns, targets, LOW, HIGH, rng)
    assert moments.count == pytest.approx(20_000, rel=0.01)
    np.testing.assert_allclose(moments.mean, columns.mean(axis=0), atol=0.3)
    assert moments.solve(1e-4)[0][0] == pytest.approx(0.8, abs=0.05)
    assert np.linalg.eigvalsh(moments.covariance).min() > 0


def test_readings_beyond_the_agreed_range_count_as_its_end() -> None:
    columns = np.array([[1e9, 0.0]] * 5000)
    moments = Privacy(99.0).noisy_moments(columns, np.full(5000, 40.0), LOW, HIGH, np.random.default_rng(0))
    assert moments.mean[0] == pytest.approx(100, abs=1)


def test_noise_that_hides_everything_is_refused() -> None:
    with pytest.raises(DataError, match="the noise hides the rows; take a larger epsilon"):
        Privacy(0.001).noisy_moments(np.zeros((3, 2)), np.zeros(3), LOW, HIGH, np.random.default_rng(3))


@pytest.mark.parametrize("numbers", [(0.0, 1e-6, 1), (1.0, 0.5, 1), (1.0, 1e-6, 0), (float("nan"), 1e-6, 1)])
def test_privacy_that_means_nothing_is_refused(numbers: tuple[float, float, int]) -> None:
    with pytest.raises(UsageError, match="an epsilon above 0"):
        Privacy(*numbers)
