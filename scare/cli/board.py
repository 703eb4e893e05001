"""`scare board`: run a calibrator on a virtual microcontroller and measure memory and instructions."""

from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from scare.board import boards
from scare.board.build import OPTIMISATION, USUAL, find_compiler, read_export
from scare.board.measure import Report, example_answers, measure
from scare.board.vectors import board_windows
from scare.board.virtual import VirtualModel
from scare.cli.console import emit, note, progress, show_table
from scare.cli.options import ArithmeticName, Json, ModelFile, open_calibrator
from scare.errors import ExitCode
from scare.export.lowering import Arithmetic
from scare.export.package import export_calibrator

app = typer.Typer(help="Run a calibrator on a virtual microcontroller.", no_args_is_help=True)


@app.command()
def run(
    model: ModelFile,
    arithmetic: ArithmeticName = Arithmetic.FLOAT32,
    board: Annotated[str, typer.Option("--board", help="Board name (scare board list).")] = "nano33ble",
    windows: Annotated[int, typer.Option("--windows", min=1, help="Number of windows to run.")] = 1000,
    compiler: Annotated[str, typer.Option("--compiler", help=f"{', '.join(OPTIMISATION)} (if installed).")] = USUAL,
    as_json: Json = False,
) -> None:
    """Build the calibrator's C for a board, run it on a virtual one, and measure whether it fits.

    Instructions, memory and values are measured; cycles, time and energy are estimates.

    Examples:
      scare board run no2.scare
      scare board run no2.scare --arithmetic fixed --board stm32f4 --json
    """
    target_board, calibrator = boards.board(board), open_calibrator(model)
    find_compiler(compiler, target_board)
    trials = board_windows(calibrator, windows)
    with TemporaryDirectory() as scratch, progress("running", "what") as (bar, task):
        folder = Path(scratch) / "model"
        export_calibrator(calibrator, "c", arithmetic, folder)
        bar.update(task, total=len(trials), what=f"{len(trials):,} windows on {target_board.title}")
        report = measure(folder, target_board, trials, lambda: bar.advance(task), compiler)
        examples = []
        if len(calibrator.golden.windows):
            examples = example_answers(
                VirtualModel(read_export(folder), target_board, compiler), calibrator.golden.windows[-1]
            )
    if as_json:
        plain_examples = []
        for example in examples:
            numbers = {"value": example.value, "low": example.low, "high": example.high}
            known = {name: number if isfinite(number) else None for name, number in numbers.items()}
            plain_examples.append({"reading": list(example.reading), **known, "flags": list(example.flags)})
        emit({"arithmetic": str(arithmetic), **report.as_dict(), "examples": plain_examples})
    else:
        _show(report, arithmetic)
        heading = (*(channel.name for channel in calibrator.inputs.channels), "calibrated", "low", "high", "flags")
        rows = []
        for example in examples:
            cells = [f"{number:.5g}" for number in (*example.reading, example.value, example.low, example.high)]
            rows.append((*cells, " ".join(example.flags) or "none"))
        show_table("examples: within the training range, and far outside", heading, rows)
    for reason in report.reasons:
        note(f"Does not fit: {reason}")
    if not report.fits:
        raise typer.Exit(ExitCode.DOES_NOT_FIT)


@app.command(name="list")
def list_boards(as_json: Json = False) -> None:
    """List the boards.

    Examples:
      scare board list
    """
    known = boards.boards().values()
    if as_json:
        names = ("name", "title", "chip", "clock_hz", "ram", "flash", "measures")
        emit({"boards": [{name: getattr(board, name) for name in names} for board in known]})
        return
    rows = [
        (
            board.name,
            board.title,
            board.chip,
            f"{board.clock_hz / 1e6:g}",
            f"{board.ram:,}",
            f"{board.flash:,}",
            ", ".join([*board.measures, "memory"]),
        )
        for board in known
    ]
    show_table("boards", ("name", "board", "core", "MHz", "RAM [B]", "flash [B]", "measured"), rows)


def _show(report: Report, arithmetic: str) -> None:
    """Print the report as a table, without rows for what this board cannot measure."""
    board = report.board
    rows = list[tuple[str, str]]()
    run, push = report.instructions, report.push_instructions
    if run and push:
        gap = push["row_after_gap"] - push["row"]
        rows += [
            ("instructions per value", f"{run['mean']:,.0f} ({run['min']:,} to {run['max']:,})"),
            ("of them to take the reading", f"{push['row']:,}, plus {gap:,} if a row before it is missing"),
        ]
    cycles, time = report.cycles, report.milliseconds
    if cycles and time:
        rows += [
            ("cycles, estimate", f"{cycles.typical:,.0f} ({cycles.low:,.0f} to {cycles.high:,.0f})"),
            (
                f"ms at {board.clock_hz / 1e6:g} MHz, estimate",
                f"{time.typical:.3g} ({time.low:.3g} to {time.high:.3g})",
            ),
        ]
    if report.microjoules is not None:
        label = f"µJ at {board.current_ma:g} mA and {board.voltage:g} V, estimate"
        rows.append((label, f"{report.microjoules:.3g}"))
    if report.battery_share is not None:
        rows.append(("share of two AA cells that it takes in a year, estimate", f"{100 * report.battery_share:.2g} %"))
    if report.duty_cycle is not None:
        label = f"share of time busy, at one value every {report.step_ms / 1e3:g} s, estimate"
        rows.append((label, f"{report.duty_cycle:.2g}"))
    rows += [
        ("RAM [B]", f"{report.ram_bytes:,} of {board.ram:,}, {report.stack_bytes:,} of it stack"),
        ("flash [B]", f"{report.flash_bytes:,} of {board.flash:,}"),
        ("fits", "yes" if report.fits else "no"),
    ]
    show_table(f"{board.title}, {board.chip}: {arithmetic}, {len(report.runs.outputs):,} windows", ("", ""), rows)
