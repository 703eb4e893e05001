"""The paper's tables and figures as rows, each from a reproduction, with the paper's values next to ours.

Table 1 grades every model and requirement by the scorecard (O, △, X). Table 2 has accuracy over cities and pollutants,
speed, complexity, memory and CPU load of every model; Table 3 the same for six settings of one model (`ABLATION` of
`scare.models`). One figure shows RMSE within ±30 rows of changes of the raw sensor's error, the other latency and size
of every model on the board, with random weights. `MAKERS` lists all of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.reproduce.adaptability import ErrorChanges, error_near, lasting_changes, sudden_changes
from benchmarks.reproduce.hardware import board_note, card_columns, find_cards
from benchmarks.reproduce.protocol import Protocol, describe_best_rate, paper_values
from benchmarks.reproduce.run import Reproduction, TaskKey, checklist_methods
from benchmarks.reproduce.senseurcity import Pollutant
from scare.board.boards import board
from scare.board.measure import measure
from scare.errors import NotApplicableError, UsageError
from scare.experiments.comparison_table import Row
from scare.experiments.study import Progress, SharedRows
from scare.experiments.study_task import upgrade_row
from scare.experiments.untrained import draw_method
from scare.export.lowering import Arithmetic, compile_calibrator
from scare.export.package import export_calibrator
from scare.export.tflite import make_flatbuffer
from scare.extras import require
from scare.scorecard.accuracy import fastest, rmse
from scare.scorecard.card import Card
from scare.scorecard.requirements import Finding, RequirementTable
from scare.scorecard.scoring import board_trials

PAPER = "paper_"  # prefix of a column with the paper's values
SPREAD = "_sd"  # suffix of a column with the standard deviation over seeds
Scores = Mapping[TaskKey, Mapping[str, Row]]
HARDWARE = {
    "mean_latency": "mean latency [ms]",
    "max_latency": "max latency [ms]",
    "jitter": "jitter [ms]",
    "jax_latency": "mean latency, JAX [ms]",
    "complexity": "operations grow as",
    "activation": "activations, all [KB]",
    "cpu": "CPU max [%]",
}
CELL = {
    "place": "place",
    "pollutant": "pollutant",
    "method": "model",
    "rmse": "RMSE",
    "rmse_sd": "± over seeds",
    "top5_rmse": "top-5 % RMSE",
    "mae": "MAE",
    "r2": "R²",
    "rows": "rows",
    "seeds": "seeds",
}
CHOICE = {"place": "place", "pollutant": "pollutant", "method": "model", "rate": "rate", "means": "running means"}
MAIN_NOTES = [
    "RMSE is the mean of the places' (and of seeds); the paper's top-5 % column names no pollutant, ours is PM10's.",
    "Latency and CPU: the exported C in float32 on one pinned core of this computer, not the paper's runtime; next to"
    " it the network as JAX compiles it, with random weights, from a NumPy window to its value.",
    "The paper's jitter exceeds what its own mean and maximum allow in six of eight rows (docs/reproduce.md).",
]
ABLATION_HARDWARE = ("max_latency", "complexity", "activation", "cpu")
FindChanges = Callable[[np.ndarray, np.ndarray, np.ndarray, float], ErrorChanges]
CHANGE_KINDS: dict[str, FindChanges] = {"sudden": sudden_changes, "lasting": lasting_changes}
ADAPTABILITY = {
    "place": "place",
    "pollutant": "pollutant",
    "kind": "change",
    "threshold": "threshold",
    "coverage": "coverage",
}
ADAPTABILITY_NOTES = [
    "A change is one of the raw error x − y by at least the threshold of the reading before it (of 5 ug/m3 where that"
    " is less): sudden, from one row to the next; lasting, of 5-minute means, the largest alone within 30 minutes.",
    "Coverage is the share of the scored rows within 30 rows of a change. Near 100 % the number is plain RMSE.",
    "The paper gives a figure without numbers and no definition of a change.",
]
CHECKLIST_NOTES = [
    "Grades are made from measurements by scare/scorecard/requirements.toml: the worst of a requirement's numbers,"
    " on this computer and on the virtual board. The paper grades from the literature and gives no thresholds.",
    "Accuracy is graded by the error as a share of the reference's spread, the mean of all places and pollutants;"
    " in a quick run it is not graded.",
]
BOARD = {
    "method": "model",
    "window": "N",
    "arithmetic": "arithmetic",
    "milliseconds": "ms (estimate)",
    "instructions": "instructions, most",
    "model_bytes": "weights [B]",
    "flash_bytes": "flash [B]",
    "ram_bytes": "RAM [B]",
    "flatbuffer_bytes": "FlatBuffer [B]",
    "why_not": "does not run because",
    "why_no_flatbuffer": "no FlatBuffer because",
}
BOARD_FACTS = ("milliseconds", "instructions", "model_bytes", "flash_bytes", "ram_bytes", "flatbuffer_bytes")


@dataclass(frozen=True)
class ResultTable:
    """Rows by column name, and the columns to show with their headings."""

    name: str
    title: str
    columns: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class ExperimentResult:
    """The tables of an experiment, the first of which is the paper's own, and notes on how to read them.

    `unfinished` has the tasks of each method with fits still to be made. `origin` replaces the reproduction's own notes
    on readings and training where those do not apply.
    """

    name: str
    title: str
    tables: tuple[ResultTable, ...]
    notes: list[str] = field(default_factory=list)
    unfinished: Mapping[str, Sequence[str]] = field(default_factory=dict)
    origin: Sequence[str] = ()


def make_main(reproduction: Reproduction, progress: Progress) -> ExperimentResult:
    """Make Table 2, the scores on each place and pollutant, and the rates of the networks."""
    protocol, pollutants = reproduction.protocol, reproduction.source.pollutants
    scores, cards = reproduction.tables(protocol.main), find_cards(reproduction, protocol.main, progress)
    rows = []
    for name in protocol.main:
        ours: dict[str, Any] = {"method": name, **accuracy_columns(scores, pollutants, name), "top5": None}
        if Pollutant.PM10 in pollutants:
            ours["top5"] = mean_over_places(scores, Pollutant.PM10, name, "top5_rmse")
        ours |= card_columns(cards[name])
        rows.append(with_paper(ours, paper_values("main", name)))
    columns = {"method": "model", **accuracy_headings(pollutants), "top5": "top-5 % RMSE, PM10", **HARDWARE}
    notes = [*MAIN_NOTES, board_note(protocol), *reproduction.failures(protocol.main)]
    choices = choice_table("main-choices", reproduction, protocol.main)
    tables = ResultTable("main", "Table 2", columns, rows), cell_table("main-cells", scores), choices
    return ExperimentResult(
        "main", "Table 2: eight models, eight requirements", tables, notes, reproduction.unfinished(protocol.main)
    )


def mean_over_places(scores: Scores, pollutant: str, method: str, field: str) -> float | None:
    """Average one number of a method's accuracy over places; None if a place has none."""
    rows = [found[method] for cell, found in scores.items() if cell[1] == pollutant]
    return mean(getattr(row.accuracy, field) if row.accuracy else None for row in rows)


