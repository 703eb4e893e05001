"""Correlograms: how well a sensor and a reference agree at every shift of the sensor's clock, a curve a device."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from scare.data.alignment import CrossCorrelation
from scare.files import replacing
from scare.report.templating import render

WIDTH, HEIGHT, MARGIN = 640, 320, 48
COLOURS = ("#d1495b", "#1b1b1b", "#2e6f95", "#6a994e", "#bc6c25", "#7f5539", "#8d99ae", "#5a189a")


def draw_correlogram(found: Mapping[str, CrossCorrelation], path: Path) -> Path:
    """Write an SVG with a curve for each device; its best shift is a dot."""
    reach = max(float(np.abs(one.seconds).max()) for one in found.values()) or 1.0
    curves = [
        {
            "name": name,
            "colour": COLOURS[number % len(COLOURS)],
            "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in _points(one, reach)),
            "best": _place(one.offset.seconds, one.offset.correlation, reach),
        }
        for number, (name, one) in enumerate(found.items())
    ]
    with replacing(path) as temporary:
        page = render("correlogram.svg", curves=curves, reach=reach, width=WIDTH, height=HEIGHT, margin=MARGIN)
        temporary.write_text(page, encoding="utf-8")
    return path


def _points(one: CrossCorrelation, reach: float) -> list[tuple[float, float]]:
    judged = np.isfinite(one.values)
    return [_place(x, y, reach) for x, y in zip(one.seconds[judged].tolist(), one.values[judged].tolist(), strict=True)]


def _place(seconds: float, correlation: float, reach: float) -> tuple[float, float]:
    """Where a shift and its correlation lie in the picture."""
    across, down = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN
    return MARGIN + across * (seconds / reach + 1) / 2, MARGIN + down * (1 - correlation) / 2
