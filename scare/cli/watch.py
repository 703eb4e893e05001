"""`scare watch`: the error to expect of each box, and which of them drift, without a reference."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from scare.calibrator.calibrator import Calibrator
from scare.cli import options
from scare.cli.console import emit, note, progress, show_table
from scare.data.column_guess import find_time_and_device
from scare.data.column_mapping import ColumnMapping, read_readings
from scare.data.readings import TIME, Readings
from scare.files import replacing


def watch(
    model: options.ModelFile,
    files: Annotated[list[Path], typer.Argument(help="Readings since the boxes were last known to be good.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the page and its numbers.")],
    time: options.TimeColumns = "",
    device_column: options.DeviceColumn = "",
    as_json: options.Json = False,
) -> None:
    """Report the error to expect of each box of a fleet, and whether it drifts, without a reference.

    Examples:
      scare watch pm.scare fleet.parquet --out out/watch
      scare watch no2.scare box*.csv --time date --out out/watch --json
    """
    from scare.report.page import count_states, make_watch_page, watch_as_dict
    from scare.upkeep.drift import watch as watch_fleet

    calibrator = options.open_for_table(model, files[0], options.split_names(time) if time else ())
    readings = _read(files, calibrator, time, device_column)
    with progress("watching", "device") as (bar, task):
        bar.update(task, total=len(readings))
        watched = watch_fleet(calibrator, readings, lambda name: bar.update(task, advance=1, device=name))
    report = watch_as_dict(watched)
    texts = {
        "watch.json": json.dumps(report, indent=1, allow_nan=False),
        "watch.html": make_watch_page(watched, calibrator),
    }
    for name, text in texts.items():
        with replacing(out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    if as_json:
        emit({"page": str(out / "watch.html"), **report})
    else:
        rows = [
            [box.device, box.expected_words, box.state.label, "; ".join(piece.sentence for piece in box.evidence)]
            for box in watched.boxes
        ]
        show_table("boxes, worst first", ["box", "expected error", "drift", "evidence"], rows)
    for line in (*watched.notes, watched.schedule):
        note(line)
    counted = ", ".join(f"{count} {words}" for words, count in count_states(watched).items())
    note(f"{counted}. Wrote {out / 'watch.html'}, which opens in any browser, even offline.")


def _read(files: Sequence[Path], calibrator: Calibrator, time: str, device_column: str) -> list[Readings]:
    """Read every box; a box may have several files, and the first one wins where two have the same time."""
    boxes: dict[str, list[Readings]] = {}
    for file in files:
        times, guessed = find_time_and_device(file, options.split_names(time) if time else ())
        mapping = ColumnMapping(times, calibrator.inputs.channels, None, device_column or guessed, sort=True)
        for box in read_readings(file, mapping):
            boxes.setdefault(box.device, []).append(box)
    joined = []
    for parts in boxes.values():
        frame = pl.concat([box.frame for box in parts]).unique(TIME, keep="first", maintain_order=True).sort(TIME)
        joined.append(Readings(parts[0].device, frame, parts[0].channels))
    return joined
