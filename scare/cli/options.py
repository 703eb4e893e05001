"""Command options that several commands share, in the panels of their help; all other settings are in `config`.

Options of one command alone stand in its own file.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.board.boards import Board
from scare.board.measure import Report, measure_once
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import CORRECTIONS, EVERY, bind, find_correction
from scare.cli.console import note, progress
from scare.data.colocation import SplitBy, prepare, read_files
from scare.data.mapping import DataSection
from scare.data.readings import Channel, Readings
from scare.data.times import Dates
from scare.errors import DataError, DoesNotFitError, UsageError
from scare.export.compiled import Compiled
from scare.export.lowering import Arithmetic, find_arithmetic
from scare.extras import is_installed, remedy
from scare.words import suggestion

DATA, SPLIT, MODEL, SEARCH, OUTPUT = "Data", "Split", "Model", "Search", "Output"  # panels of `--help`


def option(panel: str, name: str, about: str, default: str = "", **limits: Any) -> Any:
    """An option in a panel of the help; `default` tells what holds where neither it nor the config file says."""
    return typer.Option(name, help=about, rich_help_panel=panel, show_default=default or True, **limits)


def arithmetic_option(about: str, *names: str) -> Any:
    """The option `--arithmetic`, whose help lists `names`; `int8` and `fixed` are the same."""
    choices = "|".join(names or Arithmetic)
    return typer.Option("--arithmetic", help=about, metavar=f"[{choices}]", parser=find_arithmetic)


Files = Annotated[list[Path], typer.Argument(help="One file a device, or one long file with a device column.")]
ConfigFile = Annotated[Path | None, option(DATA, "--config", "TOML of these and all other settings (docs/config.md).")]
Settings = Annotated[
    list[str] | None, option(DATA, "--set", "A key of the config file and its value: training.seed=3.", hidden=True)
]
TimeColumns = Annotated[str, option(DATA, "--time", "Time column, or columns to join: Date,Time. Naive times are UTC.")]
SlashDates = Annotated[Dates, option(DATA, "--dates", "How dates like 3/4/2026 are written, if nothing shows it.")]
Channels = Annotated[str, option(DATA, "--channels", "Input columns, the sensor to calibrate first: NO2,OX,T,RH.")]
Reference = Annotated[str, option(DATA, "--reference", "Column of the reference instrument.")]
ReferenceFile = Annotated[str, option(DATA, "--reference-file", "Table of the reference, if apart.")]
DeviceColumn = Annotated[str, option(DATA, "--device-column", "Column that names the device, for one long file.")]
Split = Annotated[SplitBy | None, option(SPLIT, "--split", "What keeps the test apart.", "time")]

# of `train`
ModelName = Annotated[str | None, option(MODEL, "--model", "Which model to train.", "scare")]
Window = Annotated[
    int | None, option(MODEL, "--window", "Readings a calibrated value is made from.", "the preset's", min=4)
]
Steps = Annotated[int | None, option(MODEL, "--steps", "Length of the training.", "the preset's", min=1)]

# of `compare`
Models = Annotated[str, option(MODEL, "--models", "all, or names: scare,tesla,ridge.", "all")]
Windows = Annotated[str | None, option(MODEL, "--windows", "Window lengths: 60,360.", "60")]
Seeds = Annotated[int | None, option(MODEL, "--seeds", "Fits of each network.", "3", min=1)]
Fits = Annotated[int | None, option(MODEL, "--jobs", "Fits at the same time.", "1", min=1)]

# of `tune`
FirstWindow = Annotated[
    int | None, option(MODEL, "--window", "Readings to begin at; ½ to 4 times are tried.", "60", min=4)
]
Minutes = Annotated[float | None, option(SEARCH, "--minutes", "How long to search.", "10", min=0)]
Candidates = Annotated[int | None, option(SEARCH, "--jobs", "Candidates at the same time.", "2", min=1)]
BudgetBoard = Annotated[str, option(SEARCH, "--board", "Board whose memory is the budget.")]
MaxInstructions = Annotated[int | None, option(SEARCH, "--max-instructions", "Budget of one inference.", min=1)]

# of what opens a model
ModelFile = Annotated[str, typer.Argument(help="A .scare file, or a published correction such as barkjohn-2021.")]
CorrectionStep = Annotated[
    float | None, typer.Option("--step", min=1e-3, help="Of a correction: seconds between readings, else 60.")
]

# of many
Where = Annotated[str | None, option(OUTPUT, "--executor", "local, dask or dask://HOST:PORT.", hidden=True)]
ExecutorName = Annotated[str, option(OUTPUT, "--executor", "Where jobs run: local, dask or dask://HOST:PORT.")]
ArithmeticName = Annotated[Arithmetic, arithmetic_option("What it computes in.")]
Json = Annotated[bool, option(OUTPUT, "--json", "Print the result as JSON on stdout.")]
Seed = Annotated[int, typer.Option("--seed", help="Same seed, same result.")]


def columns(time: str, channels: str, reference: str, device_column: str, reference_file: str = "") -> dict[str, Any]:
    """The section [data] as options say it; None for what they do not say."""
    return {
        "time": list(names(time)) if time else None,
        "channels": list(names(channels)) if channels else None,
        "reference": reference or None,
        "device_column": device_column or None,
        "reference_file": reference_file or None,
    }


def names(text: str) -> tuple[str, ...]:
    """Names from a comma-separated list."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise UsageError(f"'{text}' names no column")
    return found


