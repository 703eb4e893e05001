"""What a column of numbers is, by its name, its values and what its file states: a measurement, or why it is none.

Codes, counters, places, row numbers and states of a device are never a channel or a reference. A unit that nobody
states, and numbers that stand for "no reading", are told by the quantity's usual values (`quantities.toml`).
Called by `column_guess`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from scare.data.cells import is_unit
from scare.data.known_formats import FormatColumn
from scare.data.quantities import (
    Quantity,
    conversion,
    display_unit,
    find_quantity,
    find_unit,
    is_called,
    quantities,
    quantity_of_unit,
)
from scare.data.readings import REFERENCE, Channel, Readings
from scare.data.vocabulary import VOCABULARY
from scare.words import plural

# Words of names that are never a channel or a reference, by what they are.
LEFT_OUT = {kind: frozenset(names) for kind, names in VOCABULARY["left_out"].items()}
TIME_WORDS = LEFT_OUT["a time"]
COLUMN_WORDS = {kind: frozenset(names) for kind, names in VOCABULARY["columns"].items()}
INSTRUMENT_WORDS, PARAMETER_WORDS = COLUMN_WORDS["instrument_part"], COLUMN_WORDS["parameter"]
NUMBER_OF = re.compile(r"\b(?:site|station|serial|sample|sr|sl|s|row|unit)[ ._]*no\b", re.IGNORECASE)
# The quality of another column, such as "calidad_pm25" and "NO2 validity"; air quality is something else.
QUALITY_OF = re.compile(
    r"^(calidad|quality|qualit[éàa]|valid\w*)[ _.]|(?<!air)[ _.](calidad|quality|qualit[éàa]|valid(ity|ez|ité)?)$", re.I
)
# Such as (g/kg) and (#/l), but not names of places as in (Globeville/AirNow).
FOREIGN_UNIT = re.compile(
    r"[(\[][^()\[\]/]{0,9}(#|/ ?(k?g|c?m[23³²]?|cc|s|sec|h|hr|d|l|L|min|mol))[^()\[\]a-zA-Z]*[)\]]"
)
NUMBER_COLUMN = re.compile(r"no\.?", re.IGNORECASE)  # nitric oxide or the number of the row
LETTERS = {"C": "degC", "F": "degF", "K": "K"}  # units that are one letter, in a row or brackets of their own
# Names of a column of values whose quantity another column states.
VALUE_NAME = re.compile(r"value|measure|conc|mean|result|reading|state|valeur|valore?|wert")
# Such as "Ref.NO2", "CO(GT)" (ground truth), "FEM_PM2.5" (federal equivalent method), "pm25_station" and "fidas_pm10".
REFERENCE_NAME = re.compile(
    r"^ref(erence)?(?![a-z])|[._ ](ref(erence)?|station)$|\(gt\)|\bmonitor\b"
    r"|(?<![a-z])(fem|frm|teom|fidas|dusttrak|grimm|e?bam|t640x?|picarro|fluke|airnow|ground.?truth)(?![a-z])"
)
# Numbers that often stand for "no reading".
SENTINELS = (
    *(-32768.0, -9999.9, -9999.0, -999.99, -999.9, -999.0, -200.0, -99.99, -99.0, -1.0),
    *(999.0, 9999.0, 32767.0, 65535.0, 99999.0),
)
NEVER_READ = -999.0  # a sentinel as low as this stands for "no reading" even if it occurs only once
FEW_ROWS = 10  # in fewer rows, a column that never changes proves nothing
MANY_ROWS = 200  # in so many rows, every quantity changes
FEW_VALUES = 10  # so few distinct whole numbers, in at least ten times as many rows, are codes
COUNTER_SHARE = 0.9  # share of equal steps up, from which on a column is a counter
MARGIN = 0.1  # share of a quantity's plausible range: a value further outside is no reading
BEYOND_SHARE = 0.01  # with a larger share of values beyond the range, the column has another quantity or unit
MOST_CODES = 3  # distinct codes in a column; more are readings
LEAST_REPEATS = 3  # rows with a code, or one row in a thousand of a long column
IMPOSSIBLE = 1e3  # times the range of all other values: a number so far away is no reading even if it occurs once
UNIX_SECONDS = (1e9, 2e9)  # times from 2001 to 2033, in seconds since 1970
LONG = 300  # in so many rows, every sensor rises and falls
FILLED = 60  # so many rows on a straight line that is not level are a filled gap
LEAST_DISTINCT = 20  # among so many distinct values, an isolated one may be a code; of fewer, a state


@dataclass(frozen=True)
class ColumnSummary:
    """One column of numbers: what it measures, its missing share, its range, and which numbers mean "no reading".

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
        """Whether the column is, or could be, this quantity; what is stated of it counts more than its name."""
        named = find_quantity(self.name)
        is_another = bool(self.quantity and named and named.name != self.quantity)
        return self.quantity == quantity or (not is_another and is_called(self.name, quantity))

    def as_dict(self) -> dict[str, Any]:
        """Return the column as JSON values, as `scare inspect --json` prints it."""
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
    """Return the words of a column name in lower case, divided by anything but letters.

    >>> sorted(words("NO2_B43F_flag"))
    ['b', 'f', 'flag', 'no']
    """
    return set(re.findall(r"[^\W\d_]+", name.lower()))


