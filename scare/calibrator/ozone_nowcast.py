"""EPA's NowCast of ozone: the mean of the eight hours around the current one, four of which are still to come.

By EPA's white paper and code of 2019 (github.com/USEPA/O3-Nowcast): in the last two weeks, the eight-hour means are
regressed on the 96 hours up to their centre, and the last 96 hours give the current one. EPA's partial least squares
has as many components as predictors, and is then ordinary least squares. What EPA leaves open is how far the regression
may be off: here its standard error of prediction joins the interval of the hours.
"""

import numpy as np

TWO_WEEKS, FOUR_DAYS = 336, 96  # hours of the regression, and of one of its rows
BEFORE, AFTER = 4, 4  # hours of a mean: four before the current one, then itself and three after it
LEAST_OF_MEAN = 6  # hours of a mean that must be known
LEAST_SHARE = 0.75  # share of the hours, and of the means, that must be known
LONGEST_GAP = 7  # hours
RECENT = 3  # newest hours, one of which must be known
# Slope and intercept (ppb) that give the mean from the newest hour, where two weeks are not known.
SURROGATE = 0.85, 4.5  # slope, intercept
REACH = 4  # hours on either side from which a missing one is filled
HOURS = TWO_WEEKS + RECENT - 1  # that a NowCast is made of
SMALLEST_SQUARE = 1e-12  # squared singular values below this share of the largest count as zero


def ozone_nowcast(hours: np.ndarray, z: float) -> np.ndarray:
    """Return NowCast, low and high [3] from hourly means of value, low and high [hours, 3] in ppb, the newest last.

    Hours without data are NaN, and so is the result if none of the last three hours has data. `z` is the half-width of
    the interval in standard deviations.
    """
    known = np.flatnonzero(np.isfinite(hours[:, 0]))
    if not len(known) or known[-1] < len(hours) - RECENT:
        return np.full(3, np.nan)
    end = int(known[-1]) + 1  # after the newest hour with data
    recent = hours[max(0, end - TWO_WEEKS) : end]
    value, error = _predict(recent[:, 0])
    last_eight = recent[-BEFORE - AFTER :]
    distances = np.abs(last_eight[:, 1:] - last_eight[:, :1])  # of low and of high from the value [8, 2]
    distances = distances[np.isfinite(distances).all(axis=1)]
    below, above = distances.mean(axis=0) if len(distances) else (np.nan, np.nan)
    # The errors of the hours and of the prediction are taken to be independent, so their squares add up.
    low, high = value - np.hypot(below, z * error), value + np.hypot(above, z * error)
    return np.array([value, np.maximum(0.0, low), high])


def _predict(hours: np.ndarray) -> tuple[float, float]:
    """Predict the mean of eight hours around the current one, and its standard error, from hourly values [hours].

    It needs two weeks of hours. Where these are not known, EPA's surrogate predicts: a line, whose error is unknown and
    counts as 0.
    """
    known = np.isfinite(hours)
    slope, intercept = SURROGATE
    surrogate = slope * float(hours[-1]) + intercept, 0.0
    if len(hours) < TWO_WEEKS or known.sum() < LEAST_SHARE * TWO_WEEKS or _longest_gap(known) > LONGEST_GAP:
        return surrogate
    if not hours[known].any():  # all zero: no principal component is left to regress on
        return 0.0, 0.0
    # The 96 hours up to each hour, and the mean around that hour, which they are to predict.
    rows = np.lib.stride_tricks.sliding_window_view(_fill(hours), FOUR_DAYS)
    means = _means(hours)[FOUR_DAYS - 1 :]
    usable = np.isfinite(means)
    if usable.mean() < LEAST_SHARE:
        return surrogate
    # Least squares on principal components: orthonormal scores make the coefficients plain products.
    mean_row, mean = rows[usable].mean(axis=0), means[usable].mean()
    predictors, targets = rows[usable] - mean_row, means[usable] - mean
    squares, axes = np.linalg.eigh(predictors.T @ predictors)  # squared singular values, ascending
    is_significant = squares > SMALLEST_SQUARE * squares[-1]
    basis = axes[:, is_significant] / np.sqrt(squares[is_significant])
    scores, newest = predictors @ basis, (rows[-1] - mean_row) @ basis
    weights = scores.T @ targets
    residuals = targets - scores @ weights
    variance = residuals @ residuals / (usable.sum() - FOUR_DAYS - 1)  # by the degrees of freedom
    leverage = 1 / usable.sum() + newest @ newest
    return max(0.0, float(mean + newest @ weights)), float(np.sqrt(variance * (1 + leverage)))


def _means(hours: np.ndarray) -> np.ndarray:
    """Return the mean of the eight hours around each hour [hours].

    NaN if the eight reach beyond `hours`, or if too few of them are known.
    """
    eight_ones, known = np.ones(BEFORE + AFTER), np.isfinite(hours)
    counts = np.convolve(known.astype(float), eight_ones, "valid")
    sums = np.convolve(np.where(known, hours, 0.0), eight_ones, "valid")
    means = np.full(len(hours), np.nan)
    # Counts are whole numbers but for rounding.
    means[BEFORE : BEFORE + len(sums)] = np.where(counts > LEAST_OF_MEAN - 0.5, sums / np.maximum(counts, 1.0), np.nan)
    return means


def _longest_gap(known: np.ndarray) -> int:
    """Return the length of the longest run of missing hours; `known` is bool [hours]."""
    known_hours = np.flatnonzero(np.concatenate(([True], known, [True])))  # and one before and after all hours
    return int(np.diff(known_hours).max()) - 1


def _fill(hours: np.ndarray) -> np.ndarray:
    """Replace missing hours by the weighted mean of known ones nearby; the weight halves with each hour of distance.

    The reach grows until there are two known hours.
    """
    filled, known = hours.copy(), np.isfinite(hours)
    for hour in np.flatnonzero(~known).tolist():
        reach = REACH
        while known[max(0, hour - reach) : hour + reach + 1].sum() < 2:
            reach += 1
        around = np.arange(max(0, hour - reach), min(len(hours), hour + reach + 1))
        around = around[known[around]]
        filled[hour] = np.average(hours[around], weights=0.5 ** np.abs(around - hour))
    return filled
