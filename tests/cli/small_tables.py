"""Small co-locations as a logger would write them."""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

START = datetime(2026, 1, 1)
CHANNELS = "--channels NO2,OX,T,RH"


def colocation(rows: int = 300, seed: int = 0, step_seconds: float = 60.0) -> pl.DataFrame:
    """A gas cell that reads twice the reference plus five, and three more channels."""
    draw = np.random.default_rng(seed)
    truth = 30 + draw.normal(size=rows).cumsum()
    columns = {
        "date": [START + timedelta(seconds=step_seconds * row) for row in range(rows)],
        "NO2": 2 * truth + 5 + 0.1 * draw.normal(size=rows),
        "OX": draw.normal(40, 5, rows),
        "T": draw.normal(20, 1, rows),
        "RH": draw.normal(60, 3, rows),
        "Ref.NO2": truth,
    }
    return pl.DataFrame(columns).with_columns(pl.col(pl.Float64).round(3))


def write(frame: pl.DataFrame, path: Path | str, separator: str = ",") -> None:
    frame.write_csv(path, separator=separator, datetime_format="%Y-%m-%d %H:%M:%S")


def texts(frame: pl.DataFrame) -> pl.DataFrame:
    """All cells as text, to write what a number column should not hold."""
    dates = pl.col("date").dt.to_string("%Y-%m-%d %H:%M:%S")
    return frame.with_columns(dates).with_columns(pl.all().cast(pl.String))


def with_cell(frame: pl.DataFrame, row: int, column: str, text: str) -> pl.DataFrame:
    """The frame as texts with one cell changed."""
    frame = texts(frame)
    return frame.with_columns(
        pl.when(pl.int_range(pl.len()) == row).then(pl.lit(text)).otherwise(pl.col(column)).alias(column)
    )
