"""What an experiment found: tables of plain values, each with the paper's beside ours where the paper has one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PAPER = "paper_"  # before the name of a column that holds the paper's value of it
SPREAD = "_sd"  # ends the name of a column with the standard deviation over seeds of the one it is named after


@dataclass(frozen=True)
class Table:
    """Rows by column name, and the columns to show with their headings."""

    name: str
    title: str
    columns: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Result:
    """Tables, the first of which is the paper's own, what to know when reading them, and what is not finished.

    `unfinished` has the tasks of each contender with fits to be made. `origin` is said first where the reproduction's
    own notes, of readings and training, do not hold.
    """

    name: str
    title: str
    tables: tuple[Table, ...]
    notes: list[str] = field(default_factory=list)
    unfinished: Mapping[str, Sequence[str]] = field(default_factory=dict)
    origin: Sequence[str] = ()


def with_paper(ours: Mapping[str, Any], theirs: Mapping[str, Any] | None) -> dict[str, Any]:
    """A row with the paper's values beside ours.

    >>> with_paper({"contender": "scare", "PM10": 3.0}, {"PM10": 14.03, "cpu": 7.1})
    {'contender': 'scare', 'PM10': 3.0, 'paper_PM10': 14.03}
    """
    return {**ours, **{f"{PAPER}{name}": value for name, value in (theirs or {}).items() if name in ours}}


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of numbers that are all there; None if one is not.

    >>> mean([1.0, 2.0]), mean([1.0, None]), mean([])
    (1.5, None, None)
    """
    found = list(values)
    known = [value for value in found if value is not None and np.isfinite(value)]
    return float(np.mean(known)) if found and len(known) == len(found) else None
