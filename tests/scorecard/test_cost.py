"""Complexity and memory worked by hand, latency samples and their protocol, utilisation, and a board's report."""

import gc
import json
import os
import statistics
import time
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event, Thread
from time import thread_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scare.baselines import MODELS
from scare.board.boards import board
from scare.board.build import read_export
from scare.board.host import HostModel
from scare.board.measure import Report
from scare.board.virtual import Cycles, PushCost, Runs
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import bind, find_correction
from scare.calibrator.plan import Plan, Step
from scare.experiments.untrained import operation_growth
from scare.kernels import Operations
from scare.models import Scare
from scare.scorecard.card import Card
from scare.scorecard.cost import (
    THREADS,
    Latency,
    OperationGrowth,
    Timed,
    board_findings,
    complexity_findings,
    describe_board,
    fit_exponent,
    make_timer,
    measure_latency,
    measure_utilisation,
    memory_findings,
    no_board,
    one_core,
    supported,
)
from scare.scorecard.requirements import Finding, Grade, RequirementTable, ScoreProtocol
from tests.board.small_model import write_model
from tests.calibrator.building import make_calibrator

LENGTHS = (60, 120, 240, 480, 960, 1920)
PROTOCOL = ScoreProtocol(3, 4, 5, 100.0, 1, 0.01, 10, (8, 16))
SAMPLES = st.integers(2, 60).flatmap(lambda n: arrays(float, n, elements=st.floats(1e-6, 1e4)))
PAPER = {  # Table 2: mean, maximum and jitter in ms, of 50
    "DLinear": (1.31, 1.44, 1.83),
    "NLinear": (1.28, 1.38, 3.03),
    "PatchTST": (5.60, 6.63, 9.75),
    "EcoFormer": (14.43, 15.28, 8.18),
    "TESLA": (2.14, 2.47, 4.47),
    "SCARE": (1.63, 1.72, 2.11),
}
LOAD_PROTOCOL = ScoreProtocol(1, 4, 1, 100.0, 3, 0.1, 10, (8, 16))
TABLE = RequirementTable.load()
NANO = board("nano33ble")
CYCLES = np.array([[100.0, 200.0, 300.0], [90.0, 250.0, 260.0], [110.0, 210.0, 280.0]])
RUNS = Runs(np.zeros(3), {}, np.array([80, 120, 90]), np.array([64, 64, 80]), CYCLES)
REPORT = Report(NANO, 9000, 1000, 1, RUNS, PushCost(40, 60, Cycles(30, 40, 50), 128, 64))  # a reading every ms


def dot_product(window: int) -> Plan:
    weight = np.zeros((2 * window, 1), np.float32)
    return Plan(window, 2, (Step("flatten", ("x",), "flat"), Step("dense", ("flat",), "y", {"weight": weight})))


def complexity(calibrator: Calibrator, growth: OperationGrowth | None) -> dict[str, object]:
    return {one.measure: one.value for one in complexity_findings(calibrator, growth, LENGTHS)}


@given(st.floats(0.1, 3), st.integers(1, 1000))
def test_a_power_is_found(power: float, factor: int) -> None:
    lengths = [2**k for k in range(6, 12)]
    assert fit_exponent(lengths, [factor * n**power for n in lengths]) == pytest.approx(power)


def test_the_exponent_is_that_of_a_least_squares_line() -> None:
    totals = [int(n * np.log2(n)) for n in LENGTHS]
    assert fit_exponent(LENGTHS, totals) == pytest.approx(np.polyfit(np.log(LENGTHS), np.log(totals), 1)[0])


def test_a_formula_is_compared_with_the_plan() -> None:
    calibrator = make_calibrator(dot_product(60))
    right = OperationGrowth("O(N)", lambda window: Operations(multiply_adds=2 * window))
    wrong = OperationGrowth("O(N)", lambda window: Operations(multiply_adds=3 * window))
    assert complexity(calibrator, right) == {
        "declared_complexity": "O(N)",
        "exponent": pytest.approx(1.0),
        "operations": 120,
    }
    for growth, exact in ((right, True), (wrong, False)):
        (exponent,) = (one for one in complexity_findings(calibrator, growth, LENGTHS) if one.measure == "exponent")
        assert exponent.detail["exact_here"] is exact


def test_ridge_grows_as_its_window_and_the_newest_row_does_not() -> None:
    ridge = make_calibrator(dot_product(60)).with_facts(outcome="ridge")
    newest = Step("newest", ("x",), "now"), Step("dense", ("now",), "y", {"weight": np.zeros((2, 1), np.float32)})
    assert (complexity(ridge, None)["declared_complexity"], complexity(ridge, None)["exponent"]) == ("O(N)", 1.0)
    assert complexity(make_calibrator(Plan(60, 2, newest)), None)["declared_complexity"] == "O(1)"