def spread_over_places(scores: Scores, pollutant: str, method: str) -> float | None:
    """Compute the standard deviation over seeds of the mean RMSE, if places are independent; None for one seed."""
    rows = [found[method] for cell, found in scores.items() if cell[1] == pollutant]
    spreads = [row.spread.rmse for row in rows if row.spread and row.seeds > 1]
    return float(np.sqrt(np.sum(np.square(spreads)))) / len(rows) if len(spreads) == len(rows) else None


def accuracy_columns(scores: Scores, pollutants: Sequence[str], method: str) -> dict[str, float | None]:
    """Compute the RMSE of a method by pollutant, mean over places, and its spread over seeds."""
    means = {str(one): mean_over_places(scores, one, method, "rmse") for one in pollutants}
    return means | {f"{one}{SPREAD}": spread_over_places(scores, one, method) for one in pollutants}


def accuracy_headings(pollutants: Sequence[str]) -> dict[str, str]:
    """Headings of the means of `accuracy_columns`."""
    return {str(one): f"RMSE {one}" for one in pollutants}


def cell_table(name: str, scores: Scores) -> ResultTable:
    """Tabulate the scores of every place, pollutant and method."""
    rows: list[dict[str, Any]] = []
    for (place, pollutant), found in scores.items():
        rows += [{"place": str(place), "pollutant": str(pollutant), **row.as_dict()} for row in found.values()]
    return ResultTable(name, "Each place and pollutant", CELL, rows)


