"""Compatibility: utilisation of a busy and an idle call, and what a board's report says."""

from dataclasses import replace
from time import thread_time

import numpy as np
import pytest

from scare.board.boards import board
from scare.board.measure import Report
from scare.board.virtual import Cycles, Pushes, Runs
from scare.scorecard.card import Card
from scare.scorecard.cost import board_findings, describe_board, measure_utilisation, no_board, supported
from scare.scorecard.requirements import Finding, Grade, RequirementTable, ScoreProtocol

PROTOCOL = ScoreProtocol(1, 4, 1, 100.0, 3, 0.1, 10, (8, 16))
TABLE = RequirementTable.load()
NANO = board("nano33ble")
CYCLES = np.array([[100.0, 200.0, 300.0], [90.0, 250.0, 260.0], [110.0, 210.0, 280.0]])
RUNS = Runs(np.zeros(3), {}, np.array([80, 120, 90]), np.array([64, 64, 80]), CYCLES)
REPORT = Report(NANO, 9000, 1000, 1, RUNS, Pushes(40, 60, Cycles(30, 40, 50), 128, 64))  # a reading every ms


def values(report: Report) -> dict[str, object]:
    return {one.measure: one.value for one in board_findings(report)}


def spin(number: int) -> None:
    until = thread_time() + 4e-3
    while thread_time() < until:
        pass


def test_without_a_board_memory_and_compatibility_are_not_graded() -> None:
    found = [supported(), Finding("cpu", 1.0), Finding("latency_mean", 1.0, 1e5), *no_board()]
    card = Card({}, {}, tuple(TABLE.make_entry(one, "") for one in found), {}, None, {})
    assert card.grades() == {"compatibility": None, "mean-latency": Grade.GOOD, "memory": None}


def test_a_busy_call_uses_the_core_and_an_idle_one_does_not() -> None:
    blocks: list[int] = []
    busy = measure_utilisation(spin, PROTOCOL, lambda: blocks.append(1))
    idle = measure_utilisation(lambda number: None, PROTOCOL)
    assert isinstance(busy.value, float)
    assert isinstance(idle.value, float)
    assert len(blocks) == 3
    assert 10 + idle.value < busy.value <= 101  # 4 ms of every 10
    assert busy.detail["idle"] < 10
    assert busy.detail["mean"] <= busy.value


def test_the_worst_window_counts() -> None:
    found, worst = values(REPORT), describe_board(NANO, "fixed", REPORT)["worst"]
    assert worst["instructions"] == 120
    assert worst["cycles"] == {"low": 110, "typical": 250, "high": 300}
    assert worst["milliseconds"]["high"] == pytest.approx(300 / 64e3)
    assert worst["reading_ms"] == pytest.approx(350 / 64e3)
    assert found["board_latency_max"] == pytest.approx(250 / 64e3)
    assert found["board_latency_mean"] == pytest.approx(220 / 64e3)
    assert found["board_latency_jitter"] == pytest.approx(np.std([200, 250, 210], ddof=1) / 64e3)
    assert found["ram"] == 1000 + 128 + 16
    assert (found["fits_ram"], found["fits_flash"], found["deadline"]) == (1.0, 1.0, 1.0)
    assert found["duty_cycle"] == pytest.approx(100 * (220 + 40) / 64e3)


def test_a_deadline_that_only_the_high_estimate_misses_is_missed() -> None:
    slow = replace(REPORT, runs=replace(RUNS, cycles=np.array([[60e3, 61e3, 63_960.0], [60e3, 61e3, 62e3]])))
    assert values(slow)["deadline"] == 0.0
    described = describe_board(NANO, "float32", slow)
    assert (described["meets_deadline"], described["deadline_ms"], described["fits"]) == (False, 1, True)


def test_what_is_too_large_does_not_fit() -> None:
    large = replace(REPORT, static_bytes=NANO.ram, flash_bytes=NANO.flash + 1)
    found = values(large)
    assert (found["fits_ram"], found["fits_flash"]) == (0.0, 0.0)
    assert len(describe_board(NANO, "float32", large)["reasons"]) == 2


def test_a_board_without_cycles_has_no_latency() -> None:
    found = values(replace(REPORT, board=board("rp2040")))
    known = {"ram", "flash", "fits_ram", "fits_flash"}
    assert {name for name, value in found.items() if value is not None} == known
    assert found.keys() - known == {name for name in TABLE.measures if name.startswith("board_")} | {
        "deadline",
        "duty_cycle",
    }
    described = describe_board(board("rp2040"), "float32", replace(REPORT, board=board("rp2040")))
    assert (described["worst"], described["meets_deadline"]) == (None, None)


def test_an_unsupported_operation_says_why() -> None:
    assert supported().value == 1.0
    assert (supported("float32 only: lstm").value, supported("x").detail) == (0.0, {"reason": "x"})
    described = describe_board(NANO, "fixed", None, "float32 only: lstm")
    assert (described["supported"], described["fits"], described["reasons"]) == (False, False, ["float32 only: lstm"])


def test_nothing_is_satisfied_on_a_board_whose_cycles_are_not_known() -> None:
    def grades(report: Report) -> dict[str, Grade | None]:
        findings = [Finding("cpu", 2.0), Finding("latency_mean", 0.1, 6e4), supported(), *board_findings(report)]
        entries = tuple(TABLE.make_entry(finding, "") for finding in findings)
        return Card({}, {}, entries, {}, None, {}).grades()

    rp2040 = replace(REPORT, board=board("rp2040"))
    assert grades(replace(REPORT, step_ms=60_000))["compatibility"] == "O"
    assert (grades(rp2040)["compatibility"], grades(rp2040)["mean-latency"], grades(rp2040)["memory"]) == (
        None,
        None,
        "O",
    )
    assert grades(replace(rp2040, flash_bytes=1 << 30))["compatibility"] == "X"
