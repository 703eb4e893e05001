"""Encounters: which instruments stood side by side, from when to when.

Sites less than `metres` apart are one spot. At a spot, time is cut where an instrument comes or goes; in between, all
that are there are compared with one of them, a reference if there is one, else the box that stays longest. So the
number of encounters grows with the instruments of a spot, not with their pairs. Long encounters are cut into sessions.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, NamedTuple

from annotated_types import Ge, Gt, Interval

from scare.data.sites import Place, Sites, Stay
from scare.errors import DataError
from scare.upkeep.network.hours import DAY, HOUR, NetworkHours
from scare.words import suggestion


@dataclass(frozen=True)
class EncounterRules:
    """What counts as an encounter, and which hours of distant air may be compared; keys of the file `--rules`.

    Parameters
    ----------
    metres
        Instruments at two sites that are less far apart are side by side.
    hours
        The shortest encounter.
    session_days
        A longer encounter is cut into sessions of this length.
    least_correlation
        Two instruments whose hourly means correlate less were not in the same air.
    gain_correlation
        Two instruments whose hourly means correlate less tell their levels only, not their gains.
    distant
        Whether boxes are compared with stations kilometres away, too.
    distant_hours
        Hours of the day (solar time) in which air is alike over kilometres: the first, and the one after the last.
    distant_metres
        How far a station may be from a box that is compared with it from a distance.
    distant_wind
        Least wind speed of these hours, in the unit of `wind_column`; 0 for any. In calm air local sources count most.
    wind_column
        Name of the wind speed in the tables of the references or boxes.
    distant_calm
        Share of these hours that are compared: those in which the stations differ least from each other.
    distant_range
        Metres over which local air stays alike, if fewer than three pairs of stations tell it.
    """

    metres: Annotated[float, Gt(0)] = 50.0
    hours: Annotated[float, Gt(0)] = 24.0
    session_days: Annotated[float, Gt(0)] = 28.0
    least_correlation: Annotated[float, Interval(ge=-1, le=1)] = 0.5
    gain_correlation: Annotated[float, Interval(ge=-1, le=1)] = 0.7
    distant: bool = True
    distant_hours: tuple[int, int] = (0, 5)
    distant_metres: Annotated[float, Gt(0)] = 20_000.0
    distant_wind: Annotated[float, Ge(0)] = 0.0
    wind_column: str = ""
    distant_calm: Annotated[float, Interval(gt=0, le=1)] = 1.0
    distant_range: Annotated[float, Gt(0)] = 5_000.0


@dataclass(frozen=True)
class Encounter:
    """A box beside another instrument at a site, from `begin` to `end` in seconds."""

    box: str
    other: str
    begin: float
    end: float
    site: str = ""

    @property
    def middle(self) -> float:
        """The time halfway between begin and end."""
        return (self.begin + self.end) / 2


def find_encounters(
    hours: NetworkHours, sites: Sites, places: Mapping[str, Place], rules: EncounterRules | None = None
) -> list[Encounter]:
    """Return all encounters of instruments with readings, in the order of time."""
    rules = rules or EncounterRules()
    spots: dict[str, list[Stay]] = defaultdict(list)
    spot_of = _join_sites({stay.site for stay in sites.stays}, places, rules.metres)
    for stay in sites.stays:
        if stay.device in hours.row:
            spots[spot_of[stay.site]].append(stay)
    encounters = []
    for stays in spots.values():
        for box, other, begin, end, site in _meetings(stays, hours):
            if end - begin >= rules.hours * HOUR:
                sessions = max(1, round((end - begin) / (rules.session_days * DAY)))
                length = (end - begin) / sessions
                for session in range(sessions):
                    session_begin, session_end = begin + session * length, begin + (session + 1) * length
                    encounters.append(Encounter(box, other, session_begin, session_end, site))
    return sorted(encounters, key=lambda encounter: (encounter.begin, encounter.box))


def check_places(sites: Sites, places: Mapping[str, Place]) -> None:
    """Raise a DataError if an instrument stays at a site that the table of places does not have."""
    for stay in sites.stays:
        if stay.site not in places:
            raise DataError(
                f"{stay.device} stands at '{stay.site}', which is not in the table of places"
                f"{suggestion(stay.site, places)}; add it with its latitude and longitude"
            )


def _join_sites(names: set[str], places: Mapping[str, Place], metres: float) -> dict[str, str]:
    """Return the spot of each site, which is called as the first, by name, of the sites side by side (union-find)."""
    parent = {name: name for name in names}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    by_latitude = sorted((place.latitude, name) for name, place in places.items() if name in parent)
    degrees = metres / 111_000  # of latitude; a little more than the distance
    for index, (latitude, name) in enumerate(by_latitude):
        for other_latitude, other in by_latitude[index + 1 :]:
            if other_latitude - latitude > degrees:  # this site and all after it are too far north
                break
            if places[name].metres_to(places[other]) < metres:
                parent[max(root(name), root(other))] = min(root(name), root(other))
    return {name: root(name) for name in names}


class _Span(NamedTuple):
    """The part of a stay within the hours of the network, in seconds."""

    begin: float
    end: float
    is_reference: bool
    stay: Stay


def _meetings(stays: list[Stay], hours: NetworkHours) -> Iterator[tuple[str, str, float, float, str]]:
    """Yield box, other, begin, end and site of the meetings at one spot; a meeting that goes on is not cut."""
    spans = [
        _Span(max(stay.first, hours.begin), min(stay.last, hours.end), stay.device in hours.references, stay)
        for stay in stays
        if stay.last > hours.begin and stay.first < hours.end
    ]
    arrivals: dict[float, list[_Span]] = defaultdict(list)
    for span in spans:
        arrivals[span.begin].append(span)
    cuts = sorted({span.begin for span in spans} | {span.end for span in spans})
    present: list[_Span] = []
    since: dict[tuple[str, str, str], float] = {}  # begin of each meeting that goes on: box, other, site
    for moment, _ in pairwise(cuts):
        present = [span for span in present if span.end > moment] + arrivals[moment]
        meetings: set[tuple[str, str, str]] = set()
        if len(present) > 1:
            # All are compared with a reference if there is one, else with the box that stays longest.
            centre = min(present, key=lambda span: (not span.is_reference, span.begin - span.end, span.stay.device))
            meetings = {
                (span.stay.device, centre.stay.device, span.stay.site)
                for span in present
                if span is not centre and not span.is_reference
            }
        for box, other, site in [meeting for meeting in since if meeting not in meetings]:
            yield box, other, since.pop((box, other, site)), moment, site
        for meeting in meetings:
            since.setdefault(meeting, moment)
    for (box, other, site), begin in since.items():
        yield box, other, begin, cuts[-1], site
