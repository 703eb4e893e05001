"""`scare compare`: train and score every method on the same readings, in one table."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import Annotated, Any

from scare.cli import options
from scare.cli.config import read_config
from scare.cli.console import TableForm, emit, note, progress, show_table
from scare.cli.options import DATA, OUTPUT, option
from scare.cli.train import make_recipe, note_split, report_doubts
from scare.data.colocation import make_split, read_colocation
from scare.errors import DataError
from scare.files import replacing
from scare.scorecard.accuracy import RmseDifference
from scare.scorecard.targets import TargetSet, choose_sets
from scare.windowing.windows import parse_window, window_readings

ACCURACY = ("RMSE", "RMSE − scare [95 %]", "top-5 %", "MAE", "bias", "R²", "slope", "intercept")
COST = ("parameters", "bytes", "training [s]", "windows/s")


def compare(
    files: options.Files,
    config: options.ConfigFile = None,
    settings: options.Settings = None,
    time: options.TimeColumns = "",
    channels: options.Channels = "",
    reference: options.Reference = "",
    reference_file: Annotated[str, option(DATA, "--reference-file", "Table of the reference.", hidden=True)] = "",
    device_column: options.DeviceColumn = "",
    quantity: options.Quantity = "",
    dates: options.SlashDates = "",
    timezone: options.TimeZone = "",
    encoding: options.Encoding = "",
    skip_rows: options.SkipRows = None,
    sheet: options.Sheet = "",
    missing: options.MissingCodes = None,
    reference_timezone: options.ReferenceZone = "",
    stamp: options.StampOption = "",
    split: options.Split = None,
    models: options.Models = "",
    windows: options.Windows = None,
    seeds: options.Seeds = None,
    jobs: options.Fits = None,
    executor: options.Executor = None,
    force: options.Force = False,
    out: Annotated[Path, option(OUTPUT, "--out", "Folder for rows, table and figure; run again to resume.")] = Path(
        "out/compare"
    ),
    targets: Annotated[str, option(OUTPUT, "--targets", options.TARGETS_HELP, hidden=True)] = "",
    reference_uncertainty: Annotated[
        str, option(OUTPUT, "--reference-uncertainty", "u(bs,RM) for --targets.", hidden=True)
    ] = "",
    form: Annotated[
        TableForm, option(OUTPUT, "--format", "Print tables as text, Markdown or LaTeX.", hidden=True)
    ] = TableForm.TEXT,
    beside: Annotated[
        list[Path] | None,
        option(OUTPUT, "--beside", "Folder of another comparison, for one more table over all tasks.", hidden=True),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Train and score every model and baseline on the same rows.

    Examples:
      scare compare box*.csv --time date --channels NO2,OX,T,RH --reference Ref.NO2 --windows 60,360 --jobs 2
      scare compare sim.parquet --models scare,tesla,ridge,linear --seeds 1
      scare compare sim.parquet --executor dask://10.0.0.5:8786
      scare compare pm.csv --out out/pm --format latex --beside out/no2
    """
    loaded = read_config(
        config,
        settings or (),
        data={
            **options.columns(time, channels, reference, device_column, reference_file),
            **options.table_options(dates, timezone, encoding, skip_rows, sheet, missing),
            "reference_table": {"timezone": reference_timezone} if reference_timezone else None,
            "quantity": quantity or None,
            "stamp": stamp or None,
        },
        split={"by": split},
        compare={
            "models": list(options.split_names(models)) if models else None,
            "windows": None if windows is None else [*map(parse_window, windows.split(","))],
            "seeds": seeds,
            "jobs": jobs,
            "executor": executor,
        },
    )
    rules = asdict(make_recipe(loaded).rules)  # an error in [training] is found before the work
    from scare.experiments.comparison_table import grade_methods, join_tables, make_table
    from scare.experiments.study import choose, grid, run_study
    from scare.experiments.study import prepare as prepare_study
    from scare.report.png_figures import draw_comparison

    section, data = loaded.config.compare, loaded.config.data
    sets = choose_sets(targets) if targets else ()
    methods = choose(section.models)
    readings = read_colocation(files, data, note)
    report_doubts(readings, force, note)
    lengths = [*dict.fromkeys(window_readings(window, readings) for window in section.windows)]
    parts = make_split(readings, files, data, loaded.config.split, max(lengths))
    note_split(parts)
    # Settings of all networks; each job has a seed of its own.
    study_settings = {name: value for name, value in loaded.config.training.items() if name != "seed"}
    study_settings |= {"selection": rules} if loaded.config.selection else {}
    budget = loaded.config.budget.make()
    study_settings |= {"budget": asdict(budget)} if budget else {}
    study = prepare_study(out, parts, grid(methods, lengths, section.seeds), study_settings)
    with progress("comparing", "job") as (bar, task):

        def advance(done: int, total: int, job: str) -> None:
            bar.update(task, completed=done, total=total, job=job)

        run_study(study, section.jobs, advance, section.executor)
    rows = make_table(study)
    plain_rows = [row.as_dict() for row in rows]
    _write(out, plain_rows)
    tasks = {folder.name: _read(folder) for folder in beside or ()} | {out.name: plain_rows}
    over_tasks = join_tables(tasks) if beside else []
    grades = {target_set.name: grade_methods(study, target_set, reference_uncertainty) for target_set in sets}
    if as_json:
        result: dict[str, Any] = {**parts.facts, "folder": str(out), "rows": plain_rows}
        if beside:
            result["over_tasks"] = [asdict(row) for row in over_tasks]
        if sets:
            result["targets"] = {name: [asdict(grade) for grade in of_set] for name, of_set in grades.items()}
        emit(result)
    else:
        for length in lengths:
            _show([row for row in rows if row.window == length], length, form)
        for target_set in sets:
            _show_grades(grades[target_set.name], target_set, form)
        if over_tasks:
            _show_tasks(over_tasks, list(tasks), form)
    scored = [row for row in rows if row.accuracy is not None]
    if not scored:
        raise DataError(f"no method has a score; the reasons are in {out / 'table.csv'}")
    figure = draw_comparison(scored, out / "comparison.png", readings[0].reference)
    note(f"Wrote rows, table.csv, table.json and {figure.name} to {out}.")


