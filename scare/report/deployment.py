"""Facts of a deployment that no table of readings holds: where and how sensors and reference stood.

EPA's report begins with them: deployment and siting. Everything is optional; what is missing is shown as not stated.
"""

from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Le

from scare.report.blocks import Block, Facts, Note
from scare.schema import Amount, Name, read_toml

LABELS = {
    "place": "place",
    "latitude": "latitude [°]",
    "longitude": "longitude [°]",
    "site_type": "type of site",
    "begin": "first day",
    "end": "last day",
    "sensor": "sensor, maker and model",
    "sensor_height_m": "height of the sensors' inlets [m]",
    "reference": "reference, maker and model",
    "reference_method": "method of the reference",
    "reference_height_m": "height of the reference's inlet [m]",
    "distance_m": "distance of sensors and reference [m]",
    "obstacles": "obstacles and sources nearby",
    "power_and_shelter": "power and shelter",
    "photos": "photos",
    "operator": "operator",
    "remarks": "remarks",
}


@dataclass(frozen=True)
class Deployment:
    """Facts of a deployment; the fields are the keys of a TOML file."""

    place: Name = ""
    latitude: Annotated[float, Ge(-90), Le(90)] | None = None
    longitude: Annotated[float, Ge(-180), Le(180)] | None = None
    site_type: Name = ""
    begin: date | None = None
    end: date | None = None
    sensor: Name = ""
    sensor_height_m: Amount | None = None
    reference: Name = ""
    reference_method: Name = ""
    reference_height_m: Amount | None = None
    distance_m: Amount | None = None
    obstacles: Name = ""
    power_and_shelter: Name = ""
    photos: tuple[Name, ...] = ()
    operator: Name = ""
    remarks: Name = ""


def kind_of(name: str) -> str:
    """Return how a fact is typed into a form: text, number, date or list.

    >>> kind_of("latitude"), kind_of("begin"), kind_of("photos"), kind_of("place")
    ('number', 'date', 'list', 'text')
    """
    default = getattr(Deployment(), name)
    if default is None:
        return "date" if name in ("begin", "end") else "number"
    return "list" if isinstance(default, tuple) else "text"


def read_deployment(path: Path) -> Deployment:
    """Read the facts from a TOML file; a mistake is named with its key."""
    return read_toml(path, Deployment)


def deployment_blocks(deployment: Deployment | None) -> list[Block]:
    """Show the facts that are stated, and name those that are not."""
    if deployment is None:
        return [Note("No facts of the deployment were given (scare report … --facts site.toml).")]
    stated: dict[str, str] = {}  # by label
    missing: list[str] = []
    for name, value in asdict(deployment).items():
        if value in (None, "", ()):
            missing.append(LABELS[name])
        else:
            stated[LABELS[name]] = ", ".join(value) if isinstance(value, tuple) else str(value)
    blocks: list[Block] = [Facts("As stated by the operator", stated)]
    if missing:
        blocks.append(Note(f"Not stated: {', '.join(missing)}."))
    return blocks
