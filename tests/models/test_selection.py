"""A candidate is taken only if validation shows that it pays; nothing more complex than needed is shipped."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare.board.boards import board
from scare.board.certificate import verify
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import Plan, Step
from scare.data.readings import CALIBRATED, Channel, Readings
from scare.export.lowering import Arithmetic
from scare.models.selection import (
    CANDIDATES,
    LINE,
    NETWORK,
    OFFSET,
    RAW,
    RIDGE,
    SUMMARIES,
    BlendWeight,
    Candidate,
    RawBaseline,
    Selection,
    SelectionRules,
    describe_outcome,
    mix,
    select,
)
from scare.training import loop
from scare.training.fit import fit
from scare.training.recipe import Recipe
from scare.windowing.training_examples import DesignMatrix
from tests.training.small_fits import NETWORK_STAYS, make_readings

LAGS, COUNT, USUAL = 3, 1200, SelectionRules()
_, OTHERS, HISTORY, WITH_FIRST, EVERY = CANDIDATES
Truth = Callable[
    [np.ndarray, np.ndarray, np.ndarray], np.ndarray
]  # of the newest two readings and the oldest first one


def products(features: np.ndarray) -> np.ndarray:
    first, second = np.triu_indices(features.shape[2])
    return features[:, 0, first] * features[:, 0, second]


def selected(truth: Truth, noise: float = 0.3, rules: SelectionRules = USUAL, channels: int = 2) -> Selection:
    """Selection on features [n, rows, channels], whose row 0 is the newest."""
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(2):
        x = rng.normal(size=(COUNT, LAGS, channels))
        target = truth(x[:, 0, 0], x[:, 0, -1], x[:, 2, 0]) + noise * rng.normal(size=COUNT)
        parts.append(DesignMatrix(x, target, np.arange(float(COUNT))))
    return select(*parts, 0, products, rules)


@pytest.mark.parametrize(
    ("truth", "admitted"),
    [
        (lambda a, b, old: 2 * a, {LINE}),
        (lambda a, b, old: 2 * a - b, {LINE, OTHERS}),
        (lambda a, b, old: 2 * a + old, {LINE, HISTORY}),
        (lambda a, b, old: 2 * a + a * b, {LINE, WITH_FIRST}),
        (lambda a, b, old: 2 * a + b * b, {LINE, EVERY}),
    ],
)
def test_exactly_the_candidates_that_the_truth_needs_are_admitted(truth: Truth, admitted: set[str]) -> None:
    found = selected(truth)
    assert {candidate.name for candidate in found.candidates if candidate.admitted} == admitted
    assert found.rmse == pytest.approx(0.3, rel=0.1)


def test_a_line_keeps_the_slope_of_training_however_flat_validation_is() -> None:
    x = np.random.default_rng(3).normal(size=(400, 1, 1))
    times = np.arange(400.0)
    train, flat = DesignMatrix(x, 2 * x[:, 0, 0], times), DesignMatrix(x, 0.5 * x[:, 0, 0], times)
    assert select(train, flat, 0, None, USUAL).solution[0] == pytest.approx([2.0], rel=1e-3)


def test_a_small_improvement_is_admitted_only_if_it_is_significant() -> None:
    def truth(a: np.ndarray, b: np.ndarray, old: np.ndarray) -> np.ndarray:
        return a + 0.1 * b  # lowers the error by about 5 %

    for z_score, expected in ((1.64, True), (50.0, False)):
        found = selected(truth, rules=SelectionRules(z_score=z_score))
        others = next(candidate for candidate in found.candidates if candidate.name == OTHERS)
        assert USUAL.significant_improvement < others.improvement < USUAL.clear_improvement
        assert others.admitted is expected
    assert not selected(truth, rules=SelectionRules(significant_improvement=0.07)).candidates[1].admitted


def test_one_channel_has_no_candidate_of_other_channels() -> None:
    found = selected(lambda a, b, old: a, channels=1)
    assert [candidate.name for candidate in found.candidates] == [LINE, HISTORY, WITH_FIRST]


def test_weights_are_zero_where_nothing_admitted_reads() -> None:
    weights, _ = selected(lambda a, b, old: 2 * a - b).solution
    assert np.count_nonzero(weights) == 2
    np.testing.assert_allclose(weights[:2], [2, -1], atol=0.05)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_a_mix_never_loses_to_what_it_is_made_of(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    wide, targets = rng.normal(size=(80, 4)), rng.normal(size=80)
    solutions = [(rng.normal(size=4), float(rng.normal())) for _ in range(count)]
    errors = [
        np.square(wide @ weights + bias - targets).mean()
        for weights, bias in [*solutions, mix(solutions, wide, targets)]
    ]
    assert errors[-1] <= min(errors) + 1e-6


ROWS, NOISY, WINDOW = 1500, 1000, 16
TRUTHS = {
    RAW: lambda now, before: now,
    OFFSET: lambda now, before: now + 5,
    LINE: lambda now, before: 2 * now + 5,
    "curve": lambda now, before: now + 0.2 * now**2,
    RIDGE: lambda now, before: now + before,
}
KERNELS = {
    RAW: ["newest", "dense"],
    OFFSET: ["newest", "dense"],
    LINE: ["newest", "dense"],
    "curve": ["newest", "dense", "products", "dense", "add"],
    RIDGE: ["hat_basis", "flatten", "dense"],
}


def colocation(truth: str, unit: str = "ppb", target_unit: str = "ppb") -> Readings:
    """A sensor whose truth is a function of its newest reading and the one before; noise at the beginning.

    So what is simpler than the truth, or more complicated, is worse on what is held out.
    """
    rng = np.random.default_rng(7)
    values = rng.normal(size=(ROWS, 1))
    noise = 0.1 * rng.normal(size=NOISY)
    targets = TRUTHS[truth](values[:, 0], np.roll(values[:, 0], 1))
    targets[:NOISY] += noise if truth == RAW else noise - noise.mean()  # an offset is known exactly, or wrong
    readings = make_readings(values, targets)
    return replace(readings, channels=(Channel("raw", unit),), reference=Channel("no2", target_unit))


@pytest.fixture(scope="module")
def calibrators() -> dict[str, Calibrator]:
    """Made of each truth, where a network never improves anything: it is interrupted at its start."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "run_round", interrupt)
        return {truth: fit(colocation(truth), recipe=Recipe.preset("default", WINDOW)) for truth in TRUTHS}


