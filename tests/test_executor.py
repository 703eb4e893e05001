"""Jobs in other processes: one that dies is tried again and reported, and takes no other with it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scare.errors import UsageError
from scare.executor import open_executor, run_all
from tests.failing_jobs import die_at, hears_ctrl_c, threads


def test_a_job_that_kills_its_process_is_tried_again_and_told_and_the_others_go_on(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with open_executor("local", 2, tmp_path) as executor:
        ended = list(run_all(executor, die_at, [(number, 1, str(notes)) for number in range(4)]))
        assert executor.submit(hears_ctrl_c).result() is False
        assert executor.submit(threads).result() == {"1"}
    assert sorted(one.result for one in ended if one.lost is None) == [0, 2, 3]
    (lost,) = [one for one in ended if one.lost]
    assert lost.arguments[0] == 1
    assert "ended without a result (exit code -9)" in str(lost.lost)
    assert notes.read_text() == "tried\ntried\n"
    assert os.name == "nt" or list(tmp_path.iterdir()) == [notes]  # nothing half written


@pytest.mark.skipif(os.name == "nt", reason="a process of Windows does not learn that its parent is gone")
def test_workers_end_with_the_process_that_started_them_however_it_went(tmp_path: Path) -> None:
    note = tmp_path / "note"
    begin = "from tests import failing_jobs; failing_jobs.sleep_in_a_worker(*__import__('sys').argv[1:])"
    parent = subprocess.Popen([sys.executable, "-c", begin, str(tmp_path), str(note)])
    try:
        until(note.exists)
    finally:
        parent.kill()
        parent.wait()
    worker = int(note.read_text())
    until(lambda: not is_running(worker))


def until(done: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until this is so."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")  # one that nobody has asked for its exit code has ended too
    return not state.exists() or ") Z " not in state.read_text()


def test_an_executor_that_is_not_known_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="no executor 'slurm'; there are local, dask and dask://HOST:PORT"),
        open_executor("slurm", 1, tmp_path),
    ):
        pass
