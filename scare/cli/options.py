"""Options that several commands share; all other settings are keys of the config file (`config`).

Options of a single command are in that command's file. The functions that open the model or the readings that a user
names are here too.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import (
    ALL_VERSIONS,
    CORRECTIONS,
    Correction,
    bind,
    find_channels,
    find_correction,
)
from scare.cli.console import note
from scare.data.alignment import FINER
from scare.data.colocation import SplitBy, prepare, read_files
from scare.data.column_guess import find_time_and_device
from scare.data.column_mapping import ColumnMapping, DataSection, iterate_tables
from scare.data.known_formats import Stamp
from scare.data.readings import DEVICE, TIME, Channel, Readings
from scare.data.tables import AS_FOUND, Dates, TableOptions, open_table
from scare.errors import DataError, NotApplicableError, UsageError
from scare.export.lowering import Arithmetic, find_arithmetic
from scare.windowing.windows import parse_window
from scare.words import duration, suggestion

DATA, SPLIT, MODEL, SEARCH, OUTPUT = "Data", "Split", "Model", "Search", "Output"  # panels of `--help`
SMALLEST_WITHIN = 0.03  # share of the lowest error, for `--smallest`
CORRECTION_STEP_SECONDS = 60.0  # between readings, of a published correction unless --step is given


def option(panel: str, name: str, about: str, default: str = "", **limits: Any) -> Any:
    """Return an option in a panel of the help; `default` describes the value if neither option nor config gives one."""
    return typer.Option(name, help=about, rich_help_panel=panel, show_default=default or True, **limits)


def arithmetic_option(about: str, *names: str) -> Any:
    """Return the option `--arithmetic`, whose help lists `names`; `int8` and `fixed` are the same."""
    choices = "|".join(names or Arithmetic)
    return typer.Option("--arithmetic", help=about, metavar=f"[{choices}]", parser=find_arithmetic)


def window_option(about: str) -> Any:
    """Return the option `--window`; typer knows no unions, so a whole number of readings is annotated as text, too."""
    return option(MODEL, "--window", about, "follows the data", metavar="LENGTH", parser=parse_window)


Files = Annotated[list[Path], typer.Argument(help="One file per device, or one long file with a device column.")]
ConfigFile = Annotated[
    Path | None, option(DATA, "--config", "TOML file with all settings (docs/config.md); or --set KEY=VALUE.")
]
Settings = Annotated[
    list[str] | None, option(DATA, "--set", "Any key of the config file: training.members=3.", hidden=True)
]
TimeColumns = Annotated[
    str, option(DATA, "--time", "Time column, or columns to join: Date,Time. UTC unless they have a zone.")
]
SlashDates = Annotated[
    Dates, option(DATA, "--dates", "Order of dates like 3/4/2026, if no row proves it.", hidden=True)
]
TimeZone = Annotated[
    str, option(DATA, "--timezone", "Zone of times that state none: Europe/Berlin, +05:30.", "UTC", hidden=True)
]
Encoding = Annotated[
    str, option(DATA, "--encoding", "Character encoding of a text file: cp1252.", "as found", hidden=True)
]
SkipRows = Annotated[
    int | None, option(DATA, "--skip-rows", "Lines before the header.", "as found", min=0, hidden=True)
]
Sheet = Annotated[str, option(DATA, "--sheet", "Sheet of a spreadsheet.", "the first with a table", hidden=True)]
MissingCodes = Annotated[
    list[str] | None, option(DATA, "--missing", "Cell that means 'no reading': -999. May be repeated.", hidden=True)
]
ReferenceZone = Annotated[
    str,
    option(DATA, "--reference-timezone", "Zone of the reference's times, if they state none.", "UTC", hidden=True),
]
Channels = Annotated[str, option(DATA, "--channels", "Input columns, first the one to calibrate: NO2,OX,T,RH.")]
Reference = Annotated[str, option(DATA, "--reference", "Column of the reference instrument.")]
ReferenceFile = Annotated[str, option(DATA, "--reference-file", "Table of the reference, if it is a separate file.")]
Quantity = Annotated[
    str, option(DATA, "--quantity", "The pollutant, if no column name states it: PM2.5, O3, NO2.", hidden=True)
]
StampOption = Annotated[
    Stamp, option(DATA, "--stamp", "Whether a reference time is the beginning or end of its mean.", hidden=True)
]
StandardTemperature = Annotated[
    float | None,
    option(DATA, "--standard-temperature", "°C, to convert ppb and µg/m³ (EU: 20).", "25", hidden=True),
]
DeviceColumn = Annotated[str, option(DATA, "--device-column", "Column with the device name, in one long file.")]
Split = Annotated[SplitBy | None, option(SPLIT, "--split", "How to split into training, validation and test.", "time")]

# Options of `train`; hidden ones are often used, but the help stays short without them.
ModelName = Annotated[str | None, option(MODEL, "--model", "Which model to train.", "scare", hidden=True)]
Preset = Annotated[
    str | None, option(MODEL, "--preset", "Settings to start from: default or paper.", "default", hidden=True)
]
Window = Annotated[str | None, window_option("History of each value: 1h, 90min, or 60 readings.")]
Floor = Annotated[
    float | None, option(MODEL, "--floor", "Lowest calibrated value, in the reference's unit.", "none", hidden=True)
]
Steps = Annotated[int | None, option(MODEL, "--steps", "Training steps.", "the preset's", min=1)]
Epochs = Annotated[
    int | None, option(MODEL, "--epochs", "Epochs, instead of steps.", "the preset's", min=1, hidden=True)
]
SameAir = Annotated[
    bool,
    option(
        MODEL,
        "--same-air",
        "New devices will stand in the air of training: centre each by its own first readings.",
        hidden=True,
    ),
]
Force = Annotated[
    bool,
    option(MODEL, "--force", "Go on though the reference has nothing to do with the sensor.", hidden=True),
]
StrictData = Annotated[
    bool, option(MODEL, "--strict", "Exit with code 5 if anything about the data is doubtful.", hidden=True)
]
Refit = Annotated[
    bool,
    option(
        MODEL,
        "--refit/--no-refit",
        "After the evaluation, fit what was chosen again to all rows with a reference.",
        hidden=True,
    ),
]
TrainingSeed = Annotated[int | None, option(MODEL, "--seed", "Same seed, same result.", "the preset's", hidden=True)]

# Options of `train` and `tune`.
BudgetBoard = Annotated[
    str | None, option(MODEL, "--board", "Take only models that fit this board.", "any model", metavar="BOARD")
]
Instructions = Annotated[
    int | None,
    option(MODEL, "--instructions", "Most instructions of one value on the board.", "no limit", min=1, hidden=True),
]
Flash = Annotated[
    int | None,
    option(MODEL, "--flash", "Most bytes of flash.", "the board's", min=1, hidden=True),
]
Smallest = Annotated[
    bool,
    option(
        MODEL,
        "--smallest",
        f"Take the smallest model whose validation error is within {SMALLEST_WITHIN:.0%} of the lowest.",
        hidden=True,
    ),
]

# Options of `compare`.
Models = Annotated[str, option(MODEL, "--models", "all, or names: scare,tesla,ridge.", "all")]
Windows = Annotated[str | None, option(MODEL, "--windows", "Window lengths: 1h,6h or 60,360.", "follows the data")]
Seeds = Annotated[int | None, option(MODEL, "--seeds", "Fits per network, each with its own seed.", "3", min=1)]
Fits = Annotated[int | None, option(MODEL, "--jobs", "Fits to run in parallel.", "1", min=1)]

# Options of `tune`.
FirstWindow = Annotated[str | None, window_option("Window to start from; the search tries ½ to 4 times it.")]
Minutes = Annotated[float | None, option(SEARCH, "--minutes", "How long to search, in minutes.", "10", min=0)]
Candidates = Annotated[int | None, option(SEARCH, "--jobs", "Candidates to train in parallel.", "2", min=1)]

# Options of commands that open a model.
ModelFile = Annotated[str, typer.Argument(help="A .scare file, or a published correction: barkjohn-2021.")]
CorrectionStep = Annotated[
    float | None,
    typer.Option("--step", min=1e-3, help="Seconds between readings, for a correction.", show_default="60"),
]

# Options of many commands.
SiteTable = Annotated[
    Path | None, option(DATA, "--sites", "CSV site,device,from,to: which device stood where and when.")
]
TARGETS_HELP = "Targets to grade by: cen, epa, eu-2008-50, or a TOML file of your own."
TargetNames = Annotated[str, option(OUTPUT, "--targets", TARGETS_HELP, "all that apply")]
ReferenceUncertainty = Annotated[
    str, option(OUTPUT, "--reference-uncertainty", "u(bs,RM): a number, or the analyser: 42i, BAM.", "0")
]
Executor = Annotated[str | None, option(OUTPUT, "--executor", "local, dask or dask://HOST:PORT.", hidden=True)]
ExecutorName = Annotated[str, option(OUTPUT, "--executor", "Where to run: local, dask or dask://HOST:PORT.")]
ArithmeticName = Annotated[Arithmetic, arithmetic_option("Arithmetic of the C code.")]
Json = Annotated[bool, option(OUTPUT, "--json", "Print the result as JSON on stdout.")]
Seed = Annotated[int, typer.Option("--seed", help="Same seed, same result.")]


def columns(time: str, channels: str, reference: str, device_column: str, reference_file: str = "") -> dict[str, Any]:
    """Return the section [data] that column options describe, for `read_config`; None for what is not given."""
    return {
        "time": list(split_names(time)) if time else None,
        "channels": list(split_names(channels)) if channels else None,
        "reference": reference or None,
        "device_column": device_column or None,
        "reference_file": reference_file or None,
    }


def table_options(
    dates: Dates, timezone: str, encoding: str, skip_rows: int | None, sheet: str, missing: Sequence[str] | None
) -> dict[str, Any]:
    """Return those options about how to read a table that were given, as keys of [data] or of `TableOptions`."""
    values = {
        "dates": dates,
        "timezone": timezone,
        "encoding": encoding,
        "skip_rows": skip_rows,
        "sheet": sheet,
        "missing": list(missing or ()),
    }
    return {name: value for name, value in values.items() if value not in ("", None, [])}


def split_names(text: str) -> tuple[str, ...]:
    """Split a list of names at its commas."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise UsageError(f"'{text}' holds no name: separate names by commas")
    return names


