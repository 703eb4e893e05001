"""A calibrator for a box it has never seen: its own scaling as far as its rows go, and what a reference teaches."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.passes import LEARNED
from scare.data.readings import CALIBRATED, Readings
from scare.errors import DataError
from scare.upkeep.update import adopt, own_scaling, revert, update
from tests.calibrator.building import make_calibrator, newest_plan
from tests.upkeep.sessions import HOURLY, air, session, with_reference

SMALL = make_calibrator(newest_plan(), settle=96)
FLEET = replace(SMALL, inputs=replace(SMALL.inputs, step_seconds=3600.0))


def new_box(days: float, seed: int, start_day: float = 20000.0) -> Readings:
    """A box that reads 30 % too much, beside what a known one would be calibrated to."""
    readings = air(days, seed, start_day)
    truth = session(readings).targets
    strange = readings.frame.with_columns(pm25=1.3 * readings.frame["pm25"] + 4)
    return replace(with_reference(replace(readings, frame=strange), truth), device="box-9")


def rmse(calibrator: Calibrator, readings: Readings) -> float:
    values = calibrator.predict(readings)[CALIBRATED].fill_null(np.nan).to_numpy()
    return float(np.sqrt(np.nanmean(np.square(values - readings.targets))))


@pytest.mark.parametrize("hours", [12, 48, 120])
def test_hours_beside_a_reference_bring_a_new_box_nearer(hours: int) -> None:
    found = adopt(FLEET, new_box(hours / 24, seed=3))
    later = new_box(10, seed=8, start_day=20050)
    unknown = replace(FLEET, inputs=replace(FLEET.inputs, scaling=replace(FLEET.inputs.scaling, settle=10**6)))
    assert rmse(found.calibrator, later) < 0.6 * rmse(unknown, later)
    assert list(found.calibrator.inputs.scaling.devices) == ["box-9"]
    assert found.calibrator.facts[LEARNED]["devices"] == ["box-9"]


def test_the_scaling_is_its_own_after_the_settling_and_the_fleets_before() -> None:
    scaling, rows = FLEET.inputs.scaling, np.random.default_rng(1).normal([50, 10], [4, 9], (96, 2))
    own = scaling.own(rows)
    for count, share in ((0, 0.0), (96, 1.0)):
        found = own_scaling(scaling, rows[:count])
        assert_allclose(found.center, share * own.center + (1 - share) * scaling.fleet.center)
        assert_allclose(found.scale, own.scale if share else scaling.fleet.scale)
    half = own_scaling(scaling, rows[:48])
    assert_allclose(half.scale, np.sqrt(scaling.own(rows[:48]).scale * scaling.fleet.scale))


def test_rows_without_a_reference_teach_the_scaling_alone() -> None:
    box = new_box(4, seed=5)
    hours = with_reference(box, np.where(np.arange(len(box)) < 84, np.nan, box.targets))
    found = adopt(FLEET, hours)
    assert found.pairs == 12
    assert_allclose(
        found.calibrator.inputs.scaling.devices["box-9"].center, FLEET.inputs.scaling.own(box.values).center
    )


def test_a_known_box_keeps_its_scaling_and_noise_teaches_it_nothing() -> None:
    found = adopt(HOURLY, session(air(3), noise=2.0))
    assert found.calibrator.inputs.scaling.devices == {"box-1": HOURLY.inputs.scaling.devices["box-1"]}
    assert not found.changed


def test_an_adopted_calibrator_goes_on_learning_and_can_take_it_back() -> None:
    adopted = adopt(FLEET, new_box(2, seed=3)).calibrator
    again = update(adopted, [new_box(4, seed=6, start_day=20020)]).calibrator
    assert again.facts[LEARNED]["sessions"] == 2
    assert revert(again).plan == FLEET.plan


def test_garbage_is_refused() -> None:
    box = new_box(2, seed=3)
    for truth in (np.full(len(box), 3.0), np.full(len(box), np.nan), 1000 * box.targets):
        with pytest.raises(DataError):
            adopt(FLEET, with_reference(box, truth))
