"""Latency: samples that can be, the round that is reported, the protocol, and C's own clock."""

import gc
import os
import statistics
import time
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scare.board.exports import read_export
from scare.board.host import HostModel
from scare.scorecard.cost import THREADS, Latency, Timed, measure_latency, one_core, timing
from scare.scorecard.requirements import ScoreProtocol
from tests.board.small_model import write_model

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
    timed = measure_latency(timing(lambda window: seen.append(float(window[0, 0, 0]))), windows, PROTOCOL)
    assert seen == [0, 1, 2] + [0, 1, 2, 3] * 5
    assert timed.milliseconds.shape == (5, 4)


def test_a_slow_window_is_seen() -> None:
    def call(window: np.ndarray) -> None:
        time.sleep(0.02 * window[0, 0, 0])

    timer = timing(call)
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
