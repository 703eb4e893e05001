"""`scare export`: write a calibrator as C or in another format, with one command per target."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.board import boards
from scare.board.boards import Board
from scare.board.measure import Report, measure_once
from scare.calibrator.model_card import selection_summary
from scare.cli.console import STDOUT, emit, note, progress
from scare.cli.options import CorrectionStep, Json, ModelFile, arithmetic_option, open_calibrator
from scare.errors import DoesNotFitError, UsageError
from scare.export.descriptor import known_devices
from scare.export.ed25519 import new_key, print_key, public_key, read_private_key, write_private_key
from scare.export.lowering import Arithmetic, Compiled
from scare.export.package import Package, compile_for_target, write_package
from scare.export.target import Target
from scare.export.targets import TARGETS
from scare.extras import is_installed, remedy

app = typer.Typer(help="Write a calibrator as C, a library or a model file.", no_args_is_help=True)


def add_command(target: Target) -> None:
    """Add the command of a target to `scare export`; all take the same options."""
    examples = "\n".join(f"  scare export {target.name} {example}" for example in target.examples)

    def command(
        model: ModelFile,
        out: Annotated[Path, typer.Option("--out", help="A new or empty folder, or a .zip file.")],
        arithmetic: Annotated[
            Arithmetic, arithmetic_option(target.arithmetic_help, *map(target.arithmetic_name, Arithmetic))
        ] = Arithmetic.FLOAT32,
        device: Annotated[str, typer.Option("--device", help="Device whose scaling to use.")] = "",
        name: Annotated[str, typer.Option("--name", help=target.name_help)] = "model",
        step: CorrectionStep = None,
        board: Annotated[
            str,
            typer.Option(
                "--board", help="Refuse if it does not fit this board (scare board list).", hidden=not target.in_c
            ),
        ] = "",
        learn: Annotated[
            bool, typer.Option("--learn", help="Add scare_learn, to update it on the board.", hidden=not target.in_c)
        ] = False,
        key: Annotated[
            Path | None,
            typer.Option("--key", help="Private key to sign with (scare export key).", hidden=target.sign is None),
        ] = None,
        force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
        as_json: Json = False,
    ) -> None:
        if key and target.sign is None:
            raise UsageError(f"--key signs a blob; an export to {target.name} has no signature")
        private = read_private_key(key) if key else None
        compiled = compile_for_target(open_calibrator(model, step), target, arithmetic, out, device, name, force)
        if board and not target.in_c:
            raise UsageError(f"--board only measures C; run scare export c to see whether {target.name} would fit")
        if board:
            check_fit(compiled, boards.board(board))
        package = write_package(target, compiled, out, learn, private)
        _show(package, as_json)
        if not compiled.device:
            known = ", ".join(known_devices(compiled.calibrator.inputs.scaling))
            for_one = f" For one device, add --device: {known}." if known else ""
            settle = compiled.descriptor.settle
            settles_on_board = settle and target.runner in ("c", "python")  # a model file has no stream of readings
            settles = f" A new device settles in its first {settle:,} readings." if settles_on_board else ""
            note(f"Scaled with the mean and spread of all devices.{settles}{for_one}")
        elif not device:
            note(f"Scaled for {compiled.device}, the only device in training.")
        if summary := selection_summary(compiled.calibrator.facts):
            note(summary)
        for warning in package.artefact.warnings:
            note(warning)
        if target.sign and not private:
            note("Not signed: only firmware that takes unsigned blobs will take it. To sign it, add --key owner.pem.")
        if package.is_single:
            note(f"Wrote {out}. To test it, run: scare verify {out} --of {model}")
            return
        note(f"Wrote {out}. Its README.md explains how to use it.")
        if target.runner:
            note(f"To test it, run: scare verify {out}")

    app.command(name=target.name, help=f"{target.about}\n\nExamples:\n{examples}")(command)


for _target in TARGETS.values():
    add_command(_target)


@app.command(name="key")
def make_key(out: Annotated[Path, typer.Option("--out", help="A new file, such as owner.pem.")]) -> None:
    """Make a private key to sign blobs with, and print its public key for the firmware.

    The file is a PEM file, as OpenSSL writes them. Keep it secret, and keep a copy: firmware takes no blob that another
    key signed.

    Examples:
      scare export key --out owner.pem
      scare export blob pm.scare --key owner.pem --out pm.blob
    """
    key = new_key()
    write_private_key(out, key)
    STDOUT.print(f"static const uint8_t owner[] = {{{print_key(public_key(key))}}};", markup=False)
    note(f"Wrote the private key to {out}. The line above is its public key, in C: compile it into the firmware.")


def check_fit(compiled: Compiled, board: Board) -> None:
    """Raise a DoesNotFitError for a calibrator that does not fit the board, with the largest window that would."""
    with progress("measuring", "what") as (bar, task):
        bar.update(task, what=board.title)
        report = measure_once(compiled, board)
        if report.fits:
            return
        remedy = _remedy(compiled, report, lambda: bar.advance(task))
    raise DoesNotFitError(f"the model does not fit: {'; '.join(report.reasons)}{remedy}")


def _remedy(compiled: Compiled, report: Report, advance: Callable[[], object]) -> str:
    """Say what would make the calibrator fit, to end a message; `advance` is called before each window it tries."""
    calibrator = compiled.calibrator
    if report.needs_wide_int:  # a shorter window does not help: fixed point needs the wider int
        return "; use --arithmetic float32"
    if calibrator.window <= 1:
        return ""
    if not is_installed("jax"):
        return f"; to see the largest window that fits, {remedy('train')}"
    from scare.experiments.untrained import largest_window

    window = largest_window(calibrator, compiled.arithmetic, report.board, advance)
    if window is None:
        return ""
    largest = f"the largest window that fits has {window} readings" if window else "no shorter window fits either"
    return f"; {largest}, this one has {calibrator.window}"


def _show(package: Package, as_json: bool) -> None:
    """Print sizes, and the error that fixed point adds; or all of it as JSON."""
    compiled, artefact = package.compiled, package.artefact
    facts: dict[str, Any] = {"folder": str(package.folder), "name": compiled.name, "file": artefact.model}
    facts |= {
        "arithmetic": package.target.arithmetic_name(compiled.arithmetic),
        "device": compiled.device,
        **artefact.sizes,
    }
    lines = list(artefact.summary)
    if compiled.arithmetic is not Arithmetic.FLOAT32 and len(compiled.calibrator.validation.windows):
        errors = package.validation_rmse()  # by arithmetic: float32, then fixed point
        facts["validation_rmse"] = errors
        float_name, fixed_name = errors
        before, after = errors[float_name], errors[fixed_name]
        loss = f"{100 * (after / before - 1):+.2f} %" if before > 0 else "no error to compare with"
        lines.append(f"RMSE on the validation windows: {float_name} {before:.4g}, {fixed_name} {after:.4g} ({loss})")
    if package.target.in_c and (difference := compiled.fixed_point_error):
        facts["fixed_point"] = asdict(difference)
        lines.append(f"Fixed point minus float32 on the file's windows: {difference}")
    if as_json:
        emit(facts)
        return
    for line in lines:
        STDOUT.print(line, markup=False)
