"""Which rows are scored: those with a reference and a value, unless the calibrator was made from them.

A row of a device that training, validation or a visit had, within its period, is shown and never scored. When several
are compared, the rows scored are those that all have, the same for everyone. Only what is not fitted to the readings (a
formula that ends at 95 % humidity, persistence after a gap) takes no rows from others: if it has values for much fewer
of theirs, it is scored on what it has, and its coverage says so.
"""

from collections.abc import Collection, Hashable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import numpy as np

from scare.calibrator.learned import LEARNED
from scare.errors import DataError

FULL = 0.95  # of the others' rows: what has less takes no row from them
Key = TypeVar("Key", bound=Hashable)


def known_rows(reference: np.ndarray, *estimates: np.ndarray) -> np.ndarray:
    """The rows with a reference and a value of every estimate, bool [rows]; NaN is no value."""
    return np.asarray(np.isfinite([reference, *estimates]).all(axis=0))


def rows_made_from(device: str, times: np.ndarray, origin: Mapping[str, Any]) -> np.ndarray:
    """The rows of a device, at `times` in seconds, that it was made from; `origin` is a card's dataset."""
    rows = np.zeros(len(times), bool)
    parts = [(origin[f"{part}_devices"], origin[f"{part}_period"]) for part in ("training", "validation")]
    parts += [(origin["visit_devices"], period) for period in origin.get("visit_periods", ())]
    for devices, period in parts:
        if device in devices and len(period) == 2:
            first, last = (datetime.fromisoformat(text).timestamp() for text in period)
            rows |= (times >= first) & (times < last + 1)  # the file has whole seconds
    return rows


def origin_of(facts: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Devices and period of the readings that a calibrator was made from, as far as the facts of its file say."""
    held, learned = facts.get("validation", {}), facts.get(LEARNED, {})
    visits = {"visit_devices": list(learned["devices"]), "visit_periods": list(learned["periods"])} if learned else {}
    return visits | {
        "training_devices": list(facts.get("devices", ())),
        "training_period": list(facts.get("period", ())),
        "validation_devices": list(held.get("devices", ())),
        "validation_period": list(held.get("period", ())),
    }


def share_rows(
    reference: np.ndarray, estimates: Mapping[Key, np.ndarray], spared: Collection[Key] = ()
) -> tuple[np.ndarray, dict[Key, float]]:
    """Which rows to score all estimates on, bool [rows], and the share of the others' rows that each has.

    An estimate in `spared` takes no rows from the others unless it has nearly all of theirs.

    >>> reference, full, half = np.arange(4.0), np.ones(4), np.array([1.0, 1.0, np.nan, np.nan])
    >>> share_rows(reference, {"full": full, "half": half}, spared=["half"])
    (array([ True, True, True, True]), {'full': 1.0, 'half': 0.5})
    """
    needed = [values for key, values in estimates.items() if key not in spared]
    rows = known_rows(reference, *needed)
    if not rows.any():
        raise DataError("no test row has a reference and a value from everyone compared")
    coverage = {key: float(np.isfinite(values[rows]).mean()) for key, values in estimates.items()}
    full = [values for key, values in estimates.items() if coverage[key] >= FULL]
    return known_rows(reference, *needed, *full), coverage
