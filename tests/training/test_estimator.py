"""The estimator behaves as those of scikit-learn do."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline

from scare import SensorCalibrator
from scare.errors import DataError, UsageError
from scare.training.recipe import PRESETS
from tests.training.small_fits import line_recipe, make_readings

READINGS = make_readings(channels=("raw", "humidity"))
TABLE = READINGS.frame.select("time", "raw", "humidity")
TARGETS = READINGS.targets


@pytest.fixture(autouse=True, scope="module")
def _line() -> Iterator[None]:
    """The default preset trains a line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "default", line_recipe())
        yield


@pytest.fixture(scope="module")
def fitted(_line: None) -> SensorCalibrator:
    return SensorCalibrator(window=4, steps=400, fallback=False).fit(TABLE, TARGETS)


def columns(**changed: Any) -> dict[str, Any]:
    """The table as a dict of lists."""
    return TABLE.to_dict(as_series=False) | changed


def test_it_learns(fitted: SensorCalibrator) -> None:
    assert fitted.score(TABLE, TARGETS) > 0.9


def test_there_is_a_value_for_every_row_with_enough_history(fitted: SensorCalibrator) -> None:
    values = fitted.predict(TABLE)
    assert values.shape == (len(TABLE),)
    assert values.dtype == float
    assert np.isfinite(values[4:]).all()
    assert np.isnan(values[0])


def test_a_missing_reading_has_no_value(fitted: SensorCalibrator) -> None:
    values = fitted.predict(
        TABLE.with_columns(pl.when(pl.int_range(pl.len()) != 50).then("humidity").alias("humidity"))
    )
    assert np.isnan(values[50])
    assert np.isfinite(values[49])


def test_the_score_is_r2_over_the_rows_with_value_and_reference(fitted: SensorCalibrator) -> None:
    targets = np.where(np.arange(len(TARGETS)) % 3 == 0, np.nan, TARGETS)
    values = fitted.predict(TABLE)
    known = np.isfinite(values) & np.isfinite(targets)
    assert fitted.score(TABLE, targets) == pytest.approx(r2_score(targets[known], values[known]))
    assert np.isnan(fitted.score(TABLE, np.full(len(TARGETS), np.nan)))


def test_the_score_of_a_constant_reference_is_that_of_scikit_learn(fitted: SensorCalibrator) -> None:
    constant = np.full(len(TARGETS), 5.0)  # as a short part of a cross-validation may have it
    values = fitted.predict(TABLE)
    known = np.isfinite(values)
    assert fitted.score(TABLE, constant) == r2_score(constant[known], values[known]) == 0.0


def test_rows_without_a_reference_are_not_learned_from() -> None:
    targets = np.where(np.arange(len(TARGETS)) % 2 == 0, np.nan, TARGETS)
    half = SensorCalibrator(window=4, steps=20).fit(TABLE, targets)
    whole = SensorCalibrator(window=4, steps=20).fit(TABLE, TARGETS)
    counts = [one.calibrator_.facts["training_windows"] for one in (half, whole)]
    assert counts[0] < 0.6 * counts[1]


# --- scikit-learn ---


def test_a_clone_has_the_settings_and_nothing_learned(fitted: SensorCalibrator) -> None:
    copy = clone(fitted)
    assert copy is not fitted
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "calibrator_")


def test_settings_are_read_and_changed_by_name() -> None:
    estimator = SensorCalibrator(seed=3)
    expected = {"window": "auto", "preset": "default", "steps": None, "seed": 3, "time": "time"}
    expected |= {"model": "scare", "device_column": "", "fallback": True}
    assert estimator.get_params() == expected
    assert estimator.set_params(window=8, steps=5) is estimator
    assert estimator.get_params() == expected | {"window": 8, "steps": 5}
    with pytest.raises(ValueError, match="Invalid parameter 'widnow'"):
        estimator.set_params(widnow=8)


def test_fit_gives_the_estimator_itself() -> None:
    estimator = SensorCalibrator(window=4, steps=1)
    assert estimator.fit(TABLE, TARGETS) is estimator


def test_the_same_seed_gives_the_same_values(fitted: SensorCalibrator) -> None:
    again = clone(fitted).fit(TABLE, TARGETS)
    np.testing.assert_array_equal(again.predict(TABLE), fitted.predict(TABLE))


def test_predicting_before_fitting_is_refused() -> None:
    for kind in (UsageError, NotFittedError):
        with pytest.raises(kind, match="call fit first"):
            SensorCalibrator().predict(TABLE)


# --- tables ---


@pytest.mark.parametrize(
    "table",
    [
        columns(),
        {name: np.asarray(TABLE[name]) for name in TABLE.columns},
        {name: TABLE[name] for name in TABLE.columns},
        TABLE.with_columns(pl.col("time").dt.convert_time_zone("Europe/Oslo")),
        columns(time=[time.replace(tzinfo=None) for time in TABLE["time"]]),
        columns(time=[time.astimezone(timezone(timedelta(hours=5))) for time in TABLE["time"]]),
        columns(time=np.array([time.replace(tzinfo=None) for time in TABLE["time"]], "datetime64[ns]")),
    ],
    ids=["lists", "arrays", "series", "another zone", "naive", "an offset", "nanoseconds"],
)
def test_every_kind_of_table_gives_the_same_values(fitted: SensorCalibrator, table: Any) -> None:
    np.testing.assert_array_equal(fitted.predict(table), fitted.predict(TABLE))


