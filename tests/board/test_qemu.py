"""The same C in another emulator: the same values, the same instructions."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scare.board.boards import board
from scare.board.build import CExport, link, read_export
from scare.board.host import stored_windows
from scare.board.virtual import VirtualModel
from scare.export.lowering import Arithmetic
from scare.export.package import export_calibrator
from tests.board.small_model import write_model
from tests.calibrator.building import attention_plan, make_calibrator

QEMU = "qemu-system-arm"
WINDOW, CHANNELS, WINDOWS = 12, 2, 3
NANO = board("nano33ble")
OPTIONS = [
    *("-M", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none"),
    *("-semihosting-config", "enable=on,target=native", "-icount", "shift=6,align=off,sleep=off"),
    *("-singlestep", "-d", "exec,nochain"),  # a line in the log for every instruction
]


def write_network(folder: Path) -> Path:
    return export_calibrator(make_calibrator(attention_plan(WINDOW)), "c", Arithmetic.FLOAT32, folder).folder


def write_float(folder: Path) -> Path:
    return write_model(folder, WINDOW, CHANNELS)


def write_whole(folder: Path) -> Path:
    return write_model(folder, WINDOW, CHANNELS, integer=True)


@pytest.mark.skipif(shutil.which(QEMU) is None, reason=f"{QEMU} (Debian) would run it")
@pytest.mark.parametrize("write", [pytest.param(write_float, marks=pytest.mark.slow), write_whole, write_network])
def test_qemu_gives_the_same_values_and_instructions(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    windows = np.random.default_rng(3).normal(size=(WINDOWS, WINDOW, CHANNELS)).astype(np.float32)
    model = VirtualModel(read_export(write(tmp_path / "model")), NANO)
    runs = model.run(windows)
    printed, log = run_in_qemu(model.exported, stored_windows(windows, model.facts, model.channels), tmp_path)
    bits = [int(line, 16) for line in re.findall(r"^[0-9a-f]{8}$", printed, re.MULTILINE)]
    assert bits == runs.outputs.view(np.uint32).tolist()
    assert instructions_of("run", log) == runs.instructions.tolist()


def run_in_qemu(exported: CExport, windows: np.ndarray, folder: Path) -> tuple[str, str]:
    """What a program prints that runs the model on each window, and the log of its instructions."""
    words = windows.reshape(WINDOWS, -1).view(np.uint32)
    rows = ",".join("{" + ",".join(f"{word}u" for word in row) + "}" for row in words)
    header = f"#define WINDOWS {WINDOWS}\nstatic const uint32_t windows[WINDOWS][{words.shape[1]}] = {{{rows}}};\n"
    (folder / "windows.h").write_text(header)
    sources = [exported.source, *exported.runtime, Path(__file__).with_name("qemu_main.c")]
    firmware = link(sources, NANO, [folder, *exported.includes], exported.defines)
    command = [QEMU, *OPTIONS, "-D", str(folder / "log"), "-kernel", str(firmware.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout + done.stderr, (folder / "log").read_text()


def instructions_of(function: str, log: str) -> list[int]:
    """Of each call of a function from main, with what it calls, from the names of the functions instructions are in.

    Now and then QEMU says that it did not execute the line before after all.
    """
    executed = re.sub(r"^Trace .*\n(?=Stopped execution|cpu_io_recompile)", "", log, flags=re.MULTILINE)
    names = re.findall(r"^Trace .*\] (\S+)", executed, re.MULTILINE)
    calls = re.findall(rf"\b{function} (?:(?!main )\S+ )*", " ".join(names))
    return [len(call.split()) for call in calls]
