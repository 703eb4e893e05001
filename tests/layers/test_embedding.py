"""The front: embedding, lenses and hats equal the paper's form, fused and as kernel calls."""

from math import log2
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.layers.embedding import DualEmbedding, HatBasis, SequenceLensProjector, bin_averages, logarithmic_bins
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


def random_embedding(channels: int, overall: bool) -> DualEmbedding:
    return random_layer(DualEmbedding.create, ROWS, channels, WIDTH, overall)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("channels", [1, 4])
def test_a_token_is_local_plus_global_embedding(channels: int) -> None:
    embedding, x = random_embedding(channels, overall=True), random_tokens(3, ROWS, channels)
    for window, tokens in zip(x, np.asarray(embedding(x)), strict=True):
        whole = embedding.overall.T @ window.reshape(-1) + embedding.overall_bias
        for reading, token in zip(window, tokens, strict=True):
            expected = reading @ embedding.local + embedding.local_bias + whole
            np.testing.assert_allclose(token, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("double")
def test_without_the_global_part_a_token_sees_only_its_own_reading() -> None:
    embedding, x = random_embedding(1, overall=False), random_tokens(2, ROWS, 1)
    other = x.copy()
    other[:, 1:] += 1.0
    np.testing.assert_array_equal(embedding(x)[:, 0], embedding(other)[:, 0])
    np.testing.assert_allclose(embedding(x), x @ embedding.local + embedding.local_bias, rtol=1e-12)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("overall", [True, False])
def test_the_kernel_calls_give_the_same_tokens(channels: int, overall: bool) -> None:
    embedding, x = random_embedding(channels, overall), random_tokens(3, ROWS, channels)
    tokens = compute(embedding.steps("x", "tokens", np.ones(ROWS)), "tokens", (ROWS, WIDTH), x)
    np.testing.assert_allclose(tokens, embedding(x), rtol=1e-9, atol=1e-9)


def described(window: int) -> np.ndarray:
    """The basis as the recipe describes it, step by step, newest lag first."""
    position = [log2(lag + 1) for lag in range(window)]
    spaces = round(2 * log2(window))
    spacing = log2(window) / spaces
    even = [index * spacing for index in range(spaces + 1)]
    kept = [knot for knot in even if any(1 - abs(knot - v) / spacing >= 0.5 for v in position)]
    kept[1] = min(kept[1], position[1])
    hats = [np.interp(position, kept, [float(other == knot) for other in kept]) for knot in kept]
    return np.stack([hat / hat.sum() for hat in hats], axis=1)


@pytest.mark.parametrize(("window", "size"), [(24, 9), (48, 11), (60, 12), (360, 17)])
def test_the_number_of_hats(window: int, size: int) -> None:
    assert HatBasis(window).size == size
    assert HatBasis(window).matrix.shape == (window, size)


@pytest.mark.parametrize("window", [*range(4, 80), 360, 720, 1440])
def test_the_basis_is_as_described(window: int) -> None:
    np.testing.assert_allclose(HatBasis(window).matrix, described(window)[::-1], rtol=1e-9, atol=1e-12)


@given(st.integers(4, 2000))
def test_a_reading_touches_at_most_two_neighbouring_hats_whose_weights_sum_to_one(window: int) -> None:
    basis = HatBasis(window)
    raw = basis.matrix / basis.scale
    assert (basis.matrix >= 0).all()
    np.testing.assert_allclose(raw.sum(axis=1), 1.0)
    for row in raw:
        touched = np.flatnonzero(row)
        assert len(touched) <= 2
        assert touched[-1] - touched[0] <= 1


@given(st.integers(4, 2000))
def test_every_hat_is_an_average(window: int) -> None:
    np.testing.assert_allclose(HatBasis(window).matrix.sum(axis=0), 1.0)


@pytest.mark.parametrize("window", [*range(4, 80), 360])
def test_the_first_hat_is_the_newest_reading_and_no_other(window: int) -> None:
    first = HatBasis(window).matrix[:, 0]
    assert first[-1] == 1.0
    assert not first[:-1].any()
