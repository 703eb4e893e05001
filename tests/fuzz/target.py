"""A target of the fuzzers: how its mutants are made, and how a user would meet one."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random


class LieError(Exception):
    """Something was given out that is not true."""


def _nothing() -> None:
    """Nothing is to be made."""


@dataclass(frozen=True)
class Target:
    """`make` a mutant from a chance, `use` the file it is in; whatever but a sentence escapes is a finding."""

    name: str
    suffix: str
    make: Callable[[Random], bytes]
    use: Callable[[Path], object]
    inputs: int = 1  # that one mutant holds
    prepare: Callable[[], object] = _nothing  # what is made once, before any mutant
