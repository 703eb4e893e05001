"""Meteorological effects as in EPA's report: calibrated over reference by temperature, humidity and dew point.

Each point is the median of a bin and each bar its middle half; at 1 the sensor reads what the reference does.
"""

import numpy as np

from scare.report.blocks import number
from scare.report.error_analysis import CENTRAL, FEW_ROWS, round_edges
from scare.report.uncertainty_charts import HEIGHT, MARGIN, WIDTH, Drawing, ticks
from scare.scorecard.run_folder import Run
from scare.scorecard.series import pool

LEAST_SHARE = 0.1  # of the mean reference: a ratio to less than that is noise
MAGNUS = 17.62, 243.12  # of water, in degC (WMO Guide to Meteorological Instruments, annex 4.B)
LEAST_TOP, HEADROOM = 2.0, 1.1  # the end of the axis: at least, and times the largest median


def dew_point(temperature: np.ndarray, humidity: np.ndarray) -> np.ndarray:
    """Compute the dew point [degC] by the Magnus formula from temperature [degC] and relative humidity [%].

    >>> dew_point(np.array([20.0, 20.0]), np.array([100.0, 50.0])).round(1)
    array([20. , 9.3])
    """
    factor, offset = MAGNUS
    with np.errstate(divide="ignore", invalid="ignore"):
        gamma = np.log(humidity / 100) + factor * temperature / (offset + temperature)
    return offset * gamma / (factor - gamma)


def weather_drawings(run: Run) -> list[Drawing]:
    """Return a drawing for each of temperature, humidity and dew point that the run holds."""
    scored = pool([series.scored for series in run.series], "all")
    if not len(scored) or not np.isfinite(scored.reference).any():
        return []
    usable = scored.reference > LEAST_SHARE * np.nanmean(scored.reference)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(usable, scored.calibrated / scored.reference, np.nan)
    conditions = {
        "temperature [°C]": scored.temperature,
        "relative humidity [%]": scored.humidity,
        "dew point [°C]": dew_point(scored.temperature, scored.humidity),
    }
    drawings = (_draw(name, values, ratio) for name, values in conditions.items())
    return [drawing for drawing in drawings if drawing is not None]


def _draw(name: str, values: np.ndarray, ratio: np.ndarray) -> Drawing | None:
    """Draw the ratio [rows] over a condition's values [rows], in bins; None if too few rows have both."""
    known = np.isfinite(values) & np.isfinite(ratio)
    if known.sum() < FEW_ROWS or np.ptp(values[known]) == 0:
        return None
    edges = round_edges(*np.percentile(values[known], CENTRAL).tolist())
    bin_of_row = np.clip(np.searchsorted(edges, values[known], side="right") - 1, 0, len(edges) - 2)
    first, last = float(edges[0]), float(edges[-1])
    bins = [ratio[known][bin_of_row == index] for index in range(len(edges) - 1)]
    # Of each bin with enough rows: its centre, and the three quartiles of its ratios.
    quartiles = {
        float(edges[index] + edges[index + 1]) / 2: np.percentile(ratios, [25, 50, 75]).tolist()
        for index, ratios in enumerate(bins)
        if len(ratios) >= FEW_ROWS
    }
    if not quartiles:
        return None
    top = max([LEAST_TOP, *(median * HEADROOM for _, median, _ in quartiles.values())])

    def to_pixels(x: float, share: float) -> tuple[float, float]:
        across = MARGIN + (WIDTH - 2 * MARGIN) * (x - first) / (last - first)
        return across, HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * min(max(share, 0.0), top) / top

    drawing = Drawing(f"Calibrated over reference by {name.split(' [')[0]}", "")
    drawing.line(to_pixels(first, 0), to_pixels(last, 0))
    drawing.line(to_pixels(first, 0), to_pixels(first, top))
    drawing.line(to_pixels(first, 1), to_pixels(last, 1), "4 4")
    x_labels = [(to_pixels(x, 0)[0], number(x)) for x in ticks(last, first)]
    y_labels = [(to_pixels(first, share)[1], number(share)) for share in ticks(top)]
    drawing.label_axes(x_labels, y_labels, name, "calibrated / reference", right=WIDTH - MARGIN)
    medians = {centre: median for centre, (_, median, _) in quartiles.items()}
    for centre, (low, median, high) in quartiles.items():
        drawing.line(to_pixels(centre, low), to_pixels(centre, high))
        drawing.dot(to_pixels(centre, median))
    drawing.curve(to_pixels(centre, median) for centre, median in medians.items())
    lowest, highest = min(medians, key=lambda centre: medians[centre]), max(medians, key=lambda centre: medians[centre])
    drawing.caption = (
        f"The median ratio of a bin is lowest, {number(medians[lowest])}, around {number(lowest)} and highest,"
        f" {number(medians[highest])}, around {number(highest)}; bars are the middle half of the rows."
    )
    return drawing
