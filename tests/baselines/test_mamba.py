"""Mamba against the plain recurrence, how it starts, and what it costs."""

import equinox as eqx
import jax
import numpy as np
import pytest

from scare.baselines import Mamba
from scare.baselines.mamba import MambaNetwork, newest_output
from scare.calibrator.cost import count
from scare.calibrator.plan import run
from scare.calibrator.plan_passes import fold
from scare.errors import UsageError

SMALL = Mamba(width=6, expand=2, head_width=4, state=3, taps=4)


def random_network(model: Mamba, window: int, channels: int, seed: int = 0) -> MambaNetwork:
    """Every number drawn anew in float64, gains and biases too."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: model.build(window, channels, jax.random.key(0)))
    return jax.tree.map(lambda leaf: 0.7 * rng.normal(size=leaf.shape), shapes)


@eqx.filter_jit
def compute(network: MambaNetwork, windows: np.ndarray) -> jax.Array:
    return network(windows)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def root_mean_square(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-5) * gain


def mix_every_row(mixer: object, tokens: np.ndarray, state: int, heads: int) -> np.ndarray:
    """The whole block on tokens [rows, width], one joint projection and one row after the other: [rows, width]."""
    inner = mixer.out.shape[0]
    joint = np.concatenate([mixer.gate, mixer.value, mixer.write, mixer.read, mixer.step], axis=1)
    gate, rest, step = np.split(tokens @ joint, [inner, 2 * inner + 2 * state], axis=1)
    parts = (mixer.value_convolution, mixer.write_convolution, mixer.read_convolution)
    taps = np.concatenate([part.taps for part in parts], axis=1)
    bias = np.concatenate([part.bias for part in parts])
    padded = np.concatenate([np.zeros((len(taps) - 1, rest.shape[1])), rest])
    memory, outputs = np.zeros((heads, inner // heads, state)), []
    for row in range(len(tokens)):
        mixed = bias + sum(taps[j] * padded[row + j] for j in range(len(taps)))
        x, b, c = np.split(mixed * sigmoid(mixed), [inner, inner + state])
        delta = np.log(1 + np.exp(step[row] + mixer.step_bias))
        for head, part in enumerate(x.reshape(heads, -1)):
            decay = np.exp(-delta[head] * np.exp(mixer.log_decay[head]))
            memory[head] = decay * memory[head] + delta[head] * np.outer(part, b)
        y = (memory @ c + mixer.direct[:, None] * x.reshape(heads, -1)).ravel()
        outputs.append(root_mean_square(y * gate[row] * sigmoid(gate[row]), mixer.norm.gain) @ mixer.out)
    return np.array(outputs)


def transcribe(network: MambaNetwork, window: np.ndarray, model: Mamba) -> float:
    """The card's equations on one window [rows, channels], every row of the block computed."""
    tokens = window @ network.embedding.weight + network.embedding.bias
    heads = 2 * model.width // model.head_width
    mixed = mix_every_row(network.mixer, root_mean_square(tokens, network.norm.gain), model.state, heads)
    last = root_mean_square(tokens + mixed, network.last_norm.gain)[-1]
    return float(last @ network.head.weight[:, 0] + network.head.bias[0])


@pytest.mark.parametrize(("window", "channels"), [(1, 1), (5, 1), (30, 3), (8, 7)])
@pytest.mark.usefixtures("double")
def test_the_network_is_the_plain_recurrence(window: int, channels: int) -> None:
    network = random_network(SMALL, window, channels)
    windows = np.random.default_rng(1).normal(size=(3, window, channels))
    expected = [transcribe(network, one, SMALL) for one in windows]
    np.testing.assert_allclose(compute(network, windows), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(run(fold(network.plan()), windows), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("double")
def test_a_long_window_of_the_default_size_is_the_plain_recurrence() -> None:
    model = Mamba.default()
    slow, network = np.linspace(-8, 0, 4), random_network(model, 1440, 1)
    network = eqx.tree_at(lambda n: (n.mixer.step_bias, n.mixer.log_decay), network, (slow, np.zeros(4)))
    windows = np.random.default_rng(1).normal(size=(1, 1440, 1))
    expected = [transcribe(network, windows[0], model)]
    np.testing.assert_allclose(compute(network, windows), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(run(network.plan(), windows), expected, rtol=1e-12, atol=1e-12)


def test_a_long_window_has_finite_gradients_in_single_precision() -> None:
    rows, rng = 1440, np.random.default_rng(0)
    shapes = ((2, rows, 8), (2, rows, 3), (2, 3), (2, rows, 2))
    inputs = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    inputs[3] = 5 * np.abs(inputs[3])  # sums of thousands

    def total(decay: jax.Array) -> jax.Array:
        return newest_output(*inputs, decay).sum()

    value, slope = jax.jit(jax.value_and_grad(total))(np.array([-1e-3, -16.0], np.float32))
    assert np.isfinite(value)
    assert np.isfinite(slope).all()
    assert abs(float(slope[0])) > 0


def test_sizes_and_cost_are_those_of_the_comparison() -> None:
    assert Mamba.default().parameters(360, 1) == 8013
    assert Mamba(width=16, head_width=8).parameters(360, 1) == 2557
    assert Mamba.default().parameters(1440, 4) == 8013 + 3 * 32
    assert Mamba.default().operations(360, 1).multiply_adds < 1.13e6 / 5  # the card's: D numbers a row
    assert Mamba(width=16, head_width=8).operations(360, 1).multiply_adds < 0.40e6 / 3


def test_the_plan_reads_gate_and_output_at_the_newest_row_only() -> None:
    shapes = random_network(Mamba.default(), 360, 1).plan().shapes
    assert (shapes["gate"], shapes["read"], shapes["gated.norm"], shapes["mixed"]) == ((64,), (16,), (64,), (32,))


@pytest.mark.parametrize(("window", "channels"), [(1, 1), (2, 1), (3, 1), (4, 1), (8, 7)])
def test_few_rows_and_many_channels_are_counted_as_declared(window: int, channels: int) -> None:
    plan = fold(random_network(SMALL, window, channels).plan())
    assert SMALL.operations(window, channels) == count(plan).operations


def test_a_new_network_starts_as_published() -> None:
    mixer = eqx.filter_jit(Mamba(width=64, head_width=1).build)(8, 1, jax.random.key(0)).mixer
    step = np.log1p(np.exp(mixer.step_bias))
    assert step.min() >= 1e-3 * 0.999
    assert step.max() <= 1e-1 * 1.001
    assert np.median(np.log10(step)) == pytest.approx(-2, abs=0.3)
    decay = np.exp(mixer.log_decay)
    assert (decay >= 0.999).all()
    assert (decay <= 16.001).all()
    assert decay.mean() == pytest.approx(8.5, abs=1.5)
    np.testing.assert_array_equal(mixer.direct, 1.0)
    np.testing.assert_array_equal(mixer.norm.gain, 1.0)
    for weights, inputs in ((mixer.value, 64), (mixer.out, 128), (mixer.value_convolution.taps, 4)):
        assert 0.95 * inputs**-0.5 < np.abs(weights).max() <= inputs**-0.5


def test_heads_that_do_not_divide_the_inner_width_are_refused() -> None:
    with pytest.raises(UsageError, match="not a multiple of its head width 64"):
        Mamba(width=16, head_width=64)
    with pytest.raises(UsageError, match="at least 1"):
        Mamba(state=0)
