"""`scare predict`: add calibrated values, intervals and flags to a table of raw readings, or to an archive of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import time as current_time
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from scare.archive.calibrate import Archive, run_archive
from scare.archive.input_files import find_files, local_copy, read_model_table, single_model
from scare.archive.journal import HIDDEN
from scare.calibrator.air_index import UNUSED_LEVEL, HourlyIndex, find_index
from scare.calibrator.calibrator import Calibrator, DeviceStreams
from scare.calibrator.input_check import describe_unit, describe_unlike, explain_mix_ups, find_codes_beyond
from scare.calibrator.model_card import describe_age, describe_new_device
from scare.calibrator.provenance import describe_table, product_version
from scare.cli import options
from scare.cli.console import emit, note, progress, show_table
from scare.data.alignment import DeviceSpan, find_device_spans, iterate_at_step
from scare.data.column_guess import find_time_and_device
from scare.data.column_kind import describe_filled, describe_limits, describe_sorted, find_codes
from scare.data.column_mapping import ColumnMapping, LabelColumns
from scare.data.flags import MEANINGS, NO_VALUE, Flag, count_flags, flag_names
from scare.data.quantities import display_unit
from scare.data.readings import CALIBRATED, DEVICE, FLAGS, HIGH, LOW, OUTSIDE_CHANNEL, OUTSIDE_RANGES, TIME
from scare.data.sites import Sites, read_sites
from scare.data.tables import open_table, table_writer
from scare.errors import DataError, ExitCode, UsageError
from scare.executor import LOCAL, open_executor
from scare.windowing.training_range import OUTSIDE_GRADES
from scare.words import spell_counts

DOUBTFUL = ("outside", "unsettled", "negative")  # kinds of rows that are counted for each device
COUNTED = ("rows", "calibrated", *DOUBTFUL)
SAMPLED = 7  # after the first chunk, every seventh row is compared with training: 7 does not divide an hour or a day
OLDEST = datetime(2010, 1, 1, tzinfo=UTC).timestamp()  # a clock that was never set starts in 1970, 1980 or 2000
DAY = 86400.0  # s
SHOWN = 10  # devices, files, reasons that are printed
MOST_FLAGGED = 0.2  # share of the rows with a flag above which a warning is printed


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
    sites: options.SiteTable = None,
    index: Annotated[
        str, typer.Option("--index", help="Also write an air quality index of each hour: us-aqi or eea.")
    ] = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 5 if fewer than half of a file's rows get a value.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="For an archive: parallel processes.")] = 1,
    executor: options.ExecutorName = LOCAL,
    as_json: options.Json = False,
) -> None:
    """Write raw and calibrated values, intervals and flags side by side, in bounded memory.

    Rows out of order are sorted, which reads the file whole, and finer readings averaged to the step of training.
    For a folder or a glob (an archive), each file becomes one of the same name in --out; run again to resume.

    Examples:
      scare predict no2.scare raw.csv --out calibrated.csv
      scare predict pm.scare fleet.parquet --device-column box --out calibrated.parquet
      scare predict barkjohn-2021 purpleair.csv --index us-aqi --out calibrated.csv
      scare predict pm.scare network --out calibrated --jobs 2
      scare predict 'network/2026-*.csv.gz' --models models.csv --sites sites.csv --out calibrated
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
    stays = read_sites(sites) if sites else Sites()
    if models is None and len(readings) == 1 and Path(readings[0]).is_file():
        table = Path(readings[0])
        if out and out.resolve() == table.resolve():
            raise UsageError(f"--out {out} would replace the readings; give it another name")
        calibrator = options.open_for_table(model, table, labels.time, labels)
        air_index, step = find_index(index, calibrator.target) if index else None, calibrator.inputs.step_seconds
        level = calibrator.intervals.level if calibrator.intervals else UNUSED_LEVEL
        hourly = HourlyIndex(air_index, level, step) if air_index else None
        metadata = describe_table({"*": (product_version(model), calibrator)})  # "*": every device
        output = Output(out or Path("calibrated.csv"), metadata, stays, hourly)
        has_enough_values = _predict_file(calibrator, table, output, labels, device, as_json)
        if strict and not has_enough_values:
            raise typer.Exit(ExitCode.CHECK_FAILED)
        return
    if index:
        raise UsageError("--index is for one file")
    if device:
        raise UsageError(
            "--device is for one file; an archive names devices by a column, a folder device=… or the file's name"
        )
    out = out or Path("calibrated")

    def find_model(name: str, folder: Path = Path()) -> Path:
        """Return a model's file; a correction is bound to the first file and written to the folder of results."""
        if (folder / name).exists() or options.find_published(name) is None:
            return folder / name
        with local_copy(find_files(readings, device_column)[0].path) as first:
            return options.open_for_table(name, first, labels.time, labels).save(out / HIDDEN / f"{name}.scare")

    model_table = read_model_table(models, find_model) if models else single_model(find_model(model))
    archive = Archive(
        tuple(readings), out, model_table, labels.time, labels.device_column, stays, **labels.table_options
    )
    predict_archive(archive, jobs, executor, as_json)


