"""Relations: the robust line between two instruments that were side by side, and how well it is known.

Lines are those of errors-in-variables, because a regression's slope depends on how much the air of those days varied.
Beside a reference all error is the box's; two boxes are taken to be equally reliable, which gives the standardised
major axis. Faults get little weight by Tukey's biweight. Residuals resemble those of the hours before: the fleet's
common autocorrelation says how many hours count as one independent pair.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from scare.upkeep.network.encounters import Encounter, EncounterRules
from scare.upkeep.network.hours import NetworkHours

ROUNDS = 12  # of reweighting
BIWEIGHT = 6.0  # pairs with a residual this many times the usual one have no weight
LAGS = 48  # hours over which residuals may resemble each other
USUAL_FACTOR = 24.0  # of variances, if no encounter is long: a day counts as one pair
LONG = 5 * LAGS  # hours of encounters that tell it without bias
LEAST_PAIRS = 12  # hours with both instruments, to fit a line
LEAST_CORRELATION = 0.3  # below, a slope has no meaning; keeps it finite
NOISE_QUANTILE, NORMAL_QUANTILE = 0.9, 1.645  # noise is judged by the residual that nine of ten stay below
MAD_TO_DEVIATION = 1.4826  # from the median absolute deviation of normal numbers to their standard deviation
BESIDE, DISTANT = "beside", "distant"  # kinds of relations


@dataclass(frozen=True)
class Relation:
    """other = other_level + slope · (box − box_level), with variances of level and slope in the other's unit.

    `slope_variance` is infinite where the gain cannot be told. `noise` is the size of residuals at two levels of the
    other instrument: below and above its median.
    """

    encounter: Encounter
    pairs: int
    correlation: float
    box_level: float
    other_level: float
    slope: float
    level_variance: float
    slope_variance: float
    noise: tuple[tuple[float, float], ...] = ()  # (level, size) of residuals
    kind: str = BESIDE
    # Of a distant one: how far the air of the place may differ from the field, and the standard deviation of how much
    # more it may vary (a logarithm).
    place_variance: float = 0.0
    unlike: float = 0.0

    @property
    def effective_pairs(self) -> float:
        """The number of independent pairs that would tell the level with the same uncertainty."""
        noise_variance = np.mean([size**2 for _, size in self.noise]) if self.noise else np.nan
        return float(noise_variance / self.level_variance)


@dataclass(frozen=True)
class _Fit:
    """A relation with variances as if its pairs were independent, and `products` that tell how dependent they are.

    A score is what a pair adds to the equation that determines the level, or to that of the slope. `products` [2, lags]
    are sums over hours of the score times the score some hours (the lag) earlier, for level and slope.
    """

    relation: Relation
    products: np.ndarray


def relate(hours: NetworkHours, encounters: Iterable[Encounter], rules: EncounterRules | None = None) -> list[Relation]:
    """Fit the relations of encounters; one with too few pairs to tell anything is left out."""
    fits = []
    for encounter in encounters:
        _, box = hours.between(encounter.box, encounter.begin, encounter.end)
        _, other = hours.between(encounter.other, encounter.begin, encounter.end)
        fit = _fit(encounter, box, other, encounter.other in hours.references, rules or EncounterRules())
        if fit is not None:
            fits.append(fit)
    if not fits:
        return []
    # Residuals resemble those of the hours before, so that variances are larger than those of independent pairs. Only
    # long encounters tell how much larger: in a short one residuals seem to resemble each other less than they do.
    long_fits = [fit for fit in fits if fit.relation.pairs >= LONG]
    factors = _inflation(np.sum([fit.products for fit in long_fits or fits], axis=0))
    level_factor, slope_factor = factors if long_fits else np.maximum(factors, USUAL_FACTOR)
    return [
        replace(
            fit.relation,
            level_variance=level_factor * fit.relation.level_variance,
            slope_variance=slope_factor * fit.relation.slope_variance,
        )
        for fit in fits
    ]


def _fit(
    encounter: Encounter, box: np.ndarray, other: np.ndarray, is_reference: bool, rules: EncounterRules
) -> _Fit | None:
    """Fit a line to hourly means of two instruments [hours], NaN where missing; None if they do not determine one."""
    is_known = np.isfinite(box) & np.isfinite(other)
    if is_known.sum() < LEAST_PAIRS:
        return None
    x, y = box[is_known].astype(float), other[is_known].astype(float)
    weights = _biweight(x, y, is_reference)
    is_used = weights > 0
    pairs = int(is_used.sum())
    mean_x, mean_y, slope, correlation = _line(x, y, weights, is_reference)
    if pairs < LEAST_PAIRS or not np.isfinite(slope):
        return None  # one of the two is constant
    residuals = y - mean_y - slope * (x - mean_x)
    # The line makes two sums zero: that of weight · residual tells the level, that of weight · truth · residual the
    # slope, where truth is the distance of the air from its mean: by the reference, or by the mean of two boxes. What a
    # pair adds to a sum is its score.
    truth = (y - mean_y) if is_reference else 0.5 * (slope * (x - mean_x) + y - mean_y)
    scores = np.zeros((2, len(box)))  # zero in hours without a pair
    scores[:, is_known] = weights * residuals, weights * truth * residuals
    # The variance of level or slope is the sum of squared scores over the square of how much the sum of scores changes
    # with level (by the total weight) or slope.
    total_weight, change_with_slope = weights.sum(), weights @ (truth * (x - mean_x))
    level_square, slope_square = np.square(scores).sum(axis=1)
    # Both variances are larger than that because two numbers were fitted, and because the line follows a pair by the
    # derivative of residual · weight, which is less than the weight. The sum of derivatives counts as half that of the
    # weights at least: many faults would make it zero or negative.
    derivative = (5 * weights - 4 * np.sqrt(weights)).sum()  # the weight is (1 - u²)², u in proportion to the residual
    correction = pairs / max(pairs - 2, 1) * (total_weight / max(derivative, total_weight / 2)) ** 2
    tells_gain = correlation >= rules.gain_correlation and change_with_slope > 0
    # The slope of two boxes is between the two regressions (Frisch 1934), whose logarithms are 2 · |log correlation|
    # apart: it is taken to lie anywhere in the middle half, and 1/12 is the variance of a uniform distribution.
    unsure_of_slope = 0.0 if is_reference else np.log(max(correlation, LEAST_CORRELATION)) ** 2 / 12
    relation = Relation(
        encounter,
        pairs,
        correlation,
        mean_x,
        mean_y,
        slope,
        level_variance=float(correction * level_square / total_weight**2),
        slope_variance=(
            float(correction * slope_square / change_with_slope**2 + slope**2 * unsure_of_slope)
            if tells_gain
            else np.inf
        ),
        noise=residual_sizes(y[is_used], np.abs(residuals[is_used])),
    )
    products = np.zeros((2, LAGS + 1))  # scores of each hour times those `lag` hours before
    for lag in range(min(LAGS, len(box) - 1) + 1):
        for of_hours, of_lags in zip(scores, products, strict=True):  # of level, then of slope
            of_lags[lag] = of_hours[lag:] @ of_hours[: len(of_hours) - lag]
    return _Fit(relation, products)


def _inflation(products: np.ndarray) -> np.ndarray:
    """Return how many times larger the variances of level and slope are than with independent pairs [2].

    `products` are those of `_Fit` [2, lags], summed over encounters.
    """
    correlations = products[:, 1:] / products[:, :1]
    bartlett = 1 - np.arange(1, LAGS + 1) / (LAGS + 1)  # weights of lags (Newey and West 1987)
    # From the first lag without a positive correlation on, what is left is chance.
    is_counted = np.logical_and.accumulate(correlations > 0, axis=1)
    return 1 + 2 * (bartlett * correlations * is_counted).sum(axis=1)


def _line(x: np.ndarray, y: np.ndarray, weights: np.ndarray, is_reference: bool) -> tuple[float, float, float, float]:
    """Return both weighted means, the slope (NaN if x or y is constant) and the correlation."""
    total = weights.sum()
    mean_x, mean_y = float(weights @ x / total), float(weights @ y / total)
    squares_x, squares_y = weights @ (x - mean_x) ** 2, weights @ (y - mean_y) ** 2
    products = weights @ ((x - mean_x) * (y - mean_y))
    if min(squares_x, squares_y) <= 1e-12 * (1 + max(squares_x, squares_y)):
        return mean_x, mean_y, np.nan, 0.0
    correlation = float(products / np.sqrt(squares_x * squares_y))
    slope = float(np.sqrt(squares_y / squares_x))  # of the standardised major axis
    if is_reference:  # all error is the box's: its regression on the reference, turned round
        slope /= max(correlation, LEAST_CORRELATION)
    return mean_x, mean_y, slope, correlation


def _biweight(x: np.ndarray, y: np.ndarray, is_reference: bool) -> np.ndarray:
    """Return Tukey's weights [n], zero for faults.

    The iteration starts from a line through quantiles, which does not move if a tenth of the pairs are faults.
    """
    low_x, mid_x, high_x = np.quantile(x, (0.1, 0.5, 0.9))
    low_y, mid_y, high_y = np.quantile(y, (0.1, 0.5, 0.9))
    if high_x <= low_x or high_y <= low_y:
        return np.ones(len(x))
    slope, mean_x, mean_y = (high_y - low_y) / (high_x - low_x), mid_x, mid_y
    weights = np.ones(len(x))
    for _ in range(ROUNDS):
        residuals = np.abs(y - mean_y - slope * (x - mean_x))
        scale = MAD_TO_DEVIATION * float(np.median(residuals))
        if scale <= 0:  # most pairs lie on the line, but for roundings
            return (residuals <= 1e-9 * (1 + np.abs(y))).astype(float)
        before, weights = weights, np.square(np.clip(1 - (residuals / (BIWEIGHT * scale)) ** 2, 0, None))
        mean_x, mean_y, slope, _ = _line(x, y, weights, is_reference)
        if not np.isfinite(slope) or np.abs(weights - before).max() < 1e-3:  # no weight changes any more
            break
    return weights


def residual_sizes(levels: np.ndarray, residuals: np.ndarray) -> tuple[tuple[float, float], ...]:
    """Return the mean level and the size of residuals, of pairs below the median level and of those above it.

    `residuals` are absolute. Their size is a standard deviation, judged by the residual that nine of ten stay below.
    """
    is_above = levels > np.median(levels)
    return tuple(
        (float(levels[half].mean()), float(np.quantile(residuals[half], NOISE_QUANTILE)) / NORMAL_QUANTILE)
        for half in (~is_above, is_above)
        if half.any()
    )
