"""An export is code of others: it is compiled and run in a process of its own, within limits of time and memory."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from scare.board.verifying import Comparison, verify_export
from scare.errors import DataError, ExitCode, ScareError

SECONDS = 600  # until it is given up, and of processor time
MEMORY = 8 << 30  # bytes of data; a compiler and the largest of the runtimes need a quarter of it


def verify_apart(folder: Path) -> list[Comparison]:
    """As `verify_export` of a folder that has been checked, in a child."""
    command = [sys.executable, "-m", "scare.board.verifying_apart", str(folder)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
    ) as child:
        try:
            told, _ = child.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            told = ""
        finally:
            _end(child)
    if not told:
        raise DataError(f"running it takes more than {SECONDS} s or {MEMORY >> 30} GB, or ends the process that does")
    found = json.loads(told.splitlines()[-1])  # a runtime may have printed before
    if isinstance(found, dict):
        refused = ScareError(found["refused"])
        refused.exit_code = ExitCode(found["code"])
        raise refused
    return [Comparison(**{**one, "ties": tuple(one["ties"]), "reasons": tuple(one["reasons"])}) for one in found]


def _end(child: "subprocess.Popen[str]") -> None:
    """The child, and what it has started."""
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL) if hasattr(os, "killpg") else child.kill()


def _limit() -> None:
    """Windows has no such limits."""
    if sys.platform != "win32":
        import resource

        for kind, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_CORE, 0)):
            resource.setrlimit(kind, (most, most))


def _tell(folder: str) -> str:
    try:
        return json.dumps([asdict(one) for one in verify_export(Path(folder), trust=True)])
    except ScareError as refused:
        return json.dumps({"refused": str(refused), "code": refused.exit_code})


if __name__ == "__main__":
    _limit()
    print(_tell(sys.argv[1]))
