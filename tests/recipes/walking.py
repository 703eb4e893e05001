"""A copy of the package in which a recipe is walked: files edited by hand, then real processes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Walk:
    """A folder with a package of its own, and the pages beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("scare", "docs", "runtime"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace what a file holds once."""
        path = self.folder / file
        found = path.read_text(encoding="utf-8")
        assert found.count(old) == 1, f"{file} has {found.count(old)} times {old!r}"
        path.write_text(found.replace(old, new), encoding="utf-8")

    def append(self, file: str, text: str) -> None:
        """Text put at the end of a file."""
        with (self.folder / file).open("a", encoding="utf-8") as handle:
            handle.write(text)

    def python(self, code: str) -> str:
        """What a program prints."""
        return self._run(["-c", code])

    def scare(self, line: str) -> Any:
        """What a command tells as JSON."""
        command = "import sys; from scare.cli.app import run; sys.exit(run(sys.argv[1:]))"
        return json.loads(self._run(["-c", command, *line.split(), "--json"]))

    def _run(self, arguments: list[str]) -> str:
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
