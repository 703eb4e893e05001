"""`scare predict`: a table of raw readings in, the same rows with calibrated values and flags out."""

from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.streams import Streams
from scare.cli import options
from scare.cli.console import emit, progress, say
from scare.data.flags import summary
from scare.data.inspection import find_labels
from scare.data.mapping import ColumnMapping
from scare.data.readings import CALIBRATED, DEVICE, FLAGS
from scare.data.tables import iterate_tables, writing_table
from scare.words import counts


def predict(
    calibrator: Annotated[Path, typer.Argument(help="A .scare file.")],
    file: Annotated[Path, typer.Argument(help="Raw readings: CSV or Parquet.")],
    out: Annotated[Path, typer.Option("--out", help="The table to write: .csv, .csv.gz or .parquet.")] = Path(
        "calibrated.csv"
    ),
    time: options.TimeColumns = "",
    device_column: options.DeviceColumn = "",
    device: Annotated[str, typer.Option("--device", help="Name of the device, when the file does not say it.")] = "",
    as_json: options.Json = False,
) -> None:
    """Write raw, calibrated and flags side by side; a file of any size, in bounded memory.

    Examples:
      scare predict no2.scare raw.csv --out calibrated.csv
      scare predict pm.scare fleet.parquet --device-column box --out calibrated.parquet
    """
    model = Calibrator.load(calibrator)
    times, guessed_device = find_labels(file, options.names(time) if time else ())
    device_column = device_column or ("" if device else guessed_device)
    mapping = ColumnMapping(times, model.inputs.channels, model.target, device_column)
    streams = Streams(model, partial(_announce, model))
    rows = calibrated = 0
    flags = dict.fromkeys(summary(np.empty(0, np.uint32)), 0)
    with progress("calibrating", "count") as (bar, task), writing_table(out) as write:
        for chunk in iterate_tables(file, mapping):
            if device and not mapping.device_column:
                chunk = chunk.with_columns(pl.lit(device).alias(DEVICE))
            result = streams.push(chunk)
            write(result)
            rows, calibrated = rows + result.height, calibrated + result[CALIBRATED].count()
            for name, count in summary(result[FLAGS].to_numpy()).items():
                flags[name] += count
            bar.update(task, count=f"{rows:,} rows")
    result_facts = {"file": str(out), "rows": rows, "calibrated": calibrated, "flags": flags}
    if as_json:
        emit(result_facts)
    say(f"{calibrated:,} of {rows:,} rows calibrated, written to {out}")
    if any(flags.values()):
        say(f"flagged rows: {counts(flags)}")


def _announce(calibrator: Calibrator, device: str) -> None:
    """Say so if a device was not in training."""
    scaling = calibrator.inputs.scaling
    if scaling.known(device) is None:
        say(
            f"{device} was not in training: its first {scaling.settle:,} readings are scaled with the fleet's mean and"
            f" spread and flagged UNSETTLED; if it is one of {', '.join(scaling.devices)}, say so with --device"
        )
