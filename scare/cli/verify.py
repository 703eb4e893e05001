"""`scare verify`: proof that a calibrator computes the same in Python, in C and on a board."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from scare.board import boards
from scare.board.certificate import Agreement, Certificate, Result
from scare.board.certificate import verify as make_certificate
from scare.board.verify_export import Comparison, checked, verify_apart
from scare.cli.console import STDOUT, emit, note, progress, show_table
from scare.cli.options import Json, open_calibrator
from scare.errors import ExitCode, UsageError
from scare.export.lowering import Arithmetic, find_arithmetic
from scare.export.package import ZIP
from scare.files import replacing

# `scare verify EXPORT`: proof that what was exported gives what it must.


COLUMNS = ("model", "runtime", "windows", "largest difference", "of what is allowed", "undecided", "verdict")


def is_export(model: str) -> bool:
    """Whether a folder or a zip is meant, and not a calibrator."""
    path = Path(model)
    return path.is_dir() or path.suffix.lower() == ZIP


def try_export(path: Path, trust: bool, as_json: bool) -> None:
    """Run the golden vectors through an export; exit code 5 when a result is not what it must be."""
    with checked(path, trust) as (folder, _):
        note(f"running the code in {path}, apart and within limits of time and memory")
        compared = verify_apart(folder)
    failed = [one for one in compared if one.reasons]
    if as_json:
        emit({"export": str(path), "passed": not failed, "runtimes": [asdict(one) for one in compared]})
    else:
        rows = [_row(one) for one in compared]
        show_table(f"{path}: golden vectors", COLUMNS, rows)
        STDOUT.print("FAILED" if failed else "PASSED", style="red" if failed else "green")
    for one in failed:
        for reason in one.reasons:
            note(f"{one.model} fails in {one.runtime}: {reason}")
    if failed:
        raise typer.Exit(ExitCode.PARITY_FAILED)


def _row(one: Comparison) -> tuple[str, ...]:
    numbers = (f"{one.windows:,}", f"{one.largest:.2g}", f"{one.share:.1%}", f"{len(one.ties):,}")
    return (one.model, one.runtime, *numbers, "failed" if one.reasons else "passed")


BOTH = "both"  # arithmetics
SHOWN = 10  # windows with other hash codes; the certificate lists all


def verify(
    model: Annotated[str, typer.Argument(help="A .scare file, a published correction, or an exported folder or zip.")],
    board: Annotated[str, typer.Option("--board", help="As 'scare board list' names it.")] = "nano33ble",
    arithmetic: Annotated[
        str, typer.Option("--arithmetic", help="What to verify.", metavar=f"[{'|'.join(Arithmetic)}|{BOTH}]")
    ] = BOTH,
    windows: Annotated[int, typer.Option("--windows", min=1, help="At least so many strange and random ones.")] = 1000,
    device: Annotated[str, typer.Option("--device", help="Device whose scaling it gets.")] = "",
    out: Annotated[Path, typer.Option("--out", help="Where the certificate goes.")] = Path("certificate.json"),
    trust: Annotated[bool, typer.Option("--trust", help="Of an export: run it although its files changed.")] = False,
    as_json: Json = False,
) -> None:
    """Prove that Python, C on this computer and C on a virtual board compute the same, and write a certificate.

    Of what 'scare export' wrote: run its golden vectors through it. Only --trust and --json apply then. It compiles and
    runs the code that is there: try only exports that you trust. Files that changed after the export are refused.
    Exit code 5: a result is not what it must be.

    Examples:
      scare verify no2.scare
      scare verify no2.scare --arithmetic fixed --board stm32f4 --json
      scare verify no2.zip
    """
    if is_export(model):
        try_export(Path(model), trust, as_json)
        return
    chosen, calibrator = boards.board(board), open_calibrator(model)
    if "instructions" not in chosen.measures:
        raise UsageError(f"{chosen.title} is a memory budget only: nothing can be run on it; verify on another --board")
    arithmetics = list(Arithmetic) if arithmetic == BOTH else [find_arithmetic(arithmetic, BOTH)]
    with replacing(out) as temporary, progress("running", "what") as (bar, task):
        bar.update(task, what=f"windows on {chosen.title}")
        certificate = make_certificate(calibrator, chosen, arithmetics, windows, device, lambda: bar.advance(task))
        facts = {"sha256": _digest(model), **certificate.as_dict()}
        temporary.write_text(json.dumps(facts, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    if as_json:
        emit(facts)
    else:
        _show(certificate)
    note(f"certificate written to {out}")
    for reason in certificate.reasons:
        note(f"Failed: {reason}")
    if not certificate.passed:
        raise typer.Exit(ExitCode.PARITY_FAILED)


def _digest(model: str) -> str | None:
    """Of the file; a published correction has none."""
    path = Path(model)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def _show(certificate: Certificate) -> None:
    """A column for each arithmetic, the windows with other hash codes, and the verdict."""
    columns = {name: _column(result) for name, result in certificate.results.items() if result.windows}
    labels = next(iter(columns.values()))
    rows = [(label, *(column[label] for column in columns.values())) for label in labels]
    made = certificate.made_with
    show_table(f"Python, C, and C on {made['board']}", ("", *columns), rows)
    for name, result in certificate.results.items():
        if result.absent:
            STDOUT.print(f"{name}: {result.absent}", markup=False)
        for one in result.windows.listed[:SHOWN] if result.windows else ():
            STDOUT.print(
                f"{name}, window {one.index} ({one.kind}): tokens that differ: {one.tokens}, activations up to"
                f" {one.from_tie:.1g} from zero; results {one.difference:.1g} apart",
                markup=False,
            )
    failed = [name for name in columns if certificate.results[name].reasons]
    verdict = f"FAILED: {', '.join(failed)}" if failed else f"PASSED: {', '.join(columns)}"
    STDOUT.print(verdict, style="red" if failed else "green", markup=False)


def _column(result: Result) -> dict[str, str]:
    windows, streaming = result.windows, result.streaming
    assert windows
    assert streaming
    return {
        **_compared("windows", windows),
        "equal hash codes": f"{windows.equal_codes:.4%} of {windows.tokens:,}" if windows.tokens else "none",
        "hash ties": "" if result.ties is None else f"{result.ties:.3%}",
        "largest difference [sd]": f"{windows.largest['deviations']:.1e}",
        "largest difference [target's unit]": f"{windows.largest['unit']:.1e}",
        "windows beyond 1e-05 that float32 itself explains": f"{windows.beyond:,}",
        "readings": f"{sum(streaming.statuses.values()):,}",
        **(_compared("calibrated", streaming.agreement) if streaming.agreement else {"calibrated": "not compared"}),
        "verdict": "failed" if result.reasons else "passed",
    }


def _compared(what: str, agreement: Agreement) -> dict[str, str]:
    return {
        what: f"{sum(agreement.windows.values()):,}",
        f"{what}, host = board": f"{agreement.equal_bits['host_board']:,}",
        f"{what}, host = Python": f"{agreement.equal_bits['host_python']:,}",
    }
