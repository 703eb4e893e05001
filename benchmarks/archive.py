"""An archive from Parquet to Parquet: rows per second and core, two workers against one, memory, and ten kills.

python -m benchmarks.archive [speed|workers|memory|kills] [--files 100] [--rows 10000] [--json]
"""

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", POLARS_MAX_THREADS="1")

import argparse
import json
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from scare.archive.calibrate import Archive, run_archive
from scare.archive.input_files import single_model
from scare.calibrator.calibrator import Calibrator
from scare.data.column_mapping import ColumnMapping, iterate_tables
from scare.data.readings import TIME, TIME_TYPE, Channel
from scare.data.tables import table_writer
from scare.executor import InProcess, open_executor

WINDOW, DEVICES = 60, 20
ROUNDS, KILLS = 3, 10  # rounds of each measurement, of which the fastest counts; kills
CHANNELS = (Channel("pm25", "ug/m3", 0, 1000), Channel("temperature", "C", -40, 85), Channel("humidity", "%", 0, 100))
STDERR = Console(stderr=True)


def make_model(path: Path) -> Path:
    """Save SCARE's default preset at N = 60 with three channels and random weights."""
    from benchmarks.prediction import make_plan
    from scare.calibrator.calibrator import Sample
    from scare.data.flags import QualitySettings
    from scare.models import Scare
    from scare.windowing.inputs import Inputs
    from scare.windowing.scaling import Affine, Scaling
    from scare.windowing.windows import RECENT

    plan = make_plan(Scare.default(), WINDOW, len(CHANNELS))
    fleet = Affine(np.array([20.0, 15.0, 50.0]), np.array([15.0, 5.0, 10.0]))
    scaling = Scaling("standard", fleet, Affine(np.array([15.0]), np.array([10.0])))
    inputs = Inputs(CHANNELS, scaling, 60.0, WINDOW, RECENT, QualitySettings())
    empty = Sample(np.empty((0, WINDOW, len(CHANNELS)), np.float32), np.empty(0))
    return Calibrator(plan, inputs, Channel("reference", "ug/m3"), empty, empty, {"model": "scare"}).save(path)


def make_files(folder: Path, files: int, rows: int) -> None:
    """Write files of one-minute readings to a hive folder of devices, each device's in order of time."""
    draw = np.random.default_rng(0)
    for number in range(files):
        device, part = number % DEVICES, number // DEVICES
        seconds = 1.7e9 + 60.0 * (part * rows + np.arange(rows))
        day = np.sin(2 * np.pi * seconds / 86400)
        columns = {
            "pm25": np.abs(20 + 10 * day + draw.normal(0, 3, rows)),
            "temperature": 15 + 5 * day + draw.normal(0, 0.1, rows),
            "humidity": 50 - 10 * day + draw.normal(0, 0.3, rows),
        }
        time_column = pl.Series(TIME, (seconds * 1e6).astype(np.int64)).cast(TIME_TYPE)
        home = folder / f"device=box-{device:02}"
        home.mkdir(parents=True, exist_ok=True)
        pl.DataFrame([time_column]).with_columns(**columns).write_parquet(home / f"{part:05}.parquet")


def calibrate(folder: Path, out: str, jobs: int) -> dict[str, Any]:
    """Calibrate FOLDER/raw to FOLDER/OUT with FOLDER/model.scare, in `jobs` processes (0: in this one)."""
    archive = Archive((str(folder / "raw"),), folder / out, single_model(folder / "model.scare"))
    if not jobs:
        return run_archive(archive, InProcess(), lambda done, total: None)
    with open_executor("local", jobs, folder / out) as executor:
        return run_archive(archive, executor, lambda done, total: None)


def processor_seconds(work: Callable[[], object]) -> float:
    """Measure the processor seconds of the fastest of a few runs."""
    spent = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        spent.append(time.process_time() - begun)
    return min(spent)


def speed(folder: Path, rows: int) -> dict[str, float]:
    """Measure rows per second of processor time over all processes, and the shares of reading and writing.

    A run over a tenth of the files is subtracted, so that start-up does not count.
    """
    tenth = some_of(folder, 10)
    files = [len(list((one / "raw").rglob("*.parquet"))) for one in (folder, tenth)]
    spent = min(_run_in_child(folder, turn) - _run_in_child(tenth, turn) for turn in range(ROUNDS))
    seconds_per_row = spent / rows / (1 - files[1] / files[0])
    raw, done = sorted((folder / "raw").rglob("*.parquet")), sorted((folder / "out-0").rglob("*.parquet"))
    mapping, frames = ColumnMapping((TIME,), CHANNELS), [pl.read_parquet(path) for path in done]
    reading = processor_seconds(lambda: [list(iterate_tables(path, mapping, probed=True)) for path in raw])
    writing = processor_seconds(lambda: _write(frames, folder / "written"))
    return {
        "rows_per_second": 1 / seconds_per_row,
        "microseconds_per_row": 1e6 * seconds_per_row,
        "reading_share": reading / rows / seconds_per_row,
        "writing_share": writing / rows / seconds_per_row,
        "bytes_in_per_row": sum(path.stat().st_size for path in raw) / rows,
        "bytes_out_per_row": sum(path.stat().st_size for path in done) / rows,
    }


