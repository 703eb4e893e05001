"""`scare compare`: every model and yardstick on the same readings, in one table."""

import csv
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.cli import options
from scare.cli.colocation import SplitBy, divide, divide_by_column, prepare, read
from scare.cli.console import emit, progress, say, show_table
from scare.cli.training import training_room
from scare.data.files import replacing
from scare.errors import UsageError
from scare.experiments.bootstrap import Interval


def compare(
    files: Annotated[list[Path], typer.Argument(help="One file a device, or one long file with a device column.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for rows, table and figure; run again to resume.")] = Path(
        "out/compare"
    ),
    models: Annotated[str, typer.Option("--models", help="all, or names: scare,tesla,ridge.")] = "all",
    windows: Annotated[str, typer.Option("--windows", help="Window lengths: 60,360.")] = "60",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Fits of each network.")] = 3,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Fits at the same time.")] = 1,
    time: options.TimeColumns = "",
    channels: options.Channels = "",
    reference: options.Reference = "",
    device_column: options.DeviceColumn = "",
    site_column: options.SiteColumn = "",
    mapping: options.MappingFile = None,
    sort: options.Sort = False,
    step: options.Step = None,
    split: Annotated[SplitBy, typer.Option("--split", help="What keeps the test apart.")] = SplitBy.TIME,
    split_column: Annotated[str, typer.Option("--split-column", help="Column that says train, validate or test.")] = "",
    borders: options.Borders = "",
    epochs: options.Epochs = None,
    steps: options.Steps = None,
    as_json: options.Json = False,
) -> None:
    """Train and score every model and yardstick on the same rows.

    Examples:
      scare compare box*.csv --time date --channels NO2,OX,T,RH --reference Ref.NO2 --windows 60,360 --jobs 2
      scare compare sim.parquet --models scare,tesla,ridge,linear --seeds 1 --steps 500
    """
    training_room()
    from scare.experiments.contenders import choose, grid
    from scare.experiments.study import prepare as prepare_study
    from scare.experiments.study import run_study
    from scare.experiments.table import make_table
    from scare.report.comparison import draw_comparison

    names, lengths = choose(options.names(models)), _numbers(windows)
    labels = {"time": time, "channels": channels, "device_column": device_column, "site_column": site_column}
    columns = {**labels, "reference": reference, "sort": sort}
    readings = [prepare(one, step) for one in read(files, mapping, columns)]
    if split_column:
        parts = divide_by_column(readings, files, mapping, columns, split_column)
    else:
        parts = divide(readings, split, max(lengths), borders)
    for line in (f"split {parts.how}", *parts.notes):
        say(line)
    given = {name: value for name, value in (("epochs", epochs), ("steps", steps)) if value is not None}
    study = prepare_study(out, parts, grid(names, lengths, seeds), given)
    with progress("comparing", "job") as (bar, task):
        run_study(study, jobs, lambda done, total, job: bar.update(task, completed=done, total=total, job=job))
    rows = make_table(study)
    plain = [row.as_dict() for row in rows]
    _write(out, plain)
    figure = draw_comparison(rows, out / "comparison.png", readings[0].reference)
    if as_json:
        emit({"split": parts.how, "folder": str(out), "rows": plain})
    else:
        for length in lengths:
            _show([row for row in rows if row.window == length], length)
    say(f"rows, table.csv, table.json and {figure.name} are in {out}")


def _show(rows: list[Any], window: int) -> None:
    """The table of one window on stdout, and why some have no score."""
    lines = []
    for row in (row for row in rows if row.accuracy is not None):
        name = f"★ {row.contender}" if row.winner else row.contender
        if row.partial:
            name += f" ({row.facts['coverage']:.0%} of rows)"
        spread = f" ±{row.spread.rmse:.2g}" if row.seeds > 1 else ""
        scores = [f"{row.accuracy.rmse:.4g}{spread}", f"{row.accuracy.top5_rmse:.4g}", f"{row.accuracy.r2:.3f}"]
        lines.append([name, *scores, f"{row.facts['parameters']:,.0f}", _difference(row.to_ours)])
    columns = ["", "RMSE", "top-5 %", "R²", "parameters", "RMSE − scare [95 %]"]
    show_table(f"window {window}", columns, lines)
    for row in (row for row in rows if row.accuracy is None):
        say(f"{row.contender}: no score: {row.failed}")


def _difference(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.difference:+.3g} [{interval.low:+.2g}, {interval.high:+.2g}]"


def _write(folder: Path, rows: list[dict[str, Any]]) -> None:
    """table.csv and table.json."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with replacing(folder / "table.csv") as temporary, temporary.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, names, restval="")
        writer.writeheader()
        writer.writerows(rows)
    with replacing(folder / "table.json") as temporary:
        temporary.write_text(json.dumps(rows, indent=1, default=str), encoding="utf-8")


def _numbers(text: str) -> list[int]:
    try:
        return [int(name) for name in options.names(text)]
    except ValueError as error:
        raise UsageError(f"--windows takes whole numbers with commas between them, not '{text}'") from error