def why_no_channel(column: pl.Series, stated: FormatColumn) -> str:
    """Return why a column of numbers is neither a channel nor a reference; empty if it may be one.

    >>> why_no_channel(pl.Series("entry_id", [1.0, 2.0]), FormatColumn())
    'a code'
    """
    if stated.role in ("channel", "reference", "weather"):
        return ""
    if stated.role:
        kinds = {"flag": "a code", "ignore": "not a measurement", "index": "an index"}
        return kinds.get(stated.role, f"a {stated.role}")
    quantity, values = find_quantity(column.name), column.drop_nulls()
    is_whole = bool((values == values.round()).all())
    if kind := _kind_by_name(column.name, quantity, is_whole):
        return kind
    if re.fullmatch(r"column_\d+", column.name) and is_whole and values.n_unique() == len(values):
        return "a row number"
    if len(values) < FEW_ROWS:
        return ""
    if values.n_unique() == 1 and (not quantity or len(values) >= MANY_ROWS):
        return "always the same"
    steps = values.diff().drop_nulls()
    usual_step = steps.mode()[0]
    may_count = not quantity or NUMBER_COLUMN.fullmatch(column.name)  # a short file's temperature may rise evenly
    if may_count and usual_step > 0 and (steps == usual_step).sum() >= COUNTER_SHARE * len(steps):
        return "a counter"
    if not quantity and is_whole and values.is_between(*UNIX_SECONDS).all():
        return "a time"
    is_value = column.name.lower() == "value"
    if not quantity and not is_value and is_whole and values.n_unique() <= min(FEW_VALUES, len(values) / 10):
        return "a code"
    return ""


def _kind_by_name(name: str, quantity: Quantity | None, is_whole: bool) -> str:
    """Return what a column is, if its name says that it is no measurement; `is_whole`: its values are whole numbers."""
    kind = next((kind for kind, names in LEFT_OUT.items() if words(name) & names), "")
    if QUALITY_OF.search(name):
        kind = "a code"
    if quantity and quantity.family in ("particles", "gas"):
        if words(name) & INSTRUMENT_WORDS:
            return "the state of the device"
        if NUMBER_OF.search(name):
            return "a code"
        if kind in ("a time", "a place"):  # such as "O3 one hour average" and "pm2.5_alt"
            return ""
    if kind == "a time" and quantity and not is_whole:  # such as "Temp 1 hour [°C]"
        return ""
    return kind


def stated_quantity(frame: pl.DataFrame, codes: Mapping[str, str], remarks: Sequence[str] = ()) -> str:
    """Return the quantity that a file states for all its rows, by its name or by one of `codes`; empty if none.

    It is stated in a column of one value, such as `Parameter Name`, or in a line before the table, such as
    `"Komponente";"PM10"`.

    >>> stated_quantity(pl.DataFrame({"Parameter Name": ["Ozone", "Ozone"], "Sample Measurement": [0.03, 0.04]}), {})
    'O3'
    >>> stated_quantity(pl.DataFrame(), {}, ['"Komponente";"PM10"'])
    'PM10'
    """
    for column in frame:
        if words(column.name) & PARAMETER_WORDS and column.drop_nulls().n_unique() == 1:
            value = column.drop_nulls()[0]
            text = value if isinstance(value, str) else codes.get(f"{value:g}", "")
            if quantity := find_quantity(text):
                return quantity.name
    for line in remarks:
        key, *rest = re.split("[;,:=\t]", re.sub('["#]', "", line).strip(), maxsplit=1)  # "name: value"
        if words(key) & PARAMETER_WORDS and rest and (quantity := find_quantity(rest[0])):
            return quantity.name
    return ""


