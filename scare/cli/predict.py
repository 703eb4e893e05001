"""`scare predict`: a table of raw readings in, the same rows with calibrated values, intervals and flags out."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from scare.archive.archive import Archive, run_archive
from scare.archive.files import LabelColumns, read_model_table, single_model
from scare.calibrator.calibrator import Calibrator, DeviceStreams
from scare.cli import options
from scare.cli.console import emit, note, progress, show_table
from scare.data.flags import count_flags, flag_names
from scare.data.inspection import find_time_and_device
from scare.data.mapping import ColumnMapping
from scare.data.readings import CALIBRATED, DEVICE, FLAGS, HIGH, LOW, TIME
from scare.data.tables import iterate_tables, table_writer
from scare.errors import DataError, UsageError
from scare.executor import LOCAL, open_executor
from scare.words import spell_counts

# `scare predict` of an archive: what it says while it runs and when it is done.


SHOWN_DEVICES = 10  # devices, files, reasons


def predict_archive(archive: Archive, jobs: int, executor: str, as_json: bool) -> None:
    """Calibrate an archive and tell what became of it."""
    with (
        progress("calibrating", "count") as (bar, task),
        open_executor(executor, jobs, archive.out) as workers,
    ):
        try:
            facts = run_archive(
                archive,
                workers,
                lambda done, total: bar.update(task, completed=done, total=total, count=f"{done:,} of {total:,} files"),
            )
        except KeyboardInterrupt:
            note(f"what is finished stays in {archive.out}; the same command resumes")
            raise
    if as_json:
        emit({"folder": str(archive.out), **facts})
    else:
        _show_devices(facts["devices"])
    _tell(archive, facts)
    if not facts["rows"]:
        raise DataError(f"nothing was calibrated; {facts['manifest']} has the reasons")


def _show_devices(devices: Mapping[str, Any]) -> None:
    """The devices with the most rows that have no value, as a table on stdout."""
    worst = sorted(devices, key=lambda name: devices[name]["calibrated"] - devices[name]["rows"])[:SHOWN_DEVICES]
    rows = [
        [name, *(f"{devices[name][one]:,}" for one in ("rows", "calibrated")), spell_counts(devices[name]["flags"])]
        for name in worst
    ]
    rest = f", the {len(worst)} with the most rows without a value" * (len(devices) > SHOWN_DEVICES)
    show_table(f"{len(devices):,} devices{rest}", ["", "rows", "calibrated", "flagged"], rows)


def _tell(archive: Archive, facts: Mapping[str, Any]) -> None:
    """The summary in sentences."""
    now, rate = facts["now"], facts["now"]["rows"] / max(facts["seconds"], 0.01)
    note(f"{facts['calibrated']:,} of {facts['rows']:,} rows calibrated, {facts['files']:,} files in {archive.out}")
    note(f"now: {now['files']:,} files, {now['rows']:,} rows in {facts['seconds']:,.1f} s ({rate:,.0f} rows/s)")
    if now["files"]:
        note("slowest: " + ", ".join(f"{one['file']} {one['seconds']:.2f} s" for one in facts["slowest"]))
    _list("left out", [": ".join(filter(None, one.values())) for one in facts["left_out"]], facts["manifest"])
    _list("appeared since the run began, run again to take them", facts["appeared"], "")
    _list("results of files that are not there any more", facts["gone"], "")


def _list(what: str, names: Sequence[str], where: str) -> None:
    for name in names[:SHOWN_DEVICES]:
        note(f"{what}: {name}")
    if len(names) > SHOWN_DEVICES:
        note(f"{what}: {len(names) - SHOWN_DEVICES:,} more{', in ' * bool(where)}{where}")


SHOWN = 10  # devices whose newest row is printed
OUT = "The table to write: .csv, .csv.gz or .parquet; of an archive the folder."


def predict(
    model: Annotated[str, typer.Argument(help="A .scare file, unless --models names several.")],
    places: Annotated[
        list[str] | None, typer.Argument(help="Raw readings: CSV or Parquet; files, a folder or a glob.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help=OUT, show_default="calibrated.csv, or the folder calibrated"),
    ] = None,
    time: options.TimeColumns = "",
    dates: options.SlashDates = "",
    device_column: options.DeviceColumn = "",
    device: Annotated[str, typer.Option("--device", help="Name of the device, when the file does not say it.")] = "",
    models: Annotated[
        Path | None, typer.Option("--models", help="Of an archive: a table device,model in place of MODEL.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Of an archive: processes at the same time.")] = 1,
    executor: options.ExecutorName = LOCAL,
    as_json: options.Json = False,
) -> None:
    """Write raw, calibrated, its interval and flags side by side; a file or thousands of any size, in bounded memory.

    Of a folder or a glob (an archive) each file becomes one of the same name in --out; run again to resume.

    Examples:
      scare predict no2.scare raw.csv --out calibrated.csv
      scare predict pm.scare fleet.parquet --device-column box --out calibrated.parquet
      scare predict pm.scare network --out calibrated --jobs 2
      scare predict 'network/2026-*.csv.gz' --models models.csv --out calibrated
    """
    readings = [*([model] if models else []), *(places or [])]
    if not readings:
        raise UsageError(f"name the readings after the model: scare predict {model} raw.csv")
    labels = LabelColumns(options.names(time) if time else (), device_column, dates)
    if models is None and len(readings) == 1 and Path(readings[0]).is_file():
        _predict_file(Path(model), Path(readings[0]), out or Path("calibrated.csv"), labels, device, as_json)
        return
    if device:
        raise UsageError("--device is for one file; in an archive a column, a folder device=… or its name says it")
    chosen = read_model_table(models) if models else single_model(Path(model))
    archive = Archive(tuple(readings), out or Path("calibrated"), chosen, labels.time, labels.device_column, dates)
    predict_archive(archive, jobs, executor, as_json)


def _predict_file(calibrator: Path, file: Path, out: Path, labels: LabelColumns, device: str, as_json: bool) -> None:
    """One file in, one out."""
    model = Calibrator.load(calibrator)
    times, guessed_device = find_time_and_device(file, labels.time, labels.dates)
    device_column = labels.device_column or ("" if device else guessed_device)
    mapping = ColumnMapping(times, model.inputs.channels, model.target, device_column, dates=labels.dates)
    streams = DeviceStreams(model, partial(_announce, model))
    rows, calibrated, newest = 0, 0, dict[str, dict[str, Any]]()
    flags = dict.fromkeys(count_flags(np.empty(0, np.uint32)), 0)
    with progress("calibrating", "count") as (bar, task), table_writer(out) as write:
        for chunk in iterate_tables(file, mapping):
            if device and not mapping.device_column:
                chunk = chunk.with_columns(pl.lit(device).alias(DEVICE))
            result = streams.push(chunk)
            write(result)
            newest |= _newest(result, model)
            rows, calibrated = rows + result.height, calibrated + result[CALIBRATED].count()
            for name, count in count_flags(result[FLAGS].to_numpy()).items():
                flags[name] += count
            bar.update(task, count=f"{rows:,} rows")
    result_facts = {"file": str(out), "rows": rows, "calibrated": calibrated, "flags": flags}
    if as_json:
        emit({**result_facts, "newest": list(newest.values())})
    else:
        _show(list(newest.values()), model)
    note(f"{calibrated:,} of {rows:,} rows calibrated, written to {out}")
    if any(flags.values()):
        note(f"flagged rows: {spell_counts(flags)}")


def _newest(result: pl.DataFrame, model: Calibrator) -> dict[str, dict[str, Any]]:
    """The last row of each device: its raw reading and what became of it."""
    raw = pl.col(model.inputs.channels[0].name).alias("raw")
    last = result.select(DEVICE, TIME, raw, CALIBRATED, LOW, HIGH, FLAGS).unique(DEVICE, keep="last")
    return {row[DEVICE]: {**row, "flag_names": flag_names(row[FLAGS])} for row in last.iter_rows(named=True)}


def _show(newest: list[dict[str, Any]], model: Calibrator) -> None:
    """The newest row of some devices, on stdout."""
    rows = []
    for one in newest[:SHOWN]:
        numbers = ["" if one[name] is None else f"{one[name]:.4g}" for name in ("raw", CALIBRATED, LOW, HIGH)]
        rows.append([one[DEVICE], f"{one[TIME]:%Y-%m-%d %H:%M:%S}", *numbers, ", ".join(one["flag_names"])])
    unit = f", in {model.target.unit}" if model.target.unit else ""
    show_table(f"{model.target.name}{unit}: newest rows", ["", TIME, "raw", CALIBRATED, LOW, HIGH, FLAGS], rows)


def _announce(calibrator: Calibrator, device: str) -> None:
    """Say so if a device was not in training."""
    scaling = calibrator.inputs.scaling
    if scaling.known(device) is None:
        note(
            f"{device} was not in training: its first {scaling.settle:,} readings are scaled with the fleet's mean and"
            f" spread and flagged UNSETTLED; if it is one of {', '.join(scaling.devices)}, say so with --device"
        )
