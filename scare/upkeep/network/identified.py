"""What a network tells of a box: its gain and level, its level only, or nothing but what its fleet is like.

The rule uses only what is known of a box without a reference: the solution and the box's readings.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np

from scare.upkeep.network.encounters import Encounter
from scare.upkeep.network.graph import Solution
from scare.upkeep.network.hours import NetworkHours
from scare.words import some_of

# Largest standard deviations of the level, in units of the references' spread, and of the logarithm of the gain.
LEVEL_KNOWN, GAIN_KNOWN = 0.2, 0.2
LEAST_RELIABLE = 0.5  # share of the variance of a box's readings that is the air's; the rest is noise
# A gain is only known in air like that of the encounters: of all readings of the box, this share must lie between its
# lowest and its highest reading in the encounters that tell its gain.
LEAST_MET = 0.8


class Identified(StrEnum):
    """What a network tells of a box."""

    GAIN = "gain and level"
    LEVEL = "level only"
    FLEET = "as its fleet"


def identify(hours: NetworkHours, solution: Solution) -> dict[str, Identified]:
    """Return what is identifiable of each box at the end of the readings.

    A level counts as known if its uncertainty is small beside `solution.spread`, how much the references vary.
    """
    meetings: dict[str, list[Encounter]] = defaultdict(list)  # of each box, those that tell its gain
    for relation in solution.relations:
        # The slope has no finite variance where an encounter does not tell the gain. `unlike` is above zero where a
        # box is compared with distant stations that may stand at sites of another kind, whose air varies differently.
        if np.isfinite(relation.slope_variance) and relation.unlike == 0:
            meetings[relation.encounter.box].append(relation.encounter)
            meetings[relation.encounter.other].append(relation.encounter)
    identified = {}
    for box in solution.boxes:
        line = solution.line(box)
        level_deviation, gain_deviation = np.sqrt(np.diag(line.covariance))  # standard deviations
        tells_gain = (
            gain_deviation <= GAIN_KNOWN * line.gain
            and solution.reliability(box) >= LEAST_RELIABLE
            and _share_met(hours, box, meetings[box]) >= LEAST_MET
        )
        if level_deviation > LEVEL_KNOWN * solution.spread:
            identified[box] = Identified.FLEET
        else:
            identified[box] = Identified.GAIN if tells_gain else Identified.LEVEL
    return identified


def _share_met(hours: NetworkHours, box: str, meetings: Sequence[Encounter]) -> float:
    """Return the share of all readings of a box that lie in the range of its readings in the `meetings`.

    It is 0 without a meeting.
    """
    if not meetings:
        return 0.0
    readings_met = np.concatenate([hours.between(box, meeting.begin, meeting.end)[1] for meeting in meetings])
    low, high = np.nanmin(readings_met), np.nanmax(readings_met)
    readings = hours.values[hours.row[box]]
    readings = readings[np.isfinite(readings)]
    return float(np.mean((low <= readings) & (readings <= high)))


def notes_on(identified: Mapping[str, Identified]) -> list[str]:
    """Return a sentence on the boxes whose gain is not identifiable, and one on those whose level is not."""
    notes = []
    if level_only := [box for box, what in identified.items() if what is Identified.LEVEL]:
        notes.append(
            f"of {some_of(level_only)} only the level is known: the gain not to a fifth, or they read noise or air"
            " that no encounter had; carry them beside a box that is known, for longer or in other weather"
        )
    if as_fleet := [box for box, what in identified.items() if what is Identified.FLEET]:
        notes.append(
            f"{some_of(as_fleet)} are taken to be like their fleet: nothing tells their level to a fifth of what the"
            " references vary; carry them beside a box that is known"
        )
    return notes