def summarise(
    column: pl.Series, stated: FormatColumn, unit_text: str = "", parameter: str = "", highest: float = 0.0
) -> tuple[ColumnSummary, list[str]]:
    """Summarise a column; also returns sentences about what was guessed from its values.

    `unit_text` is the unit as the file writes it; `parameter` is the quantity of a column called `Value` or the like;
    `highest` is the highest particle mass in the columns beside it (`highest_masses`), which have the same unit.
    """
    values, notes = column.drop_nulls().to_numpy(), []
    low, median, high = np.quantile(values, [0, 0.5, 1]).tolist()
    quantity = quantities().get(stated.quantity) or find_quantity(column.name)
    if quantity is None and parameter and VALUE_NAME.search(column.name.lower()):
        quantity = quantities()[parameter]
    unit = stated.unit or find_unit(unit_text) or LETTERS.get(unit_text.strip("()[] "), "") or find_unit(column.name)
    quantity = _quantity_in(quantity, unit, column.name) or find_quantity(unit_text)
    codes = find_codes(values)
    if quantity and quantity.usual and is_unit(column.name) and not (stated.unit or unit_text):
        unit = ""  # a column called PA may be a pressure in kPa: its values tell
    if quantity and not unit:
        readings = values[~np.isin(values, codes)]
        top = float(np.quantile(readings, 0.95)) if len(readings) else high
        top = max(top, highest) if "mg/m3" in quantity.usual else top
        unit = (quantity.usual_unit(top) if top else "") or quantity.unit
        if unit != quantity.unit:
            why = f"are not in {display_unit(quantity.unit)}; " if quantity.unit else ""
            notes.append(f"{column.name}: values up to {top:.3g} {why}taken as {display_unit(unit)}")
    limits = find_limits(values, Channel(column.name, unit), quantity)
    beyond = values[(values < limits[0]) | (values > limits[1])]
    notes += describe_limits(values, Channel(column.name, unit, *limits))
    summary = ColumnSummary(
        column.name,
        missing=column.null_count() / len(column),
        low=low,
        median=median,
        high=high,
        sentinels=tuple(sorted({*codes, *_repeated_values(beyond, len(values))})),
        quantity=quantity.name if quantity else "",
        unit=unit,
        is_reference=stated.role == "reference" or is_reference_name(column.name),
        limits=limits,
    )
    return summary, notes


def _quantity_in(quantity: Quantity | None, unit: str, name: str) -> Quantity | None:
    """Correct the quantity that a column's name suggests by the column's unit: a wind chill in degrees is no wind.

    Returns None if the name has a unit that we do not know, such as g/kg, but that cannot be one of the quantity.
    """
    of_unit = quantity_of_unit(unit)
    # A pressure corrects no name: pm25_pa is the reading of a PurpleAir, not in pascals.
    if of_unit and (quantity is None or (conversion(quantity.unit, unit) is None and of_unit.name != "pressure")):
        return of_unit
    return None if quantity and quantity.unit and not unit and FOREIGN_UNIT.search(name) else quantity


def highest_masses(frame: pl.DataFrame) -> dict[bool, float]:
    """Return the largest 95th percentile of all columns of particle mass: True for a reference's, False for others."""
    tops = {True: 0.0, False: 0.0}
    for column in frame.select(cs.numeric()):
        quantity = find_quantity(column.name)
        if quantity and "mg/m3" in quantity.usual and column.count():
            of_reference = is_reference_name(column.name)
            tops[of_reference] = max(tops[of_reference], float(column.drop_nulls().quantile(0.95) or 0))
    return tops


def is_reference_name(name: str) -> bool:
    """Whether a column is called like a reference's.

    >>> is_reference_name("Ref.NO2"), is_reference_name("NO2")
    (True, False)
    """
    return bool(REFERENCE_NAME.search(name.lower()))


