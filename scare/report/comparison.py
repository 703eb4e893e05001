"""The figure of a comparison: error of each contender, ours among them, with its spread over seeds."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from scare.data.readings import Channel
from scare.experiments.table import OURS, Row
from scare.files import replacing
from scare.report.figure import OURS as OURS_COLOUR
from scare.report.figure import RAW


def draw_comparison(rows: Sequence[Row], path: Path, reference: Channel | None) -> Path:
    """Write a PNG with one panel a window: RMSE as bars, top-5 % RMSE as marks."""
    windows = sorted({row.window for row in rows})
    tallest = max(sum(row.window == window and row.accuracy is not None for row in rows) for window in windows)
    figure, panels = plt.subplots(
        1, len(windows), figsize=(6 * len(windows), 1.2 + 0.32 * tallest), squeeze=False, layout="constrained", dpi=110
    )
    unit = f" [{reference.unit}]" if reference is not None and reference.unit else ""
    for panel, window in zip(panels[0], windows, strict=True):
        _draw_panel(panel, [row for row in rows if row.window == window and row.accuracy is not None])
        panel.set_title(f"window {window}", loc="left")
        panel.set_xlabel(f"RMSE{unit} (bars), at the 5 % fastest changes (marks)")
    with replacing(path) as temporary:
        figure.savefig(temporary, metadata={"Software": None})
    plt.close(figure)
    return path


def _draw_panel(axes: Axes, rows: Sequence[Row]) -> None:
    ranked = sorted(rows, key=lambda row: -row.accuracy.rmse)  # type: ignore[union-attr]
    names = [row.contender for row in ranked]
    errors = [row.accuracy.rmse for row in ranked]  # type: ignore[union-attr]
    spreads = [row.spread.rmse for row in ranked]  # type: ignore[union-attr]
    colours = [OURS_COLOUR if row.contender.startswith(OURS) else RAW for row in ranked]
    axes.barh(names, errors, xerr=spreads, color=colours, height=0.65)
    axes.scatter([row.accuracy.top5_rmse for row in ranked], names, marker="|", s=80, color="#1b1b1b")  # type: ignore[union-attr]
    axes.set_xlim(0, 3 * sorted(errors)[len(errors) // 2])
    axes.spines[["top", "right"]].set_visible(False)
