"""Choosing among combinations by cost: the first that fits a budget, or the smallest of those that are about as good.

A calibrator is measured as it would be exported, so every combination is made into one first. Limits and measurement
are those of the recipe's budget (`board.measure`); without one, bytes of weights tell which calibrator is smaller.
Comes from `fit`; `combination` has what is combined.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.cost import count, spell_cost
from scare.errors import UsageError
from scare.models.selection import short
from scare.training.combination import Combination
from scare.training.recipe import Budget, Recipe
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
    """Return the index of the candidate to ship: the first that fits, or the smallest of those about as good."""
    fitting = {number: one for number, one in enumerate(candidates) if not one.over}
    if not fitting:
        smallest = min(candidates, key=lambda one: one.size)
        raise UsageError(
            f"nothing that was trained fits {recipe.budget}; the smallest is {smallest.combination.label}, with"
            f" {spell_cost(smallest.cost)}. Raise the limit, or try a shorter window"
        )
    if recipe.rules.smallest_within is None or len(fitting) == 1:
        return next(iter(fitting))
    most = (1 + recipe.rules.smallest_within) * min(one.combination.rmse for one in fitting.values())
    about_as_good = [number for number, one in fitting.items() if one.combination.rmse <= most]
    return min(about_as_good, key=lambda number: fitting[number].size)


def describe_cost(candidates: Sequence[Weighed], chosen: int, recipe: Recipe, scale: float) -> dict[str, Any]:
    """Return facts for the model card: each combination's error and cost, and why the first one is not shipped.

    `scale` is that of the target: a scaled error of 1 is `scale` in its unit. A network alone has no such facts.
    """
    if not candidates[0].combination.families:
        return {}
    rows = [
        {
            "parts": list(one.combination.used),
            "rmse": short(scale * one.combination.rmse),
            "cost": dict(one.cost),
            "over": list(one.over),
            "used": number == chosen,
        }
        for number, one in enumerate(candidates)
    ]
    facts: dict[str, Any] = {"combinations": rows}
    if chosen:
        first, error = candidates[0], candidates[0].combination.rmse
        gain = 1 - error / candidates[chosen].combination.rmse
        change = f"{100 * abs(gain):.1f} % {'higher, and' if gain < 0 else 'lower, but'}"
        rival = f"{first.combination.label} has an RMSE of {scale * error:.3g} there, {change}"
        reason = f"does not fit {recipe.budget}: {listed(first.over)}."
        if not first.over:
            reason = (
                f"takes {spell_cost(first.cost)}; this is the smallest within"
                f" {100 * (recipe.rules.smallest_within or 0):g} % of the lowest."
            )
        facts["why_smaller"] = f"{rival[0].upper()}{rival[1:]} {reason}"
    return facts