@pytest.mark.parametrize("truth", TRUTHS)
def test_a_calibrator_is_as_simple_as_the_truth(truth: str, calibrators: dict[str, Calibrator]) -> None:
    calibrator, outcome = calibrators[truth], RIDGE if truth == "curve" else truth
    assert [step.kernel for step in calibrator.plan.steps] == KERNELS[truth]
    assert calibrator.facts["outcome"] == calibrator.facts["model"] == outcome
    assert calibrator.facts["summary"] == SUMMARIES[outcome]
    assert calibrator.facts["network_share"] == 0
    assert calibrator.facts["parameters"] <= 60
    assert "hash_ties" not in calibrator.facts
    assert calibrator.facts["validation_rmse"] < 0.05
    new = colocation(truth)
    calibrated = calibrator.predict(new)[CALIBRATED].to_numpy()
    known = np.isfinite(calibrated)
    assert known.sum() >= ROWS - 80
    assert np.sqrt(np.square(calibrated - new.targets)[known].mean()) < 0.12


def test_of_several_channels_the_first_may_be_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "run_round", stop)
    one, humidity = colocation(RAW), np.random.default_rng(8).normal(size=(ROWS, 1))
    both = make_readings(np.hstack([one.values, humidity]), one.targets, channels=("raw", "humidity"))
    both = replace(both, channels=(*one.channels, Channel("humidity", "%")), reference=one.reference)
    found = fit(both, recipe=Recipe.preset("default", WINDOW))
    assert (found.facts["outcome"], [channel.name for channel in found.inputs.channels]) == (RAW, ["raw"])
    np.testing.assert_allclose(found.predict(both)[CALIBRATED], both.values[:, 0], rtol=1e-5)


def test_the_sensors_own_value_is_not_changed_at_all(calibrators: dict[str, Calibrator]) -> None:
    new = colocation(RAW)
    np.testing.assert_allclose(calibrators[RAW].predict(new)[CALIBRATED], new.values[:, 0], rtol=1e-5)


@pytest.mark.parametrize("truth", TRUTHS)
def test_what_is_no_network_computes_the_same_on_a_board(truth: str, calibrators: dict[str, Calibrator]) -> None:
    certificate = verify(calibrators[truth], board("nano33ble"), list(Arithmetic), 20, "", lambda: None)
    assert certificate.passed, certificate.reasons


def test_every_candidate_is_listed_with_its_error(calibrators: dict[str, Calibrator]) -> None:
    candidates = {candidate["candidate"]: candidate for candidate in calibrators[RIDGE].facts["selection"]}
    assert list(candidates) == ["raw", "offset", "line", "history", "products with the first channel", "network"]
    assert [name for name, candidate in candidates.items() if candidate["admitted"]] == ["line", "history"]
    assert candidates["line"]["rmse"] == pytest.approx(1.0, rel=0.2)  # what was read a minute before
    assert candidates["history"]["rmse"] < 0.05
    assert candidates["history"]["improvement"] == pytest.approx(
        1 - candidates["history"]["rmse"] / candidates["line"]["rmse"], abs=0.01
    )


