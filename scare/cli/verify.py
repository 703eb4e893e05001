"""`scare verify`: proof that a calibrator computes the same in Python, in C and on a board."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from scare.board import boards
from scare.board.boards import Board
from scare.board.certificate import Agreement, ArithmeticResult, Certificate
from scare.board.certificate import verify as make_certificate
from scare.board.verify_blob import INTERPRETED, C, verify_blob
from scare.board.verify_export import Comparison, open_export, verify_in_child
from scare.calibrator.calibrator import Calibrator
from scare.cli.console import STDOUT, emit, note, progress, show_table
from scare.cli.options import CorrectionStep, Json, open_calibrator
from scare.errors import ExitCode, UsageError
from scare.export.blob import is_signed_by
from scare.export.blob_package import SUFFIX
from scare.export.ed25519 import read_public_key
from scare.export.lowering import Arithmetic, find_arithmetic
from scare.export.package import ZIP
from scare.export.scare_json import FixedPointError
from scare.files import replacing

EXPORT_COLUMNS = ("model", "runtime", "windows", "largest difference", "share of tolerance", "undecided", "result")
BOTH = "both"  # value of --arithmetic
SHOWN = 10  # windows whose codes differ that are printed; the certificate lists all


def verify(
    model: Annotated[
        str, typer.Argument(help="A .scare file, a published correction, an exported folder or zip, or a .blob file.")
    ],
    board: Annotated[str, typer.Option("--board", help="Board name (scare board list).")] = "nano33ble",
    arithmetic: Annotated[
        str, typer.Option("--arithmetic", help="Arithmetic to verify.", metavar=f"[{'|'.join(Arithmetic)}|{BOTH}]")
    ] = BOTH,
    windows: Annotated[
        int, typer.Option("--windows", min=1, help="At least this many extreme and random windows.")
    ] = 1000,
    device: Annotated[str, typer.Option("--device", help="Device whose scaling to use.")] = "",
    out: Annotated[Path, typer.Option("--out", help="The certificate to write.")] = Path("certificate.json"),
    of: Annotated[str, typer.Option("--of", help="The calibrator that a .blob file was exported from.")] = "",
    key: Annotated[
        Path | None, typer.Option("--key", help="Key, public or private, that must have signed a .blob file.")
    ] = None,
    step: CorrectionStep = None,
    trust: Annotated[bool, typer.Option("--trust", help="Run an export although its files changed.")] = False,
    as_json: Json = False,
) -> None:
    """Prove that Python, C on this computer and C on a virtual board compute the same, and write a certificate.

    For an exported folder or zip: run its golden vectors through it; only --trust and --json apply. This compiles and
    runs the code in the export, so verify only exports that you trust. Files that changed after the export are refused.
    For a blob: also prove that the interpreter computes what C does, and count its instructions. Exit code 5: a result
    differs, or the signature is wrong.

    Examples:
      scare verify no2.scare
      scare verify no2.scare --arithmetic fixed --board stm32f4 --json
      scare verify no2.zip
      scare verify no2.blob --of no2.scare --key owner.pem
    """
    if Path(model).is_dir() or Path(model).suffix.lower() == ZIP:
        verify_export(Path(model), trust, as_json)
        return
    is_blob = Path(model).suffix.lower() == SUFFIX
    if is_blob and not of:
        raise UsageError(
            f"{model} has no Python in it to compare with; add --of with the calibrator it was exported from"
        )
    if not is_blob and (of or key):
        raise UsageError("--of and --key are for a .blob file")
    target_board, calibrator = boards.board(board), open_calibrator(of or model, step)
    if "instructions" not in target_board.measures:
        raise UsageError(f"{target_board.title} is only a memory budget and cannot run code; use another --board")
    if is_blob:
        verify_file(Path(model), calibrator, target_board, windows, device, out, key, as_json)
        return
    arithmetics = list(Arithmetic) if arithmetic == BOTH else [find_arithmetic(arithmetic, BOTH)]
    with replacing(out) as temporary, progress("running", "what") as (bar, task):
        bar.update(task, what=f"windows on {target_board.title}")
        certificate = make_certificate(
            calibrator, target_board, arithmetics, windows, device, lambda: bar.advance(task)
        )
        facts = {"sha256": _digest(model), **certificate.as_dict()}
        temporary.write_text(json.dumps(facts, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    if as_json:
        emit(facts)
    else:
        _show(certificate)
    note(f"Wrote the certificate to {out}.")
    for reason in certificate.reasons:
        note(f"Failed: {reason}")
    if not certificate.passed:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def verify_file(
    path: Path,
    calibrator: Calibrator,
    board: Board,
    windows: int,
    device: str,
    out: Path,
    key: Path | None,
    as_json: bool,
) -> None:
    """Prove that a blob computes what its calibrator does, and write the certificate.

    Exit code 5 if a result differs, or if the key did not sign the blob.
    """
    if not path.is_file():
        raise UsageError(f"{path} does not exist")
    with replacing(out) as temporary, progress("running", "what") as (bar, task):
        bar.update(task, what=f"windows on {board.title}")
        proof = verify_blob(path, calibrator, board, windows, device, lambda: bar.advance(task))
        signed = None if key is None else is_signed_by(path.read_bytes(), read_public_key(key))
        reasons = [*proof.reasons, *([f"{path.name} is not signed with the key of {key}"] if signed is False else [])]
        facts = {"sha256": _digest(str(path)), **proof.as_dict(), "signed": signed}
        facts |= {"passed": not reasons, "reasons": reasons}
        temporary.write_text(json.dumps(facts, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    if as_json:
        emit(facts)
    else:
        _show(proof.certificate)
        c_cost, interpreter_cost = proof.costs[C], proof.costs[INTERPRETED]
        rows = [
            (f"results that differ on {place}", f"{count:,} of {proof.windows + proof.readings:,}")
            for place, count in proof.different.items()
        ]
        rows += [
            ("instructions, C", f"{c_cost.run:,.0f} + {c_cost.reading:,} for a reading"),
            ("instructions, interpreter", f"{interpreter_cost.run:,.0f} + {interpreter_cost.reading:,}"),
            ("more than C", f"{100 * proof.overhead:.1f} %"),
            ("instructions to open, without the signature", f"{proof.opening:,}"),
            ("signature", {None: "not checked: add --key", True: "right", False: "WRONG"}[signed]),
        ]
        show_table(f"{path}: the interpreter against C, {proof.arithmetic}", ("", ""), rows)
    note(f"Wrote the certificate to {out}.")
    for reason in reasons:
        note(f"Failed: {reason}")
    if reasons:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _digest(model: str) -> str | None:
    """Return the SHA-256 of a file; a published correction has none."""
    path = Path(model)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def _show(certificate: Certificate) -> None:
    """Print a column for each arithmetic, the windows whose codes differ, and the outcome."""
    columns = {name: _column(result) for name, result in certificate.results.items() if result.windows}
    labels = next(iter(columns.values()))
    rows = [(label, *(column[label] for column in columns.values())) for label in labels]
    show_table(f"Python, C, and C on {certificate.made_with['board']}", ("", *columns), rows)
    for name, result in certificate.results.items():
        if result.absent:
            STDOUT.print(f"{name}: {result.absent}", markup=False)
        for window in result.windows.listed[:SHOWN] if result.windows else ():
            STDOUT.print(
                f"{name}, window {window.index} ({window.kind}): tokens that differ: {window.tokens}, activations up to"
                f" {window.from_tie:.1g} from zero; results {window.difference:.1g} apart",
                markup=False,
            )
    failed = [name for name in columns if certificate.results[name].reasons]
    outcome = f"FAILED: {', '.join(failed)}" if failed else f"PASSED: {', '.join(columns)}"
    STDOUT.print(outcome, style="red" if failed else "green", markup=False)


def _column(result: ArithmeticResult) -> dict[str, str]:
    """Return the column of an arithmetic in the printed table, by row label."""
    windows, streaming = result.windows, result.streaming
    assert windows
    assert streaming
    calibrated = {"calibrated": "not compared"}
    if streaming.agreement:
        calibrated = _agreement_rows("calibrated", streaming.agreement)
    return {
        **_agreement_rows("windows", windows),
        "equal codes": f"{windows.equal_codes:.4%} of {windows.tokens:,}" if windows.tokens else "none",
        "ties": "" if result.ties is None else f"{result.ties:.3%}",
        "minus float32: mean [sd]": _in_deviations(result.fixed_point, "mean"),
        "minus float32: sd [sd]": _in_deviations(result.fixed_point, "sd"),
        "largest difference [sd]": f"{windows.largest['deviations']:.1e}",
        "largest difference [target's unit]": f"{windows.largest['unit']:.1e}",
        "windows over 1e-05, explained by float32 rounding": f"{windows.beyond:,}",
        "readings": f"{sum(streaming.statuses.values()):,}",
        **calibrated,
        "result": "failed" if result.reasons else "passed",
    }


def _in_deviations(error: FixedPointError | None, statistic: str) -> str:
    """Format the mean or sd of fixed point minus float32, in standard deviations of the target; empty in float32."""
    return f"{getattr(error, statistic) / error.deviation:.1e}" if error else ""


def _agreement_rows(label: str, agreement: Agreement) -> dict[str, str]:
    """Return the rows that begin with a label: how many windows were compared, and how many agree bit for bit."""
    return {
        label: f"{sum(agreement.windows.values()):,}",
        f"{label}, host = board": f"{agreement.equal_bits['host_board']:,}",
        f"{label}, host = Python": f"{agreement.equal_bits['host_python']:,}",
    }


def verify_export(path: Path, trust: bool, as_json: bool) -> None:
    """Run the golden vectors through an export; exit code 5 if a result differs."""
    with open_export(path, trust) as (folder, _):
        note(f"Running the code in {path} in a separate process, with limits of time and memory.")
        compared = verify_in_child(folder)
    failed = [comparison for comparison in compared if comparison.reasons]
    if as_json:
        emit({"export": str(path), "passed": not failed, "runtimes": [asdict(comparison) for comparison in compared]})
    else:
        rows = [_row(comparison) for comparison in compared]
        show_table(f"{path}: golden vectors", EXPORT_COLUMNS, rows)
        STDOUT.print("FAILED" if failed else "PASSED", style="red" if failed else "green")
    for comparison in failed:
        for reason in comparison.reasons:
            note(f"{comparison.model} failed in {comparison.runtime}: {reason}")
    if failed:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _row(comparison: Comparison) -> tuple[str, ...]:
    """Return the cells for `EXPORT_COLUMNS`."""
    numbers = (
        f"{comparison.windows:,}",
        f"{comparison.largest:.2g}",
        f"{comparison.share:.1%}",
        f"{len(comparison.ties):,}",
    )
    return (comparison.model, comparison.runtime, *numbers, "failed" if comparison.reasons else "passed")
