"""An export is tried again: its golden vectors go through what lies in the folder, in every runtime that is here.

What an export is says its `scare.json`; what it must give, its golden vectors, by the rule of `calibrator.parity`.
Comes from `export`; goes to `cli`.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

import numpy as np

from scare.board.runners import RUNNERS, Runner
from scare.calibrator.parity import TOKENS, most_unlike
from scare.errors import DataError, NotApplicableError, ScareError
from scare.export.golden_vectors import GoldenVectors
from scare.export.scare_json import SCARE_JSON, ExportFolder, find_exports
from scare.export.targets import TARGETS

LARGEST_ZIP = 1 << 28  # bytes unpacked


@dataclass(frozen=True)
class Comparison:
    """What one runtime gave: the largest difference in the target's unit, the largest as a share of its tolerance.

    `ties` are windows that are farther off, but have a hash activation or a choice as good as undecided.
    """

    model: str
    runtime: str
    windows: int
    largest: float
    share: float
    ties: tuple[int, ...]
    reasons: tuple[str, ...]


def verify_export(path: Path, trust: bool = False) -> list[Comparison]:
    """Compare every model of an exported folder or zip in every runtime that it is for and that is installed.

    This runs what is there, as it was exported or, by `trust`, whatever it is: `verifying_apart` runs it in a child.
    """
    with checked(path, trust) as (_, exports):
        return [compared for export in exports for compared in _verify_model(export)]


@contextmanager
def checked(path: Path, trust: bool) -> Iterator[tuple[Path, list[ExportFolder]]]:
    """The folder of an export, and its models: all that is known of them before anything is run."""
    with _opened(path) as folder:
        exports = find_exports(folder, path)
        for export in exports:
            _runners(export)
            if not trust:
                _refuse_changed(path, export)
        yield folder, exports


def _refuse_changed(path: Path, export: ExportFolder) -> None:
    if not export.description.sha256:
        raise DataError(f"{path}: its {SCARE_JSON} does not tell what was exported; to run it all the same: --trust")
    if changed := export.changed():
        raise DataError(f"{path}: {', '.join(changed[:3])} changed after the export; to run it all the same: --trust")


def _verify_model(export: ExportFolder) -> Iterator[Comparison]:
    name, expected = export.description.name, GoldenVectors.read(export.golden)
    if not len(expected.windows):
        raise DataError(f"{export.golden.name} of {name} holds no windows: there is nothing to compare")
    for runner in _runners(export):
        try:
            yield compare(name, runner.runtime, runner.run(export, expected.windows), expected)
        except ScareError:
            raise
        except Exception as error:  # each runtime has its own for a file that it cannot read
            reason = f"it does not run: {_first_line(error)}"
            yield Comparison(name, runner.runtime, len(expected.windows), np.nan, np.nan, (), (reason,))


def _runners(export: ExportFolder) -> list[Runner]:
    """Those of the export's target that are here."""
    name, version = export.description.target, export.description.scare
    if name not in TARGETS:
        raise DataError(f"scare {version} exported this to {name}, which this version does not know; export again")
    if not TARGETS[name].runner:
        raise NotApplicableError(f"nothing on this computer runs what is exported to {name}")
    return [runner for runner in RUNNERS[TARGETS[name].runner] if runner.is_here]


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def compare(model: str, runtime: str, results: np.ndarray, expected: GoldenVectors) -> Comparison:
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
    return Comparison(model, runtime, len(results), largest, share, tuple(map(int, ties)), tuple(reasons))


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
