"""Measure an exported model on a board: instructions, memory, cycles, and whether it fits.

    report = measure(folder, board("nano33ble"), windows)       # a folder of `scare export c`, scaled windows [n, N, C]

A single C function, without a model (exact instruction counts and stack):

    firmware = link([Path("kernel.c")], board("nano33ble"), [Path("runtime/src")], keep=["kernel"])  # build.py
    machine = Machine(firmware)                                 # virtual.py
    machine.write(OUTSIDE + 0x1000, numbers)                    # OUTSIDE: a megabyte of memory that no chip has
    trace = machine.call("kernel", OUTSIDE + 0x1000, 360, 0.5)  # ints and floats, passed as in C
    trace.instructions, trace.stack_bytes, CycleModel(machine).estimate(trace), machine.result

Instructions, sizes and values are exact and the same on every computer. Cycles and what follows from them (time,
energy, battery, duty cycle) are estimates. Both are those of one calibrated value: the whole `scare_calibrate`, which
takes the reading and runs the model. RAM is what a program needs that uses the model and nothing else: the memory for
`scare_init`, the `scare` itself, and the deepest stack. A `BoardBudget` limits the cost of the candidates of
`scare train` (`training.budget`) and of `scare tune` (`experiments.tuning`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from scare.board.boards import Board, board
from scare.board.build import USUAL, read_export
from scare.board.host import ANSWER_TYPE
from scare.board.virtual import Cycles, PushCost, Runs, VirtualModel
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.cost import COST_UNITS
from scare.data.flags import Flag
from scare.errors import UsageError
from scare.export.lowering import Arithmetic, Compiled, compile_calibrator
from scare.export.package import write_package
from scare.export.targets import TARGETS

BEYOND = 5.0  # times the largest value of a window's first channel: an example beyond training
ESTIMATES = ("cycles", "milliseconds", "energy_microjoules", "battery_share", "duty_cycle")
YEAR_SECONDS = 365 * 86_400
BATTERY_JOULES = 27_000  # of two alkaline AA cells: 2 x 1.5 V x 2.5 Ah


@dataclass(frozen=True)
class Report:
    """Cost of a model on a board; a cost that cannot be measured for this board is None."""

    board: Board
    flash_bytes: int
    static_bytes: int  # variables, and constants if the board keeps them in RAM
    step_ms: int  # from one reading to the next
    runs: Runs
    pushes: PushCost
    integer: bool = False  # the model is in fixed point

    @property
    def stack_bytes(self) -> int:
        """Deepest stack of `scare_calibrate` with `run`, over all windows."""
        # `pushes` measured one `run`; another window may need a deeper stack.
        deeper = max(0, int(self.runs.stack_bytes.max()) - self.pushes.run_stack_bytes)
        return self.pushes.stack_bytes + deeper

    @property
    def ram_bytes(self) -> int:
        """RAM in use: variables and stack."""
        return self.static_bytes + self.stack_bytes

    @property
    def instructions(self) -> dict[str, float] | None:
        """Instructions for one value, including those that take its reading: mean, minimum and maximum over windows."""
        if "instructions" not in self.board.measures:
            return None
        counts = self.runs.instructions + self.pushes.instructions
        return {"mean": float(counts.mean()), "min": int(counts.min()), "max": int(counts.max())}

    @property
    def push_instructions(self) -> dict[str, int] | None:
        """Instructions of `scare_calibrate` without `run`: for a reading on time, and after a missing row."""
        if "instructions" not in self.board.measures:
            return None
        return {"row": self.pushes.instructions, "row_after_gap": self.pushes.gap_instructions}

    @property
    def cycles(self) -> Cycles | None:
        """Estimated cycles for one value, including those that take its reading: mean over the windows."""
        if "cycles" not in self.board.measures:
            return None
        return Cycles(*self.runs.cycles.mean(axis=0).tolist()).plus(self.pushes.cycles)

    @property
    def milliseconds(self) -> Cycles | None:
        """Estimated time of one value."""
        return Cycles(*(count / self.board.clock_hz * 1e3 for count in self.cycles)) if self.cycles else None

    @property
    def microjoules(self) -> float | None:
        """Estimated energy of one value, from the chip's current while it computes."""
        watts = self.board.current_ma / 1e3 * self.board.voltage  # 0 if the current is not known
        return watts * self.milliseconds.typical * 1e3 if self.milliseconds and watts else None

    @property
    def battery_share(self) -> float | None:
        """Estimated share of two AA cells that calibrating takes in a year."""
        if self.microjoules is None:
            return None
        return self.microjoules / 1e6 * YEAR_SECONDS / (self.step_ms / 1e3) / BATTERY_JOULES

    @property
    def duty_cycle(self) -> float | None:
        """Estimated share of time that the chip spends on calibrating."""
        if self.cycles is None:
            return None
        return self.cycles.typical / self.board.clock_hz / (self.step_ms / 1e3)

    @property
    def shortage(self) -> dict[str, str]:
        """What the board has too little of, with the reason (`Board.shortage`)."""
        return self.board.shortage(self.ram_bytes, self.flash_bytes, self.integer)

    @property
    def needs_wide_int(self) -> bool:
        """Whether the fixed-point kernels need a wider int than the board's compiler has."""
        return "int" in self.shortage

    @property
    def reasons(self) -> list[str]:
        """Why the model does not fit the board; empty if it does. Memory is not mentioned if int is too small."""
        short = self.shortage
        return [short["int"]] if "int" in short else [*short.values()]

    @property
    def fits(self) -> bool:
        """Whether the model fits the board."""
        return not self.reasons

    def as_dict(self) -> dict[str, Any]:
        """Convert to JSON types; `estimates` names the numbers that are not measured."""
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
            "battery_share": self.battery_share,
            "duty_cycle": self.duty_cycle,
            "estimates": list(ESTIMATES),
            "fits": self.fits,
            "reasons": self.reasons,
        }


