"""Verify an exported folder or zip of any target: run its golden vectors in every runtime that is installed.

    folder or zip -> open_export (checks scare.json and digests) -> verify_in_child -> Comparison -> cli/verify.py

`scare.json` names the target, `golden.safetensors` has results and tolerances. The code of an export is run in a child
process with limits of time and memory: `python -m scare.board.verify_export FOLDER`. For a proof about a calibrator,
see certificate.py.
"""

import json
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

import numpy as np

from scare.board.build import read_c_export
from scare.board.host import HostModel
from scare.calibrator.parity_tolerance import TOKENS, max_code_mismatches
from scare.errors import DataError, ExitCode, NotApplicableError, ScareError
from scare.export.onnx import run_onnx
from scare.export.scare_json import SCARE_JSON, ExportFolder, GoldenVectors, find_exports
from scare.export.targets import TARGETS
from scare.export.tflite import run_flatbuffer, run_micro
from scare.extras import is_installed, require


@dataclass(frozen=True)
class Runner:
    """A runtime, and the function that runs an export in it.

    `run` takes scaled windows [n, window, channels] and returns results [n] in the target's unit. If the runtime's
    Python `package` is missing, an error names the `extra` that installs it; without an `extra`, the runtime is
    skipped.
    """

    runtime: str
    run: Callable[[ExportFolder, np.ndarray], np.ndarray]
    package: str = ""
    extra: str = ""

    @property
    def is_installed(self) -> bool:
        """Whether the runtime can be used; raises `UsageError` if its extra is not installed."""
        if self.extra:
            require(self.extra, self.package)
        return not self.package or is_installed(self.package)


def _run_c(export: ExportFolder, windows: np.ndarray) -> np.ndarray:
    """Run a model on scaled windows [n, window, channels] in C on this computer; returns results [n] in its unit."""
    model = HostModel(read_c_export(export))
    scaled, _ = model.run(windows)
    return scaled.astype(np.float64) * model.facts.target_scale + model.facts.target_center


def _run_python(export: ExportFolder, windows: np.ndarray) -> np.ndarray:
    """Like `_run_c`, for a MicroPython module, in a Python process of its own."""
    return run_python_module(export.model.parent, export.model.stem, windows)


def _from_bytes(run: Callable[[bytes, np.ndarray], np.ndarray]) -> Callable[[ExportFolder, np.ndarray], np.ndarray]:
    """Adapt a runtime that takes the content of the model file instead of the folder."""
    return lambda export, windows: run(export.model.read_bytes(), windows)


RUNNERS: dict[str, tuple[Runner, ...]] = {
    "c": (Runner("C", _run_c),),
    "python": (Runner("Python", _run_python),),
    "tflite": (
        Runner("LiteRT", _from_bytes(run_flatbuffer), "ai_edge_litert", "tflite"),
        Runner("TFLite-Micro", _from_bytes(run_micro), "tflite_micro"),
    ),
    "onnx": (Runner("ONNX Runtime", _from_bytes(run_onnx), "onnxruntime", "onnx"),),
}
LARGEST_ZIP = 1 << 28  # bytes unpacked
# Limits of the child process.
SECONDS = 600  # wall-clock time, and likewise processor time
MEMORY = 8 << 30  # bytes of data; compiling and the largest runtime need a quarter of it


@dataclass(frozen=True)
class Comparison:
    """Result of one runtime: the largest difference, in the target's unit and as a share of its tolerance.

    `ties` are windows beyond the tolerance that are excused, because a hash activation, a comparison in a tree
    or a choice of branch is so close that rounding decides it. `reasons` say why the export fails; empty if it passes.
    """

    model: str
    runtime: str
    windows: int
    largest: float
    share: float
    ties: tuple[int, ...]
    reasons: tuple[str, ...]


def verify_export(path: Path, trust: bool = False) -> list[Comparison]:
    """Verify every model of an exported folder or zip in every runtime of its target that is installed.

    This runs the code of the export in this process. Without `trust`, a file that changed since the export is an error.
    """
    with open_export(path, trust) as (_, exports):
        return [compared for export in exports for compared in _verify_model(export)]


@contextmanager
def open_export(path: Path, trust: bool) -> Iterator[tuple[Path, list[ExportFolder]]]:
    """Open an export, unpacked if it is a zip, and make all checks that are possible before its code is run.

    Yields its folder and its models.
    """
    with _unpacked(path) as folder:
        exports = find_exports(folder, path)
        for export in exports:
            _runners(export)  # raises if the target cannot be run here
            if trust:
                continue
            if not export.description.sha256:
                raise DataError(
                    f"{path}: its {SCARE_JSON} has no digests of the exported files. Use --trust to run it anyway."
                )
            if changed := export.changed():
                names = ", ".join(changed[:3])
                raise DataError(f"{path}: {names} changed after the export. Use --trust to run it anyway.")
        yield folder, exports


def _verify_model(export: ExportFolder) -> Iterator[Comparison]:
    """Compare one model in each runtime; a runtime that cannot run it is a failed comparison, not an error."""
    name = export.description.name
    expected = GoldenVectors.read(export.golden)
    if not len(expected.windows):
        raise DataError(f"{export.golden.name} of {name} holds no windows: there is nothing to compare")
    for runner in _runners(export):
        try:
            yield compare(name, runner.runtime, runner.run(export, expected.windows), expected)
        except ScareError:
            raise
        except Exception as error:  # every runtime has its own exceptions for a file that it cannot read
            first_line = next(iter(str(error).strip().splitlines()), type(error).__name__)
            reason = f"it does not run: {first_line}"
            yield Comparison(name, runner.runtime, len(expected.windows), np.nan, np.nan, (), (reason,))


