"""Every core whose instructions are counted computes the same, whatever compiled for it."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scare.board.boards import Board, board, boards
from scare.board.build import OPTIMISATION, USUAL, find_compiler, read_export
from scare.board.measure import measure
from scare.board.vectors import board_windows
from scare.board.virtual import VirtualModel
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import run
from scare.errors import UsageError
from scare.experiments.untrained import draw_method, draw_plan
from scare.export.lowering import Arithmetic
from scare.export.package import export_calibrator
from scare.models import Scare
from scare.training.recipe import Recipe
from tests.calibrator.building import make_calibrator

COUNTED = [one.name for one in boards().values() if "instructions" in one.measures]
WINDOW = 23  # odd
GCC = [name for name in OPTIMISATION if name != USUAL]
# At N = 360, preset `default`, one channel, fixed point: instructions of a value, reading included, and bytes of RAM.
MOST = {"nano33ble": (18_500, 2_000), "rp2040": (110_000, 2_100), "esp32c3": (85_000, 2_100)}
MOST_BY_GCC = 19_500  # -Os, on nano33ble


@pytest.fixture(scope="module")
def scare() -> Calibrator:
    return draw_method("scare", WINDOW)


@pytest.fixture(scope="module")
def folder(scare: Calibrator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_calibrator(scare, "c", Arithmetic.FIXED, tmp_path_factory.mktemp("cores") / "model").folder


def expect_same(calibrator: Calibrator, folder: Path, on: Board, compiler: str) -> None:
    windows = board_windows(calibrator, 8)
    expected = VirtualModel(read_export(folder), board("nano33ble")).run(windows)
    found = VirtualModel(read_export(folder), on, compiler).run(windows)
    assert found.outputs.tobytes() == expected.outputs.tobytes()
    assert all(np.array_equal(found.kept[name], codes) for name, codes in expected.kept.items())
    # Floats in software, normalising and clamping in branches take a few instructions more or less.
    assert np.ptp(found.instructions) <= (0 if on.hard_float else 0.01 * found.instructions.mean())


@pytest.mark.parametrize(
    "name", [one if one in ("rp2040", "esp32c3") else pytest.param(one, marks=pytest.mark.slow) for one in COUNTED]
)
def test_fixed_point_is_the_same_in_every_bit(scare: Calibrator, folder: Path, name: str) -> None:
    expect_same(scare, folder, board(name), USUAL)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", GCC)
@pytest.mark.parametrize("name", COUNTED)
def test_gcc_gives_the_same_bits(scare: Calibrator, folder: Path, name: str, compiler: str) -> None:
    command = board(name).gcc.split()[0]
    if shutil.which(command) is None:
        pytest.skip(f"{command} (Debian) would compile it")
    expect_same(scare, folder, board(name), compiler)


@pytest.mark.parametrize("name", MOST)
def test_a_core_is_within_its_bounds(name: str, tmp_path: Path) -> None:
    calibrator = draw_method("scare", 360)
    made = export_calibrator(calibrator, "c", Arithmetic.FIXED, tmp_path / "model").folder
    report = measure(made, board(name), calibrator.golden.windows[:1])
    instructions, ram_bytes = MOST[name]
    assert report.instructions
    assert report.instructions["max"] <= instructions
    assert report.ram_bytes <= ram_bytes


@pytest.mark.slow
def test_gcc_that_optimises_for_size_is_within_its_bound(tmp_path: Path) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc (Debian) would compile it")
    calibrator = draw_method("scare", 360)
    made = export_calibrator(calibrator, "c", Arithmetic.FIXED, tmp_path / "model").folder
    report = measure(made, board("nano33ble"), calibrator.golden.windows[:1], compiler="gcc-Os")
    assert report.instructions
    assert report.instructions["max"] <= MOST_BY_GCC


@pytest.mark.parametrize(("channels", "bits", "hidden"), [(1, 7, 20), (2, 16, 33)])
def test_assembly_gives_what_numpy_gives_at_unusual_sizes(
    channels: int, bits: int, hidden: int, tmp_path: Path
) -> None:
    model = Scare.default()
    model = replace(model, attention=replace(model.attention, bits=bits), block=replace(model.block, hidden=hidden))
    plan = draw_plan(Recipe(model=model, window=WINDOW), channels, 0, np.random.default_rng(1)).astype(np.float32)
    calibrator = replace(draw_method("scare", WINDOW), plan=plan) if channels == 1 else make_calibrator(plan)
    compiled = export_calibrator(calibrator, "c", Arithmetic.FIXED, tmp_path / "model").compiled
    windows = np.random.default_rng(2).normal(size=(6, WINDOW, channels)).astype(np.float32)
    found = VirtualModel(read_export(tmp_path / "model"), board("nano33ble")).run(windows)
    assert found.outputs.tobytes() == run(compiled.plan, windows).astype("<f4").tobytes()


def test_a_compiler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda command: None)
    with pytest.raises(UsageError, match="arm-none-eabi-gcc is not installed; install it, or use zig"):
        find_compiler("gcc-Os", board("nano33ble"))
    with pytest.raises(UsageError, match="no GCC is known for uno; use zig"):
        find_compiler("gcc-O2", board("uno"))
    with pytest.raises(UsageError, match="no compiler is called 'clang'; use zig, gcc-Os, gcc-O2, gcc-O3"):
        find_compiler("clang", board("nano33ble"))
