"""Each rule on hand-worked rows, and the promises all rules keep: causal, bounded memory, nothing removed.

A device with a dead channel is left out by name, and what is left is as if it had never been there.
"""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from scare.data.flags import (
    MEANINGS,
    RULES_2026_1,
    UNUSABLE,
    Flag,
    QualitySettings,
    RowFlagger,
    count_flags,
    drop_dead_devices,
    find_dead_channels,
    flag,
    flag_rows,
    usable_values,
)
from scare.data.readings import Channel, Readings
from scare.data.split import Split, split_by_device, split_by_label, split_by_site, split_by_time
from scare.errors import DataError, UsageError

TEMPERATURE = Channel("temperature", "C", -40.0, 85.0)
CURRENT = Channel("current", "nA")
DUST = Channel("pm25", "ug/m3", 0.0, 1000.0)
START = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = Path(__file__).parents[2] / "docs" / "flags.md"
NAMES = ("no2", "ox", "t")
ROWS = 40
ALWAYS, FIRST, MIDDLE, LAST = slice(None), slice(0, 24), slice(24, 30), slice(30, ROWS)  # the parts of a split by time


def flags_of(values: list[float] | np.ndarray, channel: Channel = TEMPERATURE, times: object = None) -> np.ndarray:
    column = np.asarray(values, float)
    seconds = 60.0 * np.arange(len(column)) if times is None else np.asarray(times, float)
    return flag_rows(seconds, column[:, None], (channel,), 60.0)


def rows_with(flags: np.ndarray, bit: Flag) -> list[int]:
    return np.flatnonzero(flags & bit).tolist()


