"""A device with a dead channel is left out by name, and what is left is as if it had never been there."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from scare.data.flags import drop_dead_devices, find_dead_channels
from scare.data.readings import Channel, Readings
from scare.data.split import Split, split_by_device, split_by_label, split_by_site, split_by_time
from scare.errors import DataError

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("no2", "ox", "t")
ROWS = 40
ALWAYS, FIRST, MIDDLE, LAST = slice(None), slice(0, 24), slice(24, 30), slice(30, ROWS)  # the parts of a split by time


def box(device: str, channel: str = "", dead: slice = ALWAYS, value: float = np.nan, site: str = "") -> Readings:
    """A row a minute; the rows `dead` of a channel have a value that means no reading."""
    draw = np.random.default_rng(len(device))
    columns = {name: draw.normal(20, 1, ROWS) for name in NAMES}
    if channel:
        columns[channel][dead] = value
    times = [START + timedelta(minutes=row) for row in range(ROWS)]
    frame = pl.DataFrame({"time": times, **columns, "reference": np.arange(float(ROWS))})
    return Readings(device, frame, tuple(Channel(name) for name in NAMES), Channel("no2"), site)


def devices(split: Split) -> list[list[str]]:
    return [[one.device for one in part] for part in split.parts.values()]


def by_time(*readings: Readings) -> Split:
    return split_by_time(readings, 0.0)


@pytest.mark.parametrize("value", [np.nan, -999.0, 1e31])
def test_a_channel_of_no_reading_at_all_is_dead(value: float) -> None:
    assert find_dead_channels(box("a", "ox", value=value)) == ("ox",)
    assert find_dead_channels(box("a", "ox", slice(1, None), value)) == ()


def test_rows_that_are_never_complete_are_dead() -> None:
    halves = box("a").values.copy()
    halves[::2, 0] = halves[1::2, 1] = np.nan
    frame = box("a").frame.with_columns(pl.Series("no2", halves[:, 0]), pl.Series("ox", halves[:, 1]))
    never = Readings("a", frame, box("a").channels, Channel("no2"))
    assert find_dead_channels(never) == NAMES
    _, (sentence,) = drop_dead_devices({"": [never, box("b")]})
    assert sentence.startswith("a is left out: no row has a usable value in every channel")


@pytest.mark.parametrize(
    "cut",
    [
        by_time,
        lambda *readings: split_by_device(readings),
        lambda *readings: split_by_site(readings),
        lambda *readings: split_by_label(readings, {one.device: labels() for one in readings}),
    ],
)
def test_a_dead_box_leaves_the_split_of_the_others(cut) -> None:
    alive = [box(name, site=name) for name in ("a", "bb", "ccc")]
    dead = box("dead", "ox", site="dead")
    split, without = cut(*alive, dead), cut(*alive)
    assert split.left_out == ("dead is left out: ox has no usable value; --channels no2,t does without it",)
    assert (split.description, split.notes, devices(split)) == (without.description, without.notes, devices(without))


def labels() -> pl.DataFrame:
    words = ["train"] * 24 + ["validate"] * 6 + ["test"] * 10
    return pl.DataFrame({"time": box("a").frame["time"], "label": words})


@pytest.mark.parametrize(
    ("dead", "part", "expected"),
    [
        (FIRST, "training", [["a"], ["a"], ["a"]]),
        (MIDDLE, "validation", [["a", "bb"], ["a"], ["a", "bb"]]),
        (LAST, "test", [["a", "bb"], ["a", "bb"], ["a"]]),
    ],
)
def test_a_box_that_is_dead_for_a_period_is_left_out_of_it(dead: slice, part: str, expected: list[list[str]]) -> None:
    split = by_time(box("a"), box("bb", "ox", dead))
    assert devices(split) == expected
    assert split.left_out == (f"bb is left out: ox has no usable value in {part}; --channels no2,t does without it",)


def test_the_sensor_to_calibrate_cannot_be_done_without() -> None:
    split = by_time(box("a"), box("bb", "no2"))
    assert split.left_out == ("bb is left out: no2 has no usable value; look at it with 'scare inspect'",)


def test_a_channel_that_is_dead_on_most_devices_is_named_with_the_option_that_leaves_it_out() -> None:
    split = by_time(box("a"), box("bb", "ox"), box("ccc", "ox"))
    assert split.left_out[-1] == "ox has no usable value on 2 of 3 devices; --channels no2,t does without it"
    assert len(by_time(box("a"), box("bb"), box("ccc", "ox")).left_out) == 1


def test_only_a_fleet_with_nothing_left_is_refused() -> None:
    with pytest.raises(
        DataError, match="no device is left: ox has no usable value on 2 of 2 devices; --channels no2,t"
    ):
        by_time(box("a", "ox"), box("bb", "ox"))
    with pytest.raises(DataError, match="no device is left: a is left out: t has no usable value; --channels no2,ox"):
        by_time(box("a", "t"))
    with pytest.raises(DataError, match="no device is left in test: a is left out: ox has no usable value in test"):
        by_time(box("a", "ox", LAST))


def test_nothing_is_said_of_a_healthy_fleet() -> None:
    assert by_time(box("a"), box("bb")).left_out == ()
