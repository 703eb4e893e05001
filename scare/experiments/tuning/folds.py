"""Forward folds: the past trains, what follows validates, what follows that scores, again and again.

    rows with a reference   |------- train -------|  v  |  t  |           fold 1
                            |---------- train ----------|  v  |  t  |     fold 2

Comes from `data`; goes to `search` and to benchmarks that report a spread over time.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from scare.data.readings import Readings
from scare.data.split import Split, known_times, split_by_time
from scare.errors import UsageError

FIRST = 0.4  # share of the rows with a reference that the first fold trains on


def forward_folds(readings: Sequence[Readings], folds: int, gap_seconds: float) -> list[Split]:
    """Splits by time in which training grows; a fold's test is the next fold's validation.

    The rows with a reference after the first 40 % are cut into `folds` + 1 equal parts: fold k validates on part k and
    is scored on part k + 1. As in `split_by_time`, rows less than `gap_seconds` after a border lose their reference.

    >>> import polars as pl
    >>> from scare.data.readings import Channel
    >>> frame = pl.DataFrame({"time": [datetime(2026, 1, 1, hour) for hour in range(20)], "reference": 7.0})
    >>> folds = forward_folds([Readings("box-1", frame, (), Channel("no2", "ppb"))], 3, gap_seconds=0)
    >>> [[len(part[0]) for part in fold.parts.values()] for fold in folds]
    [[8, 3, 3], [11, 3, 3], [14, 3, 3]]
    """
    if folds < 1:
        raise UsageError(f"there must be at least one fold, not {folds}")
    times = known_times(readings)
    first = np.rint(len(times) * np.linspace(FIRST, 1.0, folds + 2)[:-1]).astype(int)
    borders = [*times[np.minimum(first, len(times) - 1)].tolist(), np.inf]
    return [_fold(readings, borders[fold : fold + 3], gap_seconds, f"fold {fold + 1}") for fold in range(folds)]


def _fold(readings: Sequence[Readings], borders: Sequence[float], gap_seconds: float, name: str) -> Split:
    """Everything before the third border, split at the first two."""
    rows = [one.rows(one.times < borders[2]) for one in readings]
    first, second = (datetime.fromtimestamp(border, UTC) for border in borders[:2])
    split = split_by_time([one for one in rows if len(one)], gap_seconds, borders=(first, second))
    return replace(split, how=f"{name} {split.how}")
