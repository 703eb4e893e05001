"""`scare predict` of an archive in real processes, killed in the midst of its work: the same bytes as if left alone."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.archive.small_archive import contents, make_model, rows_of, write_device

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="a group of processes is killed by its number"),
]
MAIN = "from scare.cli import main; main()"


def predict(folder: Path, out: str) -> "subprocess.Popen[bytes]":
    line = ["predict", str(folder / "dust.scare"), str(folder / "raw"), "--out", str(folder / out), "--jobs", "2"]
    quiet = subprocess.DEVNULL
    return subprocess.Popen([sys.executable, "-c", MAIN, *line], start_new_session=True, stdout=quiet, stderr=quiet)


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_what_was_killed_goes_on(tmp_path: Path, sign: signal.Signals) -> None:
    make_model(tmp_path)
    for number in range(12):
        write_device(tmp_path / "raw", f"box-{number}", rows_of("box", number, 9000), rows=3000)
    assert predict(tmp_path, "whole").wait() == 0
    for already in (0, 5, 20):
        process = predict(tmp_path, "broken")
        while process.poll() is None and len(list((tmp_path / "broken").rglob("[!.]*.parquet"))) <= already:
            time.sleep(0.01)
        os.killpg(process.pid, sign)
        assert process.wait() in (0, -sign, 130)
    assert predict(tmp_path, "broken").wait() == 0
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")
