"""Trees compute what scikit-learn does, nothing beyond training, and the same on a board."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sklearn.ensemble
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.board.boards import board
from scare.board.certificate import verify
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import Plan, Step, run
from scare.data.readings import CALIBRATED
from scare.export.lowering import Arithmetic
from scare.training.fit import fit
from scare.training.recipe import Recipe
from scare.training.selection import TREES, SelectionRules
from scare.training.trees import DEPTH, ROUNDS, Trees, fit_trees, outside_share
from tests.training.small_fits import make_readings

CHANNELS, WINDOW = 2, 8


def random_rows(seed: int, count: int, features: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Features in float32, some of them on a coarse grid so that many are equal to a threshold; and residuals."""
    rng = np.random.default_rng(seed)
    rows = np.round(rng.normal(size=(count, features)), 3)  # no two values closer than rounding
    rows[:, ::2] = np.round(rows[:, ::2], 1)
    residuals = np.where(rows[:, 0] > 0.3, 1.0, -0.5) * rows[:, 1] + 0.1 * rng.normal(size=count)
    return rows.astype(np.float32), residuals


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(50, 900))
def test_trees_predict_what_scikit_learn_predicts(seed: int, count: int) -> None:
    grown: list[Any] = []

    class Watched(sklearn.ensemble.HistGradientBoostingRegressor):
        def fit(self, *given: Any) -> Any:
            grown.append(super().fit(*given))
            return grown[-1]

    rows, residuals = random_rows(seed, count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sklearn.ensemble, "HistGradientBoostingRegressor", Watched)
        trees = fit_trees(rows, residuals, CHANNELS, guarded=False)
    assert_allclose(trees.predict(rows), grown[0].predict(rows), rtol=0, atol=1e-12)  # sums in another order


def test_rounding_sends_no_row_of_training_to_another_leaf() -> None:
    rows, residuals = random_rows(5, 2000)
    rows[:, 4] = rows[:, 0] * np.float32(1 / 3)  # quantised readings give many equal averages
    trees = fit_trees(rows, residuals, CHANNELS, guarded=False)
    for other in (np.float32(1 + 1e-6), np.float32(1 - 1e-6)):
        assert_array_equal(trees.predict(rows * other), trees.predict(rows))


def test_every_tree_is_perfect_and_a_short_one_is_padded() -> None:
    rows, residuals = random_rows(0, 120)  # few rows: leaves of 20 at least, so branches end early
    trees = fit_trees(rows, residuals, CHANNELS, guarded=True)
    assert trees.feature.shape == trees.threshold.shape == (ROUNDS, 2**DEPTH - 1)
    assert trees.leaf.shape == (ROUNDS, 2**DEPTH)
    padded = trees.threshold == np.finfo(np.float32).max
    assert padded.any()
    assert not padded[:, 0].all()
    assert_array_equal(trees.threshold.astype(np.float32), trees.threshold)  # a board compares with the same numbers


@settings(deadline=None, max_examples=20)
@given(channel=st.integers(0, CHANNELS - 1), beyond=st.floats(1e-3, 1e3), above=st.booleans())
def test_beyond_the_readings_of_training_trees_are_switched_off(channel: int, beyond: float, above: bool) -> None:
    rows = GUARDED_ROWS[:5].copy()
    assert (GUARDED.predict(GUARDED_ROWS) != 0).mean() > 0.9
    rows[:, channel] = GUARDED.high[channel] + beyond if above else GUARDED.low[channel] - beyond
    assert_array_equal(GUARDED.predict(rows), 0)


def test_only_the_newest_readings_switch_trees_off() -> None:
    rows = GUARDED_ROWS[(GUARDED_ROWS[:, :CHANNELS] == np.clip(GUARDED_ROWS[:, :CHANNELS], -1, 1)).all(axis=1)].copy()
    rows[:, CHANNELS:] = 1e3
    assert (GUARDED.predict(rows) != 0).all()


