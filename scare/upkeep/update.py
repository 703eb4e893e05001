"""Update a calibrator from a co-location session: the same file, with a learned correction at the end of its plan.

    readings with a reference → pairs → `Learner` → a few coefficients in the plan

The learner's state travels in the file's facts, so that a session continues where the last one ended. Data that cannot
be a co-location are refused before anything is learned; `revert` leaves no trace of what was learned.

`adopt` turns a fleet's calibrator into one for a box that was not in training. The box's scaling comes from all its
rows (with few of them it stays close to the fleet's), the correction from the rows with a reference. While the scaling
has not settled, the correction also compensates for it: it is learned from all pairs at once, and kept if it lowers the
error in cross-validation over parts of the session. Later sessions are handled by `update`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Annotated, Any
from zlib import crc32

import numpy as np
from annotated_types import Gt, Lt

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import Intervals
from scare.calibrator.linear import same_unit
from scare.calibrator.plan import Plan
from scare.calibrator.plan_passes import LEARNED, SHIPPED_INTERVALS, STATE, as_shipped, with_learned
from scare.data.clock import find_clock_offset
from scare.data.flags import Flag, drop_unusable_references
from scare.data.readings import REFERENCE, TIME, Channel, Readings
from scare.errors import DataError, UsageError
from scare.schema import Amount, convert
from scare.upkeep.learner import KEPT_SHARE, LIMIT, Learner, LearnerSettings, learner_settings
from scare.windowing.inputs import WindowStream

DAY_SECONDS = 86400.0
CHUNK = 256  # windows computed at once
DOUBTFUL = ~np.uint32(Flag.GAP | Flag.RESTART | Flag.OUTSIDE)  # a row with any other flag is not learned from

LEAST_SPREAD, MOST_SPREAD = 0.1, 10.0  # standard deviation of references, in those of the calibrated values
FARTHEST_CLOCK = 12 * 3600.0  # seconds: the largest error of a clock that is looked for
LEAST_OVERLAP = 24 * 3600.0  # seconds of references: over less, slow air correlates with itself at any offset
CLEAR_CORRELATION, CLEARLY_BETTER = 0.8, 0.15  # to call a clock wrong: the correlation when shifted, and its gain

BLOCKS = 4  # parts of the session in cross-validation
STEPS = 4  # in a session that is cross-validated, coefficients may move by this many times `learner.STEP`


@dataclass(frozen=True)
class Pairs:
    """Pairs of a calibrated value and a reference, as a `Learner` takes them.

    `features` are [n, coefficients], `residuals` are reference − calibrated value [n], both scaled. `times` are in
    seconds [n].
    """

    features: np.ndarray
    residuals: np.ndarray
    times: np.ndarray

    def __len__(self) -> int:
        return len(self.times)

    @property
    def values(self) -> np.ndarray:
        """Values of the calibrator as shipped, scaled [n]."""
        return self.features[:, 0]

    def squared_error(self, corrections: np.ndarray) -> float:
        """Return the sum of squared residuals that corrections [n] leave."""
        return float(np.square(self.residuals - corrections).sum())


@dataclass(frozen=True)
class NetworkFacts:
    """How sure a network was of a box when it was solved (`network/calibrators`)."""

    uncertainty: Amount
    solved: str = ""  # time of the last readings, ISO 8601
    age_days: Amount | None = None  # since the last encounter before that


@dataclass(frozen=True)
class SessionFacts:
    """The co-location sessions recorded in the facts of a file."""

    sessions: int = 0
    pairs: int = 0
    devices: tuple[str, ...] = ()
    periods: tuple[tuple[str, ...], ...] = ()
    interval_factor: Annotated[float, Gt(0), Lt(inf)] = 1.0  # width of intervals, relative to those shipped
    network: NetworkFacts | None = None


def age_of_correction(calibrator: Calibrator) -> dict[str, float | None]:
    """Return when a learned correction was last compared with anything, and its uncertainty then.

    "compared" is in seconds since 1970, "uncertainty" a standard deviation in the target's unit; None where the file
    does not say. Empty without a correction.
    """
    if LEARNED not in calibrator.facts:
        return {}
    known = session_facts(calibrator)
    compared = [_seconds(period[-1]) for period in known.periods if period]
    uncertainty = None
    if known.network is not None:
        uncertainty = known.network.uncertainty
        if known.network.solved and known.network.age_days is not None:
            compared.append(_seconds(known.network.solved) - DAY_SECONDS * known.network.age_days)
    return {"compared": max(compared, default=None), "uncertainty": uncertainty}


def _seconds(moment: str) -> float:
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError as error:
        raise DataError(f"what was learned: '{moment}' is not an ISO 8601 time") from error


@dataclass(frozen=True)
class Update:
    """A calibrator after a co-location session; RMSEs are on the pairs of that session, in the target's unit."""

    calibrator: Calibrator
    pairs: int  # how many were found
    changed: bool  # whether calibrated values have changed
    coefficients: np.ndarray  # active ones
    before: float  # RMSE of the calibrator before the session
    after: float  # RMSE of this one


