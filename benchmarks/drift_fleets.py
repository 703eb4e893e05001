"""Simulated fleets of drift.py: boxes calibrated side by side, then watched in a town where one of them drifts.

The picture shows drifts found against false alarms for every threshold, a panel per setting.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.accuracy_page import STYLE
from scare.baselines.classical import linear_regression
from scare.calibrator.calibrator import Calibrator
from scare.data.flags import Flag, flag
from scare.data.readings import Readings
from scare.data.simulate import Simulation, SimulationKind, simulate, simulate_box
from scare.data.simulated_air import Drift, DriftKind
from scare.files import replacing
from scare.training.data import prepare_inputs
from scare.training.recipe import Recipe
from scare.upkeep.drift import (
    RECENT_DAYS,
    THRESHOLDS,
    USUAL_DAYS,
    Assessment,
    DriftMeter,
    align_boxes,
    assess,
    box_hours,
    drift_meter,
    periods,
    training_hours,
)

DAY = 86400.0
BOXES, STEP_SECONDS, WINDOW = 8, 600.0, 12
TRAINED_DAYS, WATCHED_DAYS, DRIFTS_ON = 14, 60, 25  # the day on which a drift begins counts from deployment
ASSESSED_FROM = USUAL_DAYS + RECENT_DAYS - 1  # the first day with enough days before it
FOUND_WITHIN = 30  # days
CURVE_UNITS = np.geomspace(0.3, 6, 60)  # thresholds of a curve
FEWEST = 0.003  # false alarms at the left edge of the picture
SOUND = "none"
DRIFTS = {
    "gain −30 %": Drift(DriftKind.GAIN, size=-0.3),
    "gain −50 %": Drift(DriftKind.GAIN, size=-0.5),
    "offset": Drift(DriftKind.OFFSET),
    "humidity": Drift(DriftKind.HUMIDITY),
    "dying cell": Drift(DriftKind.DYING),
}


@dataclass(frozen=True)
class SimulatedSetting:
    """What boxes measure, and by what share the air of one differs from another's."""

    kind: SimulationKind
    apart: float

    @property
    def name(self) -> str:
        """The name on the page."""
        return f"{self.kind}, {f'{100 * self.apart:.0f} % apart' if self.apart else 'side by side'}"


SETTINGS = tuple(
    SimulatedSetting(kind, apart) for kind in (SimulationKind.PM, SimulationKind.GAS) for apart in (0.0, 0.2)
)


@dataclass(frozen=True)
class FleetHours:
    """Hourly means of a fleet: of sound boxes [boxes, days, 24, 1 + channels], and of box 0 with each drift."""

    drift_meter: DriftMeter
    sound: np.ndarray
    drifted: Mapping[str, np.ndarray]

    def fleet(self, drift: str, boxes: int) -> np.ndarray:
        """Hours of the first `boxes` boxes, of which box 0 has this drift."""
        hours = self.sound[:boxes].copy()
        if drift != SOUND:
            hours[0] = self.drifted[drift]
        return hours

    def assessed(self, drift: str, boxes: int) -> Iterator[Assessment]:
        """Assess that fleet at the end of every day."""
        hours = self.fleet(drift, boxes)
        sums = np.stack([self.drift_meter.sum_day(hours[:, day]) for day in range(hours.shape[1])], axis=1)
        for day in range(ASSESSED_FROM, sums.shape[1]):
            yield assess(periods(sums[:, : day + 1], self.drift_meter, USUAL_DAYS, RECENT_DAYS), self.drift_meter)


