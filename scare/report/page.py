"""The report of a run: one HTML file that works offline, with a content policy that forbids any request.

run folder ──► charts (views: numbers, captions) ──► data for the script ─┐
└──► sections (tables, notes) ──────────────────────────────────┴─► report.html
"""

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from scare import __version__
from scare.data.quantities import display_unit
from scare.files import PAGES, UPLOT, replacing
from scare.records import nan_to_none
from scare.report.blocks import render
from scare.report.charts import View, make_views, opening
from scare.report.sections import (
    board,
    choices,
    comparison,
    coverage,
    devices,
    epa_targets,
    lead,
    provenance,
    quality,
    scorecard,
    selection,
    tiles,
)
from scare.scorecard.agency_targets import title
from scare.scorecard.run import Run

ASSETS = Path(__file__).with_name("assets")
CONTENTS = {
    "scorecard": "Scorecard",
    "readings": "Readings",
    "coverage": "Interval coverage",
    "comparison": "Other methods",
    "board": "Board",
    "targets": "EPA targets",
    "selection": "Model selection",
    "quality": "Data quality",
    "provenance": "Provenance",
}


def write_report(run: Run, path: Path, progress: Callable[[str], None] = lambda name: None) -> Path:
    """Write the report of a run; `progress` is called with the name of each device that is done."""
    views = []
    for view in make_views(run):
        views.append(view)
        progress(view.name)
    page = make_page(run, views)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path


def make_page(run: Run, views: Sequence[View]) -> str:
    """The page as HTML; the last view is that of all devices."""
    scripts = {"uplot_js": _asset(UPLOT / "uPlot.iife.min.js"), "js": _asset("report.js")}
    heading = f"{title(run.target)}{f' [{display_unit(run.target.unit)}]' if run.target.unit else ''}"
    data = {
        "target": title(run.target),
        "unit": display_unit(run.target.unit),
        "raw": run.raw.name,
        "rawUnit": display_unit(run.raw.unit),
        "comparable": run.comparable,
        "humidity": run.humidity.name if run.humidity else "",
        "opening": opening(views),
        "views": [view.as_dict() for view in views],
    }
    return render(
        "report.html.j2",
        title=f"Calibration report: {heading}",
        heading=heading,
        lead=lead(run),
        tiles=tiles(run, views),
        contents=CONTENTS,
        scorecard=scorecard(run.card),
        choices=choices(views),
        opening=opening(views),
        devices=devices(views, run.target.unit),
        coverage=coverage(run),
        comparison=comparison(run.card.comparison, views, run.target.unit),
        board=board(run.card.board),
        targets=epa_targets(run),
        selection=selection(run),
        quality=quality(run),
        provenance=provenance(run),
        version=__version__,
        data=Markup(as_script_data(data)),
        card=Markup(as_script_data(run.card.as_dict())),
        css=style(),
        uplot_css=_asset(UPLOT / "uPlot.min.css"),
        licence=_asset(UPLOT / "LICENSE"),
        script_hashes=Markup(" ".join(_hash(text) for text in scripts.values())),
        **scripts,
    )


def style() -> Markup:
    """The colours and the style sheet of our pages."""
    return _asset(PAGES / "palette.css") + _asset("report.css")


def as_script_data(value: Any) -> str:
    r"""JSON that is safe inside a <script> element: it cannot close the element.

    >>> as_script_data({"name": "</script>"})
    '{"name":"\\u003c/script>"}'
    """
    text = json.dumps(nan_to_none(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
    return text.replace("<", "\\u003c")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _asset(name: str | Path) -> Markup:
    """A file of ours, put into the page unescaped."""
    return Markup((ASSETS / name).read_text(encoding="utf-8").strip())
