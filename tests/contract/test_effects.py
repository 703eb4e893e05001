"""What a device of training adds to the output is the same however its rows come; other devices have no effect."""

import json
import zipfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.calibrator.calibrator import Calibrator
from scare.data.flags import Flag
from scare.data.readings import CALIBRATED, FLAGS, Readings
from scare.errors import DataError
from scare.live.fleet import Fleet, Route
from scare.windowing.scaling import DeviceEffect
from tests.calibrator.building import EDGES, attention_plan, bad_readings, make_calibrator, newest_plan, tree_plan

EFFECTS = {"box-1": DeviceEffect(0.5, -0.25), "box-3": DeviceEffect(-1.0, 0.125)}  # box-2 is known and has none
DEVICES = ("box-1", "box-2", "box-3", "unknown")
PLANS = {"line": newest_plan(), "network": attention_plan(), "trees": tree_plan()}


def with_effects(plan: str, settle: int = 0) -> Calibrator:
    """A calibrator with a training range, a floor and effects."""
    built = make_calibrator(PLANS[plan], settle, training_range=EDGES)
    scaling = replace(built.inputs.scaling, effects=EFFECTS)
    return replace(built, inputs=replace(built.inputs, scaling=scaling), floor=4.0)


def without(calibrator: Calibrator) -> Calibrator:
    scaling = replace(calibrator.inputs.scaling, effects={})
    return replace(calibrator, inputs=replace(calibrator.inputs, scaling=scaling))


def calibrated(calibrator: Calibrator, readings: Readings) -> np.ndarray:
    return calibrator.predict(readings)[CALIBRATED].fill_null(np.nan).to_numpy()


@pytest.mark.parametrize("plan", PLANS)
def test_an_effect_is_an_offset_and_a_slope_of_the_clamped_newest_reading(plan: str) -> None:
    calibrator = replace(with_effects(plan), floor=None)
    unbounded = replace(EDGES, lower_bound=None)
    calibrator = replace(calibrator, inputs=replace(calibrator.inputs, training_range=unbounded))
    windows = np.random.default_rng(1).normal(size=(50, calibrator.window, 2)).astype(np.float32)
    windows[:, -1, 0] = np.linspace(-6, 6, 50)
    target, plain = calibrator.inputs.scaling.target, without(calibrator)
    found = calibrator.compute(windows, effect=EFFECTS["box-1"])
    added = 0.5 - 0.25 * np.clip(windows[:, -1, 0], EDGES.clamp_low[0], EDGES.clamp_high[0])
    assert_allclose(found, plain.compute(windows) + added * target.scale[0], rtol=1e-6)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("settle", [0, 40])
def test_table_chunks_live_and_fleet_give_the_same(plan: str, settle: int) -> None:
    calibrator = with_effects(plan, settle)
    rows = [bad_readings(seed, 150, device) for seed, device in enumerate(DEVICES)]
    fleet = Fleet({"model": calibrator}, [Route("*", "model")])
    times, values = (np.stack([getattr(one, name) for one in rows], axis=1) for name in ("times", "values"))
    pushed = [fleet.push(DEVICES, *row) for row in zip(times, values, strict=True)]
    for index, one in enumerate(rows):
        whole = calibrator.predict(one)
        expected, flags = whole[CALIBRATED].fill_null(np.nan).to_numpy(), whole[FLAGS].to_numpy()
        assert np.isfinite(expected).sum() > 50
        live, stream = calibrator.live(one.device), calibrator.stream(one.device)
        reading = [live.push(*row) for row in zip(one.times, one.values, strict=True)]
        parts = [stream.push(one.times[i : i + 37], one.values[i : i + 37]) for i in range(0, len(one), 37)]
        ways = {
            "live": np.array([some.value for some in reading]),
            "chunks": np.concatenate([part.values for part in parts]),
            "fleet": np.array([some.values[index] for some in pushed]),
        }
        for way, found in ways.items():
            assert_allclose(found, expected, rtol=1e-5, err_msg=f"{one.device} {way}")
        assert_array_equal([some.flags[index] for some in pushed], flags)
        assert_array_equal([int(some.flags) for some in reading], flags)


@pytest.mark.parametrize("plan", PLANS)
def test_devices_without_an_effect_have_none(plan: str) -> None:
    calibrator = with_effects(plan)
    for device in DEVICES:
        rows = bad_readings(2, 150, device)
        ours, plain = (calibrated(one, rows) for one in (calibrator, without(calibrator)))
        if device in EFFECTS:
            assert np.nanmax(np.abs(ours - plain)) > 0.5
        else:
            assert_array_equal(ours, plain)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("device", DEVICES)
def test_the_plan_for_a_device_has_its_effect_in_it(plan: str, device: str) -> None:
    calibrator = with_effects(plan)
    own = calibrator.for_device(device)
    assert own.inputs.scaling.effects == {}
    windows = 2 * np.random.default_rng(4).normal(size=(60, calibrator.window, 2)).astype(np.float32)
    expected = calibrator.compute(windows, effect=calibrator.inputs.scaling.effect(device))
    assert_allclose(own.compute(windows), expected, rtol=1e-5, atol=1e-5)
    assert_array_equal(own.golden.numbers, own.compute(own.golden.windows))
    assert_allclose(
        calibrated(own, bad_readings(3, 100, device)), calibrated(calibrator, bad_readings(3, 100, device)), rtol=1e-5
    )
    if plan == "line":
        assert [step.kernel for step in own.plan.steps][:2] == ["newest", "dense"]
    if device not in EFFECTS:
        assert own.plan is calibrator.plan