def test_a_time_without_a_zone_is_utc() -> None:
    naive = columns(time=[time.replace(tzinfo=None) for time in TABLE["time"]])
    estimator = SensorCalibrator(window=4, steps=1).fit(naive, TARGETS)
    first = datetime.fromisoformat(estimator.calibrator_.facts["period"][0])
    assert first == TABLE["time"][0] == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_missing_number_is_none_or_nan(fitted: SensorCalibrator) -> None:
    rows = TABLE["raw"].to_list()
    values = [fitted.predict(columns(raw=[*rows[:80], hole, *rows[81:]])) for hole in (None, float("nan"))]
    np.testing.assert_array_equal(*values)
    assert np.isnan(values[0][80])


def test_the_time_column_can_have_another_name() -> None:
    table = TABLE.rename({"time": "when"})
    estimator = SensorCalibrator(window=4, steps=1, time="when").fit(table, TARGETS)
    assert np.isfinite(estimator.predict(table)[10:]).all()
    with pytest.raises(UsageError, match="no column 'time'"):
        SensorCalibrator().fit(table, TARGETS)


@pytest.mark.parametrize(
    ("times", "reason"),
    [(range(200), "not a time"), (["2026-01-01T00:00"] * 200, "row 2 of the table: .* is there twice")],
)
def test_what_is_not_a_time_or_is_there_twice_is_refused(times: Any, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        SensorCalibrator().fit(columns(time=list(times)), TARGETS)


def test_an_array_is_refused_with_what_to_give() -> None:
    with pytest.raises(UsageError, match="a ndarray has no names of columns and no times; give a table of pandas"):
        SensorCalibrator().fit(np.zeros((200, 2)), TARGETS)


def test_y_needs_a_number_for_each_row() -> None:
    with pytest.raises(UsageError, match=r"y has the shape \(3,\); it needs one number for each of the 200 rows"):
        SensorCalibrator().fit(TABLE, TARGETS[:3])


# --- a value for every row ---


def test_a_row_without_a_value_gets_the_line_or_the_mean(fitted: SensorCalibrator) -> None:
    filled = clone(fitted).set_params(fallback=True).fit(TABLE, TARGETS)
    holes = TABLE.with_columns(pl.when(pl.int_range(pl.len()) != 50).then("raw").alias("raw"))
    values, bare = filled.predict(holes), fitted.predict(holes)
    slope, intercept = np.polyfit(TABLE["raw"].to_numpy(), TARGETS, 1)
    assert filled.fallback_ == pytest.approx((slope, intercept, TARGETS.mean()))
    assert np.isnan(bare[[0, 50]]).all()
    assert values[[0, 50]] == pytest.approx([slope * TABLE["raw"][0] + intercept, TARGETS.mean()])
    known = np.isfinite(bare)
    np.testing.assert_array_equal(values[known], bare[known])
    assert np.isfinite(values).all()


@pytest.mark.parametrize("scoring", [None, "r2", "neg_root_mean_squared_error"])
def test_scorers_and_cross_validation_of_scikit_learn_work(scoring: str | None) -> None:
    scores = cross_val_score(SensorCalibrator(window=4, steps=50), TABLE, TARGETS, cv=3, scoring=scoring)
    assert np.isfinite(scores).all()


def test_rows_are_answered_in_the_order_of_the_table(fitted: SensorCalibrator) -> None:
    order = np.random.default_rng(0).permutation(len(TABLE))
    np.testing.assert_array_equal(fitted.predict(TABLE[order]), fitted.predict(TABLE)[order])


def test_several_devices_are_apart(fitted: SensorCalibrator) -> None:
    both = pl.concat([TABLE.with_columns(pl.lit(name).alias("box")) for name in ("a", "b")]).sort("time", "box")
    targets = np.repeat(TARGETS, 2)
    estimator = SensorCalibrator(window=4, steps=50, device_column="box", fallback=False).fit(both, targets)
    values = estimator.predict(both)
    np.testing.assert_array_equal(values[0::2], values[1::2])
    assert np.isnan(values[0])
    assert np.isfinite(values[8:]).all()
    with pytest.raises(DataError, match="name the column of the device"):
        SensorCalibrator(window=4).fit(both.drop("box"), targets)


# --- other models ---


@pytest.mark.parametrize("model", ["linear", "multiple-linear", "ridge", "boosting", "nlinear"])
def test_models_and_baselines_are_fitted_by_name(model: str) -> None:
    estimator = SensorCalibrator(window=4, steps=20, model=model).fit(TABLE, TARGETS)
    assert estimator.calibrator_.facts["model"] == model
    assert np.isfinite(estimator.predict(TABLE)).all()


def test_an_unknown_model_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="no model called 'rigde'; did you mean 'ridge'"):
        SensorCalibrator(model="rigde").fit(TABLE, TARGETS)


# --- pandas ---


def test_tables_of_pandas_work_in_scorers_and_pipelines(fitted: SensorCalibrator) -> None:
    pandas = pytest.importorskip("pandas")
    columns = {name: TABLE[name].to_numpy() for name in ("raw", "humidity")}
    table = pandas.DataFrame(columns, index=pandas.DatetimeIndex(TABLE["time"].to_numpy(), tz="UTC"))
    np.testing.assert_array_equal(fitted.predict(table), fitted.predict(TABLE))
    pick = ColumnTransformer([("kept", "passthrough", ["raw"])], verbose_feature_names_out=False)
    pipeline = make_pipeline(pick.set_output(transform="pandas"), SensorCalibrator(window=4, model="linear"))
    scores = cross_val_score(pipeline, table, pandas.Series(TARGETS, table.index), cv=TimeSeriesSplit(3))
    assert np.isfinite(scores).all()
    assert pipeline.fit(table, TARGETS)[-1].calibrator_.inputs.channels[0].name == "raw"


def test_the_presets_are_those_of_recipes() -> None:
    with pytest.raises(UsageError, match="no preset"):
        SensorCalibrator(preset="nonsense").fit(TABLE, TARGETS)
