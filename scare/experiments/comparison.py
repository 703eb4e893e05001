"""A comparison scores calibrators on the same rows of the same readings."""

from collections.abc import Mapping, Sequence

import numpy as np

from scare.data.readings import CALIBRATED, Readings
from scare.experiments.yardsticks import Predictor
from scare.scorecard.accuracy import Accuracy, measure, reading_changes
from scare.scorecard.scored_rows import share_rows


def compare(calibrators: Mapping[str, Predictor], readings: Sequence[Readings]) -> dict[str, Accuracy]:
    """Accuracy of each calibrator over the rows where all of them, and the reference, have a value."""
    reference = np.concatenate([one.targets for one in readings])
    changes = np.concatenate([reading_changes(one) for one in readings])
    estimates = {name: _estimates(calibrator, readings) for name, calibrator in calibrators.items()}
    shared, _ = share_rows(reference, estimates)
    return {name: measure(values[shared], reference[shared], changes[shared]) for name, values in estimates.items()}


def _estimates(calibrator: Predictor, readings: Sequence[Readings]) -> np.ndarray:
    columns = [calibrator.predict(one)[CALIBRATED].fill_null(np.nan).to_numpy() for one in readings]
    return np.concatenate(columns)
