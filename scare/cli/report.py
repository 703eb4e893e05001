"""`scare report`: turn a scored run into one HTML page that opens offline."""

from pathlib import Path
from typing import Annotated

import typer

from scare.cli import options
from scare.cli.console import emit, note, progress


def report(
    run: Annotated[Path, typer.Argument(help="A folder written by scare score --out.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The page to write.", show_default="RUN/report.html")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write one HTML page with scorecard, charts, board, targets, data quality and origin.

    Examples:
      scare report out/no2
      scare report out/no2 --out no2.html
    """
    from scare.report.page import write_report
    from scare.scorecard.run import read_run

    found = read_run(run)
    path = out or run / "report.html"
    with progress("drawing", "device") as (bar, task):
        bar.update(task, total=len(found.series))
        write_report(found, path, lambda name: bar.update(task, advance=1, device=name))
    size = path.stat().st_size
    if as_json:
        devices = [one.device for one in found.series]
        emit({"page": str(path), "bytes": size, "devices": devices, "rows": sum(map(len, found.series))})
    note(f"Wrote {path} ({size / 1e6:.1f} MB). It opens in any browser, even offline.")
