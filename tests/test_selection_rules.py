"""Rules are chosen without the set they are judged on."""

import numpy as np
import pytest

from benchmarks.selection_rules import OURS, Kept, Outputs, leave_out, mean_over_sets, rmse, shares

SETS = {"a": ["a1", "a2"], "b": ["b1"], "c": ["c1"]}


def outputs(start: float, members: list[float], plain: float) -> Outputs:
    """All of these wrong by so much, up and down in turn, about a truth of zero."""
    sign = np.resize([1.0, -1.0], 40)
    return Outputs(start * sign, np.array(members)[:, None] * sign, np.zeros(40), plain * np.array([sign, sign]))


def test_the_set_that_is_left_out_has_no_say() -> None:
    errors = {"bold": {"a1": 0.1, "a2": 0.1, "b1": 1.2, "c1": 1.2}, "shy": dict.fromkeys(("a1", "a2", "b1", "c1"), 1.0)}
    assert dict(leave_out(errors, SETS)) == {"a": "shy", "b": "bold", "c": "bold"}


def test_every_set_counts_once() -> None:
    assert mean_over_sets({"a1": 2.0, "a2": 0.5, "b1": 8.0, "c1": 1.0}, SETS) == pytest.approx(2.0)


def test_what_would_be_shipped_is_scored() -> None:
    known, new = outputs(1.0, [0.5, 0.2, -0.7], 2.0), outputs(1.0, [0.3, 0.3, 0.6], 0.0)
    errors = {name: rmse(Kept(known, new, unit=10.0), share) for name, share in shares().items()}
    assert errors["no network"] == pytest.approx(10.0)
    assert errors["network alone"] == errors[OURS.removeprefix("ours, ")] == pytest.approx(4.0)


def test_a_plain_reading_is_shipped_where_validation_prefers_it() -> None:
    known, new = outputs(1.0, [0.5, 0.5, 0.5], 0.1), outputs(1.0, [0.5, 0.5, 0.5], 3.0)
    assert rmse(Kept(known, new, unit=1.0), shares()["network alone"]) == pytest.approx(3.0)
