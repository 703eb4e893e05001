"""The page of `scare demo`: what was calibrated and how well, with a picture; one offline HTML file."""

import base64
from collections.abc import Mapping
from pathlib import Path

from scare.calibrator.bundle import card
from scare.calibrator.calibrator import Calibrator
from scare.files import replacing
from scare.report.blocks import render
from scare.scorecard.accuracy import Accuracy

COLUMNS = {"rmse": "RMSE", "top5_rmse": "RMSE at the 5 % fastest changes", "mae": "MAE", "bias": "bias", "r2": "R²"}


def write_page(path: Path, title: str, calibrator: Calibrator, scores: Mapping[str, Accuracy], figure: Path) -> Path:
    """Write the page with the figure embedded; the last score is ours."""
    page = render(
        "demo.html.j2",
        title=title,
        image=base64.b64encode(figure.read_bytes()).decode(),
        columns=COLUMNS,
        scores=scores,
        unit=calibrator.target.unit,
        cost=calibrator.cost(),
        card=card(calibrator),
    )
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path
