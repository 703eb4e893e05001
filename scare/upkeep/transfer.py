"""A transfer is a fleet's calibrator for a box it has never seen, after hours beside a reference.

Its scaling comes from all its rows, the fewer they are the nearer to the fleet's; the few numbers at the plan's end
come from those with a reference. While the scaling is not its own they make up for it: they are learned from all pairs
at once, and kept if they lower the error on parts of the visit not learned from. Later a visit is judged as any other.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.data.flags import usable_values
from scare.data.readings import Readings
from scare.upkeep.learner import Learner
from scare.upkeep.pairs import Pairs, find_pairs
from scare.upkeep.rules import KEPT_SHARE
from scare.upkeep.sanity import check_visit
from scare.upkeep.update import Update, finish, learner_of, update
from scare.windowing.scaling import Affine, Scaling

BLOCKS = 4  # parts of the visit, each left out once
STEPS = 4  # that numbers may move at once, where all of a visit judges


def adopt(calibrator: Calibrator, readings: Readings) -> Update:
    """The calibrator for the device of these readings alone, its scaling and a few numbers learned from them."""
    own, settled = _for_device(calibrator, readings)
    if settled:
        return update(own, [readings])
    learner = learner_of(own)
    pairs = find_pairs(own, [readings], learner.rules)
    check_visit(own, [readings], pairs)
    before, known = learner.numbers, learner.store()
    taught = _taught(learner, pairs)
    if _squares(pairs, held_out(own, pairs)) * KEPT_SHARE[1] > _squares(pairs, pairs.features @ before) * KEPT_SHARE[0]:
        taught.restore(known)
    return finish(own, taught, [readings], pairs, before)


def held_out(calibrator: Calibrator, pairs: Pairs) -> np.ndarray:
    """What is added to each value of a visit by numbers learned from the other parts of it, scaled [n]."""
    added = np.zeros(len(pairs))
    for part in _blocks(len(pairs)):
        others = pairs.rows(~part)
        added[part] = pairs.features[part] @ _taught(learner_of(calibrator), others).numbers
    return added


def _blocks(count: int) -> Iterator[np.ndarray]:
    """Which rows are in each part, in the order of time."""
    number = np.arange(count) * BLOCKS // max(count, 1)
    return (number == block for block in range(BLOCKS))


def _taught(learner: Learner, pairs: Pairs) -> Learner:
    """The learner with what all these pairs teach, at once and without a judge."""
    silent = Learner(replace(learner.rules, round=len(pairs) + learner.rules.round), learner.identity)
    silent.state = learner.state
    for pair in zip(pairs.features, pairs.residuals, strict=True):
        silent.learn(*pair)
    for _ in range(STEPS):
        silent.accept()
    learner.state = silent.state
    return learner


def _squares(pairs: Pairs, added: np.ndarray) -> float:
    return float(np.square(pairs.residuals - added).sum())


def _for_device(calibrator: Calibrator, readings: Readings) -> tuple[Calibrator, bool]:
    """The calibrator with the scaling of one device alone, and whether that is its own."""
    inputs, device = calibrator.inputs, readings.device
    known, rows = inputs.scaling.known(device), _real_rows(calibrator, readings)
    affine = known or own_scaling(inputs.scaling, rows)
    own = replace(calibrator, inputs=replace(inputs, scaling=replace(inputs.scaling, devices={device: affine})))
    return own, known is not None or len(rows) >= inputs.scaling.settle


def own_scaling(scaling: Scaling, rows: np.ndarray) -> Affine:
    """The scaling of a new device by its real rows [rows, channels]: its own after `settle`, the fleet's before any.

    >>> fleet = Affine(np.array([10.0]), np.array([2.0]))
    >>> scaling = Scaling("standard", fleet, fleet, settle=4)
    >>> own_scaling(scaling, np.array([[20.0], [30.0]])).center
    array([17.5])
    """
    share, fleet = min(len(rows) / scaling.settle, 1.0), scaling.fleet
    own = scaling.own(rows) if len(rows) else fleet
    center = share * own.center + (1 - share) * fleet.center
    return Affine(center, own.scale**share * fleet.scale ** (1 - share))


def _real_rows(calibrator: Calibrator, readings: Readings) -> np.ndarray:
    inputs = calibrator.inputs
    values, _ = usable_values(inputs.select(readings), inputs.channels, inputs.quality)
    return values[np.isfinite(values).all(axis=1)]
