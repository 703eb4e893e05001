"""Which field of a sensor that can be bought gives each channel, so that examples read the right one.

`data/quantities.toml` has the fields of a PMS5003 and the numbers of ESPHome.
"""

from dataclasses import dataclass

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import EVERY
from scare.data.quantities import Quantity, is_called, quantities, quantity


@dataclass(frozen=True)
class SensorField:
    """A field of a PMS5003, empty for another sensor's; ESPHome's platform and number, None where we know no sensor."""

    pms5003: str = ""
    esphome: tuple[str, str] | None = None


def sensor_fields(calibrator: Calibrator) -> list[SensorField]:
    """The field of each channel."""
    correction = EVERY.get(str(calibrator.facts.get("model")))
    if correction:
        return [_field(quantity(role.quantity), role.prefers) for role in correction.roles]
    return [_field(_sold(channel.name), channel.name) for channel in calibrator.inputs.channels]


def _sold(name: str) -> Quantity | None:
    """The likeliest quantity of a channel of this name for which there is a sensor that we know.

    >>> [found.name if (found := _sold(name)) else None for name in ("SHT31TE", "pm_raw", "NO2")]
    ['T', 'PM2.5', None]
    """
    return next((one for one in quantities().values() if one.esphome and is_called(name, one.name)), None)


def _field(found: Quantity | None, hint: str) -> SensorField:
    """The field of a quantity; of particles as the factory calibrates where the hint says CF, else atmospheric.

    >>> _field(quantity("PM2.5"), "pm_cf_1")
    SensorField(pms5003='PM25_CF1', esphome=('pmsx003', 'pm_2_5_std'))
    >>> _field(quantity("RH"), ""), _field(None, "NO2")
    (SensorField(pms5003='', esphome=('sht3xd', 'humidity')), SensorField(pms5003='', esphome=None))
    """
    if found is None or found.esphome is None or not found.pms5003:
        return SensorField(esphome=found.esphome if found else None)
    factory, (platform, number) = "cf" in hint.lower(), found.esphome
    return SensorField(
        f"{found.pms5003}_{'CF1' if factory else 'ATM'}", (platform, f"{number}_std" if factory else number)
    )
