"""A target of the fuzzers: how its mutated inputs are made, and how a user would meet one."""

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
    """`make` draws a mutated input, `use` opens the file it is in; anything but an error message is a finding."""

    name: str
    suffix: str
    make: Callable[[Random], bytes]
    use: Callable[[Path], object]
    inputs: int = 1  # that one mutated input holds
    prepare: Callable[[], object] = _nothing  # what is made once, before any mutated input
