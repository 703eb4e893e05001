"""A budget: what a calibrator may cost on a board, and what it does cost there, exported and counted.

Limits the candidates of `scare train` (`training.budget`) and of `scare tune` (`experiments.tuning`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scare.board.boards import board
from scare.board.measure import measure_once
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.cost import COST_UNITS
from scare.errors import UsageError
from scare.export.lowering import Arithmetic, compile_calibrator

Cost = Mapping[str, int]  # by the names in COST_UNITS


@dataclass(frozen=True)
class BoardBudget:
    """Limits on a board: instructions of one inference (None: no limit), and bytes of RAM and flash."""

    board: str
    arithmetic: str
    instructions: int | None
    ram_bytes: int
    flash_bytes: int

    @staticmethod
    def of(name: str, arithmetic: str, instructions: int | None, ram: int | None, flash: int | None) -> "BoardBudget":
        """Build the budget of a board by its name; without a memory limit, the board's own memory is the limit."""
        found = board(name)
        if reason := found.shortage(0, 0, arithmetic == Arithmetic.FIXED).get("int"):
            raise UsageError(f'{reason}; set budget.arithmetic = "float32"')
        if instructions is not None and "instructions" not in found.measures:
            raise UsageError(f"instructions are not counted on {name}; leave out the limit on instructions")
        return BoardBudget(name, arithmetic, instructions, ram or found.ram, flash or found.flash)

    @property
    def limits(self) -> dict[str, int]:
        """The limits by name, without those that are not set."""
        return {name: most for name in COST_UNITS if (most := getattr(self, name, None)) is not None}

    def __str__(self) -> str:
        """The board and the limits in words."""
        limits = ", ".join(f"{most:,} {COST_UNITS[name]}" for name, most in self.limits.items())
        return f"{self.board} (at most {limits})"

    def measure(self, calibrator: Calibrator) -> dict[str, int]:
        """Count the cost of a calibrator on the board; no instructions if they cannot be counted there."""
        report = measure_once(compile_calibrator(calibrator, self.arithmetic), board(self.board))
        counted = {"instructions": int(report.instructions["max"])} if report.instructions else {}
        return {**counted, "ram_bytes": report.ram_bytes, "flash_bytes": report.flash_bytes}

    def reasons(self, cost: Cost) -> list[str]:
        """Say why a cost is over the budget; empty when it is not.

        >>> BoardBudget.of("nano33ble", "fixed", 20_000, None, None).reasons(
        ...     {"instructions": 23_500, "ram_bytes": 2_300, "flash_bytes": 12_000}
        ... )
        ['23,500 instructions of 20,000']
        """
        over = {name: most for name, most in self.limits.items() if cost[name] > most}
        return [f"{cost[name]:,} {COST_UNITS[name]} of {most:,}" for name, most in over.items()]

    def share(self, cost: Cost) -> float:
        """The largest share of a limit that a cost takes, above 1 if it is over the budget.

        >>> BoardBudget.of("nano33ble", "fixed", None, None, 10_000).share({"ram_bytes": 2_600, "flash_bytes": 9_000})
        0.9
        """
        return max(cost[name] / most for name, most in self.limits.items())
