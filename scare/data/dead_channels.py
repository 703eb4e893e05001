"""Dead channels: a device without one complete row is left out by name, and the others go on.

One that is dead in training is left out of all parts, since nothing was learned of it; one that is dead later is left
out of that part. Comes from `flags`; goes to `split` and to `training`.
"""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from scare.data.flags import usable_values
from scare.data.readings import Readings
from scare.errors import DataError

TRAINING = "training"
MOST = 0.5  # of the devices: a channel that is dead on more is named by itself


def find_dead(readings: Readings) -> tuple[str, ...]:
    """The channels without a usable value, or all of them if no row has one in each; none if a row is complete."""
    known = np.isfinite(usable_values(readings.values, readings.channels)[0])
    if known.all(axis=1).any() or not len(readings):
        return ()
    names = tuple(channel.name for channel in readings.channels)
    return tuple(name for name, alive in zip(names, known.any(axis=0), strict=True) if not alive) or names


def leave_out_dead(parts: Mapping[str, Sequence[Readings]]) -> tuple[dict[str, tuple[Readings, ...]], tuple[str, ...]]:
    """What is left of each part ("training", …; "" is the whole), and a sentence about everything that is not.

    A part with nothing left is refused.
    """
    kept: dict[str, tuple[Readings, ...]] = {}
    sentences: list[str] = []
    untrained: set[str] = set()
    for part, readings in parts.items():
        left = [one for one in readings if one.device not in untrained]
        dead = {one.device: names for one in left if (names := find_dead(one))}
        sentences += _sentences(dead, left, part)
        kept[part] = tuple(one for one in left if one.device not in dead)
        if readings and not kept[part]:
            raise DataError(f"no device is left{_in(part)}: {sentences[-1]}")
        untrained |= dead.keys() if part == TRAINING else set()
    return kept, tuple(sentences)


def _sentences(dead: Mapping[str, Sequence[str]], readings: Sequence[Readings], part: str) -> list[str]:
    """Which devices are left out and why, then which channels are dead on most of them, and what does without."""
    if not dead:
        return []
    channels = [channel.name for channel in readings[0].channels]
    said = [f"{device} is left out: {_why(names, channels, _in(part))}" for device, names in dead.items()]
    counts = Counter(name for names in dead.values() for name in names)
    most = {name: count for name, count in counts.items() if count > max(1, MOST * len(readings))}
    places = {name: f" on {count} of {len(readings)} devices{_in(part)}" for name, count in most.items()}
    return [*said, *(_why([name], channels, place) for name, place in places.items())]


def _why(dead: Sequence[str], channels: Sequence[str], where: str) -> str:
    """What has no value, and the option that does without; none does without the first, the sensor to calibrate."""
    if len(dead) == len(channels) > 1:
        return f"no row has a usable value in every channel{where}; look at it with 'scare inspect'"
    rest = shlex.quote(",".join(name for name in channels if name not in dead))
    remedy = "look at it with 'scare inspect'" if channels[0] in dead else f"--channels {rest} does without it"
    return f"{', '.join(dead)} has no usable value{where}; {remedy}"


def _in(part: str) -> str:
    return f" in {part}" if part else ""
