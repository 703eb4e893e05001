"""Expanded uncertainty of a sensor beside a reference, by the Guide to the Demonstration of Equivalence (2010).

With x the reference and y the sensor, and the orthogonal regression y = b0 + b1 x,

    u²(x) = max(0, s²(x) − u²(bs,RM) + u²(bs,s)) + (b0 + (b1 − 1) x)²,    U(x) = 2 √u²(x) / x

where s² is RSS / (n − 2), u(bs,RM) the random uncertainty of the reference and u(bs,s) that between sensors. CEN/TS
17660 judges U at a limit value. As in the software of the Joint Research Centre (JRC), U is relative to the reference,
not to the sensor; u(bs,s) is added; and s depends on x if a Breusch-Pagan test finds that the residuals do. Unlike
there, s² is fitted to the squared residuals themselves, by a Gamma regression on ten groups of equal size, and keeps
its last value beyond the data.

Everything is computed from sums over blocks of whole days, so that a bootstrap over these blocks costs no more than one
fit: every array may have the resamples as a leading axis.
"""

from dataclasses import dataclass
from math import erfc, sqrt
from pathlib import Path
from typing import Any, Literal

import numpy as np

from scare.data.quantities import conversion, quantity
from scare.errors import UsageError
from scare.schema import Amount, convert, load_toml
from scare.words import suggestion

ANALYSERS = Path(__file__).with_name("reference_analysers.toml")
AS_GIVEN = "as given"  # where a number comes from that a person gave
COVERAGE_FACTOR = 2.0  # of the expanded uncertainty: 95 %
HETEROSCEDASTIC = 0.05  # p of the Breusch-Pagan test below which the spread depends on x
GROUPS, ROWS_OF_GROUP = 10, 10  # groups of the reference that the spread is fitted to, and the fewest rows of one
FEWEST_GROUPS = 4
ITERATIONS = 100  # of the Gamma regression, at most
LARGEST_STEP, CONVERGED = 1.0, 1e-12  # of the log variance in an iteration
BLOCK_DAYS = (7, 3, 1)  # length of a block of the bootstrap: the longest of these that leaves enough blocks
FEWEST_BLOCKS = 8  # with fewer days nothing is known about other days
DRAWS = 1000
TERMS = 6  # n, Σx, Σy, Σx², Σy², Σxy
Regression = Literal["ols", "orthogonal", "deming"]


@dataclass(frozen=True)
class ReferenceAnalyser:
    """The random uncertainty u(bs,RM) of a reference analyser, by pollutant in µg/m³, and where it was read."""

    aliases: tuple[str, ...]
    uncertainty: dict[str, Amount]
    source: str


def reference_uncertainty(text: str, pollutant: str, unit: str, temperature: float) -> tuple[float, str]:
    """Find u(bs,RM) in a unit and say where it comes from: `text` is a number in this unit, or an analyser's name.

    >>> reference_uncertainty("1.5", "NO2", "ug/m3", 20.0)
    (1.5, 'as given')
    >>> reference_uncertainty("BAM", "PM2.5", "ug/m3", 20.0)[0]
    0.64
    """
    try:
        value = float(text)
    except ValueError:
        pass
    else:
        if not 0 <= value < np.inf:
            raise UsageError(f"--reference-uncertainty takes a number from 0 on, not {text}")
        return value, AS_GIVEN
    table = load_toml(ANALYSERS)
    analysers = convert(table["analysers"], dict[str, ReferenceAnalyser], ANALYSERS)
    names = {alias.lower(): name for name, analyser in analysers.items() for alias in (name, *analyser.aliases)}
    if text.lower() not in names:
        hint = suggestion(text.lower(), names)
        raise UsageError(f"--reference-uncertainty: no analyser is called '{text}'{hint}; give a number instead")
    name = names[text.lower()]
    in_ugm3 = analysers[name].uncertainty.get(pollutant)
    converted = conversion("ug/m3", unit, quantity(pollutant).molar_mass, temperature)
    if in_ugm3 is None or converted is None:
        known = ", ".join(analysers[name].uncertainty)
        raise UsageError(f"--reference-uncertainty: {name} is known for {known}, not for {pollutant} in {unit}")
    return converted.gain * in_ugm3, f"{name}: {table['second_hand']}; {analysers[name].source}"


