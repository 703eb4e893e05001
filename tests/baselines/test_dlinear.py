"""DLinear is two linear maps of a window and its moving average, and so one linear map."""

import jax
import numpy as np
import pytest

from scare.baselines.dlinear import DLinear, DLinearNetwork, moving_average
from scare.calibrator.moments import Moments
from scare.calibrator.plan import run
from scare.errors import UsageError

pytestmark = pytest.mark.usefixtures("double")


def average_by_hand(x: np.ndarray, kernel: int) -> np.ndarray:
    """The published padding: the first reading (kernel − 1)/2 times before, the last as often after."""
    half = (kernel - 1) // 2
    padded = [x[0]] * half + list(x) + [x[-1]] * half
    return np.array([sum(padded[start : start + kernel]) / kernel for start in range(len(x))])


def random_network(window: int, channels: int) -> DLinearNetwork:
    rng = np.random.default_rng(0)
    seasonal, trend = rng.normal(size=(2, window, channels))
    return DLinearNetwork(window, channels, 25, seasonal, np.array(0.3), trend, np.array(-1.1))


@pytest.mark.parametrize("window", [4, 15, 24, 25, 60])  # shorter than the kernel too
def test_the_moving_average_is_centred_and_repeats_the_edges(window: int) -> None:
    x = np.random.default_rng(1).normal(size=window)
    np.testing.assert_allclose(moving_average(window, 25) @ x, average_by_hand(x, 25), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(moving_average(window, 25).sum(axis=1), 1.0)


@pytest.mark.parametrize(("window", "channels"), [(15, 1), (15, 3), (60, 1)])
def test_the_network_is_its_closed_form(window: int, channels: int) -> None:
    network, x = random_network(window, channels), np.random.default_rng(2).normal(size=(5, window, channels))
    expected = np.full(5, 0.3 - 1.1)
    for b in range(5):
        for channel in range(channels):
            trend = average_by_hand(x[b, :, channel], 25)
            expected[b] += network.trend[:, channel] @ trend
            expected[b] += network.seasonal[:, channel] @ (x[b, :, channel] - trend)
    np.testing.assert_allclose(network(x), expected, rtol=1e-10)
    np.testing.assert_allclose(run(network.plan(), x), expected, rtol=1e-10)


def test_a_new_network_is_the_mean_of_the_window() -> None:
    x = np.random.default_rng(3).normal(size=(4, 30, 2))
    network = DLinear().build(30, 2, jax.random.key(0))
    np.testing.assert_allclose(network(x), x.mean(axis=(1, 2)), rtol=1e-6, atol=1e-8)


def test_any_ridge_solution_is_a_network_so_ridge_is_its_floor() -> None:
    x = np.random.default_rng(4).normal(size=(300, 6, 1)).cumsum(axis=1)
    y = x[:, -1, 0] - 0.4 * x[:, 2, 0] + 0.2
    weights, bias = Moments.from_batches([(x[:, :, 0], y)], 6).solve(1e-9)
    same = weights[:, None]  # equal maps for both parts: the decomposition cancels
    network = DLinearNetwork(6, 1, 25, same, np.array(bias), same, np.array(0.0))
    np.testing.assert_allclose(network(x), y, atol=1e-6)


def test_sizes_at_the_published_window() -> None:
    assert DLinear().parameters(360, 1) == 722
    assert DLinear().operations(360, 1).multiply_adds == 360


def test_an_average_without_a_centre_is_refused() -> None:
    with pytest.raises(UsageError, match="odd number of readings, not 24"):
        DLinear(kernel=24)
