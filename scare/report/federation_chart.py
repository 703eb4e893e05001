"""The chart of `scare federate`: what each site gains from the federation, as an offline SVG."""

from collections.abc import Mapping

from scare.data.quantities import display_unit
from scare.report.blocks import number, render

LONGEST = 300.0  # px of a bar
BAR_PITCH, SITE_GAP = 19, 12  # px from one bar to the next; further px between sites
# Bars of a site, by whose rows the regression was fitted to: what they say, and their colour.
BARS = {
    "raw": ("as the sensor reads", "#9a9a9a"),
    "others": ("fitted by the others alone", "#d1495b"),
    "own": ("fitted by the site alone", "#e9c46a"),
    "all": ("fitted by all together", "#6a994e"),
}


def make_federation_chart(errors: Mapping[str, Mapping[str, float | None]], unit: str) -> str:
    """Draw the RMSE at each site, with a bar for each of `BARS` that it has.

    The scale is that of the fitted bars. A raw reading whose bar would be longer than the longest of them is cut off.
    """
    known = [error[name] or 0.0 for error in errors.values() for name in ("others", "own", "all")]
    scale = LONGEST / max([*known, 1e-12])
    bars, y = [], 10  # y: px from the top
    for site, error in errors.items():
        for name, (words, colour) in BARS.items():
            value = error[name]
            if value is not None:
                label = site if name == "others" else ""  # beside a bar that every site has
                bar = {"label": label, "y": y, "colour": colour}
                bars.append({**bar, "width": min(value * scale, LONGEST), "words": f"{number(value)} · {words}"})
                y += BAR_PITCH
        y += SITE_GAP
    return render("federation.svg", bars=bars, height=y + 20, unit=f" [{display_unit(unit)}]" if unit else "")
