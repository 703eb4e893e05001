"""The head of the report: what it is about, the numbers looked for first, the choice of a device."""

from collections.abc import Sequence

from scare.report.markup import escape, number, percent, quantity, several
from scare.report.views import View, opening
from scare.scorecard.requirements import GRADES
from scare.scorecard.run import Run


def chooser(views: Sequence[View]) -> str:
    """The list of devices to choose from; nothing for a single one."""
    if len(views) < 2:
        return ""
    options = "".join(_option(index, view, index == opening(views)) for index, view in enumerate(views))
    return f'<label>Device <select id="device" autocomplete="off">{options}</select></label>'


def _option(index: int, view: View, chosen: bool) -> str:
    name = view.name if view.accuracy is not None else f"{view.name} (not scored)"
    return f'<option value="{index}"{" selected" * chosen}>{escape(name)}</option>'


def tiles(run: Run, views: Sequence[View]) -> str:
    """The few numbers a reader looks for first."""
    pooled, of = views[-1], run.target.unit
    found: list[tuple[str, str]] = []
    if pooled.accuracy is not None:
        found.append((quantity(pooled.accuracy.rmse, of), "typical error (RMSE), calibrated"))
        if pooled.raw_accuracy is not None:
            less = 1 - pooled.accuracy.rmse / pooled.raw_accuracy.rmse if pooled.raw_accuracy.rmse else 0.0
            change = f"{percent(abs(less))} {'less' if less >= 0 else 'more'}"
            found.append((change, f"error than the raw reading ({number(pooled.raw_accuracy.rmse)})"))
        found.append((number(pooled.accuracy.r2), "R² (1:1): variance explained, about the 1:1 line"))
    grades = list(run.card.grades().values())
    graded = {sign: grades.count(sign) for sign in GRADES}
    if any(graded.values()):
        found.append(
            ("\u2002".join(f"{count} {sign}" for sign, count in graded.items()), "requirements met, partly, missed")
        )
    if run.card.board:
        fits = "fits" if run.card.board["fits"] else "does not fit"
        found.append((fits, str(run.card.board["title"])))
    return "".join(f"<li><b>{escape(value)}</b><span>{escape(label)}</span></li>" for value, label in found)


def lead(run: Run) -> str:
    """One line that says what is in the report."""
    count = len(run.series)
    named = run.series[0].device if count == 1 else f"{count} devices"
    scored = several(sum(len(one.scored) for one in run.series), "row")
    by = f", calibrated by {run.card.model['model']}" if run.card.model.get("model") else ""
    without = "; rows it was trained on are not among them" if any(one.trained.any() for one in run.series) else ""
    origin = f" The model was made from: {run.card.model['data']}." if run.card.model.get("data") else ""
    return escape(f"{named} beside a reference{by}. Scored: {scored}{without}.{origin}")