def test_a_correction_is_constant() -> None:
    barkjohn = find_correction("barkjohn-2021")
    calibrator = bind(barkjohn, {role.name: role.channel for role in barkjohn.roles}, 60.0)
    assert complexity(calibrator, operation_growth(calibrator)) == {
        "declared_complexity": "O(1)",
        "exponent": 0.0,
        "operations": 2,
    }


def test_an_unknown_model_has_no_exponent_but_a_reason() -> None:
    calibrator = make_calibrator(dot_product(60))
    assert operation_growth(calibrator) is None
    assert complexity(calibrator, None) == {"declared_complexity": None, "exponent": None, "operations": 120}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("setting", ["default", "paper"])
def test_a_model_grows_as_its_file_says(name: str, setting: str) -> None:
    architecture = Scare.paper() if (name, setting) == ("scare", "paper") else MODELS[name].default()
    stored = json.loads(json.dumps(asdict(architecture)))  # type: ignore[call-overload]
    calibrator = replace(make_calibrator(dot_product(60)), facts={"model": name, "architecture": stored})
    growth = operation_growth(calibrator)
    assert growth is not None
    assert growth.declared == MODELS[name].complexity
    for window in (60, 360):
        assert growth.operations(window) == architecture.operations(window, 2)


def test_memory_is_counted_as_on_paper() -> None:
    memory = {one.measure: one.value for one in memory_findings(make_calibrator(dot_product(60)))}
    window, result = 4 * 60 * 2, 4
    assert memory == {"peak_bytes": window + result, "retained_bytes": window + result, "weight_bytes": 480}


@given(SAMPLES)
def test_every_sample_keeps_the_inequality_and_is_what_statistics_says(sample: np.ndarray) -> None:
    latency = Latency.from_sample(sample)
    assert latency.jitter <= latency.largest_jitter * (1 + 1e-9) + 1e-9 * latency.maximum
    assert latency.mean == pytest.approx(statistics.fmean(sample), rel=1e-9)
    assert latency.jitter == pytest.approx(statistics.stdev(sample), rel=1e-6, abs=1e-9 * latency.maximum)


def test_two_values_reach_the_bound() -> None:
    latency = Latency.from_sample(np.array([1.0, 1.0, 1.0, 5.0]))
    assert latency.jitter == pytest.approx(latency.largest_jitter)


def test_equal_values_have_no_jitter() -> None:
    assert Latency.from_sample(np.full(1000, 0.9316875)).jitter == 0.0


@pytest.mark.parametrize("model", PAPER)
def test_six_rows_of_the_paper_are_no_samples(model: str) -> None:
    mean, maximum, jitter = PAPER[model]
    with pytest.raises(ValueError, match="no sample of 50"):
        Latency(50, 0.0, mean, maximum, jitter)


def test_two_rows_of_the_paper_may_be() -> None:
    Latency(50, 0.0, 269.45, 272.43, 15.96)
    Latency(50, 0.0, 32.09, 118.23, 18.32)


@pytest.mark.parametrize(
    "numbers", [(1, 1.0, 1.0, 1.0, 0.0), (5, 2.0, 1.0, 3.0, 0.1), (5, 1.0, 2.0, 3.0, float("nan"))]
)
def test_other_nonsense_is_refused(numbers: tuple[int, float, float, float, float]) -> None:
    with pytest.raises(ValueError, match="no sample of"):
        Latency(*numbers)


def test_the_three_numbers_are_of_the_round_with_the_median_maximum() -> None:
    rounds = np.array([[1.0, 9.0], [2.0, 3.0], [1.0, 5.0], [4.0, 4.5], [1.0, 7.0]])
    timed = Timed(rounds, pinned=True)
    assert timed.typical == Latency.from_sample(rounds[2])
    found = {one.measure: one.value for one in timed.findings(60.0, "_numpy")}
    assert found["latency_mean_numpy"] == 3.0
    assert found["latency_max_numpy"] == 5.0
    assert found["latency_jitter_numpy"] == pytest.approx(np.sqrt(8))
    assert all(one.per == 60.0 for one in timed.findings(60.0))


def test_warm_ups_come_first_and_every_round_runs_every_window() -> None:
    seen: list[float] = []
    windows = np.arange(4.0)[:, None, None]
    timed = measure_latency(make_timer(lambda window: seen.append(float(window[0, 0, 0]))), windows, PROTOCOL)
    assert seen == [0, 1, 2] + [0, 1, 2, 3] * 5
    assert timed.milliseconds.shape == (5, 4)


def test_a_slow_window_is_seen() -> None:
    def call(window: np.ndarray) -> None:
        time.sleep(0.02 * window[0, 0, 0])

    timer = make_timer(call)
    taken = np.min([timer(np.array([0.0, 1.0])[:, None, None]) for _ in range(3)], axis=0)
    assert taken[1] >= 20e6 > taken[0]


