"""Complexity and memory against numbers worked by hand, and every model's growth from its own file."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.baselines import MODELS
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import bind, find_correction
from scare.calibrator.plan import Plan, Step
from scare.kernels import Operations
from scare.models import Scare
from scare.scorecard.cost import OperationGrowth, complexity_findings, fit_exponent, memory_findings
from scare.scorecard.growth import operation_growth
from tests.calibrator.building import make_calibrator

LENGTHS = (60, 120, 240, 480, 960, 1920)


def dot_product(window: int) -> Plan:
    weight = np.zeros((2 * window, 1), np.float32)
    return Plan(window, 2, (Step("flatten", ("x",), "flat"), Step("dense", ("flat",), "y", {"weight": weight})))


def found(calibrator: Calibrator, growth: OperationGrowth | None) -> dict[str, object]:
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
    assert found(calibrator, right) == {
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
    assert (found(ridge, None)["declared_complexity"], found(ridge, None)["exponent"]) == ("O(N)", 1.0)
    assert found(make_calibrator(Plan(60, 2, newest)), None)["declared_complexity"] == "O(1)"


def test_a_correction_is_constant() -> None:
    barkjohn = find_correction("barkjohn-2021")
    calibrator = bind(barkjohn, {role.name: role.channel for role in barkjohn.roles}, 60.0)
    assert found(calibrator, operation_growth(calibrator)) == {
        "declared_complexity": "O(1)",
        "exponent": 0.0,
        "operations": 2,
    }


def test_an_unknown_model_has_no_exponent_but_a_reason() -> None:
    calibrator = make_calibrator(dot_product(60))
    assert operation_growth(calibrator) is None
    assert found(calibrator, None) == {"declared_complexity": None, "exponent": None, "operations": 120}


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