def update(calibrator: Calibrator, readings: Sequence[Readings]) -> Update:
    """Learn from readings with a reference; values change only if a correction is proved to be better."""
    learner = make_learner(calibrator)
    pairs = find_pairs(calibrator, readings, learner.settings)
    check_session(calibrator, readings, pairs)
    before = learner.coefficients
    corrections = np.empty(len(pairs))  # of each pair, before it is learned from
    for index, (features, residual) in enumerate(zip(pairs.features, pairs.residuals, strict=True)):
        corrections[index] = features @ learner.coefficients
        learner.learn(features, residual)
    return _finish(_adapt_intervals(calibrator, learner, pairs, corrections), learner, readings, pairs, before)


def adopt(calibrator: Calibrator, readings: Readings) -> Update:
    """Make a calibrator for the device of these readings alone: its own scaling, and a correction learned from them."""
    inputs, device = calibrator.inputs, readings.device
    values = inputs.usable(readings)
    rows = values[np.isfinite(values).all(axis=1)]  # without missing values
    known = inputs.scaling.known(device)
    affine = known or (inputs.scaling.own(rows) if len(rows) else inputs.scaling.fleet)
    scaling = replace(inputs.scaling, devices={device: affine})
    adopted = replace(calibrator, inputs=replace(inputs, scaling=scaling))
    if known is not None or len(rows) >= inputs.scaling.settle:  # the scaling is final
        return update(adopted, [readings])
    # The scaling is not final, so the correction must also compensate for it: learn from all pairs, cross-validate.
    learner = make_learner(adopted)
    pairs = find_pairs(adopted, [readings], learner.settings)
    check_session(adopted, [readings], pairs)
    before, stored = learner.coefficients, learner.store()
    _learn_at_once(learner, pairs.features, pairs.residuals)
    corrections = _cross_validate(adopted, pairs)
    former_corrections = pairs.features @ before
    numerator, denominator = KEPT_SHARE
    if pairs.squared_error(corrections) * denominator > pairs.squared_error(former_corrections) * numerator:
        learner.restore(stored)  # not clearly better: drop what was learned
        corrections = former_corrections
    return _finish(_adapt_intervals(adopted, learner, pairs, corrections), learner, [readings], pairs, before)


def revert(calibrator: Calibrator) -> Calibrator:
    """Return the calibrator as it was before any co-location session."""
    if STATE not in calibrator.facts:
        raise UsageError("the calibrator has learned from no co-location session: there is nothing to revert")
    learned = (LEARNED, STATE, SHIPPED_INTERVALS)
    facts = {name: value for name, value in calibrator.facts.items() if name not in learned}
    shipped = replace(calibrator, facts=facts, intervals=_shipped_intervals(calibrator))
    return _with_plan(shipped, as_shipped(calibrator.plan))


def set_line(
    calibrator: Calibrator, gain: float, intercept: float, facts: Mapping[str, Any], widening: float = 1.0
) -> Calibrator:
    """Return the calibrator with a correction found elsewhere: the truth is intercept + gain · calibrated value.

    It comes on top of what sessions have learned. `facts` say where it comes from; `revert` undoes both, and a later
    session continues from them. Intervals become `widening` times as wide.
    """
    target, learner = calibrator.inputs.scaling.target, make_learner(calibrator)
    center, scale = float(target.center[0]), float(target.scale[0])
    # A correction θ · features is added to the scaled value v, which is the first feature; the last is 1. So
    # gain · (v + θ · features) + constant is v plus a correction with another θ.
    active = learner.state.active.copy()
    active *= gain
    active[0] += gain - 1
    active[-1] += (intercept + (gain - 1) * center) / scale
    learner.state.active = active
    # The coefficients are those of the value, of these channels, and the constant.
    channels = [channel.name for channel in calibrator.inputs.channels[: learner.settings.size - 2]]
    numbers = zip(("value", *channels, "offset"), learner.coefficients, strict=True)
    earlier_facts: Any = calibrator.facts.get(LEARNED, {})
    learned = {**earlier_facts, **facts, "numbers": {name: round(float(number), 6) for name, number in numbers}}
    stored: dict[str, Any] = {}
    shipped = _shipped_intervals(calibrator)
    if calibrator.intervals and shipped and not shipped.kept_windows:
        learner.state.width *= widening
        learned["interval_factor"] = round(learner.state.width, 4)
        stored[SHIPPED_INTERVALS] = asdict(shipped)
        calibrator = replace(calibrator, intervals=shipped.scaled(learner.state.width))
    corrected = with_learned(calibrator.plan, learner.coefficients)
    stored |= {LEARNED: learned, STATE: learner.store().hex()}
    return _with_plan(calibrator.with_facts(**stored), corrected)


