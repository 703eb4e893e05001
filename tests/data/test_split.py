"""Which rows go where, what is refused and why, and that no split leaks."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from scare.data.readings import Channel, Readings
from scare.data.split import Split, check_leakage, split_by_device, split_by_site, split_by_time
from scare.errors import DataError, UsageError

START = datetime(2026, 1, 1, tzinfo=UTC)
NO2 = Channel("no2", "ppb")
SHARED = "shares its reference and period with training: scores show how a new device does, not a new period"


def box(device: str, rows: int = 10, first: int = 0, site: str = "", level: float | None = 0.0) -> Readings:
    """One row a minute from `first` minutes on; the reference counts the minutes from `level`."""
    times = [START + timedelta(minutes=first + row) for row in range(rows)]
    values = [None if level is None else level + first + row for row in range(rows)]
    frame = pl.DataFrame({"time": times, "reference": pl.Series(values, dtype=pl.Float64)})
    return Readings(device, frame, (), NO2, site)


def devices(split: Split) -> list[list[str]]:
    return [[one.device for one in part] for part in split.parts.values()]


def targets(readings: Readings) -> list[int]:
    known = readings.times[np.isfinite(readings.targets)]
    return [round((second - START.timestamp()) / 60) for second in known.tolist()]


def minutes(one: Readings) -> list[int]:
    return [round((time - START.timestamp()) / 60) for time in one.times]


def test_the_last_device_is_test_and_the_one_before_validation() -> None:
    split = split_by_device([box("d"), box("b"), box("a"), box("c")])
    assert devices(split) == [["b", "a"], ["c"], ["d"]]
    assert split.description == "by device: train a, b; validation c; test d"


@pytest.mark.parametrize(
    ("validation", "test", "expected"),
    [
        ("a", None, [["b", "c"], ["a"], ["d"]]),
        (None, "a", [["b", "c"], ["d"], ["a"]]),
        ("d", None, [["a", "b"], ["d"], ["c"]]),
        ("b", "a", [["c", "d"], ["b"], ["a"]]),
    ],
)
def test_names_given_come_first(validation: str | None, test: str | None, expected: list[list[str]]) -> None:
    assert devices(split_by_device([box(name) for name in "abcd"], validation, test)) == expected


def test_a_device_that_is_unknown_or_wanted_twice_is_refused() -> None:
    boxes = [box(name) for name in "abc"]
    with pytest.raises(UsageError, match="no device 'x' is left to choose from; there are a, b, c"):
        split_by_device(boxes, test="x")
    with pytest.raises(UsageError, match="no device 'a' is left to choose from; there are b, c"):
        split_by_device(boxes, validation="a", test="a")


def test_two_devices_or_a_device_without_a_site_cannot_be_split() -> None:
    with pytest.raises(DataError, match="at least three named devices; found a, b"):
        split_by_device([box("a"), box("b")])
    with pytest.raises(DataError, match="at least three named sites; found no site, x, y"):
        split_by_site([box("a", site="x"), box("b", site="y"), box("c")])


def test_a_device_given_in_two_tables_is_refused() -> None:
    with pytest.raises(DataError, match="train holds a twice"):
        split_by_device([box("a"), box("a", first=50), box("b"), box("c")])


def test_devices_beside_one_reference_are_split_with_a_note() -> None:
    split = split_by_device([box("a"), box("b", level=0.5), box("c")])
    assert split.notes == (f"test {SHARED}",)
    apart = split_by_device([box("a"), box("b", first=60), box("c", first=120)])
    assert apart.notes == ()


def test_a_shared_reference_is_noticed_between_clocks_some_seconds_apart() -> None:
    late = box("c")
    late = replace(late, frame=late.frame.with_columns(pl.col("time") + pl.duration(seconds=20)))
    assert split_by_device([box("a"), box("b"), late]).notes == (f"validation {SHARED}", f"test {SHARED}")


def test_sites_are_split_whole() -> None:
    boxes = [box("a", site="z"), box("b", site="y"), box("c", site="x"), box("d", site="z")]
    assert devices(split_by_site(boxes)) == [["c"], ["b"], ["a", "d"]]


def test_a_device_at_two_sites_at_once_is_refused() -> None:
    boxes = [box("a", site="x"), box("b", site="y"), box("a", first=9, site="z")]
    with pytest.raises(DataError, match="a leaks from train to test: the same row is in both"):
        split_by_site(boxes)
    moved = [*boxes[:2], box("a", first=10, site="z")]
    assert devices(split_by_site(moved)) == [["a"], ["b"], ["a"]]


def test_a_time_split_has_the_same_borders_for_all_and_a_gap_after_each() -> None:
    borders = (START + timedelta(minutes=8), START + timedelta(minutes=14))
    split = split_by_time([box("a", 20), box("b", 9, first=11)], 120.0, borders=borders)
    assert [minutes(one) for one in split.train] == [list(range(8))]
    assert [minutes(one) for one in split.validation] == [[8, 9, 10, 11, 12, 13], [11, 12, 13]]
    assert [targets(one) for one in split.validation] == [[10, 11, 12, 13], [11, 12, 13]]
    assert [minutes(one) for one in split.test] == [[14, 15, 16, 17, 18, 19]] * 2
    assert [targets(one) for one in split.test] == [[16, 17, 18, 19]] * 2
    assert split.description == (
        "by time: borders 2026-01-01 00:08:00 and 2026-01-01 00:14:00;"
        " rows up to 2 minutes after each only fill windows and are not scored"
    )
    assert split.notes == ()


def test_borders_without_a_time_zone_are_utc() -> None:
    naive = (datetime(2026, 1, 1, 0, 8), datetime(2026, 1, 1, 0, 14))
    aware = (naive[0].replace(tzinfo=UTC), naive[1].replace(tzinfo=UTC))
    one, other = (split_by_time([box("a", 20)], 60.0, borders=borders) for borders in (naive, aware))
    assert one.description == other.description


def test_shares_are_of_the_rows_with_a_reference() -> None:
    # 20 rows without a reference, then 20 with: 12, 3 and 5 of these, less one row after each border.
    boxes = [box("a", 20, level=None), box("b", 20, first=20)]
    split = split_by_time(boxes, 60.0)
    assert targets(split.train[1]) == list(range(20, 32))
    assert [targets(one) for one in (*split.validation, *split.test)] == [[33, 34], [36, 37, 38, 39]]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(40, 200), st.integers(0, 100)), min_size=1, max_size=4),
    st.integers(0, 5),
    st.floats(0.1, 0.4),
    st.floats(0.1, 0.4),
)
def test_a_time_split_never_leaks(
    spans: list[tuple[int, int]], gap: int, validation_share: float, test_share: float
) -> None:
    boxes = [box(f"box-{i}", rows, first) for i, (rows, first) in enumerate(spans)]
    try:
        split = split_by_time(boxes, 60.0 * gap, validation_share, test_share)
    except DataError:  # the gap takes all of a part
        reject()
    train, validation, test = ([row for one in part for row in targets(one)] for part in split.parts.values())
    assert min(validation) - max(train) > gap
    assert min(test) - max(validation) > gap
    assert sum(len(one) for part in split.parts.values() for one in part) == sum(map(len, boxes))
    check_leakage(split, 60.0 * gap)


def test_an_empty_part_is_named_with_the_reason() -> None:
    with pytest.raises(DataError) as caught:
        split_by_time([box("a", 20)], 600.0)
    assert str(caught.value) == (
        "validation has no rows with a reference; by time: borders 2026-01-01 00:12:00 and"
        " 2026-01-01 00:15:00; rows up to 10 minutes after each only fill windows and are not scored"
    )
    with pytest.raises(DataError, match="test has no rows with a reference; by device: train a; validation b"):
        split_by_device([box("a"), box("b"), box("c", level=None)])
    with pytest.raises(DataError, match="no row has a reference: align the readings"):
        split_by_time([], 60.0)


def test_shares_and_gaps_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match=r"0\.5 and 0\.5; give two shares above zero"):
        split_by_time([box("a")], 60.0, 0.5, 0.5)
    with pytest.raises(UsageError, match="-1 second; give zero or more"):
        split_by_time([box("a")], -1.0)


def test_a_split_made_by_hand_is_refused_when_a_device_is_too_close_to_itself() -> None:
    split = Split((box("a", 10),), (box("b"),), (box("a", 10, first=14),), "by hand")
    check_leakage(split, 300.0)
    with pytest.raises(DataError) as caught:
        check_leakage(split, 301.0)
    assert str(caught.value) == (
        "a leaks from train to test: references are only 5 minutes apart, for a gap of 301 seconds; by hand"
    )


def test_splitting_leaves_the_readings_as_they_are() -> None:
    boxes = [box("a", 20)]
    before = boxes[0].frame.clone()
    split_by_time(boxes, 0.0)
    assert boxes[0].frame.equals(before)
    assert np.isfinite(boxes[0].targets).all()