@dataclass(frozen=True)
class Output:
    """The table to write, its metadata, where devices stood, and the index of each hour, if one is wanted."""

    path: Path
    metadata: Mapping[str, str]
    sites: Sites
    index: HourlyIndex | None

    @property
    def index_path(self) -> Path:
        """The file of the index: NAME.index.csv for NAME.csv."""
        name, dot, suffix = self.path.name.partition(".")
        return self.path.with_name(f"{name}.index{dot}{suffix}")


def _predict_file(
    model: Calibrator, file: Path, output: Output, labels: LabelColumns, device: str, as_json: bool
) -> bool:
    """Calibrate one file, a chunk of rows at a time, and print the newest row of each device.

    Returns whether at least half of the rows have a value; otherwise a warning gives the reasons.
    """
    times, guessed_device = find_time_and_device(file, labels.time, labels)
    table = open_table(file, labels, probed=True)
    for line in table.notes:
        note(f"{file}: {line}")
    for channel in model.inputs.channels:
        if line := describe_unit(channel, table.units.get(channel.name, "")):
            note(f"Warning: {line}.")
    device_column = labels.device_column or ("" if device else guessed_device)
    mapping = ColumnMapping(times, model.inputs.channels, model.target, device_column, **labels.table_options)
    file_device = "" if device_column else device  # the device of all rows
    step = model.inputs.step_seconds
    spans = _readable_spans(file, replace(labels, time=times, device_column=device_column), file_device, step)
    steps = {span.device: step for span in spans if not span.refusal(step)}
    if age := describe_age(model.facts, min(span.first for span in spans), max(span.last for span in spans)):
        note(f"Warning: {age}")
    new: list[str] = []  # devices that were not in training

    def announce(device: str, times: np.ndarray, values: np.ndarray) -> None:
        lines = describe_new_device(model, device, times, values)
        if lines:
            new.append(device)
        for line in lines:
            note(line)

    streams, counts = DeviceStreams(model, announce), FileCounts(model)
    with progress("calibrating", "count") as (bar, task), table_writer(output.path, output.metadata) as write:
        for chunk in iterate_at_step(file, mapping, spans, steps, file_device):
            result = streams.push(chunk)
            write(output.sites.add_to(result))
            if output.index is not None:
                output.index.add(result)
            counts.add(result)
            bar.update(task, count=f"{counts.total('rows'):,} rows")
    _report_file(model, counts, output, new, as_json)
    return 2 * counts.total("calibrated") >= counts.total("rows")


