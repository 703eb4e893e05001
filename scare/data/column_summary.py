"""What a column of numbers is, by its name, its values and what its file states: a measurement, or why it is none.

Codes, counters, places, row numbers and states of a device are never a channel or a reference. A unit that nobody
states, and numbers that stand for "no reading", are told by the quantity's usual values (`quantities.toml`).
Comes from `tables`; goes to `column_guess`.
"""

import re
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import polars as pl

from scare.data.formats import FormatColumn
from scare.data.quantities import display_unit, find_quantity, find_unit, is_called, quantities
from scare.data.readings import Channel

TIME_WORDS = {"date", "time", "datetime", "timestamp", "epoch", "year", "month", "day", "hour", "minute"}
PLACE_WORDS = {"lat", "latitude", "lon", "long", "lng", "longitude", "alt", "altitude", "elevation"}
LABEL_WORDS = {"flag", "flags", "qc", "qaqc", "status", "error", "id", "serial", "version", "code", "poc", "type"}
ROW_WORDS = {"row", "index", "record", "unnamed", "column", "entry"}
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
INDEX_WORDS = {"aqi", "nowcast", "iaqi", "aqius", "aqicn"}  # computed from concentrations, not measured
LEFT_OUT = {  # words of names that are never a channel or a reference, by what they are
    **{"a time": TIME_WORDS, "a place": PLACE_WORDS, "a code": LABEL_WORDS, "a row number": ROW_WORDS},
    **{"the state of the device": STATE_WORDS, "an index": INDEX_WORDS},
}
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
MARGIN = 0.1  # of a quantity's plausible range: a repeated value further out stands for "no reading"


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
    kind = next((kind for kind, names in LEFT_OUT.items() if words(column.name) & names), "")
    values = column.drop_nulls()
    if kind or len(values) < FEW_ROWS:
        return kind
    named = find_quantity(column.name)
    if values.n_unique() == 1 and (not named or len(values) >= MANY_ROWS):
        return "always the same"
    steps = values.diff().drop_nulls()
    usual = steps.mode()[0]
    if usual > 0 and (steps == usual).sum() >= COUNTER_SHARE * len(steps):
        return "a counter"
    is_whole = (values == values.round()).all()
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
    unit = stated.unit or find_unit(unit_text) or find_unit(column.name)
    codes, limits = find_sentinels(values), (-inf, inf)
    if quantity and not unit:
        readings = values[~np.isin(values, codes)]
        top = float(np.quantile(readings, 0.95)) if len(readings) else high
        unit = (quantity.usual_unit(top) if top else "") or quantity.unit
        if unit != quantity.unit:
            usual, shown = display_unit(quantity.unit), display_unit(unit)
            notes.append(f"{column.name}: values up to {top:.3g} are not in {usual}; taken as {shown}")
    if quantity:
        codes, limits = _find_codes(values, codes, quantity.limits(unit))
    if limits != (-inf, inf):
        notes.append(
            f"{column.name}: {', '.join(f'{one:g}' for one in codes)} means 'no reading' and counts as missing"
        )
    is_reference = stated.role == "reference" or bool(REFERENCE_NAME.search(column.name.lower()))
    named = quantity.name if quantity else ""
    missing = column.null_count() / len(column)
    return ColumnSummary(column.name, missing, low, median, high, codes, named, unit, is_reference, limits), notes


def _find_codes(
    values: np.ndarray, codes: tuple[float, ...], plausible: tuple[float, float]
) -> tuple[tuple[float, ...], tuple[float, float]]:
    """Add repeated values far beyond the plausible range to the codes; returns them, and limits that exclude them."""
    margin = MARGIN * (plausible[1] - plausible[0])
    if not np.isfinite(margin):
        return codes, (-inf, inf)
    low, high = plausible[0] - margin, plausible[1] + margin
    beyond, counts = np.unique(values[(values < low) | (values > high)], return_counts=True)
    repeated = beyond[counts >= max(3, len(values) / 1000)].tolist()
    limits = low if any(one < low for one in repeated) else -inf, high if any(one > high for one in repeated) else inf
    return tuple(sorted({*codes, *repeated})), limits


def find_sentinels(values: np.ndarray) -> tuple[float, ...]:
    """Find the usual no-reading numbers that are frequent and beyond which no other value lies.

    >>> find_sentinels(np.array([3.0, -200, 4, -200, 5, -200, -1]))
    (-200.0,)
    """
    others = values[~np.isin(values, SENTINELS)]
    often = max(3, len(values) / 1000)
    # A quotient of 1 or more: the value has the sentinel's sign and lies at or beyond it.
    outside = [number for number in SENTINELS if not np.any(others / number >= 1)]
    return tuple(number for number in outside if np.sum(values == number) >= often)
