"""An update is a calibrator that has learned from a visit: the same file, a few numbers at the end of its plan.

Pairs go through a `Learner`, whose state travels in the file's facts, so that one visit goes on where the last one
ended. What cannot be a co-location is refused before anything is learned; what is taken back leaves no trace.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.learned import LEARNED, STATE, as_shipped, with_learned
from scare.calibrator.plan import Plan
from scare.data.readings import Readings
from scare.errors import DataError, UsageError
from scare.records import convert
from scare.upkeep.learner import Learner
from scare.upkeep.pairs import Pairs, find_pairs
from scare.upkeep.rules import rules_of
from scare.upkeep.sanity import check_visit


@dataclass(frozen=True)
class Learned:
    """What the facts of a file say of its visits; none, where they say nothing."""

    visits: int = 0
    pairs: int = 0
    devices: tuple[str, ...] = ()
    periods: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Update:
    """A calibrator after a visit, the pairs there were, whether values are any different now, and what it holds.

    `before` and `after` are errors on those pairs, in the target's unit: of the calibrator given, and of the new one.
    """

    calibrator: Calibrator
    pairs: int
    changed: bool
    numbers: np.ndarray
    before: float
    after: float


def update(calibrator: Calibrator, readings: Sequence[Readings]) -> Update:
    """Learn from readings beside a reference; what is not proved to be better changes nothing."""
    learner = learner_of(calibrator)
    pairs = find_pairs(calibrator, readings, learner.rules)
    check_visit(calibrator, readings, pairs)
    before = learner.numbers
    for pair in zip(pairs.features, pairs.residuals, strict=True):
        learner.learn(*pair)
    return finish(calibrator, learner, readings, pairs, before)


def finish(
    calibrator: Calibrator, learner: Learner, readings: Sequence[Readings], pairs: Pairs, before: np.ndarray
) -> Update:
    """The update that a learner has come to by these pairs, from the numbers that held before."""
    after, unit = learner.numbers, float(calibrator.inputs.scaling.target.scale[0])
    errors = (unit * _rmse(pairs, numbers) for numbers in (before, after))
    taught = _with_learned(calibrator, learner, readings, pairs)
    return Update(taught, len(pairs), not np.array_equal(before, after), after, *errors)


def revert(calibrator: Calibrator) -> Calibrator:
    """The calibrator as it was before any visit."""
    if STATE not in calibrator.facts:
        raise UsageError("it has learned from no visit: there is nothing to take back")
    facts = {name: value for name, value in calibrator.facts.items() if name not in (LEARNED, STATE)}
    return _with_plan(replace(calibrator, facts=facts), as_shipped(calibrator.plan))


def learner_of(calibrator: Calibrator) -> Learner:
    """The learner of a calibrator, with what it remembers of earlier visits."""
    shipped = replace(calibrator, plan=as_shipped(calibrator.plan))
    learner = Learner(rules_of(calibrator.inputs), identity(shipped))
    if state := calibrator.facts.get(STATE):
        learner.restore(_blob(state))
    return learner


def _blob(state: Any) -> bytes:
    """The blob that a fact spells; a file may say anything."""
    try:
        return bytes.fromhex(state)
    except (TypeError, ValueError) as error:
        raise DataError("what was learned is damaged: it is no blob") from error


def identity(calibrator: Calibrator, device: str = "") -> int:
    """A checksum of what a learner relies on: the plan that it corrects, and the scaling of a device or the fleet."""
    scaling, plan = calibrator.inputs.scaling, calibrator.plan
    affine = scaling.devices[device] if device else scaling.fleet
    arrays = [affine.center, affine.scale, scaling.target.center, scaling.target.scale]
    arrays += [step.weights[name] for step in plan.steps for name in sorted(step.weights)]
    shape = f"{plan.window} {plan.channels} {[(step.kernel, step.inputs) for step in plan.steps]}"
    return crc32(b"".join(array.tobytes() for array in arrays), crc32(shape.encode()))


def _with_learned(calibrator: Calibrator, learner: Learner, readings: Sequence[Readings], pairs: Pairs) -> Calibrator:
    """The calibrator with what its learner holds, and facts that say so."""
    known = convert(calibrator.facts.get(LEARNED, {}), Learned, "what was learned", DataError, unknown="ignore")
    channels = [channel.name for channel in calibrator.inputs.channels[: learner.rules.numbers - 2]]
    names = ("value", *channels, "offset")
    first, last = (_iso(seconds) for seconds in (pairs.times[0], pairs.times[-1]))
    learned = {
        "visits": known.visits + 1,
        "pairs": known.pairs + len(pairs),
        "devices": sorted({*known.devices, *(one.device for one in readings)}),
        "periods": [*map(list, known.periods), [first, last]],
        "numbers": {name: round(float(number), 6) for name, number in zip(names, learner.numbers, strict=True)},
    }
    taught = calibrator.with_facts(**{LEARNED: learned, STATE: learner.store().hex()})
    return _with_plan(taught, with_learned(calibrator.plan, learner.numbers))


def _with_plan(calibrator: Calibrator, plan: Plan) -> Calibrator:
    """The calibrator with another plan, and its golden windows with what that gives."""
    changed = replace(calibrator, plan=plan)
    golden = replace(calibrator.golden, numbers=changed.compute(calibrator.golden.windows))
    return replace(changed, golden=golden)


def _rmse(pairs: Pairs, numbers: np.ndarray) -> float:
    errors = pairs.residuals - pairs.features @ numbers
    return float(np.sqrt(np.square(errors).mean()))


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
