"""Prediction intervals: looked up by band, wider on uncertain rows, stored with the calibrator, fitted to errors."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.calibrator.bundle import MANIFEST
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import (
    BANDS,
    KEPT_WINDOWS_FACTOR,
    RATE,
    UNCERTAIN,
    USUAL_WIDENING,
    CalibrationErrors,
    Intervals,
    derive_intervals,
    few_blocks_factor,
    fit_intervals,
    next_factor,
)
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


def errors_of(
    residuals: np.ndarray, values: np.ndarray | None = None, flags: np.ndarray | None = None
) -> CalibrationErrors:
    """Errors a minute apart of values from 0 to 100 that do not matter."""
    count = len(residuals)
    values = np.random.default_rng(7).uniform(0, 100, count) if values is None else values
    flags = np.zeros(count, np.uint32) if flags is None else flags
    return CalibrationErrors(values, values + residuals, 60.0 * np.arange(count), flags)


def remembering(rng: np.random.Generator, count: int, rows: int) -> np.ndarray:
    """Errors with a memory of about so many rows, of variance 1."""
    kept = np.exp(-1 / rows)
    noise, found = rng.normal(0, np.sqrt(1 - kept**2), count), np.empty(count)
    state = rng.normal()
    for index, shock in enumerate(noise):
        found[index] = state = kept * state + shock
    return found


def known(found: Intervals | None) -> Intervals:
    assert found is not None
    return found


def coverage(found: Intervals, errors: CalibrationErrors) -> float:
    low, high = found.around(errors.values, errors.flags)
    return float(np.mean((errors.references >= low) & (errors.references <= high)))


@settings(deadline=None, max_examples=8, derandomize=True)
@given(level=st.sampled_from([0.5, 0.8, 0.9, 0.95]), seed=st.integers(0, 99))
def test_independent_errors_are_covered_as_often_as_stated(level: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    before, after = (errors_of(rng.gumbel(-np.euler_gamma, size=4000)) for _ in range(2))
    found = known(fit_intervals([before], level))
    assert found.level == level
    assert coverage(found, after) == pytest.approx(level, abs=0.035)


def test_errors_that_remember_count_in_blocks() -> None:
    """With few blocks intervals are wider, for other days; rows counted one by one would cover less than stated."""
    rng, found, naive = np.random.default_rng(3), [], []
    for _ in range(40):
        before, after = (errors_of(remembering(rng, 1000, 40)) for _ in range(2))
        found.append(coverage(known(fit_intervals([before])), after))
        low, high = np.quantile(before.residuals, [0.05, 0.95])
        naive.append(np.mean((after.residuals >= low) & (after.residuals <= high)))
    assert np.mean(naive) < 0.875
    assert 0.9 < np.mean(found) < 0.97


def test_larger_values_with_larger_errors_have_wider_intervals_of_the_same_coverage() -> None:
    rng = np.random.default_rng(5)

    def rows() -> CalibrationErrors:
        values = rng.exponential(20, 20_000)
        return errors_of(rng.normal(size=20_000) * (1 + 0.2 * values), values)

    found, new = known(fit_intervals([rows()])), rows()
    assert len(found.below) == BANDS
    assert np.all(np.diff(found.above) > 0)
    for low, high in ((0, 10), (10, 40), (40, 500)):
        part = new.rows((new.values >= low) & (new.values < high))
        assert coverage(found, part) == pytest.approx(0.9, abs=0.035)


def test_skewed_errors_have_intervals_that_are_longer_on_one_side() -> None:
    found = known(fit_intervals([errors_of(np.random.default_rng(1).exponential(size=5000) - 1)]))
    assert min(found.above) > 1.5 * max(found.below)


def test_what_was_too_high_in_one_block_may_be_too_low_in_the_next() -> None:
    rng = np.random.default_rng(2)
    biased = 3.0 + np.repeat(rng.normal(0, 0.1, 20), 100) + rng.normal(0, 0.1, 2000)
    found = known(fit_intervals([errors_of(biased)]))
    assert coverage(found, errors_of(-biased)) > 0.85


def test_parts_have_the_same_weight_whatever_their_length() -> None:
    rng = np.random.default_rng(4)
    wide, narrow = errors_of(rng.normal(0, 3, 300)), errors_of(rng.normal(0, 1, 30_000))
    for parts in ([wide, narrow], [narrow, wide]):
        found = known(fit_intervals(parts))
        assert (coverage(found, wide) + coverage(found, narrow)) / 2 == pytest.approx(0.9, abs=0.02)


def test_fewer_blocks_of_time_have_wider_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors that last 200 rows make few blocks; the table is wider by the factor for their mean number."""
    rng = np.random.default_rng(8)
    parts = [errors_of(np.repeat(rng.normal(size=count), 200)) for count in (15, 40)]
    blocks = [int(part.blocks.max()) + 1 for part in parts]
    assert 4 < np.mean(blocks) < 30
    wide = known(fit_intervals(parts))
    monkeypatch.setattr("scare.calibrator.intervals.FEW_BLOCKS", 0.0)
    assert_allclose(wide.above, known(fit_intervals(parts)).scaled(1 + (4 / np.mean(blocks)) ** 2).above, rtol=1e-6)


