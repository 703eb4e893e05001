"""Jobs in other processes: one that dies is tried again and told, and takes none with it."""

import os
from pathlib import Path

import pytest

from scare.archive.executor import open_executor, run_all
from scare.errors import UsageError
from tests.archive.dying import die_at, hears_ctrl_c, threads


def test_a_job_that_kills_its_process_is_tried_again_and_told_and_the_others_go_on(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with open_executor("local", 2, tmp_path, one_thread=True) as executor:
        ended = list(run_all(executor, die_at, [(number, 1, str(notes)) for number in range(4)]))
        assert executor.submit(hears_ctrl_c).result() is False
        assert executor.submit(threads).result() == "1"
    assert sorted(one.result for one in ended if one.lost is None) == [0, 2, 3]
    (lost,) = [one for one in ended if one.lost]
    assert lost.arguments[0] == 1
    assert "ended without a result (exit code -9)" in str(lost.lost)
    assert notes.read_text() == "tried\ntried\n"
    assert os.name == "nt" or list(tmp_path.iterdir()) == [notes]  # nothing half written


def test_an_executor_that_is_not_known_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="no executor 'slurm'; there are local, dask and dask://HOST:PORT"),
        open_executor("slurm", 1, tmp_path),
    ):
        pass
