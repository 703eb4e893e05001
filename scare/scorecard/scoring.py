"""Scoring: measure one calibrator on one co-location and one board, in the arithmetic that is shipped.

Accuracy is that of the plan that the C code computes. All models are timed as compiled C, and in NumPy for comparison.
`series` and `cost` make the findings, `card` shows the graded entries.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from scare.board.boards import Board
from scare.board.build import read_export
from scare.board.host import HostModel
from scare.board.measure import measure
from scare.board.vectors import board_windows
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import run
from scare.data.readings import Readings
from scare.errors import NotApplicableError
from scare.export.lowering import compile_calibrator
from scare.export.package import export_calibrator
from scare.kernels import Choice, choose
from scare.scorecard import cost
from scare.scorecard.requirements import Entry, Finding, RequirementTable
from scare.scorecard.series import CalibratedReadings, calibrate, successive_windows

CANDIDATES = 1000  # windows that `board_trials` selects from, enough to have some of every kind


@dataclass(frozen=True)
class Subject:
    """What is scored: a calibrator in an arithmetic, on readings with a reference, and for a board if there is one.

    `growth` is None where it is not known how the model's operations grow with the window.
    """

    calibrator: Calibrator
    readings: Sequence[Readings]
    arithmetic: str
    board: Board | None
    growth: cost.OperationGrowth | None


@dataclass(frozen=True)
class Scored:
    """Graded entries in the order of `requirements.toml`, the calibrated readings, and the board block of a card."""

    entries: tuple[Entry, ...]
    series: CalibratedReadings
    board: dict[str, Any] | None


def score(subject: Subject, table: RequirementTable, advance: Callable[[], object] = lambda: None) -> Scored:
    """Measure and grade a calibrator; `advance` is called after each block of requests and each window on the board."""
    compiled = compile_calibrator(subject.calibrator, subject.arithmetic)
    try:
        plan, _program = compiled.plan, compiled.program  # the program is not needed here, but either may raise
        shipped, reason = replace(subject.calibrator, plan=plan), ""
    except NotApplicableError as error:  # there is no C program: score the calibrator as it is
        shipped, reason = subject.calibrator, str(error)
    series = calibrate(shipped, subject.readings)
    findings = series.findings(shipped, "float32" if reason else subject.arithmetic)
    findings += cost.complexity_findings(subject.calibrator, subject.growth, table.protocol.lengths)
    findings += [*cost.memory_findings(subject.calibrator), cost.supported(reason)]
    report = None
    if reason:
        findings += cost.no_latency(reason)
    else:
        with TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            export_calibrator(subject.calibrator, "c", subject.arithmetic, folder)
            findings += _time(shipped, subject.readings, folder, table, advance)
            if subject.board is not None:
                windows = board_trials(subject.calibrator, table.protocol.board_windows)
                report = measure(folder, subject.board, windows, advance)
    findings += cost.board_findings(report) if report else []
    findings += cost.no_board() if subject.board is None else []
    order = list(table.measures)
    findings.sort(key=lambda finding: order.index(finding.measure))
    entries = tuple(table.make_entry(finding, subject.calibrator.target.unit) for finding in findings)
    board = cost.describe_board(subject.board, subject.arithmetic, report, reason) if subject.board else None
    return Scored(entries, series, board)


def _time(
    shipped: Calibrator,
    readings: Sequence[Readings],
    folder: Path,
    table: RequirementTable,
    advance: Callable[[], object],
) -> list[Finding]:
    """Time the compiled C and NumPy, and measure the share of a core that the C takes."""
    windows = successive_windows(shipped, readings, table.protocol.windows)
    period_ms = shipped.inputs.step_seconds * 1e3
    host = HostModel(read_export(folder))
    timed = cost.measure_latency(host.time, windows, table.protocol).findings(period_ms)
    timed += cost.measure_latency(numpy_timer(shipped), windows, table.protocol).findings(period_ms, "_numpy")
    time_windows = host.prepare(windows)  # takes the index of the first window to compute, and how many

    def answer_request(number: int) -> object:
        return time_windows(number % len(windows), 1)

    return [*timed, cost.measure_utilisation(answer_request, table.protocol, advance)]


def numpy_timer(calibrator: Calibrator) -> cost.Timer:
    """Make a timer for the calibrator's plan in NumPy.

    A plan with two branches remembers from window to window which one is in use, as a live stream does.
    """

    def timer(windows: np.ndarray) -> np.ndarray:
        choice = Choice()
        return cost.make_timer(lambda window: run(calibrator.plan, window, choice))(windows)

    return timer


def board_trials(calibrator: Calibrator, count: int) -> np.ndarray:
    """Select scaled windows [count, rows, channels]: edge cases, those stored with the calibrator, and random ones.

    They are evenly spaced among the candidates. If the plan has two branches, candidates are sorted by branch first, so
    even two windows run both.
    """
    trials = board_windows(calibrator, max(count, CANDIDATES))
    if calibrator.plan.branches is not None:
        with np.errstate(all="ignore"):  # edge cases contain NaN and infinities
            decisions = run(calibrator.plan.branches[0], trials)
        trials = trials[np.argsort(choose(decisions, calibrator.plan.steps[-1].settings), kind="stable")]
    return trials[np.linspace(0, len(trials) - 1, count).astype(int)]