def _report_file(model: Calibrator, counts: "FileCounts", output: Output, new: Sequence[str], as_json: bool) -> None:
    """Print how many of a file's rows have a value, and what is doubtful; `new` devices were not in training."""
    rows, calibrated = counts.total("rows"), counts.total("calibrated")
    newest = list(counts.newest.values())
    if as_json:
        facts = {"file": str(output.path), "rows": rows, "calibrated": calibrated, "flags": dict(counts.flags)}
        devices = {name: {kind: counted[kind] for kind in COUNTED} for name, counted in counts.devices.items()}
        emit({**facts, "devices": devices, "new_devices": list(new), "newest": newest})
    else:
        _show(newest, model)
    note(f"{calibrated:,} of {rows:,} rows calibrated. Wrote {output.path}.")
    if output.index is not None:
        _write_index(output.index, output.index_path)
    if any(counts.flags.values()):
        note(f"Flagged rows: {spell_counts(counts.flags)}.")
    if counts.outside.counts:
        note(counts.outside.describe())
    if counts.sample:
        for line in _warnings(model, counts.sample, counts.flags, rows):
            note(f"Warning: {line}")
    for name in new[:SHOWN]:
        counted = counts.devices[name]
        doubtful = ", ".join(f"{counted[kind]:,} {kind}" for kind in DOUBTFUL)
        note(f"{name} was not in training: of its {counted['rows']:,} rows {doubtful}.")
    if 2 * calibrated < rows:
        reasons = counts.reasons.most_common()
        listed = "; ".join(f"{count:,} rows: {MEANINGS[Flag[name]]}" for name, count in reasons if count)
        note(f"Warning: fewer than half of the rows have a calibrated value. {listed}.")


class FileCounts:
    """What is counted over the rows of a file while they are calibrated."""

    def __init__(self, model: Calibrator) -> None:
        self._channels = [channel.name for channel in model.inputs.channels]
        self.newest: dict[str, dict[str, Any]] = {}  # the last row of each device
        self.devices: dict[str, Counter[str]] = {}  # counts of `COUNTED`
        self.sample: list[np.ndarray] = []  # values of all rows of the first chunk, and of every seventh row of others
        self.flags = Counter[str](dict.fromkeys(Flag.__members__, 0))
        self.reasons = Counter[str]()  # flags of rows without a value
        self.outside = OutsideCounts()

    def add(self, result: pl.DataFrame) -> None:
        """Count the rows of a chunk, as `Calibrator.predict` returns them."""
        self.newest |= _newest(result, self._channels[0])
        values = result.select(self._channels).cast(pl.Float64)
        self.sample.append(values.gather_every(SAMPLED if self.sample else 1).to_numpy())
        for name, counts in _count_rows(result).items():
            self.devices[name] = self.devices.get(name, Counter()) + counts
        self.outside.add(result)
        self.flags.update(count_flags(result[FLAGS].to_numpy()))
        without_value = result.filter(pl.col(CALIBRATED).is_null())[FLAGS].to_numpy()
        self.reasons.update(count_flags(without_value & NO_VALUE))

    def total(self, kind: str) -> int:
        """Sum the rows of one of the kinds `COUNTED` over all devices."""
        return sum(counts[kind] for counts in self.devices.values())


