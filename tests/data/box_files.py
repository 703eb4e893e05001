"""Files of small boxes that stood beside a reference."""

from pathlib import Path

import polars as pl


def write_boxes(folder: Path) -> Path:
    """Write half an hour of five boxes, a file each, with times `when`, channels `pm` and `no` and reference `best`."""
    for number in (1, 2, 3, 4, 9):
        times = [f"2026-01-01T00:{minute:02d}:00Z" for minute in range(30)]
        columns = {"when": times, "pm": [float(number + minute) for minute in range(30)], "no": [2.0] * 30}
        best = [2.0 * number + minute for minute in range(30)]
        pl.DataFrame(columns | {"best": best}).write_csv(folder / f"box-{number}.csv")
    return folder
