"""A plan that chooses between two branches: alone, in a stream, in a file, and what it costs."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.cost import count
from scare.calibrator.plan import Plan, Step, deep_share, run
from scare.calibrator.plan_passes import fold
from scare.data.readings import Readings
from scare.kernels import FLOAT_KERNELS, KERNELS, Choice, Operations, choose
from tests.calibrator.building import bad_readings, make_calibrator, newest_plan

PERIODS = {"deep_period": 12, "simple_period": 60}
DECISIONS = st.lists(st.floats(0, 1), max_size=300)


def dense(source: str, output: str, weight: list[list[float]], bias: float = 0.0) -> Step:
    array = np.array(weight, np.float32)
    return Step("dense", (source,), output, {"weight": array, "bias": np.full(array.shape[1], bias, np.float32)})


def choice_plan(deep_period: int = 3, simple_period: int = 5) -> Plan:
    """The newest row for quiet windows, all rows of the first channel for others."""
    steps = (
        dense("x", "doubt", [[1.0], [0.3]], -0.1),
        Step("sigmoid_mean", ("doubt",), "decision"),
        Step("newest", ("x",), "now"),
        dense("now", "simple", [[2.0], [-0.5]], 0.25),
        Step("flatten", ("x",), "flat"),
        dense("flat", "deep", [[0.3], [0.1], [0.1], [0.2], [0.4], [0.0], [0.5], [-0.2]], -0.5),
        Step(
            "select",
            ("decision", "simple", "deep"),
            "y",
            settings={"deep_period": deep_period, "simple_period": simple_period},
        ),
    )
    return Plan(4, 2, steps)


PLAN = choice_plan()
CALIBRATOR = make_calibrator(PLAN, settle=40)


def transcribed(decisions: list[float], deep_period: int, simple_period: int) -> list[bool]:
    """Run the classifier at step 0 and keep its decision; run it again when the counter reaches the period."""
    deep, counter, chosen = False, 0, []
    for step, decision in enumerate(decisions):
        if step == 0 or counter == (deep_period if deep else simple_period):
            deep, counter = decision > 0.5, 0
        counter += 1
        chosen.append(deep)
    return chosen


def windows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 4, 2)).astype(np.float32)


# which branch


@settings(deadline=None)
@given(decisions=DECISIONS)
def test_a_stream_asks_every_12_windows_when_deep_and_every_60_when_simple(decisions: list[float]) -> None:
    assert choose(np.array(decisions), PERIODS, Choice()).tolist() == transcribed(decisions, 12, 60)


@settings(deadline=None)
@given(
    decisions=DECISIONS, cuts=st.lists(st.integers(0, 300), max_size=6), periods=st.tuples(*[st.integers(1, 70)] * 2)
)
def test_chunks_carry_the_choice_on(decisions: list[float], cuts: list[int], periods: tuple[int, int]) -> None:
    given_periods = {"deep_period": periods[0], "simple_period": periods[1]}
    choice, ends = Choice(), [0, *sorted(min(cut, len(decisions)) for cut in cuts), len(decisions)]
    parts = [choose(np.array(decisions[a:b]), given_periods, choice).tolist() for a, b in pairwise(ends)]
    assert [one for part in parts for one in part] == transcribed(decisions, *periods)


def test_a_decision_of_exactly_a_half_is_for_the_simple_branch() -> None:
    assert choose(np.array([0.5, np.nextafter(0.5, 1)]), PERIODS).tolist() == [False, True]


def test_without_a_stream_each_window_chooses_for_itself() -> None:
    x = windows(50)
    decision, simple, deep = (run(part, x) for part in PLAN.branches or ())
    assert 10 < np.count_nonzero(decision > 0.5) < 40
    assert_allclose(run(PLAN, x), np.where(decision > 0.5, deep, simple), rtol=1e-6)
    assert deep_share(PLAN, x) == np.mean(decision > 0.5)
    backwards = run(PLAN, x[::-1])[::-1]
    assert_allclose(backwards, run(PLAN, x), rtol=1e-6)


def test_only_the_chosen_branch_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, int] = {}

    def watched(name: str) -> None:
        kernel = KERNELS[name]

        def body(x: np.ndarray, *rest: object) -> np.ndarray:
            seen[name] = seen.get(name, 0) + len(x)
            return kernel.run(x, *rest)

        monkeypatch.setitem(FLOAT_KERNELS.families[FLOAT_KERNELS.family_of(name)], name, replace(kernel, run=body))

    for name in ("newest", "flatten"):  # of the simple and of the deep branch
        watched(name)
    x, choice = windows(200), Choice()
    run(PLAN, x, choice)
    deep = transcribed(run(PLAN.branches[0], x).tolist(), 3, 5)  # type: ignore[index]
    assert seen == {"newest": 200 - sum(deep), "flatten": sum(deep)}


def test_no_windows_give_no_values_and_leave_the_choice_alone() -> None:
    choice = Choice(True, 2)
    empty = run(PLAN, windows(0), choice)
    assert (empty.shape, empty.dtype) == ((0,), np.float32)
    assert choice == Choice(True, 2)


def test_a_choice_must_be_the_last_step() -> None:
    steps = (*PLAN.steps, dense("y", "z", [[1.0]]))
    with pytest.raises(ValueError, match="select is not the last step"):
        Plan(4, 2, steps)


# in a stream of readings


def expected(readings: Readings) -> np.ndarray:
    """Every usable window decided by the transcription, from values that need no stream."""
    feed_once = make_calibrator(choice_plan(1, 1), settle=40)  # asked at every window
    has_value = np.isfinite(feed_once.predict(readings)["calibrated"].fill_null(np.nan).to_numpy())
    parts = []
    for part in PLAN.branches or ():
        values = make_calibrator(part, settle=40).predict(readings)["calibrated"].fill_null(np.nan).to_numpy()
        parts.append((values - 18) / 6)
    decision, simple, deep = parts
    out = np.full(len(readings), np.nan)
    chosen = np.array(transcribed(decision[has_value].tolist(), 3, 5))
    out[has_value] = np.where(chosen, deep[has_value], simple[has_value])
    return 18 + 6 * out


@pytest.mark.parametrize("device", ["box-1", "new"])
def test_predict_chooses_as_the_published_rule_does(device: str) -> None:
    readings = bad_readings(3, 900, device)
    calibrated = CALIBRATOR.predict(readings)["calibrated"].fill_null(np.nan).to_numpy()
    assert_allclose(calibrated, expected(readings), rtol=1e-5, atol=1e-4)
    assert np.isfinite(calibrated).sum() > 500


@settings(deadline=None, max_examples=30, derandomize=True)
@given(
    seed=st.integers(0, 1000), device=st.sampled_from(["box-1", "new"]), cuts=st.lists(st.integers(0, 150), max_size=8)
)
def test_chunks_and_live_readings_give_what_predict_gives(seed: int, device: str, cuts: list[int]) -> None:
    readings = bad_readings(seed, 150, device)
    calibrated = CALIBRATOR.predict(readings)["calibrated"].fill_null(np.nan).to_numpy()
    ends = [0, *sorted(cuts), 150]
    stream, live = CALIBRATOR.stream(device), CALIBRATOR.live(device)
    streamed = [stream.push(readings.times[a:b], readings.values[a:b])[0] for a, b in pairwise(ends)]
    assert_allclose(np.concatenate(streamed), calibrated, rtol=1e-5)
    one_by_one = [live.push(t, row)[0] for t, row in zip(readings.times.tolist(), readings.values, strict=True)]
    assert_allclose(one_by_one, calibrated, rtol=1e-5)


def test_more_windows_than_one_batch_carry_the_choice_on(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = bad_readings(5, 700)
    whole = CALIBRATOR.predict(readings)["calibrated"].to_numpy()
    monkeypatch.setattr("scare.calibrator.calibrator.CHUNK", 7)
    assert_allclose(CALIBRATOR.predict(readings)["calibrated"].to_numpy(), whole, rtol=1e-5)


def test_a_saved_plan_chooses_as_before(tmp_path: Path) -> None:
    loaded, readings = Calibrator.load(CALIBRATOR.save(tmp_path / "a.scare")), bad_readings(6, 400)
    assert loaded.plan.steps[-1].settings == {"deep_period": 3, "simple_period": 5}
    assert_array_equal(loaded.predict(readings)["calibrated"], CALIBRATOR.predict(readings)["calibrated"])


# cost


def test_the_worst_reading_asks_and_runs_the_dearer_branch() -> None:
    asked = Operations(8, 8, exponentials=4, divisions=5)
    assert count(PLAN).operations == asked + Operations(8)
    assert count(choice_plan(1, 1), 1.0).mean_operations == asked + Operations(8)
    assert count(choice_plan(1, 1), 0.0).mean_operations == asked + Operations(2)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_mean_reading_is_the_mean_of_a_long_stream(share: float) -> None:
    """4 000 decisions taken in turn, their readings added up one by one."""
    total, readings = np.zeros(5), 0
    for decision in range(4000):
        deep = decision % 4 < 4 * share
        period = 3 if deep else 5
        total += np.array([8, 8, 0, 4, 5])  # the classifier, once
        total[0] += period * (8 if deep else 2)
        readings += period
    mean = count(PLAN, share).mean_operations
    found = [mean.multiply_adds, mean.additions, mean.bit_operations, mean.exponentials, mean.divisions]
    assert_allclose(found, total / readings, atol=0.5)


def test_a_plan_without_a_choice_costs_the_same_at_every_reading() -> None:
    cost = count(newest_plan(), 0.3)
    assert cost.mean_operations == cost.operations
    assert deep_share(newest_plan(), np.zeros((3, 5, 2))) == 1


def test_a_calibrator_counts_with_the_decisions_of_its_validation_windows() -> None:
    share = deep_share(PLAN, CALIBRATOR.validation.windows)
    assert 0 < share < 1
    assert CALIBRATOR.cost() == count(PLAN, share)
    assert CALIBRATOR.cost().mean_operations != count(PLAN).mean_operations


def test_both_branches_are_folded() -> None:
    steps = list(PLAN.steps)
    steps[3:4] = [
        dense("now", "wide", [[2.0, 1.0, 0.5], [-0.5, 0.2, 0.1]]),
        dense("wide", "simple", [[1.0], [0.5], [2.0]]),
    ]
    long, x = replace(PLAN, steps=tuple(steps)), windows(60)
    folded = fold(long)
    assert len(folded.steps) == len(PLAN.steps)
    assert_allclose(run(folded, x), run(long, x), rtol=1e-5, atol=1e-6)
