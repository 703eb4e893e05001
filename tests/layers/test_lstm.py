"""A long short-term memory, unit by unit."""

import numpy as np
import pytest

from scare.baselines.sendal import Lstm
from tests.layers.numbers_for_layers import compute, random_layer, random_tokens

BATCH, ROWS, HIDDEN = 3, 6, 4
pytestmark = pytest.mark.usefixtures("double")


def sigmoid(number: float) -> float:
    return float(1 / (1 + np.exp(-number)))


@pytest.mark.parametrize("channels", [1, 3])
def test_it_gives_the_last_state_and_so_do_its_kernel_calls(channels: int) -> None:
    layer, x = random_layer(Lstm.create, channels, HIDDEN), random_tokens(BATCH, ROWS, channels)
    expected = np.empty((BATCH, HIDDEN))
    for b, window in enumerate(x):
        state, memory = np.zeros(HIDDEN), np.zeros(HIDDEN)
        for row in window:
            gates = row @ layer.input + layer.input_bias + state @ layer.hidden + layer.hidden_bias
            write, keep, new, show = gates.reshape(4, HIDDEN)
            for unit in range(HIDDEN):
                memory[unit] = sigmoid(keep[unit]) * memory[unit] + sigmoid(write[unit]) * np.tanh(new[unit])
                state[unit] = sigmoid(show[unit]) * np.tanh(memory[unit])
        expected[b] = state
    np.testing.assert_allclose(layer(x), expected, rtol=1e-11)
    np.testing.assert_allclose(compute(layer.steps("x", "h"), "h", (HIDDEN, 1), x), expected, rtol=1e-11)


def test_the_published_size_has_1216_parameters() -> None:
    layer = random_layer(Lstm.create, 1, 16)
    assert sum(array.size for array in (layer.input, layer.hidden, layer.input_bias, layer.hidden_bias)) == 1216
