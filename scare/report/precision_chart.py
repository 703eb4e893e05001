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


def precision_drawing(run: Run, one: Assessment) -> Drawing | None:
    """Draw the differences between units side by side, by the averages of a set of targets; None without them."""
    averaging = Averaging(one.average_hours, one.completeness, one.through_hours)
    of = {series.device: averaging.of_scored(series) for series in run.series}
    found = {device: means for device, means in of.items() if len(means) >= FEWEST}
    if one.together is None or len(found) < 2:
        return None
    common = common_periods(list(found.values()))
    values = np.array([means.select(common).calibrated for means in found.values()])  # [units, averages]
    middle = values.mean(axis=0)
    order = np.argsort(middle)
    borders = np.linspace(0, len(order), min(GROUPS, len(order)) + 1).astype(int)
    groups = [order[start:end] for start, end in pairwise(borders.tolist())]
    across = [float(np.median(middle[group])) for group in groups]
    apart = np.array([[np.median((own - middle)[group]) for group in groups] for own in values])
    spread = min((bounds["sd"][1] for bounds in one.classes.values() if "sd" in bounds), default=None)
    top = HEADROOM * max(float(np.abs(apart).max()), spread or 0.0)
    first, last, right = min(0.0, across[0]), across[-1], WIDTH - RIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        wide = (x - first) / ((last - first) or 1.0)
        return MARGIN + (right - MARGIN) * wide, HEIGHT / 2 - (HEIGHT / 2 - MARGIN) * y / (top or 1.0)

    drawing = Drawing(f"{one.title}: units beside each other", "")
    drawing.line(place(first, -top), place(first, top))
    drawing.line(place(first, 0), place(last, 0), OF_CLASS)
    for y in ticks(top, -top) if top else []:
        drawing.text((MARGIN - 5, place(first, y)[1] + 4), number(y), "end")
    for x in ticks(last, first) if last > first else []:
        drawing.text((place(x, 0)[0], HEIGHT - MARGIN + 16), number(x), "middle")
    drawing.text(((MARGIN + right) / 2, HEIGHT - 10), f"mean of the units [{display_unit(one.unit)}]", "middle")
    drawing.text((MARGIN - 36, MARGIN - 30), "unit − mean")
    if spread is not None:
        for y in (-spread, spread):
            drawing.line(place(first, y), (right + 20, place(first, y)[1]), OF_CLASS)
            drawing.text((right + 24, place(first, y)[1] + 4), "largest sd")
    ends = {}
    for letter, dash, own in zip(MARKS, DASHES, apart.tolist(), strict=False):
        drawing.curve((place(x, y) for x, y in zip(across, own, strict=True)), dash)
        ends[letter] = place(across[-1], own[-1])
    drawing.letters(ends, right + 8)
    named = "; ".join(
        f"{letter} {device}: {quantity(float((own - middle).mean()), one.unit)}"
        for letter, (device, own) in zip(MARKS, zip(found, values, strict=True), strict=False)
    )
    more = f"; {len(found) - SHOWN} more are not drawn" if len(found) > SHOWN else ""
    drawing.caption = (
        f"Medians of {len(common):,} averages of {one.average_hours} h in {len(groups)} groups by level. On average"
        f" above the mean of the units: {named}{more}."
    )
    return drawing
