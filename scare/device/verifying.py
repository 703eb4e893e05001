"""An export is tried again: its golden windows go through what lies in the folder, in every runtime that is here.

What they must give is in `golden.safetensors`, by the rule of `export.expected`. Comes from `export`; goes to `cli`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

import numpy as np

from scare.device.agreement import CODES
from scare.device.exported import find_export
from scare.device.host import HostModel
from scare.device.plain_python import is_python_export, run_module
from scare.errors import DataError
from scare.export.exchange import FORMATS
from scare.export.expected import GOLDEN, Expected
from scare.export.tensors.flatbuffer import run_micro

Run = Callable[[np.ndarray], np.ndarray]
LARGEST_ZIP = 1 << 28  # bytes unpacked


@dataclass(frozen=True)
class Tried:
    """What one runtime gave: the largest difference in the target's unit, the largest as a share of what is allowed.

    `ties` are windows that are farther off, but have a hash activation as good as zero.
    """

    runtime: str
    windows: int
    largest: float
    share: float
    ties: tuple[int, ...]
    reasons: tuple[str, ...]


def verify_export(path: Path) -> list[Tried]:
    """Try an exported folder or zip in every runtime that it is for and that is installed."""
    with _opened(path) as folder:
        golden = sorted(folder.rglob(GOLDEN))
        if not golden:
            raise DataError(
                f"{path} holds no {GOLDEN}: it is no export of ours, or of a version before this; export again"
            )
        expected = Expected.read(golden[0])
        return [judge(runtime, run(expected.windows), expected) for runtime, run in _runtimes(folder)]


def judge(runtime: str, results: np.ndarray, expected: Expected) -> Tried:
    """Compare the results [n] of a runtime with what is expected."""
    differences = np.abs(results - expected.results)
    off = ~(differences <= expected.allowed)
    ties, wrong = np.flatnonzero(off & expected.ties), np.flatnonzero(off & ~expected.ties)
    reasons = []
    if len(wrong):
        first = int(wrong[0])
        reasons.append(
            f"{len(wrong):,} of {len(results):,} windows are farther off than allowed; the first is window {first}:"
            f" {results[first]:.7g} and not {expected.results[first]:.7g} ± {expected.allowed[first]:.2g}"
        )
    if len(ties) > -(-expected.tokens // CODES):
        reasons.append(f"{len(ties):,} windows have other hash codes, more than one token in {CODES:,}")
    near = np.where(off & expected.ties, 0.0, differences)
    shares = near / np.maximum(expected.allowed, np.finfo(float).tiny)
    largest, share = (float(numbers.max(initial=0.0)) for numbers in (near, shares))
    return Tried(runtime, len(results), largest, share, tuple(map(int, ties)), tuple(reasons))


def _runtimes(folder: Path) -> Iterator[tuple[str, Run]]:
    """What the folder is for, and how it is run."""
    for form, kind in FORMATS.items():
        for file in sorted(folder.rglob(f"*.{form}")):
            kind.check()
            yield kind.runtime, partial(kind.run, file.read_bytes())
            if form == "tflite" and find_spec("tflite_micro"):
                yield "TFLite-Micro", partial(run_micro, file.read_bytes())
            return
    if is_python_export(folder):
        yield "Python", partial(run_module, folder)
    else:
        yield "C", partial(_run_c, find_export(folder))


def _run_c(folder: Path, windows: np.ndarray) -> np.ndarray:
    """In the target's unit, as `scare_push` gives it."""
    model = HostModel(folder)
    scaled, _ = model.run(windows)
    return scaled.astype(np.float64) * model.facts.target_scale + model.facts.target_center


@contextmanager
def _opened(path: Path) -> Iterator[Path]:
    """The folder, a zip unpacked for as long as it is looked at."""
    if path.is_dir():
        yield path
        return
    with TemporaryDirectory() as scratch:
        try:
            with ZipFile(path) as archive:
                if sum(entry.file_size for entry in archive.infolist()) > LARGEST_ZIP:
                    raise DataError(f"{path}: unpacked it has more than {LARGEST_ZIP >> 20} MB; no export has")
                archive.extractall(scratch)
        except (OSError, BadZipFile) as error:
            raise DataError(f"{path}: cannot be read as a folder or a zip of ours ({error})") from error
        yield Path(scratch)
