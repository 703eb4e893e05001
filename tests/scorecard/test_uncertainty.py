"""Expanded uncertainty: a table worked by hand, and every number by a second route that shares no formula with ours."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from scare.errors import UsageError
from scare.scorecard.uncertainty import (
    Sample,
    between_units,
    breusch_pagan,
    expand,
    fit_line,
    fit_spread,
    number_blocks,
    reference_uncertainty,
)


def whole(x: np.ndarray, y: np.ndarray) -> Sample:
    return Sample.blocks(x, y, np.zeros(len(x), int)).whole


def pairs(seed: int, n: int = 300, slope: float = 0.9, intercept: float = 4.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.gamma(4.0, 10.0, n)
    return x, intercept + slope * x + rng.normal(0, 3.0 + 0.1 * x, n)


def test_a_table_worked_by_hand() -> None:
    """x = 10, 20, 30, 40; y = 12, 19, 33, 40.

    Means 25 and 26; Sxx = 500, Syy = 490 (196 + 49 + 49 + 196), Sxy = 490 (210 + 35 + 35 + 210).
    b1 = (−10 + √(100 + 4·490²)) / 980 = 0.98984794…, b0 = 26 − 25 b1.
    u(b1) = √((490 − 490²/500) / (2·500)) = √(9.8 / 1000); u(b0) = u(b1) √(Σx²/n) = u(b1) √750.
    RSS = 490 − 2·490 b1 + 500 b1².
    """
    x, y = np.array([10.0, 20.0, 30.0, 40.0]), np.array([12.0, 19.0, 33.0, 40.0])
    slope = (-10 + np.sqrt(100 + 4 * 490**2)) / 980
    line = fit_line(whole(x, y))
    assert line.slope == pytest.approx(slope, rel=1e-14)
    assert line.intercept == pytest.approx(26 - 25 * slope, rel=1e-13)
    assert line.slope_uncertainty == pytest.approx(np.sqrt(0.0098), rel=1e-12)
    assert line.intercept_uncertainty == pytest.approx(np.sqrt(0.0098 * 750), rel=1e-12)
    rss = 490 - 980 * slope + 500 * slope**2
    assert line.variance == pytest.approx(rss / 2, rel=1e-12)
    found = expand(whole(x, y), line, by_level=False, u_reference=1.5, u_between=1.0)
    at = 30.0
    variance = rss / 2 - 2.25 + 1 + (26 - 25 * slope + (slope - 1) * at) ** 2
    assert found.relative(np.array([at]))[0] == pytest.approx(2 * np.sqrt(variance) / at, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ratio", [1.0, 0.25, 9.0])
def test_deming_and_orthogonal_regression_are_those_of_scipy_and_of_a_principal_axis(seed: int, ratio: float) -> None:
    """The minimum that scipy.odr searches is flat, so it agrees to 1e-6; the principal axis to 1e-9."""
    x, y = pairs(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from scipy import odr
    data = odr.RealData(x, y, sx=1.0, sy=np.sqrt(ratio))
    searched = odr.ODR(data, odr.unilinear, beta0=np.polyfit(x, y, 1), sstol=1e-15, partol=1e-15, maxit=500).run()
    line = fit_line(whole(x, y), "deming", ratio)
    assert float(line.slope) == pytest.approx(searched.beta[0], rel=1e-6)
    assert float(line.intercept) == pytest.approx(searched.beta[1], abs=1e-5)
    scaled = np.stack([x - x.mean(), (y - y.mean()) / np.sqrt(ratio)], axis=1)
    axis = np.linalg.svd(scaled, full_matrices=False)[2][0]
    slope = np.sqrt(ratio) * axis[1] / axis[0]
    assert line.slope == pytest.approx(slope, rel=1e-9)
    assert line.intercept == pytest.approx(y.mean() - slope * x.mean(), rel=1e-9)
    if ratio == 1.0:
        assert fit_line(whole(x, y)) == line


@pytest.mark.parametrize("seed", range(5))
def test_the_uncertainty_by_a_second_route_agrees_to_a_billionth(seed: int) -> None:
    """The orthogonal line is the first principal axis; everything else is computed from the rows."""
    x, y = pairs(seed)
    _, _, axes = np.linalg.svd(np.stack([x - x.mean(), y - y.mean()], axis=1), full_matrices=False)
    slope = axes[0, 1] / axes[0, 0]
    intercept = y.mean() - slope * x.mean()
    ordinary = stats.linregress(x, y)
    line = fit_line(whole(x, y))
    assert line.slope_uncertainty == pytest.approx(ordinary.stderr, rel=1e-9)
    assert line.intercept_uncertainty == pytest.approx(ordinary.intercept_stderr, rel=1e-9)
    rss = np.sum((y - intercept - slope * x) ** 2)
    at = np.array([5.0, 30.0, 50.0, 200.0])
    variance = np.maximum(0, rss / (len(x) - 2) - 1.2**2 + 0.7**2) + (intercept + (slope - 1) * at) ** 2
    found = expand(whole(x, y), line, False, 1.2, 0.7)
    np.testing.assert_allclose(found.relative(at), 2 * np.sqrt(variance) / at, rtol=1e-9)
    np.testing.assert_allclose(np.hypot(2 * found.random(at), 2 * found.bias(at)) / at, found.relative(at))


def test_a_spread_that_depends_on_the_level_is_the_gamma_regression_of_an_optimiser() -> None:
    x, y = pairs(3, 500)
    sample, line = whole(x, y), fit_line(whole(x, y))
    edges = np.quantile(x, np.arange(1, 10) / 10)
    group = np.searchsorted(edges, x, side="right")
    squares = (y - line.intercept - line.slope * x) ** 2 * 500 / 498
    means = np.array([squares[group == one].mean() for one in range(10)])
    counts = np.bincount(group)
    centres = np.array([(x[group == one] - x.mean()).mean() / x.std() for one in range(10)])
    design = centres[:, None] ** np.arange(3)

    def deviance(coefficients: np.ndarray) -> float:
        fitted = design @ coefficients
        return float(np.sum(counts * (means * np.exp(-fitted) + fitted)))

    best = optimize.minimize(deviance, np.zeros(3), method="BFGS", options={"gtol": 1e-10})
    np.testing.assert_allclose(fit_spread(sample, line, by_level=True), best.x, rtol=1e-5, atol=1e-6)


def test_the_spread_keeps_its_last_value_beyond_the_data() -> None:
    x, y = pairs(3, 500)
    found = expand(whole(x, y), fit_line(whole(x, y)), True, 0.0, 0.0)
    low, inside, high, higher = found.random(np.array([x.min(), np.median(x), x.max(), 10 * x.max()]))
    assert low < inside < high
    assert high == higher


def test_a_reference_less_certain_than_the_residuals_leaves_only_the_bias() -> None:
    x, y = pairs(1)
    found = expand(whole(x, y), fit_line(whole(x, y)), False, u_reference=50.0, u_between=0.0)
    at = np.array([40.0])
    assert found.random(at) == 0.0
    assert found.relative(at) == pytest.approx(2 * np.abs(found.bias(at)) / at)


@pytest.mark.parametrize("seed", range(3))
def test_breusch_pagan_is_koenkers_statistic(seed: int) -> None:
    x, y = pairs(seed)
    residuals = y - np.polyval(np.polyfit(x, y, 1), x)
    design = np.stack([np.ones_like(x), x], axis=1)
    squares = residuals**2
    fitted = design @ np.linalg.lstsq(design, squares, rcond=None)[0]
    explained = 1 - np.sum((squares - fitted) ** 2) / np.sum((squares - squares.mean()) ** 2)
    assert breusch_pagan(x, residuals) == pytest.approx(stats.chi2.sf(len(x) * explained, 1), rel=1e-9)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.floats(1, 500), st.floats(1, 500)), min_size=5, max_size=60, unique=True),
    st.floats(0.05, 20),
)
def test_swapping_x_and_y_inverts_a_deming_line(points: list[tuple[float, float]], ratio: float) -> None:
    x, y = np.array(points).T
    if abs(np.corrcoef(x, y)[0, 1] if np.ptp(x) and np.ptp(y) else 0.0) < 1e-3:
        return
    forward = fit_line(whole(x, y), "deming", ratio)
    backward = fit_line(whole(y, x), "deming", 1 / ratio)
    assert forward.slope * backward.slope == pytest.approx(1.0, rel=1e-6)


def test_between_two_units_it_is_the_guides_formula_and_between_more_the_pooled_spread() -> None:
    rng = np.random.default_rng(0)
    two = rng.normal(50, 5, (200, 2))
    assert between_units(two) == pytest.approx(np.sqrt(np.sum((two[:, 0] - two[:, 1]) ** 2) / 400))
    three = rng.normal(50, 5, (200, 3))
    assert between_units(three) == pytest.approx(np.sqrt(np.mean(three.var(axis=1, ddof=1))))


def test_resamples_are_those_of_whole_blocks() -> None:
    """Each resample equals a fit to the rows of the drawn days, repeated."""
    x, y = pairs(2, 240)
    days = np.arange(240) // 24
    blocks = Sample.blocks(x, y, days)
    drawn = np.random.default_rng(0).multinomial(10, np.full(10, 0.1), 3)
    lines = fit_line(blocks.resampled(draws=3))
    for index, counts in enumerate(drawn):
        rows = np.repeat(np.arange(240), counts[days])
        alone = fit_line(whole(x[rows], y[rows]))
        assert lines.slope[index] == pytest.approx(alone.slope, rel=1e-9)
        assert lines.variance[index] == pytest.approx(alone.variance, rel=1e-9)


def test_blocks_are_as_long_as_leaves_eight() -> None:
    def length(days: int) -> int | None:
        block = number_blocks(np.arange(days))
        return None if block is None else int(np.bincount(block).max())

    assert [length(days) for days in (7, 8, 21, 22, 49, 50, 365)] == [None, 1, 1, 3, 3, 7, 7]


def test_the_interval_contains_the_truth_as_often_as_it_says() -> None:
    """Days with a common error: an interval from rows would be far too narrow, one from days is not."""
    hits, truth = 0, 2 * np.sqrt(2.0**2 + 2.0**2) / 50
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x = rng.gamma(4.0, 10.0, 24 * 30)
        y = x + np.repeat(rng.normal(0, 2.0, 30), 24) + rng.normal(0, 2.0, len(x))
        blocks = Sample.blocks(x, y, np.repeat(np.arange(30), 24))
        draws = blocks.resampled(300)
        found = expand(draws, fit_line(draws), False, 0.0, 0.0).relative(np.array([50.0]))[:, 0]
        low, high = np.percentile(found, [2.5, 97.5])
        hits += low <= truth <= high
    assert 80 <= hits <= 99


def test_an_analyser_is_found_by_its_short_name_and_in_the_unit_of_the_readings() -> None:
    value, source = reference_uncertainty("42i", "NO2", "ppb", 20.0)
    assert value == pytest.approx(1.18 / 1.9127, rel=1e-4)
    assert "JRC" in source
    assert "not read" in source
    with pytest.raises(UsageError, match="is known for NO2, NO, not for O3"):
        reference_uncertainty("42i", "O3", "ppb", 20.0)
    with pytest.raises(UsageError, match="no analyser is called '42x'"):
        reference_uncertainty("42x", "NO2", "ppb", 20.0)
    with pytest.raises(UsageError, match="from 0 on"):
        reference_uncertainty("-1", "NO2", "ppb", 20.0)
