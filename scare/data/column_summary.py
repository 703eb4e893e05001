"""What a column of numbers is, by its name, its values and what its file states: a measurement, or why it is none.

Codes, counters, places, row numbers and states of a device are never a channel or a reference. A unit that nobody
states, and numbers that stand for "no reading", are told by the quantity's usual values (`quantities.toml`).
Comes from `tables`; goes to `column_guess`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import polars as pl

from scare.data.formats import FormatColumn
from scare.data.quantities import (
    Quantity,
    display_unit,
    find_quantity,
    find_unit,
    is_called,
    quantities,
    quantity_of_unit,
)
from scare.data.readings import REFERENCE, Channel, Readings
from scare.words import plural

TIME_WORDS = {"date", "time", "datetime", "timestamp", "epoch", "year", "month", "day", "hour", "minute"}
PLACE_WORDS = {"lat", "latitude", "lon", "long", "lng", "longitude", "alt", "altitude", "elevation"}
LABEL_WORDS = {"flag", "flags", "qc", "qaqc", "status", "error", "id", "serial", "version", "code", "poc", "type"}
ROW_WORDS = {"row", "record", "unnamed", "entry"}
STATE_WORDS = {
    "rssi",
    "dbm",
    "uptime",
    "uptimeminutes",
    "heap",
    "battery",
    "batt",
    "latency",
    "memory",
    "firmware",
    "snr",
}
INDEX_WORDS = {"aqi", "nowcast", "iaqi", "aqius", "aqicn", "index"}  # computed from concentrations, not measured
LEFT_OUT = {  # words of names that are never a channel or a reference, by what they are
    **{"a time": TIME_WORDS, "a place": PLACE_WORDS, "a code": LABEL_WORDS, "a row number": ROW_WORDS},
    **{"the state of the device": STATE_WORDS, "an index": INDEX_WORDS},
}
# Parts of an instrument, whose names may begin with what it measures, such as "PM-2.5 TEOM frequency".
PART_WORDS = {"flow", "frequency", "noise", "load", "pump", "tube", "cooler", "dryer", "filter", "laser", "lamp"}
NUMBER_OF = re.compile(r"\b(?:site|station|serial|sample|sr|sl|s|row|unit)[ ._]*no\b", re.IGNORECASE)
LETTERS = {"C": "degC", "F": "degF", "K": "K"}  # units that are one letter, in a row or brackets of their own
PARAMETER_WORDS = {"parameter", "param", "pollutant", "species", "component", "analyte", "type"}
VALUE_NAME = re.compile(
    r"value|measure|conc|mean|result|reading|state"
)  # of a column whose quantity another one states
# Such as "Ref.NO2", "CO(GT)" (ground truth), "PM2.5 FEM" (federal equivalent method) and "fidas_pm10".
REFERENCE_NAME = re.compile(
    r"^ref(erence)?(?![a-z])|[._ ]ref(erence)?$|\(gt\)|\b(fem|frm|monitor)\b"
    r"|(?<![a-z])(teom|fidas|dusttrak|grimm|e?bam|t640x?|picarro|fluke|ground.?truth)(?![a-z])"
)
SENTINELS = (-32768.0, -9999.0, -999.0, -200.0, -99.0, -1.0, 999.0, 9999.0, 32767.0, 65535.0, 99999.0)
FEW_ROWS = 10  # with fewer, a column that never changes proves nothing
MANY_ROWS = 200  # in which a quantity must have changed
FEW_VALUES = 10  # of whole numbers, in a column of at least ten times as many rows: a code
COUNTER_SHARE = 0.9  # of equal steps up: a counter
MARGIN = 0.1  # of a quantity's plausible range: a value further out is no reading
BEYOND_SHARE = 0.01  # of readings beyond it: with more, the column is not what its name says, or in another unit
MOST_CODES = 3  # different ones in a column; more are readings
LEAST_REPEATS = 3  # of a code; in a long column, one row in a thousand
LEAST_DISTINCT = 20  # values, among which an isolated one can be a code and not a state


@dataclass(frozen=True)
class ColumnSummary:
    """One column: what it measures, share of missing values, range, and numbers that stand for "no reading".

    `limits` exclude such numbers, where they lie beyond what the quantity can be.
    """

    name: str
    missing: float
    low: float
    median: float
    high: float
    sentinels: tuple[float, ...]
    quantity: str = ""
    unit: str = ""
    is_reference: bool = False
    limits: tuple[float, float] = (-inf, inf)

    @property
    def channel(self) -> Channel:
        """The column as a channel."""
        return Channel(self.name, self.unit, *self.limits)

    @property
    def family(self) -> str:
        """The family of its quantity, empty if unknown."""
        return quantities()[self.quantity].family if self.quantity else ""

    def measures(self, quantity: str) -> bool:
        """Whether the column is, or could be, this quantity."""
        return self.quantity == quantity or is_called(self.name, quantity)

    def as_dict(self) -> dict[str, Any]:
        """The column as JSON values, as `scare inspect --json` prints it."""
        return {
            "name": self.name,
            "role": "reference" if self.is_reference else "channel",
            "quantity": self.quantity,
            "unit": self.unit,
            "missing_share": self.missing,
            "minimum": self.low,
            "median": self.median,
            "maximum": self.high,
            "sentinels": list(self.sentinels),
        }


def words(name: str) -> set[str]:
    """The lower-case words of a column name.

    >>> sorted(words("NO2_B43F_flag"))
    ['b', 'f', 'flag', 'no']
    """
    return set(re.findall(r"[^\W\d_]+", name.lower()))


def why_no_channel(column: pl.Series, stated: FormatColumn) -> str:
    """Why a column of numbers is neither a channel nor a reference; empty if it may be one.

    >>> why_no_channel(pl.Series("entry_id", [1.0, 2.0]), FormatColumn())
    'a code'
    """
    if stated.role:
        measured = stated.role in ("channel", "reference", "weather")
        return (
            "" if measured else {"flag": "a code", "ignore": "not a measurement"}.get(stated.role, f"a {stated.role}")
        )
    named, values = find_quantity(column.name), column.drop_nulls()
    kind = next((kind for kind, names in LEFT_OUT.items() if words(column.name) & names), "")
    if named and named.family in ("particles", "gas"):
        kind = "" if kind == "a time" else kind  # such as "O3 one hour average"
        kind = "a code" if NUMBER_OF.search(column.name) else kind
        kind = "the state of the device" if words(column.name) & PART_WORDS else kind
    is_whole = (values == values.round()).all()
    if re.fullmatch(r"column_\d+", column.name) and is_whole and values.n_unique() == len(values):
        kind = "a row number"
    if kind or len(values) < FEW_ROWS:
        return kind
    if values.n_unique() == 1 and (not named or len(values) >= MANY_ROWS):
        return "always the same"
    steps = values.diff().drop_nulls()
    usual = steps.mode()[0]
    if usual > 0 and (steps == usual).sum() >= COUNTER_SHARE * len(steps):
        return "a counter"
    if not named and is_whole and values.n_unique() <= min(FEW_VALUES, len(values) / 10):
        return "a code"
    return ""


def stated_quantity(frame: pl.DataFrame) -> str:
    """The quantity that a text column such as `Parameter Name` states for all rows; empty if none does.

    >>> stated_quantity(pl.DataFrame({"Parameter Name": ["Ozone", "Ozone"], "Sample Measurement": [0.03, 0.04]}))
    'O3'
    """
    for column in frame:
        if column.dtype == pl.String and words(column.name) & PARAMETER_WORDS and column.drop_nulls().n_unique() == 1:
            found = find_quantity(column.drop_nulls()[0])
            if found:
                return found.name
    return ""


def summarise(
    column: pl.Series, stated: FormatColumn, unit_text: str = "", parameter: str = ""
) -> tuple[ColumnSummary, list[str]]:
    """Describe a column; the sentences say what only its values show.

    `unit_text` is the unit as the file writes it; `parameter` is the quantity of a column called `Value` or the like.
    """
    values, notes = column.drop_nulls().to_numpy(), []
    low, median, high = np.quantile(values, [0, 0.5, 1]).tolist()
    quantity = quantities().get(stated.quantity) or find_quantity(column.name)
    if quantity is None and parameter and VALUE_NAME.search(column.name.lower()):
        quantity = quantities()[parameter]
    unit = stated.unit or find_unit(unit_text) or LETTERS.get(unit_text.strip("()[] "), "") or find_unit(column.name)
    quantity = quantity or quantity_of_unit(unit)
    codes = find_codes(values)
    if quantity and not unit:
        readings = values[~np.isin(values, codes)]
        top = float(np.quantile(readings, 0.95)) if len(readings) else high
        unit = (quantity.usual_unit(top) if top else "") or quantity.unit
        if unit != quantity.unit:
            usual, shown = display_unit(quantity.unit), display_unit(unit)
            notes.append(f"{column.name}: values up to {top:.3g} are not in {usual}; taken as {shown}")
    limits = find_limits(values, Channel(column.name, unit), quantity)
    codes = tuple(sorted({*codes, *_repeated(values[(values < limits[0]) | (values > limits[1])], len(values))}))
    notes += describe_limits(values, Channel(column.name, unit, *limits))
    is_reference = stated.role == "reference" or bool(REFERENCE_NAME.search(column.name.lower()))
    named = quantity.name if quantity else ""
    missing = column.null_count() / len(column)
    return ColumnSummary(column.name, missing, low, median, high, codes, named, unit, is_reference, limits), notes


def find_limits(values: np.ndarray, channel: Channel, quantity: Quantity | None = None) -> tuple[float, float]:
    """Limits beyond which a channel's number is no reading; infinite on a side where nothing tells.

    They are those of its quantity (by the channel's name, unless given) with a margin, if nearly all values are
    within. Without a quantity they separate codes from the readings.

    >>> readings = np.linspace(3.0, 30.0, 200)
    >>> find_limits(readings, Channel("pm25", "ug/m3"))
    (-100.0, 1100.0)
    >>> find_limits(np.append(readings, [4095.0] * 5), Channel("cell", "mV"))
    (-inf, 2062.5)
    """
    codes = _isolated(values)
    rest = values[~np.isin(values, codes)]
    if not len(rest):
        return -inf, inf
    quantity = quantity or find_quantity(channel.name)
    unit = channel.unit or find_unit(channel.name)
    if quantity and not unit:
        top = float(np.quantile(rest, 0.95))
        unit = (quantity.usual_unit(top) if top else "") or quantity.unit
    low, high = quantity.limits(unit) if quantity else (-inf, inf)
    margin = MARGIN * (high - low)
    limits = (low - margin, high + margin) if np.isfinite(margin) else (-inf, inf)
    beyond = rest[(rest < limits[0]) | (rest > limits[1])]
    repeated = _repeated(beyond, len(values))
    single = len(beyond) - (np.isin(beyond, repeated).sum() if len(repeated) <= MOST_CODES else 0)
    if single > BEYOND_SHARE * len(rest):
        limits = (-inf, inf)
    below, above = [one for one in codes if one < rest.min()], [one for one in codes if one > rest.max()]
    return (
        max(limits[0], 0.5 * (max(below) + float(rest.min())) if below else -inf),
        min(limits[1], 0.5 * (min(above) + float(rest.max())) if above else inf),
    )


def describe_limits(values: np.ndarray, channel: Channel) -> list[str]:
    r"""Say which values count as missing because they lie beyond the channel's limits, and how many there are.

    >>> lines = describe_limits(np.array([3.0, 9999, 9999, 9999, 1500]), Channel("pm25", "ug/m3", -100, 1100))
    >>> print(*lines, sep="\n")
    pm25: 9999 (3 times) means 'no reading' and counts as missing
    pm25: 1 value outside -100 to 1100 ug/m3 counts as missing
    """
    beyond = values[(values < channel.low) | (values > channel.high)]
    codes = _repeated(beyond, len(values))
    lines = []
    if codes:
        each = ", ".join(f"{one:g} ({plural(int(np.sum(beyond == one)), 'time')})" for one in codes)
        lines = [f"{channel.name}: {each} means 'no reading' and counts as missing"]
    if others := len(beyond) - int(np.isin(beyond, codes).sum()):
        unit = f" {channel.unit}" if channel.unit else ""
        verb = "counts" if others == 1 else "count"
        limits = f"{channel.low:g} to {channel.high:g}{unit}"
        lines.append(f"{channel.name}: {plural(others, 'value')} outside {limits} {verb} as missing")
    return lines


def with_limits(readings: Sequence[Readings], notify: Callable[[str], object]) -> list[Readings]:
    """Give channels and references that have no limits those beyond which a number is no reading.

    Done before anything is averaged: one 9999 in an hour would spoil its mean.
    """

    def limited(channel: Channel, column: str) -> Channel:
        if (channel.low, channel.high) != (-inf, inf):
            return channel
        values = np.concatenate([one.frame[column].drop_nulls().to_numpy() for one in readings])
        low, high = find_limits(values, channel)
        found = replace(channel, low=low, high=high)
        for line in describe_limits(values, found):
            notify(line)
        return found

    if not readings:
        return []
    channels = tuple(limited(channel, channel.name) for channel in readings[0].channels)
    truth = readings[0].reference
    reference = limited(truth, REFERENCE) if truth else None
    return [replace(one, channels=channels, reference=reference) for one in readings]


def _repeated(values: np.ndarray, rows: int) -> list[float]:
    """Find the values that are repeated often enough to be codes, in a column with this many rows."""
    each, counts = np.unique(values, return_counts=True)
    return each[counts >= max(LEAST_REPEATS, rows / 1000)].tolist()


def find_codes(values: np.ndarray) -> tuple[float, ...]:
    """Find numbers that stand for "no reading", by their values alone.

    These are the usual ones (`SENTINELS`) that are frequent and beyond which no other value lies, and isolated ones.

    >>> find_codes(np.array([3.0, -200, 4, -200, 5, -200, -1]))
    (-200.0,)
    >>> find_codes(np.append(np.linspace(2.0, 40.0, 100), [4321.0] * 3))
    (4321.0,)
    """
    others = values[~np.isin(values, SENTINELS)]
    # A quotient of 1 or more: the value has the sentinel's sign and lies at or beyond it.
    outside = [number for number in SENTINELS if not np.any(others / number >= 1)]
    usual = {number for number in _repeated(values, len(values)) if number in outside}
    return tuple(sorted({*usual, *_isolated(values)}))


def _isolated(values: np.ndarray) -> tuple[float, ...]:
    """Numbers that are repeated, outermost, and farther from all others than these are from each other."""
    each, counts = np.unique(values, return_counts=True)
    often, codes = max(LEAST_REPEATS, len(values) / 1000), []
    while len(each) > LEAST_DISTINCT:
        if counts[0] >= often and each[1] - each[0] > each[-1] - each[1]:
            end = 0
        elif counts[-1] >= often and each[-1] - each[-2] > each[-2] - each[0]:
            end = -1
        else:
            break
        codes.append(float(each[end]))
        each, counts = np.delete(each, end), np.delete(counts, end)
    return tuple(codes)
