"""The head of the report: what it is about, the numbers looked for first, the choice of a device."""

from collections.abc import Sequence

from scare.report.numbers import number, percent, quantity, several
from scare.report.views import View
from scare.scorecard.requirements import GRADES
from scare.scorecard.run import Run


def choices(views: Sequence[View]) -> list[str]:
    """The devices to choose from; none where there is a single one."""
    names = [view.name if view.accuracy is not None else f"{view.name} (not scored)" for view in views]
    return names if len(views) > 1 else []


def tiles(run: Run, views: Sequence[View]) -> list[tuple[str, str]]:
    """The few numbers a reader looks for first, each with what it is."""
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
    return found


def lead(run: Run) -> str:
    """One line that says what is in the report."""
    count = len(run.series)
    named = run.series[0].device if count == 1 else f"{count} devices"
    scored = several(sum(len(one.scored) for one in run.series), "row")
    by = f", calibrated by {run.card.model['model']}" if run.card.model.get("model") else ""
    without = "; rows it was trained on are not among them" if any(one.trained.any() for one in run.series) else ""
    origin = f" The model was made from: {run.card.model['data']}." if run.card.model.get("data") else ""
    return f"{named} beside a reference{by}. Scored: {scored}{without}.{origin}"
