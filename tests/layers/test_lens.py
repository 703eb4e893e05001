"""The projector sees the whole window through each lens, and never needs a token per reading."""

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.layers.front import DualEmbedding, SequenceLensProjector, bin_averages, logarithmic_bins
from scare.models.scare import lenses
from tests.layers.numbers_for_layers import compute, random_layer, random_tokens

ROWS, LENSES, WIDTH = 7, 3, 5
SIZES = [(channels, overall) for channels in (1, 4) for overall in (False, True)]
PAPER_WINDOWS = (15, 60, 360, 720, 1440)


def random_front(channels: int, overall: bool) -> tuple[SequenceLensProjector, DualEmbedding]:
    projector = SequenceLensProjector(random_tokens(ROWS, LENSES, seed=2), random_tokens(LENSES, WIDTH, seed=3))
    return projector, random_layer(DualEmbedding.create, ROWS, channels, WIDTH, overall)


def test_the_projector_is_w_transposed_x_plus_b() -> None:
    projector, tokens = random_front(1, True)[0], random_tokens(2, ROWS, WIDTH)
    expected = np.stack([projector.weight.T @ one + projector.bias for one in tokens])
    np.testing.assert_allclose(projector(tokens), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("channels", "overall"), SIZES)
def test_fused_equals_the_projector_of_all_tokens_with_its_gradients(channels: int, overall: bool) -> None:
    x, probe = random_tokens(4, ROWS, channels), random_tokens(4, LENSES, WIDTH, seed=9)

    def fused(projector: Any, embedding: Any, x: Any) -> Any:
        return projector.fused(x, embedding)

    def unfused(projector: Any, embedding: Any, x: Any) -> Any:
        return projector(embedding(x))

    @jax.jit
    def both(*parts: Any) -> Any:
        forms = [jax.vjp(form, *parts) for form in (fused, unfused)]
        return [(lensed, jax.tree.leaves(back(probe))) for lensed, back in forms]

    (short, short_slopes), (long, long_slopes) = both(*random_front(channels, overall), x)
    assert short.dtype == np.float64
    np.testing.assert_allclose(short, long, rtol=1e-10, atol=1e-10)
    assert len(short_slopes) == (7 if overall else 5)  # W, B, E, b (and G, its bias), x
    for one, other in zip(short_slopes, long_slopes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
        assert np.abs(one).max() > 0


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("channels", "overall"), SIZES)
def test_the_kernel_calls_give_the_same_lens_tokens_of_a_scaled_source(channels: int, overall: bool) -> None:
    projector, embedding = random_front(channels, overall)
    x, scale = random_tokens(4, ROWS, channels), np.linspace(0.5, 2.0, ROWS)
    steps = projector.steps("x", embedding, "lensed", scale)
    lensed = compute(steps, "lensed", (LENSES, WIDTH), x / scale[:, None])
    np.testing.assert_allclose(lensed, projector.fused(x, embedding), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("window", "lengths"),
    [
        (15, [8, 4, 2, 1]),
        (60, [29, 16, 8, 4, 2, 1]),
        (360, [105, 128, 64, 32, 16, 8, 4, 2, 1]),
        (720, [209, 256, 128, 64, 32, 16, 8, 4, 2, 1]),
        (1440, [417, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1]),
    ],
)
def test_bins_double_from_the_newest_reading_back(window: int, lengths: list[int]) -> None:
    assert logarithmic_bins(window) == lengths
    assert len(lengths) == lenses(window)


@given(st.integers(1, 5000))
def test_bins_cover_the_window_once_and_the_newest_holds_one_reading(window: int) -> None:
    lengths = logarithmic_bins(window)
    assert sum(lengths) == window
    assert lengths[-1] == 1
    assert lengths[:0:-1] == [2**index for index in range(len(lengths) - 1)]


@given(st.integers(4, 2000))
def test_every_lens_starts_as_an_average_of_some_readings(window: int) -> None:
    matrix = bin_averages(window, lenses(window))
    np.testing.assert_allclose(matrix.sum(axis=0), 1.0)
    assert ((matrix > 0).sum(axis=1) == 1).all()
    first = [np.flatnonzero(column)[0] for column in matrix.T]
    assert first == sorted(first)
    assert matrix[-1, -1] > 0


def test_the_number_of_lenses_is_the_logarithm_of_the_window_rounded_up() -> None:
    assert [lenses(window) for window in PAPER_WINDOWS] == [4, 6, 9, 10, 11]
    assert [lenses(window) for window in (4, 5, 8, 9)] == [2, 3, 3, 4]
