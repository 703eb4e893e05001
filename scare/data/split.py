"""Splits of readings into training, validation and test that do not leak; random row splits do not exist.

Comes from `quality`; goes to `windowing`. A part holds selected rows; the readings given are untouched.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations

import numpy as np
import polars as pl

from scare.data.readings import REFERENCE, TIME, Readings
from scare.errors import DataError, UsageError

SAME_REFERENCE = 0.5  # of the rows at the same time have equal reference values


@dataclass(frozen=True)
class Split:
    """Three parts, how they were made, and what that means for the results."""

    train: tuple[Readings, ...]
    validation: tuple[Readings, ...]
    test: tuple[Readings, ...]
    how: str
    notes: tuple[str, ...] = ()

    @property
    def parts(self) -> dict[str, tuple[Readings, ...]]:
        """The parts by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}


def split_by_device(
    readings: Sequence[Readings], validation: str | None = None, test: str | None = None
) -> Split:
    """Whole devices: in alphabetical order the last is for test, the one before it for validation.

    Paper: Section V. A name given for `validation` or `test` is used instead.
    """
    return _split_by_name(readings, [one.device for one in readings], "device", validation, test)


def split_by_site(readings: Sequence[Readings], validation: str | None = None, test: str | None = None) -> Split:
    """Whole sites: in alphabetical order the last is for test, the one before it for validation."""
    return _split_by_name(readings, [one.site for one in readings], "site", validation, test)


def split_by_time(
    readings: Sequence[Readings],
    gap_seconds: float,
    validation_share: float = 0.15,
    test_share: float = 0.25,
    borders: tuple[datetime, datetime] | None = None,
) -> Split:
    """Training first, then validation, then test, with the same two borders for every device.

    Without `borders` (UTC) the shares are of all rows with a reference. Rows less than `gap_seconds` after a
    border are in no part: with a gap of at least window times step, no window crosses a border.
    """
    if gap_seconds < 0:
        raise UsageError(f"the gap is {gap_seconds:g} s; give zero or more")
    first, second = _seconds(borders) if borders else _borders(readings, validation_share, test_share)
    split = Split(
        _rows_between(readings, -np.inf, first),
        _rows_between(readings, first + gap_seconds, second),
        _rows_between(readings, second + gap_seconds, np.inf),
        f"by time: borders {_date(first)} and {_date(second)}, {gap_seconds:g} s after each dropped",
    )
    return _checked(split, gap_seconds)
