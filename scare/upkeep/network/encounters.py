"""Encounters: which instruments stood side by side, from when to when.

Sites less than `metres` apart are one spot. At a spot, time is cut where an instrument comes or goes; in between, all
that are there are compared with one of them, a reference if there is one, else the box that stays longest. So the
number of encounters grows with the instruments of a spot, not with their pairs. Long encounters are cut into sessions.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from annotated_types import Gt, Interval

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
    distant_range
        Metres over which local air stays alike, if fewer than three pairs of stations tell it.
    """

    metres: Annotated[float, Gt(0)] = 50.0
    hours: Annotated[float, Gt(0)] = 24.0
    session_days: Annotated[float, Gt(0)] = 28.0
    least_correlation: Annotated[float, Interval(ge=-1, le=1)] = 0.5
    gain_correlation: Annotated[float, Interval(ge=-1, le=1)] = 0.7
    distant: bool = False
    distant_hours: tuple[int, int] = (0, 5)
    distant_metres: Annotated[float, Gt(0)] = 20_000.0
    distant_range: Annotated[float, Gt(0)] = 5_000.0


@dataclass(frozen=True)
class Encounter:
    """A box beside another instrument, at a site, in seconds from and to."""

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
    found = []
    for stays in spots.values():
        for box, other, begin, end, site in _meetings(stays, hours):
            if end - begin >= rules.hours * HOUR:
                count = max(1, round((end - begin) / (rules.session_days * DAY)))
                length = (end - begin) / count
                found += [
                    Encounter(box, other, begin + k * length, begin + (k + 1) * length, site) for k in range(count)
                ]
    return sorted(found, key=lambda encounter: (encounter.begin, encounter.box))


def check_places(sites: Sites, places: Mapping[str, Place]) -> None:
    """Refuse a site of a stay that the table of places does not have."""
    for stay in sites.stays:
        if stay.site not in places:
            raise DataError(
                f"{stay.device} stands at '{stay.site}', which is not in the table of places"
                f"{suggestion(stay.site, places)}; add it with its latitude and longitude"
            )


def _join_sites(names: set[str], places: Mapping[str, Place], metres: float) -> dict[str, str]:
    """Return the spot of each site: the first site of those that are side by side."""
    spot = {name: name for name in names}

    def root(name: str) -> str:
        while spot[name] != name:
            name = spot[name]
        return name

    known = sorted((place.latitude, name) for name, place in places.items() if name in spot)
    degrees = metres / 111_000  # of latitude; a little more than the distance
    for index, (latitude, name) in enumerate(known):
        for later, other in known[index + 1 :]:
            if later - latitude > degrees:
                break
            if places[name].metres_to(places[other]) < metres:
                spot[max(root(name), root(other))] = min(root(name), root(other))
    return {name: root(name) for name in names}


def _meetings(stays: list[Stay], hours: NetworkHours) -> Iterator[tuple[str, str, float, float, str]]:
    """Yield box, other, begin, end and site of the meetings at one spot, joined where they go on."""
    spans = [  # begin, end, whether by a reference, stay
        (max(stay.first, hours.begin), min(stay.last, hours.end), stay.device in hours.references, stay)
        for stay in stays
        if stay.last > hours.begin and stay.first < hours.end
    ]
    cuts = sorted({moment for begin, end, *_ in spans for moment in (begin, end)})
    arrivals: dict[float, list[tuple[float, float, bool, Stay]]] = defaultdict(list)
    for span in spans:
        arrivals[span[0]].append(span)
    present: list[tuple[float, float, bool, Stay]] = []
    since: dict[tuple[str, str, str], float] = {}  # begin of each meeting that goes on: box, other, site
    for moment, _ in pairwise(cuts):
        present = [span for span in present if span[1] > moment] + arrivals[moment]
        meetings: set[tuple[str, str, str]] = set()
        if len(present) > 1:
            # All are compared with a reference if there is one, else with the box that stays longest.
            centre = min(present, key=lambda span: (not span[2], span[0] - span[1], span[3].device))[3]
            meetings = {
                (stay.device, centre.device, stay.site)
                for *_, is_reference, stay in present
                if stay is not centre and not is_reference
            }
        for box, other, site in [meeting for meeting in since if meeting not in meetings]:
            yield box, other, since.pop((box, other, site)), moment, site
        for meeting in meetings:
            since.setdefault(meeting, moment)
    for (box, other, site), begin in since.items():
        yield box, other, begin, cuts[-1], site
