"""Judging: what has changed since a box's own first days, more than between boxes that are well.

A change is a measure of the last days less that of the first; what the fleet's median changes by is weather. It counts
in units: what one healthy box in a hundred shows (`RULES`), or five times the scatter of the boxes here, if that is
more. Units and states were chosen on simulated fleets; docs/benchmarks/drift.md tells on others how many false alarms
a box and month they cost. Comes from `measures`; goes to `watch` and `live`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from scare.upkeep.measures import Yardstick, median

USUAL_DAYS, RECENT_DAYS = 14, 7  # a box's own yardstick, and what is held against it
MEASURED_HOURS = 12  # of a day that counts among the usual ones
SCATTER = 5.0  # times the boxes' own, as a unit
ENOUGH_BOXES = 5  # for their scatter to be known; with fewer it is taken to be a town's
TOWN = 3.0  # units that a town's boxes scatter by
LEAST = 0.1  # of the others' changes: a box that follows less follows nothing


class State(IntEnum):
    """What to do about a box."""

    FINE = 0
    LOOK = 1
    RECOLLOCATE = 2

    @property
    def words(self) -> str:
        """As people read it.

        >>> State.RECOLLOCATE.words
        're-collocate'
        """
        return ("fine", "look", "re-collocate")[self]


FROM = {State.LOOK: 1.25, State.RECOLLOCATE: 2.0}  # units


@dataclass(frozen=True)
class Rule:
    """How a measure is judged: its unit, the most it can ask for, and whether for a box without a fleet."""

    unit: float
    most: State = State.RECOLLOCATE
    alone: bool = False
    fleet: bool = True
    change: bool = True  # since the first days; False: as it is now
    ratio: bool = False  # of now to the first days, as a logarithm; not the difference


RULES = {  # by the first word of a measure
    "neighbours": Rule(0.4),
    "gain": Rule(0.2, ratio=True),
    "humidity": Rule(0.1),
    "night": Rule(0.45),
    "response": Rule(0.2, ratio=True),
    "shift": Rule(0.8),
    "liveliness": Rule(1.1, State.LOOK, alone=True, fleet=False),
    "PSI": Rule(2.7, State.LOOK, alone=True, fleet=False),
    "stuck": Rule(1 / 6, alone=True, change=False),
    "silent": Rule(1 / 3, State.LOOK, alone=True, change=False),
}


@dataclass(frozen=True)
class Periods:
    """The sums of the first and of the last days of boxes [boxes, sums], and how many days each has [boxes]."""

    usual: np.ndarray
    recent: np.ndarray
    usual_days: np.ndarray
    recent_days: np.ndarray


@dataclass(frozen=True)
class Judged:
    """Changes (or levels) and their sizes in units [boxes, measures], and states [boxes]."""

    measures: tuple[str, ...]
    values: np.ndarray
    units: np.ndarray
    states: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """How many units the greatest change of a box is [boxes], 0 where nothing can be said."""
        return np.nan_to_num(self.units, nan=0.0).max(axis=1)


def judge(periods: Periods, yardstick: Yardstick) -> Judged:
    """The boxes of a fleet as they are now."""
    names = yardstick.measures
    rules = [RULES[name.split(" ", 1)[0]] for name in names]
    now, usual = yardstick.measure(periods.recent), yardstick.measure(periods.usual)
    values = np.stack([_value(rule, *pair) for rule, *pair in zip(rules, now.T, usual.T, strict=True)], axis=1)
    with_others = np.isfinite(now[:, 0])  # has neighbours
    if with_others.sum() > 2:
        values = values - median(values, 0)
    used = np.where(with_others[:, None], [rule.fleet for rule in rules], [rule.alone for rule in rules])
    units = np.where(used, np.abs(values) / _sizes(values, rules), np.nan)
    short = (periods.usual_days < USUAL_DAYS) | (periods.recent_days < RECENT_DAYS)
    doubtful = short | (with_others.sum() == 2)  # few days say little, two boxes accuse each other
    return Judged(names, values, units, _states(units, rules, doubtful))


def _value(rule: Rule, now: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """What is judged of a measure of boxes [boxes]."""
    if rule.ratio:
        return np.log(np.maximum(now, LEAST) / np.maximum(usual, LEAST))
    return now - usual if rule.change else now


def _sizes(values: np.ndarray, rules: Sequence[Rule]) -> np.ndarray:
    """What counts as one unit of each measure."""
    unit = np.array([rule.unit for rule in rules])
    known = np.isfinite(values).sum(axis=0)
    scatter = SCATTER * 1.4826 * median(np.abs(values), 0)
    relative = np.array([rule.change and rule.fleet for rule in rules])
    town = np.where(known >= ENOUGH_BOXES, np.fmax(unit, scatter), TOWN * unit)
    return np.where(relative & (known > 0), town, unit)


def _states(units: np.ndarray, rules: Sequence[Rule], doubtful: np.ndarray) -> np.ndarray:
    """The state of each box [boxes]; what a box is now is believed where a change would be doubtful."""
    asked = sum((np.nan_to_num(units) >= least).astype(int) for least in FROM.values())
    asked = np.minimum(asked, [rule.most for rule in rules])
    change = np.array([rule.change for rule in rules])
    asked = np.where(change & doubtful[:, None], np.minimum(asked, State.LOOK), asked)
    return np.asarray(asked.max(axis=1), int)
