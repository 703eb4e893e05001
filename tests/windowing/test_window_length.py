"""A window is given in readings or as a duration, or follows the data."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare.data.colocation import SplitSection, make_split
from scare.data.column_mapping import DataSection
from scare.data.readings import REFERENCE, TIME, Channel, Readings
from scare.data.split import FEWEST_READINGS, split_by_time
from scare.errors import DataError, UsageError
from scare.windowing.windows import AUTO, parse_window, window_readings


def colocation(step_seconds: float, days: float) -> Readings:
    """A device with a reference at every row."""
    rows = int(days * 86400 / step_seconds)
    start = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    times = pl.Series(TIME, ((start + step_seconds * np.arange(rows)) * 1e6).astype(np.int64))
    frame = pl.DataFrame([times.cast(pl.Datetime("us", "UTC")), pl.Series("pm25", np.arange(rows) % 17.0)])
    return Readings("box", frame.with_columns(pl.col("pm25").alias(REFERENCE)), (Channel("pm25"),), Channel("pm"))


@pytest.mark.parametrize(
    ("step_seconds", "days", "expected"),
    [
        (60, 30, 60),  # an hour
        (120, 13, 30),
        (10, 7, 360),  # an hour
        (1, 3, 360),  # never more readings than a small board holds
        (600, 30, 12),  # two hours
        (3600, 60, 12),  # twelve hours
        (3600, 13, 11),  # a quarter of a validation of 47 hours
        (3600, 2, 4),  # the fewest
    ],
)
def test_the_default_follows_step_and_length_of_the_data(step_seconds: float, days: float, expected: int) -> None:
    assert window_readings(AUTO, [colocation(step_seconds, days)]) == expected


@settings(deadline=None)
@given(st.sampled_from([1.0, 60.0, 120.0, 600.0, 3600.0]), st.integers(40, 2000))
def test_the_default_leaves_three_quarters_of_validation_and_test(step_seconds: float, rows: int) -> None:
    one = colocation(step_seconds, rows * step_seconds / 86400)
    window = window_readings(AUTO, [one])
    if window > FEWEST_READINGS:
        split = split_by_time([one], window * step_seconds)
        for part in (split.validation, split.test):
            assert np.isfinite(part[0].targets).sum() >= 0.7 * len(part[0]) - 1


def test_readings_and_durations_count_the_same() -> None:
    minutes, hours = colocation(60, 10), colocation(3600, 10)
    for text, one, expected in (("60", minutes, 60), ("1h", minutes, 60), ("90 min", minutes, 90), ("1.5d", hours, 36)):
        assert window_readings(parse_window(text), [one]) == expected


@pytest.mark.parametrize("text", ["3", "-5", "1 fortnight", "h", "", "60,120"])
def test_what_is_no_length_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="--window"):
        parse_window(text)


def test_a_duration_of_too_few_readings_says_which_would_do() -> None:
    with pytest.raises(UsageError, match="a reading every 1 hour: use --window 4h"):
        window_readings("1h", [colocation(3600, 10)])


def test_a_window_that_starves_validation_says_what_would_do() -> None:
    one = colocation(3600, 13)
    with pytest.raises(DataError, match="use --window 23h, or 21 more days") as refused:
        make_split([one], [Path("box.csv")], DataSection(), SplitSection(), 60)
    assert "validation has no rows with a reference" in str(refused.value)
    make_split([one], [Path("box.csv")], DataSection(), SplitSection(), 23)
    make_split([colocation(3600, 13 + 21)], [Path("box.csv")], DataSection(), SplitSection(), 60)
