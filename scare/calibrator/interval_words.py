"""What a calibrator tells of its intervals, in words: how they were made, and whether they held what they state."""

from collections.abc import Mapping
from typing import Any

from scare.calibrator.intervals import Intervals

FACT = "test_interval"  # of a calibrator: level, rows, share, width on rows it has never seen
LACKING = 0.03  # of coverage, below what is stated: less than that is chance


def interval_words(intervals: Intervals | None, facts: Mapping[str, Any], unit: str) -> list[str]:
    """A sentence each about the intervals of a calibrator and about the rows they were tried on.

    >>> sure = Intervals(0.9, (), (1.0,), (2.0,), widening=1.5)
    >>> for line in interval_words(sure, {FACT: {"level": 0.9, "rows": 2000, "share": 0.8, "width": 3.0}}, "ppb"):
    ...     print(line)
    90 % interval, made at fit: 1 band, 1.5 times as wide on rows flagged UNSETTLED, SPIKE or OUTSIDE
    it holds 80.0 % of 2,000 test rows and is 3 ppb wide on average: less than stated on a period it has not seen
    """
    if intervals is None:
        return []
    bands = f"{len(intervals.below)} band{'s' * (len(intervals.below) > 1)}"
    wider = f"{intervals.widening:.3g} times as wide on rows flagged UNSETTLED, SPIKE or OUTSIDE"
    lines = [f"{100 * intervals.level:g} % interval, {intervals.origin}: {bands}, {wider}"]
    return lines + ([held_words(facts[FACT], unit)] if FACT in facts else [])


def held_words(found: Mapping[str, Any], unit: str) -> str:
    """How much of rows never seen intervals hold, and whether that is less than they state."""
    held = f"it holds {found['share']:.1%} of {found['rows']:,} test rows".replace("%", " %")
    lacking = ": less than stated on a period it has not seen" if lacks(found["level"], found["share"]) else ""
    return f"{held} and is {found['width']:.3g} {unit}".rstrip() + f" wide on average{lacking}"


def lacks(level: float, share: float) -> bool:
    """Whether less is covered than stated."""
    return share < level - LACKING
