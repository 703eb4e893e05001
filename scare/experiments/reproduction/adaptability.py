"""The paper's figure on adaptability: RMSE within ±30 rows of changes of the raw sensor's error."""

from collections.abc import Callable
from typing import Any

import numpy as np

from scare.data.readings import Readings
from scare.experiments.reproduction.protocol import Protocol
from scare.experiments.reproduction.reproduction import Cell, Reproduction
from scare.experiments.reproduction.result_tables import SPREAD, Result, Table, mean
from scare.experiments.shared_rows import SharedRows
from scare.experiments.study import Progress
from scare.scorecard.adaptability import Changes, error_near, lasting_changes, sudden_changes

Find = Callable[[np.ndarray, np.ndarray, np.ndarray, float], Changes]
KINDS: dict[str, Find] = {"sudden": sudden_changes, "lasting": lasting_changes}
COLUMNS = {
    "place": "place",
    "pollutant": "pollutant",
    "kind": "change",
    "threshold": "threshold",
    "coverage": "coverage",
}
NOTES = [
    "A change is one of the raw error x − y by at least the threshold of the reading before it (of 5 ug/m3 where that"
    " is less): sudden, from one row to the next; lasting, of 5-minute means, the largest alone within 30 minutes.",
    "Coverage is the share of the scored rows within 30 rows of a change. Near 100 % the number is plain RMSE.",
    "The paper gives a figure without numbers and no definition of a change.",
]


def make_adaptability(reproduction: Reproduction, progress: Progress) -> Result:
    """RMSE around changes, of every place, pollutant, kind of change and threshold; PM10 first."""
    protocol = reproduction.protocol
    rows: list[dict[str, Any]] = []
    cells = sorted(reproduction.cells, key=lambda cell: reproduction.source.pollutants.index(cell[1]))
    for done, cell in enumerate(cells, start=1):
        rows += _rows(cell, SharedRows.of(reproduction.study(cell, protocol.adaptability)), protocol)
        progress(done, len(cells), "-".join(cell))
    notes = [*NOTES, *reproduction.failures(protocol.adaptability)]
    unfinished = reproduction.unfinished(protocol.adaptability)
    columns = COLUMNS | {name: name for name in protocol.adaptability}
    table = Table("adaptability", "RMSE within ±30 rows of a change", columns, rows)
    return Result("adaptability", "Figure: adaptability to sudden changes", (table,), notes, unfinished)


def _rows(cell: Cell, scored: SharedRows, protocol: Protocol) -> list[dict[str, Any]]:
    """A row for each kind of change and threshold, with the error of every contender and its spread over seeds."""
    rows = []
    for kind, find in KINDS.items():
        changes = [_changes(one, find) for one in scored.readings]
        for threshold in protocol.thresholds:
            near = np.concatenate([one.near(threshold) for one in changes])[scored.shared]
            place = {"place": str(cell[0]), "pollutant": str(cell[1]), "kind": kind, "threshold": threshold}
            row: dict[str, Any] = {**place, "coverage": float(near.mean())}
            for name in protocol.adaptability:
                errors = [_error(values, scored.reference, near) for values in scored.of_contender(name)]
                row[name] = mean(errors)
                if len(errors) > 1:
                    row[name + SPREAD] = float(np.std(errors)) if np.isfinite(errors).all() else None
            rows.append(row)
    return rows


def _error(values: np.ndarray, reference: np.ndarray, near: np.ndarray) -> float:
    """RMSE near a change, of the rows that have a value."""
    own = np.isfinite(values)
    return error_near(values[own], reference[own], near[own])[0]


def _changes(readings: Readings, find: Find) -> Changes:
    return find(readings.times, readings.values[:, 0], readings.targets, readings.step_seconds)
