"""`scare predict`: add calibrated values, intervals and flags to a table of raw readings, or to an archive of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from scare.archive.calibrate import HIDDEN, Archive, run_archive
from scare.archive.files import LabelColumns, find_files, local_copy, read_model_table, single_model
from scare.calibrator.calibrator import Calibrator, DeviceStreams
from scare.calibrator.model_card import describe_new_device
from scare.cli import options
from scare.cli.console import emit, note, progress, show_table
from scare.data.column_guess import find_time_and_device
from scare.data.column_mapping import ColumnMapping, iterate_tables
from scare.data.flags import count_flags, flag_names
from scare.data.readings import CALIBRATED, DEVICE, FLAGS, HIGH, LOW, TIME
from scare.data.tables import table_writer
from scare.errors import DataError, UsageError
from scare.executor import LOCAL, open_executor
from scare.words import spell_counts

SHOWN = 10  # devices, files, reasons that are printed


def predict(
    model: Annotated[str, typer.Argument(help="A .scare file or a published correction; not with --models.")],
    places: Annotated[
        list[str] | None, typer.Argument(help="Raw readings: CSV or Parquet; files, a folder or a glob.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Table to write (.csv, .csv.gz, .parquet), or folder.",
            show_default="calibrated.csv, or the folder calibrated",
        ),
    ] = None,
    time: options.TimeColumns = "",
    dates: options.SlashDates = "",
    timezone: options.TimeZone = "",
    encoding: options.Encoding = "",
    skip_rows: options.SkipRows = None,
    sheet: options.Sheet = "",
    missing: options.MissingCodes = None,
    device_column: options.DeviceColumn = "",
    device: Annotated[str, typer.Option("--device", help="Device name, if the file has none.")] = "",
    models: Annotated[
        Path | None, typer.Option("--models", help="For an archive: a table device,model instead of MODEL.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="For an archive: parallel processes.")] = 1,
    executor: options.ExecutorName = LOCAL,
    as_json: options.Json = False,
) -> None:
    """Write raw and calibrated values, intervals and flags side by side, in bounded memory.

    For a folder or a glob (an archive), each file becomes one of the same name in --out; run again to resume.

    Examples:
      scare predict no2.scare raw.csv --out calibrated.csv
      scare predict pm.scare fleet.parquet --device-column box --out calibrated.parquet
      scare predict barkjohn-2021 purpleair.csv --out calibrated.csv
      scare predict pm.scare network --out calibrated --jobs 2
      scare predict 'network/2026-*.csv.gz' --models models.csv --out calibrated
    """
    readings = [*([model] if models else []), *(places or [])]  # with --models, the first argument is a place too
    if not readings:
        raise UsageError(f"no readings are given; name them after the model: scare predict {model} raw.csv")
    labels = LabelColumns(
        options.split_names(time) if time else (),
        device_column,
        dates=dates,
        timezone=timezone,
        encoding=encoding,
        skip_rows=skip_rows,
        sheet=sheet,
        missing=tuple(missing or ()),
    )
    if models is None and len(readings) == 1 and Path(readings[0]).is_file():
        calibrator = options.open_for_table(model, Path(readings[0]), labels.time, labels)
        _predict_file(calibrator, Path(readings[0]), out or Path("calibrated.csv"), labels, device, as_json)
        return
    if device:
        raise UsageError(
            "--device is for one file; an archive names devices by a column, a folder device=… or the file's name"
        )
    out = out or Path("calibrated")

    def find_model(name: str, folder: Path = Path()) -> Path:
        """A model's file; a correction is bound to the first file and written to the folder of results."""
        if (folder / name).exists() or options.find_published(name) is None:
            return folder / name
        with local_copy(find_files(readings, device_column)[0].path) as first:
            return options.open_for_table(name, first, labels.time, labels).save(out / HIDDEN / f"{name}.scare")

    chosen = read_model_table(models, find_model) if models else single_model(find_model(model))
    archive = Archive(tuple(readings), out, chosen, labels.time, labels.device_column, **labels.table_options)
    predict_archive(archive, jobs, executor, as_json)


