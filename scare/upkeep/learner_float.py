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
    LearningRules,
    State,
    Verdict,
)

NUMBER = np.float32
ONE = NUMBER(1.0)


def take(rules: LearningRules, state: State, features: np.ndarray, residual: np.float32) -> bool:
    """Learn from features [n] and what is missing to the reference; False of a pair that is no pair."""
    if not abs(residual) <= LIMIT:
        return False
    held, share = np.clip(features, NUMBER(-LIMIT), NUMBER(LIMIT)), NUMBER(2.0**-rules.memory_bits)
    first, second = np.triu_indices(rules.numbers)
    state.moments += (held[first] * held[second] - state.moments) * share
    state.products += (held * residual - state.products) * share
    state.square += (residual * residual - state.square) * share
    for index, numbers in enumerate((None, state.active, state.shadow)):
        error = residual if numbers is None else residual - _dot(numbers, held)
        state.sums[index] += error * error
    return True


def correction(rules: LearningRules, numbers: np.ndarray, features: np.ndarray) -> np.float32:
    """What is added to the value, scaled."""
    return _dot(numbers, np.clip(features, NUMBER(-LIMIT), NUMBER(LIMIT)))


def judge(rules: LearningRules, state: State) -> Verdict:
    """Who was nearest to the references of the round."""
    shipped, active, shadow = state.sums
    enough = NUMBER(KEPT_SHARE[0] / KEPT_SHARE[1])
    if shadow < active * enough and shadow <= shipped:
        return Verdict.BETTER
    return Verdict.REVERTED if shipped < active * enough else Verdict.TAKEN


def propose(rules: LearningRules, state: State) -> None:
    """The next candidate: what least squares gives, no farther than a step from what holds; else what holds."""
    numbers = _solve(rules, state)
    if not _plausible(state, numbers):
        state.shadow = state.active.copy()
        return
    moved = numbers - state.active
    largest = np.abs(moved).max()
    if largest > STEP:
        moved = moved * (NUMBER(STEP) / largest)
    state.shadow = state.active + moved


def _solve(rules: LearningRules, state: State) -> np.ndarray:
    """(moments + prior) θ = products, by L D Lᵀ."""
    n = rules.numbers
    matrix, right = np.zeros((n, n), NUMBER), state.products.copy()
    matrix[np.triu_indices(n)] = state.moments
    matrix[np.diag_indices(n)] += rules.prior.astype(NUMBER)
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


def _plausible(state: State, numbers: np.ndarray) -> bool:
    """Whether values and references go together, and a correction explains enough of what is missing, not too much."""
    weight, mean, error = state.moments[-1], state.moments[len(state.products) - 1], state.products[-1]
    spread = state.moments[0] * weight - mean * mean
    common = state.products[0] * weight - mean * error
    other = state.square * weight - error * error
    together, references = spread + common, spread + common + common + other
    follows = together > 0 and together * together >= NUMBER(LEAST_CORRELATION**2) * (spread * references)
    varies = references >= NUMBER(LEAST_VARIANCE) * spread
    explained = _dot(numbers, state.products)
    some = explained >= NUMBER(LEAST_EXPLAINED) * state.square[0] and explained <= NUMBER(MOST_EXPLAINED) * weight
    return bool(follows and varies and some)


def _dot(numbers: np.ndarray, features: np.ndarray) -> np.float32:
    """In the order of C."""
    total = numbers[0] * features[0]
    for number, feature in zip(numbers[1:], features[1:], strict=True):
        total = total + number * feature
    return total
