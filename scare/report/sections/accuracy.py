"""Accuracy by device, and of ours beside other methods."""

from collections.abc import Mapping, Sequence
from typing import Any

from scare.data.quantities import display_unit
from scare.report.blocks import Block, Cell, Note, Table
from scare.report.numbers import number
from scare.report.views import View

OURS = "scare"  # how the study's own contenders begin; its room needs JAX, this page does not
ACCURACY = {
    "rmse": "RMSE",
    "top5_rmse": "RMSE at the 5 % fastest changes",
    "mae": "MAE",
    "bias": "bias",
    "slope": "slope",
    "intercept": "intercept",
    "r2": "R² (1:1)",
}


def devices(views: Sequence[View], of: str) -> list[Block]:
    """Accuracy of every device, raw beside calibrated where they have the same unit."""
    rows: list[list[str]] = []
    for view in views:
        for name, score in (("raw", view.raw_accuracy), ("calibrated", view.accuracy)):
            if score is not None:
                cells = [number(getattr(score, column)) for column in ACCURACY]
                rows.append([f"{view.name}, {name}", f"{score.rows:,}", *cells])
    caption = f"Accuracy on the rows scored{f', in {display_unit(of)}' if of else ''}"
    return [Table(caption, ("device", "rows", *ACCURACY.values()), rows)]


def comparison(rows: Sequence[Mapping[str, Any]], views: Sequence[View], of: str) -> list[Block]:
    """The study's contenders, best first at each window; without a study, the raw reading beside ours."""
    if not rows:
        return _before_and_after(views[-1], of)
    blocks: list[Block] = []
    for window in sorted({row.get("window") or 0 for row in rows}):
        here = [row for row in rows if (row.get("window") or 0) == window]
        scored = sorted((row for row in here if row.get("rmse") is not None), key=lambda row: row["rmse"])
        most = max((row["rmse"] for row in scored), default=1.0)
        body = [_contender(row, min(most, 3 * scored[0]["rmse"])) for row in scored]
        head = ("method", "RMSE", "RMSE − scare [95 %]", "5 % fastest", "MAE", "R² (1:1)", "slope", "bytes")
        unit = display_unit(of) or "the target’s unit"
        caption = f"Everyone on the same rows, window of {window:,} readings, errors in {unit}"
        blocks += [Table(caption, head, body)] if body else []
        failed = [row for row in here if row.get("rmse") is None]
        blocks += [Note(f"{row['contender']}: no score: {row.get('failed') or 'not run'}") for row in failed]
    star = "★ less error than every other method, beyond chance. " if any(row.get("winner") for row in rows) else ""
    own = "They were trained for this comparison: none of them is the calibrator of the other sections."
    bars = "A bar is cut at three times the least error. Bytes are those of the weights."
    return [*blocks, Note(f"{own} {star}{bars}")]


def _contender(row: Mapping[str, Any], most: float) -> list[str | Cell]:
    ours = str(row["contender"]).startswith(OURS)
    name = f"{'★ ' * bool(row.get('winner'))}{row['contender']}"
    share = 100 * min(1.0, row["rmse"] / most) if most else 0.0
    spread = f" ± {row['rmse_sd']:.1g}" if row.get("rmse_sd") else ""
    others = (number(row.get(column)) for column in ("top5_rmse", "mae", "r2", "slope", "bytes"))
    error = Cell(f"{number(row['rmse'])}{spread}", bar=round(share), ours=ours)
    return [Cell(name, ours=ours), error, _difference(row), *others]


def _difference(row: Mapping[str, Any]) -> str:
    difference, low, high = (row.get(f"to_ours_{name}") for name in ("difference", "low", "high"))
    if difference is None:
        return ""
    bounds = f" [{low:+.2g}, {high:+.2g}]" if low is not None and high is not None else ""
    return f"{difference:+.2g}{bounds}".replace("-", "−")


def _before_and_after(view: View, of: str) -> list[Block]:
    missing = "No study was given: scare compare trains other methods on the same rows, scare score --study adds them."
    if view.raw_accuracy is None or view.accuracy is None:
        return [Note(f"The raw reading and the reference are not known to be in the same unit. {missing}")]
    scores = {"raw reading": view.raw_accuracy, "calibrated": view.accuracy}
    rows = [[name, *(number(getattr(score, column)) for column in ACCURACY)] for name, score in scores.items()]
    caption = f"{view.name}, in {display_unit(of)}"
    return [Table(caption, ("reading", *ACCURACY.values()), rows), Note(missing)]
