"""The equation of a linear calibrator computes what the calibrator computes."""

import re
from dataclasses import replace

import numpy as np
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.equation import describe_equations, equations
from scare.calibrator.linear import linear_calibrator, newest_inputs, raw_reading
from scare.calibrator.model_card import model_card
from scare.calibrator.plan import INPUT, Plan, Step, run
from scare.calibrator.plan_passes import narrow
from scare.windowing.scaling import Affine, DeviceEffect, Scaling
from tests.calibrator.building import TARGET, curve_plan, make_calibrator

SCALING = Scaling(
    "standard", Affine(np.array([12.0, 400.0]), np.array([5.0, 30.0])), Affine(np.array([9.0]), np.array([4.0]))
)


def line(channels: int = 2, **changes: object) -> Calibrator:
    """0.8 of the scaled dust, and a little of the current."""
    inputs = replace(make_calibrator().inputs, scaling=replace(SCALING, **changes))
    narrowed, weights = newest_inputs(inputs, range(channels)), np.array([0.8, -0.1])
    return linear_calibrator(narrowed, TARGET, weights[:channels], 0.3, "line")


def computed(formula: str, cells: dict[str, float]) -> float:
    """What a spreadsheet would make of a formula of sums and products."""
    terms = re.findall(r"([+-]?[0-9.e]+)(?:\*([A-Z]2))?", formula.removeprefix("=").replace("e-0", "e_0"))
    return sum(float(number.replace("e_0", "e-0")) * (cells[cell] if cell else 1.0) for number, cell in terms)


def test_the_formula_of_a_spreadsheet_gives_the_calibrators_values() -> None:
    calibrator = line()
    (equation,) = equations(calibrator).values()
    for dust, current in ((5.0, 380.0), (30.0, 420.0)):
        expected = calibrator.predict_one(np.array([[dust, current]]))
        assert computed(equation.spreadsheet(), {"B2": dust, "C2": current}) == pytest.approx(expected, rel=1e-3)


def test_the_points_for_home_assistant_lie_on_the_line() -> None:
    calibrator = line(channels=1)
    (equation,) = equations(calibrator).values()
    assert str(equation) == "reference pm25 = 0.64 × pm25 + 2.52, in µg/m³"
    for reading, value in equation.points:
        assert calibrator.predict_one(np.array([[reading]])) == pytest.approx(value, rel=1e-5)
    assert "In a spreadsheet with pm25 in column B, row 2: =0.64*B2+2.52" in model_card(calibrator)


def test_devices_with_effects_have_equations_of_their_own() -> None:
    calibrator = line(effects={"a": DeviceEffect(0.5, 0.1), "b": DeviceEffect(0.0, 0.0)})
    found = equations(calibrator)
    assert set(found) == {"a", ""}
    row = np.array([[20.0, 400.0]])
    for device, equation in found.items():
        value = float(np.dot(equation.slopes, row[0]) + equation.intercept)
        assert value == pytest.approx(calibrator.predict_one(row, device), rel=1e-5)
    assert describe_equations(calibrator)[0].startswith("a: reference pm25 = ")


def test_a_model_of_the_window_has_none() -> None:
    assert equations(make_calibrator(curve_plan())) == {}


def test_the_reading_as_is_has_the_shortest() -> None:
    (equation,) = equations(raw_reading(line().inputs, TARGET)).values()
    assert str(equation) == "reference pm25 = 1 × pm25, in µg/m³"


def test_a_plan_of_the_newest_row_loses_its_history_and_unused_channels() -> None:
    weight = np.array([[2.0], [0.0], [-1.0]], np.float32)
    plan = Plan(60, 3, (Step("newest", (INPUT,), "now"), Step("dense", ("now",), "y", {"weight": weight})))
    short, kept = narrow(plan)
    assert (short.window, short.channels, kept) == (1, 2, (0, 2))
    windows = np.random.default_rng(0).normal(size=(5, 60, 3)).astype(np.float32)
    np.testing.assert_array_equal(run(plan, windows), run(short, windows[:, -1:, list(kept)]))


def test_the_calibrated_channel_stays_and_history_that_is_used_stays() -> None:
    weight = np.array([[0.0], [1.0]], np.float32)
    first = Plan(4, 2, (Step("newest", (INPUT,), "now"), Step("dense", ("now",), "y", {"weight": weight})))
    assert narrow(first)[1] == (0, 1)
    curve, hats = curve_plan(hats=False), curve_plan()
    assert (narrow(curve)[0].window, narrow(curve)[1]) == (1, (0, 1))
    assert narrow(hats) == (hats, (0, 1))


def test_a_channel_that_no_new_device_settles_for_needs_no_settling() -> None:
    inputs = line(settle=48, own_share=np.array([0.0, 1.0])).inputs
    assert inputs.scaling.settle == 48
    assert newest_inputs(inputs, [0]).scaling.settle == 0
