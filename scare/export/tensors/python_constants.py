"""The constant arrays of a module in plain Python, as literals of bytes: a board takes them as they are."""

from dataclasses import dataclass, field

import numpy as np

LITERAL_BYTES = 24  # in one line of 120 columns


@dataclass
class Constants:
    """The arrays of a module: the same numbers are there once."""

    _names: dict[bytes, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    bytes: int = 0

    def name(self, numbers: np.ndarray) -> str:
        """What an array of these numbers is called."""
        code = _typecode(numbers)
        stored = numbers.astype(f"<{np.dtype(code).str[1:]}").tobytes()
        key = code.encode() + stored
        if key not in self._names:
            self._names[key] = f"C{len(self._names)}"
            self.lines += _literal(f'{self._names[key]} = array("{code}", ', stored)
            self.bytes += len(stored)
        return self._names[key]


def _literal(begun: str, stored: bytes) -> list[str]:
    """Bytes that end a line begun, or take lines of their own."""
    parts = [repr(stored[at : at + LITERAL_BYTES]) for at in range(0, max(1, len(stored)), LITERAL_BYTES)]
    return [f"{begun}{parts[0]})"] if len(parts) == 1 else [f"{begun}(", *(f"    {part}" for part in parts), "))"]


def _typecode(numbers: np.ndarray) -> str:
    """The smallest kind of array that holds them."""
    if numbers.dtype.kind == "f":
        return "f"
    largest = numbers.max(initial=0)
    return "B" if largest < 1 << 8 else "H" if largest < 1 << 16 else "I"