def find_limits(values: np.ndarray, channel: Channel, quantity: Quantity | None = None) -> tuple[float, float]:
    """Return the limits beyond which a channel's number is no reading; infinite on a side where none is known.

    They are the limits of its quantity (by default the one that its name suggests) with a margin, if nearly all values
    lie within them. They also separate codes such as 4095 from the readings.

    >>> readings = np.linspace(3.0, 30.0, 200)
    >>> find_limits(readings, Channel("pm25", "ug/m3"))
    (-100.0, 1100.0)
    >>> find_limits(np.append(readings, [4095.0] * 5), Channel("cell", "mV"))
    (-inf, 2062.5)
    """
    codes = _certain_codes(values)
    readings = values[~np.isin(values, codes)]
    if not len(readings):
        return -inf, inf
    quantity = quantity or find_quantity(channel.name)
    unit = channel.unit or find_unit(channel.name)
    if quantity and not unit:
        top = float(np.quantile(readings, 0.95))
        unit = (quantity.usual_unit(top) if top else "") or quantity.unit
    low, high = quantity.limits(unit) if quantity else (-inf, inf)
    margin = MARGIN * (high - low)
    limits = (low - margin, high + margin) if np.isfinite(margin) else (-inf, inf)
    beyond = readings[(readings < limits[0]) | (readings > limits[1])]
    repeated = _repeated_values(beyond, len(values))
    if len(repeated) <= MOST_CODES:  # they are codes
        beyond = beyond[~np.isin(beyond, repeated)]
    lowest, highest = limits if len(beyond) <= BEYOND_SHARE * len(readings) else (-inf, inf)
    # A limit also lies half-way between the readings and the nearest code below or above them.
    if codes_below := [code for code in codes if code < readings.min()]:
        lowest = max(lowest, 0.5 * (max(codes_below) + float(readings.min())))
    if codes_above := [code for code in codes if code > readings.max()]:
        highest = min(highest, 0.5 * (min(codes_above) + float(readings.max())))
    return round(lowest, 6), round(highest, 6)


def describe_limits(values: np.ndarray, channel: Channel) -> list[str]:
    r"""Return which values count as missing because they lie beyond the channel's limits, and how many there are.

    >>> lines = describe_limits(np.array([3.0, 9999, 9999, 9999, 1500]), Channel("pm25", "ug/m3", -100, 1100))
    >>> print(*lines, sep="\n")
    pm25: 9999 (3 times) means 'no reading' and counts as missing
    pm25: 1 value outside -100 to 1100 ug/m3 counts as missing
    >>> describe_limits(np.repeat(np.arange(280.0, 300), 3), Channel("t", "K", -50, 100))
    ['t: 60 values outside -50 to 100 K count as missing']
    """
    beyond = values[(values < channel.low) | (values > channel.high)]
    repeated = _repeated_values(beyond, len(values))
    codes = {sentinel for sentinel in SENTINELS if np.any(beyond == sentinel)}
    if len(repeated) <= MOST_CODES:
        codes |= {*repeated}
    lines = []
    if codes:
        counts = ", ".join(f"{code:g} ({plural(int(np.sum(beyond == code)), 'time')})" for code in sorted(codes))
        lines = [f"{channel.name}: {counts} means 'no reading' and counts as missing"]
    if others := len(beyond) - int(np.isin(beyond, list(codes)).sum()):
        unit = f" {channel.unit}" if channel.unit else ""
        verb = "counts" if others == 1 else "count"
        limits = f"outside {channel.low:g} to {channel.high:g}"
        if not np.isfinite(channel.low):
            limits = f"above {channel.high:g}"
        elif not np.isfinite(channel.high):
            limits = f"below {channel.low:g}"
        lines.append(f"{channel.name}: {plural(others, 'value')} {limits}{unit} {verb} as missing")
    return lines


def describe_sorted(name: str, values: np.ndarray) -> str:
    """Return a message if values only rise or only fall, as in a column that was sorted by itself; empty otherwise.

    Fewer than `LONG` values are not judged: a night may only get colder.

    >>> describe_sorted("pm25", np.arange(500.0))
    'pm25 never falls from the first row to the last: was the column sorted by itself?'
    """
    steps = np.diff(values)
    rises, falls = (steps > 0).any(), (steps < 0).any()
    if len(values) < LONG or len(np.unique(values)) < LEAST_DISTINCT or (rises and falls):
        return ""
    missing = "rises" if falls else "falls"
    return f"{name} never {missing} from the first row to the last: was the column sorted by itself?"


