"""How noisy the readings of each box are: the fleet's noise, and how many times as much a box has.

Residuals beside a reference are the box's noise. Those of two boxes are the noise of both; which of the two is noisier
is told by whom else they met.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from scare.upkeep.network.relations import DISTANT, Relation

ASSUMED_PAIRS = 4.0  # independent ones, for which the guess counts that a box is as noisy as the fleet
HOURS_PER_PAIR = 6.0  # hours of air that count as one independent pair
ROUNDS = 50  # of expectation-maximisation


def fleet_noise(relations: Sequence[Relation], references: frozenset[str]) -> tuple[float, float]:
    """Return the variance of a reading, in the unit of the truth: the first number + the second · value².

    It comes from relations with references; distant ones count only if there are no others.
    """
    with_reference = [
        relation
        for relation in relations
        if relation.encounter.other in references and relation.encounter.box not in references
    ]
    used = [relation for relation in with_reference if relation.kind != DISTANT] or with_reference
    points = [(level, size**2) for relation in used for level, size in relation.noise]
    levels, squares = (np.array(column, float) for column in zip(*points, strict=True))
    return fit_noise(levels, squares)


def noise_factors(
    relations: Sequence[Relation],
    weights: np.ndarray,
    of_others: Sequence[tuple[float, float]],
    noise: tuple[float, float],
    references: frozenset[str],
) -> Mapping[str, float]:
    """Return, for each box that met another instrument, how many times the fleet's variance its readings have.

    `noise` is what `fleet_noise` returned. For each relation, `weights` say how far it agrees with the others, and
    `of_others` the truth when the other instrument read its level, and that instrument's gain. The factors are learned
    by expectation-maximisation: residuals of two boxes are split between them as their variances are.
    """
    constant, of_square = noise
    # Box, other box (None for a reference), variance of residuals in units of a usual box's, independent pairs.
    meetings = []
    for relation, weight, (level, gain) in zip(relations, weights, of_others, strict=True):
        if relation.kind == DISTANT or not relation.noise:
            continue
        residual_variance = np.mean([size**2 for _, size in relation.noise]) * gain**2  # in the unit of the truth
        ratio = residual_variance / (constant + of_square * level**2)
        other = None if relation.encounter.other in references else relation.encounter.other
        meetings.append((relation.encounter.box, other, ratio, weight * relation.pairs / HOURS_PER_PAIR))
    factors = {name: 1.0 for box, other, *_ in meetings for name in (box, other) if name}
    for _ in range(ROUNDS):
        # Sums over pairs of squared errors of each box, and numbers of pairs; first those of the guess, a factor of 1.
        sums, counts = dict.fromkeys(factors, ASSUMED_PAIRS), dict.fromkeys(factors, ASSUMED_PAIRS)
        for box, other, ratio, pairs in meetings:
            total = factors[box] + (factors[other] if other else 0.0)
            for name in (box, other) if other else (box,):
                share = factors[name] / total
                # Expected square of this box's part of the residuals: its share of them, squared, and what is unsure of
                # that share. Beside a reference the share is 1.
                sums[name] += pairs * (factors[name] * (1 - share) + share**2 * ratio)
                counts[name] += pairs
        factors = {name: sums[name] / counts[name] for name in factors}
    return factors


def fit_noise(levels: np.ndarray, squares: np.ndarray) -> tuple[float, float]:
    """Fit squares = constant + of_square · level² by relative errors; return both numbers, which are not negative.

    >>> fit_noise(np.array([1.0, 2.0, 3.0]), np.array([1.5, 3.0, 5.5]))
    (1.0, 0.5)
    """
    # Both sides are divided by the squares, which makes errors relative: the fit should give 1 everywhere.
    scaled = np.column_stack([np.ones(len(levels)), levels**2]) / np.maximum(squares, 1e-12)[:, None]
    (constant, of_square), *_ = np.linalg.lstsq(scaled, np.ones(len(levels)), rcond=None)
    if min(constant, of_square) >= 0:
        return float(constant), float(of_square)
    # One would be negative: it is zero, and the other is fitted alone, whichever leaves the smaller error.
    alone = scaled.sum(axis=0) / np.square(scaled).sum(axis=0)
    errors = np.square(1 - alone * scaled).sum(axis=0)
    return (float(alone[0]), 0.0) if errors[0] <= errors[1] else (0.0, float(alone[1]))
