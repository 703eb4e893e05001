"""How sure a calibrator is: its intervals, from the errors it makes on what it learned from and on what it did not."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scare.calibrator.calibrator import CHUNK, Calibrator
from scare.calibrator.conformal import Errors, learn
from scare.data.flags import Flag
from scare.data.readings import Readings
from scare.training.examples import Examples

LOOKED_AT = 20_000  # windows of training, evenly spread
STRANGER = ""  # the name of no device


def with_intervals(
    calibrator: Calibrator, examples: Examples, validation: Sequence[Readings], level: float
) -> Calibrator:
    """The same calibrator with intervals that cover `level` of training and of all of validation.

    How much less sure the readings of a new device are is seen on validation, read as if its devices were new.
    """
    parts = [_learned(calibrator, examples)]
    if calibrator.inputs.scaling.known(STRANGER) is None:
        strangers = _joined([_errors(calibrator, one, STRANGER) for one in validation])
        parts.append(strangers.those((strangers.flags & Flag.UNSETTLED) > 0))
    seen = _joined([_errors(calibrator, one, one.device) for one in validation])
    return replace(calibrator, intervals=learn([*parts, seen], level))


def _learned(calibrator: Calibrator, examples: Examples) -> Errors:
    """Errors on windows of training."""
    which = examples.spread(LOOKED_AT)
    parts = [which[start : start + CHUNK] for start in range(0, len(which), CHUNK)]
    values = np.concatenate([calibrator.compute(examples.windows(part)) for part in parts])
    targets = calibrator.inputs.scaling.target.invert(examples.targets[which].astype(np.float64)[:, None])[:, 0]
    return Errors(values, targets, examples.times[which], np.zeros(len(which), np.uint32))


def _errors(calibrator: Calibrator, readings: Readings, device: str) -> Errors:
    """Errors on rows with a reference, read as those of a device of this name."""
    answers = calibrator.stream(device).push(readings.times, calibrator.inputs.select(readings))
    rows = Errors(answers.values, readings.targets, readings.times, answers.flags)
    return rows.those(np.isfinite(rows.references) & np.isfinite(rows.values))


def _joined(parts: Sequence[Errors]) -> Errors:
    columns = ("values", "references", "times", "flags")
    return Errors(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))