def _predict_file(model: Calibrator, file: Path, out: Path, labels: LabelColumns, device: str, as_json: bool) -> None:
    """Calibrate one file, a chunk of rows at a time, and print the newest row of each device."""
    times, guessed_device = find_time_and_device(file, labels.time, labels)
    device_column = labels.device_column or ("" if device else guessed_device)
    mapping = ColumnMapping(times, model.inputs.channels, model.target, device_column, **labels.table_options)

    def announce(device: str, times: np.ndarray, values: np.ndarray) -> None:
        for line in describe_new_device(model, device, times, values):
            note(line)

    streams = DeviceStreams(model, announce)
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
    note(f"{calibrated:,} of {rows:,} rows calibrated. Wrote {out}.")
    if any(flags.values()):
        note(f"Flagged rows: {spell_counts(flags)}.")


def _newest(result: pl.DataFrame, model: Calibrator) -> dict[str, dict[str, Any]]:
    """The last row of each device as plain values, with the raw value of the calibrated channel as `raw`."""
    raw = pl.col(model.inputs.channels[0].name).alias("raw")
    last = result.select(DEVICE, TIME, raw, CALIBRATED, LOW, HIGH, FLAGS).unique(DEVICE, keep="last")
    return {row[DEVICE]: {**row, "flag_names": flag_names(row[FLAGS])} for row in last.iter_rows(named=True)}


def _show(newest: list[dict[str, Any]], model: Calibrator) -> None:
    """Print the newest row of the first devices."""
    rows = []
    for one in newest[:SHOWN]:
        numbers = ["" if one[name] is None else f"{one[name]:.4g}" for name in ("raw", CALIBRATED, LOW, HIGH)]
        rows.append([one[DEVICE], f"{one[TIME]:%Y-%m-%d %H:%M:%S}", *numbers, ", ".join(one["flag_names"])])
    unit = f", in {model.target.unit}" if model.target.unit else ""
    show_table(f"{model.target.name}{unit}: newest rows", ["", TIME, "raw", CALIBRATED, LOW, HIGH, FLAGS], rows)


def predict_archive(archive: Archive, jobs: int, executor: str, as_json: bool) -> None:
    """Calibrate an archive and print a summary."""
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
            note(f"Finished files stay in {archive.out}. Run the same command to resume.")
            raise
    if as_json:
        emit({"folder": str(archive.out), **facts})
    else:
        devices = facts["devices"]
        worst = sorted(devices, key=lambda name: devices[name]["calibrated"] - devices[name]["rows"])[:SHOWN]
        rows = [
            [name, *(f"{devices[name][one]:,}" for one in ("rows", "calibrated")), spell_counts(devices[name]["flags"])]
            for name in worst
        ]
        rest = f", the {len(worst)} with the most rows without a value" if len(devices) > SHOWN else ""
        show_table(f"{len(devices):,} devices{rest}", ["", "rows", "calibrated", "flagged"], rows)
    _note_summary(archive, facts)
    if not facts["rows"]:
        raise DataError(f"nothing was calibrated; the reasons are in {facts['manifest']}")


def _note_summary(archive: Archive, facts: Mapping[str, Any]) -> None:
    """Print totals, this run's speed, and which files have no result; `facts` is what `run_archive` returns."""
    now, rate = facts["now"], facts["now"]["rows"] / max(facts["seconds"], 0.01)
    note(f"{facts['calibrated']:,} of {facts['rows']:,} rows calibrated. {archive.out} holds {facts['files']:,} files.")
    note(f"This run: {now['files']:,} files, {now['rows']:,} rows in {facts['seconds']:,.1f} s ({rate:,.0f} rows/s).")
    if now["files"]:
        note("Slowest files: " + ", ".join(f"{one['file']} {one['seconds']:.2f} s" for one in facts["slowest"]))
    _list("Left out", [": ".join(filter(None, one.values())) for one in facts["left_out"]], facts["manifest"])
    _list("New since the run began; run again to calibrate", facts["appeared"], "")
    _list("Result of a file that no longer exists", facts["gone"], "")


def _list(what: str, names: Sequence[str], where: str) -> None:
    """Print the first names, and how many more there are; `where` is a file that lists all, or empty."""
    for name in names[:SHOWN]:
        note(f"{what}: {name}")
    if len(names) > SHOWN:
        note(f"{what}: {len(names) - SHOWN:,} more{f', in {where}' if where else ''}")
