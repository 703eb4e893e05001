"""The paper's Table 1: O, △ or X for every model and requirement, graded by the scorecard's own table."""

from collections.abc import Sequence

import numpy as np

from scare.experiments.contenders import NETWORKS
from scare.experiments.machine import find_machines
from scare.experiments.protocol import model_of, paper
from scare.experiments.reproduction import Reproduction, Told
from scare.experiments.result import Result, Table, mean, with_paper
from scare.experiments.scored import Scored, score_rows
from scare.scorecard.accuracy import fastest, raw_changes, rmse
from scare.scorecard.card import Card
from scare.scorecard.requirements import Finding, Requirements

NOTES = [
    "Grades are made from measurements by scare/scorecard/requirements.toml: the worst of a requirement's numbers,"
    " on this computer and on the virtual board. The paper grades from the literature and gives no thresholds.",
    "Accuracy is graded by the error as a share of the reference's spread, the mean of all cities and pollutants;"
    " in a quick run it is not graded.",
]


def make_checklist(reproduction: Reproduction, told: Told) -> Result:
    """Table 1, and the numbers behind each grade."""
    rules, protocol = Requirements.load(), reproduction.protocol
    contenders = [name for name in protocol.main if name in NETWORKS]
    scored = [score_rows(reproduction.study(cell, contenders)) for cell in reproduction.cells]
    machines = find_machines(reproduction, contenders, told)
    grades, numbers = [], []
    for name in contenders:
        accuracy = [] if protocol.quick else accuracy_findings(scored, name)
        entries = (*(rules.judge(one, "of the spread") for one in accuracy), *machines[name].entries)
        ours = dict.fromkeys(rules.requirements, "") | {
            requirement: str(grade or "") for requirement, grade in Card({}, {}, entries, {}, None, {}).grades().items()
        }
        theirs = dict(zip(rules.requirements, paper()["checklist"].get(model_of(name), "").split(), strict=False))
        grades.append(with_paper({"contender": name, **ours}, theirs))
        for entry in entries:
            facts = {"measure": entry.measure, "value": entry.value, "unit": entry.unit, "source": entry.source}
            numbers.append({"contender": name, "requirement": entry.requirement, **facts, "grade": entry.grade or ""})
    columns = {"contender": "model"} | {name: one.title for name, one in rules.requirements.items()}
    behind = {name: name for name in ("contender", "requirement", "measure", "value", "unit", "source", "grade")}
    tables = Table("checklist", "Table 1", columns, grades), Table("checklist-numbers", "Behind it", behind, numbers)
    return Result("checklist", "Table 1: O satisfied, △ partially, X not", tables, list(NOTES))


def accuracy_findings(scored: Sequence[Scored], contender: str) -> list[Finding]:
    """RMSE over all rows and at the fastest changes, each as a share of the reference's spread there."""
    everywhere, fast = [], []
    for one in scored:
        changes = [raw_changes(r.times, r.values[:, 0], r.step_seconds) for r in one.readings]
        quick = fastest(np.concatenate(changes)[one.rows])
        for values in one.of(contender) if contender in one.estimates else []:
            error = values - one.reference
            everywhere.append(rmse(error) / float(one.reference.std()))
            fast.append(rmse(error[quick]) / float(one.reference[quick].std()))
    return [Finding("rmse", mean(everywhere)), Finding("top5_rmse", mean(fast))]
