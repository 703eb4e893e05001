"""One HTML page that opens offline: what was calibrated, how well, and a picture."""

import base64
from collections.abc import Mapping
from html import escape
from pathlib import Path

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.manifest import card
from scare.files import replacing
from scare.scorecard.accuracy import Accuracy

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } th, td { padding: .3rem .9rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; } tr.ours td { color: #d1495b; font-weight: 600; }
img { width: 100%; } pre { background: #f6f6f6; padding: 1rem; overflow-x: auto; font-size: .85rem; }
"""
COLUMNS = {"rmse": "RMSE", "top5_rmse": "RMSE at the 5 % fastest changes", "mae": "MAE", "bias": "bias", "r2": "R²"}


def write_page(path: Path, title: str, calibrator: Calibrator, scores: Mapping[str, Accuracy], figure: Path) -> Path:
    """Write the page with the figure inside it; the last score is ours."""
    cost = calibrator.cost()
    image = base64.b64encode(figure.read_bytes()).decode()
    html = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(title)}</title><style>{STYLE}</style></head><body>
<h1>{escape(title)}</h1>
<img alt="raw, reference and calibrated readings" src="data:image/png;base64,{image}">
<h2>Accuracy on readings never seen in training</h2>
{score_table(scores, calibrator.target.unit)}
<h2>Cost of one calibrated reading</h2>
<p>{cost.operations.multiply_adds:,} multiply-adds and {cost.operations.exponentials:,} exponentials;
{cost.weight_bytes:,} bytes of weights, {cost.peak_bytes:,} bytes alive at once (counted from the plan, float32).</p>
<h2>The calibrator</h2>
<pre>{escape(card(calibrator))}</pre>
</body></html>
"""
    with replacing(path) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return path


def score_table(scores: Mapping[str, Accuracy], unit: str) -> str:
    """The scores as an HTML table."""
    head = "".join(f"<th>{name}</th>" for name in COLUMNS.values())
    rows = []
    for index, (name, score) in enumerate(scores.items()):
        cells = "".join(f"<td>{getattr(score, column):.3g}</td>" for column in COLUMNS)
        ours = ' class="ours"' if index == len(scores) - 1 else ""
        rows.append(f"<tr{ours}><td>{escape(name)}</td>{cells}</tr>")
    rows_scored = next(iter(scores.values())).rows
    caption = f"<p>{rows_scored:,} rows{f', in {escape(unit)}' if unit else ''}</p>"
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{caption}"
