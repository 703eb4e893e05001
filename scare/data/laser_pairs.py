"""Two laser counters in one box: their mean where they agree, no value where they do not.

A PurpleAir has two Plantower counters, A and B; when one is clogged or blind, they disagree. Used by `column_mapping`
and `column_guess`, for tables that have both.
"""

import re
from collections.abc import Iterable

import polars as pl

from scare.data.quantities import conversion, display_unit, find_quantity

# They agree if they differ by at most this many ug/m3, or by this share of their mean: the rule of the US EPA for
# PurpleAir on the AirNow Fire and Smoke Map (Barkjohn et al. 2022, doi:10.3390/s22249669).
LIMIT, SHARE = 5.0, 0.7
LETTER = re.compile(r"(?:[ _.-]([abc])(?=[ _.-]|$)|(?<=\d)([abc])$)", re.IGNORECASE)  # of a counter, as in pm25_a


def find_laser_pairs(columns: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the columns of two laser counters in one box, A and B, by the name of what both measure.

    >>> find_laser_pairs(["pm2.5_cf_1_a", "pm2.5_cf_1_b", "temperature_a", "temperature_b", "PM10"])
    {'pm2.5_cf_1': ('pm2.5_cf_1_a', 'pm2.5_cf_1_b')}
    >>> find_laser_pairs(["pm2_5_atm", "pm2_5_atm_b"])  # as the box itself reports them
    {'pm2_5_atm': ('pm2_5_atm', 'pm2_5_atm_b')}
    >>> find_laser_pairs(["pm25_a", "pm25_b", "pm25_c"])
    {}
    """
    columns_by_letter: dict[str, dict[str, str]] = {}  # by the name without the letter
    for column in columns:
        quantity = find_quantity(column)
        if quantity is None or quantity.name not in ("PM2.5", "PM10", "PM"):
            continue
        letters = LETTER.findall(column)
        letter = "".join(letters[0]).lower() if len(letters) == 1 else ""
        columns_by_letter.setdefault(LETTER.sub("", column) if letter else column, {})[letter] = column
    pairs = {}
    for name, counters in columns_by_letter.items():
        first, second = counters.get("a", counters.get("")), counters.get("b")  # the first may have no letter
        if first and second and "c" not in counters:  # with a third letter they are boxes, not counters of one box
            pairs[name] = (first, second)
    return pairs


def mean_of_lasers(first: pl.Series, second: pl.Series, unit: str) -> pl.Series:
    """Return the mean of two laser counters where they agree, null where they do not or one is missing.

    >>> mean_of_lasers(pl.Series([10.0, 10.0, 60.0, None]), pl.Series([14.0, 40.0, 90.0, 5.0]), "ug/m3").to_list()
    [12.0, None, 75.0, None]
    """
    to_micrograms = conversion(unit or "ug/m3", "ug/m3")
    limit = LIMIT / to_micrograms.gain if to_micrograms else LIMIT  # in `unit`, unless that does not convert
    apart = pl.lit((first - second).abs())
    mean = pl.lit((first + second) / 2)
    agree = (apart <= limit) | (apart <= SHARE * mean)
    return pl.select(pl.when(agree).then(mean)).to_series()


def describe_pair(name: str, pair: tuple[str, str], first: pl.Series, second: pl.Series, mean: pl.Series) -> str:
    """Return a note: a channel is the mean of two counters, and in so many rows they disagree."""
    both = int((first.is_not_null() & second.is_not_null()).sum())
    return (
        f"{name} is the mean of {' and '.join(pair)}; it is missing in {both - mean.count():,} of {both:,} rows, where"
        f" they differ by more than {LIMIT:g} {display_unit('ug/m3')} and {SHARE:.0%}"
    )
