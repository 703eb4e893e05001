"""What tests of several packages share."""

import gc
import os
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version

import pytest
from hypothesis import settings

from scare.board.build import cache_folder

# what takes the time here is compiling, not computing: plainly, once for all workers, and kept for the next run
PLAIN = "--xla_cpu_parallel_codegen_split_count=1"
if tuple(map(int, version("jax").split(".")[:2])) < (0, 12):  # which would end at a flag that it no longer has
    PLAIN += " --xla_cpu_use_fusion_emitters=false"
for name, value in {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": PLAIN,
    "JAX_COMPILATION_CACHE_DIR": str(cache_folder() / "jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
}.items():
    os.environ.setdefault(name, value)


gc.disable()  # until all is imported
gc.set_threshold(10_000)  # objects; JAX makes many that stay

settings.register_profile("ours", deadline=None)  # beside other work a machine is slow at times
settings.load_profile("ours")


@pytest.fixture
def double() -> Iterator[None]:
    """JAX computes in float64 for the length of a test."""
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What was imported stays to the end: no search for garbage goes through it."""
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was not run, and what would run it: a package, or another system; or why a model is exempt, in its words."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter((one.nodeid.split("::")[0], one.longrepr[2].removeprefix("Skipped: ")) for one in skipped)
    for (file, reason), count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} of {file} not run: {reason}")
