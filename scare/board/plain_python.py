"""Runs a folder of `scare export micropython` in a Python of its own, as a board's would."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from scare.errors import DataError

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


def run_module(folder: Path, name: str, windows: np.ndarray) -> np.ndarray:
    """Results [n], in the target's unit, of scaled windows [n, window, channels], each for itself."""
    count = int(np.prod(windows.shape[1:]))
    command = [sys.executable, "-I", "-c", PROGRAM, str(folder.resolve()), name, str(count)]
    done = subprocess.run(command, input=np.ascontiguousarray(windows, np.float32).tobytes(), capture_output=True)
    if done.returncode or len(done.stdout) != 4 * len(windows):
        reason = (done.stderr.decode(errors="replace").strip().splitlines() or ["no results"])[-1]
        raise DataError(f"{folder / name}.py does not run: {reason}; export it anew")
    return np.frombuffer(done.stdout, np.float32).astype(np.float64)
