"""What a card tells beyond its measures: accuracy and agreement by device, and EPA's targets."""

from dataclasses import asdict
from typing import Any

import numpy as np

from scare.scorecard.accuracy import limits_of_agreement, measure, squared_correlation
from scare.scorecard.agency_targets import assess
from scare.scorecard.run import Run
from scare.scorecard.series import Series


def summarize(run: Run) -> dict[str, Any]:
    """`devices` and `targets` of a card."""
    assessment = assess(run.series, run.target)
    devices = tuple(_device(one, run.comparable) for one in run.series)
    return {"devices": devices, "targets": asdict(assessment) if assessment else None}


def _device(series: Series, comparable: bool) -> dict[str, Any]:
    """Accuracy, the raw reading's where it has the target's unit, and the limits of agreement of the rows scored."""
    scored = series.scored
    if not len(scored):
        return {"device": series.device, "rows_scored": 0, "why_not_scored": series.why_not_scored}
    raw = scored.rows(np.isfinite(scored.raw)) if comparable else scored.rows(np.zeros(len(scored), bool))
    accuracy = asdict(measure(scored.calibrated, scored.reference, scored.changes))
    return {
        "device": series.device,
        "rows_scored": len(scored),
        "accuracy": {**accuracy, "r2_regression": squared_correlation(scored.calibrated, scored.reference)},
        "raw_accuracy": asdict(measure(raw.raw, raw.reference, raw.changes)) if len(raw) else None,
        "agreement": asdict(limits_of_agreement(scored.calibrated - scored.reference)),
    }
