"""The correlogram of `scare align`, drawn as an SVG from a template: no matplotlib is needed to align clocks."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from scare.data.clock import CrossCorrelation
from scare.files import replacing
from scare.report.blocks import render

WIDTH, HEIGHT, MARGIN = 640, 320, 48  # sizes of the picture [px]
COLOURS = ("#d1495b", "#1b1b1b", "#2e6f95", "#6a994e", "#bc6c25", "#7f5539", "#8d99ae", "#5a189a")


def draw_correlogram(correlations: Mapping[str, CrossCorrelation], path: Path) -> Path:
    """Write an SVG of correlation by clock shift, with a curve for each device and a dot at its best shift."""
    reach = max(float(np.abs(curve.seconds).max()) for curve in correlations.values()) or 1.0
    curves = []
    for index, (name, curve) in enumerate(correlations.items()):
        known = np.isfinite(curve.values)
        pairs = zip(curve.seconds[known].tolist(), curve.values[known].tolist(), strict=True)
        points = [_position(seconds, correlation, reach) for seconds, correlation in pairs]
        curves.append(
            {
                "name": name,
                "colour": COLOURS[index % len(COLOURS)],
                "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
                "best": _position(curve.offset.seconds, curve.offset.correlation, reach),
            }
        )
    with replacing(path) as temporary:
        page = render("correlogram.svg", curves=curves, reach=reach, width=WIDTH, height=HEIGHT, margin=MARGIN)
        temporary.write_text(page, encoding="utf-8")
    return path


def _position(seconds: float, correlation: float, reach: float) -> tuple[float, float]:
    """Find the position (x, y) [px] of a shift, from −reach to reach seconds, and its correlation, from −1 to 1."""
    across, down = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN
    return MARGIN + across * (seconds / reach + 1) / 2, MARGIN + down * (1 - correlation) / 2
