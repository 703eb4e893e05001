"""MicroPython itself: the one that is installed, or its WebAssembly port, fetched once into the user's cache folder."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.npm_packages import npm_package

PACKAGE, VERSION = "@micropython/micropython-webassembly-pyscript", "1.27.0"
RUN = Path(__file__).with_name("micropython_run.mjs")


class MicroPython:
    """The command."""

    def __init__(self, words: list[str], module: Path | None = None) -> None:
        self._words, self._variables = words, {"MICROPYTHON": str(module)} if module else {}

    def __call__(self, script: str, folder: Path) -> "subprocess.CompletedProcess[str]":
        """Run a script of a folder."""
        variables = {**os.environ, **self._variables}
        return subprocess.run([*self._words, script], cwd=folder, env=variables, capture_output=True, text=True)


def find_micropython() -> MicroPython:
    """MicroPython; where neither it nor npm is there the test is skipped."""
    installed, node = shutil.which("micropython"), shutil.which("node")
    if installed:
        return MicroPython([installed])
    if not node:
        pytest.skip("nodejs and npm (Debian) would run it, or micropython")
    return MicroPython([node, str(RUN)], npm_package(PACKAGE, VERSION) / "micropython.mjs")
