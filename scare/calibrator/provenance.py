"""How a value came to be: its processing level, its product version, and what result tables carry of both.

Levels are those of Schneider et al. 2019 (doi:10.1021/acs.est.9b03950, table 1) as narrowed in 2025
(doi:10.1038/s41612-025-01161-2, table 1), which draws the border of independent measurements between 2A and 2B:

    0   the sensor's own signal                          1   that in units of the quantity, without corrections
    2A  corrected by on-board sensors, independent of local data
    2B  by a model that was built from local data        3   with data from outside the device

What the file says decides: its channels, whether it was trained, and which channels training was told are external.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scare.data.quantities import find_quantity, spell_unit
from scare.data.readings import CALIBRATED, Channel

if TYPE_CHECKING:
    from scare.calibrator.calibrator import Calibrator

EXTERNAL_FACT = "external_channels"  # channels that the device does not measure, as training was told
OF_REFERENCE = re.compile(r"(?<![a-z])ref(erence)?(?![a-z])", re.IGNORECASE)  # in names of channels of a station
CONCENTRATIONS = ("ppb", "pphm", "ppm", "ug/m3", "mg/m3", "ng/m3")  # units
METADATA_KEY = "scare"  # of a Parquet file's key-value metadata
DIGITS = 12  # hexadecimal digits of the content hash in a product version


@dataclass(frozen=True)
class ProcessingLevel:
    """A processing level, whether values of it are independent measurements, and why a value has this level."""

    level: str
    independent: bool
    reason: str

    def __str__(self) -> str:
        kind = "an independent measurement" if self.independent else "not an independent measurement"
        return f"processing level {self.level}, {kind}: {self.reason}"


def processing_level(calibrator: "Calibrator") -> ProcessingLevel:
    """Return the level of a calibrator's values.

    >>> from scare.calibrator.corrections import bind, find_correction
    >>> correction = find_correction("barkjohn-2021")
    >>> print(processing_level(bind(correction, {role.name: role.channel for role in correction.roles}, 60.0)))
    processing level 2A, an independent measurement: corrected by humidity on board, with a published formula
    """
    facts, (first, *others) = calibrator.facts, calibrator.inputs.channels
    names = ", ".join(channel.name for channel in others)
    external = [name for channel in others if is_external(name := channel.name, facts)]
    if external:
        reason = f"{', '.join(external)} come from outside the device"
        return ProcessingLevel("3", independent=False, reason=reason)
    if "formula" in facts:
        if not others:
            return ProcessingLevel("1", independent=True, reason=f"{first.name} alone, with a published formula")
        reason = f"corrected by {names} on board, with a published formula"
        return ProcessingLevel("2A", independent=True, reason=reason)
    if facts.get("outcome") == "raw":
        return ProcessingLevel("1", independent=True, reason=f"{first.name} as the sensor reads")
    using = f" and corrected by {names} on board" if others else ""
    return ProcessingLevel("2B", independent=False, reason=f"fitted to a reference beside it{using}")


def is_external(channel: str, facts: Mapping[str, Any]) -> bool:
    """Whether a channel is not measured by the device: training was told so, or its name is that of a reference.

    >>> facts = {"external_channels": ["O3_station"]}
    >>> is_external("Ref.O3", {}), is_external("O3_station", facts), is_external("T", facts)
    (True, True, False)
    """
    return channel in facts.get(EXTERNAL_FACT, ()) or bool(OF_REFERENCE.search(channel))


def raw_level(channel: Channel) -> ProcessingLevel:
    """Return the level of a reading as it came: 1 in units of a quantity, otherwise 0.

    >>> raw_level(Channel("pm25", "ug/m3")).level, raw_level(Channel("NO2_B43F", "nA")).level
    ('1', '0')
    """
    quantity = find_quantity(channel.name)
    is_in_its_unit = quantity is not None and channel.unit == quantity.unit and bool(channel.unit)
    if spell_unit(channel.unit) in CONCENTRATIONS or is_in_its_unit:
        return ProcessingLevel("1", independent=True, reason=f"{channel.name} as the sensor reads")
    return ProcessingLevel("0", independent=True, reason=f"the signal of {channel.name}")


def product_version(model: str | Path) -> str:
    """Name the version of a product: the model's name and the beginning of its file's hash; a correction's id.

    >>> product_version("barkjohn-2021")
    'barkjohn-2021'
    """
    path = Path(model)
    if not path.is_file():
        return str(model)
    return name_version(path.stem, hashlib.sha256(path.read_bytes()).hexdigest())


def name_version(name: str, sha256: str) -> str:
    """Name the version of a product by a name and a content hash."""
    return f"{name}@{sha256[:DIGITS]}"


def describe_table(products: Mapping[str, tuple[str, "Calibrator"]]) -> dict[str, str]:
    """Return the metadata of a table of results, for Parquet.

    `products` are version and calibrator by device; a single one for all devices is given as that of the device "*".
    """
    described = {
        device: {
            "product": product,
            "target": {"name": calibrator.target.name, "unit": calibrator.target.unit},
            "levels": {
                calibrator.inputs.channels[0].name: _level_as_dict(raw_level(calibrator.inputs.channels[0])),
                CALIBRATED: _level_as_dict(processing_level(calibrator)),
            },
        }
        for device, (product, calibrator) in products.items()
    }
    return {METADATA_KEY: json.dumps({"products": described}, ensure_ascii=False)}


def _level_as_dict(level: ProcessingLevel) -> dict[str, Any]:
    return {"level": level.level, "independent": level.independent, "reason": level.reason}
