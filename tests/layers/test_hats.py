"""Hats lie evenly in log time, share each reading between two neighbours, and average what they cover."""

from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.layers.front import HatBasis


def described(window: int) -> np.ndarray:
    """The basis as the recipe describes it, step by step, newest lag first."""
    position = [log2(lag + 1) for lag in range(window)]
    spaces = round(2 * log2(window))
    spacing = log2(window) / spaces
    even = [index * spacing for index in range(spaces + 1)]
    kept = [knot for knot in even if any(1 - abs(knot - v) / spacing >= 0.5 for v in position)]
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


@pytest.mark.parametrize("window", [60, 360])
def test_the_first_hat_is_the_newest_reading(window: int) -> None:
    first = HatBasis(window).matrix[:, 0]
    assert first[-1] == 1.0
    assert not first[:-1].any()


@pytest.mark.parametrize("window", [24, 48])
def test_at_some_windows_the_first_hat_has_a_little_of_the_reading_before(window: int) -> None:
    first = HatBasis(window).matrix[:, 0]
    assert 0.0145 < first[-2] < 0.0185
    assert first[-1] == pytest.approx(1 - first[-2])
    assert not first[:-2].any()
