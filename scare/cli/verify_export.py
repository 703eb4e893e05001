"""`scare verify EXPORT`: proof that what was exported gives what it must."""

from dataclasses import asdict
from pathlib import Path

import typer

from scare.board.verifying import Comparison, checked
from scare.board.verifying_apart import verify_apart
from scare.cli.console import STDOUT, emit, say, show_table
from scare.errors import ExitCode
from scare.export.folder_or_zip import ZIP

COLUMNS = ("model", "runtime", "windows", "largest difference", "of what is allowed", "undecided", "verdict")


def is_export(model: str) -> bool:
    """Whether a folder or a zip is meant, and not a calibrator."""
    path = Path(model)
    return path.is_dir() or path.suffix.lower() == ZIP


def try_export(path: Path, trust: bool, as_json: bool) -> None:
    """Run the golden vectors through an export; exit code 5 when a result is not what it must be."""
    with checked(path, trust) as (folder, _):
        say(f"running the code in {path}, apart and within limits of time and memory")
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
            say(f"{one.model} fails in {one.runtime}: {reason}")
    if failed:
        raise typer.Exit(ExitCode.PARITY_FAILED)


def _row(one: Comparison) -> tuple[str, ...]:
    numbers = (f"{one.windows:,}", f"{one.largest:.2g}", f"{one.share:.1%}", f"{len(one.ties):,}")
    return (one.model, one.runtime, *numbers, "failed" if one.reasons else "passed")