def random_rows(seed: int, rows: int, step: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with every fault in them: long gaps, sentinels, missing values, stuck stretches, spikes."""
    rng = np.random.default_rng(seed)
    waits = rng.choice([step, 1.4 * step, 2 * step, 3500.0, 4000.0], rows, p=[0.9, 0.09, 0.0094, 0.0003, 0.0003])
    values = rng.normal(20, 1, (rows, 2)).round(int(rng.integers(0, 3)))
    values[rng.random((rows, 2)) < 0.01] = rng.choice([np.nan, -999.0, 60.0, 90.0])
    for start in rng.integers(0, rows, 5):
        values[start : start + rng.integers(50, 70)] = 20.5
    return np.cumsum(waits), values


def test_range_marks_what_lies_outside_but_not_the_ends_nor_missing() -> None:
    assert rows_with(flags_of([-40.0, 85.0, 85.1, np.nan, np.inf, -41.0]), Flag.RANGE) == [2, 4, 5]


def test_sentinels_are_marked_and_minus_one_only_where_nothing_is_below_zero() -> None:
    values = [-1.0, -200.0, -999.0, -9999.0, 65535.0, 12.0]
    assert rows_with(flags_of(values, CURRENT), Flag.SENTINEL) == [1, 2, 3, 4]
    assert rows_with(flags_of(values, DUST), Flag.SENTINEL) == [0, 1, 2, 3, 4]


def test_stuck_starts_with_the_sixtieth_equal_row_and_ends_with_the_first_change() -> None:
    flags = flags_of([20.0] + [21.0] * 62 + [21.5])
    assert rows_with(flags, Flag.STUCK) == [60, 61, 62]


def test_missing_rows_are_never_stuck() -> None:
    assert rows_with(flags_of([np.nan] * 70), Flag.STUCK) == []


def test_spike_is_more_than_eight_usual_distances() -> None:
    # 0 1 0 1 ...: the median of 5 alternates too, every distance is 1, so the limit is 8;
    # the last median is 1.
    calm = np.arange(40) % 2.0
    assert rows_with(flags_of([*calm, 9.1], CURRENT), Flag.SPIKE) == [40]
    assert rows_with(flags_of([*calm, 9.0], CURRENT), Flag.SPIKE) == []


def test_spike_floor_is_a_thousandth_of_the_range() -> None:
    # Dust: 0.001 * 1000 * 8 = 8 ug/m3 above a reading that does not move.
    assert rows_with(flags_of([3.0] * 40 + [11.5, 3.0], DUST), Flag.SPIKE) == [40]
    assert rows_with(flags_of([3.0] * 40 + [11.0, 3.0], DUST), Flag.SPIKE) == []


def test_without_range_and_movement_there_is_nothing_to_call_a_spike() -> None:
    assert rows_with(flags_of([3.0] * 40 + [4.0], CURRENT), Flag.SPIKE) == []


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_spike_is_what_its_definition_says_row_by_row(seed: int) -> None:
    values = np.random.default_rng(seed).choice([1.0, 2.0, 3.0, 4.0, 40.0, np.nan], 150)
    distances = np.full(150, np.nan)
    expected = []
    for row in range(150):
        near, past = values[max(0, row - 5) : row], distances[max(0, row - 30) : row]
        if np.isfinite(near).sum() >= 3:
            distances[row] = abs(values[row] - np.nanmedian(near))
        if np.isfinite(past).sum() >= 15 and distances[row] > 8 * np.nanmedian(past) > 0:
            expected.append(row)
    assert rows_with(flags_of(values, CURRENT), Flag.SPIKE) == expected


def test_rate_allows_a_quarter_of_the_range_per_minute_and_at_least_a_minutes_worth() -> None:
    # Temperature: a quarter of 125 C is 31.25 C.
    values = [0.0, 31.0, 0.0, 32.0, 0.0, 60.0]
    times = [0, 60, 61, 62, 180, 300]
    assert rows_with(flags_of(values, TEMPERATURE, times), Flag.RATE) == [3]


def test_a_sentinel_is_missing_to_the_other_rules() -> None:
    assert rows_with(flags_of([20.0, -40.0, 65535.0, 20.0]), Flag.RATE) == [1]


def test_warm_up_lasts_half_an_hour_after_the_start_and_after_a_gap_over_an_hour() -> None:
    first = np.arange(40) * 60.0
    times = np.concatenate([first, first[-1] + 3600 + first, first[-1] * 2 + 3600 + 3601 + first])
    flags = flags_of(np.sin(times), TEMPERATURE, times)
    assert rows_with(flags, Flag.WARM_UP) == [*range(30), *range(80, 110)]


def test_gap_marks_the_first_row_after_missing_time() -> None:
    assert rows_with(flags_of([1.0] * 5, TEMPERATURE, [0, 60, 150, 241, 300]), Flag.GAP) == [3]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.5, 1.0, 60.0]),
    st.lists(st.integers(1, 3999), min_size=1, max_size=4, unique=True),
)
def test_chunks_get_the_flags_of_the_whole(seed: int, step: float, cuts: list[int]) -> None:
    times, values = random_rows(seed, 4000, step)
    channels = (TEMPERATURE, CURRENT)
    whole = flag_rows(times, values, channels, step)
    usable, unusable = usable_values(values, channels)
    flagging = RowFlagger(channels, step, QualitySettings())
    parts = [
        flagging.push(*part)
        for part in zip(np.split(times[:, None], sorted(cuts)), np.split(usable[:, None], sorted(cuts)), strict=True)
    ]
    assert_array_equal(np.concatenate(parts)[:, 0] | unusable, whole)
    assert rows_with(whole, Flag.WARM_UP)[0] == 0


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 300))
def test_no_rule_looks_ahead(seed: int, now: int) -> None:
    times, values = random_rows(seed, 300)
    past = flag_rows(times[:now], values[:now], (TEMPERATURE, CURRENT), 1.0)
    assert_array_equal(past, flag_rows(times, values, (TEMPERATURE, CURRENT), 1.0)[:now])


def test_usable_values_are_missing_exactly_where_flagged_unusable() -> None:
    values = np.array([[20.0, 5.0], [99.0, 5.0], [np.nan, -999.0], [-999.0, 1.0]])
    usable, flags = usable_values(values, (TEMPERATURE, CURRENT))
    assert_array_equal(usable, [[20.0, 5.0], [np.nan, 5.0], [np.nan, np.nan], [np.nan, 1.0]])
    assert_array_equal(flags, np.array([0, Flag.RANGE, Flag.SENTINEL, UNUSABLE], np.uint32))
    assert values[1, 0] == 99.0


def test_flagging_adds_bits_and_keeps_every_row_value_and_earlier_bit() -> None:
    times = [START + timedelta(minutes=minute) for minute in range(3)]
    frame = pl.DataFrame({"time": times, "temperature": [20.0, None, 99.0], "flags": [0, 1 << 11, 0]})
    readings = Readings("box-1", frame, (TEMPERATURE,))
    flagged = flag(readings)
    assert flagged.frame.drop("flags").equals(readings.frame.drop("flags"))
    assert flagged.flags.tolist() == [32, 32 + 2048, 32 + 1]
    assert flag(flagged).frame.equals(flagged.frame)


@pytest.mark.parametrize("rows", [0, 1])
def test_readings_without_a_step_can_be_flagged(rows: int) -> None:
    frame = pl.DataFrame({"time": [START] * rows, "temperature": [20.0] * rows})
    assert flag(Readings("box-1", frame, (TEMPERATURE,))).flags.tolist() == [Flag.WARM_UP] * rows


def test_summary_counts_rows_for_every_flag_name() -> None:
    counts = count_flags(np.array([0, 1, 1 | 64, 64], np.uint32))
    assert list(counts) == list(Flag.__members__)
    assert {name: count for name, count in counts.items() if count} == {"RANGE": 2, "GAP": 2}


def test_the_published_rule_set_keeps_its_numbers_names_and_bits() -> None:
    assert [(rule.id, rule.name, int(rule.flag)) for rule in RULES_2026_1] == [
        ("Q01", "range", 1),
        ("Q02", "sentinel", 2),
        ("Q03", "stuck", 4),
        ("Q04", "spike", 8),
        ("Q05", "rate", 16),
        ("Q06", "warm-up", 32),
        ("Q07", "gap", 64),
    ]
    assert all(rule.description.endswith(".") for rule in RULES_2026_1)


def test_a_stuck_run_of_one_row_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 2"):
        QualitySettings(stuck_rows=1)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_devices_side_by_side_and_row_by_row_get_the_flags_they_get_alone(seed: int, devices: int) -> None:
    channels, fleet = (TEMPERATURE, CURRENT), [random_rows(seed + index, 200) for index in range(devices)]
    times, values = (np.stack([rows[part] for rows in fleet], axis=1) for part in (0, 1))
    usable, unusable = usable_values(values, channels)
    flagging = RowFlagger(channels, 1.0, QualitySettings(), devices)
    together = np.stack([flagging.push(times[row : row + 1], usable[row : row + 1])[0] for row in range(200)])
    alone = np.stack([flag_rows(*rows, channels, 1.0) for rows in fleet], axis=1)
    assert_array_equal(together | unusable, alone)


def test_the_page_of_flags_lists_every_bit_and_no_other() -> None:
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [(int(bit), name) for bit, name in rows] == [(flag.value, flag.name) for flag in Flag]


def test_flags_mean_what_the_page_says() -> None:
    listed = dict(re.findall(r"^\| \d+ \| (\w+) \| (.+?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert {flag.name: words for flag, words in MEANINGS.items()} == listed
    assert set(MEANINGS) == set(Flag)


def colocated_box(
    device: str, channel: str = "", dead: slice = ALWAYS, value: float = np.nan, site: str = ""
) -> Readings:
    """A row a minute; the rows `dead` of a channel have a value that means no reading."""
    draw = np.random.default_rng(len(device))
    columns = {name: draw.normal(20, 1, ROWS) for name in NAMES}
    if channel:
        columns[channel][dead] = value
    times = [START + timedelta(minutes=row) for row in range(ROWS)]
    frame = pl.DataFrame({"time": times, **columns, "reference": np.arange(float(ROWS))})
    return Readings(device, frame, tuple(Channel(name) for name in NAMES), Channel("no2"), site)


def devices_by_part(split: Split) -> list[list[str]]:
    return [[one.device for one in part] for part in split.parts.values()]


def by_time(*readings: Readings) -> Split:
    return split_by_time(readings, 0.0)


@pytest.mark.parametrize("value", [np.nan, -999.0, 1e31])
def test_a_channel_of_no_reading_at_all_is_dead(value: float) -> None:
    assert find_dead_channels(colocated_box("a", "ox", value=value)) == ("ox",)
    assert find_dead_channels(colocated_box("a", "ox", slice(1, None), value)) == ()


def test_rows_that_are_never_complete_are_dead() -> None:
    half_values = colocated_box("a").values.copy()
    half_values[::2, 0] = half_values[1::2, 1] = np.nan
    frame = colocated_box("a").frame.with_columns(
        pl.Series("no2", half_values[:, 0]), pl.Series("ox", half_values[:, 1])
    )
    never = Readings("a", frame, colocated_box("a").channels, Channel("no2"))
    assert find_dead_channels(never) == NAMES
    _, (message,) = drop_dead_devices({"": [never, colocated_box("b")]})
    assert message.startswith("a is left out: no row has a usable value in every channel")


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
    alive = [colocated_box(name, site=name) for name in ("a", "bb", "ccc")]
    dead = colocated_box("dead", "ox", site="dead")
    split, without = cut(*alive, dead), cut(*alive)
    assert split.left_out == ("dead is left out: ox has no usable value; use --channels no2,t to leave it out",)
    assert (split.description, split.notes, devices_by_part(split)) == (
        without.description,
        without.notes,
        devices_by_part(without),
    )


def labels() -> pl.DataFrame:
    words = ["train"] * 24 + ["validate"] * 6 + ["test"] * 10
    return pl.DataFrame({"time": colocated_box("a").frame["time"], "label": words})


@pytest.mark.parametrize(
    ("dead", "part", "expected"),
    [
        (FIRST, "training", [["a"], ["a"], ["a"]]),
        (MIDDLE, "validation", [["a", "bb"], ["a"], ["a", "bb"]]),
        (LAST, "test", [["a", "bb"], ["a", "bb"], ["a"]]),
    ],
)
def test_a_box_that_is_dead_for_a_period_is_left_out_of_it(dead: slice, part: str, expected: list[list[str]]) -> None:
    split = by_time(colocated_box("a"), colocated_box("bb", "ox", dead))
    assert devices_by_part(split) == expected
    assert split.left_out == (
        f"bb is left out: ox has no usable value in {part}; use --channels no2,t to leave it out",
    )


def test_the_sensor_to_calibrate_cannot_be_done_without() -> None:
    split = by_time(colocated_box("a"), colocated_box("bb", "no2"))
    assert split.left_out == ("bb is left out: no2 has no usable value; check it with 'scare inspect'",)


def test_a_channel_that_is_dead_on_most_devices_is_named_with_the_option_that_leaves_it_out() -> None:
    split = by_time(colocated_box("a"), colocated_box("bb", "ox"), colocated_box("ccc", "ox"))
    assert split.left_out[-1] == "ox has no usable value on 2 of 3 devices; use --channels no2,t to leave it out"
    assert len(by_time(colocated_box("a"), colocated_box("bb"), colocated_box("ccc", "ox")).left_out) == 1


def test_only_a_fleet_with_nothing_left_is_refused() -> None:
    with pytest.raises(
        DataError, match="no device is left: ox has no usable value on 2 of 2 devices; use --channels no2,t"
    ):
        by_time(colocated_box("a", "ox"), colocated_box("bb", "ox"))
    with pytest.raises(
        DataError, match="no device is left: a is left out: t has no usable value; use --channels no2,ox"
    ):
        by_time(colocated_box("a", "t"))
    with pytest.raises(DataError, match="no device is left in test: a is left out: ox has no usable value in test"):
        by_time(colocated_box("a", "ox", LAST))


def test_nothing_is_said_of_a_healthy_fleet() -> None:
    assert by_time(colocated_box("a"), colocated_box("bb")).left_out == ()
