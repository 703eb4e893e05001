"""Results as Parquet: a file a day and model, beside it what has come since it was last put together.

`DAY/MODEL.parquet` is the day so far; `DAY/MODEL.NUMBER.parquet` the results of one journal. A journal that is
read again after a crash writes its file again, so nothing is there twice.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import polars as pl

from scare.data.readings import CALIBRATED, DEVICE, FLAGS, HIGH, LOW, TIME, TIME_TYPE
from scare.files import replacing
from scare.live.pipeline import Result
from scare.live.store import sync

MOST_PARTS = 60  # of a day and model: more are put together


class ParquetFiles:
    """A sink that writes when a snapshot is taken; until then the journal has what is not written."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)
        self._results: list[Result] = []

    def publish(self, results: Sequence[Result]) -> bool:
        """Take results, late ones too."""
        self._results += results
        return True

    def keep(self, number: int) -> None:
        """Write what was taken, as part `number` of its days; put the parts of a day together when it is over."""
        for (day, model), some in groupby(sorted(self._results, key=_group), _group):
            folder = self._folder / day
            write_table(as_table(list(some)), folder / f"{model}.{number:08d}.parquet")
            parts = len(list(folder.glob(f"{model}.*.parquet")))
            if parts > MOST_PARTS:
                put_together(folder, model)
        if self._results:
            self._finish_days(max(_group(one)[0] for one in self._results))
        self._results = []

    def _finish_days(self, today: str) -> None:
        """Put the parts of older days together."""
        for part in sorted(self._folder.glob("*/*.*.parquet")):
            if part.parent.name < today and part.exists():
                put_together(part.parent, part.name.rsplit(".", 2)[0])


def _group(result: Result) -> tuple[str, str]:
    return f"{datetime.fromtimestamp(result.time, UTC):%Y-%m-%d}", result.model


def as_table(results: Sequence[Result]) -> pl.DataFrame:
    """Results as rows: device, time, raw, calibrated, low, high, flags; null where there is no number."""
    numbers = ("raw", CALIBRATED, LOW, HIGH)
    rows = [
        (one.device, round(one.time * 1e6), *(getattr(one, name) for name in numbers), one.flags) for one in results
    ]
    kinds = {DEVICE: pl.String, TIME: pl.Int64, **dict.fromkeys(numbers, pl.Float64), FLAGS: pl.UInt32}
    table = pl.DataFrame(rows, kinds, orient="row")
    return table.with_columns(pl.col(TIME).cast(TIME_TYPE), pl.col(numbers).fill_nan(None))


def put_together(folder: Path, model: str) -> None:
    """One file of a day's file and its parts; what is there twice counts once."""
    parts, whole = sorted(folder.glob(f"{model}.*.parquet")), folder / f"{model}.parquet"
    tables = [pl.read_parquet(path) for path in [whole, *parts] if path.exists()]
    table = pl.concat(tables, how="diagonal")  # a part of an older version has fewer columns
    write_table(table.unique([DEVICE, TIME], keep="last").sort(DEVICE, TIME), whole)
    for path in parts:
        path.unlink()


def write_table(table: pl.DataFrame, path: Path) -> None:
    """Write a file; it is on disk when this returns."""
    with replacing(path) as temporary:
        table.write_parquet(temporary)
        sync(temporary)
    sync(path.parent)
