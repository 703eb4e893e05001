"""The compiler: zig, which pip installs, for this computer and for every board."""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from scare.errors import UsageError

STANDARD = ("-std=c99", "-O2", "-ffp-contract=off", "-fno-math-errno")
STRICT = ("-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-Wshadow", "-Werror")


class BuildError(RuntimeError):
    """The compiler refused; what it said is the message."""


def require(*modules: str) -> None:
    """Refuse, with the command that helps, when the extra is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"{', '.join(missing)} is not installed; install it with: pip install 'scare[device]'")


def compile_c(sources: Sequence[Path], out: Path, flags: Sequence[str], includes: Sequence[Path] = ()) -> Path:
    """Compile and link with zig; `out` is what the flags make (a program, a shared library, an object)."""
    require("ziglang")
    command = [sys.executable, "-m", "ziglang", "cc", *STANDARD, *flags]
    command += [f"-I{folder}" for folder in includes] + [str(source) for source in sources] + ["-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(done.stderr)
    return out
