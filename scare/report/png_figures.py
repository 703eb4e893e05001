"""PNG figures (matplotlib): a calibrated device over time and as a scatter plot, and the methods of a comparison."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import CALIBRATED, TIME, Channel, Readings
from scare.experiments.comparison_table import OURS, Row
from scare.files import replacing

matplotlib.use("Agg")

RAW, REFERENCE, OURS_COLOUR = "#b8b8b8", "#1b1b1b", "#d1495b"
POINTS = 4000  # most points in a scatter plot


def draw_calibration(calibrator: Calibrator, readings: Readings, path: Path) -> Path:
    """Write a PNG of a device's raw, reference and calibrated values: over time, and against the reference."""
    table = calibrator.predict(readings)
    raw, calibrated = (table[name].fill_null(np.nan).to_numpy() for name in (readings.channels[0].name, CALIBRATED))
    figure, (over_time, against) = plt.subplots(
        1, 2, figsize=(12, 4), width_ratios=(2.6, 1), layout="constrained", dpi=110
    )
    time, reference = table[TIME].to_numpy(), readings.targets
    over_time.plot(time, raw, color=RAW, linewidth=0.8, label="raw")
    over_time.plot(time, reference, color=REFERENCE, linewidth=1.1, label="reference")
    over_time.plot(time, calibrated, color=OURS_COLOUR, linewidth=0.9, label="calibrated")
    # Axes leave out the highest spikes and end a little above the rest.
    over_time.set_ylim(0, 1.25 * float(np.nanpercentile(np.concatenate([raw, reference]), 99.5)))
    over_time.xaxis.set_major_formatter(mdates.ConciseDateFormatter(over_time.xaxis.get_major_locator()))
    over_time.legend(frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 0.99))
    every = max(1, len(reference) // POINTS)
    top = 1.15 * float(np.nanpercentile(reference, 99.8))
    against.plot([0, top], [0, top], color=REFERENCE, linewidth=0.8)
    against.scatter(reference[::every], raw[::every], s=3, color=RAW, linewidths=0)
    against.scatter(reference[::every], calibrated[::every], s=3, color=OURS_COLOUR, linewidths=0)
    against.set(xlim=(0, top), ylim=(0, 1.6 * top), xlabel="reference", ylabel="raw, calibrated")
    for axes in (over_time, against):
        axes.spines[["top", "right"]].set_visible(False)
    unit = f" [{calibrator.target.unit}]" if calibrator.target.unit else ""
    over_time.set_ylabel(f"{calibrator.target.name}{unit}", parse_math=False)
    over_time.set_title(f"{readings.device}: never seen in training", loc="left", parse_math=False)
    with replacing(path) as temporary:
        figure.savefig(temporary, metadata={"Software": None})
    plt.close(figure)
    return path


def draw_comparison(rows: Sequence[Row], path: Path, reference: Channel | None) -> Path:
    """Write a PNG with one panel per window: bars of RMSE with its deviation over seeds, and marks of top-5 % RMSE."""
    windows = sorted({row.window for row in rows})
    tallest = max(sum(row.window == window and row.accuracy is not None for row in rows) for window in windows)
    figure, panels = plt.subplots(
        1, len(windows), figsize=(6 * len(windows), 1.2 + 0.32 * tallest), squeeze=False, layout="constrained", dpi=110
    )
    unit = f" [{reference.unit}]" if reference is not None and reference.unit else ""
    for panel, window in zip(panels[0], windows, strict=True):
        scores = [
            (row.accuracy.rmse, row.spread.rmse, row.accuracy.top5_rmse, row.method)
            for row in rows
            if row.window == window and row.accuracy and row.spread
        ]
        errors, spreads, fast_errors, names = zip(*sorted(scores, reverse=True), strict=True)  # the best on top
        colours = [OURS_COLOUR if name.startswith(OURS) else RAW for name in names]
        panel.barh(names, errors, xerr=spreads, color=colours, height=0.65)
        panel.scatter(fast_errors, names, marker="|", s=80, color=REFERENCE)
        panel.set_xlim(0, 3 * sorted(errors)[len(errors) // 2])  # a very large error does not flatten the others
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_title(f"window {window}", loc="left")
        panel.set_xlabel(f"RMSE{unit} (bars), at the 5 % fastest changes (marks)")
    with replacing(path) as temporary:
        figure.savefig(temporary, metadata={"Software": None})
    plt.close(figure)
    return path