def selection() -> Selection:
    return Selection((Candidate("line", 0.5, 0.4, 9.0, True),), (np.ones(1), 0.0), 0.5)


STRAIGHT = {"weight": np.ones((4, 1))}
DEEP = Plan(4, 1, (Step("flatten", ("x",), "flat"), Step("dense", ("flat",), "y", STRAIGHT)))


def test_a_network_tells_what_it_gains_before_its_share_is_cut() -> None:
    found = describe_outcome(
        selection(), BlendWeight(0.25, 0.04, 0.5, 0.485), DEEP, None, unit=2.0, rules=SelectionRules()
    )
    assert (found["outcome"], found["network_share"]) == (NETWORK, 0.25)
    assert found["summary"] == (
        "The network lowers the error of the best linear model by 4 %; the result is 25 % network, 75 % linear."
    )
    assert found["selection"] == [
        {"candidate": "line", "rmse": 1.0, "improvement": 0.4, "z_score": 9.0, "admitted": True},
        {"candidate": NETWORK, "rmse": 1.0, "improvement": 0.04, "admitted": True},
    ]


def test_a_plain_reading_that_is_no_worse_is_preferred_to_any_network() -> None:
    for error, margin, outcome in ((0.97, 0.0, RAW), (0.98, 0.0, NETWORK), (0.98, 0.02, RAW)):
        plain = RawBaseline(0.1, {RAW: error, OFFSET: 1.0})
        found = describe_outcome(
            selection(), BlendWeight(0.5, 0.06, 0.9, 0.97), DEEP, plain, 1.0, SelectionRules(raw_margin=margin)
        )
        assert found["outcome"] == outcome
        assert (found["network_share"] > 0) == (outcome == NETWORK)


def test_members_get_their_share_together() -> None:
    """Two that err to opposite sides are worth more than the mean of what each is worth alone."""
    rng = np.random.default_rng(1)
    targets, apart = rng.normal(size=(2, 4000))
    start = targets + rng.normal(size=4000)
    members = np.array([targets + side * apart for side in (1.0, -1.0)])
    alone, together = (
        BlendWeight.fit(given, start, targets, SelectionRules()) for given in (members[0], members.mean(axis=0))
    )
    assert alone.share == pytest.approx(0.5, abs=0.03)  # as good as its start, and independent of it
    assert alone.rmse == pytest.approx(np.sqrt(0.5), abs=0.03)
    assert (together.share, together.rmse) == pytest.approx((1.0, 0.0))


@given(st.floats(0.0, 1.0), st.floats(0.01, 0.99), st.integers(0, 2**31))
def test_the_best_share_is_the_best_of_all(true_share: float, other: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    start, outputs = rng.normal(size=(2, 50))
    targets = start + true_share * (outputs - start) + 0.1 * rng.normal(size=50)
    weight = BlendWeight.fit(outputs, start, targets, NETWORK_STAYS)
    assert weight.rmse <= np.sqrt(np.square(start + other * (outputs - start) - targets).mean()) + 1e-12


def test_a_network_that_has_learned_nothing_has_no_share() -> None:
    start = np.ones(10)
    assert BlendWeight.fit(start, start, np.zeros(10), NETWORK_STAYS) == BlendWeight(0.0, 0.0, 1.0, 1.0)


def test_a_share_that_is_hardly_one_is_none() -> None:
    assert SelectionRules().share(1.0, improvement=0.0445) == 0.0  # 29 %
    assert SelectionRules().share(1.0, improvement=0.0455) == pytest.approx(0.31)
    assert SelectionRules(min_share=0.0).share(1.0, improvement=0.0445) == pytest.approx(0.29)
    assert NETWORK_STAYS.share(1.0, improvement=0.0) == 1.0


def test_the_summary_names_the_linear_part_only_where_there_is_one() -> None:
    whole = describe_outcome(selection(), BlendWeight(1.0, 0.12, 0.4, 0.4), DEEP, None, 1.0, SelectionRules())
    expected = "The network lowers the error of the best linear model by 12 %; the result is 100 % network."
    assert whole["summary"] == expected


@pytest.mark.parametrize(
    ("unit", "target"), [("", ""), ("°C", "°C"), ("", "mg/L"), ("mV", "mg/L"), ("bpm", "bpm"), ("furlong", "mm/h")]
)
def test_units_are_never_required(unit: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "run_round", stop)
    found = fit(colocation(RAW, unit, target), recipe=Recipe.preset("default", WINDOW))
    assert found.facts["outcome"] == (RAW if unit == target or not unit else LINE)
