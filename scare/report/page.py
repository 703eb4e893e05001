"""The HTML pages: the report of a run, and the pages of `scare watch` and `scare demo`.

Each is one file that works offline. The report's content security policy forbids any request:

    run folder ──► chart_data (views: numbers, captions) ──► data for the script ─┐
              └──► sections (tables, notes) ──────────────────────────────────────┴─► report.html
"""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

from markupsafe import Markup

from scare import __version__
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.model_card import model_card
from scare.data.quantities import display_unit
from scare.files import PAGES, UPLOT, replacing
from scare.report import sections
from scare.report.blocks import Badge, Block, Cell, Note, ReportTable, render, shorten
from scare.report.chart_data import View, make_views, opening
from scare.report.deployment import Deployment, deployment_blocks
from scare.report.drawings import Drawing, weather_drawings
from scare.report.files import write_tables
from scare.report.index_section import index_blocks
from scare.report.targets import class_lines, precision, targets
from scare.schema import nan_to_none
from scare.scorecard.accuracy import Accuracy
from scare.scorecard.run_folder import Run
from scare.scorecard.targets import title
from scare.upkeep.drift import ALARM_DAYS, BoxReport, DriftState, FleetReport
from scare.words import plural

ASSETS = Path(__file__).with_name("assets")
CONTENTS = {
    "readings": "Readings",
    "deployment": "Deployment and siting",
    "accuracy": "Accuracy",
    "precision": "Precision",
    "weather": "Meteorological effects",
    "targets": "Targets",
    "index": "Air quality index",
    "scorecard": "Scorecard",
    "coverage": "Interval coverage",
    "comparison": "Other methods",
    "board": "Board",
    "selection": "Model selection",
    "quality": "Data quality",
    "provenance": "Provenance",
}
DAY = 86400  # s
BADGES = {
    DriftState.UNKNOWN: "none",
    DriftState.FINE: "good",
    DriftState.LOOK: "fair",
    DriftState.RECOLLOCATE: "bad",
}  # kinds of badges
WIDTH, HEIGHT, TOP = 300, 60, 4.0  # the small chart of a box: size [px], and the expected error at its upper edge
ABOUT_WATCH = (
    "Expected error: how many times as wide the intervals of the last days are as those of the first days, because of"
    " the air that the box reads. Drift: how the box has changed relative to the others, which weather and season do"
    f" not count for. A box needs a look or re-collocation if it has changed by one unit or more on {ALARM_DAYS}"
    " successive days, which is rare. Neither measures the error: only a reference can."
)
DEMO_COLUMNS = {
    "rmse": "RMSE",
    "top5_rmse": "RMSE at the 5 % fastest changes",
    "mae": "MAE",
    "bias": "bias",
    "r2": "R²",
}


def write_report(
    run: Run,
    path: Path,
    progress: Callable[[str], None] = lambda name: None,
    deployment: Deployment | None = None,
) -> Path:
    """Write the report of a run and its tables; `progress` is called with the name of each device that is done."""
    views = []
    for view in make_views(run):
        views.append(view)
        progress(view.name)
    content: dict[str, Sequence[Block | Drawing]] = {
        "devices": sections.devices(views, run.target.unit),
        "precision": precision(run),
        "targets": targets(run),
        "index": index_blocks(run),
        "scorecard": sections.scorecard(run.card),
        "coverage": sections.coverage(run),
        "comparison": sections.comparison(run.card.comparison, views, run.target.unit),
        "board": sections.board(run.card.board),
        "selection": sections.selection(run),
        "quality": sections.quality(run),
    }
    page = _make_page(run, views, content, deployment)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    blocks = chain.from_iterable(content.values())
    write_tables((block for block in blocks if isinstance(block, ReportTable)), path)
    return path


def _make_page(
    run: Run,
    views: Sequence[View],
    content: Mapping[str, Sequence[Block | Drawing]],
    deployment: Deployment | None,
) -> str:
    """Render the report as HTML.

    The last of `views` is that of all devices together; `content` has the blocks of each section that has tables.
    """
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
        lead=sections.lead(run),
        verdict=run.card.verdict,
        classes=class_lines(run.card.assessments),
        tiles=sections.tiles(run, views),
        contents=CONTENTS,
        choices=sections.choices(views),
        opening=opening(views),
        deployment=deployment_blocks(deployment),
        weather=weather_drawings(run),
        provenance=sections.provenance(run),
        version=__version__,
        data=Markup(as_script_data(data)),
        card=Markup(as_script_data(run.card.as_dict())),
        css=style(),
        uplot_css=_asset(UPLOT / "uPlot.min.css"),
        licence=_asset(UPLOT / "LICENSE"),
        script_hashes=Markup(" ".join(_hash(text) for text in scripts.values())),
        **scripts,
        **{name: list(shorten(blocks)) for name, blocks in content.items()},
    )


def style() -> Markup:
    """Read the colours and the style sheet that all pages share."""
    return _asset(PAGES / "palette.css") + _asset("report.css")


