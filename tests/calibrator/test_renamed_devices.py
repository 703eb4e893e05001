"""A device of training is recognised by its readings, and no other device is taken for it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare import Calibrator, Readings
from scare.calibrator.renamed_devices import LEAST_ROWS, ROWS_OF_ALL, ROWS_OF_DEVICE, keep_rows, recognise
from scare.errors import DataError
from tests.calibrator.building import make_calibrator
from tests.training.small_fits import make_readings

CALIBRATOR = make_calibrator()
INPUTS = CALIBRATOR.inputs
CHANNELS = tuple(channel.name for channel in INPUTS.channels)


def box(name: str, seed: int, rows: int = 200, digits: int = 1) -> Readings:
    """A box whose readings have few digits."""
    values = np.random.default_rng(seed).normal(20, 5, (rows, len(CHANNELS))).round(digits)
    return make_readings(values, values[:, 0], name, channels=CHANNELS)


def found(known: np.ndarray, readings: Readings) -> int | None:
    return recognise(known, readings.times, readings.values)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), boxes=st.integers(2, 5))
def test_each_box_is_recognised_and_none_that_was_left_out(seed: int, boxes: int) -> None:
    fleet = [box(f"box-{number}", seed + number) for number in range(boxes)]
    known = keep_rows(INPUTS, fleet)
    for number, one in enumerate(fleet):
        assert found(known, one) == number
        assert found(known[known[:, 0] != number], one) is None


def test_the_parts_of_a_device_are_one_device() -> None:
    one, other = box("a", 1), box("b", 2)
    parts = [one.rows(one.times < one.times[100]), other, one.rows(one.times >= one.times[100])]
    known = keep_rows(INPUTS, parts)
    assert np.bincount(known[:, 0].astype(int)).tolist() == [ROWS_OF_DEVICE, ROWS_OF_DEVICE]
    np.testing.assert_array_equal(known[known[:, 0] == 0], keep_rows(INPUTS, [one]))


def test_one_reading_that_differs_is_another_device() -> None:
    one = box("a", 1)
    known = keep_rows(INPUTS, [one])
    values = one.values.copy()
    values[np.flatnonzero(one.times == known[7, 1])] += 0.1
    assert recognise(known, one.times, values) is None


def test_other_times_few_rows_and_readings_that_repeat_are_not_recognised() -> None:
    one = box("a", 1)
    known = keep_rows(INPUTS, [one])
    assert recognise(known, one.times + 30.0, one.values) is None
    few = one.times < known[LEAST_ROWS - 1, 1]
    assert recognise(known, one.times[few], one.values[few]) is None
    dry = make_readings(np.zeros_like(one.values), one.values[:, 0], "a", channels=CHANNELS)
    assert found(keep_rows(INPUTS, [dry]), dry) is None


def test_two_names_of_one_device_are_not_told_apart() -> None:
    assert found(keep_rows(INPUTS, [box("a", 1), box("b", 1)]), box("c", 1)) is None


def test_a_large_fleet_keeps_fewer_rows_of_each() -> None:
    assert len(keep_rows(INPUTS, [box(str(number), number, 30) for number in range(600)])) == 600 * (ROWS_OF_ALL // 600)


def test_a_file_keeps_them_and_rows_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    known = keep_rows(INPUTS, [box("a", 1)])
    path = replace(CALIBRATOR, known_rows=known).save(tmp_path / "a.scare")
    np.testing.assert_array_equal(Calibrator.load(path).known_rows, known)
    for wrong in (known[:, 1:], np.full_like(known, np.nan)):
        with pytest.raises(DataError, match="the rows of training do not fit the channels"):
            Calibrator.load(replace(CALIBRATOR, known_rows=wrong).save(path))
