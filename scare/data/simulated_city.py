"""Simulate a city: boxes and reference stations at many sites, a field of air with known truth, drift and moves.

The truth at a site is log-normal PM2.5: a regional course that all sites share, a local one whose covariance falls
exponentially with distance, and at sites of the kind `traffic` the rush hours of their street. A box reads
gain · truth + offset, both walking randomly with age, with noise that resembles the hour before. What stands where is
a `Deployment`; `write_city` writes what an operator of a network would have, and the truth beside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

import numpy as np
import polars as pl

from scare.data.readings import DEVICE, TIME, TIME_TYPE
from scare.data.simulated_air import DAY, HOUR, Clock, daily_bump, decaying_sum, ornstein_uhlenbeck
from scare.data.sites import PLACE_COLUMNS, SITE, Place, Sites, Stay
from scare.files import replacing

START = datetime(2026, 1, 1, tzinfo=UTC)
USUAL_UGM3 = 12.0
REGIONAL_SPREAD, REGIONAL_SECONDS = 0.5, 2 * DAY
LOCAL_SPREAD, LOCAL_SECONDS, LOCAL_METRES = 0.2, 6 * HOUR, 4000.0
RUSH = 0.6  # more at the peak of the rush hours, as a logarithm, in a street with traffic
GAIN, GAIN_SPREAD, OFFSET_SPREAD_UGM3 = 1.4, 0.2, 2.0
GAIN_AGEING, OFFSET_AGEING_UGM3 = 0.1, 1.0  # standard deviation after a year
NOISE_UGM3, RELATIVE_NOISE, NOISE_SECONDS = 0.8, 0.08, 3 * HOUR
CENTRE, METRES_OF_DEGREE = Place(51.21, 4.42), 111_195.0
COLUMN = "pm25"
BACKGROUND, TRAFFIC = "background", "traffic"  # kinds of sites
StayInDays = tuple[str, str, float, float]  # site, device, first and last day of a stay


class Journey(StrEnum):
    """How the boxes of a simulated network move about."""

    STATION = "station"  # one station; the boxes stood together in a depot, then some of them beside the station
    TRAVELLER = "traveller"  # boxes that never move, and one that travels between them and the station
    CITY = "city"  # three stations, a third of the streets with traffic, moves in mid-term, neighbours close by


@dataclass(frozen=True)
class Deployment:
    """Where everything stands: places, stays of boxes and of stations, and which instruments are references."""

    places: Mapping[str, Place]
    sites: Sites
    references: tuple[str, ...]
    days: float

    @property
    def boxes(self) -> tuple[str, ...]:
        """The boxes, in the order of their stays."""
        return tuple(dict.fromkeys(stay.device for stay in self.sites.stays if stay.device not in self.references))


@dataclass(frozen=True)
class City:
    """A simulated city: the truth at each site, and what each instrument read, hourly from `START`."""

    deployment: Deployment
    truth: Mapping[str, np.ndarray]  # of each site [hours]
    readings: Mapping[str, np.ndarray]  # of each instrument [hours]
    air: Mapping[str, np.ndarray]  # the truth where each instrument stood [hours], NaN where it stood nowhere
    gains: Mapping[str, np.ndarray] = field(default_factory=dict)  # of each box [hours]
    offsets: Mapping[str, np.ndarray] = field(default_factory=dict)


def deploy(journey: Journey, boxes: int = 30, days: float = 90.0, seed: int = 0) -> Deployment:
    """Return who stands where in one of the journeys, for `days` (at least 14) from `START` on."""
    rng = np.random.default_rng([seed, 0])
    begin = START.timestamp()
    names = [f"box-{k + 1:02d}" for k in range(boxes)]
    kinds = (BACKGROUND, BACKGROUND, TRAFFIC) if journey is Journey.CITY else ("",)
    streets = [f"street-{k + 1:02d}" for k in range(boxes)]  # of each box
    street_places = {street: _draw_place(rng, kinds[k % len(kinds)]) for k, street in enumerate(streets)}
    stations = [f"station-{letter}" for letter in ("abc" if journey is Journey.CITY else "a")]
    places = {name: _draw_place(rng, BACKGROUND) for name in stations} | street_places
    stays = [(station, station, 0.0, days) for station in stations]
    match journey:
        case Journey.STATION:
            places["depot"] = _draw_place(rng, "depot")
            stays += _stays_from_depot(names, streets, days)
        case Journey.TRAVELLER:
            stays += _stays_with_traveller(names, streets, days)
        case Journey.CITY:
            stays += _stays_in_city(rng, names, streets, stations, days)
    sites = Sites(
        tuple(
            Stay(site, device, begin + first * DAY, begin + last * DAY)
            for site, device, first, last in stays
            if last > first  # not so for some stays in a short network
        )
    )
    return Deployment(places, sites, tuple(stations), days)


def _stays_from_depot(names: Sequence[str], streets: Sequence[str], days: float) -> Iterator[StayInDays]:
    """Yield the stays of boxes that begin in the depot.

    After that the first box stands beside the station for good, about a tenth of them stand there for some weeks, and
    the others go to their streets at once.
    """
    depot_days, comparison_end = min(10.0, days / 6), min(31.0, days / 2)
    for k, (name, street) in enumerate(zip(names, streets, strict=True)):
        yield "depot", name, 0, depot_days
        if k == 0:
            yield "station-a", name, depot_days, days
        elif k < max(2, len(names) // 10):
            yield "station-a", name, depot_days, comparison_end
            yield street, name, comparison_end, days
        else:
            yield street, name, depot_days, days


def _stays_with_traveller(names: Sequence[str], streets: Sequence[str], days: float) -> Iterator[StayInDays]:
    """Yield the stays of boxes that never move, and those of the traveller beside the station and beside each box."""
    for name, street in zip(names, streets, strict=True):
        yield street, name, 0, days
    # Of the days, 30 are for the station: three stays of ten days, as many as thirty boxes need.
    station_days, days_per_box, day = min(10.0, days / 9), max(1.0, (days - 30) / len(names)), 0.0
    for k, street in enumerate(streets):
        if k % 10 == 0:  # back to the station before every tenth box
            yield "station-a", "traveller", day, day + station_days
            day += station_days
        if day + days_per_box > days:
            break
        yield street, "traveller", day, day + days_per_box
        day += days_per_box


def _stays_in_city(
    rng: np.random.Generator, names: Sequence[str], streets: Sequence[str], stations: Sequence[str], days: float
) -> Iterator[StayInDays]:
    """Yield the stays of boxes of which a tenth begins beside a station, and six tenths make a trip to a neighbour."""
    for k, (name, street) in enumerate(zip(names, streets, strict=True)):
        move_day = rng.uniform(0.3, 0.7) * days
        if k % 10 == 0:
            yield stations[k % len(stations)], name, 0, move_day
            yield street, name, move_day, days
        elif k % 10 < 7:  # for five days beside the box before
            trip_day = rng.uniform(0, days - 7)
            yield street, name, 0, trip_day
            yield streets[k - 1], name, trip_day, trip_day + 5
            yield street, name, trip_day + 5, days
        else:
            yield street, name, 0, days


def simulate_city(deployment: Deployment, seed: int = 0) -> City:
    """Draw the air at all sites and what all instruments read in it."""
    clock = Clock(round(deployment.days * 24), HOUR, START.timestamp())
    truth = _draw_truth(np.random.default_rng([seed, 1]), clock, deployment.places)
    hours = clock.start_seconds + HOUR * np.arange(clock.rows)
    air: dict[str, np.ndarray] = {}
    for stay in deployment.sites.stays:
        is_there = (hours >= stay.first) & (hours < stay.last)
        air.setdefault(stay.device, np.full(clock.rows, np.nan))[is_there] = truth[stay.site][is_there]
    readings, gains, offsets = {}, {}, {}
    for k, (name, truth_there) in enumerate(air.items()):
        rng = np.random.default_rng([seed, 2, k])
        if name in deployment.references:
            readings[name] = np.round(np.maximum(truth_there + rng.normal(0, 0.3, clock.rows), 0), 2)
            continue
        # Hourly steps of two random walks whose standard deviation is 1 after a year.
        steps = np.sqrt(HOUR / (365.25 * DAY)) * rng.standard_normal((2, clock.rows))
        gains[name] = GAIN * rng.lognormal(0, GAIN_SPREAD) * np.exp(np.cumsum(GAIN_AGEING * steps[0]))
        offsets[name] = rng.normal(0, OFFSET_SPREAD_UGM3) + np.cumsum(OFFSET_AGEING_UGM3 * steps[1])
        noise = (NOISE_UGM3 + RELATIVE_NOISE * truth_there) * ornstein_uhlenbeck(rng, clock, NOISE_SECONDS, 1.0)
        readings[name] = np.round(gains[name] * (truth_there + noise) + offsets[name], 2)
    return City(deployment, truth, readings, air, gains, offsets)


def write_city(city: City, folder: Path) -> list[Path]:
    """Write readings, references, stays and places as CSV, and the truth of each box; return the files."""
    references = city.deployment.references
    tables = {
        "readings.csv": _long_table(city, city.deployment.boxes, city.readings),
        "references.csv": _long_table(city, references, city.readings),
        "truth.csv": _long_table(city, city.deployment.boxes, city.air),
        "stays.csv": pl.DataFrame(
            [(stay.site, stay.device, _time(stay.first), _time(stay.last)) for stay in city.deployment.sites.stays],
            [SITE, DEVICE, "from", "to"],
            orient="row",
        ),
        "places.csv": pl.DataFrame(
            [
                (name, *(round(degrees, 6) for degrees in place.position), place.kind)
                for name, place in city.deployment.places.items()
            ],
            list(PLACE_COLUMNS),
            orient="row",
        ),
    }
    for name, table in tables.items():
        with replacing(folder / name) as temporary:
            table.write_csv(temporary, datetime_format="%Y-%m-%dT%H:%M:%SZ")
    return [folder / name for name in tables]


def _draw_place(rng: np.random.Generator, kind: str = "") -> Place:
    """Draw a place within a square of 10 km."""
    north, east = rng.uniform(-5000, 5000, 2) / METRES_OF_DEGREE
    return Place(CENTRE.latitude + north, CENTRE.longitude + east / np.cos(np.radians(CENTRE.latitude)), kind)


def _draw_truth(rng: np.random.Generator, clock: Clock, places: Mapping[str, Place]) -> dict[str, np.ndarray]:
    """Draw PM2.5 (ug/m3) at each place [hours].

    Its logarithm is the sum of a regional course, a local one that is correlated in space, and a constant of the place.
    """
    rush = daily_bump(clock, 8, 1.5) + daily_bump(clock, 18.5, 2)
    daily = 0.3 * rush - 0.1
    regional = daily + ornstein_uhlenbeck(rng, clock, REGIONAL_SECONDS, REGIONAL_SPREAD)
    metres = np.array([place.position for place in places.values()]) * METRES_OF_DEGREE
    metres[:, 1] *= np.cos(np.radians(CENTRE.latitude))
    distances = np.linalg.norm(metres[:, None] - metres[None], axis=-1)
    # Its product with independent shocks has the covariance exp(-distance / LOCAL_METRES); 1e-9 against rounding.
    mixing = np.linalg.cholesky(np.exp(-distances / LOCAL_METRES) + 1e-9 * np.eye(len(metres)))
    share_kept = clock.kept(LOCAL_SECONDS)
    local = np.empty((len(metres), clock.rows))
    shocks = mixing @ rng.standard_normal((len(metres), clock.rows))
    shocks[:, 1:] *= np.sqrt(1 - share_kept**2)  # so that the variance of their decaying sum stays 1
    for k, row in enumerate(shocks):
        local[k] = LOCAL_SPREAD * decaying_sum(row, share_kept)
    site_levels = 0.1 * rng.standard_normal(len(metres))
    traffic = np.array([RUSH * (place.kind == TRAFFIC) for place in places.values()])
    logarithms = regional + local + site_levels[:, None] + traffic[:, None] * rush
    concentrations = USUAL_UGM3 * np.exp(logarithms)
    return dict(zip(places, concentrations, strict=True))


def _long_table(city: City, names: Sequence[str], values: Mapping[str, np.ndarray]) -> pl.DataFrame:
    """Make a table of time, device and value from the hourly `values` of these devices, without NaN."""
    hours = len(next(iter(city.truth.values())))
    times = pl.Series(TIME, [START + timedelta(hours=k) for k in range(hours)], TIME_TYPE)
    parts = [
        pl.DataFrame({TIME: times, DEVICE: [name] * hours, COLUMN: np.round(values[name], 2)}).filter(
            pl.col(COLUMN).is_finite()
        )
        for name in names
    ]
    return pl.concat(parts)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(round(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
