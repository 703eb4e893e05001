"""The verdict: what a calibrator turned out to be, and why, in numbers and in an operator's words.

Nothing more complicated is shipped than validation has asked for: the reading as it is, with an offset, a line, ridge
(on the whole window, or with products of readings), or a network with the share that it has earned.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scare.calibrator.newest import line_weights
from scare.calibrator.plan import Plan
from scare.models.ladder import Ladder, Rules
from scare.training.examples import Examples
from scare.windowing.scaling import Affine

TINY = 1e-30
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


@dataclass(frozen=True)
class Earned:
    """What the members' mean has earned: its share in the result, and errors on validation, scaled.

    `fall` is by how much the best share would lower the error of the start, to `best`; a share is cut if that is
    little: a few days beside a reference are few examples, however many minutes they have.
    """

    share: float
    fall: float
    best: float
    rmse: float  # of the result

    @staticmethod
    def of(outputs: np.ndarray, start: np.ndarray | None, targets: np.ndarray, rules: Rules) -> "Earned":
        """By what the members give in the mean, and their start; without a start to fall back on, all of it."""
        if start is None:
            rmse = _root(outputs - targets)
            return Earned(1.0, 0.0, rmse, rmse)
        missing, learned = targets - start, outputs - start
        wanted = float(np.clip(learned @ missing / max(learned @ learned, TINY), 0.0, 1.0))
        best = _root(missing - wanted * learned)
        fall = 1 - best / max(_root(missing), TINY)
        share = rules.share(wanted, fall)
        return Earned(share, fall, best, _root(missing - share * learned))


def judge(ladder: Ladder, earned: Earned, plan: Plan, plain: Plain | None, unit: float, rules: Rules) -> dict[str, Any]:
    """What is to be shipped (`outcome`), every rung that was tried, the network's share, and a sentence.

    `unit` is how much of the target's unit 1 is on the ladder.
    """
    errors = plain.errors if plain else {}
    outcome = min(errors, key=errors.__getitem__, default=RAW)  # the first of equals
    if not errors or errors[outcome] > (1 + rules.plain_margin) * earned.rmse * unit:
        outcome = _kind(plan, earned.share)
    share = earned.share if outcome == NETWORK else 0.0
    sentence = SENTENCES[outcome].format(fall=earned.fall, share=share)
    gained = {"rmse": _short(earned.best * unit), "fall": _short(earned.fall)}
    network = {"rung": NETWORK, **gained, "admitted": share > 0}
    rungs = [*_plain_rungs(errors, outcome), *_rungs(ladder, unit), network]
    return {"outcome": outcome, "ladder": rungs, "network_share": _short(share), "verdict": sentence}


def _kind(plan: Plan, share: float) -> str:
    """What a plan is, of which a network has this share."""
    return NETWORK if share else RIDGE if line_weights(plan) is None else LINE


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
