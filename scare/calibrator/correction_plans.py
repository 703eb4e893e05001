"""From a published formula to a plan: sums of terms, bands with passages between them, growth in humid air.

Roles come first in their order; a growth formula reads `pm` and `humidity`, in this order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scare.calibrator.plan import INPUT, Plan, Step

CONSTANT = "constant"


@dataclass(frozen=True)
class Formula:
    """How a correction computes: in words, and as terms and passages, or as growth (see the registry's header)."""

    words: str
    terms: tuple[Mapping[str, float], ...] = ()
    passages: tuple[Mapping[str, float], ...] = ()
    growth: Mapping[str, float] | None = None


def make_plan(roles: Sequence[str], formula: Formula) -> Plan:
    """The formula as kernel calls on the newest row (a number for each role, in physical units), float32."""
    if formula.growth is not None:
        steps = _growth_steps(formula.growth)
    elif formula.passages:
        steps = _banded_steps(roles, formula)
    else:
        steps = [_sum_of_terms("dense", roles, formula.terms, "y")]
    return Plan(1, len(roles), (Step("newest", (INPUT,), "now"), *steps)).astype(np.float32)


def _banded_steps(roles: Sequence[str], formula: Formula) -> list[Step]:
    """Every band's formula at once, then the passages between them."""
    names = ("low", "high", "slope", "offset")
    passages = {name: np.array([passage[name] for passage in formula.passages]) for name in names}
    bands = _sum_of_terms("polynomial", roles, formula.terms, "bands")
    return [bands, Step("blend", ("bands", "now"), "y", passages)]


def _sum_of_terms(kernel: str, roles: Sequence[str], formulas: Sequence[Mapping[str, float]], output: str) -> Step:
    """Formulas of the newest row as one step; a dense one where every term is a role."""
    squares = [f"{role}^2" for role in roles if any(f"{role}^2" in terms for terms in formulas)]
    wanted = [*roles, *squares]
    powers = [[(term == role) + 2 * (term == f"{role}^2") for role in roles] for term in wanted]
    weight = np.array([[terms.get(term, 0.0) for terms in formulas] for term in wanted])
    weights = {"weight": weight, "bias": np.array([terms.get(CONSTANT, 0.0) for terms in formulas])}
    return Step(kernel, ("now",), output, weights, {} if kernel == "dense" else {"powers": powers})


def _growth_steps(growth: Mapping[str, float]) -> list[Step]:
    """pm / (1 + g / (100 / h − 1)) = pm (1 − h / 100) / (1 + (g − 1) h / 100), which no humidity below 100 breaks."""
    factor = growth["factor"] if "factor" in growth else growth["kappa"] / growth["density"]
    limits, row = _limit_steps(growth) if "low" in growth else ([], "now")
    dry = {"weight": np.array([[1.0], [-0.01]])}
    wet = {"weight": np.array([[0.0], [(factor - 1) / 100]]), "bias": np.ones(1)}
    return [
        *limits,
        Step("polynomial", (row,), "dry", dry, {"powers": [[1, 0], [1, 1]]}),
        Step("dense", (row,), "wet", wet),
        Step("divide", ("dry", "wet"), "y"),
    ]


def _limit_steps(growth: Mapping[str, float]) -> tuple[list[Step], str]:
    """Humidity kept within limits: low + relu(h − low) − relu(h − high); pm, never negative here, as it is."""
    low, high = growth["low"], growth["high"]
    apart = {"weight": np.array([[1.0, 0, 0], [0, 1, 1]]), "bias": np.array([0, -low, -high])}
    again = {"weight": np.array([[1.0, 0], [0, 1], [0, -1]]), "bias": np.array([0, low])}
    steps = [Step("dense", ("now",), "apart", apart), Step("relu", ("apart",), "above")]
    return [*steps, Step("dense", ("above",), "limited", again)], "limited"
