"""The compiler: zig, which pip installs, for this computer and for every board.

The same sources and flags are compiled once: what comes out is kept in the user's cache folder under a name made from
their content, so it is never out of date.
"""

import atexit
import hashlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from scare.extras import require
from scare.files import replacing

logger = logging.getLogger(__name__)
STANDARD = ("-std=c99", "-O2", "-ffp-contract=off", "-fno-math-errno")
STRICT = ("-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-Wshadow", "-Werror")


class BuildError(RuntimeError):
    """The compiler refused; what it said is the message."""


def compile_c(sources: Sequence[Path], out: Path, flags: Sequence[str], includes: Sequence[Path] = ()) -> Path:
    """Compile and link with zig; `out` is what the flags make (a program, a shared library, an object)."""
    require("board", "ziglang")
    command = [sys.executable, "-m", "ziglang", "cc", *STANDARD, *flags]
    command += [f"-I{folder}" for folder in includes] + [str(source) for source in sources] + ["-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(done.stderr)
    return out


def compile_once(
    sources: Sequence[Path], name: str, flags: Sequence[str], includes: Sequence[Path] = (), other: Iterable[Path] = ()
) -> Path:
    """As `compile_c`, to a file called `name` in the cache, unless it is there; `other` files it is made from too."""
    headers = [header for folder in includes for header in sorted(folder.rglob("*.h"))]
    digest = hashlib.sha256(repr((STANDARD, tuple(flags))).encode())
    for path in (*sources, *headers, *other):
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    out = cache_folder() / digest.hexdigest()[:32] / name
    if not out.exists():
        with replacing(out) as temporary:
            compile_c(sources, temporary, flags, includes)
    return out


def compile_each(sources: Sequence[Path], flags: Sequence[str], includes: Sequence[Path] = ()) -> list[Path]:
    """As `compile_once`, to an object of each source."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda path: compile_once([path], f"{path.stem}.o", (*flags, "-c"), includes), sources))


def library_name(stem: str) -> str:
    """What a shared library is called here."""
    return stem + {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def cache_folder() -> Path:
    """Where builds are kept: the system's place for what can be made again, or where that cannot be, for now only."""
    home = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_CACHE_HOME")
    usual = Path(home) / "scare" if home else Path.home() / ".cache" / "scare"
    folder = Path(os.environ.get("SCARE_CACHE") or usual)
    return folder if _can_write(folder) else _folder_for_now(folder)


@cache
def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


@cache
def _folder_for_now(instead_of: Path) -> Path:
    """A folder of this process alone, since what is in it will be run; said once."""
    logger.warning("%s cannot be written: what is compiled is not kept (SCARE_CACHE names another folder)", instead_of)
    folder = TemporaryDirectory(prefix="scare-")
    atexit.register(folder.cleanup)
    return Path(folder.name)
