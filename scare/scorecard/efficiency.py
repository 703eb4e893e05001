"""Complexity and memory, counted in the plan.

The exponent is that of operations ∝ N^p, fitted to a formula of operations at several window lengths N. Formulas are
`models`' (`growth`); whether one is exact for a calibrator is told by the count of its own plan.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.kernels import INPUT, Operations
from scare.scorecard.requirements import Finding


@dataclass(frozen=True)
class Growth:
    """How a model grows with its window: its declared complexity, and the operations at any length."""

    declared: str
    operations: Callable[[int], Operations]


def complexity_findings(calibrator: Calibrator, growth: Growth | None, lengths: Sequence[int]) -> list[Finding]:
    """Complexity as declared, the exponent fitted, and the operations of one reading counted."""
    counted = calibrator.cost().operations
    declared, exponent, detail = _grow(calibrator, growth, lengths, counted)
    return [
        Finding("declared_complexity", declared),
        Finding("exponent", exponent, detail=detail),
        Finding("operations", total(counted), detail=asdict(counted)),
    ]


def _grow(
    calibrator: Calibrator, growth: Growth | None, lengths: Sequence[int], counted: Operations
) -> tuple[str | None, float | None, dict[str, Any]]:
    if calibrator.window == 1 or all(step.kernel == "newest" for step in calibrator.plan.readers(INPUT)):
        return "O(1)", 0.0, {"reason": "it reads the newest row alone"}
    if calibrator.facts.get("outcome") == "ridge":
        return "O(N)", 1.0, {"reason": "ridge adds in each reading of the window once"}
    if growth is None:
        return (
            None,
            None,
            {"reason": "its operations at other lengths are not known: no model of ours, or no extra [train]"},
        )
    totals = [total(growth.operations(length)) for length in lengths]
    detail = {
        "lengths": list(lengths),
        "operations": totals,
        "last_exponent": fit_exponent(lengths[-2:], totals[-2:]),
        "exact_here": growth.operations(calibrator.window) == counted,
    }
    return growth.declared, fit_exponent(lengths, totals), detail


def fit_exponent(lengths: Sequence[int], totals: Sequence[float]) -> float:
    """The p of totals ∝ length^p, by least squares of the logarithms.

    >>> fit_exponent([10, 20, 40], [500, 2000, 8000])
    2.0
    """
    x, y = np.log(lengths), np.log(totals)
    x = x - x.mean()
    return float((x * y).sum() / (x * x).sum())


def total(operations: Operations) -> int:
    """All operations, whatever their kind."""
    return sum(asdict(operations).values())


def memory_findings(calibrator: Calibrator) -> list[Finding]:
    """Bytes in the plan: alive at once, retained altogether, weights."""
    cost = calibrator.cost()
    weights = {"weights": cost.weights}
    return [
        Finding("peak_bytes", cost.peak_bytes),
        Finding("retained_bytes", cost.retained_bytes),
        Finding("weight_bytes", cost.weight_bytes, detail=weights),
    ]