def find_published(model: str) -> Correction | None:
    """Return the published correction of this name; None if there is a file of the name, or no such correction."""
    is_published = model in CORRECTIONS or model in ALL_VERSIONS
    return find_correction(model) if is_published and not Path(model).exists() else None


def open_calibrator(model: str, step_seconds: float | None = None) -> Calibrator:
    """Open the calibrator in a file, or a published correction with its default channel names.

    Only a correction takes `step_seconds`, the time between readings.
    """
    if correction := find_published(model):
        channels = {role.name: role.channel for role in correction.roles}
        return bind(correction, channels, step_seconds or CORRECTION_STEP_SECONDS)
    if step_seconds is not None:
        raise UsageError(f"a time step is only for published corrections; {model} has its own")
    if not (Path(model).exists() or model.endswith(".scare")):
        raise DataError(
            f"{model}: there is no such file and no such published correction{suggestion(model, CORRECTIONS)}"
        )
    return Calibrator.load(model)


def open_for_table(model: str, file: Path, time: tuple[str, ...] = (), table: TableOptions = AS_FOUND) -> Calibrator:
    """Open a calibrator for the readings in a file; a published correction takes its columns and time step from it."""
    correction = find_published(model)
    if correction is None:
        return open_calibrator(model)
    try:
        channels = find_channels(correction, [Channel(name) for name in open_table(file, table).columns])
    except NotApplicableError as error:
        raise DataError(f"{file}: {model} {error}") from error
    times, device = find_time_and_device(file, time, table)
    mapping = ColumnMapping(times, tuple(channels.values()), None, device, **table.table_options)
    # The step is the median time between readings of the first device, in the first rows of the file; with a single
    # row it is that of a correction without a file.
    rows = next(iterate_tables(file, mapping))
    stamps = rows.filter(pl.col(DEVICE) == rows[DEVICE][0])[TIME].unique().sort()
    step = float(stamps.diff().dt.total_microseconds().median() or 1e6 * CORRECTION_STEP_SECONDS) / 1e6  # type: ignore[arg-type]
    sources = ", ".join(f"{role} from '{channel.name}'" for role, channel in channels.items())
    note(f"{model} takes {sources}; a reading every {duration(step)}.")
    return bind(correction, channels, step)


def read_for(calibrator: Calibrator, files: Sequence[Path], data: DataSection) -> list[Readings]:
    """Read co-location files for an existing calibrator and prepare them at its time step.

    Channels and reference are the columns that [data] names, or else those the calibrator was trained on.
    """
    channels = data.channels or tuple(Channel(channel.name) for channel in calibrator.inputs.channels)
    reference = data.reference or (None if data.reference_file else Channel(calibrator.target.name))
    step = calibrator.inputs.step_seconds
    readings = read_files(files, replace(data, channels=channels, reference=reference), note)
    # Only readings at a clearly finer step are averaged.
    return [prepare(box, step if box.step_seconds < FINER * step else None, note) for box in readings]