def test_one_block_of_time_says_little_of_the_next() -> None:
    assert few_blocks_factor([1]) == 3.0
    assert few_blocks_factor([1000, 1000]) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_rows_that_are_less_sure_are_covered_as_often_as_others(factor: float) -> None:
    rng = np.random.default_rng(6)

    def rows() -> CalibrationErrors:
        spikes = rng.uniform(size=8000) < 0.1
        residuals = rng.normal(size=8000) * np.where(spikes, factor, 1.0)
        return errors_of(residuals, flags=np.where(spikes, np.uint32(Flag.SPIKE), np.uint32(0)))

    found, new = known(fit_intervals([rows()])), rows()
    assert found.widening == pytest.approx(max(1.0, factor), rel=0.15)
    assert known(fit_intervals([errors_of(rng.normal(size=8000))])).widening == USUAL_WIDENING
    assert coverage(found, new.rows(new.flags > 0)) > 0.87


@pytest.mark.parametrize("count", [0, 1, 29])
def test_too_few_errors_say_nothing(count: int) -> None:
    assert fit_intervals([errors_of(np.ones(1000)), errors_of(np.ones(count))]) is None
    assert derive_intervals(np.ones(count), np.ones(count)) is None


def test_what_is_no_number_is_left_out() -> None:
    residuals = np.random.default_rng(0).normal(size=500)
    some = np.where(np.arange(600) < 500, np.resize(residuals, 600), np.nan)
    assert known(fit_intervals([errors_of(some)])).above[0] > 0
    assert derive_intervals(np.full(100, np.nan), np.ones(100)) is None


def test_a_calibrator_without_errors_has_intervals_without_a_width() -> None:
    found = known(fit_intervals([errors_of(np.zeros(1000))]))
    assert_allclose(np.array(found.above) + found.below, 0.0, atol=1e-30)


def test_derived_ones_say_so_and_are_wider() -> None:
    errors = errors_of(np.random.default_rng(9).normal(size=512))
    found, derived = known(fit_intervals([errors])), known(derive_intervals(errors.values, errors.references))
    assert (found.kept_windows, derived.kept_windows) == (0, 512)
    assert_allclose(derived.above, KEPT_WINDOWS_FACTOR * np.array(found.above), rtol=1e-6)


@pytest.mark.parametrize("growth", [1 / 3, 3.0])
def test_the_level_is_kept_while_errors_grow_or_shrink(growth: float) -> None:
    rng, intervals, factor, covered = np.random.default_rng(1), Intervals(0.9, (), (1.6,), (1.6,)), 1.0, []
    for error in rng.normal(size=4000) * np.geomspace(1.0, growth, 4000):
        low, high = intervals.scaled(factor).around(np.zeros(1), np.zeros(1, np.uint32))
        covered.append(low[0] <= error <= high[0])
        factor = intervals.hold_level(np.zeros(1), np.array([error]), factor)
    assert np.mean(covered) == pytest.approx(0.9, abs=abs(np.log(growth)) / (RATE * 4000))  # the known bound
    assert factor == pytest.approx(growth, rel=0.3)


def test_every_long_stretch_of_a_drifting_stream_is_covered() -> None:
    rng, intervals, factor = np.random.default_rng(2), Intervals(0.9, (), (1.645,), (1.645,)), 1.0
    spread = np.exp(0.7 * np.sin(np.linspace(0, 4 * np.pi, 64_000)))  # errors of half to twice the usual size
    errors = spread * rng.normal(size=len(spread))
    is_inside = np.zeros(len(errors), bool)
    for index, distance in enumerate(np.abs(errors).tolist()):
        is_inside[index] = distance <= factor * intervals.above[0]
        factor = next_factor(factor, bool(is_inside[index]), intervals.level)
    adapted, static = (inside.reshape(-1, 2000).mean(axis=1) for inside in (is_inside, np.abs(errors) <= 1.645))
    assert adapted.min() > 0.85
    assert adapted.max() < 0.95
    assert static.min() < 0.65
    assert static.max() > 0.99
