"""`scare predict`: add calibrated values, intervals and flags to a table of raw readings, or to an archive of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from scare.archive.calibrate import HIDDEN, Archive, run_archive
from scare.archive.files import LabelColumns, find_files, local_copy, read_model_table, single_model
from scare.calibrator.calibrator import Calibrator, DeviceStreams
from scare.calibrator.mix_ups import explain_mix_ups
from scare.calibrator.model_card import describe_new_device
from scare.cli import options
from scare.cli.console import emit, note, progress, show_table
from scare.cli.options import AVERAGED_BELOW
from scare.data.alignment import COARSER, average
from scare.data.column_guess import find_time_and_device
from scare.data.column_mapping import ColumnMapping, iterate_tables
from scare.data.flags import MEANINGS, NO_VALUE, Flag, count_flags, flag_names
from scare.data.readings import CALIBRATED, DEVICE, FLAGS, HIGH, LOW, REFERENCE, TIME, Readings
from scare.data.tables import table_writer
from scare.errors import DataError, ExitCode, UsageError
from scare.executor import LOCAL, open_executor
from scare.words import duration, spell_counts

COUNTED = ("rows", "calibrated", "outside", "unsettled", "negative")  # of each device
DOUBTFUL = COUNTED[2:]
SAMPLED = 7  # every seventh row is compared with training: 7 does not divide an hour or a day
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
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 5 if fewer than half of a file's rows get a value.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="For an archive: parallel processes.")] = 1,
    executor: options.ExecutorName = LOCAL,
    as_json: options.Json = False,
) -> None:
    """Write raw and calibrated values, intervals and flags side by side, in bounded memory.

    Rows out of order are sorted, and finer readings averaged to the step of training; both read the file whole.
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
        table = Path(readings[0])
        calibrator = options.open_for_table(model, table, labels.time, labels)
        enough = _predict_file(calibrator, table, out or Path("calibrated.csv"), labels, device, as_json)
        if strict and not enough:
            raise typer.Exit(ExitCode.PARITY_FAILED)
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


def _predict_file(model: Calibrator, file: Path, out: Path, labels: LabelColumns, device: str, as_json: bool) -> bool:
    """Calibrate one file, a chunk of rows at a time, and print the newest row of each device.

    Returns whether at least half of the rows have a value; otherwise a warning gives the reasons.
    """
    times, guessed_device = find_time_and_device(file, labels.time, labels)
    device_column = labels.device_column or ("" if device else guessed_device)
    mapping = ColumnMapping(times, model.inputs.channels, model.target, device_column, **labels.table_options)
    new: list[str] = []

    def announce(device: str, times: np.ndarray, values: np.ndarray) -> None:
        lines = describe_new_device(model, device, times, values)
        if lines:
            new.append(device)
        for line in lines:
            note(line)

    streams, newest, devices = DeviceStreams(model, announce), dict[str, dict[str, Any]](), dict[str, Counter[str]]()
    sample: list[np.ndarray] = []
    flags, reasons = Counter[str](dict.fromkeys(Flag.__members__, 0)), Counter[str]()
    with progress("calibrating", "count") as (bar, task), table_writer(out) as write:
        for chunk in rows_for(model.inputs.step_seconds, file, mapping, device):
            result = streams.push(chunk)
            write(result)
            newest |= _newest(result, model)
            values = result.select(one.name for one in model.inputs.channels).cast(pl.Float64)
            sample.append(values.gather_every(SAMPLED).to_numpy())
            for name, counts in _count_rows(result).items():
                devices[name] = devices.get(name, Counter()) + counts
            flags.update(count_flags(result[FLAGS].to_numpy()))
            reasons.update(count_flags(result.filter(pl.col(CALIBRATED).is_null())[FLAGS].to_numpy() & NO_VALUE))
            bar.update(task, count=f"{sum(one['rows'] for one in devices.values()):,} rows")
    rows, calibrated = (sum(one[name] for one in devices.values()) for name in ("rows", "calibrated"))
    if as_json:
        facts = {"file": str(out), "rows": rows, "calibrated": calibrated, "flags": dict(flags)}
        counted = {name: {what: one[what] for what in COUNTED} for name, one in devices.items()}
        emit({**facts, "devices": counted, "new_devices": new, "newest": list(newest.values())})
    else:
        _show(list(newest.values()), model)
    note(f"{calibrated:,} of {rows:,} rows calibrated. Wrote {out}.")
    if any(flags.values()):
        note(f"Flagged rows: {spell_counts(flags)}.")
    if sample:
        for line in explain_mix_ups(model.inputs, np.concatenate(sample)):
            note(f"Warning: {line}")
    if 5 * flags[Flag.OUTSIDE.name] > rows:
        note(f"Warning: {flags[Flag.OUTSIDE.name]:,} of {rows:,} rows are unlike training (OUTSIDE).")
    for name in new[:SHOWN]:
        doubtful = ", ".join(f"{devices[name][what]:,} {what}" for what in DOUBTFUL)
        note(f"{name} was not in training: of its {devices[name]['rows']:,} rows {doubtful}.")
    if 2 * calibrated < rows:
        why = "; ".join(f"{count:,} rows: {MEANINGS[Flag[name]]}" for name, count in reasons.most_common() if count)
        note(f"Warning: fewer than half of the rows have a calibrated value. {why}.")
    return 2 * calibrated >= rows


