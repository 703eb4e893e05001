"""The equation of a linear calibrator in physical units, for people, spreadsheets and Home Assistant.

Only a plan that is linear in the newest row has one. It holds inside the training range: beyond, a calibrator clamps
and flags, which an equation does not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scare.calibrator.plan import Plan
from scare.data.quantities import display_unit
from scare.data.readings import Channel
from scare.windowing.scaling import Affine, DeviceEffect

if TYPE_CHECKING:
    from scare.calibrator.calibrator import Calibrator

MOST_TERMS = 8  # nobody would type an equation of more channels
MOST_DEVICES = 10  # for more devices, no equations are listed
COLUMNS = "BCDEFGHI"  # of a spreadsheet: A is the time
NEW_DEVICE = ""  # a name that no device has
DIGITS = 5  # significant, of a printed number


@dataclass(frozen=True)
class Equation:
    """target = slopes · channels + intercept; with a single channel also two `points` of that line."""

    target: Channel
    channels: tuple[Channel, ...]
    slopes: tuple[float, ...]
    intercept: float
    points: tuple[tuple[float, float], ...] = ()

    def __str__(self) -> str:
        """
        >>> str(Equation(Channel("PM2.5", "ug/m3"), (Channel("pm25"), Channel("T", "degC")), (0.807, -0.5), 2.1))
        'PM2.5 = 0.807 × pm25 − 0.5 × T + 2.1, in µg/m³ (T in °C)'
        """
        terms = self._terms(f" × {channel.name}" for channel in self.channels)
        signed = [f"{'−' if number < 0 else '+'} {_short(abs(number))}{name}" for number, name in terms]
        right = " ".join(signed).removeprefix("+ ")
        others = [channel for channel in self.channels if channel.unit and channel.unit != self.target.unit]
        unit = f", in {display_unit(self.target.unit)}" if self.target.unit else ""
        where = ", ".join(f"{channel.name} in {display_unit(channel.unit)}" for channel in others)
        return f"{self.target.name} = {right}{unit}{f' ({where})' if where else ''}"

    def spreadsheet(self) -> str:
        """Return the formula for row 2 of a sheet with the time in column A and the channels from column B on.

        >>> Equation(Channel("PM2.5"), (Channel("pm25"), Channel("T")), (0.807, -0.5), 2.1).spreadsheet()
        '=0.807*B2-0.5*C2+2.1'
        """
        terms = self._terms(f"*{column}2" for column in COLUMNS)
        return "=" + "".join(f"{number:+.{DIGITS}g}{cell}" for number, cell in terms).removeprefix("+")

    def uses(self) -> list[str]:
        """Explain how to use the equation, with a sentence for each tool."""
        named_columns = zip(self.channels, COLUMNS, strict=False)
        columns = ", ".join(f"{channel.name} in column {column}" for channel, column in named_columns)
        sentences = [f"In a spreadsheet with {columns}, row 2: {self.spreadsheet()}"]
        if self.points:
            pairs = ", ".join(f"[{_short(reading)}, {_short(value)}]" for reading, value in self.points)
            sentences.append(f"In Home Assistant's compensation: data_points: [{pairs}], degree: 1")
        return sentences

    def _terms(self, names: Iterable[str]) -> list[tuple[float, str]]:
        """Pair the slope of each channel with its name, then the intercept, unless it is zero, with an empty name."""
        return [*zip(self.slopes, names, strict=False), *([(self.intercept, "")] if self.intercept else [])]


def line_weights(plan: Plan) -> np.ndarray | None:
    """Return the weights of a linear plan on the newest row [channels]; None for any other plan."""
    if [step.kernel for step in plan.steps] != ["newest", "dense"]:
        return None
    return np.asarray(plan.steps[-1].weights["weight"][:, 0])


def equations(calibrator: "Calibrator") -> dict[str, Equation]:
    """Return the equations by device; the one under the empty name holds for all other devices.

    Empty for a calibrator that is not linear in the newest row, or has too many channels or devices.
    """
    scaling, weights = calibrator.inputs.scaling, line_weights(calibrator.plan)
    known = list(dict.fromkeys([*scaling.devices, *scaling.effects]))
    if weights is None or len(weights) > MOST_TERMS or len(known) > MOST_DEVICES:
        return {}
    fleet = _equation(calibrator, weights, scaling.fleet, scaling.effect(NEW_DEVICE))
    of_devices = {
        device: _equation(calibrator, weights, scaling.known(device) or scaling.fleet, scaling.effect(device))
        for device in known
    }
    of_devices = {device: equation for device, equation in of_devices.items() if str(equation) != str(fleet)}
    # The fleet's equation says nothing about a new device if it is that of one device, or if a new one gets a scaling
    # of its own after its first readings.
    if of_devices and (len(known) == 1 or scaling.settle):
        return of_devices
    return {**of_devices, NEW_DEVICE: fleet}


def describe_equations(calibrator: "Calibrator") -> list[str]:
    """Return each equation as a line; a single one is followed by how to use it in other tools."""
    by_device = equations(calibrator)
    lines = [f"{device}: {equation}" if device else str(equation) for device, equation in by_device.items()]
    return [*lines, *next(iter(by_device.values())).uses()] if len(by_device) == 1 else lines


def _equation(calibrator: "Calibrator", weights: np.ndarray, affine: Affine, effect: DeviceEffect) -> Equation:
    """Make the equation in physical units: y = S (w · (x - c) / s + b) + C, with the device's effect added to w and b.

    c and s are center and scale of the channels (`affine`), C and S those of the target.
    """
    inputs, target = calibrator.inputs, calibrator.inputs.scaling.target
    bias = calibrator.plan.steps[-1].weights.get("bias", np.zeros(1))
    scaled_slopes = weights.astype(np.float64)
    scaled_slopes[0] += effect.slope  # of channel 0
    slopes = scaled_slopes * target.scale[0] / affine.scale
    intercept = float(target.center[0] + target.scale[0] * (bias[0] + effect.offset) - slopes @ affine.center)
    points: tuple[tuple[float, float], ...] = ()
    if len(weights) == 1:
        # Any two points would do; these are readings that a person knows.
        readings = float(affine.center[0]), float(affine.center[0] + 2 * affine.scale[0])
        points = tuple((reading, float(slopes[0]) * reading + intercept) for reading in readings)
    return Equation(calibrator.target, inputs.channels, tuple(slopes.tolist()), intercept, points)


def _short(number: float) -> str:
    return f"{number:.{DIGITS}g}"
