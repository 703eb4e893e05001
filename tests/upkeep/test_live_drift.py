"""Devices that report now are assessed as their readings would be in a file, whatever the order they come in."""

from dataclasses import replace

import numpy as np
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import Readings
from scare.data.simulate import simulate
from scare.data.simulated_air import Drift, DriftKind
from scare.live.fleet import Fleet, FleetState, Route
from scare.upkeep.drift import DriftState, Hours, align_boxes, box_hours, watch_hours
from scare.upkeep.live_drift import MAX_DEVICES, DriftMonitor
from tests.upkeep.conftest import BORDER, FLEET

DAYS = 30
SOUND = np.zeros(6, np.uint32)


@pytest.fixture(scope="module")
def readings() -> list[Readings]:
    """A month of six boxes, of which one dies."""
    drift = Drift(DriftKind.DYING, box=3, day=29, ramp_days=5)
    return [one.rows(one.times >= BORDER) for one in simulate(replace(FLEET, drifts=(drift,)))]


@pytest.fixture(scope="module")
def hours(calibrator: Calibrator, readings: list[Readings]) -> Hours:
    return align_boxes([(one.device, *box_hours(calibrator, one)) for one in readings])


def report(monitor: DriftMonitor, hours: Hours, days: range, late: int = -1) -> None:
    """All boxes report every hour; one of them is five hours behind the others."""
    flat = hours.values.reshape(len(hours.devices), -1, hours.values.shape[-1])
    for hour in range(24 * days.start, 24 * days.stop):
        at = np.array([box for box in range(len(flat)) if hour >= 5 * (box == late)])
        rows = np.array([hour - 5 * (box == late) for box in at])
        monitor.record(at, 3600.0 * (24 * hours.first + rows), flat[at, rows], SOUND[at])


def make_monitor(calibrator: Calibrator) -> DriftMonitor:
    monitor = DriftMonitor(calibrator)
    monitor.add(6)
    return monitor


@pytest.mark.parametrize("late", [-1, 2])
def test_boxes_that_report_are_assessed_as_their_file_is(calibrator: Calibrator, hours: Hours, late: int) -> None:
    monitor = make_monitor(calibrator)
    report(monitor, hours, range(20), late)
    assert monitor["state"][:6].tolist() == [DriftState.UNKNOWN] * 6
    report(monitor, hours, range(20, DAYS), late)
    ended = replace(hours, values=hours.values[:, :-1].copy())  # the last day has not
    if late >= 0:  # what it says of a day that has ended is too late
        ended.values[late, :, -4:] = np.nan
    reported = {one.device: one for one in watch_hours(calibrator, ended).boxes}
    assert monitor["state"][:6].tolist() == [reported[device].state for device in hours.devices]
    assert reported["box-04"].state == DriftState.RECOLLOCATE
    expected = [reported[device].expected_error for device in hours.devices]
    np.testing.assert_allclose(monitor.expected_errors(np.arange(6)), expected, rtol=1e-3)
    assert np.isfinite(expected).all()


def test_a_device_without_others_is_never_called_fine(calibrator: Calibrator, hours: Hours) -> None:
    alone = replace(hours, devices=hours.devices[:1], values=hours.values[:1])
    monitor = DriftMonitor(calibrator)
    monitor.add(1)
    report(monitor, alone, range(DAYS))
    assert monitor["since"][0] >= 7  # it has enough days
    assert monitor["state"][0] == DriftState.UNKNOWN


def test_what_is_kept_goes_on_where_it_was(calibrator: Calibrator, hours: Hours) -> None:
    first, second = make_monitor(calibrator), DriftMonitor(calibrator)
    report(first, hours, range(25))
    second.restore(first.state())
    for one in (first, second):
        report(one, hours, range(25, DAYS))
    for name, array in first.state().items():
        np.testing.assert_array_equal(array, second.state()[name])


def test_half_of_the_boxes_end_a_day_for_all(calibrator: Calibrator) -> None:
    monitor = make_monitor(calibrator)
    rows = np.ones((6, 5))
    monitor.record(np.arange(6), np.full(6, 3600.0), rows, SOUND)
    monitor.record(np.arange(2), np.full(2, 86400.0), rows[:2], SOUND[:2])
    assert monitor.ended == -1
    monitor.record(np.array([5]), np.full(1, 86400.0), rows[:1], SOUND[:1])
    assert monitor.ended == 0


def make_fleet(calibrator: Calibrator) -> Fleet:
    return Fleet({"no2": calibrator}, [Route("*", "no2")])


def push(fleet: Fleet, readings: list[Readings], rows: range) -> FleetState:
    for row in rows:
        times, values = (np.array([getattr(one, name)[row] for one in readings]) for name in ("times", "values"))
        fleet.push([one.device for one in readings], times, values)
    return fleet.state()


def test_the_hours_of_a_fleet_are_those_of_its_file(
    calibrator: Calibrator, readings: list[Readings], hours: Hours
) -> None:
    kept = push(make_fleet(calibrator), readings, range(90)).arrays  # of 96 rows in two days
    counts, totals = kept["no2/watching.count"], kept["no2/watching.total"]
    np.testing.assert_array_equal(kept["no2/watching.day"] - hours.first, [[0, 1]] * 6)
    means = np.divide(totals, counts, out=np.full(totals.shape, np.nan, np.float32), where=counts > 0)
    np.testing.assert_allclose(means[:, 0], hours.values[:, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(means[:, 1, :21], hours.values[:, 1, :21], rtol=1e-5, atol=1e-6)
    assert sum(one.nbytes for name, one in kept.items() if "/watching." in name) / 6 < 2800


def test_another_model_begins_anew_and_an_older_state_goes_on(calibrator: Calibrator, readings: list[Readings]) -> None:
    first, second = make_fleet(calibrator), make_fleet(calibrator)
    state = push(first, readings, range(50))
    assert (state.arrays["no2/watching.ended"] > 0).all()
    first.replace("no2", calibrator.with_facts(made="again"))
    assert (first.state().arrays["no2/watching.ended"] == -1).all()
    second.restore(replace(state, arrays={name: one for name, one in state.arrays.items() if "/watching." not in name}))
    push(second, readings, range(50, 60))
    expected, states = second.watched([one.device for one in readings])
    assert states.tolist() == [DriftState.UNKNOWN] * 6
    assert np.isnan(expected).all()


def test_the_state_of_a_version_with_other_sums_begins_anew(calibrator: Calibrator, hours: Hours) -> None:
    first, second = make_monitor(calibrator), DriftMonitor(calibrator)
    report(first, hours, range(16))
    state = first.state()
    second.restore({**state, "usual": np.ones((6, 3), np.float32)})
    assert second["usual_days"][:6].tolist() == [0] * 6
    assert second.ended == first.ended
    report(second, hours, range(16, 18))
    assert second["usual_days"][:6].tolist() == [1] * 6


def test_no_more_devices_are_watched_than_there_is_room_for(calibrator: Calibrator) -> None:
    monitor = DriftMonitor(calibrator)
    assert [len(monitor.add(MAX_DEVICES - 1)), len(monitor.add(6))] == [MAX_DEVICES - 1, 1]
    at = np.arange(MAX_DEVICES - 2, MAX_DEVICES + 1)
    monitor.record(at, np.full(3, 3600.0), np.ones((3, 5)), SOUND[:3])
    assert monitor["count"][:MAX_DEVICES, 0, 1, 0].sum() == 2
    assert monitor.states(at).tolist() == [DriftState.UNKNOWN] * 3
