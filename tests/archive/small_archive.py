"""Small archives on disk, an executor that works in this process, and what a run of both gives."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import polars as pl

from scare.archive.calibrate import Archive, run_archive
from scare.archive.input_files import Models
from scare.calibrator.calibrator import Calibrator
from scare.executor import InProcess
from scare.live.fleet import Route
from tests.calibrator.building import attention_plan, bad_readings, make_calibrator

ROWS, FILES = 60, 3


class Watched(InProcess):
    """This process, and `before` is called with the name of what is about to be done."""

    def __init__(self, before: Callable[[str], object]) -> None:
        self._before = before

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        self._before(work.__name__)
        return super().submit(work, *arguments)


def make_model(folder: Path, name: str = "dust.scare") -> Path:
    """A tiny network that lets new devices settle."""
    return make_calibrator(attention_plan(), settle=100).save(folder / name)


def rows_of(device: str, seed: int = 3, count: int = ROWS * FILES) -> pl.DataFrame:
    """The raw rows of a device, with all that can be wrong with them."""
    return bad_readings(seed, count, device).frame.drop("flags")


def write_device(folder: Path, device: str, table: pl.DataFrame, rows: int = ROWS) -> None:
    """The rows of a device in three files of a hive folder."""
    home = folder / f"device={device}"
    home.mkdir(parents=True)
    for number in range(FILES):
        table[number * rows : (number + 1) * rows].write_parquet(home / f"part-{number}.parquet")


def small_archive(folder: Path, **terms: Any) -> Archive:
    """A known device and a new one, in three files each."""
    for seed, device in enumerate(("box-1", "new")):
        write_device(folder / "raw", device, rows_of(device, seed))
    return Archive((str(folder / "raw"),), folder / "out", Models([Route("*", str(make_model(folder)))]), **terms)


def run(archive: Archive, executor: InProcess | None = None) -> dict[str, Any]:
    """What became of an archive."""
    return run_archive(archive, executor or InProcess(), lambda done, total: None)


def contents(folder: Path) -> dict[str, bytes]:
    """The results by name; nothing else may be there but the manifest and what is hidden."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.parts[len(folder.parts)] != ".scare"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths if path.name != "_manifest.csv"}


def expected(archive: Archive, device: str, rows: pl.DataFrame) -> pl.DataFrame:
    """All rows of a device calibrated at once."""
    model = archive.models.find(device)
    assert model is not None
    return Calibrator.load(model.path).predict(rows, device)


def reasons(facts: Mapping[str, Any]) -> dict[str, str]:
    """Why something was left out, by file and device."""
    return {f"{one['file']} {one['device']}".strip(): one["why"] for one in facts["left_out"]}
