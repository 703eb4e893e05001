"""What a user names as a model: a `.scare` file, or a published correction."""

from pathlib import Path

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import CORRECTIONS, EVERY, bind, find_correction
from scare.errors import DataError, UsageError
from scare.words import suggestion

STEP_SECONDS = 60.0  # between readings, for a published correction, which does not say


def open_calibrator(model: str, step_seconds: float | None = None) -> Calibrator:
    """The calibrator in a file, or a published correction that reads its own channels every `step_seconds`."""
    published = model in CORRECTIONS or model in EVERY
    if step_seconds is not None and not published:
        raise UsageError("--step is for a published correction; the time step of a calibrator is in its file")
    if published and not Path(model).exists():
        correction = find_correction(model)
        channels = {role.name: role.channel for role in correction.roles}
        return bind(correction, channels, step_seconds or STEP_SECONDS)
    if not (Path(model).exists() or model.endswith(".scare")):
        raise DataError(f"{model}: no such file, and no published correction{suggestion(model, CORRECTIONS)}")
    return Calibrator.load(model)
