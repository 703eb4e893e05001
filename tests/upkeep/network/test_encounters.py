"""Encounters follow from stays and places: who, with whom, from when to when."""

from math import inf

import numpy as np
import pytest

from scare.data.sites import Sites, Stay
from scare.errors import DataError
from scare.upkeep.network.encounters import Encounter, EncounterRules, check_places, find_encounters
from scare.upkeep.network.hours import DAY
from tests.upkeep.network.cities import MARCH, at_place, network_hours, stay

PLACES = at_place(street=(0, 0), station=(0, 30), park=(0, 500))


def encounters(*stays: Stay, references: tuple[str, ...] = ("ref",), rules: EncounterRules | None = None) -> list:
    names = dict.fromkeys(one.device for one in stays)
    hours = network_hours({name: np.ones(60 * 24) for name in names}, *references)
    return [
        (one.box, one.other, (one.begin - MARCH) / DAY, (one.end - MARCH) / DAY)
        for one in find_encounters(hours, Sites(stays), PLACES, rules)
    ]


def test_sites_that_are_near_are_one_spot_and_others_are_not() -> None:
    near = (stay("street", "a", 0, 10), stay("station", "ref", 0, 60))
    assert encounters(*near) == [("a", "ref", 0, 10)]
    assert encounters(*near, rules=EncounterRules(metres=20)) == []
    assert encounters(stay("park", "a", 0, 10), stay("station", "ref", 0, 60)) == []


def test_all_are_compared_with_the_reference_if_there_is_one_else_with_the_box_that_stays_longest() -> None:
    three = (stay("street", "a", 0, 20), stay("street", "b", 2, 8), stay("street", "c", 4, 30))
    assert encounters(*three, stay("street", "ref", 0, 40), rules=EncounterRules(session_days=60)) == [
        ("a", "ref", 0, 20),
        ("b", "ref", 2, 8),
        ("c", "ref", 4, 30),
    ]
    alone = encounters(*three)
    assert alone == [("b", "a", 2, 4), ("a", "c", 4, 20), ("b", "c", 4, 8)]


def test_the_number_of_encounters_grows_with_the_boxes_of_a_spot() -> None:
    def count(boxes: int) -> int:
        return len(encounters(*(stay("street", f"box-{k}", 0, 10) for k in range(boxes)), references=()))

    assert [count(boxes) for boxes in (2, 10, 40)] == [1, 9, 39]


def test_long_encounters_are_cut_into_sessions_and_short_ones_do_not_count() -> None:
    long = encounters(stay("street", "a", 0, 60), stay("street", "ref", 0, 60))
    assert [(begin, end) for *_, begin, end in long] == [(0, 30), (30, 60)]
    assert encounters(stay("street", "a", 0, 0.9), stay("street", "ref", 0, 60)) == []


def test_stays_without_ends_last_as_long_as_the_readings() -> None:
    always = Stay("street", "a", -inf, inf), Stay("street", "ref", -inf, inf)
    assert encounters(*always, rules=EncounterRules(session_days=100)) == [("a", "ref", 0, 60)]


def test_two_references_at_a_site_are_no_encounter() -> None:
    both = (stay("street", "ref", 0, 60), stay("street", "other", 0, 60))
    assert encounters(*both, references=("ref", "other")) == []


def test_the_middle_of_an_encounter() -> None:
    assert Encounter("a", "b", 10.0, 20.0).middle == 15.0


def test_a_site_without_coordinates_is_refused() -> None:
    with pytest.raises(
        DataError, match="stands at 'stret', which is not in the table of places; did you mean 'street'"
    ):
        check_places(Sites((stay("stret", "a", 0, 1),)), PLACES)