class OutsideCounts:
    """Counts rows flagged OUTSIDE by how far beyond training they lie."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self._farthest, self._channel = 0.0, ""  # the largest distance so far, in ranges, and its channel

    def add(self, result: pl.DataFrame) -> None:
        """Count the rows of a chunk by grade, and keep the largest distance and its channel."""
        is_outside = (pl.col(FLAGS) & int(Flag.OUTSIDE)) > 0
        graded = result.filter(is_outside).select(OUTSIDE_RANGES, OUTSIDE_CHANNEL).drop_nulls(OUTSIDE_RANGES)
        distances = graded[OUTSIDE_RANGES].to_numpy()  # beyond the range of a channel, in widths of that range
        grades, largest = list(OUTSIDE_GRADES), list(OUTSIDE_GRADES.values())
        # The largest distance of the last grade is infinite, so every distance has a grade.
        for grade in np.searchsorted(largest, distances).tolist():
            self.counts[grades[grade]] += 1
        if len(distances) and distances.max() > self._farthest:
            self._farthest, self._channel = distances.max(), graded[OUTSIDE_CHANNEL][int(distances.argmax())]

    def describe(self) -> str:
        """Say how many rows lie how far beyond training, and in which channel one lies farthest."""
        parts = [f"{self.counts[text]:,} {text}" for text in OUTSIDE_GRADES if self.counts[text]]
        most = f"; the farthest by {self._farthest:.2g} ranges of {self._channel}" if self._farthest else ""
        return f"Rows flagged OUTSIDE: {', '.join(parts)}{most}."


def _write_index(hourly: HourlyIndex, path: Path) -> None:
    """Write the index of each hour, and print the newest."""
    table, index = hourly.table(), hourly.of.index
    with table_writer(path) as write:
        write(table)
    note(f"{index.title}: {table.height:,} hours. Wrote {path}.")
    for row in table.group_by(DEVICE, maintain_order=True).last().head(SHOWN).iter_rows(named=True):
        # A column p_CATEGORY holds the probability of each category.
        likely = max((name for name in row if name.startswith("p_")), key=lambda name: row[name] or 0.0)
        sure = f", {100 * row[likely]:.0f} % sure of {likely[2:].replace('_', ' ')}" if row[likely] is not None else ""
        value = f"{row['index']}, " if row["index"] is not None else ""
        note(f"{row[DEVICE]}, {row[TIME]:%Y-%m-%d %H:%M}: {value}{row['category']}{sure}")
    if index.second_hand:
        note(f"{index.title}: second-hand, {index.second_hand}.")


def _warnings(model: Calibrator, sample: Sequence[np.ndarray], flags: Mapping[str, int], rows: int) -> Iterator[str]:
    """Yield a sentence for each problem of a whole channel.

    `sample` has the values [rows, channels] of each chunk: all rows of the first chunk, a share of those of the others.
    `flags` counts the rows with each flag, by its name, among all `rows` of the file.
    """
    # Checks that compare neighbouring rows, or count repeated values, need all rows: only the first chunk has them.
    for index, (channel, column) in enumerate(zip(model.inputs.channels, sample[0].T, strict=True)):
        values = column[np.isfinite(column)]
        if not len(values):
            yield f"{channel.name} has no reading."
            continue
        yield from (f"{line}." for line in describe_limits(values, channel))
        within = values[(values >= channel.low) & (values <= channel.high)]
        yield from filter(None, (describe_sorted(channel.name, within), describe_filled(channel.name, within)))
        codes = {*find_codes(within), *find_codes_beyond(model.inputs, index, within)} if len(within) else set()
        for code in sorted(codes):
            yield (
                f"{channel.name}: {code:g} is far from all other readings; if it means 'no reading', add"
                f" --missing {code:g}."
            )
    values = np.concatenate(sample)  # what follows compares ranges and means: a share of the rows is enough
    yield from explain_mix_ups(model.inputs, values)
    outside, stuck = flags[Flag.OUTSIDE.name], flags[Flag.STUCK.name]
    if outside > MOST_FLAGGED * rows:
        difference = describe_unlike(model.inputs, values)
        yield f"{outside:,} of {rows:,} rows are unlike training (OUTSIDE): {difference}"
    if stuck > MOST_FLAGGED * rows:
        yield f"{stuck:,} of {rows:,} rows repeat one reading (STUCK): is the sensor connected?"


def _readable_spans(file: Path, labels: LabelColumns, device: str, step_seconds: float) -> list[DeviceSpan]:
    """Find the devices of a file, and print which are left out for a model of this time step, and other changes.

    Raises a DataError if no device can be read.
    """
    spans = find_device_spans(file, labels, device)
    refusals = {span.device: refusal for span in spans if (refusal := span.refusal(step_seconds))}
    sentences = [f"{device} {refusal}" for device, refusal in refusals.items()]
    if len(refusals) == len(spans):
        raise DataError(f"{file}: {sentences[0]}")
    _note_first(f"{file}: left out", sentences, "")
    for span in spans:
        if span.first < OLDEST or span.last > current_time() + DAY:
            first, last = (f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}" for moment in (span.first, span.last))
            note(f"Warning: {span.device}: its times go from {first} to {last}; was the clock of the logger set?")
    changes: list[str] = []
    for span in spans:
        if span.device not in refusals:
            changes += span.changes(step_seconds)
    _note_first(str(file), list(dict.fromkeys(changes)), "")  # each once
    return spans


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


def _newest(result: pl.DataFrame, channel: str) -> dict[str, dict[str, Any]]:
    """Return the last row of each device as plain values, with the value of the calibrated `channel` as `raw`."""
    raw = pl.col(channel).alias("raw")
    last = result.select(DEVICE, TIME, raw, CALIBRATED, LOW, HIGH, FLAGS).unique(DEVICE, keep="last")
    return {row[DEVICE]: {**row, "flag_names": flag_names(row[FLAGS])} for row in last.iter_rows(named=True)}


def _show(newest: list[dict[str, Any]], model: Calibrator) -> None:
    """Print the newest row of the first devices."""
    rows = []
    for row in newest[:SHOWN]:
        numbers = ["" if row[name] is None else f"{row[name]:.4g}" for name in ("raw", CALIBRATED, LOW, HIGH)]
        rows.append([row[DEVICE], f"{row[TIME]:%Y-%m-%d %H:%M:%S}", *numbers, ", ".join(row["flag_names"])])
    unit = f", in {display_unit(model.target.unit)}" if model.target.unit else ""
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
        rows = []
        for name in worst:
            counts = devices[name]
            rows.append([name, f"{counts['rows']:,}", f"{counts['calibrated']:,}", spell_counts(counts["flags"])])
        which = f", the {len(worst)} with the most rows without a value" if len(devices) > SHOWN else ""
        show_table(f"{len(devices):,} devices{which}", ["", "rows", "calibrated", "flagged"], rows)
    _note_summary(archive, facts)
    if not facts["rows"]:
        raise DataError(f"nothing was calibrated; the reasons are in {facts['manifest']}")


def _note_summary(archive: Archive, facts: Mapping[str, Any]) -> None:
    """Print totals, this run's speed, and which files have no result; `facts` is what `run_archive` returns."""
    now = facts["now"]
    rate = now["rows"] / max(facts["seconds"], 0.01)
    note(f"{facts['calibrated']:,} of {facts['rows']:,} rows calibrated. {archive.out} has {facts['files']:,} files.")
    note(f"This run: {now['files']:,} files, {now['rows']:,} rows in {facts['seconds']:,.1f} s ({rate:,.0f} rows/s).")
    if now["files"]:
        note("Slowest files: " + ", ".join(f"{file['file']} {file['seconds']:.2f} s" for file in facts["slowest"]))
    unlike = [
        f"{name}: {outside:,} of {counted['rows']:,} rows are unlike training (OUTSIDE);"
        " predict one of its files alone, which says why"
        for name, counted in facts["devices"].items()
        if (outside := counted["flags"].get(Flag.OUTSIDE.name, 0)) > MOST_FLAGGED * counted["rows"]
    ]
    _note_first("Warning", unlike, facts["manifest"])
    changed = [": ".join(entry.values()) for entry in facts["changed"]]
    _note_first("Before calibration", changed, facts["manifest"])
    _note_first("Left out", [": ".join(filter(None, entry.values())) for entry in facts["left_out"]], facts["manifest"])
    _note_first("New since the run began; run again to calibrate it", facts["appeared"], "")
    _note_first("Result of a file that no longer exists", facts["gone"], "")
    _note_first("Result that was changed or damaged after it was written", facts["damaged"], "")


def _note_first(label: str, names: Sequence[str], file: str) -> None:
    """Print the first names, each after a label, and how many more there are; `file` lists all, if it is not empty."""
    for name in names[:SHOWN]:
        note(f"{label}: {name}")
    if len(names) > SHOWN:
        note(f"{label}: {len(names) - SHOWN:,} more{f', in {file}' if file else ''}")