def choice_table(name: str, reproduction: Reproduction, methods: Sequence[str]) -> ResultTable:
    """Tabulate the best rate of every network and task, and the validation error at each rate."""
    rows: list[dict[str, Any]] = []
    for cell, study in reproduction.studies.items():
        place = dict(zip(("place", "pollutant"), map(str, cell), strict=True))
        for method in methods:
            if found := describe_best_rate(study, method, reproduction.protocol):
                rows.append({**place, "method": method, **found})
    rates = {column: f"{column}, RMSE" for row in rows for column in row if column.startswith("at ")}
    return ResultTable(name, "Chosen on validation", CHOICE | rates, rows)


def make_ablation(reproduction: Reproduction, progress: Progress) -> ExperimentResult:
    """Make Table 3, the scores on each place and pollutant, and the rates of the networks."""
    protocol, pollutants = reproduction.protocol, reproduction.source.pollutants
    scores, cards = reproduction.tables(protocol.ablation), find_cards(reproduction, protocol.ablation, progress)
    rows = []
    for name in protocol.ablation:
        theirs = paper_values("ablation", name)
        hardware = card_columns(cards[name])
        accuracy = accuracy_columns(scores, pollutants, name)
        ours = {"method": name, "change": theirs.get("change", ""), **accuracy}
        ours |= {column: hardware[column] for column in ABLATION_HARDWARE}
        rows.append(with_paper(ours, {column: value for column, value in theirs.items() if column != "change"}))
    headings = {"method": "setting", "change": "what it is", **accuracy_headings(pollutants)}
    headings |= {column: HARDWARE[column] for column in ABLATION_HARDWARE}
    choices = choice_table("ablation-choices", reproduction, protocol.ablation)
    tables = ResultTable("ablation", "Table 3", headings, rows), cell_table("ablation-cells", scores), choices
    notes = ["scare-paper is Exp 6.", "Latency and CPU are of the exported C on this computer.", board_note(protocol)]
    notes += reproduction.failures(protocol.ablation)
    return ExperimentResult(
        "ablation", "Table 3: what each part of SCARE does", tables, notes, reproduction.unfinished(protocol.ablation)
    )


def make_adaptability(reproduction: Reproduction, progress: Progress) -> ExperimentResult:
    """Tabulate RMSE around changes by place, pollutant, kind of change and threshold; PM10 first."""
    protocol = reproduction.protocol
    rows: list[dict[str, Any]] = []
    cells = sorted(reproduction.cells, key=lambda cell: reproduction.source.pollutants.index(cell[1]))
    for done, cell in enumerate(cells, start=1):
        rows += _adaptability_rows(cell, SharedRows.load(reproduction.study(cell, protocol.adaptability)), protocol)
        progress(done, len(cells), "-".join(cell))
    notes = [*ADAPTABILITY_NOTES, *reproduction.failures(protocol.adaptability)]
    unfinished = reproduction.unfinished(protocol.adaptability)
    columns = ADAPTABILITY | {name: name for name in protocol.adaptability}
    table = ResultTable("adaptability", "RMSE within ±30 rows of a change", columns, rows)
    return ExperimentResult("adaptability", "Figure: adaptability to sudden changes", (table,), notes, unfinished)


def _adaptability_rows(cell: TaskKey, scored: SharedRows, protocol: Protocol) -> list[dict[str, Any]]:
    """Make a row for each kind of change and threshold, with every method's error and its spread over seeds."""
    rows = []
    for kind, find in CHANGE_KINDS.items():
        changes = [find(one.times, one.values[:, 0], one.targets, one.step_seconds) for one in scored.readings]
        for threshold in protocol.thresholds:
            near = np.concatenate([one.near(threshold) for one in changes])[scored.shared]
            place = {"place": str(cell[0]), "pollutant": str(cell[1]), "kind": kind, "threshold": threshold}
            row: dict[str, Any] = {**place, "coverage": float(near.mean())}
            for name in protocol.adaptability:
                errors = [_error(values, scored.reference, near) for values in scored.of_method(name)]
                row[name] = mean(errors)
                if len(errors) > 1:
                    row[name + SPREAD] = float(np.std(errors)) if np.isfinite(errors).all() else None
            rows.append(row)
    return rows


