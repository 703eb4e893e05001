"""What a `.scare` file may ask for at most, checked before anything is laid out in memory (docs/limits.md).

A usual file asks for a thousandth of it. Who has a larger one, and trusts it, raises all limits together:
`scare --limits 4 predict …`, or `with raised(4): Calibrator.load(…)`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from scare.errors import UsageError

VARIABLE = "SCARE_LIMITS"  # in the environment, so that processes that are started have them too


@dataclass(frozen=True)
class Limit:
    """The most of something, and what it is in words."""

    most: int
    of: str


LIMITS = {
    "file": Limit(128 << 20, "bytes of the file"),
    "manifest": Limit(2 << 20, "bytes of manifest.json"),
    "weights": Limit(64 << 20, "bytes of weights.safetensors, unpacked"),
    "windows": Limit(128 << 20, "bytes of windows.safetensors, unpacked"),
    "card": Limit(1 << 20, "bytes of card.md"),
    "window": Limit(1 << 16, "readings in a window"),
    "channels": Limit(256, "channels"),
    "devices": Limit(1 << 16, "devices that it knows"),
    "stored": Limit(4096, "windows that it stores"),
    "steps": Limit(1000, "steps of its plan"),
    "numbers": Limit(1 << 24, "weights that its steps read"),
    "memory": Limit(1 << 24, "numbers that one window becomes on its way through the plan"),
    "operations": Limit(10**8, "operations that one window takes"),
}


def most(name: str) -> int:
    """A limit as it holds now."""
    return LIMITS[name].most * int(os.environ.get(VARIABLE, 1))


def check(**asked: int) -> None:
    """Refuse what asks for more than is allowed.

    >>> check(channels=3, steps=1001)
    Traceback (most recent call last):
    ValueError: it asks for 1,001 steps of its plan, and the limit is 1,000; if you trust it: scare --limits 2 …
    """
    for name, number in asked.items():
        if number > most(name):
            times = -(-number // LIMITS[name].most)
            raise ValueError(
                f"it asks for {number:,} {LIMITS[name].of}, and the limit is {most(name):,}; if you trust it:"
                f" scare --limits {times if times < 1000 else 'N'} …"
            )


@contextmanager
def raised(times: int) -> Iterator[None]:
    """All limits times a whole number, in here and in processes that are started in here."""
    if times < 1:
        raise UsageError(f"--limits is {times}; give a whole number from 1 on")
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(times)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
