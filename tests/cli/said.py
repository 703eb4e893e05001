"""What a typed line gives."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """What a command returned and printed."""

    code: int
    out: str
    err: str


Type = Callable[[str], Said]