def _runners(export: ExportFolder) -> list[Runner]:
    """Find the installed runtimes of the export's target; raises if it cannot be run here."""
    name, version = export.description.target, export.description.scare
    if name not in TARGETS:
        raise DataError(f"scare {version} exported this to {name}, which this version does not know; export again")
    if not TARGETS[name].runner:
        raise NotApplicableError(f"an export to {name} cannot be run on this computer, so it cannot be verified here")
    return [runner for runner in RUNNERS[TARGETS[name].runner] if runner.is_installed]


def compare(model: str, runtime: str, results: np.ndarray, expected: GoldenVectors) -> Comparison:
    """Compare the results [n] of a runtime with golden vectors.

    A few windows marked as ties may differ by more than the tolerance, because rounding decides their hash codes.
    """
    differences = np.abs(results - expected.results)
    is_off = ~(differences <= expected.tolerances)  # also where a difference is NaN
    is_excused = is_off & expected.ties & np.isfinite(results)
    ties, wrong = np.flatnonzero(is_excused), np.flatnonzero(is_off & ~is_excused)
    reasons = []
    if len(wrong):
        first = int(wrong[0])
        reasons.append(
            f"{len(wrong):,} of {len(results):,} windows are farther off than allowed; the first is window {first}:"
            f" {results[first]:.7g} and not {expected.results[first]:.7g} ± {expected.tolerances[first]:.2g}"
        )
    if len(ties) > max(1, max_code_mismatches(expected.tokens)):
        reasons.append(f"{len(ties):,} windows have other codes or branches, more than one in {TOKENS:,} tokens")
    counted = np.where(is_excused, 0.0, differences)
    shares = counted / np.maximum(expected.tolerances, np.finfo(float).tiny)  # a tolerance may be zero
    largest, largest_share = float(counted.max(initial=0.0)), float(shares.max(initial=0.0))
    return Comparison(model, runtime, len(results), largest, largest_share, tuple(map(int, ties)), tuple(reasons))


@contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """Yield the folder itself, or a temporary one with the content of a zip."""
    if path.is_dir():
        yield path
        return
    with TemporaryDirectory() as scratch:
        try:
            with ZipFile(path) as archive:
                if sum(entry.file_size for entry in archive.infolist()) > LARGEST_ZIP:
                    raise DataError(f"{path}: it unpacks to more than {LARGEST_ZIP >> 20} MB, so it is not an export")
                archive.extractall(scratch)
        except (OSError, BadZipFile, zlib.error, EOFError, RuntimeError) as error:
            raise DataError(f"{path}: cannot be read as an exported folder or zip ({error})") from error
        yield Path(scratch)


def verify_in_child(folder: Path) -> list[Comparison]:
    """Like `verify_export`, in a child process with limits, for a folder that `open_export` has checked."""
    command = [sys.executable, "-m", "scare.board.verify_export", str(folder)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
    ) as child:
        try:
            output, _ = child.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            output = ""
        finally:
            with suppress(OSError):  # kills the child and the processes that it started
                os.killpg(child.pid, signal.SIGKILL) if hasattr(os, "killpg") else child.kill()
    if not output:
        raise DataError(f"the export crashed, or took more than {SECONDS // 60} minutes or {MEMORY >> 30} GB of memory")
    answer = json.loads(output.splitlines()[-1])  # a runtime may have printed before
    if isinstance(answer, dict):  # the child's own error, raised again here
        refused = ScareError(answer["refused"])
        refused.exit_code = ExitCode(answer["code"])
        raise refused
    for comparison in answer:  # JSON has lists for tuples
        comparison |= {"ties": tuple(comparison["ties"]), "reasons": tuple(comparison["reasons"])}
    return [Comparison(**comparison) for comparison in answer]


def _limit_resources() -> None:
    """Limit processor time and memory of this process, and forbid core dumps; does nothing on Windows."""
    if sys.platform != "win32":
        import resource

        limits = {resource.RLIMIT_CPU: SECONDS, resource.RLIMIT_DATA: MEMORY, resource.RLIMIT_CORE: 0}
        for kind, limit in limits.items():
            resource.setrlimit(kind, (limit, limit))


# Run by a fresh interpreter: scaled windows as float32 on stdin, results as float32 on stdout.
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


def run_python_module(folder: Path, name: str, windows: np.ndarray) -> np.ndarray:
    """Run an exported MicroPython module on scaled windows [n, window, channels]: results [n] in the target's unit."""
    count = int(np.prod(windows.shape[1:]))
    command = [sys.executable, "-I", "-c", PROGRAM, str(folder.resolve()), name, str(count)]
    done = subprocess.run(command, input=np.ascontiguousarray(windows, np.float32).tobytes(), capture_output=True)
    if done.returncode or len(done.stdout) != 4 * len(windows):  # a float32 for each window
        reason = (done.stderr.decode(errors="replace").strip().splitlines() or ["no results"])[-1]
        raise DataError(f"{folder / name}.py does not run: {reason}; export it again")
    return np.frombuffer(done.stdout, np.float32).astype(np.float64)


if __name__ == "__main__":
    _limit_resources()
    try:
        print(json.dumps([asdict(comparison) for comparison in verify_export(Path(sys.argv[1]), trust=True)]))
    except ScareError as error:
        print(json.dumps({"refused": str(error), "code": error.exit_code}))
