"""`scare export`: a calibrator in the language of its board, a command for each target."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.board import boards
from scare.calibrator.selection_table import selection_summary
from scare.cli.console import STDOUT, emit, note
from scare.cli.options import CorrectionStep, Json, ModelFile, arithmetic_option, check_fit, open_calibrator
from scare.errors import UsageError
from scare.export.compiled import Compiled
from scare.export.lowering import Arithmetic
from scare.export.package import TARGETS, Package, prepare, write_package
from scare.export.target import Target

app = typer.Typer(help="Write a calibrator in the language of its board.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """Write a calibrator in the language of its board."""


def add_command(target: Target) -> None:
    """Give `scare export` the command of a target; all take the same options."""
    examples = "\n".join(f"  scare export {target.name} {example}" for example in target.examples)
    app.command(name=target.name, help=f"{target.about}\n\nExamples:\n{examples}")(_command(target))


def _command(target: Target) -> Callable[..., None]:
    def command(
        model: ModelFile,
        out: Annotated[Path, typer.Option("--out", help="Folder, new or empty; or a file that ends in .zip.")],
        arithmetic: Annotated[
            Arithmetic, arithmetic_option(target.arithmetic_help, *map(target.arithmetic_name, Arithmetic))
        ] = Arithmetic.FLOAT32,
        device: Annotated[str, typer.Option("--device", help="Device whose scaling it gets.")] = "",
        name: Annotated[str, typer.Option("--name", help=target.name_help)] = "model",
        step: CorrectionStep = None,
        board: Annotated[
            str,
            typer.Option("--board", help="Refuse what does not fit it ('scare board list').", hidden=not target.in_c),
        ] = "",
        learn: Annotated[
            bool, typer.Option("--learn", help="With scare_learn, which learns from a visit.", hidden=not target.in_c)
        ] = False,
        force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
        as_json: Json = False,
    ) -> None:
        compiled = prepare(open_calibrator(model, step), target, arithmetic, out, device, name, force)
        if board:
            _check_board(target, compiled, board)
        package = write_package(target, compiled, out, learn)
        _show(package, as_json)
        _say_scaling(compiled, guessed=not device)
        if summary := selection_summary(compiled.calibrator.facts):
            note(summary)
        for warning in package.artefact.warnings:
            note(warning)
        trying = f"; to try it: scare verify {out}" if target.runner else ""
        note(f"it is in {out}, with a README.md that says how it is used{trying}")

    return command


for _target in TARGETS.values():
    add_command(_target)


def _check_board(target: Target, compiled: Compiled, board: str) -> None:
    if not target.in_c:
        raise UsageError(f"--board measures C, and {target.name} is none; export to c to see whether it fits")
    check_fit(compiled, boards.board(board))


def _show(package: Package, as_json: bool) -> None:
    """Sizes on stdout, and what integers cost; or all of it as JSON."""
    compiled, artefact = package.compiled, package.artefact
    facts: dict[str, Any] = {"folder": str(package.folder), "name": compiled.name, "file": artefact.model}
    facts |= {
        "arithmetic": package.target.arithmetic_name(compiled.arithmetic),
        "device": compiled.device,
        **artefact.sizes,
    }
    lines = list(artefact.summary)
    if compiled.arithmetic is not Arithmetic.FLOAT32 and len(compiled.calibrator.validation.windows):
        facts["validation_rmse"] = package.validation_rmse()
        lines.append(_loss(facts["validation_rmse"]))
    if as_json:
        emit(facts)
        return
    for line in lines:
        STDOUT.print(line, markup=False)


def _say_scaling(compiled: Compiled, guessed: bool) -> None:
    """Whose scaling an export has."""
    if not compiled.device:
        known = ", ".join(compiled.calibrator.inputs.scaling.devices)
        note(f"scaled with the fleet's mean and spread{f'; for one device, give --device: {known}' if known else ''}")
    elif guessed:
        note(f"scaled for {compiled.device}, the only device it knows")


def _loss(errors: Mapping[str, float]) -> str:
    (before, after), (plain, integer) = errors.values(), errors
    loss = f"{100 * (after / before - 1):+.2f} %" if before > 0 else "no error to compare with"
    return f"RMSE on the validation windows: {plain} {before:.4g}, {integer} {after:.4g} ({loss})"