def as_script_data(value: Any) -> str:
    r"""Serialise as JSON that is safe inside a <script> element: it cannot close the element.

    >>> as_script_data({"name": "</script>"})
    '{"name":"\\u003c/script>"}'
    """
    text = json.dumps(nan_to_none(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
    return text.replace("<", "\\u003c")


def _hash(script: str) -> str:
    """Compute the source by which a Content-Security-Policy allows an inline script: 'sha256-…'."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _asset(name: str | Path) -> Markup:
    """Read a file of the package, to go into the page unescaped."""
    return Markup((ASSETS / name).read_text(encoding="utf-8").strip())


# --- `scare watch` ---


def make_watch_page(watched: FleetReport, calibrator: Calibrator) -> str:
    """Render the page of `scare watch`: the error to expect of each box, which of them drift, and the evidence."""
    target = calibrator.target
    heading = f"{target.name}{f' [{display_unit(target.unit)}]' if target.unit else ''}"
    first, last = _date(watched.first), _date(watched.first + watched.days - 1)
    head = ("box", "expected error", "drift", "days", "evidence")
    table = ReportTable("All boxes, worst first", head, [_row(box) for box in watched.boxes], "words")
    sentences = [*watched.notes, *([watched.schedule] if watched.schedule else [])]
    notes = [Note(f"{sentence[0].upper()}{sentence[1:]}.") for sentence in sentences]
    blocks: list[Block] = [table, *notes, Note(ABOUT_WATCH)]
    return render(
        "watch.html.j2",
        title=f"Fleet watch: {heading}",
        heading=heading,
        lead=f"{plural(len(watched.boxes), 'device')}, {first} to {last} (UTC).",
        tiles=[(str(count), words) for words, count in count_states(watched).items()],
        boxes=blocks,
        charts=[_chart(box) for box in watched.boxes],
        level=round(_height(1.0), 1),
        width=WIDTH,
        height=HEIGHT,
        version=__version__,
        css=style(),
    )


def count_states(watched: FleetReport) -> dict[str, int]:
    """Count the boxes in each state, the worst first."""
    return {state.label: sum(box.state is state for box in watched.boxes) for state in reversed(DriftState)}


def watch_as_dict(watched: FleetReport) -> dict[str, Any]:
    """Return the contents of the page of `scare watch` as plain values, for JSON."""
    return {
        "first_day": _date(watched.first),
        "last_day": _date(watched.first + watched.days - 1),
        "states": count_states(watched),
        "boxes": [
            {
                "device": box.device,
                "expected_error": _rounded(box.expected_error),
                "state": box.state.label,
                "units": round(box.score, 3),
                "days": box.days,
                "evidence": [vars(piece) for piece in box.evidence],
                "expected_error_by_day": [_rounded(expected) for expected in box.history],
            }
            for box in watched.boxes
        ],
        "notes": list(watched.notes),
        "schedule": watched.schedule,
    }


def _date(day: int) -> str:
    """Return the date of a day since 1970."""
    return f"{datetime.fromtimestamp(day * DAY, UTC):%Y-%m-%d}"


def _rounded(expected: float) -> float | None:
    """Round an expected error for JSON; None if it is not known."""
    return round(expected, 3) if isfinite(expected) else None


def _row(box: BoxReport) -> list[str | Cell]:
    """Make a box's row of the table: name, expected error, drift, days with data, evidence."""
    badge = Cell("", badge=Badge(BADGES[box.state], box.state.label))
    sentences = "; ".join(piece.sentence for piece in box.evidence)
    return [box.device, box.expected_words, badge, str(box.days), sentences]


def _chart(box: BoxReport) -> dict[str, Any]:
    """Make a box's small chart: its expected error as a line over days, and a sentence for screen readers."""
    step = WIDTH / max(1, len(box.history) - 1)
    known = [(day, expected) for day, expected in enumerate(box.history) if isfinite(expected)]
    points = " ".join(f"{day * step:.1f},{_height(expected):.1f}" for day, expected in known)
    largest = f"at most {max(expected for _, expected in known):.2g}" if known else "not known"
    words = f"{box.device}: expected error {box.expected_words} on the last day, {largest}"
    return {"device": box.device, "points": points, "words": words, "kind": BADGES[box.state]}


def _height(expected: float) -> float:
    """Find the vertical position [px] of an expected error; the chart ends at `TOP`."""
    return HEIGHT * (1 - min(expected, TOP) / TOP)


# --- `scare demo` ---


def write_demo_page(
    path: Path, title: str, calibrator: Calibrator, scores: Mapping[str, Accuracy], figure: Path
) -> Path:
    """Write the page of `scare demo`: scores of each method, the last of which is ours, and the figure embedded."""
    page = render(
        "demo.html.j2",
        title=title,
        image=base64.b64encode(figure.read_bytes()).decode(),
        columns=DEMO_COLUMNS,
        scores=scores,
        unit=calibrator.target.unit,
        cost=calibrator.cost(),
        card=model_card(calibrator),
    )
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path
