"""What a channel means to sensors that can be bought, so that examples read the right number of them.

Comes from `calibrator`; goes to `library` and `esphome`.
"""

from collections.abc import Iterable

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import EVERY
from scare.data.quantities import is_called, quantities

PARTICLES = {one.name: one.pms5003 for one in quantities().values() if one.pms5003}
HUMIDITY, TEMPERATURE = "RH", "T"
NOTHING = ""  # of which we know no sensor


def meanings(calibrator: Calibrator) -> list[str]:
    """What each channel is: PM25_CF1, PM25_ATM, PM10_CF1, PM10_ATM, `HUMIDITY`, `TEMPERATURE`, or `NOTHING`."""
    correction = EVERY.get(str(calibrator.facts.get("model")))
    if correction:
        return [_meaning([role.quantity], role.prefers) for role in correction.roles]
    names = [channel.name for channel in calibrator.inputs.channels]
    return [_meaning(_quantities(name), name) for name in names]


def _quantities(name: str) -> list[str]:
    """What a channel of this name may be, the likeliest first.

    >>> _quantities("SHT31TE"), _quantities("pm_raw"), _quantities("NO2")
    (['T'], ['PM2.5', 'PM10'], [])
    """
    return [one for one in (*PARTICLES, HUMIDITY, TEMPERATURE) if is_called(name, one)]


def _meaning(quantities: Iterable[str], hint: str) -> str:
    """The first quantity; of particles as the factory calibrates where the hint says CF, else atmospheric.

    >>> _meaning(["PM2.5", "PM10"], "pm_cf_1"), _meaning(["PM10"], "PM10"), _meaning(["RH"], ""), _meaning([], "NO2")
    ('PM25_CF1', 'PM10_ATM', 'RH', '')
    """
    first = next(iter(quantities), NOTHING)
    return f"{PARTICLES[first]}_{'CF1' if 'cf' in hint.lower() else 'ATM'}" if first in PARTICLES else first
