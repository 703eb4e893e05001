"""Scaling: one and two processes, a Dask cluster of two workers on loopback, tasks per second of its scheduler.

python -m benchmarks.scale [--files 60] [--rows 20000] [--json]
"""

import argparse
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.archive import make_files, make_model
from scare.archive.calibrate import Archive, run_archive
from scare.archive.input_files import single_model
from scare.executor import Executor, open_executor, run_all

TASKS = 2000  # empty ones, to time the scheduler
SENSORS, YEARS, STEP_SECONDS, FILE_DAYS = 10_000, 3, 60, 30  # the archive that is extrapolated to
READ, WRITTEN = 2, 3  # requests per file: to read its summary and rows; to write result, state and journal line


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """Start a scheduler and single-threaded workers on this computer; yields the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "dask"]
    address = f"127.0.0.1:{port}"
    started = [
        subprocess.Popen([*dask, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"], **quiet)
    ]
    own = ["--nworkers", str(workers), "--nthreads", "1", "--no-dashboard"]
    started.append(subprocess.Popen([*dask, "worker", address, *own], **quiet))
    try:
        _wait_for(address, workers)
        yield f"dask://{address}"
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait()


def _wait_for(address: str, workers: int) -> None:
    """Wait until this many workers are connected to the scheduler."""
    from distributed import Client

    with Client(address, timeout="60s") as client:
        client.wait_for_workers(workers, timeout=60)


def nothing(number: int) -> int:
    """A task without work: measures the cost of scheduling."""
    return number


def peak_megabytes() -> float:
    """Peak memory of this process."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


def measure(folder: Path, rows: int, executor: Executor, name: str) -> dict[str, Any]:
    """Run an archive, then empty tasks, on an executor whose processes have been started before."""
    list(run_all(executor, nothing, ((number,) for number in range(executor.size))))
    archive = Archive(
        (str(folder / "raw"),), folder / f"out-{name.partition(':')[0]}", single_model(folder / "model.scare")
    )
    found = run_archive(archive, executor, lambda done, total: None)
    memory = [one.result for one in run_all(executor, peak_megabytes, [() for _ in range(executor.size)])]
    begun = time.perf_counter()
    _run_empty_tasks(executor)
    size = sum(path.stat().st_size for path in (folder / "raw").rglob("*.parquet"))
    return {
        "workers": executor.size,
        "rows_per_second": rows / found["seconds"],
        "bytes_per_second": size / found["seconds"],
        "megabytes_per_worker": max(memory),
        "tasks_per_second": TASKS / (time.perf_counter() - begun),
    }


def _run_empty_tasks(executor: Executor) -> None:
    """Run empty tasks; a scheduler gets all at once, so that it never waits for the client."""
    if executor.shared:
        wait([executor.submit(nothing, number) for number in range(TASKS)])
    else:
        list(run_all(executor, nothing, ((number,) for number in range(TASKS))))


def extrapolate(rows_per_core_second: float) -> dict[str, float]:
    """Estimate the cost of three years of ten thousand sensors."""
    rows = SENSORS * YEARS * 365.25 * 86400 / STEP_SECONDS
    files = SENSORS * YEARS * 365.25 / FILE_DAYS
    return {
        "rows": rows,
        "files": files,
        "core_hours": rows / rows_per_core_second / 3600,
        "requests_to_read": READ * files,
        "requests_to_write": WRITTEN * files,
    }


def main() -> None:
    """Measure, extrapolate, and print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=60)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows, found = options.files * options.rows, {}
    with TemporaryDirectory() as name, cluster(2) as address:
        folder = Path(name)
        make_model(folder / "model.scare")
        make_files(folder / "raw", options.files, options.rows)
        for where, jobs in (("local", 1), ("local", 2), (address, 2)):
            with open_executor(where, jobs, folder) as executor:
                label = f"{where.partition(':')[0]} {jobs}"
                found[label] = measure(folder, rows, executor, label.replace(" ", "-"))
    estimate = extrapolate(found["local 1"]["rows_per_second"])
    table = Table("", *next(iter(found.values())))
    for label, facts in found.items():
        table.add_row(label, *(f"{value:,.0f}" for value in facts.values()))
    Console(stderr=options.json).print(table, "extrapolated:", estimate)
    if options.json:
        print(json.dumps({"measured": found, "estimated": estimate}, indent=2))


if __name__ == "__main__":
    main()
