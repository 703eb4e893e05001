"""The compilers that build libraries for boards use, as far as this computer has them; else zig."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

GNU = shutil.which("g++") and shutil.which("gcc")
FLAGS = ("-O0", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off")


def c(standard: str = "gnu11") -> tuple[str, ...]:
    return (*(("gcc",) if GNU else (sys.executable, "-m", "ziglang", "cc")), f"-std={standard}", *FLAGS)


def cpp(standard: str) -> tuple[str, ...]:
    return (*(("g++",) if GNU else (sys.executable, "-m", "ziglang", "c++")), f"-std={standard}", *FLAGS)


def call(command: Sequence[object], folder: Path, typed: str = "") -> str:
    """Run a command; what it printed."""
    done = subprocess.run([str(word) for word in command], cwd=folder, input=typed, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
