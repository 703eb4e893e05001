"""NLinear moves with the level of the window: its weights sum to one whatever is trained."""

import jax
import numpy as np
import pytest

from scare.baselines.nlinear import NLinear, NLinearNetwork
from scare.calibrator.plan import run

pytestmark = pytest.mark.usefixtures("double")
WINDOW = 9


def random_network(channels: int) -> NLinearNetwork:
    rng = np.random.default_rng(0)
    return NLinearNetwork(WINDOW, channels, rng.normal(size=(WINDOW, channels)), np.array(0.7))


def random_windows(channels: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(5, WINDOW, channels))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_network_maps_differences_to_the_newest_reading_and_adds_it_back(channels: int) -> None:
    network, x = random_network(channels), random_windows(channels)
    expected = []
    for window in x:
        last = window[-1].copy()
        parts = [network.weight[:, c] @ (window[:, c] - last[c]) for c in range(channels)]
        expected.append(sum(parts) + 0.7 + last[0])
    np.testing.assert_allclose(network(x), expected, rtol=1e-10)
    np.testing.assert_allclose(run(network.plan(), x), expected, rtol=1e-10)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_weights_of_the_plan_sum_to_one_for_the_sensor_and_to_zero_for_other_channels(channels: int) -> None:
    weight = random_network(channels).plan().steps[-1].weights["weight"].reshape(WINDOW, channels)
    np.testing.assert_allclose(weight.sum(axis=0), [1.0] + [0.0] * (channels - 1), atol=1e-12)


def test_a_constant_added_to_the_sensor_is_added_to_the_output() -> None:
    network, x = random_network(3), random_windows(3)
    shifted, elsewhere = x + np.array([2.5, 0, 0]), x + np.array([0, -4.0, 1.0])
    np.testing.assert_allclose(network(shifted), network(x) + 2.5, rtol=1e-10)
    np.testing.assert_allclose(network(elsewhere), network(x), rtol=1e-10)


def test_the_weight_of_the_newest_reading_is_never_trained() -> None:
    network, x = random_network(1), random_windows(1)
    slope = jax.grad(lambda weight: (NLinearNetwork(WINDOW, 1, weight, network.bias)(x) ** 2).sum())(network.weight)
    assert slope[-1, 0] == 0
    assert np.abs(slope[:-1]).min() > 0


def test_the_newest_reading_is_a_constant_for_gradients() -> None:
    network, x = random_network(1), random_windows(1)
    slope = jax.grad(lambda windows: network(windows).sum())(x)
    np.testing.assert_allclose(slope, np.broadcast_to(network.weight, x.shape), rtol=1e-12)


def test_sizes_at_the_published_window() -> None:
    assert NLinear().parameters(360, 1) == 361
    assert NLinear().operations(360, 1).multiply_adds == 360
