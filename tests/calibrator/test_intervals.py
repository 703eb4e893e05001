"""Intervals are looked up by band of the value, wider where a row is less sure, and stored with the calibrator."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from scare.calibrator.bundle import MANIFEST
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import UNCERTAIN, Intervals
from scare.data.flags import Flag
from scare.errors import DataError, UsageError
from tests.calibrator.building import bad_readings, make_calibrator
from tests.calibrator.test_bundle import with_facts

SURE = Intervals(0.9, edges=(10.0, 20.0), below=(1.0, 2.0, 4.0), above=(1.5, 2.5, 3.5), widening=2.0)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(
    value=st.floats(-1e6, 1e6) | st.sampled_from([10.0, 20.0, float("nan")]),
    flag=st.sampled_from([Flag(0), Flag.STUCK, *UNCERTAIN, Flag.SPIKE | Flag.UNSETTLED]),
)
def test_an_interval_is_two_look_ups(value: float, flag: Flag) -> None:
    low, high = SURE.around(np.array([value]), np.array([flag], np.uint32))
    band = sum(edge <= value for edge in SURE.edges)
    factor = SURE.widening if flag & UNCERTAIN else 1.0
    assert_array_equal(low, [value - factor * SURE.below[band]])
    assert_array_equal(high, [value + factor * SURE.above[band]])


@pytest.mark.parametrize(
    "wrong", [{"edges": (20.0, 10.0)}, {"edges": (10.0,)}, {"above": (1.0,)}, {"edges": (1.0, float("inf"))}]
)
def test_a_table_that_does_not_fit_is_refused(wrong: dict[str, tuple[float, ...]]) -> None:
    with pytest.raises(UsageError, match=r"band"):
        replace(SURE, **wrong)  # type: ignore[arg-type]


def test_a_row_has_the_same_interval_every_way_it_goes() -> None:
    calibrator, readings = replace(make_calibrator(), intervals=SURE), bad_readings(3, 300)
    table = calibrator.predict(readings)
    low, high = SURE.around(table["calibrated"].fill_null(np.nan).to_numpy(), table["flags"].to_numpy())
    assert_array_equal(table["low"].fill_null(np.nan), low)
    assert_array_equal(table["high"].fill_null(np.nan), high)
    assert table["low"].null_count() == table["calibrated"].null_count() > 0
    live = calibrator.live("box-1")
    answers = [live.push(time, row) for time, row in zip(readings.times.tolist(), readings.values, strict=True)]
    assert_array_equal([one.low for one in answers], low)
    assert_array_equal([one.high for one in answers], high)


def test_it_is_saved_with_the_calibrator(tmp_path: Path) -> None:
    calibrator = replace(make_calibrator(), intervals=SURE)
    assert Calibrator.load(calibrator.save(tmp_path / "a.scare")).intervals == SURE


@pytest.mark.parametrize("wrong", [{"below": [-1.0]}, {"level": 1.0}, {"widening": 0.5}, {"edges": [3.0]}])
def test_a_file_with_a_wrong_one_is_refused(wrong: dict[str, object], tmp_path: Path) -> None:
    saved = replace(make_calibrator(), intervals=Intervals(0.9, (), (1.0,), (2.0,))).save(tmp_path / "a.scare")
    changed = with_facts(saved, tmp_path / "b.scare", lambda facts: facts["intervals"].update(wrong))
    with pytest.raises(DataError, match=r"refused: its manifest: "):
        Calibrator.load(changed)


def test_a_derived_one_is_not_written(tmp_path: Path) -> None:
    derived = replace(make_calibrator(), intervals=replace(SURE, kept_windows=512))
    with zipfile.ZipFile(derived.save(tmp_path / "a.scare")) as archive:
        assert "intervals" not in json.loads(archive.read(MANIFEST))
