"""Runs a folder of `scare export micropython` in a Python of its own, as a board's would."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from scare.errors import DataError
from scare.export.micropython.module import HEADING

PROGRAM = """
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from array import array
from importlib import import_module
calibration = import_module(sys.argv[2]).Calibration()
count, numbers, results = int(sys.argv[3]), array("f", sys.stdin.buffer.read()), array("f")
for start in range(0, len(numbers), count):
    calibration.reset()
    results.append(calibration.compute(numbers[start : start + count]))
sys.stdout.buffer.write(results.tobytes())
"""


def is_python_export(folder: Path) -> bool:
    """Whether there is a model in plain Python in the folder, or in one of its folders."""
    return any(_modules(folder))


def run_module(folder: Path, windows: np.ndarray) -> np.ndarray:
    """Results [n], in the target's unit, of scaled windows [n, window, channels], each for itself."""
    module = next(_modules(folder), None)
    if module is None:
        remedy = f"make one with: scare export micropython MODEL.scare --out {folder}"
        raise DataError(f"{folder} holds no model in plain Python; {remedy}")
    count = int(np.prod(windows.shape[1:]))
    command = [sys.executable, "-I", "-c", PROGRAM, str(module.parent.resolve()), module.stem, str(count)]
    done = subprocess.run(command, input=np.ascontiguousarray(windows, np.float32).tobytes(), capture_output=True)
    if done.returncode or len(done.stdout) != 4 * len(windows):
        reason = (done.stderr.decode(errors="replace").strip().splitlines() or ["no results"])[-1]
        raise DataError(f"{module} does not run: {reason}; export it anew")
    return np.frombuffer(done.stdout, np.float32).astype(np.float64)


def _modules(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.py")):
        if HEADING in path.read_text(encoding="utf-8", errors="replace").splitlines():
            yield path