def make_learner(calibrator: Calibrator) -> Learner:
    """Return the learner of a calibrator, as earlier sessions left it."""
    shipped = replace(calibrator, plan=as_shipped(calibrator.plan))
    learner = Learner(learner_settings(calibrator.inputs, calibrator.intervals), identity(shipped))
    state: Any = calibrator.facts.get(STATE)
    if state:
        try:
            blob = bytes.fromhex(state)
        except (TypeError, ValueError) as error:
            raise DataError("the learned state is damaged: it is not hexadecimal") from error
        learner.restore(blob)
        if learner.state.width == 1:  # a blob from before it had a width
            session_facts: Any = calibrator.facts.get(LEARNED, {})
            known = convert(session_facts, SessionFacts, "what was learned", DataError, unknown="ignore")
            learner.state.width = known.interval_factor
    return learner


def identity(calibrator: Calibrator, device: str = "") -> int:
    """Return a checksum of what a learner relies on: its plan, and the scaling of a device or of the fleet."""
    scaling, plan = calibrator.inputs.scaling, calibrator.plan
    affine = scaling.devices[device] if device else scaling.fleet
    arrays = [affine.center, affine.scale, scaling.target.center, scaling.target.scale]
    arrays += [step.weights[name] for step in plan.steps for name in sorted(step.weights)]
    shape = f"{plan.window} {plan.channels} {[(step.kernel, step.inputs) for step in plan.steps]}"
    return crc32(b"".join(array.tobytes() for array in arrays), crc32(shape.encode()))


def find_pairs(calibrator: Calibrator, readings: Sequence[Readings], settings: LearnerSettings) -> Pairs:
    """Return the pairs in the order of time; values are those of the calibrator as shipped, before any session."""
    shipped = replace(calibrator, plan=as_shipped(calibrator.plan))
    by_device = [_device_pairs(shipped, box, settings) for box in readings]
    features, residuals, times = (np.concatenate(arrays) for arrays in zip(*by_device, strict=True))
    order = np.argsort(times, kind="stable")
    return Pairs(features[order], residuals[order], times[order])


def check_session(calibrator: Calibrator, readings: Sequence[Readings], pairs: Pairs) -> None:
    """Refuse a session with a wrong unit or magnitude, no overlap, a stuck reference or a wrong clock."""
    name = calibrator.target.name
    for box in readings:
        if box.reference is not None and not same_unit(box.reference, calibrator.target):
            raise DataError(
                f"{box.device}: the reference is in {box.reference.unit} and the calibrator gives"
                f" {calibrator.target.unit}; convert one of them"
            )
    if not len(pairs):
        raise DataError(
            f"no row has a calibrated value without flags and a reference of {name}: nothing can be learned"
        )
    references = pairs.values + pairs.residuals
    if np.ptp(references) == 0:
        raise DataError(f"the reference {name} is constant, so nothing can be learned; it may be stuck")
    share_far_off = float((np.abs(pairs.residuals) > LIMIT).mean())  # these pairs the learner would refuse
    spread = float(np.std(references) / max(np.std(pairs.values), 1e-9))
    if share_far_off > 0.5 or not LEAST_SPREAD <= spread <= MOST_SPREAD:
        target = calibrator.inputs.scaling.target
        value, reference = (float(np.median(target.invert(scaled[:, None]))) for scaled in (pairs.values, references))
        raise DataError(
            f"the reference (median {reference:.4g}) and the calibrated values (median {value:.4g}) differ in"
            f" magnitude, and the reference varies {spread:.3g} times as much: check that its unit is that of training"
        )
    for box in readings:
        _check_clock(box)


