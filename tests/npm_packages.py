"""Packages of npm that tests run, fetched once into the user's cache folder."""

import os
import shutil
import subprocess
from pathlib import Path
from secrets import token_hex

import pytest


def npm_package(name: str, version: str) -> Path:
    """The folder of a package; where it is not there and cannot be fetched the test is skipped."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scare-tests"
    place = cache / f"{name.rpartition('/')[2]}-{version}"
    if not place.exists():
        _fetch(f"{name}@{version}", place, cache / f".npm-{token_hex(4)}")
    return place / "node_modules" / name


def _fetch(package: str, place: Path, temporary: Path) -> None:
    """Beside its place first, so that it is there whole or not at all, whoever else fetches it."""
    npm = shutil.which("npm")
    if not npm:
        pytest.skip(f"npm (Debian) would run it, with {package}")
    temporary.mkdir(parents=True)
    try:
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(temporary), package]
        if subprocess.run(command, capture_output=True, text=True).returncode:
            pytest.skip(f"{package} (npm) would run it, but npm cannot fetch it")
        if not place.exists():
            temporary.rename(place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
