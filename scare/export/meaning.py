"""What a channel means to sensors that can be bought, so that examples read the right number of them.

Comes from `calibrator`; goes to `library` and `esphome`.
"""

import re
from collections.abc import Iterable

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import EVERY, is_called

PARTICLES = {"PM2.5": "PM25", "PM10": "PM10"}  # what a PMS5003 measures
HUMIDITY, TEMPERATURE = "RH", "T"
NOTHING = ""  # of which we know no sensor
WARMTH = re.compile(r"temp|(?<![a-z])t(?![a-z])|^sht31t", re.IGNORECASE)


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
    called = [quantity for quantity in (*PARTICLES, HUMIDITY) if is_called(name, quantity)]
    return called + [TEMPERATURE] * bool(WARMTH.search(name))


def _meaning(quantities: Iterable[str], hint: str) -> str:
    """The first quantity; of particles as the factory calibrates where the hint says CF, else atmospheric.

    >>> _meaning(["PM2.5", "PM10"], "pm_cf_1"), _meaning(["PM10"], "PM10"), _meaning(["RH"], ""), _meaning([], "NO2")
    ('PM25_CF1', 'PM10_ATM', 'RH', '')
    """
    first = next(iter(quantities), NOTHING)
    return f"{PARTICLES[first]}_{'CF1' if 'cf' in hint.lower() else 'ATM'}" if first in PARTICLES else first
