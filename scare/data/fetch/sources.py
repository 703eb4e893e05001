"""What a source is and what may be asked of it: addresses and columns are data (`sources.toml`)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from math import asin, cos, radians, sin, sqrt
from pathlib import Path

from scare.errors import UsageError
from scare.records import read_toml

SOURCES = Path(__file__).with_name("sources.toml")
EARTH_KM = 6371.0


@dataclass(frozen=True)
class Column:
    """What a column of a source is called here; its numbers become (number + plus) · times, in `unit`."""

    name: str
    unit: str = ""
    plus: float = 0.0
    times: float = 1.0


@dataclass(frozen=True)
class Source:
    """Addresses, licence and columns of a source; `ends` seconds after its time a row's interval is over."""

    about: str
    licence: str
    columns: Mapping[str, Column]
    ends: float = 0.0
    hosts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """A point, and how far around it devices are wanted."""

    latitude: float
    longitude: float
    kilometres: float

    def holds(self, latitude: float, longitude: float) -> bool:
        """Whether a point is within.

        >>> Place(48.78, 9.18, 200.0).holds(50.11, 8.68), Place(48.78, 9.18, 100.0).holds(50.11, 8.68)
        (True, False)
        """
        north, east = radians(latitude - self.latitude), radians(longitude - self.longitude)
        both = cos(radians(latitude)) * cos(radians(self.latitude))
        return 2 * EARTH_KM * asin(sqrt(sin(north / 2) ** 2 + both * sin(east / 2) ** 2)) <= self.kilometres


@dataclass(frozen=True)
class Request:
    """Devices by name or by place, from the first day to the last."""

    devices: tuple[str, ...]
    first: date
    last: date
    place: Place | None = None

    def __post_init__(self) -> None:
        if not (self.devices or self.place):
            raise UsageError("name devices, or a place with --near LAT,LON --within KM")
        if self.last < self.first:
            raise UsageError(f"--to {self.last} is before --from {self.first}")

    def days(self) -> Iterator[date]:
        """Every day."""
        for number in range((self.last - self.first).days + 1):
            yield self.first + timedelta(days=number)


def read_source(name: str, path: Path = SOURCES) -> Source:
    """The source of this name."""
    sources = read_toml(path, dict[str, Source])
    if name not in sources:
        raise UsageError(f"{path}: there is no [{name}]")
    return sources[name]
