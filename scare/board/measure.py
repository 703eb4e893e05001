"""What an exported model takes on a board, in one call.

    report = measure(folder, board("nano33ble"), windows)       # a folder of `scare export c`, scaled windows [n, N, C]

For a kernel alone, without a model (exact instruction counts and stack, any function of any C file):

    firmware = link([Path("kernel.c")], board("nano33ble"), [Path("runtime/src")], keep=["kernel"])  # of firmware.py
    machine = Machine(firmware)                                 # of emulator.py
    machine.write(OUTSIDE + 0x1000, numbers)                    # OUTSIDE: a megabyte beside the chip's own memory
    trace = machine.call("kernel", OUTSIDE + 0x1000, 360, 0.5)  # ints and floats as C passes them
    trace.instructions, trace.stack_bytes, CycleModel(machine).estimate(trace), machine.float_result
    machine.profile(trace)                                      # instructions by function

Instructions, sizes and values are exact and the same on every computer. Cycles, and what is made from them (time,
energy, duty cycle), are estimates. RAM is what a program needs that uses the model and nothing else: the memory it
gives to `scare_init`, the `scare` itself, and the deepest stack of `scare_calibrate`, `run` included.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from scare.board.boards import Board
from scare.board.exports import read_export
from scare.board.virtual import Cycles, PushCost, Runs, VirtualModel
from scare.export.compiled import Compiled
from scare.export.package import TARGETS, write_package

WIDE = 32  # bits of an int that the integer kernels count on
ESTIMATES = ("cycles", "milliseconds", "energy_microjoules", "duty_cycle")


@dataclass(frozen=True)
class Report:
    """What a model takes; what cannot be told of the board is None."""

    board: Board
    flash_bytes: int
    static_bytes: int
    step_ms: int
    runs: Runs
    pushes: PushCost
    integer: bool = False

    @property
    def stack_bytes(self) -> int:
        """The deepest stack: of a push with `run`, on the window that goes deepest."""
        return self.pushes.stack_bytes + max(0, int(self.runs.stack_bytes.max()) - self.pushes.run_stack_bytes)

    @property
    def ram_bytes(self) -> int:
        """All memory that is not flash."""
        return self.static_bytes + self.stack_bytes

    @property
    def instructions(self) -> dict[str, float] | None:
        """Of one `run`: mean, min and max over the windows."""
        counts = self.runs.instructions
        spread = {"mean": float(counts.mean()), "min": int(counts.min()), "max": int(counts.max())}
        return spread if "instructions" in self.board.measures else None

    @property
    def push_instructions(self) -> dict[str, int] | None:
        """Of one `scare_calibrate` without `run`: of a row, and of one that comes after a missing row."""
        spread = {"row": self.pushes.instructions, "row_after_gap": self.pushes.gap_instructions}
        return spread if "instructions" in self.board.measures else None

    @property
    def cycles(self) -> Cycles | None:
        """An estimate for one `run`, the mean over the windows."""
        mean = Cycles(*self.runs.cycles.mean(axis=0).tolist())
        return mean if "cycles" in self.board.measures else None

    @property
    def milliseconds(self) -> Cycles | None:
        """An estimate of the time of one `run`."""
        return Cycles(*(count / self.board.clock_hz * 1e3 for count in self.cycles)) if self.cycles else None

    @property
    def microjoules(self) -> float | None:
        """An estimate of the energy of one `run`, at the chip's current while it computes."""
        watts = self.board.current_ma / 1e3 * self.board.voltage
        return watts * self.milliseconds.typical * 1e3 if self.milliseconds and watts else None

    @property
    def duty_cycle(self) -> float | None:
        """An estimate of the share of time that one reading, taken and calibrated, keeps the chip busy."""
        if self.cycles is None:
            return None
        return (self.cycles.typical + self.pushes.cycles.typical) / self.board.clock_hz / (self.step_ms / 1e3)

    @property
    def needs_wide_int(self) -> bool:
        """Whether its kernels count on an int that the board does not have."""
        return self.integer and self.board.int_bits < WIDE

    @property
    def reasons(self) -> list[str]:
        """Why the board cannot hold it; empty when it can."""
        needs = (("RAM", self.ram_bytes, self.board.ram), ("flash", self.flash_bytes, self.board.flash))
        if self.needs_wide_int:
            return [f"fixed point needs an int of {WIDE} bits; {self.board.name} has {self.board.int_bits}"]
        return [
            f"needs {need:,} B of {what}; {self.board.name} has {has:,} B" for what, need, has in needs if need > has
        ]

    @property
    def fits(self) -> bool:
        """Whether the board can hold it."""
        return not self.reasons

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON; `estimates` names what was not measured."""
        return {
            "board": self.board.name,
            "windows": len(self.runs.outputs),
            "instructions": self.instructions,
            "push_instructions": self.push_instructions,
            "cycles": self.cycles and self.cycles._asdict(),
            "milliseconds": self.milliseconds and self.milliseconds._asdict(),
            "ram_bytes": self.ram_bytes,
            "static_bytes": self.static_bytes,
            "stack_bytes": self.stack_bytes,
            "run_stack_bytes": int(self.runs.stack_bytes.max()),
            "flash_bytes": self.flash_bytes,
            "energy_microjoules": self.microjoules,
            "duty_cycle": self.duty_cycle,
            "estimates": list(ESTIMATES),
            "fits": self.fits,
            "reasons": self.reasons,
        }


def measure(folder: Path, board: Board, windows: np.ndarray, advance: Callable[[], object] = lambda: None) -> Report:
    """What the model in a folder takes on a board, over scaled windows [n, window, channels].

    One that does not fit is measured all the same.
    """
    model = VirtualModel(read_export(folder), board)
    image = model.firmware.image
    static = image.static_bytes + (image.constant_bytes if board.constants_in_ram else 0)
    runs, integer = model.run(windows, advance), bool(model.facts.integer)
    return Report(board, image.flash_bytes, static, model.facts.step_ms, runs, model.push(), integer)


def measure_once(compiled: Compiled, board: Board) -> Report:
    """What a calibrator takes on a board, seen on one window."""
    with TemporaryDirectory() as scratch:
        folder = write_package(TARGETS["c"], compiled, Path(scratch) / "model").folder
        return measure(folder, board, compiled.calibrator.golden.windows[:1])