@dataclass(frozen=True)
class Example:
    """A reading [channels] and the board's answer to it; NaN if it got no value."""

    reading: tuple[float, ...]
    value: float
    low: float
    high: float
    flags: tuple[str, ...]


def measure(
    folder: Path,
    board: Board,
    windows: np.ndarray,
    advance: Callable[[], object] = lambda: None,
    compiler: str = USUAL,
) -> Report:
    """Measure an exported model on a board over scaled windows [n, window, channels], whether it fits or not.

    `advance` is called after each window; `compiler` is a name in `OPTIMISATION` of build.py.
    """
    model = VirtualModel(read_export(folder), board, compiler)
    image = model.firmware.image
    static = image.static_bytes + (image.constant_bytes if board.constants_in_ram else 0)
    runs, integer = model.run(windows, advance), bool(model.facts.stride)
    return Report(board, image.flash_bytes, static, model.facts.step_ms, runs, model.push(), integer)


def measure_once(compiled: Compiled, board: Board) -> Report:
    """Measure a compiled calibrator on a board with one window."""
    with TemporaryDirectory() as scratch:
        folder = write_package(TARGETS["c"], compiled, Path(scratch) / "model").folder
        return measure(folder, board, compiled.calibrator.golden.windows[:1])


def example_answers(model: VirtualModel, window: np.ndarray) -> list[Example]:
    """Push a scaled window [window, channels], then a reading beyond training, and return the last two answers."""
    columns = []  # the window as readings in physical units
    for channel, scaled in zip(model.channels, window.T, strict=True):
        # `rest` is what float32 has cut off the center.
        readings = channel.center + channel.rest + scaled.astype(np.float64) / channel.inverse
        columns.append(readings.clip(channel.valid.low, channel.valid.high).astype(np.float32))
    rows = np.stack(columns, axis=1)  # [window, channels]
    beyond = rows[-1].copy()
    beyond[0] = min(BEYOND * rows[:, 0].max(), model.channels[0].valid.high)
    examples = []
    model.restart()
    for index, row in enumerate([*rows, beyond]):
        _, answer = model.take(index * model.facts.step_ms, row)
        value, low, high, flags = np.frombuffer(answer, ANSWER_TYPE)[0].tolist()
        names = tuple(str(flag.name) for flag in Flag if flag & flags)
        examples.append(Example(tuple(row.tolist()), value, low, high, names))
    return examples[-2:]


Cost = Mapping[str, int]  # by the names in COST_UNITS


@dataclass(frozen=True)
class BoardBudget:
    """Limits on a board: instructions for one value, its reading included (None: no limit), bytes of RAM and flash."""

    board: str
    arithmetic: str
    instructions: int | None
    ram_bytes: int
    flash_bytes: int

    @staticmethod
    def of(name: str, arithmetic: str, instructions: int | None, ram: int | None, flash: int | None) -> "BoardBudget":
        """Build the budget of a board by its name; without a memory limit, the board's own memory is the limit."""
        limited = board(name)
        # Without any memory to fit, only an int that is too narrow for fixed point can be short.
        if reason := limited.shortage(0, 0, arithmetic == Arithmetic.FIXED).get("int"):
            raise UsageError(f'{reason}; set budget.arithmetic = "float32"')
        if instructions is not None and "instructions" not in limited.measures:
            raise UsageError(f"instructions are not counted on {name}; leave out the limit on instructions")
        return BoardBudget(name, arithmetic, instructions, ram or limited.ram, flash or limited.flash)

    @property
    def limits(self) -> dict[str, int]:
        """The limits by name, without those that are not set."""
        return {name: limit for name in COST_UNITS if (limit := getattr(self, name, None)) is not None}

    def __str__(self) -> str:
        """Return the board and the limits in words."""
        limits = ", ".join(f"{limit:,} {COST_UNITS[name]}" for name, limit in self.limits.items())
        return f"{self.board} (at most {limits})"

    def measure(self, calibrator: Calibrator) -> dict[str, int]:
        """Count the cost of a calibrator on the board; no instructions if they cannot be counted there."""
        report = measure_once(compile_calibrator(calibrator, self.arithmetic), board(self.board))
        counted = {"instructions": int(report.instructions["max"])} if report.instructions else {}
        return {**counted, "ram_bytes": report.ram_bytes, "flash_bytes": report.flash_bytes}

    def reasons(self, cost: Cost) -> list[str]:
        """Return which limits of the budget a cost exceeds, in words; empty if none.

        >>> BoardBudget.of("nano33ble", "fixed", 20_000, None, None).reasons(
        ...     {"instructions": 23_500, "ram_bytes": 2_300, "flash_bytes": 12_000}
        ... )
        ['23,500 instructions of 20,000']
        """
        return [
            f"{cost[name]:,} {COST_UNITS[name]} of {limit:,}"
            for name, limit in self.limits.items()
            if cost[name] > limit
        ]

    def share(self, cost: Cost) -> float:
        """Return the largest share of a limit that a cost takes, above 1 if it is over the budget.

        >>> BoardBudget.of("nano33ble", "fixed", None, None, 10_000).share({"ram_bytes": 2_600, "flash_bytes": 9_000})
        0.9
        """
        return max(cost[name] / limit for name, limit in self.limits.items())
