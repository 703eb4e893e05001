"""Choosing among combinations by cost: the first that fits a budget, or the smallest of those that are about as good.

A calibrator is measured as it would be exported, so every combination is made into one first. Limits and measurement
are those of the recipe's budget (`board.measure`); without one, bytes of weights tell which calibrator is smaller.
Called by `fit`; `combination` has what is combined.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.cost import count, spell_cost
from scare.errors import UsageError
from scare.training.combination import Combination
from scare.training.recipe import Budget, Recipe
from scare.training.selection import short
from scare.words import listed


@dataclass(frozen=True)
class Weighed:
    """A combination and what its calibrator costs."""

    combination: Combination
    cost: Mapping[str, int]
    over: Sequence[str]  # what is over the budget, with its limit
    size: float  # to compare by: the largest share of a limit, or bytes of weights

    @staticmethod
    def of(combination: Combination, calibrator: Calibrator, budget: Budget | None) -> "Weighed":
        """Measure the calibrator of a combination."""
        if budget is None:
            size = count(calibrator.plan).weight_bytes
            return Weighed(combination, {"weight_bytes": size}, (), size)
        cost = budget.measure(calibrator)
        return Weighed(combination, cost, budget.reasons(cost), budget.share(cost))


def choose_by_cost(candidates: Sequence[Weighed], recipe: Recipe) -> int:
    """Return the index of the candidate to ship.

    Candidates come in order of preference, and the first that fits is shipped. If the rule `smallest_within` is set, it
    is the smallest of those that fit whose error is at most this share above their lowest.
    """
    fitting = {number: candidate for number, candidate in enumerate(candidates) if not candidate.over}
    if not fitting:
        smallest = min(candidates, key=lambda candidate: candidate.size)
        raise UsageError(
            f"nothing that was trained fits {recipe.budget}; the smallest is {smallest.combination.label}, with"
            f" {spell_cost(smallest.cost)}. Raise the limit, or try a shorter window"
        )
    if recipe.rules.smallest_within is None or len(fitting) == 1:
        return next(iter(fitting))
    highest_error = (1 + recipe.rules.smallest_within) * min(
        candidate.combination.rmse for candidate in fitting.values()
    )
    about_as_good = [number for number, candidate in fitting.items() if candidate.combination.rmse <= highest_error]
    return min(about_as_good, key=lambda number: fitting[number].size)


def describe_cost(candidates: Sequence[Weighed], chosen: int, recipe: Recipe, scale: float) -> dict[str, Any]:
    """Return facts for the model card: each combination's error and cost, and why the first one is not shipped.

    `scale` is that of the target: a scaled error of 1 is `scale` in its unit. A network alone has no such facts.
    """
    if not candidates[0].combination.families:
        return {}
    rows = [
        {
            "parts": list(candidate.combination.used),
            "rmse": short(scale * candidate.combination.rmse),
            "cost": dict(candidate.cost),
            "over": list(candidate.over),
            "used": number == chosen,
        }
        for number, candidate in enumerate(candidates)
    ]
    if not chosen:
        return {"combinations": rows}
    first = candidates[0]
    error = first.combination.rmse
    reduction = 1 - error / candidates[chosen].combination.rmse  # of the error, if the first one were shipped instead
    change = f"{100 * abs(reduction):.1f} % {'higher, and' if reduction < 0 else 'lower, but'}"
    accuracy = f"{first.combination.label} has an RMSE of {scale * error:.3g} there, {change}"
    if first.over:
        reason = f"does not fit {recipe.budget}: {listed(first.over)}."
    else:
        reason = (
            f"takes {spell_cost(first.cost)}; this is the smallest within"
            f" {100 * (recipe.rules.smallest_within or 0):g} % of the lowest."
        )
    return {"combinations": rows, "why_smaller": f"{accuracy[0].upper()}{accuracy[1:]} {reason}"}
