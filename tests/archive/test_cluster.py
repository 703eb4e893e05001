"""A real Dask scheduler and workers: the same bytes as here; a worker is lost, or of another version, or not there."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scare.archive.calibrate import run_archive
from scare.data.simulate import Simulation, simulate
from scare.data.split import split_by_time
from scare.errors import UnreachableError, UsageError
from scare.executor import open_executor, run_all
from scare.experiments.study import grid, prepare, run_study
from tests.archive.small_archive import contents, run, small_archive
from tests.failing_jobs import die_once

pytest.importorskip("distributed", reason="pip install '.[cluster]'")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
TIMES = {"fit_seconds", "windows_per_second"}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def dask(*words: str) -> "subprocess.Popen[bytes]":
    """A process of Dask's own command."""
    quiet = subprocess.DEVNULL
    return subprocess.Popen([sys.executable, "-m", "dask", *words], stdout=quiet, stderr=quiet)


def wait_for(address: str, workers: int) -> None:
    from distributed import Client

    with Client(address, timeout="60s") as client:
        client.wait_for_workers(workers, timeout=60)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a scheduler without workers."""
    port = free_port()
    process = dask("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.wait()


@pytest.fixture
def workers(scheduler: str) -> Iterator[str]:
    """The same address, with two workers."""
    process = dask("worker", scheduler, "--nworkers", "2", "--nthreads", "1", "--no-dashboard")
    wait_for(scheduler, 2)
    yield f"dask://{scheduler}"
    process.terminate()
    process.wait()


def rows(folder: Path) -> dict[str, object]:
    """What jobs have written, without how long it took."""
    found: dict[str, object] = {}
    for path in sorted((folder / "rows").iterdir()):
        content = json.loads(path.read_text()) if path.suffix == ".json" else path.read_bytes()
        found[path.name] = (
            {key: content[key] for key in content if key not in TIMES} if isinstance(content, dict) else content
        )
    return found


def test_a_study_gives_the_same_bytes_as_one_job_after_the_other_here(workers: str, tmp_path: Path) -> None:
    split = split_by_time(simulate(Simulation(boxes=2, days=4, seed=3)), 900.0)
    jobs = grid(["linear", "ridge", "scare"], [15], 1)
    for name, where in (("here", "local"), ("there", workers)):
        run_study(prepare(tmp_path / name, split, jobs, {"steps": 40}), 1, lambda *_: None, where)
    assert rows(tmp_path / "here") == rows(tmp_path / "there")
    each = [f"{method}-w15-s0{end}" for method in ("linear", "ridge", "scare") for end in (".json", ".npy", ".scare")]
    assert set(rows(tmp_path / "here")) == {*each, "scare-w15-s0.interval.npy"}


def test_an_archive_gives_the_same_bytes_as_here(workers: str, tmp_path: Path) -> None:
    archive = small_archive(tmp_path)
    with open_executor(workers, 2, tmp_path) as executor:
        run_archive(archive, executor, lambda *_: None)
    there = contents(archive.out)
    (tmp_path / "out").rename(tmp_path / "there")
    run(archive)
    assert contents(archive.out) == there


def test_a_worker_that_is_lost_is_replaced_by_another(workers: str, tmp_path: Path) -> None:
    with open_executor(workers, 2, tmp_path) as executor:
        ended = list(run_all(executor, die_once, [(number, str(tmp_path / "note")) for number in range(6)]))
    assert sorted(one.result for one in ended) == list(range(6))


def test_a_worker_of_another_version_or_without_the_package_is_refused(scheduler: str, tmp_path: Path) -> None:
    old, none = tmp_path / "old.py", tmp_path / "none.py"
    old.write_text("import scare\nscare.__version__ = '0.0.1'\n")
    none.write_text("import sys\nsys.modules['scare.executor'] = None\n")
    for preload, message in ((old, "has scare 0.0.1; install scare"), (none, "cannot load scare")):
        process = dask(
            "worker", scheduler, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--preload", str(preload)
        )
        try:
            wait_for(scheduler, 1)
            with pytest.raises(UsageError, match=message), open_executor(f"dask://{scheduler}", 1, tmp_path):
                pass
        finally:
            process.terminate()
            process.wait()


def test_a_scheduler_that_is_not_there_or_has_no_worker_is_said(scheduler: str, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="has no worker"), open_executor(f"dask://{scheduler}", 1, tmp_path):
        pass
    with (
        pytest.raises(UnreachableError, match="could not reach"),
        open_executor(f"dask://127.0.0.1:{free_port()}", 1, tmp_path),
    ):
        pass
