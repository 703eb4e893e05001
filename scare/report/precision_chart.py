"""Precision as in EPA's report: how far each unit is from the mean of the units beside it, over that mean."""

from itertools import pairwise

import numpy as np

from scare.data.quantities import display_unit
from scare.report.blocks import number, quantity
from scare.report.uncertainty_charts import DASHES, HEIGHT, MARGIN, MARKS, OF_CLASS, RIGHT, SHOWN, WIDTH, Drawing, ticks
from scare.scorecard.assessment import FEWEST, Assessment
from scare.scorecard.averages import Averaging, common_periods
from scare.scorecard.run_folder import Run

GROUPS = 8  # of the averages, by level
HEADROOM = 1.25  # end of the axis, times the largest difference or the bound


def precision_drawing(run: Run, assessment: Assessment) -> Drawing | None:
    """Draw the differences between units side by side, by the averages of a set of targets; None without them."""
    averaging = Averaging(assessment.average_hours, assessment.completeness, assessment.through_hours)
    averages = {series.device: averaging.of_scored(series) for series in run.series}
    units = {device: means for device, means in averages.items() if len(means) >= FEWEST}
    if assessment.together is None or len(units) < 2:
        return None
    common = common_periods(list(units.values()))
    values = np.array([means.select(common).calibrated for means in units.values()])  # [units, averages]
    mean = values.mean(axis=0)  # of the units [averages]
    differences = values - mean
    order = np.argsort(mean)
    borders = np.linspace(0, len(order), min(GROUPS, len(order)) + 1).astype(int)
    groups = [order[start:end] for start, end in pairwise(borders.tolist())]  # of averages, by level
    levels = [float(np.median(mean[group])) for group in groups]
    medians = np.array([[np.median(of_unit[group]) for group in groups] for of_unit in differences])  # [units, groups]
    largest_sd = min((bounds["sd"][1] for bounds in assessment.classes.values() if "sd" in bounds), default=None)
    top = HEADROOM * max(float(np.abs(medians).max()), largest_sd or 0.0)
    first, last, right = min(0.0, levels[0]), levels[-1], WIDTH - RIGHT

    def to_pixels(x: float, y: float) -> tuple[float, float]:
        share = (x - first) / ((last - first) or 1.0)  # of the axis
        return MARGIN + (right - MARGIN) * share, HEIGHT / 2 - (HEIGHT / 2 - MARGIN) * y / (top or 1.0)

    drawing = Drawing(f"{assessment.title}: units beside each other", "")
    drawing.line(to_pixels(first, -top), to_pixels(first, top))
    drawing.line(to_pixels(first, 0), to_pixels(last, 0), OF_CLASS)
    x_labels = [(to_pixels(x, 0)[0], number(x)) for x in ticks(last, first)] if last > first else []
    y_labels = [(to_pixels(first, y)[1], number(y)) for y in ticks(top, -top)] if top else []
    drawing.label_axes(x_labels, y_labels, f"mean of the units [{display_unit(assessment.unit)}]", "unit − mean", right)
    if largest_sd is not None:
        for y in (-largest_sd, largest_sd):
            drawing.line(to_pixels(first, y), (right + 20, to_pixels(first, y)[1]), OF_CLASS)
            drawing.text((right + 24, to_pixels(first, y)[1] + 4), "largest sd")
    ends = {}
    for letter, dash, of_unit in zip(MARKS, DASHES, medians.tolist(), strict=False):
        drawing.curve((to_pixels(x, y) for x, y in zip(levels, of_unit, strict=True)), dash)
        ends[letter] = to_pixels(levels[-1], of_unit[-1])
    drawing.letters(ends, right + 8)
    named = "; ".join(
        f"{letter} {device}: {quantity(float(of_unit.mean()), assessment.unit)}"
        for letter, device, of_unit in zip(MARKS, units, differences, strict=False)
    )
    hidden = f"; {len(units) - SHOWN} more are not drawn" if len(units) > SHOWN else ""
    drawing.caption = (
        f"Medians of {len(common):,} averages of {assessment.average_hours} h in {len(groups)} groups by level. On"
        f" average above the mean of the units: {named}{hidden}."
    )
    return drawing