def _device_pairs(calibrator: Calibrator, readings: Readings, settings: LearnerSettings) -> tuple[np.ndarray, ...]:
    """Return the features [n, coefficients], residuals [n] and times [n] of one device, as in `Pairs`."""
    inputs = calibrator.inputs
    target, training_range = inputs.scaling.target, inputs.training_range
    segments, flags = WindowStream(inputs, readings.device).take(readings.times, inputs.select(readings))
    references = target.apply(drop_unusable_references(readings).targets[:, None])[:, 0]
    is_usable = np.isfinite(references) & ((flags & DOUBTFUL) == 0)
    effect = inputs.scaling.effect(readings.device)
    # Features contain the plan's own value, which a correction multiplies. Residuals are differences to the calibrated
    # value, to which the device's effect is added.
    feature_parts = [np.empty((0, settings.size))]
    calibrated_parts = [np.empty((0, 1))]
    row_parts = [np.empty(0, int)]
    for segment in segments:
        usable = np.flatnonzero(is_usable[segment.rows])  # indices within the segment
        for chunk in np.split(usable, range(CHUNK, len(usable), CHUNK)):
            windows = segment.grid.windows(segment.ends[chunk])  # [n, window, channels]
            values = target.apply(calibrator.compute(windows)[:, None])
            with_effect = target.apply(calibrator.compute(windows, effect=effect)[:, None]) if any(effect) else values
            clamped = training_range.clamp(windows) if training_range else windows
            newest_inputs = clamped[:, -1, : settings.size - 2]  # two coefficients are of the value and of 1
            feature_parts.append(np.column_stack([values, newest_inputs, np.ones(len(chunk))]))
            calibrated_parts.append(with_effect)
            row_parts.append(segment.rows[chunk])
    features = np.concatenate(feature_parts)
    calibrated = np.concatenate(calibrated_parts)[:, 0]
    rows = np.concatenate(row_parts)
    is_known = np.isfinite(features).all(axis=1) & np.isfinite(calibrated)
    features, calibrated, rows = features[is_known], calibrated[is_known], rows[is_known]
    return features, references[rows] - calibrated, readings.times[rows]


def _check_clock(readings: Readings) -> None:
    """Refuse a reference that correlates much better with the sensor when one clock is shifted."""
    known = readings.frame.select(TIME, REFERENCE).drop_nulls()
    if readings.reference is None or not known.height:
        return
    if (known[TIME][-1] - known[TIME][0]).total_seconds() < LEAST_OVERLAP:
        return
    station = Readings("the reference", known.rename({REFERENCE: "reference value"}), (Channel("reference value"),))
    sensor = replace(readings, frame=readings.frame.drop(REFERENCE), reference=None)
    try:
        offset = find_clock_offset(sensor, station, readings.channels[0].name, FARTHEST_CLOCK)
    except DataError:  # one of the two does not vary, which `check_session` reports
        return
    shifted, as_it_is = abs(offset.correlation), abs(offset.correlation_at_zero)
    if shifted >= CLEAR_CORRELATION and shifted - as_it_is > CLEARLY_BETTER:
        raise DataError(
            f"{readings.device}: sensor and reference correlate at {shifted:.2f} if the sensor's clock is shifted by"
            f" {offset.seconds:g} s, and at {as_it_is:.2f} as they are; correct the clock first"
        )


def _finish(
    calibrator: Calibrator, learner: Learner, readings: Sequence[Readings], pairs: Pairs, before: np.ndarray
) -> Update:
    """Add the learned correction to the calibrator's plan; `before` are the coefficients before these pairs."""
    after = learner.coefficients
    unit = float(calibrator.inputs.scaling.target.scale[0])

    def rmse(coefficients: np.ndarray) -> float:
        return unit * float(np.sqrt(np.square(pairs.residuals - pairs.features @ coefficients).mean()))

    facts = {LEARNED: _session_facts(calibrator, learner, readings, pairs), STATE: learner.store().hex()}
    updated = _with_plan(calibrator.with_facts(**facts), with_learned(calibrator.plan, after))
    return Update(updated, len(pairs), not np.array_equal(before, after), after, rmse(before), rmse(after))