def _run_in_child(folder: Path, turn: int) -> float:
    """Calibrate in a new process, to a new folder; returns its processor seconds and those of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call = f"archive.calibrate(archive.Path({str(folder)!r}), 'out-{turn}', 0)"
    subprocess.run([sys.executable, "-c", f"from benchmarks import archive; {call}"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def some_of(folder: Path, share: int) -> Path:
    """Make a folder of links to every `share`-th file."""
    part = folder / f"part-{share}"
    for path in sorted((folder / "raw").rglob("*.parquet"))[::share]:
        target = part / "raw" / path.relative_to(folder / "raw")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(path)
    (part / "model.scare").symlink_to(folder / "model.scare")
    return part


def _write(frames: Sequence[pl.DataFrame], folder: Path) -> None:
    """Write frames as the archive writes results, to time the writing alone."""
    for number, frame in enumerate(frames):
        with table_writer(folder / f"{number}.parquet") as write:
            write(frame)


def workers(folder: Path, rows: int) -> dict[str, float]:
    """Measure rows per second of wall-clock time with one worker and with two, in turns."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(ROUNDS):
        for jobs, spent in seconds.items():
            spent.append(calibrate(folder, f"out-{jobs}-{turn}", jobs)["seconds"])
    one, two = (min(spent) for spent in seconds.values())
    return {"rows_per_second_one": rows / one, "rows_per_second_two": rows / two, "ratio": one / two}


def memory(folder: Path, rows: int) -> dict[str, float]:
    """Measure the peak memory of one process for a hundredth, a tenth and all of the files."""
    found = {}
    for share in (100, 10, 1):
        part = some_of(folder, share)
        code = f"from benchmarks.archive import peak; print(peak({str(part)!r}))"
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        found[f"megabytes_{len(list((part / 'raw').rglob('*.parquet')))}_files"] = float(done.stdout)
    return found


def peak(folder: str) -> float:
    """Run an archive in this process; returns its peak memory [MB]."""
    calibrate(Path(folder), "out", 0)
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def kills(folder: Path, rows: int) -> dict[str, float]:
    """Kill a run ten times in the middle of its work, let it finish, and compare every row with the input."""
    draw, call = random.Random(1), f"archive.calibrate(archive.Path({str(folder)!r}), 'out', 2)"
    files, begun = len(list((folder / "raw").rglob("*.parquet"))), time.monotonic()
    for _ in range(KILLS):
        run = [sys.executable, "-c", f"from benchmarks import archive; {call}"]
        process = subprocess.Popen(run, start_new_session=True)
        enough = _results(folder) + draw.randint(1, files // (KILLS + 1))
        while process.poll() is None and _results(folder) < enough:
            time.sleep(0.05)
        time.sleep(draw.uniform(0, 0.1))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    rows_left = calibrate(folder, "out", 2)["now"]["rows"]
    lost = doubled = 0
    for path in (folder / "raw").rglob("*.parquet"):
        raw = pl.read_parquet(path, columns=[TIME])
        found = pl.read_parquet(folder / "out" / path.relative_to(folder / "raw"), columns=[TIME])
        lost += raw.join(found, on=TIME, how="anti").height
        doubled += found.height - found.n_unique()
    stray, unlike = _results(folder) - files, _unlike(folder)
    seconds = time.monotonic() - begun
    return {
        "kills": KILLS,
        "rows_after_last_kill": rows_left,
        "lost": lost,
        "doubled": doubled,
        "stray": stray,
        "unlike_a_run_without_kills": unlike,
        "seconds": seconds,
    }


def _unlike(folder: Path) -> int:
    """Run two devices again without kills, and count the files whose results differ."""
    alone = folder / "alone"
    for path in (folder / "raw").glob("device=box-0[01]/*"):
        target = alone / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(path)
    (alone / "model.scare").symlink_to(folder / "model.scare")
    calibrate(alone, "out", 2)
    results = [path for path in (alone / "out").rglob("*.parquet") if path.name[0] != "."]
    return sum(path.read_bytes() != (folder / "out" / path.relative_to(alone / "out")).read_bytes() for path in results)


def _results(folder: Path) -> int:
    """Number of result files, without hidden ones."""
    return sum(path.name[0] != "." for path in (folder / "out").rglob("*.parquet"))


MEASURED = {"speed": speed, "workers": workers, "memory": memory, "kills": kills}


def main() -> None:
    """Measure what is asked for, or all, and print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=[*MEASURED])
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {}
    for what in options.what:
        with TemporaryDirectory() as name:
            folder = Path(name)
            make_model(folder / "model.scare")
            make_files(folder / "raw", options.files, options.rows)
            found[what] = MEASURED[what](folder, options.files * options.rows)
            STDERR.print(what, found[what])
    table = Table("", "", "")
    for what, facts in found.items():
        for name, value in facts.items():
            table.add_row(what, name.replace("_", " "), f"{value:,.4g}" if value < 100 else f"{value:,.0f}")
    Console(stderr=options.json).print(table)
    if options.json:
        print(json.dumps({"files": options.files, "rows": options.rows, **found}, indent=2))


if __name__ == "__main__":
    main()
