"""A device in an export is as in Python: what it adds to the output, and how a new one settles."""

import ctypes
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.board import host
from scare.board.boards import board
from scare.board.build import BuildError, compile_c, read_export
from scare.board.certificate import verify
from scare.board.host import ANSWER_TYPE, OK, HostModel
from scare.board.measure import measure_once
from scare.board.verify_export import verify_export
from scare.board.virtual import VirtualModel
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import Plan
from scare.data.flags import Flag
from scare.errors import UsageError
from scare.export import c_package
from scare.export.c_source import runtime_sources
from scare.export.descriptor import choose_device, known_devices, make_descriptor
from scare.export.lowering import Arithmetic, compile_calibrator
from scare.export.micropython_runtime import scare_live, scare_settle
from scare.export.micropython_runtime.scare_live import Stream
from scare.export.package import Package, export_calibrator
from scare.windowing.scaling import DeviceEffect
from tests.calibrator.building import curve_plan, make_calibrator, newest_plan, tree_plan, with_edges
from tests.export.micropython_environment import find_micropython

NANO = board("nano33ble")
SETTLE, STEP_MS, NEW = 8, 60_000, "box-7"
EFFECTS = {"box-1": DeviceEffect(0.4, -0.15), "box-9": DeviceEffect(-0.3, 0.2)}
SHARES = {"both": (0.75, 0.4), "first": (1.0, 0.0), "second": (0.0, 0.6)}
COMPARED = Flag.MISSING | Flag.EARLY | Flag.HISTORY | Flag.UNSETTLED | Flag.RESTART | Flag.OUTSIDE


def settling(calibrator: Calibrator, share: Sequence[float] = SHARES["both"], settle: int = SETTLE) -> Calibrator:
    scaling = replace(calibrator.inputs.scaling, settle=settle, own_share=np.array(share))
    return replace(calibrator, inputs=replace(calibrator.inputs, scaling=scaling))


def with_effects(calibrator: Calibrator, own_scaling: bool = True) -> Calibrator:
    """`box-1` and `box-9` add something to the output; without `own_scaling` no device is scaled by itself."""
    scaling = replace(calibrator.inputs.scaling, effects=EFFECTS)
    scaling = scaling if own_scaling else replace(scaling, devices={})
    return replace(calibrator, inputs=replace(calibrator.inputs, scaling=scaling))


def plan_of(name: str) -> Plan:
    return {"newest": newest_plan(6), "curve": curve_plan(), "trees": tree_plan()}[name]