def rows_for(step_seconds: float, file: Path, mapping: ColumnMapping, device: str) -> Iterator[pl.DataFrame]:
    """Yield a file's rows as a calibrator of this time step takes them.

    Rows out of order are sorted, and finer readings averaged, as in training; either needs the whole file in memory.
    """
    in_order, step = _order_and_step(file, mapping)
    if step > step_seconds * COARSER:
        raise DataError(
            f"{file} has a reading every {duration(step)}, and the model was trained on one every"
            f" {duration(step_seconds)}: give finer readings, or train on means of {duration(step)}"
            f" (scare train --set data.step={step:g})"
        )
    finer = step < AVERAGED_BELOW * step_seconds
    own = [pl.lit(device).alias(DEVICE)] if device and not mapping.device_column else []
    chunks = (chunk.with_columns(own) for chunk in iterate_tables(file, mapping))
    if in_order and not finer:
        yield from chunks
        return
    if not in_order:
        note(f"{file}: the rows are not in order of time. They are sorted, and repeated times are left out.")
    if finer:
        note(f"{file}: a reading every {duration(step)} is averaged to {duration(step_seconds)}, as in training.")
    for rows in pl.concat(list(chunks)).partition_by(DEVICE, maintain_order=True):
        rows = rows.unique(TIME, keep="first").sort(TIME)
        if finer:
            name, reference = rows[DEVICE][0], mapping.reference if REFERENCE in rows.columns else None
            means = average(Readings(name, rows.drop(DEVICE), mapping.channels, reference), step_seconds).frame
            rows = means.select(pl.lit(name).alias(DEVICE), pl.exclude(FLAGS))
        yield rows


def _order_and_step(file: Path, mapping: ColumnMapping) -> tuple[bool, float]:
    """Whether the rows of each device are in order of time, and the usual time between them, in seconds."""
    latest, steps, in_order = dict[str, float](), [], True
    for chunk in iterate_tables(file, replace(mapping, channels=mapping.channels[:1], reference=None)):
        for part in chunk.partition_by(DEVICE):
            name, times = part[DEVICE][0], part[TIME].dt.epoch("us").to_numpy() / 1e6
            in_order &= bool((np.diff(times, prepend=latest.get(name, -np.inf)) >= 0).all())
            latest[name] = max(latest.get(name, -np.inf), float(times.max()))
            apart = np.diff(np.unique(times))
            steps += [float(np.median(apart))] if len(apart) else []
    return in_order, float(np.median(steps)) if steps else 0.0


def _count_rows(result: pl.DataFrame) -> dict[str, Counter[str]]:
    """Count what `COUNTED` names, for each device."""
    flags, calibrated = pl.col(FLAGS), pl.col(CALIBRATED)
    counts = result.group_by(DEVICE).agg(
        pl.len().alias("rows"),
        calibrated.count().alias("calibrated"),
        ((flags & int(Flag.OUTSIDE)) > 0).sum().alias("outside"),
        ((flags & int(Flag.UNSETTLED)) > 0).sum().alias("unsettled"),
        (calibrated < 0).sum().alias("negative"),
    )
    return {row[DEVICE]: Counter({name: row[name] for name in COUNTED}) for row in counts.iter_rows(named=True)}


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