def test_the_share_outside_is_that_of_rows_where_trees_are_switched_off() -> None:
    later = 1.5 * random_rows(7, 500)[0]
    expected = (GUARDED.predict(later) == 0).mean()
    assert outside_share(later, GUARDED_ROWS, CHANNELS) == pytest.approx(expected)
    assert 0.01 < expected < 0.5
    assert outside_share(GUARDED_ROWS, GUARDED_ROWS, CHANNELS) <= 0.021  # half a percent at each of four edges


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_a_step_computes_a_share_of_the_trees_on_features_of_another_scale(share: float) -> None:
    scale = np.array([2.0, 0.5, 4.0, 1.0, 8.0, 0.25])  # exact in float32
    step = GUARDED.step("x.flat", scale, share)
    plan = Plan(3, CHANNELS, (Step("flatten", ("x",), "x.flat"), step))
    windows = (GUARDED_ROWS / scale).astype(np.float32).reshape(-1, 3, CHANNELS)
    assert_allclose(run(plan, windows), share * GUARDED.predict(GUARDED_ROWS), rtol=1e-4, atol=1e-5)


GUARDED_ROWS, _residuals = random_rows(3, 600)
GUARDED: Trees = fit_trees(GUARDED_ROWS, _residuals, CHANNELS, guarded=True)


# a calibrator with trees


@pytest.fixture(scope="module")
def calibrator() -> Calibrator:
    """Of a sensor with a step in its response, which nothing linear has."""
    rng = np.random.default_rng(1)
    values = np.stack([rng.normal(20, 5, 1600), rng.normal(50, 10, 1600)], axis=1)
    targets = values[:, 0] + 6 * (values[:, 0] > 22) * (values[:, 1] > 50) + 0.3 * rng.normal(size=1600)
    readings = make_readings(values, targets, channels=("raw", "humidity"))
    recipe = Recipe.preset("default", window=WINDOW, steps=2, checkpoints=1, members=1)
    return fit(readings, recipe=replace(recipe, rules=SelectionRules(smallest_within=0.2, refit=False)))


def test_trees_are_shipped_where_nothing_linear_comes_close(calibrator: Calibrator) -> None:
    assert calibrator.facts["outcome"] == calibrator.facts["model"] == TREES
    rmse = {one["candidate"]: one["rmse"] for one in calibrator.facts["selection"]}
    assert rmse[TREES] < 0.6 * rmse["linear"]
    assert calibrator.facts["validation_rmse"] == pytest.approx(rmse[TREES], rel=0.05)
    assert calibrator.facts["parameters"] > 1000


@pytest.mark.parametrize(("drifts", "variant"), [(True, "on drift"), (False, "on linear")])
def test_trees_correct_the_linear_model_that_leaves_them_less(drifts: bool, variant: str) -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(20, 5, (1600, 1))
    earlier = np.convolve(values[:, 0], [0, 0, 1])[:1600]  # two readings ago, which `drift` does not look at
    moving = 4 * np.sin(np.arange(1600) / 300)
    targets = values[:, 0] + 6 * (values[:, 0] > 22) + (moving if drifts else 2 * earlier)
    recipe = Recipe.preset("default", window=WINDOW, steps=2, checkpoints=1)
    facts = fit(make_readings(values, targets), recipe=replace(recipe, rules=SelectionRules(refit=False))).facts
    (found,) = (one["variant"] for one in facts["selection"] if one["candidate"] == TREES)
    assert found == variant


def test_beyond_training_the_linear_model_answers_alone(calibrator: Calibrator) -> None:
    (trees,) = (step for step in calibrator.plan.steps if step.kernel == "trees")
    none = replace(trees, weights={**trees.weights, "leaf": np.zeros_like(trees.weights["leaf"])})
    steps = tuple(none if step is trees else step for step in calibrator.plan.steps)
    linear = replace(calibrator, plan=replace(calibrator.plan, steps=steps))
    windows = np.random.default_rng(2).normal(size=(40, WINDOW, 2)).astype(np.float32)
    assert (calibrator.compute(windows) != linear.compute(windows)).mean() > 0.8
    windows[:, -1, 0] = 6.0  # standard deviations
    assert_array_equal(calibrator.compute(windows), linear.compute(windows))


@pytest.mark.slow
def test_a_calibrator_with_trees_is_certified_in_every_arithmetic(calibrator: Calibrator) -> None:
    certificate = verify(calibrator, board("nano33ble"), list(Arithmetic), 20, "", lambda: None)
    assert certificate.passed, certificate.reasons


def test_a_calibrator_with_trees_is_saved_as_it_is(calibrator: Calibrator, tmp_path: Any) -> None:
    readings = make_readings(np.random.default_rng(5).normal([20, 50], [5, 10], (80, 2)), channels=("raw", "humidity"))
    loaded = Calibrator.load(calibrator.save(tmp_path / "trees.scare"))
    assert_array_equal(loaded.predict(readings)[CALIBRATED], calibrator.predict(readings)[CALIBRATED])
