"""A network from its tables to its solution, and the solution as plain values for pages and programs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from scare.data.sites import Place, Sites
from scare.errors import DataError
from scare.upkeep.network.distant import compare_distant
from scare.upkeep.network.doubts import Doubt, contradictions, find_doubts
from scare.upkeep.network.encounters import EncounterRules, check_places, find_encounters
from scare.upkeep.network.graph import Line, Solution, solve
from scare.upkeep.network.hidden import learn_width
from scare.upkeep.network.hours import NetworkHours
from scare.upkeep.network.identified import Identified, identify, notes_on
from scare.upkeep.network.relations import relate


@dataclass(frozen=True)
class SolvedNetwork:
    """A solution with what it was made from, and what seems to be wrong with the tables or boxes."""

    hours: NetworkHours
    sites: Sites
    places: Mapping[str, Place]
    solution: Solution
    doubts: tuple[Doubt, ...]
    identified: Mapping[str, Identified]  # of each box
    notes: tuple[str, ...] = ()  # what cannot be identified, and of which boxes


def solve_network(
    hours: NetworkHours, sites: Sites, places: Mapping[str, Place], rules: EncounterRules | None = None
) -> SolvedNetwork:
    """Find the encounters of a network, leave out those that cannot have taken place, and solve it."""
    rules = rules or EncounterRules()
    check_places(sites, places)
    solution, doubts, notes = _solve(hours, sites, places, rules)
    width = learn_width(hours, solution, lambda some: _solve(some, sites, places, rules)[0])
    identified = identify(hours, solution)
    doubts += contradictions(solution)
    notes += notes_on(identified)
    return SolvedNetwork(hours, sites, places, replace(solution, width=width), tuple(doubts), identified, tuple(notes))


def _solve(
    hours: NetworkHours, sites: Sites, places: Mapping[str, Place], rules: EncounterRules
) -> tuple[Solution, list[Doubt], list[str]]:
    """Return the solution, what seems to be wrong with the tables, and what distant stations cannot tell."""
    encounters = find_encounters(hours, sites, places, rules)
    distant, notes = compare_distant(hours, sites, places, rules) if rules.distant else ([], [])
    if not encounters and not distant:
        raise DataError(
            f"no two instruments stood within {rules.metres:g} m of each other for {rules.hours:g} hours while both"
            " gave readings, and none was compared with a station kilometres away: check stays, places and times, lower"
            " 'hours' or raise 'distant_metres' in the rules, or drop --no-distant"
        )
    relations, doubts = find_doubts(hours, relate(hours, encounters, rules), rules)
    return solve(hours, [*relations, *distant]), doubts, notes


def as_dict(network: SolvedNetwork, unit: str = "") -> dict[str, Any]:
    """Return a solved network as plain values, the most uncertain box first: what `network.json` has."""
    solution, hours = network.solution, network.hours
    boxes = [_box(network, box) for box in solution.boxes]
    return {
        "unit": unit,
        "begin": _time(hours.begin),
        "end": _time(hours.end),
        "pivot": solution.pivot,
        "usual_spread": solution.spread,
        "interval_factor": solution.width,
        "noise_variance": {"constant": solution.noise[0], "of_square": solution.noise[1]},
        "learned_deviations": {
            name: {"level": level, "log_gain": gain} for name, (level, gain) in solution.deviations.items()
        },
        "boxes": sorted(boxes, key=lambda box: -box["uncertainty"]),
        "references": [{"name": name, **_where(network, name)} for name in hours.names if name in hours.references],
        "encounters": [
            {
                "box": relation.encounter.box,
                "other": relation.encounter.other,
                "site": relation.encounter.site,
                "begin": _time(relation.encounter.begin),
                "end": _time(relation.encounter.end),
                "kind": relation.kind,
                "pairs": relation.pairs,
                "effective_pairs": relation.effective_pairs,
                "correlation": relation.correlation,
                "slope": relation.slope,
                "weight": float(weight),
            }
            for relation, weight in zip(solution.relations, solution.weights, strict=True)
        ],
        "notes": list(network.notes),
        "doubts": [{"boxes": list(doubt.boxes), "sentence": doubt.sentence} for doubt in network.doubts],
    }


def _box(network: SolvedNetwork, box: str) -> dict[str, Any]:
    solution = network.solution
    path = solution.path(box)
    return {
        "device": box,
        **_where(network, box),
        **_line(solution.estimate(box)),
        "uncertainty": solution.uncertainty(box),
        "reliability": solution.reliability(box),
        "identified": str(network.identified[box]),
        "age_days": solution.age_days(box),
        "effective_pairs": solution.effective_pairs(box),
        "path": [
            {
                "from": step.instrument,
                "beside": step.other,
                "time": _time(step.time),
                "pairs": step.pairs,
                "kind": step.kind,
            }
            for step in path
        ],
        "course": [
            {
                "time": _time(time),
                **_line(solution.estimate(box, float(time))),
                "uncertainty": solution.uncertainty(box, float(time)),
            }
            for time in solution.times[box]
        ],
    }


def _line(line: Line) -> dict[str, Any]:
    return {
        "gain": line.gain,
        "intercept": line.intercept,
        "covariance_level_gain": np.asarray(line.covariance).tolist(),
    }


def _where(network: SolvedNetwork, name: str) -> dict[str, Any]:
    """Return the site and place of an instrument in the last hour; of its last stay if it has none then."""
    end = network.hours.end
    stays = [stay for stay in network.sites.of_device(name) if stay.first < end]
    if not stays:
        return {"site": "", "latitude": None, "longitude": None}
    site = max(stays, key=lambda stay: min(stay.last, end)).site
    latitude, longitude = network.places[site].position
    return {"site": site, "latitude": latitude, "longitude": longitude}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
