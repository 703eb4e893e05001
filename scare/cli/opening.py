"""What a user names as a model: a `.scare` file, or a published correction; and the readings it is given."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import CORRECTIONS, EVERY, bind, find_correction
from scare.cli.console import say
from scare.data.colocation import prepare, read
from scare.data.mapping import DataSection
from scare.data.readings import Channel, Readings
from scare.errors import DataError, UsageError
from scare.words import suggestion

FINER = 0.75  # of a model's time step: readings closer together are averaged
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


def read_for(calibrator: Calibrator, files: Sequence[Path], data: DataSection) -> list[Readings]:
    """The readings of all files beside a reference, as a calibrator reads them; by its names where [data] has none."""
    channels = data.channels or tuple(Channel(channel.name) for channel in calibrator.inputs.channels)
    reference = data.reference or (None if data.reference_file else Channel(calibrator.target.name))
    step = calibrator.inputs.step_seconds
    found = read(files, replace(data, channels=channels, reference=reference), say)
    return [prepare(one, step if one.step_seconds < FINER * step else None, say) for one in found]
