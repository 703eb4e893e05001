"""The verdict: what a calibrator turned out to be, and why, in numbers and in an operator's words.

Nothing more complicated is shipped than validation has asked for: the reading as it is, with an offset, a line, ridge
(on the whole window, or with products of readings), or a network with the share that it has earned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scare.calibrator.plan import Plan
from scare.models.ladder import Ladder, Rules
from scare.training.examples import Examples
from scare.training.loop import Trained
from scare.windowing.scaling import Affine

RAW, OFFSET, LINE, RIDGE, NETWORK = "raw", "offset", "line", "ridge", "network"
SENTENCES = {
    RAW: "the sensor's own value is as good as any correction that validation can prove: exported as it is",
    OFFSET: "the sensor's own value plus an offset is as good as any other correction: exported as that",
    LINE: "a straight line is as good as anything else here: exported as a line",
    RIDGE: "the network is not clearly better than ridge: exported as ridge",
    NETWORK: "the network lowers the error of the best line or ridge by {fall:.0%}; it has {share:.0%} of the say",
}


@dataclass(frozen=True)
class Plain:
    """The reading as it is and with an offset, in the target's unit: errors on validation."""

    offset: float
    errors: Mapping[str, float]

    @staticmethod
    def of(examples: Examples, held: Examples, target: Affine) -> "Plain":
        """The offset is the mean difference in training; `target` is how references are scaled."""
        known, new = (target.invert(one.targets.astype(np.float64)[:, None])[:, 0] for one in (examples, held))
        offset, apart = float((known - examples.readings).mean()), new - held.readings
        return Plain(offset, {RAW: _root(apart), OFFSET: _root(apart - offset)})


def judge(
    members: Sequence[Trained], plan: Plan, plain: Plain | None, rmse: float, unit: float, rules: Rules
) -> dict[str, Any]:
    """What is to be shipped (`outcome`), every rung that was tried, the network's share, and a sentence.

    `rmse` is the error of the plan on validation, `unit` how much of the target's unit 1 is on the ladder.
    """
    ladder, share = members[0].ladder, float(np.mean([member.share for member in members]))
    assert ladder is not None
    errors = plain.errors if plain else {}
    outcome = min(errors, key=errors.__getitem__, default=RAW)  # the first of equals
    if not errors or errors[outcome] > (1 + rules.plain_margin) * rmse:
        outcome = _kind(plan, share)
    share = share if outcome == NETWORK else 0.0
    fall = float(np.mean([member.fall for member in members]))
    sentence = SENTENCES[outcome].format(fall=fall, share=share)
    error = float(np.mean([member.best_rmse for member in members]))
    network = {"rung": NETWORK, "rmse": _short(error), "fall": _short(fall), "admitted": share > 0}
    rungs = [*_plain_rungs(errors, outcome), *_rungs(ladder, unit), network]
    return {"outcome": outcome, "ladder": rungs, "network_share": _short(share), "verdict": sentence}


def _kind(plan: Plan, share: float) -> str:
    """What a plan is, of which a network has this share."""
    reads_newest = [step.kernel for step in plan.steps] == ["newest", "dense"]
    return NETWORK if share else LINE if reads_newest else RIDGE


def _plain_rungs(errors: Mapping[str, float], outcome: str) -> list[dict[str, Any]]:
    """These are asked last: whether they are no worse than what came out."""
    return [{"rung": name, "rmse": _short(error), "admitted": name == outcome} for name, error in errors.items()]


def _rungs(ladder: Ladder, unit: float) -> list[dict[str, Any]]:
    rungs = []
    for rung in ladder.rungs:
        measured = {"rmse": rung.rmse * unit, "fall": rung.fall, "sureness": rung.sureness}
        numbers = {name: _short(number) for name, number in measured.items()}
        rungs.append({"rung": rung.name, **numbers, "admitted": rung.admitted})
    return rungs


def _root(errors: np.ndarray) -> float:
    return float(np.sqrt(np.square(errors).mean()))


def _short(number: float) -> float:
    return float(f"{number:.6g}")
