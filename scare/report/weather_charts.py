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
    scored = pool([one.scored for one in run.series], "all")
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
    drawn = (_draw(name, values, ratio) for name, values in conditions.items())
    return [one for one in drawn if one is not None]


def _draw(name: str, values: np.ndarray, ratio: np.ndarray) -> Drawing | None:
    """Draw the ratio [rows] over a condition's values [rows], in bins; None if too few rows have both."""
    known = np.isfinite(values) & np.isfinite(ratio)
    if known.sum() < FEW_ROWS or np.ptp(values[known]) == 0:
        return None
    edges = round_edges(*np.percentile(values[known], CENTRAL).tolist())
    bin_of_row = np.clip(np.searchsorted(edges, values[known], side="right") - 1, 0, len(edges) - 2)
    first, last = float(edges[0]), float(edges[-1])
    bins = [ratio[known][bin_of_row == index] for index in range(len(edges) - 1)]
    # Of each bin the quartiles, the second of which is the median; None for too few rows.
    quartiles = [np.percentile(rows, [25, 50, 75]).tolist() if len(rows) >= FEW_ROWS else None for rows in bins]
    top = max([LEAST_TOP, *(quartile[1] * HEADROOM for quartile in quartiles if quartile)])

    def place(x: float, share: float) -> tuple[float, float]:
        across = MARGIN + (WIDTH - 2 * MARGIN) * (x - first) / (last - first)
        return across, HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * min(max(share, 0.0), top) / top

    drawing = Drawing(f"Calibrated over reference by {name.split(' [')[0]}", "")
    drawing.line(place(first, 0), place(last, 0))
    drawing.line(place(first, 0), place(first, top))
    drawing.line(place(first, 1), place(last, 1), "4 4")
    for share in ticks(top):
        drawing.text((MARGIN - 4, place(first, share)[1] + 4), number(share), "end")
    for x in ticks(last, first):
        drawing.text((place(x, 0)[0], HEIGHT - MARGIN + 16), number(x), "middle")
    drawing.text((WIDTH / 2, HEIGHT - 10), name, "middle")
    drawing.text((MARGIN - 36, MARGIN - 30), "calibrated / reference")
    medians: list[tuple[float, float]] = []
    for index, quartile in enumerate(quartiles):
        if quartile is None:
            continue
        low, middle, high = quartile
        centre = float(edges[index] + edges[index + 1]) / 2
        drawing.line(place(centre, low), place(centre, high))
        drawing.dot(place(centre, middle))
        medians.append((centre, middle))
    if not medians:
        return None
    drawing.curve(place(*pair) for pair in medians)
    lowest, highest = min(medians, key=lambda pair: pair[1]), max(medians, key=lambda pair: pair[1])
    drawing.caption = (
        f"The median ratio of a bin is lowest, {number(lowest[1])}, around {number(lowest[0])} and highest,"
        f" {number(highest[1])}, around {number(highest[0])}; bars are the middle half of the rows."
    )
    return drawing