def load(package: Package, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """The exported module, with the modules that it imports."""
    for name, module in (("scare_live", scare_live), ("scare_settle", scare_settle)):
        monkeypatch.setitem(sys.modules, name, module)
    spec = spec_from_file_location("exported", package.folder / package.artefact.model)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Calibration()


def rows(seed: int, count: int = 120, level: float = 2.5) -> np.ndarray:
    """Readings in float32 of a device `level` spreads off the fleet's center."""
    return np.random.default_rng(seed).normal([22 + 8.5 * level, 280 + 55 * level], [8, 60], (count, 2)).clip(0.5)


def in_c(model: HostModel | VirtualModel, times: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Statuses and answers of a fresh device."""
    model.restart()
    pushed = [model.take(int(now), row) for now, row in zip(times.tolist(), values.astype(np.float32), strict=True)]
    answers = np.frombuffer(b"".join(answer for _, answer in pushed), ANSWER_TYPE)
    return np.array([status for status, _ in pushed]), answers


def in_python(calibrator: Calibrator, device: str, times: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Values, low, high and flags of a stream, which are those of `live` too."""
    numbers = values.astype(np.float32).astype(float)
    return calibrator.stream(device).push(times / 1000, numbers)


def close(ours: np.ndarray, theirs: np.ndarray, calibrator: Calibrator, share: float = 1e-5) -> None:
    spread = float(calibrator.inputs.scaling.target.scale[0])
    assert_allclose(ours, theirs, rtol=share, atol=share * spread)


# what a device adds to the output


@pytest.mark.parametrize("name", ["newest", "curve", "trees"])
@pytest.mark.parametrize("device", ["box-1", pytest.param("box-2", marks=pytest.mark.slow), "box-9"])
def test_an_export_for_a_device_is_its_stream(name: str, device: str, tmp_path: Path) -> None:
    calibrator = with_effects(with_edges(make_calibrator(plan_of(name))))
    times, values = np.arange(120) * STEP_MS, rows(1, level=0.5)
    expected = in_python(calibrator, device, times, values)
    for arithmetic, share in (("float32", 1e-5), ("fixed", 3e-3)):
        exported = read_export(export_calibrator(calibrator, "c", arithmetic, tmp_path / arithmetic, device).folder)
        _, answers = in_c(HostModel(exported), times, values)
        _, on_board = in_c(VirtualModel(exported, NANO), times, values)
        assert answers.tobytes() == on_board.tobytes()
        near = np.isclose(answers["value"], expected[0], rtol=share, atol=6 * share, equal_nan=True)
        assert near.mean() > (0.98 if arithmetic == "fixed" else 0.999)  # a tree may take another path
        assert_array_equal(answers["flags"] & COMPARED, expected[3] & COMPARED)


@pytest.mark.slow
def test_a_device_with_an_effect_passes_the_certificate() -> None:
    calibrator = with_effects(with_edges(make_calibrator(curve_plan())), own_scaling=False)
    found = verify(calibrator, NANO, list(Arithmetic), 110, device="box-9")
    assert found.passed, found.reasons


def test_micropython_adds_the_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calibrator = with_effects(with_edges(make_calibrator(curve_plan())))
    stream = load(export_calibrator(calibrator, "micropython", "float32", tmp_path / "out", "box-1"), monkeypatch)
    times, values = np.arange(120) * STEP_MS, rows(1, level=0.5)
    pushed = [stream.calibrate(int(now), row.tolist()) for now, row in zip(times, values, strict=True)]
    close(np.array([one[0] for one in pushed]), in_python(calibrator, "box-1", times, values)[0], calibrator)


@pytest.mark.parametrize("target", ["tflite", "onnx"])
def test_a_model_file_computes_the_effect(target: str, tmp_path: Path) -> None:
    pytest.importorskip({"tflite": "ai_edge_litert", "onnx": "onnxruntime"}[target])
    calibrator = with_effects(make_calibrator(curve_plan()))
    package = export_calibrator(calibrator, target, "float32", tmp_path / "out", "box-1")
    windows = calibrator.golden.windows
    close(package.artefact.compute(windows), calibrator.compute(windows, effect=EFFECTS["box-1"]), calibrator)
    assert all(not one.reasons for one in verify_export(package.folder))


def test_every_device_of_training_can_be_chosen() -> None:
    scaling = with_effects(make_calibrator()).inputs.scaling
    assert known_devices(scaling) == ["box-1", "box-2", "box-9"]
    assert choose_device(scaling, "box-9") == "box-9"
    assert choose_device(scaling, "") == ""
    with pytest.raises(UsageError, match="no device called 'x'; there are box-1, box-2, box-9"):
        choose_device(scaling, "x")
    assert choose_device(replace(scaling, devices={}, effects={"a": EFFECTS["box-1"]}), "") == "a"


def test_the_error_on_validation_windows_is_that_of_the_fleet(tmp_path: Path) -> None:
    calibrator = with_effects(make_calibrator(curve_plan()))
    found = {}
    for device in ("", "box-1"):
        package = export_calibrator(calibrator, "c", "fixed", tmp_path / f"out{device}", device)
        found[device] = package.validation_rmse()
    assert found["box-1"] == pytest.approx(found[""], rel=1e-3)


# a new device


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[Calibrator, HostModel]]:
    """Models for a new device, by the channels that move and the arithmetic."""
    built, folder = {}, tmp_path_factory.mktemp("settling")
    for name, share in SHARES.items():
        calibrator = settling(with_edges(make_calibrator(curve_plan(12))), share)
        for arithmetic in Arithmetic:
            package = export_calibrator(calibrator, "c", arithmetic, folder / f"{name}-{arithmetic}")
            built[name, str(arithmetic)] = calibrator, HostModel(read_export(package.folder))
    return built


WAITS = st.sampled_from([1.0] * 12 + [0.3, 2.0, 3.0, 7.0, 40.0, -3.0, -30.0])  # steps: early, gaps, a clock set back


@pytest.mark.parametrize("moving", SHARES)
@settings(max_examples=25, deadline=None)
@given(
    waits=st.lists(WAITS, min_size=20, max_size=60),
    seed=st.integers(0, 2**31),
    level=st.sampled_from([-6.0, -1.0, 0.0, 2.5, 12.0]),
    bad=st.sets(st.integers(0, 59), max_size=6),
)
def test_a_new_device_settles_as_in_python(
    hosts: dict[tuple[str, str], tuple[Calibrator, HostModel]],
    moving: str,
    waits: list[float],
    seed: int,
    level: float,
    bad: set[int],
) -> None:
    times = 10**9 + np.cumsum(np.array(waits) * STEP_MS).astype(np.int64)
    values = rows(seed, len(times), level)
    values[sorted(one for one in bad if one < len(times))] = np.nan
    calibrator, model = hosts[moving, "float32"]
    statuses, answers = in_c(model, times, values)
    expected, low, high, flags = in_python(calibrator, NEW, times, values)
    assert_array_equal(answers["flags"], flags & COMPARED)
    assert_array_equal(statuses == OK, ~np.isnan(expected))
    close(answers["value"], expected, calibrator)
    alike = (flags & Flag.SPIKE == 0) | (flags & (Flag.OUTSIDE | Flag.UNSETTLED) > 0)  # boards know no SPIKE
    alike &= ~np.isclose(expected, 21.0)  # the edge of a band: rounding decides
    close(answers["low"][alike], low[alike], calibrator)
    close(answers["high"][alike], high[alike], calibrator)
    statuses, answers = in_c(hosts[moving, "fixed"][1], times, values)
    assert_array_equal(answers["flags"], flags & COMPARED)
    close(answers["value"], expected, calibrator, 5e-3)


def test_readings_clamped_before_settling_come_back_when_the_device_has_settled(
    hosts: dict[tuple[str, str], tuple[Calibrator, HostModel]],
) -> None:
    """All rows are beyond the clamp of the fleet; Python scales its raw window again, and so must a board."""
    times, values = np.arange(30) * STEP_MS, rows(4, 30, level=9.0)
    calibrator, model = hosts["first", "float32"]
    _, answers = in_c(model, times, values)
    expected, _, _, flags = in_python(calibrator, NEW, times, values)
    assert flags[SETTLE - 2] & Flag.UNSETTLED
    assert not flags[SETTLE - 1] & Flag.UNSETTLED
    assert abs(expected[SETTLE - 1] - expected[SETTLE - 2]) > 1
    close(answers["value"], expected, calibrator)


@pytest.mark.slow
@pytest.mark.parametrize("edges", [False, True])
def test_a_new_device_passes_the_certificate(edges: bool) -> None:
    calibrator = make_calibrator(curve_plan(12))
    found = verify(settling(with_edges(calibrator) if edges else calibrator, settle=40), NANO, list(Arithmetic), 110)
    assert found.passed, found.reasons
    for result in found.results.values():
        assert result.streaming is not None
        assert 5 < result.streaming.flags["UNSETTLED"] < result.streaming.statuses["ok"] / 2


def test_the_certificate_notices_a_device_that_settles_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoilt(settles: bool = False) -> dict[str, str]:
        found = runtime_sources(settles)
        return {**found, "scare.c": found["scare.c"].replace("(end + pair->low)", "1.01f * (end + pair->low)")}

    monkeypatch.setattr(c_package, "runtime_sources", spoilt)
    found = verify(settling(make_calibrator(newest_plan(6))), NANO, [Arithmetic.FLOAT32], 110)
    assert any("a reading in the window" in reason for reason in found.reasons), found.reasons


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("-ffast-math",)], ids=["strict", "fast"])
def test_a_long_settling_keeps_its_digits(
    flags: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two days of 10-second readings, one channel 40 spreads off: within a millionth of a spread."""
    monkeypatch.setattr(host, "HOST_FLAGS", (*host.HOST_FLAGS, *flags))
    count = 17_280
    calibrator = settling(make_calibrator(newest_plan(1)), (0.9, 0.7), count)
    model = HostModel(read_export(export_calibrator(calibrator, "c", "float32", tmp_path / "model").folder))
    values = rows(3, count, level=3.0).astype(np.float32)
    values[:, 1] = np.float32(2500.1)  # always the same: errors of a sum would not cancel out
    in_c(model, np.arange(count) * STEP_MS, values)
    seen, centers = settled(model)
    expected = calibrator.inputs.scaling.own(values.astype(float)).center
    assert seen == count
    assert (np.abs(centers - expected) < 1e-6 * calibrator.inputs.scaling.fleet.scale).all()


def settled(model: HostModel) -> tuple[int, np.ndarray]:
    """Number of readings and centers [2], from the memory before the window of a model of two channels that move."""
    words = 1 + 2 * (2 + model.facts.window)
    memory = np.frombuffer(ctypes.string_at(int(model._sensor[1]) - 4 * words, 20), np.uint32)
    return int(memory[0]), memory[1:].view(np.float32).astype(float).reshape(2, 2).sum(axis=1)


@pytest.mark.parametrize("moving", SHARES)
def test_micropython_settles_as_in_python(moving: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calibrator = settling(with_edges(make_calibrator(curve_plan(12))), SHARES[moving])
    stream = load(export_calibrator(calibrator, "micropython", "float32", tmp_path / "out"), monkeypatch)
    waits = np.ones(80)
    waits[[2, 5, 12, 30, 45]] = 3.0, 0.3, 2.0, -60.0, 25.0
    times, values = 10**8 + np.cumsum(waits * STEP_MS).astype(np.int64), rows(6, 80)
    values[4] = np.nan
    pushed = [stream.calibrate(int(now), row.tolist()) for now, row in zip(times, values, strict=True)]
    expected, low, high, flags = in_python(calibrator, NEW, times, values)
    assert [one[3] for one in pushed] == (flags & COMPARED).tolist()
    assert {0, int(Flag.UNSETTLED)} <= {one[3] & Flag.UNSETTLED for one in pushed}
    close(np.array([one[0] for one in pushed]), expected, calibrator)
    alike = (flags & Flag.SPIKE == 0) | (flags & (Flag.OUTSIDE | Flag.UNSETTLED) > 0)
    alike &= ~np.isclose(expected, 21.0)  # the edge of a band: rounding decides
    close(np.array([one[1:3] for one in pushed])[alike], np.stack([low, high], axis=1)[alike], calibrator)


def test_micropython_itself_settles(tmp_path: Path) -> None:
    micropython = find_micropython()
    calibrator = settling(with_edges(make_calibrator(curve_plan(12))))
    folder = export_calibrator(calibrator, "micropython", "float32", tmp_path / "out").folder
    times, values = np.arange(40) * STEP_MS, rows(7, 40)
    pairs = list(zip(times.tolist(), values.tolist(), strict=True))
    (folder / "push.py").write_text(
        f"from model import Calibration\ncalibration = Calibration()\nfor now_ms, reading in {pairs}:\n"
        "    value, _, _, flags, _ = calibration.calibrate(now_ms, reading)\n    print(value, flags)\n"
    )
    done = micropython("push.py", folder)
    assert done.returncode == 0, done.stderr
    printed = np.array([line.split() for line in done.stdout.splitlines()], float)
    expected, _, _, flags = in_python(calibrator, NEW, times, values)
    assert_array_equal(printed[:, 1], flags & COMPARED)
    close(printed[:, 0], expected, calibrator, 3e-5)


# what it costs


def test_a_model_that_does_not_settle_has_none_of_its_code(tmp_path: Path) -> None:
    """Neither in C, after the preprocessor, nor in MicroPython."""
    folder = export_calibrator(settling(make_calibrator()), "c", "float32", tmp_path / "c", "box-1").folder
    assert "SCARE_SETTLE 0" in (folder / "src" / "scare.h").read_text("utf-8")
    assert "settle" not in (folder / "model.c").read_text("utf-8")
    text = compile_c([folder / "src" / "scare.c"], tmp_path / "scare.i", ["-E", "-P"]).read_text("utf-8")
    assert re.findall(r"\w*(?:settl|SETTL|moving|scare_two_floats)\w*", text.partition("bits_of")[2]) == []
    python = export_calibrator(settling(make_calibrator()), "micropython", "float32", tmp_path / "python", "box-1")
    assert not (python.folder / "scare_settle.py").exists()
    assert "settle" not in (python.folder / "model.py").read_text("utf-8")
    assert "settle" not in (python.folder / "scare_live.py").read_text("utf-8")


@pytest.mark.parametrize("arithmetic", list(Arithmetic))
def test_settling_costs_no_more_than_the_documentation_says(arithmetic: Arithmetic) -> None:
    calibrator = settling(make_calibrator(newest_plan(60)), SHARES["first"], 500)
    known, new = (measure_once(compile_calibrator(calibrator, arithmetic, device), NANO) for device in ("box-1", ""))
    assert new.push_instructions is not None
    assert known.push_instructions is not None
    assert new.static_bytes - known.static_bytes == 4 + 8 + 4 * 60 + 16  # counter, pair, readings, four fields
    assert new.flash_bytes - known.flash_bytes <= 1100
    assert new.push_instructions["row"] - known.push_instructions["row"] < 160


def test_a_model_that_settles_needs_a_runtime_that_does(tmp_path: Path) -> None:
    folder = export_calibrator(settling(make_calibrator()), "c", "float32", tmp_path / "c").folder
    with pytest.raises(BuildError, match="this model settles on a new device"):
        compile_c([folder / "model.c"], tmp_path / "model.o", ["-c", "-DSCARE_SETTLE=0"])


def test_a_model_of_a_known_device_runs_with_the_code_of_one_that_settles(tmp_path: Path) -> None:
    """Models of both kinds may share a folder."""
    calibrator = settling(with_edges(make_calibrator(curve_plan(12))))
    times, values = np.arange(40) * STEP_MS, rows(8, 40)
    known = export_calibrator(calibrator, "c", "float32", tmp_path / "known", "box-1").folder
    _, expected = in_c(HostModel(read_export(known)), times, values)
    header = known / "src" / "scare.h"
    header.write_text(header.read_text("utf-8").replace("SCARE_SETTLE 0", "SCARE_SETTLE 1"), "utf-8")
    _, answers = in_c(HostModel(read_export(known)), times, values)
    assert answers.tobytes() == expected.tobytes()


@pytest.mark.slow
def test_models_of_both_kinds_share_a_folder(tmp_path: Path) -> None:
    calibrator = settling(make_calibrator())
    for name, device in (("new", ""), ("known", "box-1")):
        export_calibrator(calibrator, "platformio", "float32", tmp_path / "lib", device, name, force=True)
    assert "SCARE_SETTLE 1" in (tmp_path / "lib" / "src" / "scare.h").read_text("utf-8")
    compared = verify_export(tmp_path / "lib")
    assert [(one.model, one.reasons) for one in compared] == [("known", ()), ("new", ())]


def test_readmes_say_that_a_new_device_settles(tmp_path: Path) -> None:
    calibrator = settling(make_calibrator())
    for target in ("c", "micropython"):
        for device in ("", "box-1"):
            folder = export_calibrator(calibrator, target, "float32", tmp_path / f"{target}{device}", device).folder
            text = (folder / "README.md").read_text("utf-8")
            assert ("readings have" in text) == ("until a new device has settled (8 readings)" in text) == (not device)


def test_the_descriptor_has_the_channels_that_move() -> None:
    calibrator = settling(make_calibrator(), SHARES["second"])
    (moving,) = make_descriptor(calibrator, "").moving
    assert (moving.channel, moving.weight + moving.rest) == (1, pytest.approx(0.6 / SETTLE, rel=1e-10))
    assert np.float32(moving.weight).view(np.int32) & 0xFFF == 0
    assert make_descriptor(calibrator, "box-1").settle == 0
    assert make_descriptor(make_calibrator(), "").moving == ()
