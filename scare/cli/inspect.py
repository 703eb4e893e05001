"""`scare inspect`: what is in a file, and its columns as a config file."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from scare.cli.console import STDOUT, emit, say, show_table
from scare.cli.options import Json
from scare.data.inspection import ColumnSummary, Inspection, inspect_table
from scare.files import replacing

SHOWN_SENTINELS = 3


def inspect(
    file: Annotated[Path, typer.Argument(help="CSV (, ; or tab; .gz) or Parquet.")],
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write the columns to this config file.")] = None,
) -> None:
    """Guess time, step, channels and reference of a table and print them as a config.

    Examples:
      scare inspect sensor.csv
      scare inspect sensor.csv --out sensor.toml
      scare train sensor.csv --config sensor.toml
    """
    found = inspect_table(file)
    config = found.mapping.to_toml()
    if out is not None:
        with replacing(out) as temporary:
            temporary.write_text(config, encoding="utf-8")
        say(f"config written to {out}")
    if as_json:
        emit({**summary(found), "config": config})
        return
    facts = summary(found)
    for name in ("rows", "time", "first", "last", "step_seconds", "duplicates", "out_of_order", "gaps", "longest_gap"):
        STDOUT.print(f"{name.replace('_', ' '):>14}  {facts[name]}", markup=False)
    show_table("columns", ["column", "role", "unit", "missing", "min", "median", "max", "looks missing"], _rows(found))
    STDOUT.print("\nconfig, ready to paste into a TOML file for --config:\n")
    STDOUT.print(config, markup=False)


def summary(found: Inspection) -> dict[str, Any]:
    """The inspection as plain values."""
    first, last = found.span
    gaps = found.gaps_seconds
    return {
        "file": str(found.table.path),
        "rows": found.rows,
        "time": " + ".join(found.time),
        "first": first.isoformat(),
        "last": last.isoformat(),
        "step_seconds": found.step_seconds,
        "duplicates": found.duplicates,
        "out_of_order": found.out_of_order,
        "gaps": len(gaps),
        "longest_gap": str(timedelta(seconds=float(gaps[0]))) if len(gaps) else "none",
        "device_column": found.device_column,
        "site_column": found.site_column,
        "columns": [_column(column) for column in found.columns],
    }


def _column(column: ColumnSummary) -> dict[str, Any]:
    return {
        "name": column.name,
        "role": "reference" if column.is_reference else "channel",
        "unit": column.channel.unit,
        "missing_share": column.missing,
        "minimum": column.low,
        "median": column.median,
        "maximum": column.high,
        "sentinels": list(column.sentinels),
    }


def _rows(found: Inspection) -> list[list[str]]:
    rows = []
    for facts in (_column(column) for column in found.columns):
        numbers = [
            "" if not np.isfinite(facts[name]) else f"{facts[name]:.4g}" for name in ("minimum", "median", "maximum")
        ]
        sentinels = ", ".join(f"{value:g}" for value in facts["sentinels"][:SHOWN_SENTINELS])
        rows.append([facts["name"], facts["role"], facts["unit"], f"{facts['missing_share']:.1%}", *numbers, sentinels])
    return rows
