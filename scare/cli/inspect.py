"""`scare inspect` and `scare info`: what a table holds, as a config file, and what a calibrator is."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from scare.calibrator.equation import equations
from scare.calibrator.model_card import model_card
from scare.calibrator.provenance import processing_level, product_version
from scare.calibrator.verdict import verdict_of
from scare.cli import options
from scare.cli.console import STDOUT, emit, note, show_table
from scare.cli.options import Json, ModelFile, Quantity, SlashDates, TimeColumns, open_calibrator, split_names
from scare.data.column_guess import Inspection, inspect_table
from scare.data.quantities import parse_quantity
from scare.data.tables import TableOptions
from scare.files import replacing

SHOWN_SENTINELS = 3


def inspect(
    file: Annotated[Path, typer.Argument(help="A table: text, spreadsheet, JSON or Parquet.")],
    time: TimeColumns = "",
    dates: SlashDates = "",
    timezone: options.TimeZone = "",
    encoding: options.Encoding = "",
    skip_rows: options.SkipRows = None,
    sheet: options.Sheet = "",
    missing: options.MissingCodes = None,
    quantity: Quantity = "",
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write the columns to this config file.")] = None,
) -> None:
    """Guess the time, step, channels and reference of a table and print them as a config.

    Examples:
      scare inspect sensor.csv
      scare inspect sensor.csv --out sensor.toml
      scare train sensor.csv --config sensor.toml
    """
    stated = TableOptions(
        dates=dates,
        timezone=timezone,
        encoding=encoding,
        skip_rows=skip_rows,
        sheet=sheet,
        missing=tuple(missing or ()),
    )
    inspection = inspect_table(file, stated, split_names(time) if time else ())
    config, facts = "", inspection.as_dict()
    if inspection.is_reference and out is None:
        reasons = [f"Only a reference's values; use them beside a sensor's: scare train SENSOR --reference-file {file}"]
    else:
        mapping, reasons = inspection.propose(parse_quantity(quantity) if quantity else "")
        config = mapping.to_toml()
    if out is not None:
        with replacing(out) as temporary:
            temporary.write_text(config, encoding="utf-8")
        note(f"Wrote the config to {out}.")
    if as_json:
        emit({**facts, "notes": [*inspection.notes, *reasons], "config": config})
        return
    for name in ("rows", "time", "first", "last", "step_seconds", "duplicates", "out_of_order", "gaps", "longest_gap"):
        STDOUT.print(f"{name.replace('_', ' '):>14}  {facts[name]}", markup=False)
    head = ["column", "role", "quantity", "unit", "missing", "min", "median", "max", "sentinels"]
    show_table("columns", head, _rows(inspection))
    for name, why in inspection.left_out:
        STDOUT.print(f"no channel: {name} ({why})", markup=False)
    for line in (*inspection.notes, *reasons):
        STDOUT.print(line, markup=False)
    if config:
        STDOUT.print("\nThe config, ready to paste into a TOML file for --config:\n")
        STDOUT.print(config, markup=False)


def _rows(inspection: Inspection) -> list[list[str]]:
    """Return one row of the printed table for each column of the file."""
    rows = []
    for facts in inspection.as_dict()["columns"]:
        numbers = [facts[name] for name in ("minimum", "median", "maximum")]
        cells = ["" if not np.isfinite(number) else f"{number:.4g}" for number in numbers]
        sentinels = ", ".join(f"{value:g}" for value in facts["sentinels"][:SHOWN_SENTINELS])
        known = [facts["name"], facts["role"], facts["quantity"], facts["unit"]]
        rows.append([*known, f"{facts['missing_share']:.1%}", *cells, sentinels])
    return rows


def info(
    calibrator: ModelFile,
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write the card to this Markdown file.")] = None,
) -> None:
    """Show a calibrator's inputs, origin, scores and cost.

    Examples:
      scare info no2.scare
      scare info no2.scare --json
      scare info barkjohn-2021
    """
    model = open_calibrator(calibrator)
    cost = model.cost()
    if out is not None:
        with replacing(out) as temporary:
            temporary.write_text(model_card(model), encoding="utf-8")
        note(f"Wrote the card to {out}.")
    if as_json:
        inputs, intervals = model.inputs, model.intervals
        verdict = verdict_of(model.facts, inputs.step_seconds, model.target.unit)
        emit(
            {
                "channels": [asdict(channel) for channel in inputs.channels],
                "target": asdict(model.target),
                "window": inputs.window,
                "step_seconds": inputs.step_seconds,
                "processing_level": asdict(processing_level(model)),
                "product": product_version(calibrator),
                "verdict": verdict.as_dict() if verdict else None,
                "equations": {device: str(equation) for device, equation in equations(model).items()},
                "gap_policy": inputs.policy.name,
                "scaling": inputs.scaling.method,
                "devices": list(inputs.scaling.devices),
                "settle_readings": inputs.scaling.settle,
                "training_range": asdict(inputs.training_range) if inputs.training_range else None,
                "floor": model.floor,
                "cost": asdict(cost),
                "steps": [step.kernel for step in model.plan.steps],
                "intervals": {**asdict(intervals), "origin": intervals.origin} if intervals else None,
                "facts": dict(model.facts),
            }
        )
        return
    STDOUT.print(model_card(model), markup=False)
    names = {"multiply_adds": "multiply-adds", "bit_operations": "bit operations"}
    counts = asdict(cost.operations).items()
    operations = ", ".join(f"{value:,} {names.get(name, name)}" for name, value in counts)
    STDOUT.print(f"One calibrated reading takes {operations}.")
    STDOUT.print(
        f"{cost.weights:,} weights ({cost.weight_bytes:,} bytes), {cost.peak_bytes:,} bytes of working memory."
    )
