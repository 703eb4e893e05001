"""Known boards, read from boards.toml: memory, clock, and how code for each is built and emulated.

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
from scare.records import Amount, Count, convert, load_toml, with_names
from scare.words import suggestion

TABLE = Path(__file__).with_name("boards.toml")


@dataclass(frozen=True)
class Board:
    """A board of boards.toml; memory in bytes. A current of zero means unknown.

    `measures` names the costs that the emulator can tell for it. The fixed-point kernels need `int_bits` of 32.
    """

    name: str
    title: str
    chip: str
    clock_hz: Count
    ram: Count
    flash: Count
    target: str
    cpu: str
    core: str
    measures: tuple[str, ...]
    current_ma: Amount = 0.0
    voltage: Amount = 0.0
    constants_in_ram: bool = False
    int_bits: int = 32

    @property
    def flags(self) -> tuple[str, ...]:
        """Compiler flags that select the processor."""
        return ("-target", self.target, f"-mcpu={self.cpu}")

    @property
    def hard_float(self) -> bool:
        """Whether floats are passed in floating-point registers (hard-float ABI)."""
        return self.target.endswith("hf")


@cache
def boards() -> dict[str, Board]:
    """All boards by name."""
    return convert(with_names(load_toml(TABLE)), dict[str, Board], TABLE)


def board(name: str) -> Board:
    """Find a board by name; the error message suggests the nearest one."""
    if name not in boards():
        raise UsageError(f"no board is called '{name}'{suggestion(name, boards())}")
    return boards()[name]
