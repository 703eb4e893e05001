"""An export is tried again: its golden windows go through what lies in the folder, in every runtime that is here.

What they must give is in `golden.safetensors`, by the rule of `calibrator.parity`. Comes from `export`; goes to `cli`.
"""

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

import numpy as np

from scare.board.exported import Exported, find_export
from scare.board.host import HostModel
from scare.board.plain_python import is_python_export, run_module
from scare.calibrator.parity import TOKENS, most_unlike
from scare.errors import DataError, ScareError
from scare.export.exchange import FORMATS
from scare.export.golden_vectors import GOLDEN, GoldenVectors
from scare.export.tensors.flatbuffer import run_micro
from scare.extras import is_installed

Run = Callable[[np.ndarray], np.ndarray]
LARGEST_ZIP = 1 << 28  # bytes unpacked


@dataclass(frozen=True)
class Tried:
    """What one runtime gave: the largest difference in the target's unit, the largest as a share of what is allowed.

    `ties` are windows that are farther off, but have a hash activation or a choice as good as undecided.
    """

    model: str
    runtime: str
    windows: int
    largest: float
    share: float
    ties: tuple[int, ...]
    reasons: tuple[str, ...]


def verify_export(path: Path) -> list[Tried]:
    """Try every model of an exported folder or zip in every runtime that it is for and that is installed.

    This runs what is there: code of others only if they are trusted.
    """
    with _opened(path) as folder:
        golden = sorted(folder.rglob(GOLDEN))
        if not golden:
            raise DataError(f"{path} holds no {GOLDEN}: no export of ours, or one of an older version; export again")
        return [tried for file in golden for tried in _verify_model(folder, file)]


def _verify_model(folder: Path, golden: Path) -> Iterator[Tried]:
    expected = GoldenVectors.read(golden)
    if not len(expected.windows):
        raise DataError(f"{golden.name} of {expected.model} holds no windows: there is nothing to compare")
    for runtime, run in _runtimes(folder, golden.parent, expected.model):
        try:
            yield judge(expected.model, runtime, run(expected.windows), expected)
        except ScareError:
            raise
        except Exception as error:  # each runtime has its own for a file that it cannot read
            reason = f"it does not run: {_first_line(error)}"
            yield Tried(expected.model, runtime, len(expected.windows), np.nan, np.nan, (), (reason,))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def judge(model: str, runtime: str, results: np.ndarray, expected: GoldenVectors) -> Tried:
    """Compare the results [n] of a runtime with what is expected."""
    differences = np.abs(results - expected.results)
    off = ~(differences <= expected.tolerances)
    excused = off & expected.ties & np.isfinite(results)
    ties, wrong = np.flatnonzero(excused), np.flatnonzero(off & ~excused)
    reasons = []
    if len(wrong):
        first = int(wrong[0])
        reasons.append(
            f"{len(wrong):,} of {len(results):,} windows are farther off than allowed; the first is window {first}:"
            f" {results[first]:.7g} and not {expected.results[first]:.7g} ± {expected.tolerances[first]:.2g}"
        )
    if len(ties) > max(1, most_unlike(expected.tokens)):
        reasons.append(f"{len(ties):,} windows have other hash codes or choices, more than one in {TOKENS:,}")
    near = np.where(excused, 0.0, differences)
    shares = near / np.maximum(expected.tolerances, np.finfo(float).tiny)
    largest, share = (float(numbers.max(initial=0.0)) for numbers in (near, shares))
    return Tried(model, runtime, len(results), largest, share, tuple(map(int, ties)), tuple(reasons))


def _runtimes(folder: Path, beside: Path, model: str) -> Iterator[tuple[str, Run]]:
    """What the model is for, and how it is run; files lie beside the golden windows, C anywhere in the folder."""
    for form, kind in FORMATS.items():
        file = beside / f"{model}.{form}"
        if file.is_file():
            kind.check(kind.running)
            yield kind.runtime, partial(kind.run, file.read_bytes())
            if form == "tflite" and is_installed("tflite_micro"):
                yield "TFLite-Micro", partial(run_micro, file.read_bytes())
            return
    if is_python_export(beside, model):
        yield "Python", partial(run_module, beside, model)
    else:
        yield "C", partial(_run_c, find_export(folder, model))


def _run_c(exported: Exported, windows: np.ndarray) -> np.ndarray:
    """In the target's unit, as `scare_push` gives it."""
    model = HostModel(exported)
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
        except (OSError, BadZipFile, zlib.error, EOFError, RuntimeError) as error:
            raise DataError(f"{path}: cannot be read as a folder or a zip of ours ({error})") from error
        yield Path(scratch)
