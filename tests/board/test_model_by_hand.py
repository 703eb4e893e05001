"""A model by hand on the virtual board and on this computer."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scare.board.boards import board
from scare.board.build import read_export
from scare.board.host import HostModel
from scare.board.measure import measure
from scare.board.virtual import MachineError, VirtualModel
from scare.errors import DataError
from tests.board.small_model import write_model

WINDOW, CHANNELS = 20, 2
ANY_FLOAT = st.floats(width=32)


def weights() -> np.ndarray:
    return np.arange(1, WINDOW * CHANNELS + 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("float"), WINDOW, CHANNELS)


@pytest.fixture(scope="module")
def whole_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("int"), WINDOW, CHANNELS, integer=True)


@pytest.fixture(scope="module")
def on_board(folder: Path) -> VirtualModel:
    return VirtualModel(read_export(folder), board("nano33ble"))


@pytest.fixture(scope="module")
def on_host(folder: Path) -> HostModel:
    return HostModel(read_export(folder))


@settings(max_examples=40, deadline=None)
@given(windows=arrays(np.float32, (3, WINDOW, CHANNELS), elements=ANY_FLOAT))
def test_board_and_host_agree_bit_for_bit_on_any_floats(
    on_board: VirtualModel, on_host: HostModel, windows: np.ndarray
) -> None:
    runs, (outputs, kept) = on_board.run(windows), on_host.run(windows)
    numbers = ~np.isnan(outputs)
    assert np.array_equal(numbers, ~np.isnan(runs.outputs))
    assert np.array_equal(runs.outputs[numbers].view(np.uint32), outputs[numbers].view(np.uint32))
    assert np.array_equal(runs.kept["codes"], kept["codes"])
    assert np.array_equal(kept["codes"], [[window[0, 0] > 0, 77] for window in windows])
    assert len(set(runs.instructions)) == 1


def test_values_are_right_and_each_window_is_for_itself(on_board: VirtualModel, on_host: HostModel) -> None:
    windows = np.random.default_rng(1).integers(-9, 9, (2500, WINDOW, CHANNELS)).astype(np.float32)
    expected = windows.reshape(len(windows), -1) @ weights()
    assert np.array_equal(on_host.run(windows)[0], expected)
    assert np.array_equal(on_board.run(windows[:50]).outputs, expected[:50])


def test_a_model_of_whole_numbers_takes_steps_or_scaled_windows(whole_folder: Path) -> None:
    steps = np.random.default_rng(2).integers(-32767, 32768, (5, WINDOW, CHANNELS))
    expected = steps.swapaxes(1, 2).reshape(5, -1) @ weights()
    runs = VirtualModel(read_export(whole_folder), board("rp2040")).run(steps)
    assert np.array_equal(runs.outputs, expected.astype(np.float32))
    host = HostModel(read_export(whole_folder))
    assert np.array_equal(host.run(steps)[0], runs.outputs)
    assert np.array_equal(host.run(steps.astype(np.float32) / 100)[0], runs.outputs)


def test_memory_is_what_the_smallest_program_takes(folder: Path, on_board: VirtualModel) -> None:
    report = measure(folder, board("nano33ble"), np.zeros((2, WINDOW, CHANNELS), np.float32))
    window, real, scratch, calibration = 4 * WINDOW * CHANNELS, 4, 16, on_board.machine.sizes["board_calibration"]
    assert report.static_bytes == window + real + scratch + calibration
    assert report.ram_bytes == report.static_bytes + report.stack_bytes
    assert report.stack_bytes > report.runs.stack_bytes.max()
    assert 4 * WINDOW * CHANNELS < report.flash_bytes < 8000
    assert report.fits
    assert report.reasons == []


def test_a_push_without_run_is_counted_beside_it(folder: Path, tmp_path: Path) -> None:
    windows = np.zeros((1, WINDOW, CHANNELS), np.float32)
    slow = write_model(tmp_path / "slow", WINDOW, CHANNELS, more='for (int i = 0; i < 999; i++) __asm volatile("nop");')
    first, second = (measure(one, board("nano33ble"), windows) for one in (folder, slow))
    assert second.runs.instructions[0] > first.runs.instructions[0] + 999
    assert second.push_instructions == first.push_instructions
    assert first.push_instructions
    assert first.instructions
    assert first.instructions["max"] == first.runs.instructions[0] + first.push_instructions["row"]
    assert 0 < first.push_instructions["row"] < first.push_instructions["row_after_gap"]


def test_estimates_follow_from_cycles(folder: Path) -> None:
    windows = np.zeros((1, WINDOW, CHANNELS), np.float32)
    report = measure(folder, board("nano33ble"), windows)
    assert report.cycles
    assert report.milliseconds
    assert report.cycles.low < report.cycles.typical < report.cycles.high
    assert report.milliseconds.typical == pytest.approx(report.cycles.typical / 64e3)
    assert report.microjoules == pytest.approx(report.milliseconds.typical * 3.3 * 3.0)
    runs, pushes = report.runs.cycles[:, 1].mean(), report.pushes.cycles.typical
    assert report.cycles.typical == pytest.approx(runs + pushes)
    assert report.duty_cycle == pytest.approx((runs + pushes) / 64e6 / 60)
    assert report.battery_share == pytest.approx(report.microjoules * 1e-6 * 365 * 24 * 60 / 27_000)
    faster = measure(folder, board("stm32f4"), windows)
    assert faster.milliseconds
    assert faster.milliseconds.typical == pytest.approx(report.milliseconds.typical * 0.64)


def test_what_does_not_speak_of_a_board_is_not_told(folder: Path) -> None:
    windows = np.zeros((1, WINDOW, CHANNELS), np.float32)
    pico, esp = (measure(folder, board(name), windows).as_dict() for name in ("rp2040", "esp8266"))
    assert pico["instructions"]["mean"] > 0
    assert pico["cycles"] is None
    assert (esp["instructions"], esp["cycles"], esp["energy_microjoules"]) == (None, None, None)
    assert esp["ram_bytes"] > 0


@pytest.mark.parametrize(("kind", "what"), [("", "RAM"), ("const ", "flash")])
def test_a_model_too_large_is_measured_and_says_why(tmp_path: Path, kind: str, what: str) -> None:
    statics = f"{kind}volatile unsigned char large[3000000] = {{{'1' if kind else ''}}};"
    folder = write_model(tmp_path, WINDOW, CHANNELS, statics=statics, more="memory[0] = large[7];")
    report = measure(folder, board("nano33ble"), np.zeros((1, WINDOW, CHANNELS), np.float32))
    assert not report.fits
    need = report.ram_bytes if what == "RAM" else report.flash_bytes
    has = 262_144 if what == "RAM" else 1_048_576
    assert report.reasons == [f"needs {need:,} B of {what}; nano33ble has {has:,} B"]
    assert report.runs.instructions[0] > 0


def test_a_model_that_writes_where_it_must_not_is_an_error(tmp_path: Path) -> None:
    folder = write_model(tmp_path, WINDOW, CHANNELS, more="*(volatile int *)0x30000000 = 1;")
    with pytest.raises(MachineError, match="it wrote to 0x30000000"):
        measure(folder, board("nano33ble"), np.zeros((1, WINDOW, CHANNELS), np.float32))


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no scare\.json"):
        read_export(tmp_path)


def test_the_same_sources_are_built_once(folder: Path, tmp_path: Path) -> None:
    first = VirtualModel(read_export(folder), board("nano33ble")).firmware.path
    changed = write_model(tmp_path, WINDOW, CHANNELS, more="memory[3] = 78u;")
    assert VirtualModel(read_export(folder), board("stm32f4")).firmware.path == first
    assert VirtualModel(read_export(changed), board("nano33ble")).firmware.path != first
