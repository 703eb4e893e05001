"""One box that changes is named, what changes for all is weather, and doubt is not hidden."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare.upkeep.drift import FLEET_MEASURES, RULES, THRESHOLDS, DriftState
from tests.upkeep.fleets import Change, assessed, make_hours


def worse(by: float, box: int = 0) -> Change:
    """A box whose zero rises in the second half."""

    def change(hours: np.ndarray) -> None:
        hours[box, hours.shape[1] // 2 :, :, :2] += by

    return change


def test_a_box_that_changes_is_brought_back_and_the_others_stay() -> None:
    found = assessed(make_hours(change=worse(2.0)))
    assert found.states.tolist() == [DriftState.RECOLLOCATE] + [DriftState.FINE] * 5
    strongest = found.measures[int(np.nanargmax(found.units[0]))]
    assert strongest in ("neighbours", "night")


def test_what_changes_for_all_is_weather() -> None:
    def season(hours: np.ndarray) -> None:
        hours[:, 15:, :, :2] = 1.5 * hours[:, 15:, :, :2] + 2.0
        hours[:, 15:, :, 2:] += 1.5

    assert (assessed(make_hours(change=season)).states == DriftState.FINE).all()


@settings(max_examples=6, deadline=None)
@given(order=st.permutations(range(6)), seed=st.integers(0, 50))
def test_the_order_of_boxes_changes_nothing(order: list[int], seed: int) -> None:
    hours = make_hours(seed=seed, change=worse(1.0))
    here, there = assessed(hours), assessed(hours[order])
    np.testing.assert_allclose(here.scores[order], there.scores)
    np.testing.assert_array_equal(here.states[order], there.states)


@pytest.mark.parametrize("size", [0.5, 1.0, 2.0, 4.0])
def test_a_greater_change_is_never_assessed_milder(size: float) -> None:
    mild, strong = (assessed(make_hours(change=worse(by))) for by in (size, 2 * size))
    assert strong.scores[0] >= mild.scores[0]
    assert strong.states[0] >= mild.states[0]


def test_of_two_boxes_the_drifting_one_is_unknown_and_neither_is_sent_back() -> None:
    found = assessed(make_hours(2, change=worse(5.0)))
    assert found.states.tolist() == [DriftState.LOOK, DriftState.LOOK]


def test_a_few_boxes_do_not_tell_their_scatter() -> None:
    several, few = (assessed(make_hours(boxes, change=worse(0.9))) for boxes in (6, 4))
    assert several.scores[0] > 2 * few.scores[0] > 0


def test_boxes_that_scatter_more_need_more_evidence() -> None:
    def restless(hours: np.ndarray) -> None:
        worse(1.0)(hours)
        hours[1:, 15:, :, :2] += np.array([-0.6, -0.3, 0.2, 0.4, 0.7])[:, None, None, None]

    assert assessed(make_hours(change=restless)).scores[0] < assessed(make_hours(change=worse(1.0))).scores[0] / 2


def test_few_days_ask_for_a_look_at_most() -> None:
    found = assessed(make_hours(days=10, change=worse(5.0)), 5, 5)
    assert found.states[0] == DriftState.LOOK
    assert found.scores[0] > THRESHOLDS[DriftState.RECOLLOCATE]


@pytest.mark.parametrize("boxes", [1, 6])
def test_a_stuck_sensor_is_believed_at_once_with_or_without_a_fleet(boxes: int) -> None:
    def stuck(hours: np.ndarray) -> None:
        hours[0, -3:, :, 1] = 0.0

    found = assessed(make_hours(boxes, 6, change=stuck), 3, 3)
    assert found.states[0] == DriftState.RECOLLOCATE
    assert found.units[0, found.measures.index("stuck")] > THRESHOLDS[DriftState.RECOLLOCATE]


def test_a_silent_box_needs_a_look() -> None:
    def silent(hours: np.ndarray) -> None:
        hours[2, -7:] = np.nan

    assert assessed(make_hours(change=silent)).states.tolist() == [0, 0, DriftState.LOOK, 0, 0, 0]


def test_a_box_alone_is_never_sent_back_for_what_a_season_does() -> None:
    def season(hours: np.ndarray) -> None:
        hours[:, 15:, :, 1:] += 6.0

    found = assessed(make_hours(1, change=season))
    assert found.states[0] == DriftState.LOOK
    assert {
        RULES[name.split()[0]].alone for name, units in zip(found.measures, found.units[0], strict=True) if units > 0
    }


def test_every_measure_has_a_rule() -> None:
    assert {*FLEET_MEASURES, "shift", "PSI"} == set(RULES)
