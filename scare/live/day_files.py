"""Results as Parquet: one file per day and model, beside it parts that have not been merged yet.

    DAY/MODEL.parquet          the merged parts
    DAY/MODEL.NUMBER.parquet   the results of one journal

After a crash the first part has the rows of all journals that were replayed, of which some may be in older parts: it is
merged with these, so that no row is stored twice.
"""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

import polars as pl

from scare.data.readings import (
    CALIBRATED,
    DEVICE,
    FLAGS,
    HIGH,
    LOW,
    OUTSIDE_CHANNEL,
    OUTSIDE_RANGES,
    TIME,
    TIME_TYPE,
)
from scare.data.sites import SITE
from scare.files import replacing
from scare.live.journal import sync
from scare.live.pipeline import Result

LOG = logging.getLogger(__name__)
MAX_PARTS = 60  # most files for one day and model; more are merged


class ParquetFiles:
    """A sink that writes its files when a snapshot is taken; until then only the journal keeps the readings."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)
        self._results: list[Result] = []
        self._last_number, self._last_results = -1, list[Result]()  # of the part that was written last

    def publish(self, results: Sequence[Result]) -> bool:
        """Collect results in memory until `keep`. Late ones are written, too, which other sinks leave out."""
        self._results += results
        return True

    def keep(self, number: int) -> None:
        """Write the collected results as part `number` of their days, and merge the parts of days that are over."""
        if not self._results:
            return
        if number == self._last_number:  # the snapshot failed, so this part is written again, with what came since
            self._results = self._last_results + self._results
        for (day, model), results in groupby(sorted(self._results, key=_day_and_model), _day_and_model):
            folder = self._folder / day
            write_table(as_table(list(results)), folder / f"{model}.{number:08d}.parquet")
            count = len(list(folder.glob(f"{model}.*.parquet")))
            has_older = count > 1 or (folder / f"{model}.parquet").exists()
            if count > MAX_PARTS or (has_older and self._last_number < 0):
                merge_parts(folder, model)
        today = max(day for day, _ in map(_day_and_model, self._results))
        for part in sorted(self._folder.glob("*/*.*.parquet")):
            if part.parent.name < today and part.exists():  # merging one part removes the others of its model
                merge_parts(part.parent, part.name.rsplit(".", 2)[0])
        self._last_number, self._last_results, self._results = number, self._results, []


def _day_and_model(result: Result) -> tuple[str, str]:
    """Return the folder of a result and the stem of its files; `urllib.parse.unquote` gives the model's name back."""
    # A dot, too: the parts of `pm` are `pm.*`, which must not be those of a model called `pm.2`.
    model = quote(result.model, safe="").replace(".", "%2E")
    return f"{datetime.fromtimestamp(result.time, UTC):%Y-%m-%d}", model


def as_table(results: Sequence[Result]) -> pl.DataFrame:
    """Return the results as rows, with null where there is no number or no text."""
    numbers = ("raw", CALIBRATED, LOW, HIGH)
    texts = ("model", SITE, "product", "level")
    rows = []
    for result in results:
        row = [result.device, round(result.time * 1e6)]  # microseconds
        row += [getattr(result, name) for name in numbers]
        row += [result.flags, *(getattr(result, name) or None for name in texts)]
        row += [result.index.value, result.index.category] if result.index else [None, None]
        row += [result.outside_ranges, result.outside_channel or None]
        rows.append(row)
    kinds = {
        DEVICE: pl.String,
        TIME: pl.Int64,
        **dict.fromkeys(numbers, pl.Float64),
        FLAGS: pl.UInt32,
        **dict.fromkeys(texts, pl.String),
        "index": pl.Int64,
        "index_category": pl.String,
        OUTSIDE_RANGES: pl.Float64,
        OUTSIDE_CHANNEL: pl.String,
    }
    table = pl.DataFrame(rows, kinds, orient="row")
    return table.with_columns(pl.col(TIME).cast(TIME_TYPE), pl.col(*numbers, OUTSIDE_RANGES).fill_nan(None))


def merge_parts(folder: Path, model: str) -> None:
    """Merge a day's parts into its file; of duplicate rows the last one stays.

    A damaged file is left out and kept under another name.
    """
    merged, tables = folder / f"{model}.parquet", []
    for path in [merged, *sorted(folder.glob(f"{model}.*.parquet"))]:
        try:
            tables += [pl.read_parquet(path)] if path.exists() else []
        except pl.exceptions.PolarsError as error:
            damaged = path.replace(path.with_name(f"{path.name}.damaged"))
            LOG.error("%s cannot be read (%s); it is kept as %s", path, error, damaged)
    if not tables:
        return
    table = pl.concat(tables, how="diagonal")  # a part of an older version has fewer columns
    write_table(table.unique([DEVICE, TIME], keep="last").sort(DEVICE, TIME), merged)
    for path in folder.glob(f"{model}.*.parquet"):
        path.unlink()


def write_table(table: pl.DataFrame, path: Path) -> None:
    """Write a file; it is on disk (fsync) when this returns."""
    with replacing(path) as temporary:
        table.write_parquet(temporary)
        sync(temporary)
    sync(path.parent)
