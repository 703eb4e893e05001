"""Known boards, read from boards.toml: memory, clock, how code is built and emulated, and whether a model fits.

>>> board("nano33ble").clock_hz
64000000
>>> board("nano33")
Traceback (most recent call last):
scare.errors.UsageError: no board is called 'nano33'; did you mean 'nano33ble'?
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scare.errors import UsageError
from scare.schema import Amount, Count, convert, load_toml, with_names
from scare.words import suggestion

TABLE = Path(__file__).with_name("boards.toml")
WIDE = 32  # bits that an int must have in C for the fixed-point kernels


@dataclass(frozen=True)
class Board:
    """A board of boards.toml; memory in bytes. A current of zero means unknown.

    `measures` names the costs that the emulator can measure for it. `int_bits` is the size of an int in its C.
    """

    name: str
    title: str
    chip: str
    clock_hz: Count
    ram: Count
    flash: Count
    target: str  # the compiler's -target
    cpu: str  # the compiler's -mcpu
    core: str  # that Unicorn emulates
    measures: tuple[str, ...]
    gcc: str = ""  # command of GCC with the flags of the core; empty: none is known
    current_ma: Amount = 0.0  # while it computes
    current_source: str = ""  # the document that says so
    voltage: Amount = 0.0
    constants_in_ram: bool = False  # its C keeps constants in RAM, not in flash
    int_bits: int = 32

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of zig that select the processor."""
        return ("-target", self.target, f"-mcpu={self.cpu}")

    @property
    def hard_float(self) -> bool:
        """Whether floats are passed in floating-point registers (hard-float ABI)."""
        return self.target.endswith("hf")

    def shortage(self, ram_bytes: int, flash_bytes: int, fixed_point: bool) -> dict[str, str]:
        """Check whether a model fits: why "int", "RAM" or "flash" is too small, by that name; empty if it fits.

        >>> board("nano33ble").shortage(300_000, 20_000, fixed_point=True)
        {'RAM': 'needs 300,000 B of RAM; nano33ble has 262,144 B'}
        """
        short = {}
        if fixed_point and self.int_bits < WIDE:
            short["int"] = f"fixed point needs an int of {WIDE} bits; {self.name} has {self.int_bits}"
        for what, need, has in (("RAM", ram_bytes, self.ram), ("flash", flash_bytes, self.flash)):
            if need > has:
                short[what] = f"needs {need:,} B of {what}; {self.name} has {has:,} B"
        return short


@cache
def boards() -> dict[str, Board]:
    """Return all boards by name."""
    return convert(with_names(load_toml(TABLE)), dict[str, Board], TABLE)


def board(name: str) -> Board:
    """Find a board by name; the error message suggests the nearest one."""
    if name not in boards():
        raise UsageError(f"no board is called '{name}'{suggestion(name, boards())}")
    return boards()[name]
