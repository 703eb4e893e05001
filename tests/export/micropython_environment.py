"""MicroPython itself: the one that is installed, or its WebAssembly port, fetched once into the user's cache folder."""

import os
import shutil
import subprocess
from pathlib import Path
from secrets import token_hex

import pytest

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
    installed, node, npm = (shutil.which(name) for name in ("micropython", "node", "npm"))
    if installed:
        return MicroPython([installed])
    if not node or not npm:
        pytest.skip("nodejs and npm (Debian) would run it, or micropython")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scare-tests"
    place = cache / f"micropython-{VERSION}"
    if not place.exists():
        _fetch(npm, place, cache / f".micropython-{token_hex(4)}")
    return MicroPython([node, str(RUN)], place / "node_modules" / PACKAGE / "micropython.mjs")


def _fetch(npm: str, place: Path, temporary: Path) -> None:
    """Beside its place first, so that it is there whole or not at all, whoever else fetches it."""
    temporary.mkdir(parents=True)
    try:
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(temporary), f"{PACKAGE}@{VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{PACKAGE} {VERSION} (npm) would run it, but npm cannot fetch it")
        if not place.exists():
            temporary.rename(place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
