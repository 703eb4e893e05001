"""Files appear whole, and what a killed process has left goes with the next that writes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scare import files
from scare.board import build
from scare.files import replacing, temporary_path

LEAVES = """
import os, signal
from pathlib import Path
from scare.data.tables import table_writer
from scare.files import temporary_path
with table_writer("sim.parquet"):
    temporary_path(Path("model")).mkdir()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Linux or macOS would run it: kill -9")
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files._remove_leftovers_once.cache_clear()
    subprocess.run([sys.executable, "-c", LEAVES], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert len(list(tmp_path.iterdir())) == 3  # a file, the folder of its parts, a folder of an export
    others = [
        tmp_path / name for name in (".hidden.csv", ".sim.abcdef-1-01234567.csv", temporary_path(Path("mine.csv")).name)
    ]
    for other in others:
        other.touch()
    with replacing(tmp_path / "a.txt") as temporary:
        temporary.write_text("whole")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "a.txt", *others])


def test_a_cache_folder_that_cannot_be_written_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SCARE_CACHE", str(tmp_path / "file" / "cache"))
    folders = {build.cache_folder() for _ in range(3)}
    assert len(folders) == 1
    assert next(iter(folders)).stat().st_mode & 0o077 == 0 or os.name == "nt"
    assert ["is not writable, so compiled code is not cached" in one for one in caplog.messages] == [True]
