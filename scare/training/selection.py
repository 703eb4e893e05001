"""Model selection: the rules by which families of models are scored on validation and the best are averaged.

The families are the linear ones of `models.linear_families` and two more:

    trees          gradient-boosted trees on the residuals of `drift` or of a linear family (`training.trees`)
    network        a network that starts at the mean of the linear families

A family has variants (a penalty, a structure, a checkpoint), and validation chooses one of them. On the rows that chose
it, the error of the best variant is optimistic, so the error of a family is cross-fitted: validation is cut into
contiguous blocks, and each block is scored with the variant that is best on the others. The result is the mean of all
families whose error is within a tolerance of the lowest. docs/decisions/selection.md tells what was tried.
`training.combination` fits the families, calls these functions and fits what they chose to more rows.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scare.data.quantities import display_unit
from scare.models.linear_families import (
    AS_IS,
    DEVICES,
    DRIFT,
    INTERACTIONS,
    LINE,
    LINEAR,
    OFFSET,
    RAW,
    RIDGE,
    Design,
    FitLinear,
    Linear,
    linear_variants,
)
from scare.schema import Amount, Count
from scare.words import listed

TREES, NETWORK = "trees", "network"
LABELS = {
    RAW: "the sensor reading as it is",
    OFFSET: "the sensor reading plus an offset",
    LINEAR: "a linear regression",
    INTERACTIONS: "a regression with interactions",
    DEVICES: "a regression with device effects",
    DRIFT: "a regression with drift",
    TREES: "gradient-boosted trees",
    NETWORK: "the network",
}
EXACT = 1e-5  # standard deviations of the target: a smaller error is rounding


@dataclass(frozen=True)
class SelectionRules:
    """How families are judged and averaged."""

    tolerance: Amount = 0.15  # families are averaged whose error is at most this share above the lowest
    # If given, ship the smallest combination whose error is at most this share above the lowest (`training.budget`).
    smallest_within: Amount | None = field(default=None, metadata={"was": "min_gain"})
    blocks: Count = 4  # contiguous parts of validation; each is scored by a choice made on the others
    trees: bool = True  # whether trees are a family
    refit: bool = True  # whether what was chosen is fitted again to training and validation together


FitResiduals = Callable[[Design], tuple[Linear, np.ndarray]]  # a linear model, and its residuals [n]


@dataclass(frozen=True)
class Fitted:
    """A family after selection: the variant chosen on validation, and its scaled outputs there [n].

    They are cross-fitted: those of each block of rows are of the variant that is best on the other blocks.
    """

    family: str
    variant: str
    outputs: np.ndarray
    fit: FitLinear | None = None  # fits the variant again; None for trees and network
    linear: Linear | None = None  # as fitted to training
    corrected: FitResiduals | None = None  # for trees: fits the linear model whose residuals they predict again

    def rmse(self, targets: np.ndarray) -> float:
        """Return the error of the cross-fitted outputs, in standard deviations of the target."""
        return float(np.sqrt(np.square(self.outputs - targets).mean()))


def cross_fit(outputs: np.ndarray, targets: np.ndarray, times: np.ndarray, blocks: int) -> tuple[int, np.ndarray]:
    """Choose the variant with the lowest error, given outputs [variants, n].

    Returns its index and cross-fitted outputs [n]: each contiguous block of rows has the outputs of the variant that is
    best on the other blocks.

    >>> targets = np.array([0.0, 0.0, 1.0, 1.0])
    >>> cross_fit(np.array([[0.0, 0.0, 0.0, 0.0], [0.9, 0.9, 0.9, 0.9]]), targets, np.arange(4.0), blocks=2)
    (1, array([0.9, 0.9, 0. , 0. ]))
    """
    errors = np.square(outputs - targets)

    def best_on(rows: np.ndarray) -> int:
        # Errors below EXACT are ties, so that rounding does not decide: the first variant wins.
        return int(np.argmin(np.maximum(errors[:, rows].mean(axis=1), EXACT**2)))

    best = best_on(np.full(len(targets), True))
    borders = np.quantile(times, np.arange(1, blocks) / blocks)
    block = np.searchsorted(borders, times, side="right")
    cross_fitted = outputs[best].copy()
    for block_number in range(blocks):
        in_block = block == block_number
        if in_block.any() and not in_block.all():
            cross_fitted[in_block] = outputs[best_on(~in_block)][in_block]
    return best, cross_fitted


def fit_families(train: Design, validation: Design, same_unit: bool, rules: SelectionRules) -> list[Fitted]:
    """Fit every linear family that the data allow to training, and choose its variant on validation.

    The family `as is` needs a first channel and a target of the same unit (`same_unit`).
    """
    families = []
    for family, variants in linear_variants(train, same_unit).items():
        models = [fit(train) for fit in variants.values()]
        outputs = np.stack([validation.predict(model) for model in models])
        best, cross_fitted = cross_fit(outputs, validation.data.targets, validation.data.times, rules.blocks)
        name = list(variants)[best]
        families.append(Fitted(family, name, cross_fitted, variants[name], models[best]))
    return families


def choose_shares(
    families: Sequence[Fitted], targets: np.ndarray, rules: SelectionRules, without: Collection[str] = ()
) -> list[float]:
    """Give equal shares to all families within the tolerance of the lowest error, and 0 to the rest and to `without`.

    If any family is exact, the first exact one, which is the simplest, gets all, so that rounding does not decide.

    >>> targets = np.array([0.0, 1.0, 2.0, 3.0])
    >>> linear, network = (Fitted(name, name, targets + error) for name, error in ((LINEAR, 0.10), (NETWORK, 0.11)))
    >>> choose_shares([linear, network], targets, SelectionRules())
    [0.5, 0.5]
    >>> choose_shares([linear, network], targets, SelectionRules(), without=[NETWORK])
    [1.0, 0.0]
    """
    errors = {index: family.rmse(targets) for index, family in enumerate(families) if family.family not in without}
    lowest = min(errors.values())
    used = [index for index, error in errors.items() if error <= (1 + rules.tolerance) * lowest]
    if lowest < EXACT:
        used = [next(index for index, error in errors.items() if error < EXACT)]
    return [1 / len(used) if index in used else 0.0 for index in range(len(families))]


def mean_rmse(families: Sequence[Fitted], shares: Sequence[float], targets: np.ndarray) -> float:
    """Return the error of the weighted mean of families on validation, in standard deviations of the target.

    The outputs of each family are cross-fitted already (`cross_fit`), so a plain error shows no luck of a choice.
    """
    outputs = np.sum([share * family.outputs for family, share in zip(families, shares, strict=True)], axis=0)
    return float(np.sqrt(np.square(outputs - targets).mean()))


def describe_selection(
    families: Sequence[Fitted], shares: Sequence[float], targets: np.ndarray, scale: float, unit: str, is_line: bool
) -> dict[str, Any]:
    """Return facts for the model card: the `outcome`, each family's error and share, and a summary in words.

    `targets` are the references of validation, scaled [n]; a scaled error of 1 is `scale` in the target's `unit`.
    `is_line` says that the plan is linear in the newest row alone.
    """
    errors = [scale * family.rmse(targets) for family in families]
    rows = [
        {
            "candidate": family.family,
            "variant": family.variant,
            "rmse": short(error),
            "admitted": share > 0,
            "share": short(share),
        }
        for family, error, share in zip(families, errors, shares, strict=True)
    ]
    used = [family for family, share in zip(families, shares, strict=True) if share]
    names = {family.family for family in used}
    if names == {AS_IS}:
        outcome = used[0].variant
    elif NETWORK in names:
        outcome = NETWORK
    elif TREES in names:
        outcome = TREES
    else:
        outcome = LINE if is_line else RIDGE
    network_share = sum(share for family, share in zip(families, shares, strict=True) if family.family == NETWORK)
    others = [
        f"{_label(family)} {error:.3g}"
        for family, error, share in zip(families, errors, shares, strict=True)
        if not share
    ]
    error = f"{scale * mean_rmse(families, shares, targets):.3g} {display_unit(unit)}".rstrip()
    summary = f"The result is {name_mean(families, shares)}, with an RMSE of {error} on validation (cross-fitted)"
    summary += f"; the others alone: {listed(others)}." if others else "."
    if len(used) > 1 and outcome in (LINE, RIDGE):
        summary += " Its parts are merged into one linear model."
    return {"outcome": outcome, "selection": rows, "network_share": short(network_share), "summary": summary}


def name_mean(families: Sequence[Fitted], shares: Sequence[float]) -> str:
    """Name the mean of families with these shares, as part of a sentence."""
    labels = [_label(family) for family, share in zip(families, shares, strict=True) if share]
    return f"{'the mean of ' if len(labels) > 1 else ''}{listed(labels)}"


def _label(family: Fitted) -> str:
    return LABELS[family.variant if family.family == AS_IS else family.family]


def short(number: float) -> float:
    """Round to six significant digits."""
    return float(f"{number:.6g}")
