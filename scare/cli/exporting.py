"""What all commands of `scare export` share: options, whose scaling is meant, what integers cost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.calibrator.calibrator import Calibrator
from scare.cli.console import STDOUT, emit, say

Out = Annotated[Path, typer.Option("--out", help="Folder, new or empty; or a file that ends in .zip.")]
Device = Annotated[str, typer.Option("--device", help="Device whose scaling it gets.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there.")]


def help_with_examples(target: str, about: str, examples: tuple[str, ...]) -> str:
    """The help of a command of `scare export`."""
    lines = "\n".join(f"  scare export {target} {example}" for example in examples)
    return f"{about}\n\nExamples:\n{lines}"


def show_facts(facts: dict[str, Any], lines: list[str], as_json: bool) -> None:
    """Lines on stdout, with what integers cost; or all facts as JSON."""
    if as_json:
        emit(facts)
        return
    if "validation_rmse" in facts:
        lines = [*lines, _loss(facts["validation_rmse"])]
    for line in lines:
        STDOUT.print(line, markup=False)


def say_scaling(calibrator: Calibrator, device: str, guessed: bool) -> None:
    """Whose scaling an export has."""
    if not device:
        known = ", ".join(calibrator.inputs.scaling.devices)
        say(f"scaled with the fleet's mean and spread{f'; for one device, give --device: {known}' if known else ''}")
    elif guessed:
        say(f"scaled for {device}, the only device it knows")


def _loss(errors: Mapping[str, float]) -> str:
    (before, after), (plain, integer) = errors.values(), errors
    loss = f"{100 * (after / before - 1):+.2f} %" if before > 0 else "no error to compare with"
    return f"RMSE on the validation windows: {plain} {before:.4g}, {integer} {after:.4g} ({loss})"
