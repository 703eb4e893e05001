"""Sites: where devices stand and when, so that a series survives a box being swapped, and where the sites are.

A table of stays (CSV: site, device, from, to) is the element history of a network. Times are UTC unless they state a
zone; an empty `from` or `to` means since ever or until now. A table of places (CSV: site, latitude, longitude, kind)
says where sites are, in degrees, and what kind of air they have, such as traffic or background.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain, pairwise
from math import asin, cos, inf, radians, sin, sqrt
from pathlib import Path

import polars as pl

from scare.data.readings import DEVICE, TIME
from scare.errors import DataError, UsageError

SITE = "site"  # column of results
COLUMNS = (SITE, DEVICE, "from", "to")
PLACE_COLUMNS = (SITE, "latitude", "longitude", "kind")
EARTH_METRES = 6_371_008.8  # mean radius


@dataclass(frozen=True)
class Stay:
    """A device at a site from `first` to before `last`, in seconds since 1970."""

    site: str
    device: str
    first: float
    last: float


@dataclass(frozen=True)
class Sites:
    """All stays of a network.

    >>> sites = Sites((Stay("Main Street", "box-1", 0.0, 100.0), Stay("Main Street", "box-2", 100.0, inf)))
    >>> sites.at("box-1", 50.0), sites.at("box-2", 150.0), sites.at("box-1", 150.0)
    ('Main Street', 'Main Street', '')
    """

    stays: tuple[Stay, ...] = ()

    @cached_property
    def _by_device(self) -> dict[str, list[Stay]]:
        stays: dict[str, list[Stay]] = {}
        for stay in self.stays:
            stays.setdefault(stay.device, []).append(stay)
        return stays

    def of_device(self, device: str) -> Sequence[Stay]:
        """Return the stays of a device."""
        return self._by_device.get(device, ())

    def at(self, device: str, time: float) -> str:
        """Return the site of a device at a time in seconds; empty if none is stated."""
        return next((stay.site for stay in self.of_device(device) if stay.first <= time < stay.last), "")

    def add_to(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add a column `site` to rows with `device` and `time`, null where no stay is stated.

        Without any stays, the rows remain as they are.
        """
        if not self.stays:
            return frame
        seconds = pl.col(TIME).dt.epoch("us") / 1e6
        site = pl.lit(None, pl.String)
        for stay in chain.from_iterable(map(self.of_device, frame[DEVICE].unique())):
            is_there = (pl.col(DEVICE) == stay.device) & (seconds >= stay.first) & (seconds < stay.last)
            site = pl.when(is_there).then(pl.lit(stay.site)).otherwise(site)
        return frame.select(DEVICE, site.alias(SITE), pl.exclude(DEVICE))


@dataclass(frozen=True)
class Place:
    """Where a site is, in degrees, and what kind of air it has; an empty kind is unknown."""

    latitude: float
    longitude: float
    kind: str = ""

    def metres_to(self, other: "Place") -> float:
        """Return the distance along the great circle.

        >>> round(Place(51.0, 4.0).metres_to(Place(52.0, 4.0)))
        111195
        """
        # The haversine formula; north and east are half the differences in latitude and longitude.
        north, east = radians(other.latitude - self.latitude) / 2, radians(other.longitude - self.longitude) / 2
        across = cos(radians(self.latitude)) * cos(radians(other.latitude)) * sin(east) ** 2
        return 2 * EARTH_METRES * asin(min(1.0, sqrt(sin(north) ** 2 + across)))

    @property
    def position(self) -> tuple[float, float]:
        """Latitude and longitude."""
        return self.latitude, self.longitude


def read_sites(path: Path | str) -> Sites:
    """Read a table of stays; an error names the row."""
    rows = _read_rows(path, (SITE, DEVICE), COLUMNS)
    stays = [_read_stay(row, f"{path}, row {number}") for number, row in enumerate(rows, start=2)]
    _check_overlaps(stays, path)
    return Sites(tuple(stays))


def read_places(path: Path | str) -> Mapping[str, Place]:
    """Read a table of places; an error names the row."""
    places: dict[str, Place] = {}
    for number, row in enumerate(_read_rows(path, PLACE_COLUMNS[:3], PLACE_COLUMNS), start=2):
        where, name = f"{path}, row {number}", (row[SITE] or "").strip()
        if not name or name in places:
            raise DataError(f"{where}: site '{name}' is named twice" if name else f"{where}: 'site' is empty")
        latitude = _read_degrees(row, "latitude", 90.0, where)
        longitude = _read_degrees(row, "longitude", 180.0, where)
        places[name] = Place(latitude, longitude, (row.get("kind") or "").strip())
    return places


def _read_rows(path: Path | str, needed: Sequence[str], header: Sequence[str]) -> list[dict[str, str | None]]:
    """Read the rows of a CSV table that has the columns `needed`; error messages show the whole `header`."""
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as handle:
            table = csv.DictReader(handle)
            names = table.fieldnames or ()
            rows = list(table)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not set(needed) <= set(names):
        raise DataError(f"{path}: the header must be {','.join(header)}, not {','.join(names) or 'empty'}")
    return rows


def _read_degrees(row: Mapping[str, str | None], name: str, limit: float, where: str) -> float:
    text = (row[name] or "").strip()
    try:
        degrees = float(text)
    except ValueError:
        degrees = inf  # refused below
    if not abs(degrees) <= limit:
        raise DataError(f"{where}: '{name}' is '{text}'; write degrees from {-limit:g} to {limit:g}, such as 51.2097")
    return degrees


def _read_stay(row: dict[str, str | None], where: str) -> Stay:
    cells = {name: (row.get(name) or "").strip() for name in COLUMNS}
    for name in (SITE, DEVICE):
        if not cells[name]:
            raise DataError(f"{where}: '{name}' is empty")
    first = _read_time(cells["from"], -inf, f"{where}: 'from'")
    last = _read_time(cells["to"], inf, f"{where}: 'to'")
    if first >= last:
        raise DataError(f"{where}: 'to' is not later than 'from'")
    return Stay(cells[SITE], cells[DEVICE], first, last)


def _read_time(text: str, empty: float, where: str) -> float:
    """Parse a time (seconds since 1970); `empty` is returned for no text, `where` begins the message of an error."""
    if not text:
        return empty
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise DataError(f"{where} is '{text}'; write a time such as 2026-03-01 or 2026-03-01T12:00:00Z") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _check_overlaps(stays: Sequence[Stay], path: Path | str) -> None:
    """Raise a DataError if a device is at two sites at one time."""
    for before, after in pairwise(sorted(stays, key=lambda stay: (stay.device, stay.first))):
        if before.device == after.device and after.first < before.last:
            moment = f"{datetime.fromtimestamp(after.first, UTC):%Y-%m-%d %H:%M}" if after.first > -inf else "the start"
            raise DataError(
                f"{path}: {after.device} is at {before.site} and at {after.site} from {moment} on; give its stay at"
                f" {before.site} an end in 'to'"
            )
