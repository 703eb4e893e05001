"""`scare data`: download public co-location data."""

from pathlib import Path
from typing import Annotated

import typer

from scare.cli.console import emit, note, progress
from scare.cli.options import Json
from scare.data.download import ZENODO, download_record
from scare.data.senseurcity import RECORD

app = typer.Typer(help="Download public co-location data.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """Download public co-location data."""


@app.command()
def senseurcity(
    out: Annotated[Path, typer.Option("--out", help="Folder for the files.")],
    server: Annotated[str, typer.Option("--server", help="Server of the records.")] = ZENODO,
    as_json: Json = False,
) -> None:
    """Download SensEURCity (Antwerp, Oslo, Zagreb), the paper's data; run again to resume.

    Examples:
      scare data senseurcity --out senseurcity
    """
    with progress("downloading", "file") as (bar, task):

        def report(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, file=f"{name} {done >> 20:,} of {total >> 20:,} MB")

        try:
            files = download_record(RECORD, out, server, report)
        except KeyboardInterrupt:
            note(f"Downloaded files stay in {out}. Run the same command to resume.")
            raise
    if as_json:
        emit({"files": [str(file) for file in files]})
    note(f"{len(files)} files are in {out}.")