@dataclass(frozen=True)
class Sample:
    """Paired averages as sums: `sums` [..., groups, 6] of n, x, y, x², y² and xy, about an `origin` (x, y).

    A group has pairs of similar x, so that sums tell how far y scatters at each level. `centres` [groups] are the mean
    x of each group, in units of `scale` from the origin. Too small a sample is one group.
    """

    sums: np.ndarray
    origin: tuple[float, float]
    centres: np.ndarray
    scale: float

    @staticmethod
    def blocks(x: np.ndarray, y: np.ndarray, block: np.ndarray) -> "Sample":
        """Sum 1, x, y, x², y² and xy of pairs x, y [n], separately by block of days and by group of similar x.

        `block` [n] is the number of each pair's block, from 0 on. Groups have equally many pairs: the lowest tenth of
        x, the next tenth, and so on, or fewer groups if there are few pairs.
        """
        origin = float(x.mean()), float(y.mean())  # sums about it keep their precision
        groups = min(GROUPS, max(1, len(x) // ROWS_OF_GROUP))
        edges = np.unique(np.quantile(x, np.linspace(0, 1, groups + 1)[1:-1]))  # between groups of equal size
        group = np.searchsorted(edges, x, side="right")
        dx, dy = x - origin[0], y - origin[1]
        terms = np.stack([np.ones_like(dx), dx, dy, dx * dx, dy * dy, dx * dy], axis=1)
        sums = np.zeros((block.max() + 1, len(edges) + 1, TERMS))
        np.add.at(sums, (block, group), terms)
        scale = float(x.std()) or 1.0
        counts, sums_of_x = sums.sum(axis=0)[:, :2].T  # [groups] each
        return Sample(sums, origin, sums_of_x / np.maximum(counts, 1) / scale, scale)

    @property
    def whole(self) -> "Sample":
        """The same sample without its blocks: `sums` [groups, 6] over all of them."""
        return Sample(self.sums.sum(axis=0), self.origin, self.centres, self.scale)

    def resampled(self, draws: int = DRAWS, seed: int = 0) -> "Sample":
        """Draw as many whole blocks with replacement, `draws` times: `sums` [draws, groups, 6]."""
        blocks = len(self.sums)
        counts = np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1 / blocks), draws)
        sums = np.tensordot(counts.astype(float), self.sums, axes=(1, 0))
        return Sample(sums, self.origin, self.centres, self.scale)

    @property
    def moments(self) -> tuple[np.ndarray, ...]:
        """Number of pairs, means of x and y, and the sums Sxx, Syy and Sxy about these; with resamples, one of each."""
        n, x, y, xx, yy, xy = np.moveaxis(self.sums.sum(axis=-2), -1, 0)
        return n, x / n + self.origin[0], y / n + self.origin[1], xx - x * x / n, yy - y * y / n, xy - x * y / n


@dataclass(frozen=True)
class Line:
    """A regression of y on x, with the standard uncertainties of slope and intercept.

    Each field is a number, or an array with one for each resample. `variance` is that of the residuals, RSS / (n − 2).
    """

    slope: np.ndarray
    intercept: np.ndarray
    slope_uncertainty: np.ndarray
    intercept_uncertainty: np.ndarray
    variance: np.ndarray


def fit_line(sample: Sample, method: Regression = "orthogonal", ratio: float = 1.0) -> Line:
    """Fit a line; `ratio` of a Deming regression is the variance of y's error over that of x's error.

    The uncertainties are those of the Guide's annex B, which are the standard errors of an ordinary regression.

    >>> x = np.array([1.0, 2.0, 3.0, 4.0])
    >>> line = fit_line(Sample.blocks(x, 2 * x + 1, np.zeros(4, int)).whole)
    >>> float(line.slope), float(line.intercept), float(line.variance)
    (2.0, 1.0, 0.0)
    """
    n, x, y, xx, yy, xy = sample.moments  # x and y are means, the others sums of squares about them
    with np.errstate(divide="ignore", invalid="ignore"):
        if method == "ols":
            slope = xy / xx
        else:
            delta = ratio if method == "deming" else 1.0  # orthogonal: both errors have the same variance
            excess = yy - delta * xx
            root = np.sqrt(excess * excess + 4 * delta * xy * xy)
            # two forms of one solution, each without the difference of nearly equal numbers
            slope = np.where(excess > 0, (excess + root) / (2 * xy), 2 * delta * xy / (root - excess))
        residual_squares = np.maximum(0.0, yy - 2 * slope * xy + slope * slope * xx)  # about this line
        ols_squares = np.maximum(0.0, yy - xy * xy / xx)  # about the line of an ordinary regression
        slope_uncertainty = np.sqrt(ols_squares / ((n - 2) * xx))
        intercept_uncertainty = slope_uncertainty * np.sqrt(xx / n + x * x)
        return Line(slope, y - slope * x, slope_uncertainty, intercept_uncertainty, residual_squares / (n - 2))


def breusch_pagan(x: np.ndarray, residuals: np.ndarray) -> float:
    """Test whether the squared residuals [n] depend on x [n]: Koenker's form of the Breusch-Pagan test; returns p.

    >>> x = np.arange(100.0)
    >>> breusch_pagan(x, np.cos(17 * x)) > 0.05, breusch_pagan(x, x * np.cos(17 * x)) < 0.001
    (True, True)
    """
    squares = np.square(residuals)
    if np.ptp(squares) == 0 or np.ptp(x) == 0:
        return 1.0
    statistic = len(x) * float(np.corrcoef(x, squares)[0, 1]) ** 2
    return erfc(sqrt(statistic / 2))  # of chi-squared with one degree of freedom