def test_one_window_has_the_effect_of_its_device() -> None:
    calibrator = with_effects("line")
    window = np.tile([21.0, 290.0], (calibrator.window, 1))
    times = 60.0 * np.arange(calibrator.window)
    for device in DEVICES:
        expected = calibrator.stream(device).push(times, window).values[-1]
        assert calibrator.predict_one(window, device) == pytest.approx(expected)


def test_a_restored_fleet_goes_on_with_effects() -> None:
    calibrator, names = with_effects("network"), list(DEVICES)
    rows = [bad_readings(seed, 120, device) for seed, device in enumerate(names)]
    times, values = (np.stack([getattr(one, name) for one in rows], axis=1) for name in ("times", "values"))
    whole, first, second = (Fleet({"model": calibrator}, [Route("*", "model")]) for _ in range(3))
    expected = [whole.push(names, *row).values for row in zip(times, values, strict=True)]
    for row in zip(times[:60], values[:60], strict=True):
        first.push(names, *row)
    second.restore(first.state())
    found = [second.push(names, *row).values for row in zip(times[60:], values[60:], strict=True)]
    assert_allclose(found, expected[60:], rtol=1e-6)


# files


def changed_manifest(path: Path, folder: Path, change: dict[str, object], drop: str = "") -> Path:
    """A copy of a calibrator's file whose scaling differs."""
    copy = folder / "changed.scare"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "manifest.json":
                facts = json.loads(content)
                facts["inputs"]["scaling"] |= change
                facts["inputs"]["scaling"].pop(drop, None)
                content = json.dumps(facts).encode()
            new.writestr(name, content)
    return copy


@pytest.mark.parametrize("settle", [0, 40])
def test_a_file_keeps_effects_and_shares(settle: int, tmp_path: Path) -> None:
    calibrator = with_effects("network", settle)
    loaded = Calibrator.load(calibrator.save(tmp_path / "a.scare"))
    ours, theirs = calibrator.inputs.scaling, loaded.inputs.scaling
    assert dict(theirs.effects) == EFFECTS
    assert theirs.settle == settle
    assert_array_equal(theirs.own_share, ours.own_share)
    for device in DEVICES:
        rows = bad_readings(5, 150, device)
        assert loaded.predict(rows).equals(calibrator.predict(rows))


def test_a_file_from_before_the_shares_scales_new_devices_as_the_fleet(tmp_path: Path) -> None:
    calibrator = make_calibrator(settle=40)
    old = changed_manifest(calibrator.save(tmp_path / "a.scare"), tmp_path, {}, drop="own_share")
    loaded = Calibrator.load(old)
    assert (loaded.inputs.scaling.settle, loaded.inputs.scaling.own_share) == (0, None)
    rows = bad_readings(5, 150, "unknown")
    flags = loaded.predict(rows)[FLAGS].to_numpy()
    assert not (flags & Flag.UNSETTLED).any()
    assert_array_equal(calibrated(loaded, rows), calibrated(make_calibrator(), rows))


@pytest.mark.parametrize(
    "change",
    [
        {"own_share": [0.5]},
        {"own_share": [0.5, 1.5]},
        {"own_share": [0.5, float("nan")]},
        {"effects": {"box-1": [0.5]}},
        {"effects": {"box-1": [0.5, 0.5, 0.5]}},
        {"effects": {"box-1": [float("inf"), 0.0]}},
        {"effects": [1.0, 2.0]},
    ],
)
def test_effects_and_shares_that_make_no_sense_are_refused(change: dict[str, object], tmp_path: Path) -> None:
    path = changed_manifest(with_effects("line", 40).save(tmp_path / "a.scare"), tmp_path, change)
    with pytest.raises(DataError):
        Calibrator.load(path)


# settling


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(1, 149), max_size=6, unique=True))
def test_a_new_device_settles_alike_in_every_chunking(seed: int, cuts: list[int]) -> None:
    calibrator, rows = with_effects("line", 40), bad_readings(seed, 150, "unknown")
    whole = calibrator.predict(rows)
    assert ((whole[FLAGS].to_numpy() & Flag.UNSETTLED) > 0).any()
    stream, edges = calibrator.stream("unknown"), [0, *sorted(cuts), 150]
    parts = [stream.push(rows.times[a:b], rows.values[a:b]) for a, b in pairwise(edges)]
    live = calibrator.live("unknown")
    reading = [live.push(*row) for row in zip(rows.times, rows.values, strict=True)]
    expected = whole[CALIBRATED].fill_null(np.nan).to_numpy()
    assert_allclose(np.concatenate([part.values for part in parts]), expected, rtol=1e-9)
    assert_allclose([one.value for one in reading], expected, rtol=1e-9)
    assert_array_equal(np.concatenate([part.flags for part in parts]), whole[FLAGS])
    assert_array_equal([int(one.flags) for one in reading], whole[FLAGS])
