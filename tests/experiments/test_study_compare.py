"""A comparison is fair: the same rows for everyone."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from scare import Readings
from scare.baselines.classical import raw_reading
from scare.data.flags import DEFAULT_SETTINGS
from scare.data.readings import REFERENCE
from scare.errors import DataError
from scare.experiments.study import compare
from scare.scorecard.accuracy import measure, row_changes
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import fit_scaling
from scare.windowing.windows import STRICT
from tests.training.small_fits import make_readings

RAW = np.random.default_rng(3).normal(30, 3, (60, 1)).round(2)
BOX = make_readings(RAW, 2 * RAW[:, 0] + 5)


def raw_baseline(limit: float = np.inf):
    """The raw column, of which values above a limit are no readings."""
    scaling = fit_scaling("standard", {"box-1": RAW}, RAW[:, 0], per_device=True, settle=0)
    channels = tuple(replace(channel, high=limit) for channel in BOX.channels)
    assert BOX.reference is not None
    return raw_reading(Inputs(channels, scaling, 60.0, 4, STRICT, DEFAULT_SETTINGS), BOX.reference)


def with_column(name: str, values: np.ndarray) -> Readings:
    return replace(BOX, frame=BOX.frame.with_columns(pl.Series(name, values)))


def test_the_scores_are_those_of_the_whole_test_part() -> None:
    later = replace(BOX, device="box-2")
    scores = compare({"raw": raw_baseline()}, [BOX, later])
    changes = row_changes(BOX.times, RAW[:, 0], 60.0)
    twice = [np.tile(values, 2) for values in (RAW[:, 0], BOX.targets, changes)]
    expected = measure(*twice)
    assert scores["raw"].rows == 120
    for name in ("rmse", "mae", "bias", "r2", "slope", "top5_rmse"):
        assert getattr(scores["raw"], name) == pytest.approx(getattr(expected, name), rel=1e-5)


def test_all_are_scored_on_the_rows_that_all_have() -> None:
    scores = compare({"raw": raw_baseline(), "cautious": raw_baseline(limit=30.0)}, [BOX])
    known = RAW[:, 0] <= 30
    assert 0 < known.sum() < 60
    assert scores["raw"].rows == scores["cautious"].rows == known.sum()
    assert scores["raw"] == scores["cautious"]


def test_a_row_without_a_reference_is_not_scored() -> None:
    reference = np.where(np.arange(60) % 3 == 0, np.nan, BOX.targets)
    assert compare({"raw": raw_baseline()}, [with_column(REFERENCE, reference)])["raw"].rows == 40


def test_a_jump_from_a_number_that_is_no_reading_is_not_a_fast_change() -> None:
    spoilt = RAW[:, 0].copy()
    spoilt[20] = -999.0
    score = compare({"raw": raw_baseline()}, [with_column("raw", spoilt)])["raw"]
    changes = np.abs(np.diff(np.where(spoilt == -999, np.nan, spoilt), prepend=np.nan))
    top = np.argsort(-changes, kind="stable")[:3]
    expected = np.sqrt(np.square(RAW[top, 0] - BOX.targets[top]).mean())
    assert score.rows == 59
    assert score.top5_rmse == pytest.approx(expected, rel=1e-5)


def test_nothing_in_common_is_refused() -> None:
    with pytest.raises(DataError, match="no test row has a reference and a value from every method"):
        compare({"raw": raw_baseline(), "blind": raw_baseline(limit=-1e6)}, [BOX])
