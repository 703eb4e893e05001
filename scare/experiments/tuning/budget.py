"""A budget on a board: what a candidate may take, and what it takes before it is trained.

A network with random weights (with `random_weights`) already has the RAM, flash and instructions of the trained one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from scare.board.boards import board
from scare.board.measure import measure
from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.fold import fold
from scare.calibrator.intervals import LEVEL, Intervals
from scare.calibrator.members import average
from scare.data.readings import Readings
from scare.errors import UsageError
from scare.experiments.random_weights import SAMPLES, draw_plan
from scare.export.package import export_calibrator
from scare.training.examples import make_examples
from scare.training.preparation import prepare_inputs
from scare.training.presets import Recipe
from scare.training.validity import scaled_rows
from scare.windowing.validity import fit_validity

UNITS = {"instructions": "instructions", "ram_bytes": "B of RAM", "flash_bytes": "B of flash"}
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
        """A budget on the board of this name; its own memory is the limit where none is given."""
        found = board(name)
        if instructions is not None and "instructions" not in found.measures:
            raise UsageError(f"instructions are not counted on {name}; leave out the limit of instructions")
        return Budget(name, arithmetic, instructions, ram or found.ram, flash or found.flash)

    @property
    def limits(self) -> dict[str, int]:
        """What is limited, and to how much."""
        return {name: most for name in UNITS if (most := getattr(self, name)) is not None}

    def __str__(self) -> str:
        """The limits in words."""
        return f"at most {', '.join(f'{most:,} {UNITS[name]}' for name, most in self.limits.items())}"

    def excess(self, cost: Cost) -> dict[str, tuple[int, int]]:
        """What is over the budget: need and limit of each."""
        return {name: (cost[name], most) for name, most in self.limits.items() if cost[name] > most}

    def reasons(self, cost: Cost) -> list[str]:
        """Why a cost is over the budget; empty when it is not.

        >>> Budget.of("nano33ble", "int8", 20_000, None, None).reasons(
        ...     {"instructions": 23_500, "ram_bytes": 2_300, "flash_bytes": 12_000}
        ... )
        ['23,500 instructions of 20,000']
        """
        over = self.excess(cost)
        return [f"{need:,} {UNITS[name]} of {most:,}" for name, (need, most) in over.items()]


def measure_cost(
    recipe: Recipe, train: Sequence[Readings], validation: Sequence[Readings], budget: Budget
) -> dict[str, int]:
    """Instructions of one inference (of a board that counts them), bytes of RAM and of flash, on the budget's board."""
    calibrator = draw_calibrator(recipe, train, validation)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        export_calibrator(calibrator, "c", budget.arithmetic, folder)
        report = measure(folder, board(budget.board), calibrator.golden.windows[:1])
    counted = {"instructions": int(report.instructions["max"])} if report.instructions else {}
    return {**counted, "ram_bytes": report.ram_bytes, "flash_bytes": report.flash_bytes}


def draw_calibrator(recipe: Recipe, train: Sequence[Readings], validation: Sequence[Readings]) -> Calibrator:
    """A calibrator of a recipe with random weights, scaled for these readings."""
    inputs, target = prepare_inputs(train, validation, recipe)
    held = make_examples(validation, inputs)
    windows = held.windows(held.spread(SAMPLES))
    draws = [np.random.default_rng(member) for member in range(recipe.settings.members)]
    plans = [draw_plan(recipe, len(inputs.channels), member, draw) for member, draw in enumerate(draws)]
    sample = Sample(windows, np.zeros(len(windows)))
    inputs = replace(inputs, validity=fit_validity(scaled_rows(train, inputs), inputs.window))
    plan, sure = fold(average(plans)).astype(np.float32), Intervals(LEVEL, (), (0.0,), (0.0,))
    return Calibrator(plan, inputs, target, sample, sample, intervals=sure)