def _shipped_intervals(calibrator: Calibrator) -> Intervals | None:
    """Return the intervals as they were before any session."""
    stored: Any = calibrator.facts.get(SHIPPED_INTERVALS)
    return convert(stored, Intervals, SHIPPED_INTERVALS, DataError) if stored else calibrator.intervals


def _adapt_intervals(calibrator: Calibrator, learner: Learner, pairs: Pairs, corrections: np.ndarray) -> Calibrator:
    """Make intervals wider or narrower until they contain their share of references, with these corrections [n].

    Intervals derived from kept windows stay as they are: a file does not store them, and they are derived again when
    it is loaded.
    """
    shipped = _shipped_intervals(calibrator)
    if shipped is None or shipped.kept_windows:
        return calibrator
    target = calibrator.inputs.scaling.target
    values = target.invert((pairs.values + corrections)[:, None])[:, 0]
    references = target.invert((pairs.values + pairs.residuals)[:, None])[:, 0]
    factor = learner.state.width = shipped.hold_level(values, references, learner.state.width)
    session_facts: Any = calibrator.facts.get(LEARNED, {})
    facts = {SHIPPED_INTERVALS: asdict(shipped), LEARNED: {**session_facts, "interval_factor": round(factor, 4)}}
    return replace(calibrator.with_facts(**facts), intervals=shipped.scaled(factor))


def _session_facts(
    calibrator: Calibrator, learner: Learner, readings: Sequence[Readings], pairs: Pairs
) -> dict[str, Any]:
    """Return the facts about all sessions so far, this one included; `SessionFacts` reads them."""
    known = session_facts(calibrator)
    # The coefficients are those of the value, of these channels, and the constant.
    channels = [channel.name for channel in calibrator.inputs.channels[: learner.settings.size - 2]]
    period = [
        datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for seconds in (pairs.times[0], pairs.times[-1])
    ]
    coefficients = zip(("value", *channels, "offset"), learner.coefficients, strict=True)
    factor = {"interval_factor": known.interval_factor} if SHIPPED_INTERVALS in calibrator.facts else {}
    return {
        **factor,
        "sessions": known.sessions + 1,
        "pairs": known.pairs + len(pairs),
        "devices": sorted({*known.devices, *(box.device for box in readings)}),
        "periods": [*map(list, known.periods), period],
        "numbers": {name: round(float(coefficient), 6) for name, coefficient in coefficients},
    }


def session_facts(calibrator: Calibrator) -> SessionFacts:
    """Read what earlier sessions and networks left in the facts of a file."""
    facts = calibrator.facts.get(LEARNED, {})
    if isinstance(facts, dict) and "visits" in facts:  # the former name, in older files
        facts = {**facts, "sessions": facts["visits"]}
    return convert(facts, SessionFacts, "what was learned", DataError, unknown="ignore")


def _with_plan(calibrator: Calibrator, plan: Plan) -> Calibrator:
    """Return the calibrator with another plan, whose outputs replace those of the file's test inputs."""
    changed = replace(calibrator, plan=plan)
    golden = replace(calibrator.golden, numbers=changed.compute(calibrator.golden.windows))
    return replace(changed, golden=golden)


def _cross_validate(calibrator: Calibrator, pairs: Pairs) -> np.ndarray:
    """Return the correction of each value as learned from the other parts of the session, scaled [n]."""
    corrections = np.zeros(len(pairs))
    block_of_pair = np.arange(len(pairs)) * BLOCKS // len(pairs)
    for block in range(BLOCKS):
        in_block = block_of_pair == block
        learner = make_learner(calibrator)
        _learn_at_once(learner, pairs.features[~in_block], pairs.residuals[~in_block])
        corrections[in_block] = pairs.features[in_block] @ learner.coefficients
    return corrections


def _learn_at_once(learner: Learner, features: np.ndarray, residuals: np.ndarray) -> None:
    """Learn from all these pairs, and use the result without a test.

    On its own a learner fits new coefficients, its candidate, after each round of so many pairs, and uses them only if
    they prove better in the next round. Here all pairs are one round, and its candidate is accepted at once.
    """
    # The round is so long that it does not end before all pairs are learned.
    in_one_round = Learner(replace(learner.settings, round=len(features) + learner.settings.round), learner.identity)
    in_one_round.state = learner.state
    for pair_features, residual in zip(features, residuals, strict=True):
        in_one_round.learn(pair_features, residual)
    for _ in range(STEPS):  # each moves the coefficients by at most `learner.STEP`
        in_one_round.accept()
    learner.state = in_one_round.state
