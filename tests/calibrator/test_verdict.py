"""The verdict says first what a calibrator is good for."""

import pytest

from scare.calibrator.intervals import COVERAGE_FACT
from scare.calibrator.model_card import model_card
from scare.calibrator.verdict import judge, verdict_of
from tests.calibrator.building import make_calibrator

FINE = {"rows": 2000, "rmse": 2.0, "r2": 0.9, "line_rmse": 3.0}
COVERED = {"level": 0.9, "rows": 2000, "share": 0.88, "width": 6.0}


@pytest.mark.parametrize(
    ("changes", "share", "level", "reason"),
    [
        ({}, 0.88, "good", "a straight line has an error of 3."),
        ({"r2": 0.6}, 0.88, "usable with care", "Explains 60 % of the variation: usable with care for hourly values."),
        ({"line_rmse": 1.5}, 0.88, "usable with care", "a straight line is better"),
        ({"line_rmse": None}, 0.88, "good", "while the reference varies by 6.32."),
        ({}, 0.7, "usable with care", "the 90 % interval contains only 70 % of the references"),
        ({"rows": 67}, 0.88, "usable with care", "only 67 rows could be scored"),
        ({"r2": 0.14}, 0.88, "not usable", "Explains 14 % of the variation: not usable for hourly values."),
        ({"r2": -2.0}, 0.88, "not usable", "Explains 0 % of the variation: not usable"),
        ({"r2": 1.0, "rmse": 0.0}, 0.88, "good", "The typical error (RMSE) is 0 µg/m³"),
    ],
)
def test_the_level_follows_the_numbers(changes: dict[str, float], share: float, level: str, reason: str) -> None:
    found = judge({**FINE, **changes}, {**COVERED, "share": share}, 3600.0, "ug/m3")
    assert found is not None
    assert found.level == level
    assert reason in found.text


def test_a_constant_reference_has_no_verdict() -> None:
    assert judge({**FINE, "r2": float("nan")}, None, 60.0, "") is None
    assert judge({**FINE, "r2": None}, None, 60.0, "") is None


def test_the_card_begins_with_the_verdict_of_training() -> None:
    scores = {"raw": {**FINE, "rmse": 9.0, "r2": -1.0}, "linear": {**FINE, "rmse": 3.0}, "scare (default)": FINE}
    calibrator = make_calibrator().with_facts(test_scores=scores, **{COVERAGE_FACT: COVERED})
    found = verdict_of(calibrator.facts, 60.0, "ug/m3")
    assert found is not None
    assert found.text.startswith("Explains 90 % of the variation: good for one-minute values. ")
    assert model_card(calibrator).splitlines()[2] == found.text
    assert verdict_of({}, 60.0, "ug/m3") is None
