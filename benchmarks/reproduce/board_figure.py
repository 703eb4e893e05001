"""The paper's figure on the board: latency and size of every model, by window length and arithmetic; random weights."""

from functools import cache, partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.reproduce.protocol import Protocol
from benchmarks.reproduce.run import Reproduction
from benchmarks.reproduce.tables import ExperimentResult, ResultTable
from scare.board.boards import board
from scare.board.measure import measure
from scare.errors import NotApplicableError, UsageError
from scare.experiments.study import Progress
from scare.experiments.task import upgrade_row
from scare.experiments.untrained import draw_method
from scare.export.compiled import compile_calibrator
from scare.export.lowering import Arithmetic
from scare.export.package import export_calibrator
from scare.export.tflite import make_flatbuffer
from scare.extras import require
from scare.scorecard.scoring import board_trials

TFLITE = "tflite"
COLUMNS = {
    "method": "model",
    "window": "N",
    "arithmetic": "arithmetic",
    "milliseconds": "ms (estimate)",
    "instructions": "instructions, most",
    "model_bytes": "weights [B]",
    "flash_bytes": "flash [B]",
    "ram_bytes": "RAM [B]",
    "flatbuffer_bytes": "FlatBuffer [B]",
    "why_not": "does not run because",
    "why_no_flatbuffer": "no FlatBuffer because",
}
FACTS = ("milliseconds", "instructions", "model_bytes", "flash_bytes", "ram_bytes", "flatbuffer_bytes")


def make_board(reproduction: Reproduction, progress: Progress) -> ExperimentResult:
    """Run every model, window and arithmetic on the virtual board; rows that do not run have a reason."""
    protocol, rows = reproduction.protocol, []
    grid = list(product(protocol.board, protocol.board_windows, Arithmetic))
    for done, (name, window, arithmetic) in enumerate(grid, start=1):
        key = f"board-{protocol.board_name}-{name}-w{window}-{arithmetic}-{protocol.figure_trials}"
        row = upgrade_row(reproduction.remember(key, partial(_row, name, window, arithmetic, protocol)))
        if not _refusal():
            row |= reproduction.remember(
                f"flatbuffer-{name}-w{window}-{arithmetic}", partial(_size, name, window, arithmetic)
            )
        rows.append(row)
        progress(done, len(grid), f"{name}, N = {window}, {arithmetic}")
    chosen = board(protocol.board_name)
    origin = [
        f"A virtual {chosen.title}, {chosen.chip} at {chosen.clock_hz / 1e6:g} MHz: instructions and bytes are counted,"
        " milliseconds are estimates, means over the windows, never checked on hardware. Weights are random, and no"
        " reading is used.",
    ]
    notes = [
        f"Windows run of each model: {protocol.figure_trials:,}, of all kinds, both branches; one if it does not fit.",
        "The paper gives a figure without numbers; it ran TFLite-Micro, ours is generated C. The FlatBuffer is the file"
        " of `scare export tflite`, without the interpreter that runs it.",
    ]
    if _refusal():
        notes.append(f"FlatBuffers were not made: {_refusal()}.")
    table = ResultTable("board", f"On the {chosen.title}", COLUMNS, rows)
    return ExperimentResult("board", "Figure: latency and size on the board", (table,), notes, origin=origin)


def _row(name: str, window: int, arithmetic: Arithmetic, protocol: Protocol) -> dict[str, Any]:
    place = {"method": name, "window": window, "arithmetic": str(arithmetic), **dict.fromkeys(FACTS)}
    chosen = board(protocol.board_name)
    try:
        calibrator = draw_method(name, window)
        with TemporaryDirectory() as scratch:
            model = export_calibrator(calibrator, "c", arithmetic, Path(scratch) / "model").compiled.c_model
            count = protocol.figure_trials if model.memory_bytes <= chosen.ram else 1
            report = measure(Path(scratch) / "model", chosen, board_trials(calibrator, count))
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


def _size(name: str, window: int, arithmetic: Arithmetic) -> dict[str, Any]:
    """Bytes of the FlatBuffer, or why there is none."""
    try:
        made = make_flatbuffer(compile_calibrator(draw_method(name, window), arithmetic))
    except NotApplicableError as error:
        return {"flatbuffer_bytes": None, "why_no_flatbuffer": str(error)}
    return {"flatbuffer_bytes": len(made.content)}


@cache
def _refusal() -> str:
    """Why no FlatBuffer can be made here; empty if it can."""
    try:
        require(TFLITE)
    except UsageError as error:
        return str(error)
    return ""
