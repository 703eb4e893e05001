"""The picture of drift.py: drifts found against false alarms, for every threshold; a panel per setting."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from benchmarks.accuracy_picture import STYLE
from benchmarks.drift_fleets import DRIFTS, FOUND_WITHIN, SOUND, FleetUnits, SimulatedSetting, false_alarms, waits
from scare.files import replacing
from scare.upkeep.drift import THRESHOLDS

Fleets = Mapping[str, Sequence[FleetUnits]]  # by drift
CURVE_UNITS = np.geomspace(0.3, 6, 60)
FEWEST = 0.003  # false alarms at the left edge


def draw_curves(found: Mapping[SimulatedSetting, Fleets], path: Path) -> Path:
    """Write an SVG."""
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(2, 2, figsize=(8, 6.4), layout="constrained", sharex=True, sharey=True)
        for axes, (setting, fleets) in zip(panels.flat, found.items(), strict=True):
            _draw(axes, setting, fleets)
        panels[1, 1].legend(loc="lower right", frameon=False)
        figure.supxlabel("false alarms a box and month (dots: look, re-collocate)")
        figure.supylabel(f"share of drifts found within {FOUND_WITHIN} days")
        with replacing(path) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None})
    plt.close(figure)
    return path


def curve(fleets: Fleets, drift: str, thresholds: Sequence[float]) -> np.ndarray:
    """False alarms and the share found, at each threshold [thresholds, 2]."""
    pairs = []
    for least in thresholds:
        sound, worn = ([one.units >= least for one in fleets[name]] for name in (SOUND, drift))
        pairs.append((false_alarms(sound), float((waits(worn) < FOUND_WITHIN).mean())))
    return np.array(pairs)


def _draw(axes: Axes, setting: SimulatedSetting, fleets: Fleets) -> None:
    for drift in DRIFTS:
        alarms, share = curve(fleets, drift, CURVE_UNITS.tolist()).T
        (line,) = axes.plot(np.maximum(alarms, FEWEST), share, label=drift)
        alarms, share = curve(fleets, drift, list(THRESHOLDS.values())).T
        axes.plot(np.maximum(alarms, FEWEST), share, "o", color=line.get_color(), markersize=4)
    axes.set_xscale("log")
    axes.set_title(setting.name, loc="left")
    axes.set_ylim(-0.03, 1.03)
    axes.spines[["top", "right"]].set_visible(False)
