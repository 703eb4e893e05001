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
import polars as pl

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
    USUAL_DAYS,
    Assessment,
    DriftMeter,
    align_boxes,
    assess,
    box_hours,
    drift_meter,
    lasting,
    periods,
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
    "jump": Drift(DriftKind.OFFSET, ramp_days=0, size=15.0),
}
STUCK = "stuck"  # the sensor repeats its last reading
FAULTS = (*DRIFTS, STUCK)


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
            np.savez(file, sound=days.sound, channels=np.array(days.drift_meter.channels), **named)
    with np.load(path) as kept:
        meter = DriftMeter(tuple(map(str, kept["channels"])))
        return FleetHours(meter, kept["sound"], {name: kept[f"drift {name}"] for name in FAULTS})


def _simulate(setting: SimulatedSetting, seed: int) -> FleetHours:
    """Fit a line to boxes side by side, then simulate the same boxes deployed, with and without each drift."""
    simulation = Simulation(BOXES, TRAINED_DAYS + WATCHED_DAYS, STEP_SECONDS, setting.kind, seed)
    deployed = simulation.start.timestamp() + TRAINED_DAYS * DAY
    calibrator = fit_line([one.rows(one.times < deployed) for one in simulate(simulation)])
    town = replace(simulation, place_spread=setting.apart)

    def deploy(box: int, *drifts: Drift) -> Readings:
        readings = simulate_box(replace(town, drifts=drifts), box).readings
        return readings.rows(readings.times >= deployed)

    def hours(*boxes: Readings) -> np.ndarray:
        return align_boxes([(one.device, *box_hours(calibrator, one)) for one in boxes]).values

    sound = [deploy(box) for box in range(BOXES)]
    begins = TRAINED_DAYS + DRIFTS_ON
    drifted = {name: hours(deploy(0, replace(drift, day=begins)))[0] for name, drift in DRIFTS.items()}
    drifted[STUCK] = hours(freeze(sound[0], deployed + DRIFTS_ON * DAY))[0]
    return FleetHours(DriftMeter(drift_meter(calibrator).channels), hours(*sound), drifted)


def freeze(readings: Readings, since: float) -> Readings:
    """Let the first channel repeat its last known reading before a time (seconds since 1970) from then on."""
    sensor = pl.col(readings.channels[0].name)
    is_before = pl.Series(readings.times < since)
    last = readings.frame.filter(is_before)[readings.channels[0].name].drop_nulls()[-1]
    frozen = pl.when(is_before).then(sensor).otherwise(pl.lit(last))
    return replace(readings, frame=readings.frame.with_columns(frozen.alias(readings.channels[0].name)))


def fit_line(train: Sequence[Readings]) -> Calibrator:
    """Fit a linear regression on all channels, without spikes: a calibrator that is made quickly."""
    clean = [one.rows(one.flags & Flag.SPIKE == 0) for one in map(flag, train)]
    inputs, target = prepare_inputs(clean, clean, Recipe.preset("default", WINDOW))
    return linear_regression(clean, inputs, target, len(inputs.channels))


@dataclass(frozen=True)
class FleetUnits:
    """The units of every box by day, and the states that have lasted [boxes, days]."""

    units: np.ndarray
    states: np.ndarray


Fleets = Mapping[str, Sequence[FleetUnits]]  # by drift


def watch_fleet(days: FleetHours, drift: str, boxes: int) -> FleetUnits:
    """Watch a fleet of the first `boxes` boxes, of which box 0 has this drift."""
    assessed = list(days.assessed(drift, boxes))
    units, states = (np.stack([getattr(one, name) for one in assessed], axis=1) for name in ("scores", "states"))
    return FleetUnits(units, lasting(states))


def begins(alarms: np.ndarray) -> np.ndarray:
    """Return on which days alarms [boxes, days] begin.

    >>> begins(np.array([[True, True, False, True]]))
    array([[ True, False, False,  True]])
    """
    before = np.concatenate([np.zeros((len(alarms), 1), bool), alarms[:, :-1]], axis=1)
    return np.asarray(alarms & ~before)


def false_alarms(alarms: Sequence[np.ndarray]) -> float:
    """Count how often alarms [boxes, days] of sound boxes begin, per box and month of thirty days.

    >>> false_alarms([np.array([[True, True, False, True, False]])])
    12.0
    """
    return sum(int(begins(one).sum()) for one in alarms) / (sum(one.size for one in alarms) / 30)


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
            for drift in FAULTS:
                rates, share = curve(fleets, drift, CURVE_UNITS.tolist()).T
                (line,) = axes.plot(np.maximum(rates, FEWEST), share, label=drift)
                rates, share = curve(fleets, drift, [1.0]).T
                axes.plot(np.maximum(rates, FEWEST), share, "o", color=line.get_color(), markersize=4)
            axes.set_xscale("log")
            axes.set_title(setting.name, loc="left")
            axes.set_ylim(-0.03, 1.03)
            axes.spines[["top", "right"]].set_visible(False)
        panels[1, 1].legend(loc="lower right", frameon=False)
        figure.supxlabel("false alarms a box and month (dots: one alarm unit)")
        figure.supylabel(f"share of drifts found within {FOUND_WITHIN} days")
        with replacing(path) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None})
    plt.close(figure)
    return path


def alarms(units: np.ndarray, threshold: float) -> np.ndarray:
    """Return on which days boxes have an alarm [boxes, days] if it needs this many units instead of one."""
    return np.asarray(lasting((units >= threshold).astype(int)) > 0)


def curve(fleets: Fleets, drift: str, thresholds: Sequence[float]) -> np.ndarray:
    """Compute false alarms and the share of drifts found, at each threshold [thresholds, 2]."""
    pairs = []
    for threshold in thresholds:
        sound, drifting = ([alarms(one.units, threshold) for one in fleets[name]] for name in (SOUND, drift))
        pairs.append((false_alarms(sound), float((waits(drifting) < FOUND_WITHIN).mean())))
    return np.array(pairs)
