"""Forward folds: what trains is before what validates, which is before what scores, in every fold."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from scare.errors import DataError, UsageError
from scare.experiments.tuning import forward_folds
from tests.data.test_split import box, minutes, targets


def test_training_grows_and_each_test_is_the_next_validation() -> None:
    folds = forward_folds([box("a", 20)], 2, gap_seconds=60.0)
    assert [[minutes(part[0]) for part in fold.parts.values()] for fold in folds] == [
        [list(range(8)), list(range(8, 12)), list(range(12, 16))],
        [list(range(12)), list(range(12, 16)), list(range(16, 20))],
    ]
    assert [[targets(part[0]) for part in fold.parts.values()][1:] for fold in folds] == [
        [[9, 10, 11], [13, 14, 15]],
        [[13, 14, 15], [17, 18, 19]],
    ]
    assert folds[1].description.startswith("fold 2 by time: borders 2026-01-01 00:12:00 and 2026-01-01 00:16:00")


def test_shares_are_of_the_rows_with_a_reference_of_all_devices() -> None:
    (fold,) = forward_folds([box("a", 20, level=None), box("b", 20, first=20)], 1, gap_seconds=0.0)
    assert [len(targets(part[-1])) for part in fold.parts.values()] == [8, 6, 6]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(40, 200), st.integers(0, 100)), min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(0, 5),
)
def test_folds_never_look_ahead(spans: list[tuple[int, int]], count: int, gap: int) -> None:
    boxes = [box(f"box-{i}", rows, first) for i, (rows, first) in enumerate(spans)]
    try:
        folds = forward_folds(boxes, count, 60.0 * gap)
    except DataError:  # the gap takes all of a part
        reject()
    parts = [[[row for one in part for row in targets(one)] for part in fold.parts.values()] for fold in folds]
    assert len(parts) == count
    for train, validation, test in parts:
        assert min(validation) - max(train) > gap
        assert min(test) - max(validation) > gap
    for (train, _, test), (more, validation, _) in pairwise(parts):
        assert validation == test
        assert set(train) < set(more)
    assert max(parts[-1][2]) == max(rows + first - 1 for rows, first in spans)


def test_no_fold_no_reference_and_too_few_rows_are_refused() -> None:
    with pytest.raises(UsageError, match="at least one fold, not 0"):
        forward_folds([box("a")], 0, 0.0)
    with pytest.raises(DataError, match="no row has a reference"):
        forward_folds([box("a", level=None)], 2, 0.0)
    with pytest.raises(DataError, match="validation has no rows with a reference; by time"):
        forward_folds([box("a", 20)], 3, 600.0)


def test_folding_leaves_the_readings_as_they_are() -> None:
    one = box("a", 20)
    forward_folds([one], 2, 60.0)
    assert np.isfinite(one.targets).all()
    assert len(one) == 20
