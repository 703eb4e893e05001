"""The paper's Table 1: O, △ or X for every model and requirement, graded by the scorecard's own table."""

from collections.abc import Sequence

from scare.experiments.reproduction.hardware import board_note, find_cards
from scare.experiments.reproduction.protocol import the_papers
from scare.experiments.reproduction.reproduction import Reproduction, graded
from scare.experiments.reproduction.result_tables import Result, Table, mean, with_paper
from scare.experiments.shared_rows import SharedRows
from scare.experiments.study import Progress
from scare.scorecard.accuracy import fastest, rmse
from scare.scorecard.card import Card
from scare.scorecard.requirements import Finding, Requirements

NOTES = [
    "Grades are made from measurements by scare/scorecard/requirements.toml: the worst of a requirement's numbers,"
    " on this computer and on the virtual board. The paper grades from the literature and gives no thresholds.",
    "Accuracy is graded by the error as a share of the reference's spread, the mean of all places and pollutants;"
    " in a quick run it is not graded.",
]


def make_checklist(reproduction: Reproduction, progress: Progress) -> Result:
    """Table 1, and the numbers behind each grade."""
    rules, protocol = Requirements.load(), reproduction.protocol
    contenders = graded(protocol)
    scored = [SharedRows.of(reproduction.study(cell, contenders)) for cell in reproduction.cells]
    cards = find_cards(reproduction, contenders, progress)
    grades, numbers = [], []
    for name in contenders:
        accuracy = [] if protocol.quick else accuracy_findings(scored, name)
        entries = (*(rules.judge(one, "of the spread") for one in accuracy), *cards[name].entries)
        ours = dict.fromkeys(rules.requirements, "") | {
            requirement: str(grade or "") for requirement, grade in Card({}, {}, entries, {}, None, {}).grades().items()
        }
        grades_there = the_papers("checklist", name).get("grades", "").split()
        theirs = dict(zip(rules.requirements, grades_there, strict=False))
        grades.append(with_paper({"contender": name, **ours}, theirs))
        for entry in entries:
            facts = {"measure": entry.measure, "value": entry.value, "unit": entry.unit, "source": entry.source}
            numbers.append({"contender": name, "requirement": entry.requirement, **facts, "grade": entry.grade or ""})
    columns = {"contender": "model"} | {name: one.title for name, one in rules.requirements.items()}
    behind = {name: name for name in ("contender", "requirement", "measure", "value", "unit", "source", "grade")}
    notes = [*NOTES, board_note(protocol), *reproduction.failures(contenders)]
    tables = Table("checklist", "Table 1", columns, grades), Table("checklist-numbers", "Behind it", behind, numbers)
    return Result(
        "checklist", "Table 1: O satisfied, △ partially, X not", tables, notes, reproduction.unfinished(contenders)
    )


def accuracy_findings(scored: Sequence[SharedRows], contender: str) -> list[Finding]:
    """RMSE over all rows and at the fastest changes, each as a share of the reference's spread there.

    Means over tasks and seeds; no number if a task has no estimates of this contender.
    """
    shares: list[tuple[float | None, float | None]] = []
    for one in scored:
        shares += _shares(one, contender) or [(None, None)]
    return [Finding("rmse", mean(share for share, _ in shares)), Finding("top5_rmse", mean(fast for _, fast in shares))]


def _shares(one: SharedRows, contender: str) -> list[tuple[float, float]]:
    """Both errors on one task, a pair a seed."""
    fast = fastest(one.changes)
    spread, spread_fast = float(one.reference.std()), float(one.reference[fast].std())
    errors = [values - one.reference for values in one.of_contender(contender)]
    return [(rmse(error) / spread, rmse(error[fast]) / spread_fast) for error in errors]
