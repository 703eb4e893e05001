"""The rows that everyone is scored on: all have them, and what is spared takes none from others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from scare.errors import DataError
from scare.scorecard.accuracy import FULL, origin_of, rows_made_from, share_rows

ROWS = 40
KNOWN = arrays(bool, ROWS)


def values(known: np.ndarray) -> np.ndarray:
    return np.where(known, 1.0, np.nan)


@given(KNOWN, KNOWN, KNOWN)
def test_a_row_is_shared_if_everyone_has_it(reference: np.ndarray, one: np.ndarray, other: np.ndarray) -> None:
    expected = reference & one & other
    estimates = {"one": values(one), "other": values(other)}
    if not expected.any():
        with pytest.raises(DataError, match="from every method compared"):
            share_rows(values(reference), estimates)
        return
    rows, coverage = share_rows(values(reference), estimates)
    assert rows.tolist() == expected.tolist()
    assert coverage == {"one": 1.0, "other": 1.0}


@given(KNOWN.filter(np.any), KNOWN)
def test_what_is_spared_takes_rows_only_if_it_has_nearly_all(fitted: np.ndarray, spared: np.ndarray) -> None:
    estimates = {"fitted": values(fitted), "formula": values(spared)}
    rows, coverage = share_rows(np.ones(ROWS), estimates, ["formula"])
    assert coverage["formula"] == pytest.approx((fitted & spared).sum() / fitted.sum())
    expected = fitted & spared if coverage["formula"] >= FULL else fitted
    assert rows.tolist() == expected.tolist()


@given(st.lists(KNOWN, min_size=1, max_size=3))
def test_the_order_does_not_matter(masks: list[np.ndarray]) -> None:
    masks[0][0] = True
    estimates = {index: values(mask) for index, mask in enumerate(masks)}
    turned = dict(reversed(estimates.items()))
    spared = list(estimates)[1:]
    one, other = (share_rows(np.ones(ROWS), each, spared)[0].tolist() for each in (estimates, turned))
    assert one == other


def test_rows_of_a_visit_are_rows_it_was_made_from() -> None:
    learned = {"devices": ["a"], "periods": [["1970-01-01T00:00:10Z", "1970-01-01T00:00:20Z"]]}
    times = np.arange(40.0)
    made_from = rows_made_from("a", times, origin_of({"learned": learned}))
    assert_array_equal(np.flatnonzero(made_from), np.arange(10, 21))
    assert not rows_made_from("b", times, origin_of({"learned": learned})).any()
    assert not rows_made_from("a", times, origin_of({})).any()
