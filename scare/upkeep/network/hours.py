"""Hourly means of a network's instruments on one clock: a row for each instrument, a column for each hour."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from scare.data.readings import DEVICE, TIME
from scare.errors import DataError

HOUR, DAY = 3600.0, 86400.0
LEAST_SHARE = 0.5  # of the usual number of rows of an hour: an hour with fewer has no mean


@dataclass(frozen=True, repr=False)
class NetworkHours:
    """Hourly means [instruments, hours], float32, NaN where missing; column 0 is hour `first` since 1970.

    `references` names those of the instruments that are references; `wind` is the speed of the wind in each hour, NaN
    where nobody measured it, or None if nobody ever did.

    >>> hours = NetworkHours(("a", "b"), 100, np.arange(6, dtype=np.float32).reshape(2, 3), frozenset({"b"}))
    >>> hours.between("a", 101 * HOUR, 105 * HOUR)
    (101, array([1., 2.], dtype=float32))
    """

    names: tuple[str, ...]
    first: int
    values: np.ndarray
    references: frozenset[str]
    wind: np.ndarray | None = None  # [hours]

    @cached_property
    def row(self) -> dict[str, int]:
        """The row of each instrument in `values`, by its name."""
        return {name: index for index, name in enumerate(self.names)}

    @property
    def begin(self) -> float:
        """Begin of the first hour, in seconds."""
        return self.first * HOUR

    @property
    def end(self) -> float:
        """End of the last hour, in seconds."""
        return (self.first + self.values.shape[1]) * HOUR

    @property
    def boxes(self) -> list[str]:
        """The instruments that are not references."""
        return [name for name in self.names if name not in self.references]

    def between(self, name: str, begin: float, end: float) -> tuple[int, np.ndarray]:
        """Return the number of the first whole hour after `begin`, and the instrument's means from then until `end`.

        Times are in seconds, hours are numbered since 1970.
        """
        after_last = self.first + self.values.shape[1]
        low = int(np.clip(np.ceil(begin / HOUR), self.first, after_last))
        high = int(np.clip(np.floor(end / HOUR), low, after_last))
        return low, self.values[self.row[name], low - self.first : high - self.first]


def with_wind(hours: NetworkHours, measured: NetworkHours) -> NetworkHours:
    """Return the hours of a network with the wind that some of its instruments measured: in each hour their median."""
    column = measured.first - hours.first + np.arange(measured.values.shape[1])
    is_within = (column >= 0) & (column < hours.values.shape[1])
    has_wind = is_within & np.isfinite(measured.values).any(axis=0)
    wind = np.full(hours.values.shape[1], np.nan)
    wind[column[has_wind]] = np.nanmedian(measured.values[:, has_wind], axis=0)
    return replace(hours, wind=wind)


def hourly(tables: Iterable[tuple[str, pl.DataFrame]], column: str, references: Iterable[str] = ()) -> NetworkHours:
    """Average tables of instruments (name, frame with `time` and `column`) by the hour.

    Tables of the same name are joined; where two have a mean of the same hour, the first counts.
    """
    hour = pl.col(TIME).dt.epoch("us") // 3_600_000_000  # since 1970; the column is still called TIME
    parts = []
    for name, frame in tables:
        readings = frame.select(hour, pl.col(column).cast(pl.Float64)).filter(pl.col(column).is_finite())
        means = readings.group_by(TIME).agg(pl.col(column).mean(), pl.len().alias("rows"))
        usual_rows = float(np.median(means["rows"].to_numpy())) if means.height else 1.0  # of a whole hour
        whole = means.filter(pl.col("rows") >= LEAST_SHARE * usual_rows)
        parts.append(whole.select(pl.lit(name).alias(DEVICE), TIME, pl.col(column).cast(pl.Float32)))
    joined = pl.concat(parts) if parts else pl.DataFrame()
    if not joined.height:
        raise DataError(f"no instrument has a value in '{column}': there is nothing to compare")
    joined = joined.unique([DEVICE, TIME], keep="first", maintain_order=True)
    first, last = joined[TIME].min(), joined[TIME].max()
    assert isinstance(first, int)
    assert isinstance(last, int)
    names = tuple(joined[DEVICE].unique().sort())
    values = np.full((len(names), last - first + 1), np.nan, np.float32)
    rows = joined[DEVICE].replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
    values[rows, joined[TIME].to_numpy() - first] = joined[column].to_numpy()
    return NetworkHours(names, first, values, frozenset(references) & frozenset(names))
