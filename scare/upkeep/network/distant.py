"""Relations with stations kilometres away: a box's readings of quiet hours against the field of the stations.

    stations → range of the local air (variogram) → field at a site, hour by hour (kriging) → percentiles → `Relation`

The field: in each hour, air is one common regional term plus local terms whose covariance falls exponentially with
distance. Ordinary kriging takes the regional term as unknown. The range of the local terms comes from the stations'
variogram, or from the rules if there are fewer than three pairs of stations.

Percentiles of a box and of the field are compared over the same quiet hours (at night, by the rules): plumes beside
the one or the other come at other times, but the distribution stays. The low percentiles tell the level. The whole
distribution tells the gain where box and stations stand at sites of one kind: the air of a street canyon varies more
than that of a park, which looks like a gain. At sites of another kind only the level counts. Where no kind is stated,
the gain counts with an uncertainty of a third.

How much the air of a place differs from the field is unknown. `graph` makes it an unknown of each place, whose
variance, in units of the kriging variance, is learned. Each station held out, and compared with the field of the
others, is evidence of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

import numpy as np

from scare.data.sites import Place, Sites, Stay
from scare.errors import DataError
from scare.upkeep.network.encounters import Encounter, EncounterRules
from scare.upkeep.network.hours import DAY, NetworkHours
from scare.upkeep.network.relations import DISTANT, Relation, residual_sizes
from scare.words import some_of

LEAST_NIGHTS = 4  # that are compared
LEAST_HEARD = 0.5  # least share of a comparison's hours that a station must have, and of the weights of such stations
OWN_SHARE = 0.25  # of the local terms' variance that is a place's own, however near a station is
# Standard deviation of how much more the air of a place varies than that of stations, if no kind is stated (logarithm).
UNLIKE_LOG_GAIN = 0.3
UNSURE_SLOPE = 0.2  # standard deviation of the logarithm of a usual slope
LOW, ALL = np.linspace(0.1, 0.5, 9), np.linspace(0.1, 0.9, 9)  # percentiles that tell the level; level and gain
RANGES_METRES = 500.0 * 2.0 ** np.arange(0, 9)  # that are tried: 500 m to 128 km
FEWEST_PAIRS = 3  # of stations, for a variogram


@dataclass(frozen=True)
class Station:
    """A reference instrument and where it stands."""

    name: str
    place: Place


class Field:
    """The air between stations: what their readings tell of it at other places.

    Parameters
    ----------
    hours
        Hourly means of the network.
    stations
        The stations that tell it.
    range_metres
        At this distance, what stations differ by from the common air correlates at 1 / e.
    """

    def __init__(self, hours: NetworkHours, stations: Sequence[Station], range_metres: float) -> None:
        self.stations, self.range_metres = tuple(stations), range_metres
        self.values = hours.values[[hours.row[station.name] for station in stations]]  # [stations, hours]
        # Hours in which the same stations gave readings have the same weights.
        patterns, pattern_of_hour = np.unique(np.isfinite(self.values), axis=1, return_inverse=True)
        self._patterns = patterns.T  # which stations gave readings [patterns, stations]
        self._pattern_of_hour = np.ravel(pattern_of_hour)  # index of each hour's pattern [hours]
        station_places = [station.place for station in stations]
        self._between = self._correlation(station_places, station_places)

    def at(self, place: Place) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the field at a place [hours], the weights of the stations if none is silent, and its variance.

        The variance says how far the place's air may be from the field. It is relative: 1 is the variance of how far
        the air of a single station is from the air that all have in common.
        """
        to_place = self._correlation([station.place for station in self.stations], [place])[:, 0]
        # Weights depend only on which stations are heard. Each such set, a pattern, occurs in many hours: its weights
        # are found once [patterns, stations], then looked up for each hour.
        weights = np.zeros((len(self._patterns), len(self.stations)))
        for row, present in zip(weights, self._patterns, strict=True):
            if present.any():
                row[present], _ = self._krige(present, to_place)
        usual_weights, variance = self._krige(np.ones(len(self.stations), bool), to_place)
        field = np.einsum("hs,sh->h", weights[self._pattern_of_hour], np.nan_to_num(self.values))
        is_known = (self._patterns.sum(axis=1) > 0)[self._pattern_of_hour]
        return np.where(is_known, field, np.nan), usual_weights, variance

    def _krige(self, present: np.ndarray, to_place: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the weights of the stations present, which sum to 1, and the variance (ordinary kriging).

        `present` [stations] are booleans, `to_place` [stations] correlations of local terms with those of the place.
        """
        count = int(present.sum())
        # The last row makes the weights sum to 1; its unknown is the Lagrange multiplier.
        system = np.ones((count + 1, count + 1))
        # A little more on the diagonal keeps stations at one place solvable.
        system[:count, :count] = self._between[np.ix_(present, present)] + 1e-9 * np.eye(count)
        system[count, count] = 0.0
        right = np.append(to_place[present], 1.0)
        weights_and_multiplier = np.linalg.solve(system, right)
        variance = float(max(1 - weights_and_multiplier @ right, 0)) + OWN_SHARE
        return weights_and_multiplier[:count], variance

    def _correlation(self, places: Sequence[Place], others: Sequence[Place]) -> np.ndarray:
        """Return the correlations of the local terms at two lists of places [places, others]."""
        metres = np.array([[place.metres_to(other) for other in others] for place in places])
        return np.exp(-metres / self.range_metres)


@dataclass(frozen=True)
class Air:
    """The air at a place over some hours, as stations tell it."""

    field: np.ndarray  # [hours]
    stations: np.ndarray  # their readings [stations, hours]
    weights: np.ndarray  # of the stations, which sum to 1
    variance: float  # of the field

    def percentiles(self, shares: np.ndarray) -> np.ndarray:
        """Return percentiles of the air, at these shares of 0 to 1: the weighted mean of the stations' percentiles.

        Those of the field would lie too close together, because the field is a mean of stations. They are returned
        only if too few stations gave readings.
        """
        is_heard = np.isfinite(self.stations).mean(axis=1) >= LEAST_HEARD
        if not is_heard.any() or self.weights[is_heard].sum() < LEAST_HEARD:
            return np.quantile(self.field, shares)
        weights = self.weights[is_heard] / self.weights[is_heard].sum()
        return np.asarray(weights @ np.nanquantile(self.stations[is_heard], shares, axis=1).T)


def compare_distant(
    hours: NetworkHours, sites: Sites, places: Mapping[str, Place], rules: EncounterRules
) -> tuple[list[Relation], list[str]]:
    """Return the relations of boxes with the field of stations kilometres away, and sentences on what they cannot tell.

    Stations held out are compared with the field of the others, too.
    """
    stations = [
        Station(name, places[stays[0].site])
        for name in hours.names
        if name in hours.references and (stays := sites.of_device(name))
    ]
    range_metres = _find_range(hours, stations, rules)
    relations: list[Relation] = []
    level_only, unlike = set(), set()  # boxes
    fields: dict[tuple[Station, ...], Field] = {}
    for stay in chain.from_iterable(map(sites.of_device, hours.names)):
        box, place = stay.device, places[stay.site]
        metres = {station: station.place.metres_to(place) for station in stations if station.name != box}
        near = [station for station in metres if metres[station] <= rules.distant_metres]
        is_station = box in hours.references
        if not near or (not is_station and min(metres.values()) < rules.metres):
            continue  # nothing to compare with; or beside a station, which tells more
        of_kind = [station for station in near if place.kind and station.place.kind == place.kind]
        used = tuple(of_kind or near)
        # Unlike for certain only if all kinds are stated and none is that of the place.
        is_unlike = bool(place.kind) and not of_kind and all(station.place.kind for station in near)
        otherwise = np.inf if is_unlike else UNLIKE_LOG_GAIN
        unsure_gain = 0.0 if of_kind else otherwise
        if used not in fields:
            fields[used] = Field(hours, used, range_metres)
        nearest = min(used, key=lambda station: metres[station]).name
        of_stay = _relate_stay(hours, stay, nearest, fields[used], place, unsure_gain, rules)
        relations += _at_one_reading(of_stay)
        if not is_station:
            if not of_stay:
                unlike.add(box)
            elif is_unlike:
                level_only.add(box)
    compared = {relation.encounter.box for relation in relations}
    return relations, _notes(sorted(level_only), sorted(unlike - compared))


def _relate_stay(
    hours: NetworkHours, stay: Stay, nearest: str, field: Field, place: Place, unsure_gain: float, rules: EncounterRules
) -> list[Relation]:
    """Return the relations of a box with the field at its place, one for each session of its stay."""
    at_place, weights, variance = field.at(place)
    is_usable = _quiet_hours(hours, place, rules) & np.isfinite(at_place)
    begin, end = max(stay.first, hours.begin), min(stay.last, hours.end)
    sessions = max(1, round((end - begin) / (rules.session_days * DAY)))
    relations = []
    for session in range(sessions):
        first, last = (begin + number * (end - begin) / sessions for number in (session, session + 1))
        first_hour, readings = hours.between(stay.device, first, last)
        columns = slice(first_hour - hours.first, first_hour - hours.first + len(readings))
        is_used = is_usable[columns] & np.isfinite(readings)
        air = Air(at_place[columns][is_used], field.values[:, columns][:, is_used], weights, variance)
        nights = (first_hour + np.flatnonzero(is_used) + place.longitude / 15) // 24  # days since 1970, solar time
        encounter = Encounter(stay.device, nearest, first, last, stay.site)
        relation = _compare(encounter, readings[is_used].astype(float), air, nights, unsure_gain, rules)
        relations += [relation] if relation else []
    return relations


def _compare(
    encounter: Encounter, x: np.ndarray, air: Air, nights: np.ndarray, unsure_gain: float, rules: EncounterRules
) -> Relation | None:
    """Return the relation of a box's readings `x` with the air over quiet hours [hours], None if they are not alike.

    `nights` [hours] numbers the night of each hour; a night counts as one independent pair. `unsure_gain` is the
    standard deviation of how much more the air at the box varies: 0 at sites of one kind, infinite at unlike ones.
    """
    y = air.field
    _, night_index = np.unique(nights, return_inverse=True)
    count = int(night_index.max(initial=-1)) + 1
    if count < LEAST_NIGHTS or min(np.ptp(x), np.ptp(y)) <= 0:
        return None
    correlation = float(np.corrcoef(x, y)[0, 1])
    if correlation < rules.least_correlation:
        return None
    tells_gain = np.isfinite(unsure_gain) and correlation >= rules.gain_correlation
    # The ratio of how far percentiles spread, as that of standard deviations in the standardised major axis.
    slope = float(np.std(air.percentiles(ALL)) / max(np.std(np.quantile(x, ALL)), 1e-12))
    # Plumes and the kind of site spread the high percentiles, so the low ones tell the level.
    shares = ALL if tells_gain else LOW
    box_level, other_level = float(np.quantile(x, shares).mean()), float(air.percentiles(shares).mean())
    residuals = y - other_level - slope * (x - box_level)
    of_night = np.bincount(night_index, residuals) / np.bincount(night_index)
    log_variance = (1 - correlation**2) / max(count - 2, 1)  # of the standardised major axis
    return Relation(
        encounter,
        len(x),
        correlation,
        box_level,
        other_level,
        slope,
        level_variance=float(np.var(of_night, ddof=1) / count),
        slope_variance=slope**2 * log_variance if tells_gain else np.inf,
        noise=residual_sizes(y, np.abs(residuals)),
        kind=DISTANT,
        place_variance=air.variance,
        unlike=unsure_gain if tells_gain else UNLIKE_LOG_GAIN,
    )


def _at_one_reading(relations: Sequence[Relation]) -> list[Relation]:
    """Move the levels of a stay's relations to one reading of the box, and return these relations.

    From month to month the air changes, and the levels of box and field with it. A line through the months would be too
    flat, because the field has errors, so it must not tell the gain. Each level is moved along the usual slope instead.
    """
    if not relations:
        return []
    usual_level = float(np.median([relation.box_level for relation in relations]))
    slope = float(np.median([relation.slope for relation in relations]))
    moved = []
    for relation in relations:
        distance = usual_level - relation.box_level
        moved.append(
            replace(
                relation,
                box_level=usual_level,
                other_level=relation.other_level + slope * distance,
                level_variance=relation.level_variance + (UNSURE_SLOPE * slope * distance) ** 2,
            )
        )
    return moved


def _quiet_hours(hours: NetworkHours, place: Place, rules: EncounterRules) -> np.ndarray:
    """Return which hours of the network are quiet at a place (bool [hours]).

    They are those of the rules by its solar time with enough wind and, of these, those in which stations differ least.
    """
    first, end = rules.distant_hours
    # The sun takes an hour for 15 degrees of longitude.
    hour_of_day = (hours.first + np.arange(hours.values.shape[1]) + place.longitude / 15) % 24
    is_quiet = (hour_of_day - first) % 24 < (end - first) % 24
    if rules.distant_wind > 0:
        if hours.wind is None:
            raise DataError(
                "the rules leave out hours by 'distant_wind', but no wind is known: name its column in the tables of"
                " references or boxes by 'wind_column' in the rules"
            )
        is_quiet &= hours.wind >= rules.distant_wind  # not so where the wind is unknown
    if rules.distant_calm < 1:
        stations = hours.values[[name in hours.references for name in hours.names]]
        is_several = is_quiet & (np.isfinite(stations).sum(axis=0) > 1)
        differences = np.nanstd(stations[:, is_several], axis=0)
        # Hours with one station say nothing about differences and are kept.
        if len(differences):
            is_quiet[is_several] = differences <= np.quantile(differences, rules.distant_calm)
    return is_quiet


def _find_range(hours: NetworkHours, stations: Sequence[Station], rules: EncounterRules) -> float:
    """Return the range of local terms that fits the stations' variogram best; if they are few, that of the rules."""
    distances, semivariances = [], []  # by pair of stations
    for station, other in combinations(stations, 2):
        difference = hours.values[hours.row[station.name]] - hours.values[hours.row[other.name]]
        quiet = difference[_quiet_hours(hours, station.place, rules) & np.isfinite(difference)]
        if len(quiet) >= LEAST_NIGHTS * 3:  # three hours of each night
            distances.append(station.place.metres_to(other.place))
            semivariances.append(float(np.var(quiet)) / 2)
    if len(semivariances) < FEWEST_PAIRS:
        return rules.distant_range
    # An exponential variogram is sill · shape; for each range, the sill comes from least squares.
    shapes = 1 - np.exp(-np.array(distances) / RANGES_METRES[:, None])  # [ranges, pairs]
    sills = (shapes @ np.array(semivariances)) / np.square(shapes).sum(axis=1)  # [ranges]
    errors = np.square(sills[:, None] * shapes - np.array(semivariances)).sum(axis=1)
    return float(RANGES_METRES[np.argmin(errors)])


def _notes(level_only: Sequence[str], unlike: Sequence[str]) -> list[str]:
    notes = []
    if level_only:
        notes.append(
            f"of {some_of(level_only)} only the level is compared with stations kilometres away: no station within"
            " reach stands at a site of the same kind, so the gain is not identifiable that way"
        )
    if unlike:
        notes.append(
            f"{some_of(unlike)} cannot be compared with stations kilometres away: their quiet hours are too few,"
            " or not alike"
        )
    return notes
