"""An update is a calibrator that has learned from a visit: the same file, a few numbers at the end of its plan.

Pairs go through a `Learner`, whose state travels in the file's facts, so that one visit goes on where the last one
ended. What cannot be a co-location is refused before anything is learned; what is taken back leaves no trace.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.linear import same_unit
from scare.calibrator.passes import LEARNED, STATE, as_shipped, with_learned
from scare.calibrator.plan import Plan
from scare.data.alignment import find_clock_offset
from scare.data.flags import Flag, drop_unusable_references
from scare.data.readings import REFERENCE, TIME, Channel, Readings
from scare.errors import DataError, UsageError
from scare.records import convert
from scare.upkeep.learner import Learner
from scare.upkeep.learner_state import KEPT_SHARE, LIMIT, LearningRules, rules_of
from scare.windowing.inputs import WindowStream
from scare.windowing.scaling import Affine, Scaling

# Pairs: what a visit of the reference gives a learner, row by row, scaled as the calibrator's plan sees it.


CHUNK = 256  # windows computed at once
DOUBTFUL = ~np.uint32(Flag.GAP | Flag.RESTART | Flag.OUTSIDE)  # a row with any other flag teaches nothing


@dataclass(frozen=True)
class Pairs:
    """Features [n, numbers], what is missing to the reference [n], both scaled; time in seconds [n]."""

    features: np.ndarray
    residuals: np.ndarray
    times: np.ndarray

    def __len__(self) -> int:
        return len(self.times)

    def rows(self, which: np.ndarray) -> "Pairs":
        """Some of them."""
        return Pairs(self.features[which], self.residuals[which], self.times[which])

    @property
    def values(self) -> np.ndarray:
        """What the calibrator gives, as shipped, scaled [n]."""
        return self.features[:, 0]


def find_pairs(calibrator: Calibrator, readings: Sequence[Readings], rules: LearningRules) -> Pairs:
    """The pairs of these readings in the order of time; values are those of the calibrator as it was shipped."""
    shipped = replace(calibrator, plan=as_shipped(calibrator.plan))
    parts = [_pairs_of(shipped, one, rules) for one in readings]
    features, residuals, times = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.argsort(times, kind="stable")
    return Pairs(features[order], residuals[order], times[order])


def _pairs_of(calibrator: Calibrator, readings: Readings, rules: LearningRules) -> tuple[np.ndarray, ...]:
    """The pairs of one device."""
    target, training_range, inputs = (
        calibrator.inputs.scaling.target,
        calibrator.inputs.training_range,
        rules.numbers - 2,
    )
    segments, flags = WindowStream(calibrator.inputs, readings.device).take(
        readings.times, calibrator.inputs.select(readings)
    )
    references = target.apply(drop_unusable_references(readings).targets[:, None])[:, 0]
    usable = np.isfinite(references) & ((flags & DOUBTFUL) == 0)
    features, rows = [np.empty((0, rules.numbers))], [np.empty(0, int)]
    for segment in segments:
        wanted = np.flatnonzero(usable[segment.rows])
        for part in np.split(wanted, range(CHUNK, len(wanted), CHUNK)):
            windows = segment.grid.windows(segment.ends[part])
            values = target.apply(calibrator.compute(windows)[:, None])
            held = training_range.clamp(windows) if training_range else windows
            features.append(np.column_stack([values, held[:, -1, :inputs], np.ones(len(part))]))
            rows.append(segment.rows[part])
    found, where = np.concatenate(features), np.concatenate(rows)
    known = np.isfinite(found).all(axis=1)
    found, where = found[known], where[known]
    return found, references[where] - found[:, 0], readings.times[where]


# What cannot be a co-location is refused before anything is learned: no overlap, a stuck reference, unit, clock.


LEAST_SPREAD, MOST_SPREAD = 0.1, 10.0  # of references, as a share of that of calibrated values
FARTHEST_CLOCK = 12 * 3600.0  # seconds looked for
LEAST_OVERLAP = 24 * 3600.0  # seconds of references: in fewer, slow air goes together with itself at any time
CLEAR_CORRELATION, CLEARLY_BETTER = 0.8, 0.15  # with which another clock is believed, and how much better it is


def check_visit(calibrator: Calibrator, readings: Sequence[Readings], pairs: Pairs) -> None:
    """Refuse a visit that would teach nonsense, with what is wrong and what to do."""
    name = calibrator.target.name
    for one in readings:
        if one.reference is not None and not same_unit(one.reference, calibrator.target):
            raise DataError(
                f"{one.device}: the reference is in {one.reference.unit} and the calibrator gives"
                f" {calibrator.target.unit}; convert one of them"
            )
    if not len(pairs):
        raise DataError(
            f"no row has a calibrated value without flags and a reference of {name}: nothing can be learned"
        )
    references = pairs.values + pairs.residuals
    if np.ptp(references) == 0:
        raise DataError(f"the reference {name} is constant: it teaches nothing, and may be stuck")
    _check_size(calibrator, pairs, references)
    for one in readings:
        _check_clock(one)


def _check_size(calibrator: Calibrator, pairs: Pairs, references: np.ndarray) -> None:
    """Refuse references that are of another size than what they are to correct."""
    target = calibrator.inputs.scaling.target
    values, truth = (float(np.median(target.invert(one[:, None]))) for one in (pairs.values, references))
    far = float((np.abs(pairs.residuals) > LIMIT).mean())
    share = float(np.std(references) / max(np.std(pairs.values), 1e-9))
    if far > 0.5 or not LEAST_SPREAD <= share <= MOST_SPREAD:
        raise DataError(
            f"the reference ({truth:.4g} in the median) and calibrated values ({values:.4g}) are not of one size; it"
            f" varies {share:.3g} times as much: see whether its unit is that of training"
        )


def _check_clock(readings: Readings) -> None:
    """Refuse a reference that would fit much better at another time."""
    known = readings.frame.select(TIME, REFERENCE).drop_nulls()
    if readings.reference is None or not known.height:
        return
    if (known[TIME][-1] - known[TIME][0]).total_seconds() < LEAST_OVERLAP:
        return
    station = Readings("the reference", known.rename({REFERENCE: "reference value"}), (Channel("reference value"),))
    sensor = replace(readings, frame=readings.frame.drop(REFERENCE), reference=None)
    try:
        offset = find_clock_offset(sensor, station, readings.channels[0].name, FARTHEST_CLOCK)
    except DataError:  # one of the two does not vary: said elsewhere
        return
    best, now = abs(offset.correlation), abs(offset.correlation_at_zero)
    if best >= CLEAR_CORRELATION and best - now > CLEARLY_BETTER:
        raise DataError(
            f"{readings.device}: sensor and reference go together at {best:.2f} if the sensor's clock is shifted by"
            f" {offset.seconds:g} s, and at {now:.2f} as they are; set the clock right first"
        )


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


# A transfer is a fleet's calibrator for a box it has never seen, after hours beside a reference.
#
# Its scaling comes from all its rows, the fewer they are the nearer to the fleet's; the few numbers at the plan's end
# come from those with a reference. While the scaling is not its own they make up for it: they are learned from all
# pairs at once, and kept if they lower the error on parts of the visit not learned from. Later a visit is judged as
# any other.


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
    values = calibrator.inputs.usable(readings)
    return values[np.isfinite(values).all(axis=1)]