def make_days(setting: SimulatedSetting, seed: int, work: Path) -> FleetHours:
    """Load a simulated fleet of a setting from the folder `work`; simulate and save it if it is not there."""
    path = work / f"{setting.kind}-{setting.apart:g}-{seed}.npz"
    if not path.exists():
        days = _simulate(setting, seed)
        named = {f"drift {name}": hours for name, hours in days.drifted.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            names = np.array(days.drift_meter.channels)
            np.savez(file, sound=days.sound, channels=names, borders=days.drift_meter.borders, **named)
    with np.load(path) as kept:
        known = DriftMeter(tuple(map(str, kept["channels"])), kept["borders"])
        return FleetHours(known, kept["sound"], {name: kept[f"drift {name}"] for name in DRIFTS})


def _simulate(setting: SimulatedSetting, seed: int) -> FleetHours:
    """Fit a line to boxes side by side, then simulate the same boxes deployed, with and without each drift."""
    simulation = Simulation(BOXES, TRAINED_DAYS + WATCHED_DAYS, STEP_SECONDS, setting.kind, seed)
    deployed = simulation.start.timestamp() + TRAINED_DAYS * DAY
    calibrator = fit_line([one.rows(one.times < deployed) for one in simulate(simulation)])
    town = replace(simulation, place_spread=setting.apart)

    def hours(box: int, *drifts: Drift) -> tuple[str, np.ndarray, np.ndarray]:
        readings = simulate_box(replace(town, drifts=drifts), box).readings
        return readings.device, *box_hours(calibrator, readings.rows(readings.times >= deployed))

    sound = align_boxes([hours(box) for box in range(BOXES)]).values
    begins = TRAINED_DAYS + DRIFTS_ON
    drifted = {name: align_boxes([hours(0, replace(drift, day=begins))]).values[0] for name, drift in DRIFTS.items()}
    return FleetHours(drift_meter(calibrator), sound, drifted)


def fit_line(train: Sequence[Readings]) -> Calibrator:
    """Fit a linear regression on all channels, without spikes: a calibrator that is made quickly."""
    clean = [one.rows(one.flags & Flag.SPIKE == 0) for one in map(flag, train)]
    inputs, target = prepare_inputs(clean, clean, Recipe.preset("default", WINDOW))
    line = linear_regression(clean, inputs, target, len(inputs.channels))
    return replace(line, training_hours=training_hours(line.inputs, clean))


@dataclass(frozen=True)
class FleetUnits:
    """The units and states of every box on every day that is assessed, [boxes, days] each."""

    units: np.ndarray
    states: np.ndarray


Fleets = Mapping[str, Sequence[FleetUnits]]  # by drift


def watch_fleet(days: FleetHours, drift: str, boxes: int) -> FleetUnits:
    """Watch a fleet of the first `boxes` boxes, of which box 0 has this drift."""
    assessed = list(days.assessed(drift, boxes))
    return FleetUnits(*(np.stack([getattr(one, name) for one in assessed], axis=1) for name in ("scores", "states")))


def false_alarms(alarms: Sequence[np.ndarray]) -> float:
    """Count how often alarms [boxes, days] of sound boxes begin, per box and month of thirty days.

    >>> false_alarms([np.array([[True, True, False, True, False]])])
    12.0
    """
    begins = sum(int((one[:, 1:] & ~one[:, :-1]).sum() + one[:, 0].sum()) for one in alarms)
    months = sum(one.size for one in alarms) / 30
    return begins / months


def waits(alarms: Sequence[np.ndarray]) -> np.ndarray:
    """Count the days from the beginning of a drift until the first alarm of box 0, infinite if there is none [fleets].

    >>> waits([np.array([[False] * 5 + [False, True]])])
    array([1.])
    """
    alarm_days = [np.flatnonzero(one[0, DRIFTS_ON - ASSESSED_FROM :]) for one in alarms]
    return np.array([float(days[0]) if len(days) else np.inf for days in alarm_days])


def draw_curves(found: Mapping[SimulatedSetting, Fleets], path: Path) -> Path:
    """Draw drifts found against false alarms as an SVG: a panel per setting, a curve per drift."""
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(2, 2, figsize=(8, 6.4), layout="constrained", sharex=True, sharey=True)
        for axes, (setting, fleets) in zip(panels.flat, found.items(), strict=True):
            for drift in DRIFTS:
                alarms, share = curve(fleets, drift, CURVE_UNITS.tolist()).T
                (line,) = axes.plot(np.maximum(alarms, FEWEST), share, label=drift)
                alarms, share = curve(fleets, drift, list(THRESHOLDS.values())).T
                axes.plot(np.maximum(alarms, FEWEST), share, "o", color=line.get_color(), markersize=4)
            axes.set_xscale("log")
            axes.set_title(setting.name, loc="left")
            axes.set_ylim(-0.03, 1.03)
            axes.spines[["top", "right"]].set_visible(False)
        panels[1, 1].legend(loc="lower right", frameon=False)
        figure.supxlabel("false alarms a box and month (dots: look, re-collocate)")
        figure.supylabel(f"share of drifts found within {FOUND_WITHIN} days")
        with replacing(path) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None})
    plt.close(figure)
    return path


def curve(fleets: Fleets, drift: str, thresholds: Sequence[float]) -> np.ndarray:
    """Compute false alarms and the share of drifts found, at each threshold [thresholds, 2]."""
    pairs = []
    for threshold in thresholds:
        sound, drifting = ([one.units >= threshold for one in fleets[name]] for name in (SOUND, drift))
        pairs.append((false_alarms(sound), float((waits(drifting) < FOUND_WITHIN).mean())))
    return np.array(pairs)