def cores() -> set[int] | None:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None


def fail_on_one_core(before: set[int] | None) -> None:
    with one_core() as pinned:
        within = cores()
        assert not gc.isenabled()
        assert pinned == (before is not None)
        assert within is None or len(within) == 1
        raise KeyError


def test_affinity_and_garbage_collection_are_as_before() -> None:
    before = cores()
    with pytest.raises(KeyError):
        fail_on_one_core(before)
    assert gc.isenabled()
    assert cores() == before


@pytest.mark.skipif(not THREADS.exists(), reason="Linux would run it: it lists threads")
def test_threads_that_were_there_and_that_begin_meanwhile_are_pinned_and_then_freed() -> None:
    before, done, started = cores(), Event(), []

    def begin() -> int:
        thread = Thread(target=done.wait)
        thread.start()
        started.append(thread)
        assert thread.native_id is not None
        return thread.native_id

    try:
        old = begin()
        with one_core():
            new = begin()
            within = [os.sched_getaffinity(number) for number in (old, new, 0)]
        after = [os.sched_getaffinity(number) for number in (old, new, 0)]
    finally:
        done.set()
        for thread in started:
            thread.join()
    assert len(within[0]) == 1
    assert within == [within[0]] * 3
    assert after == [before] * 3


@pytest.mark.parametrize("integer", [False, True])
def test_c_has_a_clock_of_its_own(tmp_path: Path, integer: bool) -> None:
    spin = "for (volatile int i = 0; i < (window[0] > 0 ? 300000 : 0); i++) {}"
    host = HostModel(read_export(write_model(tmp_path / "m", window=4, integer=integer, more=spin)))
    windows = np.zeros((3, 4, 1), np.float32)
    windows[1] = 1.0
    taken = np.min([host.time(windows) for _ in range(5)], axis=0)  # without what other processes take
    assert taken.shape == (3,)
    assert taken[1] > 50_000
    assert taken[1] > 3 * max(taken[0], taken[2])
    call = host.prepare(windows)
    assert call(1, 1)[0] > 50_000
    assert len(call(0, 3)) == 3


def board_values(report: Report) -> dict[str, object]:
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
    busy = measure_utilisation(spin, LOAD_PROTOCOL, lambda: blocks.append(1))
    idle = measure_utilisation(lambda number: None, LOAD_PROTOCOL)
    assert isinstance(busy.value, float)
    assert isinstance(idle.value, float)
    assert len(blocks) == 3
    assert 10 + idle.value < busy.value <= 101  # 4 ms of every 10
    assert busy.detail["idle"] < 10
    assert busy.detail["mean"] <= busy.value


def test_the_worst_window_counts() -> None:
    found, worst = board_values(REPORT), describe_board(NANO, "fixed", REPORT)["worst"]
    assert worst["instructions"] == 120 + 40  # the reading taken
    assert worst["cycles"] == {"low": 110 + 30, "typical": 250 + 40, "high": 300 + 50}
    assert worst["milliseconds"]["high"] == pytest.approx(350 / 64e3)
    assert worst["reading_ms"] == pytest.approx(350 / 64e3)
    assert found["board_latency_max"] == pytest.approx(290 / 64e3)
    assert found["board_latency_mean"] == pytest.approx(260 / 64e3)
    assert found["board_latency_jitter"] == pytest.approx(np.std([200, 250, 210], ddof=1) / 64e3)
    assert found["ram"] == 1000 + 128 + 16
    assert (found["fits_ram"], found["fits_flash"], found["deadline"]) == (1.0, 1.0, 1.0)
    assert found["duty_cycle"] == pytest.approx(100 * (220 + 40) / 64e3)


def test_a_deadline_that_only_the_high_estimate_misses_is_missed() -> None:
    slow = replace(REPORT, runs=replace(RUNS, cycles=np.array([[60e3, 61e3, 63_960.0], [60e3, 61e3, 62e3]])))
    assert board_values(slow)["deadline"] == 0.0
    described = describe_board(NANO, "float32", slow)
    assert (described["meets_deadline"], described["deadline_ms"], described["fits"]) == (False, 1, True)


def test_what_is_too_large_does_not_fit() -> None:
    large = replace(REPORT, static_bytes=NANO.ram, flash_bytes=NANO.flash + 1)
    found = board_values(large)
    assert (found["fits_ram"], found["fits_flash"]) == (0.0, 0.0)
    assert len(describe_board(NANO, "float32", large)["reasons"]) == 2


def test_a_board_without_cycles_has_no_latency() -> None:
    found = board_values(replace(REPORT, board=board("rp2040")))
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