def numbers(text: str, option: str) -> list[int]:
    """Different whole numbers from a comma-separated list."""
    found = dict.fromkeys(int(part) if part.strip().isdecimal() else 0 for part in text.split(","))
    if 0 in found:
        raise UsageError(f"{option} takes whole numbers above zero with commas between them, not '{text}'")
    return list(found)


# What a user names as a model: a `.scare` file, or a published correction; and the readings it is given.


FINER = 0.75  # of a model's time step: readings closer together are averaged
STEP_SECONDS = 60.0  # between readings, for a published correction, which does not say


def open_calibrator(model: str, step_seconds: float | None = None) -> Calibrator:
    """The calibrator in a file, or a published correction that reads its own channels every `step_seconds`."""
    published = model in CORRECTIONS or model in EVERY
    if step_seconds is not None and not published:
        raise UsageError("--step is for a published correction; the time step of a calibrator is in its file")
    if published and not Path(model).exists():
        correction = find_correction(model)
        channels = {role.name: role.channel for role in correction.roles}
        return bind(correction, channels, step_seconds or STEP_SECONDS)
    if not (Path(model).exists() or model.endswith(".scare")):
        raise DataError(f"{model}: no such file, and no published correction{suggestion(model, CORRECTIONS)}")
    return Calibrator.load(model)


def read_for(calibrator: Calibrator, files: Sequence[Path], data: DataSection) -> list[Readings]:
    """The readings of all files beside a reference, as a calibrator reads them; by its names where [data] has none."""
    channels = data.channels or tuple(Channel(channel.name) for channel in calibrator.inputs.channels)
    reference = data.reference or (None if data.reference_file else Channel(calibrator.target.name))
    step = calibrator.inputs.step_seconds
    found = read_files(files, replace(data, channels=channels, reference=reference), note)
    return [prepare(one, step if one.step_seconds < FINER * step else None, note) for one in found]


# Whether a calibrator fits the board it is exported for; if not, why, and what would.


def check_fit(compiled: Compiled, board: Board) -> None:
    """Refuse a calibrator that the board cannot hold, with the numbers and the largest window that it could."""
    with progress("measuring", "what") as (bar, task):
        bar.update(task, what=board.title)
        report = measure_once(compiled, board)
        if report.fits:
            return
        remedy = _remedy(compiled, report, lambda: bar.advance(task))
    raise DoesNotFitError(f"it does not fit: {'; '.join(report.reasons)}{remedy}")


def _remedy(compiled: Compiled, report: Report, advance: Callable[[], object]) -> str:
    calibrator = compiled.calibrator
    if report.needs_wide_int:
        return "; take --arithmetic float32"
    if calibrator.window <= 1:
        return ""
    if not is_installed("jax"):
        return f"; to be told the largest window that would, {remedy('train')}"
    from scare.experiments.board_budget import largest_window

    window = largest_window(calibrator, compiled.arithmetic, report.board, advance)
    if window is None:
        return ""
    largest = f"the largest window that would has {window} readings" if window else "no shorter window would"
    return f"; {largest}, this one has {calibrator.window}"