def fit_spread(sample: Sample, line: Line, by_level: bool) -> np.ndarray:
    """Fit how far y scatters about the line: the log variance as a quadratic function of x, coefficients [..., 3].

    It is constant, the log of RSS / (n − 2), unless `by_level`, or if x has fewer than `FEWEST_GROUPS` groups.
    """
    constant = np.log(np.maximum(line.variance, np.finfo(float).tiny))
    coefficients = np.stack([constant, np.zeros_like(constant), np.zeros_like(constant)], axis=-1)
    if not by_level or len(sample.centres) < FEWEST_GROUPS:
        return coefficients
    n, x, y, xx, yy, xy = np.moveaxis(sample.sums, -1, 0)  # sums of each group [..., groups], about the origin
    slope = line.slope[..., None]
    offset = (line.intercept + line.slope * sample.origin[0] - sample.origin[1])[..., None]  # the line at the origin
    # Σ (y − offset − slope x)² of each group, multiplied out; n / (n − 2) makes the overall mean RSS / (n − 2).
    squares = yy - 2 * slope * xy - 2 * offset * y + slope**2 * xx + 2 * slope * offset * x + n * offset**2
    total = n.sum(axis=-1, keepdims=True)
    means = np.maximum(squares, 0.0) / np.maximum(n, 1.0) * total / (total - 2)
    design = sample.centres[:, None] ** np.arange(3)  # [groups, 3]: 1, centre, centre²
    inverse = np.linalg.pinv(np.einsum("...g,gi,gj->...ij", n, design, design), hermitian=True)
    for _ in range(ITERATIONS):  # Fisher scoring of a Gamma regression with log link: its weights are the counts
        excess = means / np.exp(coefficients @ design.T) - 1
        step = np.einsum("...ij,...g,gj->...i", inverse, n * excess, design)
        largest = np.abs(step @ design.T).max(axis=-1, keepdims=True)
        coefficients = coefficients + step * np.minimum(1.0, LARGEST_STEP / np.maximum(largest, LARGEST_STEP))
        if largest.max() < CONVERGED:
            break
    return coefficients


@dataclass(frozen=True)
class ExpandedUncertainty:
    """The uncertainty of y as a function of the reference x.

    `spread` says how far y scatters about the `line`: coefficients of its log variance (`fit_spread`). If there are
    resamples, `line` and `spread` have one row for each.
    """

    sample: Sample
    line: Line
    spread: np.ndarray
    u_reference: float
    u_between: float

    def random(self, x: np.ndarray) -> np.ndarray:
        """Return the standard uncertainty of the random part at x [k]: [..., k]."""
        centres = self.sample.centres
        position = np.clip((x - self.sample.origin[0]) / self.sample.scale, centres.min(), centres.max())
        variance = np.exp(self.spread @ (position[:, None] ** np.arange(3)).T)  # the quadratic function of `fit_spread`
        return np.sqrt(np.maximum(0.0, variance - self.u_reference**2 + self.u_between**2))

    def bias(self, x: np.ndarray) -> np.ndarray:
        """Return the bias of the regression at x [k]: [..., k]."""
        return np.asarray(self.line.intercept)[..., None] + (np.asarray(self.line.slope)[..., None] - 1) * x

    def relative(self, x: np.ndarray) -> np.ndarray:
        """Return the relative expanded uncertainty U at x [k]: [..., k], as a share."""
        return COVERAGE_FACTOR * np.hypot(self.random(x), self.bias(x)) / x


def expand(sample: Sample, line: Line, by_level: bool, u_reference: float, u_between: float) -> ExpandedUncertainty:
    """Make the expanded uncertainty of a sample, or of each of its resamples, about the fitted `line`.

    If `by_level`, y may scatter more where x is higher. `u_reference` is u(bs,RM), `u_between` is u(bs,s).
    """
    return ExpandedUncertainty(sample, line, fit_spread(sample, line, by_level), u_reference, u_between)


def between_units(values: np.ndarray) -> float:
    """Compute u(bs,s) of units side by side, values [averages, units]: the pooled standard deviation between units.

    For two units this is the Guide's √(Σ (y₁ − y₂)² / 2n).

    >>> between_units(np.array([[1.0, 3.0], [2.0, 2.0]]))
    1.0
    """
    deviations = values - values.mean(axis=1, keepdims=True)
    return float(np.sqrt(np.square(deviations).sum() / (values.shape[0] * (values.shape[1] - 1))))


def number_blocks(days: np.ndarray) -> np.ndarray | None:
    """Number the block of days that each row is in, from 0 on [n]; None if there are too few blocks for a bootstrap.

    >>> number_blocks(np.array([10, 10, 11])) is None, number_blocks(np.arange(8))
    (True, array([0, 1, 2, 3, 4, 5, 6, 7]))
    """
    for length in BLOCK_DAYS:
        _, block = np.unique((days - days.min()) // length, return_inverse=True)
        if block.max() + 1 >= FEWEST_BLOCKS:
            return block
    return None


def share_of_draws(reached: np.ndarray) -> dict[Any, float]:
    """Return the share of resamples [draws] that reached each class, largest first."""
    classes, counts = np.unique(reached, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return {classes[index].item(): float(counts[index] / len(reached)) for index in order}