def _error(values: np.ndarray, reference: np.ndarray, near: np.ndarray) -> float:
    """Compute the RMSE over the rows near a change that have a value."""
    known = np.isfinite(values)
    return error_near(values[known], reference[known], near[known])[0]


def make_checklist(reproduction: Reproduction, progress: Progress) -> ExperimentResult:
    """Make Table 1, and a table of the numbers behind each grade."""
    rules, protocol = RequirementTable.load(), reproduction.protocol
    methods = checklist_methods(protocol)
    scored = [SharedRows.load(reproduction.study(cell, methods)) for cell in reproduction.cells]
    cards = find_cards(reproduction, methods, progress)
    grades, numbers = [], []
    for name in methods:
        accuracy = [] if protocol.quick else accuracy_findings(scored, name)
        entries = (*(rules.make_entry(one, "of the spread") for one in accuracy), *cards[name].entries)
        ours = dict.fromkeys(rules.requirements, "") | {
            requirement: str(grade or "") for requirement, grade in Card({}, {}, entries, {}, None, {}).grades().items()
        }
        grades_there = paper_values("checklist", name).get("grades", "").split()
        theirs = dict(zip(rules.requirements, grades_there, strict=False))
        grades.append(with_paper({"method": name, **ours}, theirs))
        for entry in entries:
            facts = {"measure": entry.measure, "value": entry.value, "unit": entry.unit, "source": entry.source}
            numbers.append({"method": name, "requirement": entry.requirement, **facts, "grade": entry.grade or ""})
    columns = {"method": "model"} | {name: one.title for name, one in rules.requirements.items()}
    behind = {name: name for name in ("method", "requirement", "measure", "value", "unit", "source", "grade")}
    notes = [*CHECKLIST_NOTES, board_note(protocol), *reproduction.failures(methods)]
    tables = (
        ResultTable("checklist", "Table 1", columns, grades),
        ResultTable("checklist-numbers", "Behind it", behind, numbers),
    )
    return ExperimentResult(
        "checklist", "Table 1: O satisfied, △ partially, X not", tables, notes, reproduction.unfinished(methods)
    )


def accuracy_findings(scored: Sequence[SharedRows], method: str) -> list[Finding]:
    """Measure RMSE over all rows and at the fastest changes, each as a share of the reference's spread there.

    These are means over tasks and seeds; None if a task has no estimates of this method.
    """
    shares: list[tuple[float | None, float | None]] = []
    for one in scored:
        shares += _shares(one, method) or [(None, None)]
    return [Finding("rmse", mean(share for share, _ in shares)), Finding("top5_rmse", mean(fast for _, fast in shares))]


def _shares(one: SharedRows, method: str) -> list[tuple[float, float]]:
    """Compute both errors on one task as shares of the reference's spread: a pair per seed."""
    fast = fastest(one.changes)
    spread, spread_fast = float(one.reference.std()), float(one.reference[fast].std())
    errors = [values - one.reference for values in one.of_method(method)]
    return [(rmse(error) / spread, rmse(error[fast]) / spread_fast) for error in errors]


