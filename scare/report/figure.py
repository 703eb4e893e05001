"""Figures of a calibration: raw, reference and calibrated over time, and against each other."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import CALIBRATED, TIME, Readings
from scare.files import replacing

RAW, REFERENCE, OURS = "#b8b8b8", "#1b1b1b", "#d1495b"
POINTS = 4000  # drawn at most in a scatter plot


def draw_calibration(calibrator: Calibrator, readings: Readings, path: Path) -> Path:
    """Write a PNG with a device's raw, reference and calibrated values."""
    table = calibrator.predict(readings)
    columns = {name: table[name].fill_null(np.nan).to_numpy() for name in (readings.channels[0].name, CALIBRATED)}
    raw, calibrated = columns.values()
    figure, (over_time, against) = plt.subplots(
        1, 2, figsize=(12, 4), width_ratios=(2.6, 1), layout="constrained", dpi=110
    )
    _draw_time(over_time, table[TIME].to_numpy(), raw, readings.targets, calibrated)
    _draw_scatter(against, raw, readings.targets, calibrated)
    unit = f" [{calibrator.target.unit}]" if calibrator.target.unit else ""
    over_time.set_ylabel(f"{calibrator.target.name}{unit}", parse_math=False)
    over_time.set_title(f"{readings.device}: never seen in training", loc="left", parse_math=False)
    with replacing(path) as temporary:
        figure.savefig(temporary, metadata={"Software": None})
    plt.close(figure)
    return path


def _draw_time(axes: Axes, time: np.ndarray, raw: np.ndarray, reference: np.ndarray, ours: np.ndarray) -> None:
    axes.plot(time, raw, color=RAW, linewidth=0.8, label="raw")
    axes.plot(time, reference, color=REFERENCE, linewidth=1.1, label="reference")
    axes.plot(time, ours, color=OURS, linewidth=0.9, label="calibrated")
    axes.set_ylim(0, 1.25 * float(np.nanpercentile(np.concatenate([raw, reference]), 99.5)))
    axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(axes.xaxis.get_major_locator()))
    axes.legend(frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 0.99))
    axes.spines[["top", "right"]].set_visible(False)


def _draw_scatter(axes: Axes, raw: np.ndarray, reference: np.ndarray, ours: np.ndarray) -> None:
    every = max(1, len(reference) // POINTS)
    top = 1.15 * float(np.nanpercentile(reference, 99.8))
    axes.plot([0, top], [0, top], color=REFERENCE, linewidth=0.8)
    axes.scatter(reference[::every], raw[::every], s=3, color=RAW, linewidths=0)
    axes.scatter(reference[::every], ours[::every], s=3, color=OURS, linewidths=0)
    axes.set(xlim=(0, top), ylim=(0, 1.6 * top), xlabel="reference", ylabel="raw, calibrated")
    axes.spines[["top", "right"]].set_visible(False)
