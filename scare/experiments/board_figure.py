"""The paper's figure on the board: latency and size of every model over the window length, in float32 and int8.

Models are untrained: training changes values, not sizes. In int8 it moves counts a little (benchmarks/board.md).
"""

from functools import cache, partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import equinox as eqx
import jax
import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.fold import fold
from scare.data.quality import QualitySettings
from scare.data.readings import Channel
from scare.device.boards import board
from scare.device.measure import measure
from scare.device.trials import trial_windows
from scare.errors import NotApplicableError
from scare.experiments.contenders import recipe_of
from scare.experiments.protocol import Protocol
from scare.experiments.reproduction import Reproduction, Told
from scare.experiments.result import Result, Table
from scare.export.arithmetic import Arithmetic
from scare.export.package import export_c
from scare.windowing.feeding import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.slicing import RECENT

COLUMNS = {
    "contender": "model",
    "window": "N",
    "arithmetic": "arithmetic",
    "milliseconds": "ms (estimate)",
    "instructions": "instructions, most",
    "model_bytes": "weights [B]",
    "flash_bytes": "flash [B]",
    "ram_bytes": "RAM [B]",
    "why_not": "does not run because",
}
FACTS = ("milliseconds", "instructions", "model_bytes", "flash_bytes", "ram_bytes")
KINDS = 200  # windows among which are some of every kind
SIZE = 16  # windows in an untrained calibrator's file


def make_board(reproduction: Reproduction, told: Told) -> Result:
    """Every model, window and arithmetic on the virtual board; what does not run says why."""
    protocol, rows = reproduction.protocol, []
    grid = list(product(protocol.board, protocol.board_windows, Arithmetic))
    for done, (name, window, arithmetic) in enumerate(grid, start=1):
        key = f"board-{protocol.board_name}-{name}-w{window}-{arithmetic}-{protocol.board_trials}"
        rows.append(reproduction.remember(key, partial(_row, name, window, arithmetic, protocol)))
        told(done, len(grid), f"{name}, N = {window}, {arithmetic}")
    chosen = board(protocol.board_name)
    notes = [
        f"A virtual {chosen.title}, {chosen.chip} at {chosen.clock_hz / 1e6:g} MHz: instructions and bytes are counted,"
        " milliseconds are estimates, never checked on hardware. Weights are random.",
        "The paper gives a figure without numbers; it ran TFLite-Micro, ours is generated C.",
    ]
    table = Table("board", f"On the {chosen.title}", COLUMNS, rows)
    return Result("board", "Figure: latency and size on the board", (table,), notes)


def _row(name: str, window: int, arithmetic: Arithmetic, protocol: Protocol) -> dict[str, Any]:
    place = {"contender": name, "window": window, "arithmetic": str(arithmetic), **dict.fromkeys(FACTS)}
    chosen = board(protocol.board_name)
    try:
        calibrator = untrained(name, window)
        with TemporaryDirectory() as scratch:
            model = export_c(calibrator, arithmetic, Path(scratch) / "model").model
            count = protocol.board_trials if model.memory_bytes <= chosen.ram else 1
            report = measure(Path(scratch) / "model", chosen, _trials(calibrator, count))
    except NotApplicableError as error:
        return {**place, "why_not": str(error)}
    time, counted = report.milliseconds, report.instructions
    return {
        **place,
        "milliseconds": time.typical if time else None,
        "instructions": counted["max"] if counted else None,
        "model_bytes": calibrator.cost().weight_bytes if arithmetic is Arithmetic.FLOAT32 else None,
        "flash_bytes": report.flash_bytes,
        "ram_bytes": report.ram_bytes,
        "why_not": "; ".join(report.reasons),
    }


def _trials(calibrator: Calibrator, count: int) -> np.ndarray:
    """So many scaled windows [n, N, C] of all kinds: strange ones, from its file, random."""
    trials = trial_windows(calibrator, max(count, KINDS))
    return trials[np.linspace(0, len(trials) - 1, count).astype(int)]


@cache
def untrained(name: str, window: int) -> Calibrator:
    """A network of one channel as it is built; zeros become numbers about 2, as a trained hash's bandwidth is."""
    draw = np.random.default_rng(0)

    def fill(leaf: Any) -> Any:
        return np.where(leaf == 0, draw.uniform(1.5, 2.5, leaf.shape), leaf) if eqx.is_inexact_array(leaf) else leaf

    network = recipe_of(name, window, 0, {}).model.build(window, 1, jax.random.key(0))
    plan = fold(jax.tree.map(fill, network).plan()).astype(np.float32)
    scale = Affine(np.array([20.0]), np.array([10.0]))
    channels, scaling = (Channel("pm25", "ug/m3", 0.0, 1000.0),), Scaling("standard", scale, scale)
    inputs = Inputs(channels, scaling, 60.0, window, RECENT, QualitySettings())
    sample = Sample(draw.normal(size=(SIZE, window, 1)).astype(np.float32), np.zeros(SIZE))
    return Calibrator(plan, inputs, Channel("reference", "ug/m3"), sample, sample)