def make_board(reproduction: Reproduction, progress: Progress) -> ExperimentResult:
    """Run every model, window and arithmetic on the virtual board; rows that do not run have a reason."""
    protocol, rows = reproduction.protocol, []
    grid = list(product(protocol.board, protocol.board_windows, Arithmetic))
    for done, (name, window, arithmetic) in enumerate(grid, start=1):
        key = f"board-{protocol.board_name}-{name}-w{window}-{arithmetic}-{protocol.figure_trials}"
        row = upgrade_row(reproduction.remember(key, partial(_measure_on_board, name, window, arithmetic, protocol)))
        if not _why_no_flatbuffers():
            row |= reproduction.remember(
                f"flatbuffer-{name}-w{window}-{arithmetic}", partial(_flatbuffer_size, name, window, arithmetic)
            )
        rows.append(row)
        progress(done, len(grid), f"{name}, N = {window}, {arithmetic}")
    chosen = board(protocol.board_name)
    origin = [
        f"A virtual {chosen.title}, {chosen.chip} at {chosen.clock_hz / 1e6:g} MHz: instructions and bytes are counted,"
        " milliseconds are estimates, means over the windows, never checked on hardware. Weights are random, and no"
        " reading is used.",
    ]
    notes = [
        f"Windows run of each model: {protocol.figure_trials:,}, of all kinds, both branches; one if it does not fit.",
        "The paper gives a figure without numbers; it ran TFLite-Micro, ours is generated C. The FlatBuffer is the file"
        " of `scare export tflite`, without the interpreter that runs it.",
    ]
    if _why_no_flatbuffers():
        notes.append(f"FlatBuffers were not made: {_why_no_flatbuffers()}.")
    table = ResultTable("board", f"On the {chosen.title}", BOARD, rows)
    return ExperimentResult("board", "Figure: latency and size on the board", (table,), notes, origin=origin)


def _measure_on_board(name: str, window: int, arithmetic: Arithmetic, protocol: Protocol) -> dict[str, Any]:
    """Run a model with random weights on the virtual board; `why_not` says why it does not run."""
    place = {"method": name, "window": window, "arithmetic": str(arithmetic), **dict.fromkeys(BOARD_FACTS)}
    chosen = board(protocol.board_name)
    try:
        calibrator = draw_method(name, window)
        with TemporaryDirectory() as scratch:
            model = export_calibrator(calibrator, "c", arithmetic, Path(scratch) / "model").compiled.c_model
            count = protocol.figure_trials if model.memory_bytes <= chosen.ram else 1
            report = measure(Path(scratch) / "model", chosen, board_trials(calibrator, count))
    except NotApplicableError as error:
        return {**place, "why_not": str(error)}
    time, counted = report.milliseconds, report.instructions
    return {
        **place,
        "milliseconds": time.typical if time else None,
        "instructions": counted["max"] if counted else None,
        "model_bytes": calibrator.cost().weight_bytes if arithmetic is Arithmetic.FLOAT32 else None,
        "flash_bytes": report.flash_bytes,
        "ram_bytes": report.ram_bytes,
        "why_not": "; ".join(report.reasons),
    }


def _flatbuffer_size(name: str, window: int, arithmetic: Arithmetic) -> dict[str, Any]:
    """Measure the bytes of a model's FlatBuffer, or say why there is none."""
    try:
        made = make_flatbuffer(compile_calibrator(draw_method(name, window), arithmetic))
    except NotApplicableError as error:
        return {"flatbuffer_bytes": None, "why_no_flatbuffer": str(error)}
    return {"flatbuffer_bytes": len(made.content)}


@cache
def _why_no_flatbuffers() -> str:
    """Say why no FlatBuffer can be made on this computer; empty if it can."""
    try:
        require("tflite")
    except UsageError as error:
        return str(error)
    return ""


MAKERS: dict[str, Callable[[Reproduction, Progress], ExperimentResult]] = {
    "checklist": make_checklist,
    "main": make_main,
    "ablation": make_ablation,
    "adaptability": make_adaptability,
    "board": make_board,
}


def with_paper(ours: Mapping[str, Any], theirs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Add the paper's values to a row of ours, for the columns that it has.

    >>> with_paper({"method": "scare", "PM10": 3.0}, {"PM10": 14.03, "cpu": 7.1})
    {'method': 'scare', 'PM10': 3.0, 'paper_PM10': 14.03}
    """
    return {**ours, **{f"{PAPER}{name}": value for name, value in (theirs or {}).items() if name in ours}}


def mean(values: Iterable[float | None]) -> float | None:
    """Average numbers; None if one is missing, or there are none.

    >>> mean([1.0, 2.0]), mean([1.0, None]), mean([])
    (1.5, None, None)
    """
    found = list(values)
    known = [value for value in found if value is not None and np.isfinite(value)]
    return float(np.mean(known)) if found and len(known) == len(found) else None
