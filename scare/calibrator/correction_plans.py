"""From a published formula to a plan: sums of terms, bands with passages between them, growth in humid air.

Roles come first in their order; a growth formula reads `pm` and `humidity`, in this order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf

import numpy as np

from scare.calibrator.plan import INPUT, Plan, Step

CONSTANT = "constant"


Terms = Mapping[str, float]


@dataclass(frozen=True)
class Passage:
    """Between two formulas: the share of the later one is 0 below `low`, 1 from `high` on, a line between them."""

    low: float
    high: float
    slope: float
    offset: float


@dataclass(frozen=True)
class Growth:
    """Particles grow in humid air, by `factor` or by `kappa` and `density`; humidity is kept within limits, if any."""

    factor: float | None = None
    kappa: float = 0.0
    density: float = 1.0
    low: float = -inf
    high: float = inf


def make_plan(
    roles: Sequence[str], formulas: Sequence[Terms], passages: Sequence[Passage] = (), growth: Growth | None = None
) -> Plan:
    """Formulas as kernel calls on the newest row (a number for each role, in physical units), float32."""
    if growth is not None:
        steps = _growth_steps(growth)
    elif passages:
        steps = _banded_steps(roles, formulas, passages)
    else:
        steps = [_sum_of_terms("dense", roles, formulas, "y")]
    return Plan(1, len(roles), (Step("newest", (INPUT,), "now"), *steps)).astype(np.float32)


def _banded_steps(roles: Sequence[str], formulas: Sequence[Terms], passages: Sequence[Passage]) -> list[Step]:
    """Every band's formula at once, then the passages between them."""
    weights = {one.name: np.array([getattr(passage, one.name) for passage in passages]) for one in fields(Passage)}
    bands = _sum_of_terms("polynomial", roles, formulas, "bands")
    return [bands, Step("blend", ("bands", "now"), "y", weights)]


def _sum_of_terms(kernel: str, roles: Sequence[str], formulas: Sequence[Terms], output: str) -> Step:
    """Formulas of the newest row as one step; a dense one where every term is a role."""
    squares = [f"{role}^2" for role in roles if any(f"{role}^2" in terms for terms in formulas)]
    wanted = [*roles, *squares]
    powers = [[(term == role) + 2 * (term == f"{role}^2") for role in roles] for term in wanted]
    weight = np.array([[terms.get(term, 0.0) for terms in formulas] for term in wanted])
    weights = {"weight": weight, "bias": np.array([terms.get(CONSTANT, 0.0) for terms in formulas])}
    return Step(kernel, ("now",), output, weights, {} if kernel == "dense" else {"powers": powers})


def _growth_steps(growth: Growth) -> list[Step]:
    """pm / (1 + g / (100 / h − 1)) = pm (1 − h / 100) / (1 + (g − 1) h / 100), which no humidity below 100 breaks."""
    factor = growth.kappa / growth.density if growth.factor is None else growth.factor
    limits, row = (_limit_steps(growth.low, growth.high), "limited") if growth.high < inf else ([], "now")
    dry = {"weight": np.array([[1.0], [-0.01]])}
    wet = {"weight": np.array([[0.0], [(factor - 1) / 100]]), "bias": np.ones(1)}
    return [
        *limits,
        Step("polynomial", (row,), "dry", dry, {"powers": [[1, 0], [1, 1]]}),
        Step("dense", (row,), "wet", wet),
        Step("divide", ("dry", "wet"), "y"),
    ]


def _limit_steps(low: float, high: float) -> list[Step]:
    """Humidity kept within limits: low + relu(h − low) − relu(h − high); pm, never negative here, as it is."""
    apart = {"weight": np.array([[1.0, 0, 0], [0, 1, 1]]), "bias": np.array([0, -low, -high])}
    again = {"weight": np.array([[1.0, 0], [0, 1], [0, -1]]), "bias": np.array([0, low])}
    steps = [Step("dense", ("now",), "apart", apart), Step("relu", ("apart",), "above")]
    return [*steps, Step("dense", ("above",), "limited", again)]