def describe_filled(name: str, values: np.ndarray) -> str:
    """Return a message if many successive values lie on one slope, as in a gap that was filled; empty otherwise.

    >>> describe_filled("pm25", np.interp(np.arange(300), [0, 100, 200, 299], [3, 3, 9, 9]))
    'pm25 lies on a straight line for 101 rows: was a gap filled?'
    """
    if len(values) < FILLED:
        return ""
    steps = np.diff(values)
    # At each row but the first and the last: whether the line goes on with the same slope, and is not level.
    is_straight = (np.abs(np.diff(steps)) <= 1e-6 * np.ptp(values)) & (steps[1:] != 0)
    breaks = np.flatnonzero(np.concatenate([[True], ~is_straight, [True]]))
    # With n straight rows between them, two breaks are n + 1 apart; with the rows at its ends the line has n + 2.
    longest = int(np.diff(breaks).max()) + 1
    return f"{name} lies on a straight line for {longest:,} rows: was a gap filled?" if longest >= FILLED else ""


def with_limits(readings: Sequence[Readings], notify: Callable[[str], object]) -> list[Readings]:
    """Set the limits of channels and references that have none: a number beyond them is no reading.

    This must be done before anything is averaged: one 9999 in an hour would spoil its mean. `notify` is called with
    sentences about the numbers that count as missing.
    """

    def with_own_limits(channel: Channel, column: str) -> Channel:
        """Set the limits of a channel by the values in its `column` of the frames (REFERENCE for a reference)."""
        if (channel.low, channel.high) != (-inf, inf):
            return channel
        values = np.concatenate([box.frame[column].drop_nulls().to_numpy() for box in readings])
        low, high = find_limits(values, channel)
        limited = replace(channel, low=low, high=high)
        for line in describe_limits(values, limited):
            notify(line)
        return limited

    if not readings:
        return []
    channels = tuple(with_own_limits(channel, channel.name) for channel in readings[0].channels)
    truth = readings[0].reference
    reference = with_own_limits(truth, REFERENCE) if truth else None
    return [replace(box, channels=channels, reference=reference) for box in readings]


def _repeated_values(values: np.ndarray, rows: int) -> list[float]:
    """Find the values that are repeated often enough to stand for "no reading", in a column with this many rows."""
    distinct, counts = np.unique(values, return_counts=True)
    return distinct[counts >= max(LEAST_REPEATS, rows / 1000)].tolist()


def find_codes(values: np.ndarray) -> tuple[float, ...]:
    """Find numbers that stand for "no reading", by their values alone.

    These are frequent sentinels (`SENTINELS`) beyond which no other value lies, and isolated numbers.

    >>> find_codes(np.array([3.0, -200, 4, -200, 5, -200, -1]))
    (-200.0,)
    >>> find_codes(np.append(np.linspace(2.0, 40.0, 100), [4321.0] * 3))
    (4321.0,)
    """
    frequent = {*_outermost_sentinels(values)} & {*_repeated_values(values, len(values))}
    return tuple(sorted(frequent | {*_certain_codes(values)}))


def _outermost_sentinels(values: np.ndarray) -> list[float]:
    """Find the sentinels among the values beyond which no other value lies."""
    others = values[~np.isin(values, SENTINELS)]
    # A quotient of 1 or more: the value has the sentinel's sign and lies at or beyond it.
    return [code for code in SENTINELS if np.any(values == code) and not np.any(others / code >= 1)]


def _certain_codes(values: np.ndarray) -> tuple[float, ...]:
    """Find the numbers that are no reading whatever the quantity: isolated ones, and sentinels from -999 down."""
    lowest = {sentinel for sentinel in _outermost_sentinels(values) if sentinel <= NEVER_READ}
    return tuple(sorted(lowest | {*_isolated_values(values)}))


def _isolated_values(values: np.ndarray) -> list[float]:
    """Find minima and maxima that are farther from the next value than all other values are apart.

    They are repeated, or so far away that no sensor can reach them. Each is removed before the next is looked for.
    """
    distinct, counts = np.unique(values, return_counts=True)  # in ascending order
    least_count, isolated = max(LEAST_REPEATS, len(values) / 1000), []
    while len(distinct) > LEAST_DISTINCT:
        for end, gap, others_range in (
            (0, distinct[1] - distinct[0], distinct[-1] - distinct[1]),
            (-1, distinct[-1] - distinct[-2], distinct[-2] - distinct[0]),
        ):
            # A number that is there once or twice may be a true extreme, unless it is impossibly far away.
            least_ratio = 1 if counts[end] >= least_count else IMPOSSIBLE
            if gap > least_ratio * others_range:
                isolated.append(float(distinct[end]))
                distinct, counts = np.delete(distinct, end), np.delete(counts, end)
                break
        else:  # neither end is isolated
            break
    return isolated
