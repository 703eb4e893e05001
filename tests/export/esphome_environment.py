"""ESPHome in an environment of its own, made once and kept in the user's cache folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from secrets import token_hex

import pytest

VERSION = "2026.6.5"


class Esphome:
    """The command `esphome`."""

    def __init__(self, environment: Path) -> None:
        self.python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def __call__(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run it in the folder of the file that is named last."""
        command = [str(self.python), "-m", "esphome", *map(str, words)]
        variables = {**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}
        folder = Path(words[-1]).parent
        return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, encoding="utf-8")


def install_esphome() -> Esphome:
    """ESPHome of our version; where pip cannot get it the test is skipped."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scare-tests"
    environment = cache / f"esphome-{VERSION}"
    if not environment.exists():
        cache.mkdir(parents=True, exist_ok=True)
        _make(environment, cache / f".esphome-{token_hex(4)}")
    return Esphome(environment)


def _make(environment: Path, temporary: Path) -> None:
    """Make it beside its place, so that it is there whole or not at all, whoever else makes it."""
    python = Esphome(temporary).python
    try:
        for command in (
            [sys.executable, "-m", "venv", str(temporary)],
            [str(python), "-m", "pip", "install", "--quiet", f"esphome=={VERSION}"],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                pytest.skip(f"esphome {VERSION} (pip) would run it, but: {last}")
        if not environment.exists():
            temporary.rename(environment)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