def _show(rows: list[Any], window: int, form: TableForm) -> None:
    """Print accuracy and cost at one window length as two tables, and why some methods have no score.

    `rows` are `experiments.comparison_table.Row`.
    """
    scored = {_label(row): row for row in rows if row.accuracy is not None}
    accuracy = [[label, *_accuracy_cells(row)] for label, row in scored.items()]
    cost = [[label, *_cost_cells(row.facts)] for label, row in scored.items()]
    if scored:
        count = max(row.accuracy.rows for row in scored.values())
        show_table(f"window {window}: {count:,} test rows, mean ± spread over seeds", ["", *ACCURACY], accuracy, form)
        show_table(f"window {window}: cost", ["", *COST], cost, form)
    for row in (row for row in rows if row.accuracy is None):
        note(f"{row.method} has no score: {row.failed}")
    if any(row.to_ours is not None and not row.to_ours.known for row in rows):
        note("The test has less than a day of rows, so there are no confidence intervals and no winner.")


def _show_grades(grades: Sequence[Any], targets: TargetSet, form: TableForm) -> None:
    """Print the classes that each method reaches; `grades` are `experiments.comparison_table.MethodGrade`."""
    if not grades:
        note(f"{targets.title} has no targets for this reference and its unit.")
        return
    second_hand = " (second-hand)" if targets.second_hand else ""
    rows = []
    for grade in grades:
        classes = ", ".join(f"{name}: {count}" for name, count in grade.classes.items())
        shares = ("" if value is None else f"{100 * value:.0f} %" for value in (grade.uncertainty, grade.worst))
        rows.append([f"{grade.method}, window {grade.window}", *shares, classes])
    head = ["", "U, median", "U, largest", f"devices and seeds by class{second_hand}"]
    show_table(f"{targets.title}: relative expanded uncertainty and classes", head, rows, form)
    if targets.second_hand:
        note(f"Second-hand: {targets.second_hand}.")
    for remark in targets.remarks:
        note(remark)


def _show_tasks(methods: Sequence[Any], tasks: Sequence[str], form: TableForm) -> None:
    """Print RMSE and bias of every method on every task, and the geometric mean of its RMSE ÷ the lowest of the task.

    `methods` are `experiments.comparison_table.MethodOverTasks`.
    """
    columns = ["", *(f"{task} {name}" for task in tasks for name in ("RMSE", "bias")), "RMSE ÷ lowest"]
    rows = []
    for method in methods:
        values = [method.rows.get(task, {}).get(name) for task in tasks for name in ("rmse", "bias")]
        cells = ["" if value is None else f"{value:.4g}" for value in values]
        rows.append([method.label, *cells, "" if isnan(method.ratio) else f"{method.ratio:.3f}"])
    show_table(f"{len(tasks)} tasks, and the geometric mean of RMSE ÷ the lowest of a task", columns, rows, form)


def _read(folder: Path) -> list[dict[str, Any]]:
    """Read the table of a comparison in a folder."""
    try:
        rows: list[dict[str, Any]] = json.loads((folder / "table.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{folder} has no table of a comparison (table.json): {error}") from error
    return rows


def _label(row: Any) -> str:
    """Label a method, with a star for the best, and its share of the rows if it could not calibrate all."""
    star = "★ " if row.winner else ""
    share = f" ({row.facts['coverage']:.0%} of rows)" if row.partial else ""
    return f"{star}{row.method}{share}"


def _accuracy_cells(row: Any) -> list[str]:
    """Return the cells under the headings `ACCURACY`."""
    accuracy = row.accuracy
    spread = f" ±{row.spread.rmse:.1g}" if row.seeds > 1 else ""
    others = (f"{number:.3g}" for number in (accuracy.bias, accuracy.r2, accuracy.slope, accuracy.intercept))
    errors = [f"{accuracy.rmse:.4g}{spread}", _difference(row.to_ours), f"{accuracy.top5_rmse:.4g}"]
    return [*errors, f"{accuracy.mae:.4g}", *others]


def _cost_cells(facts: Mapping[str, float]) -> list[str]:
    """Return the cells under the headings `COST`."""
    speed = f"{facts['windows_per_second']:,.0f}" if facts["windows_per_second"] else ""
    return [f"{facts['parameters']:,.0f}", f"{facts['bytes']:,.0f}", f"{facts['fit_seconds']:.1f}", speed]


def _difference(interval: RmseDifference | None) -> str:
    """Return the difference in RMSE to SCARE with its 95 % interval, as a table cell; None for SCARE itself."""
    if interval is None:
        return ""
    bounds = f" [{interval.low:+.2g}, {interval.high:+.2g}]" if interval.known else ""
    return f"{interval.difference:+.2g}{bounds}"


def _write(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Write table.csv and table.json; a row without some column leaves its cell empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with replacing(folder / "table.csv") as temporary, temporary.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, names, restval="")
        writer.writeheader()
        writer.writerows(rows)
    with replacing(folder / "table.json") as temporary:
        temporary.write_text(json.dumps(rows, indent=1, default=str), encoding="utf-8")
