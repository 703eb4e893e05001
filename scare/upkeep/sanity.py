"""What cannot be a co-location is refused before anything is learned: no overlap, a stuck reference, unit, clock."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.newest import same_unit
from scare.data.alignment import find_clock_offset
from scare.data.readings import REFERENCE, TIME, Channel, Readings
from scare.errors import DataError
from scare.upkeep.pairs import Pairs
from scare.upkeep.rules import LIMIT

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
