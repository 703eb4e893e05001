"""A learner's arithmetic in float32, operation for operation as `scare_learn_f32.c` does it."""

import numpy as np

from scare.upkeep.learner_state import (
    KEPT_SHARE,
    LEAST_CORRELATION,
    LEAST_EXPLAINED,
    LEAST_VARIANCE,
    LIMIT,
    MOST_EXPLAINED,
    STEP,
    LearnerSettings,
    LearnerState,
    PairOutcome,
)

NUMBER = np.float32
ONE = NUMBER(1.0)


def take(settings: LearnerSettings, state: LearnerState, features: np.ndarray, residual: np.float32) -> bool:
    """Add features [n] and the residual to the reference to the state; False if they are no pair."""
    if not abs(residual) <= LIMIT:
        return False
    clamped, share = np.clip(features, NUMBER(-LIMIT), NUMBER(LIMIT)), NUMBER(2.0**-settings.memory_bits)
    first, second = np.triu_indices(settings.numbers)
    state.moments += (clamped[first] * clamped[second] - state.moments) * share
    state.products += (clamped * residual - state.products) * share
    state.square += (residual * residual - state.square) * share
    for index, numbers in enumerate((None, state.active, state.shadow)):
        error = residual if numbers is None else residual - _dot(numbers, clamped)
        state.sums[index] += error * error
    return True


def correction(numbers: np.ndarray, features: np.ndarray) -> np.float32:
    """What a board adds to the value, scaled."""
    return _dot(numbers, np.clip(features, NUMBER(-LIMIT), NUMBER(LIMIT)))


def compare_errors(state: LearnerState) -> PairOutcome:
    """Whether the candidate or the shipped calibrator was clearly nearer to the references of the round."""
    shipped, active, shadow = state.sums
    enough = NUMBER(KEPT_SHARE[0] / KEPT_SHARE[1])
    if shadow < active * enough and shadow <= shipped:
        return PairOutcome.BETTER
    return PairOutcome.REVERTED if shipped < active * enough else PairOutcome.TAKEN


def propose(settings: LearnerSettings, state: LearnerState) -> None:
    """Set the candidate: the least-squares solution, at most a step from the active numbers; else those."""
    numbers = _solve(settings, state)
    if not _plausible(state, numbers):
        state.shadow = state.active.copy()
        return
    moved = numbers - state.active
    largest = np.abs(moved).max()
    if largest > STEP:
        moved = moved * (NUMBER(STEP) / largest)
    state.shadow = state.active + moved


def _solve(settings: LearnerSettings, state: LearnerState) -> np.ndarray:
    """(moments + prior) θ = products, by L D Lᵀ."""
    n = settings.numbers
    matrix, right = np.zeros((n, n), NUMBER), state.products.copy()
    matrix[np.triu_indices(n)] = state.moments
    matrix[np.diag_indices(n)] += settings.prior.astype(NUMBER)
    for j in range(n):
        factors = matrix[j, j + 1 :] / matrix[j, j]
        for i, factor in enumerate(factors, j + 1):
            matrix[i, i:] -= factor * matrix[j, i:]
            right[i] -= factor * right[j]
        right[j] = right[j] / matrix[j, j]
        matrix[j, j + 1 :] = factors
    for j in reversed(range(n)):
        for i in range(j + 1, n):
            right[j] -= matrix[j, i] * right[i]
    return right


def _plausible(state: LearnerState, numbers: np.ndarray) -> bool:
    """Whether values and references correlate, and the correction explains enough of the residuals, not too much."""
    weight, mean, error = state.moments[-1], state.moments[len(state.products) - 1], state.products[-1]
    spread = state.moments[0] * weight - mean * mean
    common = state.products[0] * weight - mean * error
    other = state.square * weight - error * error
    together, references = spread + common, spread + common + common + other
    follows = together > 0 and together * together >= NUMBER(LEAST_CORRELATION**2) * (spread * references)
    varies = references >= NUMBER(LEAST_VARIANCE) * spread
    explained = _dot(numbers, state.products)
    enough = explained >= NUMBER(LEAST_EXPLAINED) * state.square[0] and explained <= NUMBER(MOST_EXPLAINED) * weight
    return bool(follows and varies and enough)


def _dot(numbers: np.ndarray, features: np.ndarray) -> np.float32:
    """The dot product, summed in the order of C."""
    total = numbers[0] * features[0]
    for number, feature in zip(numbers[1:], features[1:], strict=True):
        total = total + number * feature
    return total
