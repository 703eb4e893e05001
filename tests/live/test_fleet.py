"""A fleet gives for every row what `Calibrator.live` of its device gives, whoever else reports with it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.calibrator.calibrator import CalibratedRows, Calibrator
from scare.calibrator.linear import raw_reading
from scare.data.flags import Flag
from scare.errors import DataError, UsageError
from scare.live.fleet import Fleet, Route
from tests.calibrator.building import EDGES, attention_plan, curve_plan, make_calibrator, newest_plan, with_edges
from tests.kernels.test_choice import choice_plan

START = 1.7e9
WAITS = (61.0, 20.0, 120.0, 180.0, 3600.0, 0.0, -40.0, -290.0, -310.0, -1e7, 1e7)
SPOILT = (np.nan, -999.0, 65535.0, -5.0, np.inf)
CALIBRATORS = {
    "line": make_calibrator(newest_plan(), settle=30),
    "network": make_calibrator(attention_plan(), settle=30, training_range=EDGES),
    "chosen": make_calibrator(choice_plan(), settle=30),
}
ROBUST = {
    name: replace(one, inputs=replace(one.inputs, scaling=replace(one.inputs.scaling, method="robust")))
    for name, one in CALIBRATORS.items()
}
ROUTES = (Route("*", "line"), Route("chosen-?", "chosen"), Route("box-1", "network"), Route("new-*", "network"))
Batch = tuple[list[str], np.ndarray, np.ndarray]  # devices, times, rows
DEVICES = ("box-1", "box-2", "new-1", "new-2", "other", "chosen-1", "chosen-2")


def drawn_batches(seed: int, count: int, devices: tuple[str, ...] = DEVICES) -> list[Batch]:
    """Batches of some devices each, with gaps, early rows, sentinels, missing numbers and clocks that jump."""
    rng = np.random.default_rng(seed)
    clock, batches = dict.fromkeys(devices, START), []
    for _ in range(count):
        some = [device for device in rng.permutation(devices).tolist() if rng.random() < 0.9]
        waits = np.where(rng.random(len(some)) < 0.8, 60.0, rng.choice(WAITS, len(some)))
        rows = rng.normal([20, 300], [8, 60], (len(some), 2)).clip(0.5)
        spoilt = rng.random(rows.shape) < 0.03
        rows[spoilt] = rng.choice(SPOILT, np.count_nonzero(spoilt))
        clock |= {device: clock[device] + wait for device, wait in zip(some, waits.tolist(), strict=True)}
        batches.append((some, np.array([clock[device] for device in some]), rows))
    return batches


def push_live(calibrators: dict[str, Calibrator], batches: list[Batch]) -> list[CalibratedRows]:
    """What the devices give one by one."""
    fleet = Fleet(calibrators, ROUTES)
    lives = {device: calibrators[fleet.route(device)].live(device) for devices, _, _ in batches for device in devices}
    pushed = []
    for devices, times, rows in batches:
        given = zip(devices, times.tolist(), rows, strict=True)
        calibrated = [lives[device].push(time, row) for device, time, row in given]
        *numbers, flags = map(np.array, zip(*calibrated, strict=True))
        pushed.append(CalibratedRows(*numbers, flags.astype(np.uint32)))
    return pushed


def assert_same(pushed: list[CalibratedRows], expected: list[CalibratedRows]) -> None:
    for one, other in zip(pushed, expected, strict=True):
        assert_array_equal(one.flags, other.flags, strict=True)
        for name in ("values", "low", "high"):
            assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32), robust=st.booleans())
def test_every_row_is_as_its_device_alone(seed: int, robust: bool) -> None:
    calibrators, batches = ROBUST if robust else CALIBRATORS, drawn_batches(seed, 50)
    fleet = Fleet(calibrators, ROUTES)
    assert_same([fleet.push(*batch) for batch in batches], push_live(calibrators, batches))


def test_a_fleet_goes_on_from_its_state() -> None:
    batches = drawn_batches(1, 80)
    fleet, other = Fleet(CALIBRATORS, ROUTES), Fleet(CALIBRATORS, ROUTES)
    for batch in batches[:20]:
        fleet.push(*batch)
    other.restore(fleet.state())
    assert_same([other.push(*batch) for batch in batches[20:]], [fleet.push(*batch) for batch in batches[20:]])


def test_exact_names_come_before_patterns_and_patterns_before_the_default() -> None:
    fleet = Fleet(CALIBRATORS, (Route("*", "line"), Route("b*", "chosen"), Route("box", "network")))
    assert [fleet.route(device) for device in ("box", "box-1", "fox")] == ["network", "chosen", "line"]
    with pytest.raises(DataError, match="fox: no route leads to a calibrator"):
        Fleet(CALIBRATORS, (Route("b*", "line"),)).route("fox")
    with pytest.raises(UsageError, match="route 'b': there is no calibrator 'oak', only line"):
        Fleet(CALIBRATORS, (Route("b", "oak"),))


def test_calibrators_may_read_different_channels() -> None:
    line = CALIBRATORS["line"]
    raw = raw_reading(line.inputs, line.target)
    fleet = Fleet({"line": line, "raw": raw}, (Route("*", "line"), Route("c", "raw")))
    pushed = fleet.push(("a", "c"), np.full(2, START), (np.array([5.0, 6.0]), np.array([7.0])))
    assert_allclose(pushed.values, [np.nan, 7.0])


def test_intervals_are_as_wide_as_asked_for_but_not_below_the_floor() -> None:
    calibrator = with_edges(make_calibrator())
    devices, rows = ["box-1", "box-2"], np.tile([20.0, 300.0], (2, 1))
    ends = []
    for factor in (1.0, 2.0, 100.0):
        fleet = Fleet({"pm": calibrator}, [Route("*", "pm")])
        for minute in range(8):
            value, low, high, _ = fleet.push(devices, np.full(2, 1.7e9 + 60 * minute), rows, {"box-1": factor})
        ends.append((value - low, high - value, low))
    usual, twice, huge = ends
    assert_allclose(np.array(twice[:2])[:, 0], 2 * np.array(usual[:2])[:, 0])
    assert_array_equal(np.array(huge)[:, 1], np.array(usual)[:, 1])
    assert huge[2][0] == calibrator.floor


def test_a_batch_that_cannot_be_taken_changes_nothing() -> None:
    fleet, good = Fleet(CALIBRATORS, ROUTES), np.ones((2, 2))
    fleet.push(("a", "b"), np.full(2, START), good)
    before = {name: array.copy() for name, array in fleet.state().arrays.items()}
    for batch, message in (
        (
            (("a", "chosen-1"), np.full(2, START + 60), (np.ones(2), np.ones(3))),
            r"chosen-1: its row has the shape \(3,\)",
        ),
        ((("a", "b"), np.full(2, START + 60), np.ones((2, 1))), "'line' reads 2 numbers"),
        ((("a", "a"), np.full(2, START + 60), good), "a is in the batch twice"),
        ((("a", "b"), np.array([START + 60, np.nan]), good), "b: the time nan is not a number"),
        ((("a", "b"), np.array([np.inf, START]), good), "a: the time inf is not a number"),
        ((("a",), np.full(1, START), good), "1 devices need as many rows and times, not 2 rows"),
    ):
        with pytest.raises(DataError, match=message):
            fleet.push(*batch)
    for name, array in fleet.state().arrays.items():
        assert_array_equal(array, before[name])
    assert len(fleet) == 2


# another model in place of the one in use


@pytest.mark.parametrize("settled", [False, True])
def test_a_model_that_reads_the_same_continues_as_if_it_had_always_been_there(settled: bool) -> None:
    line = make_calibrator(curve_plan(5, hats=False), settle=30)
    scaling = line.inputs.scaling
    known = {"another": scaling.fleet, "box-2": scaling.devices["box-1"]}
    scaling = replace(scaling, fleet=scaling.devices["box-1"], devices=known)
    line = replace(line, inputs=replace(line.inputs, scaling=scaling))
    batches = drawn_batches(3, 80, ("other", "another", "box-2"))
    fleet = Fleet(CALIBRATORS, ROUTES)
    before = 60 if settled else 20
    for batch in batches[:before]:
        fleet.push(*batch)
    restored = Fleet({**CALIBRATORS, "line": line}, ROUTES)
    restored.restore(fleet.state())
    fleet.replace("line", line)
    for one in (fleet, restored):
        pushed = [one.push(*batch) for batch in batches[before:]]
        assert_same(pushed, push_live({**CALIBRATORS, "line": line}, batches)[before:])


def test_a_model_that_reads_differently_begins_new_histories_and_flags_it() -> None:
    batches, fleet = drawn_batches(4, 60, ("other", "box-2")), Fleet(CALIBRATORS, ROUTES)
    for batch in batches[:20]:
        fleet.push(*batch)
    longer = make_calibrator(newest_plan(7), settle=30)
    restored = Fleet({**CALIBRATORS, "line": longer}, ROUTES)
    restored.restore(fleet.state())
    fleet.replace("line", longer)
    for one in (fleet, restored):
        pushed = [one.push(*batch) for batch in batches[20:]]
        expected, begun = push_live({**CALIBRATORS, "line": longer}, batches[20:]), set[str]()
        for (devices, _, _), wanted in zip(batches[20:], expected, strict=True):
            new = np.array([device not in begun for device in devices])
            wanted.flags[new] |= np.uint32(Flag.RESTART)
            begun |= set(devices)
        assert_same(pushed, expected)
    with pytest.raises(UsageError, match="no calibrator 'oak' to replace"):
        fleet.replace("oak", longer)
