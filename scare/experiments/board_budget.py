"""What a model takes on a board before it is trained: a budget for tuning, and the largest window that fits.

A network with random weights (`random_weights`) already has the RAM, the flash and, nearly, the instructions of the
trained one. Goes to `tuning` and to `scare export`, which suggests a shorter window for a board that is too small.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from scare.board.boards import Board, board
from scare.board.measure import measure, measure_once
from scare.calibrator.calibrator import Calibrator, Sample
from scare.data.readings import Readings
from scare.errors import UsageError
from scare.experiments.random_weights import SAMPLES, draw_calibrator, draw_ensemble
from scare.export.compiled import compile_calibrator
from scare.export.package import export_calibrator
from scare.scorecard.growth import model_of
from scare.training.recipe import Recipe

UNITS = {"instructions": "instructions", "ram_bytes": "B of RAM", "flash_bytes": "B of flash"}
SHORTEST = 4  # readings, of any recipe
Cost = Mapping[str, int]


@dataclass(frozen=True)
class Budget:
    """The most that one inference, the memory and the program may take on a board; None: not limited."""

    board: str
    arithmetic: str
    instructions: int | None
    ram_bytes: int
    flash_bytes: int

    @staticmethod
    def of(name: str, arithmetic: str, instructions: int | None, ram: int | None, flash: int | None) -> "Budget":
        """Build the budget of a board by its name; where no memory limit is given, the board's own memory is it."""
        found = board(name)
        if instructions is not None and "instructions" not in found.measures:
            raise UsageError(f"instructions are not counted on {name}; leave out the limit of instructions")
        return Budget(name, arithmetic, instructions, ram or found.ram, flash or found.flash)

    @property
    def limits(self) -> dict[str, int]:
        """The limits by name, without those that are not set."""
        return {name: most for name in UNITS if (most := getattr(self, name)) is not None}

    def __str__(self) -> str:
        """The limits in words."""
        return f"at most {', '.join(f'{most:,} {UNITS[name]}' for name, most in self.limits.items())}"

    def excess(self, cost: Cost) -> dict[str, tuple[int, int]]:
        """Need and limit of everything that is over the budget."""
        return {name: (cost[name], most) for name, most in self.limits.items() if cost[name] > most}

    def reasons(self, cost: Cost) -> list[str]:
        """Why a cost is over the budget; empty when it is not.

        >>> Budget.of("nano33ble", "fixed", 20_000, None, None).reasons(
        ...     {"instructions": 23_500, "ram_bytes": 2_300, "flash_bytes": 12_000}
        ... )
        ['23,500 instructions of 20,000']
        """
        over = self.excess(cost)
        return [f"{need:,} {UNITS[name]} of {most:,}" for name, (need, most) in over.items()]


def measure_cost(
    recipe: Recipe, train: Sequence[Readings], validation: Sequence[Readings], budget: Budget
) -> dict[str, int]:
    """Instructions of one inference (if the board counts them), bytes of RAM and of flash on the budget's board."""
    calibrator = draw_calibrator(recipe, train, validation)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        export_calibrator(calibrator, "c", budget.arithmetic, folder)
        report = measure(folder, board(budget.board), calibrator.golden.windows[:1])
    counted = {"instructions": int(report.instructions["max"])} if report.instructions else {}
    return {**counted, "ram_bytes": report.ram_bytes, "flash_bytes": report.flash_bytes}


def largest_window(
    calibrator: Calibrator, arithmetic: str, board: Board, advance: Callable[[], object] = lambda: None
) -> int | None:
    """Readings in the largest shorter window that fits a board; 0 if none does, None if the model is not ours.

    Every window that is tried is built with random weights and measured; `advance` is called before each.
    """
    model = model_of(calibrator)
    if model is None:
        return None
    channels = calibrator.plan.channels
    members = int(calibrator.facts.get("settings", {}).get("members", 1))

    def fits(window: int) -> bool:
        advance()
        plan = draw_ensemble(Recipe(model=model, window=window), channels, members)
        windows = np.random.default_rng(0).normal(size=(SAMPLES, window, channels)).astype(np.float32)
        sample, inputs = Sample(windows, np.zeros(SAMPLES)), replace(calibrator.inputs, window=window)
        drawn = Calibrator(plan, inputs, calibrator.target, sample, sample)
        return measure_once(compile_calibrator(drawn, arithmetic), board).fits

    return largest(fits, SHORTEST, calibrator.window - 1)


def largest(fits: Callable[[int], bool], least: int, most: int) -> int:
    """The largest number from `least` to `most` that fits, by bisection; 0 if none does.

    >>> largest(lambda window: 3 * window <= 100, 4, 60), largest(lambda window: False, 4, 60)
    (33, 0)
    """
    if most < least or not fits(least):  # tried first: often nothing fits, and each trial takes seconds
        return 0
    best, least = least, least + 1
    while least <= most:
        middle = (least + most) // 2
        if fits(middle):
            best, least = middle, middle + 1
        else:
            most = middle - 1
    return best
