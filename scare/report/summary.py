"""What the report computes beyond the measures of a card, as values for the card: by device, and EPA's targets."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from scare.data.quantities import spell_unit
from scare.report.errors import limits_of_agreement
from scare.report.run import Run, Series
from scare.report.targets import Judged, find_target, judge, judge_precision, protocol
from scare.scorecard.accuracy import measure, squared_correlation


def summarize(run: Run) -> dict[str, Any]:
    """`devices` and `targets` of a card."""
    return {"devices": [_device(one, run.comparable) for one in run.series], "targets": _targets(run)}


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


def _targets(run: Run) -> Mapping[str, Any] | None:
    """EPA's bounds and what is within them; None for another quantity or a unit that cannot be converted."""
    found = find_target(run.target)
    target = found and found.in_unit(spell_unit(run.target.unit))
    if not target:
        return None
    series = [one for one in run.series if len(one.scored)]
    precision = judge_precision(series, target)
    return {
        "pollutant": target.title,
        "unit": target.unit,
        "average_hours": target.average_hours,
        "source": target.source,
        "as_of": str(protocol()["as_of"]),
        "bounds": target.bounds,
        "devices": [_judged(judge(one, target)) for one in series],
        "precision": _judged(precision) if precision else None,
    }


def _judged(judged: Judged) -> dict[str, Any]:
    return {**asdict(judged), "one_is_enough": judged.enough}
