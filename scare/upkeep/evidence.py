"""Evidence: what speaks for a drift, in sentences with units."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.data.quantities import display_unit, is_called
from scare.data.readings import Channel
from scare.upkeep.judging import Judged

SHOWN = 3  # of a box, the strongest
WORTH_SAYING = 1.0  # units


@dataclass(frozen=True)
class Evidence:
    """A measure of a box, its value as the measure has it, how many units that is, and a sentence."""

    measure: str
    value: float
    units: float
    sentence: str


def describe(judged: Judged, box: int, calibrator: Calibrator) -> tuple[Evidence, ...]:
    """What speaks for a drift of a box, strongest first."""
    units = np.nan_to_num(judged.units[box], nan=0.0)
    strongest = [at for at in np.argsort(-units) if units[at] >= WORTH_SAYING][:SHOWN]
    return tuple(_evidence(judged, box, int(at), calibrator) for at in strongest)


def _evidence(judged: Judged, box: int, at: int, calibrator: Calibrator) -> Evidence:
    name, value = judged.measures[at], float(judged.values[box, at])
    kind, _, channel = name.partition(" ")
    sentence = SENTENCES[kind](value, _Scales(calibrator), channel)
    return Evidence(name, value, float(judged.units[box, at]), sentence)


@dataclass(frozen=True)
class _Scales:
    """Measures in units of the target and of channels."""

    calibrator: Calibrator

    def target(self, value: float) -> str:
        """A difference of calibrated values."""
        return _quantity(value * float(self.calibrator.inputs.scaling.target.scale[0]), self.calibrator.target)

    def channel(self, value: float, name: str) -> str:
        """A difference of a channel's readings."""
        at = [one.name for one in self.calibrator.inputs.channels].index(name)
        scale = float(self.calibrator.inputs.scaling.fleet.scale[at])
        return _quantity(value * scale, self.calibrator.inputs.channels[at])

    def humidity(self) -> str:
        """One scale of the channel that is humidity."""
        at = next(at for at, one in enumerate(self.calibrator.inputs.channels) if is_called(one.name, "RH"))
        return f"{float(self.calibrator.inputs.scaling.fleet.scale[at]):.3g} % RH"


def _quantity(value: float, of: Channel) -> str:
    return f"{abs(value):.3g} {display_unit(of.unit)}".strip()


def _percent(logarithm: float) -> str:
    return f"{100 * abs(np.expm1(logarithm)):.0f} %"


def _more(value: float) -> str:
    return "more" if value > 0 else "less"


Sentence = Callable[[float, _Scales, str], str]
SENTENCES: dict[str, Sentence] = {
    "neighbours": lambda value, scales, _: (
        f"in the same air it says {scales.target(value)} {_more(value)} beside the others than in its first days"
    ),
    "gain": lambda value, scales, _: (
        f"when the others rise it rises by {_percent(value)} {_more(value)} than in its first days"
    ),
    "humidity": lambda value, scales, _: (
        f"with {scales.humidity()} more it says {scales.target(value)} {_more(value)} than it did beside the others"
    ),
    "night": lambda value, scales, _: (
        f"in the cleanest hours it says {scales.target(value)} {_more(value)} beside the others than in its first days"
    ),
    "response": lambda value, scales, _: (
        f"its sensor follows the others from hour to hour by {_percent(value)} {_more(value)} than it did"
    ),
    "shift": lambda value, scales, channel: (
        f"{channel} reads {scales.channel(value, channel)} {_more(value)} beside the others than in its first days"
    ),
    "liveliness": lambda value, scales, _: (
        f"its sensor's changes from hour to hour are {np.exp(value):.2g} times those of its first days"
    ),
    "PSI": lambda value, scales, channel: (
        f"{channel} is further from training than in its first days: PSI {value:+.1f}"
    ),
    "stuck": lambda value, scales, _: f"{100 * value:.0f} % of its hours repeat the hour before",
    "silent": lambda value, scales, _: f"no value in {100 * value:.0f} % of the hours that others have",
}
