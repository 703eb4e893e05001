"""Baselines: the raw column, least squares, ridge, boosting, persistence and published corrections, one call each."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from scare import Calibrator, Readings, Simulation, simulate
from scare.baselines import classical
from scare.baselines.classical import (
    BASELINES,
    Boosted,
    Persistence,
    Predictor,
    linear_regression,
    make_all,
    raw_reading,
)
from scare.data.flags import DEFAULT_SETTINGS
from scare.data.readings import REFERENCE, Channel
from scare.errors import DataError, NotApplicableError
from scare.executor import one_thread
from scare.experiments.study import compare
from scare.layers.embedding import HatBasis
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import fit_scaling
from scare.windowing.windows import RECENT

TARGET = Channel("pm_reference", "ug/m3")


def of_any_size(box: Readings) -> Readings:
    """The box with particles of no size by their name: for every published correction."""
    raw, *others = box.channels
    named = replace(raw, name="pm_raw")
    return replace(box, frame=box.frame.rename({raw.name: "pm_raw"}), channels=(named, *others), reference=TARGET)


BOXES = [of_any_size(box) for box in simulate(Simulation(boxes=3, days=0.3, seed=2))]


def complete(readings: Readings) -> np.ndarray:
    return np.isfinite(readings.values).all(axis=1) & np.isfinite(readings.targets)


def inputs_of(boxes: list[Readings], per_device: bool, settle: int = 0) -> Inputs:
    rows = {box.device: box.values[complete(box)] for box in boxes}
    targets = np.concatenate([box.targets[complete(box)] for box in boxes])
    scaling = fit_scaling("standard", rows, targets, per_device, settle)
    return Inputs(boxes[0].channels, scaling, 60.0, 16, RECENT, DEFAULT_SETTINGS)


def fitted(name: str, boxes: list[Readings], inputs: Inputs) -> Predictor:
    """A baseline fitted on these boxes and checked on the same."""
    return BASELINES[name](boxes, boxes, inputs, TARGET)


def values_of(calibrator: Predictor, readings: Readings) -> np.ndarray:
    return calibrator.predict(readings)["calibrated"].fill_null(np.nan).to_numpy()


def test_the_raw_baseline_is_the_raw_column() -> None:
    raw = raw_reading(inputs_of(BOXES, per_device=True), TARGET)
    for box in BOXES:
        np.testing.assert_allclose(values_of(raw, box), box.values[:, 0], rtol=1e-6)


def test_a_raw_reading_that_is_none_stays_none() -> None:
    spoilt = BOXES[0].frame.with_columns(
        pl.when(pl.int_range(pl.len()) == 9).then(-999.0).otherwise("pm_raw").alias("pm_raw")
    )
    raw = raw_reading(inputs_of(BOXES, per_device=True), TARGET)
    values = values_of(raw, replace(BOXES[0], frame=spoilt))
    assert np.isnan(values[9])
    assert np.isfinite(values[10])


@pytest.mark.parametrize("channels", [1, 3])
def test_one_device_is_fitted_as_numpy_fits_it(channels: int) -> None:
    box = BOXES[0]
    line = linear_regression([box], inputs_of([box], per_device=True), TARGET, channels)
    known = complete(box)
    design = np.column_stack([box.values[:, :channels], np.ones(len(box))])
    solution, *_ = np.linalg.lstsq(design[known], box.targets[known], rcond=None)
    np.testing.assert_allclose(values_of(line, box)[known], design[known] @ solution, rtol=1e-4)


@pytest.mark.parametrize("channels", [1, 3])
def test_several_devices_are_fitted_each_in_its_own_scaling(channels: int) -> None:
    line = linear_regression(BOXES, inputs_of(BOXES, per_device=True), TARGET, channels)
    scaled = []
    for box in BOXES:
        rows = box.values[complete(box)]
        scaled.append(((rows - rows.mean(axis=0)) / rows.std(axis=0))[:, :channels])
    design = np.column_stack([np.concatenate(scaled), np.ones(sum(map(len, scaled)))])
    targets = np.concatenate([box.targets[complete(box)] for box in BOXES])
    expected = design @ np.linalg.lstsq(design, targets, rcond=None)[0]
    values = np.concatenate([values_of(line, box)[complete(box)] for box in BOXES])
    np.testing.assert_allclose(values, expected, rtol=1e-4)


def test_a_device_never_seen_is_fitted_in_the_scaling_of_the_fleet() -> None:
    *seen, new = BOXES
    line = linear_regression(seen, inputs_of(seen, per_device=False), TARGET)
    x = np.concatenate([box.values[complete(box), 0] for box in seen])
    y = np.concatenate([box.targets[complete(box)] for box in seen])
    expected = np.polyval(np.polyfit(x, y, 1), new.values[:, 0])
    np.testing.assert_allclose(values_of(line, new), expected, rtol=1e-4)


def test_a_baseline_is_saved_as_any_calibrator(tmp_path) -> None:
    line = linear_regression(BOXES, inputs_of(BOXES, per_device=True), TARGET)
    again = Calibrator.load(line.save(tmp_path / "line.scare"))
    np.testing.assert_array_equal(values_of(again, BOXES[1]), values_of(line, BOXES[1]))


def test_without_a_complete_row_there_is_no_line() -> None:
    nothing = BOXES[0].frame.with_columns(pl.lit(None, pl.Float64).alias(REFERENCE))
    with pytest.raises(DataError, match="both a reading and a reference"):
        linear_regression([replace(BOXES[0], frame=nothing)], inputs_of(BOXES, per_device=True), TARGET)


@pytest.fixture
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classical, "ROUNDS", 10)


@pytest.mark.usefixtures("few_rounds")
@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_has_one_call_and_one_answer(name: str) -> None:
    baseline = fitted(name, BOXES, inputs_of(BOXES, per_device=True))
    table = baseline.predict(BOXES[1])
    assert table.height == len(BOXES[1])
    assert table["calibrated"].is_not_null().any()
    assert baseline.facts["parameters"] >= 0
    assert baseline.facts["bytes"] == 4 * baseline.facts["parameters"]


@pytest.mark.usefixtures("few_rounds")
@pytest.mark.parametrize(
    "name", [name for name in BASELINES if name not in ("boosting", "ridge-boosting", "persistence")]
)
def test_a_baseline_that_is_a_calibrator_is_saved_and_loaded(name: str, tmp_path) -> None:
    baseline = fitted(name, BOXES, inputs_of(BOXES, per_device=True))
    assert isinstance(baseline, Calibrator)
    again = Calibrator.load(baseline.save(tmp_path / "baseline.scare"))
    np.testing.assert_array_equal(values_of(again, BOXES[1]), values_of(baseline, BOXES[1]))
    np.testing.assert_allclose(again.compute(again.golden.windows), again.golden.numbers)


def test_baselines_share_a_comparison_with_calibrators() -> None:
    inputs = inputs_of(BOXES, per_device=True)
    scores = compare({name: fitted(name, BOXES, inputs) for name in ("raw", "linear", "ridge", "persistence")}, BOXES)
    assert scores["ridge"].rmse < scores["linear"].rmse < scores["raw"].rmse


def test_ridge_sees_the_whole_window() -> None:
    """A reference that is the reading three steps ago is learned from the window, not from the newest row."""
    rng = np.random.default_rng(0)
    raw = rng.normal(20, 3, 800)
    box = replace(
        BOXES[0],
        frame=BOXES[0].frame.head(400).with_columns(pl.Series("pm_raw", raw[:400])),
        channels=BOXES[0].channels[:1],
    )
    lagged = box.frame["pm_raw"].shift(3).alias(REFERENCE)
    box = replace(box, frame=box.frame.with_columns(lagged))
    inputs = inputs_of([box], per_device=True)
    ridge, line = fitted("ridge", [box], inputs), fitted("linear", [box], inputs)
    known = complete(box) & np.isfinite(values_of(ridge, box))
    assert known.sum() > 300
    np.testing.assert_allclose(values_of(ridge, box)[known], box.targets[known], atol=0.01)
    assert np.abs(values_of(line, box)[known] - box.targets[known]).mean() > 1


def test_ridge_is_the_closed_form() -> None:
    inputs = inputs_of(BOXES, per_device=True)
    ridge = fitted("ridge", BOXES, inputs)
    assert isinstance(ridge, Calibrator)
    _, _, examples = make_all(BOXES, BOXES, inputs)
    flat = examples.windows(np.arange(len(examples))).reshape(len(examples), -1).astype(float)
    centred, targets = flat - flat.mean(axis=0), examples.targets - examples.targets.mean(dtype=float)
    penalty = ridge.facts["penalty"] * len(flat)
    padded = np.vstack([centred, np.sqrt(penalty) * np.eye(flat.shape[1])])
    weights, *_ = np.linalg.lstsq(padded, np.concatenate([targets, np.zeros(flat.shape[1])]), rcond=None)
    np.testing.assert_allclose(ridge.plan.steps[-1].weights["weight"][:, 0], weights, atol=1e-5)
    assert [step.kernel for step in ridge.plan.steps] == ["flatten", "dense"]
    assert ridge.facts["parameters"] == 16 * 3 + 1


def test_boosting_is_scikit_learn_on_the_hats() -> None:
    sklearn = pytest.importorskip("sklearn.ensemble")
    inputs, box = inputs_of(BOXES, per_device=True), BOXES[0]
    trees = fitted("boosting", BOXES, inputs)
    _, _, examples = make_all(BOXES, BOXES, inputs)
    windows = examples.windows(np.arange(len(examples)))
    hats = np.einsum("tk,btc->bkc", HatBasis(16).matrix.astype(np.float32), windows).reshape(len(windows), -1)
    alike = sklearn.HistGradientBoostingRegressor(
        max_iter=200, learning_rate=0.08, early_stopping=False, random_state=0
    )
    with one_thread():
        same = alike.fit(hats, examples.targets)
    errors = values_of(trees, box) - box.targets
    assert isinstance(trees, Boosted)
    scale = inputs.scaling.target
    np.testing.assert_allclose(
        trees.compute(windows[:50]), same.predict(hats[:50]) * scale.scale + scale.center, rtol=1e-3
    )
    line = fitted("linear", BOXES, inputs)
    known = np.isfinite(errors)
    assert np.square(errors[known]).mean() < np.square(values_of(line, box) - box.targets)[known].mean()
    assert trees.facts["parameters"] > 200


@pytest.mark.usefixtures("few_rounds")
def test_trees_add_to_ridge_and_never_spoil_it_in_training() -> None:
    inputs = inputs_of(BOXES, per_device=True)
    both, trees = fitted("ridge-boosting", BOXES, inputs), fitted("boosting", BOXES, inputs)
    assert isinstance(both, Boosted)
    assert isinstance(trees, Boosted)
    _, _, examples = make_all(BOXES, BOXES, inputs)
    windows, scale = examples.windows(np.arange(len(examples))), inputs.scaling.target
    wanted = examples.targets * scale.scale + scale.center
    hats = np.einsum("tk,btc->bkc", HatBasis(16).matrix, windows).reshape(len(windows), -1)
    ridge = (hats @ both.line[0] + both.line[1]) * scale.scale + scale.center
    error = {"both": both.compute(windows), "ridge": ridge, "trees": trees.compute(windows)}
    rmse = {name: np.sqrt(np.square(values - wanted).mean()) for name, values in error.items()}
    assert rmse["both"] < rmse["ridge"]
    assert rmse["both"] < rmse["trees"]
    assert not trees.line[0].any()


@pytest.mark.usefixtures("few_rounds")
def test_boosting_is_the_same_every_time_and_flags_what_a_calibrator_flags() -> None:
    inputs = inputs_of(BOXES, per_device=True)
    first, second = fitted("boosting", BOXES, inputs), fitted("boosting", BOXES, inputs)
    np.testing.assert_array_equal(values_of(first, BOXES[0]), values_of(second, BOXES[0]))
    spoilt = BOXES[0].frame.with_columns(
        pl.when(pl.int_range(pl.len()).is_between(40, 70)).then(-999.0).otherwise("pm_raw").alias("pm_raw")
    )
    box = replace(BOXES[0], frame=spoilt)
    ridge = fitted("ridge", BOXES, inputs).predict(box)
    trees = first.predict(box)
    assert trees["flags"].to_list() == ridge["flags"].to_list()
    assert trees["calibrated"].is_null().to_list() == ridge["calibrated"].is_null().to_list()


def test_a_boosted_baseline_is_not_saved() -> None:
    assert not hasattr(Boosted, "save")


def test_persistence_is_the_reference_one_window_ago() -> None:
    box = BOXES[0]
    late = fitted("persistence", BOXES, inputs_of(BOXES, per_device=True))
    values = values_of(late, box)
    assert np.isnan(values[:16]).all()
    np.testing.assert_array_equal(values[16:], box.targets[:-16])


def test_persistence_takes_no_reference_that_is_too_new_or_too_old() -> None:
    box = BOXES[0]
    reference = np.full(len(box), np.nan)
    reference[10] = 7.0
    sparse = replace(box, frame=box.frame.with_columns(pl.Series(REFERENCE, reference)))
    values = values_of(Persistence(16 * 60.0), sparse)
    assert np.flatnonzero(values == 7).tolist() == list(range(26, 43))
    assert np.isnan(np.delete(values, range(26, 43))).all()


def test_persistence_needs_a_reference_when_it_predicts() -> None:
    late = fitted("persistence", BOXES, inputs_of(BOXES, per_device=True))
    alone = replace(BOXES[0], frame=BOXES[0].frame.drop(REFERENCE), reference=None)
    with pytest.raises(NotApplicableError, match="needs the reference when it predicts"):
        late.predict(alone)


def test_persistence_needs_more_than_a_window_of_reference() -> None:
    short = [box.rows(np.arange(len(box)) < 12) for box in BOXES]
    with pytest.raises(NotApplicableError, match=r"needs a reference one window \(0.267 hours\) earlier"):
        BASELINES["persistence"](short, short, inputs_of(BOXES, per_device=True), TARGET)


def test_a_baseline_whose_inputs_are_missing_says_what_it_needs() -> None:
    dry = [replace(box, channels=box.channels[:2], frame=box.frame.drop("humidity")) for box in BOXES]
    with pytest.raises(NotApplicableError, match=r"^needs RH"):
        fitted("barkjohn-2021", dry, inputs_of(dry, per_device=True))
    alone = [replace(box, channels=box.channels[:1]) for box in BOXES]
    with pytest.raises(NotApplicableError, match=r"^needs a second channel, such as T or RH; there is only pm_raw"):
        fitted("multiple-linear", alone, inputs_of(alone, per_device=True))


def test_a_correction_for_another_quantity_is_refused() -> None:
    with pytest.raises(NotApplicableError, match=r"is for PM2.5, not for NO2"):
        BASELINES["airnow-2021"](BOXES, BOXES, inputs_of(BOXES, per_device=True), Channel("NO2", "ppb"))


def test_a_raw_reading_in_another_unit_is_no_baseline() -> None:
    with pytest.raises(NotApplicableError, match=r"needs a reading in degC; pm_raw is in ug/m3"):
        BASELINES["raw"](BOXES, BOXES, inputs_of(BOXES, per_device=True), Channel("PM", "degC"))


def test_a_correction_as_a_baseline_is_the_published_formula() -> None:
    box = BOXES[0]
    values = values_of(fitted("barkjohn-2021", BOXES, inputs_of(BOXES, per_device=True)), box)
    expected = 0.524 * box.values[:, 0] - 0.0862 * box.values[:, 2] + 5.75
    expected[box.values[:, 0] > 570] = np.nan
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("few_rounds")
def test_a_window_of_one_reading_is_enough() -> None:
    inputs = replace(inputs_of(BOXES, per_device=True), window=1)
    for name in ("ridge", "boosting", "ridge-boosting"):
        assert np.isfinite(values_of(fitted(name, BOXES, inputs), BOXES[0])).any()


def test_without_validation_windows_a_fit_is_refused() -> None:
    nothing = [replace(box, frame=box.frame.with_columns(pl.lit(None, pl.Float64).alias(REFERENCE))) for box in BOXES]
    for name in ("ridge", "boosting"):
        with pytest.raises(DataError, match="validation"):
            BASELINES[name](BOXES, nothing, inputs_of(BOXES, per_device=True), TARGET)


@pytest.mark.usefixtures("few_rounds")
@pytest.mark.parametrize("name", ["linear", "multiple-linear", "ridge", "boosting"])
def test_without_a_refit_nothing_is_learned_from_validation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classical, "PENALTIES", (0.1,))  # nothing to choose
    inputs, train, validation = inputs_of(BOXES, per_device=True), BOXES[:2], BOXES[2:]
    alone, refitted = (BASELINES[name](train, validation, inputs, TARGET, refit=refit) for refit in (False, True))
    expected = BASELINES[name](train, train, inputs, TARGET, refit=False)
    np.testing.assert_array_equal(values_of(alone, BOXES[0]), values_of(expected, BOXES[0]))
    assert not np.allclose(values_of(alone, BOXES[0]), values_of(refitted, BOXES[0]), rtol=1e-4, equal_nan=True)
