"""Tables of another shape become one row for each time and one column for each quantity.

Known shapes: one value a row with the name of its quantity beside it (long), the hours of a day as columns, a clock
whose date is in the lines before the table, and cells that name the number after them, as in `pm25, 12.3, rh, 40`.
Called by `tables`, with the first rows and, if they have such a shape, with all rows.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import polars as pl

from scare.data.cells import is_unit, kind
from scare.data.json_records import flat
from scare.data.quantities import Conversion, conversion, find_quantity, find_unit
from scare.data.time_text import is_clock, parse, shape_of
from scare.words import listed, plural

LINE = " line"
NAME_COLUMN = re.compile(
    r"parameter(?:[ _.](?:name|cd|code))?|param(?:_name)?|pollutant(?:[ _]code)?|airpollutant(?:code)?|polluant"
    r"|@?species(?:_?code|_?name)?|component|komponente|stof|inquinante|variable|series|serie|entity_id|_?measurement|_field|magnitud|metric"
    r"|(?:codi_)?contaminante?|id_parameter|phenomenon|parametro|parámetro|substance|analyte|測項|項目|项目|type",
    re.IGNORECASE,
)
VALUE_COLUMN = re.compile(
    r"[@_]?value|(?:param|raw|measured|result)[_ ]value|measure_value(?:::\w+)?"
    r"|state|wert|messwert|valor|valeur|sample measurement|concentration|raw conc\.|conc"
    r"|obs_?value|valore",
    re.IGNORECASE,
)
UNIT_COLUMN = re.compile(
    r"units?(?:[ _](?:cd|code))?|.*[ _.]units?|units? of measure.*|unitofmeasurement|unit[éàa].*|einheit"
    r"|eenheid|enhet|unidad",
    re.IGNORECASE,
)
STATION = r"[A-Z]{0,3}\d{3,6}[A-Z]?"  # a code as the name of a column: 1001A, NL01485
LABEL_COLUMN = re.compile(
    r"monitor|site|station|locat|device|sensor|box|node|city|estacion|\bid\b|year|month|day|hour|^an?[oy]$|^mes$|^dia$",
    re.I,
)
SENSOR_LABEL = re.compile(r"sensor|instrument|channel", re.IGNORECASE)
HOUR_COLUMN = re.compile(
    r"(?:h|hr|hour|hora)?[ _]?(\d{1,2})(?:[:.h]00| ?h|時|时|시)?(?: ?([ap])\.?m\.?)?", re.IGNORECASE
)
HOUR_WORDS = {"mid": 0, "midnight": 0, "noon": 12}
FLAG_COLUMN = re.compile(r"v_?(\d{1,2})", re.IGNORECASE)
TENTHS, SIGNED_TENTHS = r"^([+-]?\d{4,5}),[0-9A-Z]$", r"^[+-]\d{4,5},[0-9A-Z]$"  # such as +0213,1
VALUE_WORD = re.compile(r"value|conc|sample measurement|wert|valor|valeur", re.IGNORECASE)
BAD_FLAGS = ("N", "0", "-1", "0.0")  # cells of a flag's column that call the value invalid
MONITOR = "monitor"  # the column that tells monitors of one file apart
# Columns that name an instrument in files of the US EPA; poc is the number of the instrument at its site.
SITE_PARTS = ("state code", "county code", "site num", "site id", "poc")
TIME_PARTS = {  # parts of a time in neighbouring columns without names, and the range of the numbers in each
    ("year", "day of year", "month", "day", "hour", "minute"): (
        *((1970, 2100), (1, 366), (1, 12), (1, 31), (0, 24), (0, 59)),
    ),
    ("year", "month", "day", "hour"): ((1970, 2100), (1, 12), (1, 31), (0, 24)),
    ("year", "day of year", "hhmm"): ((1970, 2100), (1, 366), (0, 2400)),
    ("date", "hhmm"): ((19_700_101, 21_001_231), (0, 2400)),
}
SERIES = 200  # most quantities that a long table has
SAMPLE = 20  # cells of a column by which its kind is told


@dataclass(frozen=True)
class Reshaped:
    """A table after a change of its shape, with a sentence about it and the units it found."""

    frame: pl.DataFrame
    notes: tuple[str, ...]
    units: Mapping[str, str] = field(default_factory=dict)


def reshape(frame: pl.DataFrame, remarks: Sequence[str], codes: Mapping[str, str]) -> Reshaped | None:
    """Reshape a table of text to one row per time; None if it has that shape already.

    `remarks` are the lines around the table, and last the date in the file's name, or ""; `codes` maps the file's codes
    of quantities and units to their names.
    """
    steps: tuple[Callable[[pl.DataFrame], Reshaped | None], ...] = (
        *(_join_blocks, _open_messages, _name_parts, _name_pairs, _scale_tenths, _fill_dates),
        partial(_date_clocks, remarks=remarks),
        *(_stack_hours, _name_monitors, _stack_stations, _share_units),
        partial(_spread_names, codes=codes),
    )
    result = Reshaped(_without_headers(frame), ())
    for step in steps:
        changed = step(result.frame)
        if changed is not None:
            result = Reshaped(changed.frame, result.notes + changed.notes, {**result.units, **changed.units})
    return result if result.notes else None  # every change has a note


def _without_headers(frame: pl.DataFrame) -> pl.DataFrame:
    """Leave out comments and rows that repeat the header, as before each series of an InfluxDB file."""
    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    if len(texts) < 2:
        return frame
    # Cells of a row that repeat the name of their column, and other cells.
    repeated = pl.sum_horizontal((pl.col(name) == name).fill_null(False) for name in texts)
    other_cells = pl.sum_horizontal((pl.col(name) != name).fill_null(False) for name in texts)
    is_comment = pl.col(texts[0]).str.starts_with("#").fill_null(False)
    return frame.filter(~is_comment, ~((repeated > 1) & (other_cells == 0)))


def has_blocks(frame: pl.DataFrame) -> bool:
    """Whether some row is the header of another table: it repeats the first column's name, but not all others."""
    first, *others = (name for name in frame.columns if name != LINE)
    if frame.schema[first] != pl.String:
        return False
    # Rows that begin like the header. A file may repeat its own header before each series: more are not looked at than
    # a table has series.
    headers = frame.filter(pl.col(first) == first).head(SERIES).rows(named=True)
    # The header of another table has at least one other name; an empty cell is none.
    return any(row[name] and row[name] != name for row in headers for name in others)


def _join_blocks(frame: pl.DataFrame) -> Reshaped | None:
    """Join tables that stand one below the other, each with a header, to one table with the columns of all.

    Columns of the same name in the same place, such as the time, tell which rows belong together. A table without a
    new column only adds rows.
    """
    if not has_blocks(frame):
        return None
    first = next(name for name in frame.columns if name != LINE)
    block = (pl.col(first) == first).fill_null(False).cum_sum()
    top, *below = frame.with_columns(block.alias(" block")).partition_by(
        " block", maintain_order=True, include_key=False
    )
    for table in below:
        header = table.drop(LINE).row(0, named=True)  # its names, by those of the first table in the same place
        # The columns that both tables have in one place tell which rows belong together; the others are new.
        keys = [name for name, own_name in header.items() if own_name == name]
        new_names = {name: own_name for name, own_name in header.items() if own_name and own_name != name}
        rows = table.slice(1).select(LINE, *keys, *new_names).rename(new_names)
        if {*new_names.values()} <= {*top.columns}:
            top = pl.concat([top, rows], how="diagonal")
            continue
        rows = rows.drop(LINE).unique(keys, keep="first", maintain_order=True)
        top = top.join(rows, on=keys, how="full", coalesce=True, nulls_equal=True, maintain_order="left_right")
    top = top.with_columns(pl.col(LINE).forward_fill())
    return Reshaped(top, (f"{len(below) + 1} tables that stand one below the other are joined by '{first}'.",))


def _open_messages(frame: pl.DataFrame) -> Reshaped | None:
    """Replace a column whose cells are JSON messages by a column for each of their values; a damaged message has none.

    A value with the name of another column gets the name of its column of messages in front.
    """
    name = next((name for name, cells in _samples(frame).items() if cells and all(map(_values, cells))), "")
    if not name:
        return None
    messages = [_values(cell) for cell in frame[name]]
    columns = []
    for key in dict.fromkeys(key for message in messages for key in message):
        unique_name = key if key not in frame.columns else f"{name}.{key}"
        columns.append(pl.Series(unique_name, [message.get(key) for message in messages], pl.String))
    note = f"The messages in '{name}' are read as {plural(len(columns), 'column')}."
    return Reshaped(frame.drop(name).with_columns(columns), (note,))


def _samples(frame: pl.DataFrame) -> dict[str, list[str]]:
    """Return the first cells of each column that are not empty."""
    return {name: frame[name].drop_nulls().head(SAMPLE).to_list() for name in frame.columns if name != LINE}


def _values(cell: str | None) -> dict[str, str]:
    """Return the values in a JSON message by name; {} if the text is not a JSON object."""
    if not cell or not (cell.startswith("{") and cell.endswith("}")):
        return {}
    try:
        return dict(flat(json.loads(cell), ""))
    except ValueError:
        return {}


def _name_pairs(frame: pl.DataFrame) -> Reshaped | None:
    """Name columns of a table without a header by the word in the column before them, or by `name=` in their cells.

    For example, the number 12.3 is called pm25 in rows such as `pm25, 12.3` and `pm25=12.3`.
    """
    names = [name for name in frame.columns if name != LINE]
    if not all(name.startswith("column_") for name in names):
        return None
    new_names: dict[str, str] = {}
    columns_of_words = []
    for name, following in zip(names, [*names[1:], ""], strict=True):
        cells = frame[name].drop_nulls().unique().to_list()
        before_equals = {cell.partition("=")[0] for cell in cells}
        if len(before_equals) == 1 and all("=" in cell for cell in cells):
            new_names[name] = before_equals.pop()
        elif len(cells) == 1 and kind(cells[0]) == "text" and following and _are_numbers(frame[following]):
            new_names[following] = cells[0]
            columns_of_words.append(name)
    if not new_names or len({*new_names.values()}) < len(new_names):
        return None
    note = f"Columns are named by their cells: {', '.join(new_names.values())}."
    return Reshaped(frame.drop(columns_of_words).rename(new_names), (note,))


def _name_parts(frame: pl.DataFrame) -> Reshaped | None:
    """Name columns of a table without a header that hold the parts of a time, such as year, month, day and hour.

    The parts are looked for in any neighbouring columns among the first eight.
    """
    names = [name for name in frame.columns if name != LINE]
    if not all(name.startswith("column_") for name in names):
        return None
    numbers = [frame[name].cast(pl.Int64, strict=False) for name in names[:8]]
    for parts, ranges in TIME_PARTS.items():
        for start in range(len(numbers) - len(parts) + 1):
            end = start + len(parts)
            if parts[0] == "date" and not all(map(shape_of, frame[names[start]].drop_nulls().unique())):
                continue
            in_range = [column.is_between(*limits) for column, limits in zip(numbers[start:end], ranges, strict=True)]
            all_in_range = all(not column.null_count() and column.all() for column in in_range)
            are_clocks = parts[-1] != "hhmm" or _are_hours_and_minutes(numbers[end - 1])
            distinct_rows = pl.DataFrame(numbers[start:end]).n_unique()
            # Times differ from row to row, unlike codes that happen to lie in the ranges.
            if all_in_range and are_clocks and distinct_rows > frame.height / 2:
                note = f"The columns {start + 1} to {end} are read as {', '.join(parts)}."
                return Reshaped(frame.rename(dict(zip(names[start:end], parts, strict=True))), (note,))
    return None


def _are_hours_and_minutes(numbers: pl.Series) -> bool:
    """Whether numbers are clocks written as hhmm, such as 5, 100 and 1530, and not hours or minutes of the day."""
    return bool((numbers % 100 < 60).all()) and bool((numbers > 60).any())


def _are_numbers(column: pl.Series) -> bool:
    cells = column.drop_nulls().head(50).to_list()
    return bool(cells) and all(kind(cell) == "number" for cell in cells)


def _scale_tenths(frame: pl.DataFrame) -> Reshaped | None:
    """Read cells such as +0213,1 of NOAA's hourly files: tenths, then a quality code; 3 and 7 are errors."""
    samples = {name: frame[name].drop_nulls().head(50) for name in frame.columns if name != LINE}
    tenths = [name for name, cells in samples.items() if len(cells) and cells.str.contains(TENTHS).all()]
    if not any(samples[name].str.contains(SIGNED_TENTHS).all() for name in tenths):
        return None
    numbers = pl.col(tenths).str.extract(TENTHS, 1).cast(pl.Float64)
    is_missing = pl.col(tenths).str.contains(r"^\+?9{4,5},|,[37]$")  # 9999 or 99999, or an error
    scaled = frame.with_columns(pl.when(~is_missing).then((numbers / 10).cast(pl.String)))
    note = f"{listed(tenths)} {'holds' if len(tenths) == 1 else 'hold'} tenths with a code of their quality."
    return Reshaped(scaled, (note,))


def _fill_dates(frame: pl.DataFrame) -> Reshaped | None:
    """Fill in the date of the row above where a row has a clock alone, as in tables with one date for each day."""
    clocks = [frame[name] for name, cells in _samples(frame).items() if cells and all(map(is_clock, cells))]
    clock_names = [column.name for column in clocks]
    others = [frame[name] for name in frame.columns if name not in (LINE, *clock_names)]
    dates = [column for column in others if column.null_count() and column[0] is not None and _are_times(column)]
    # A few rows without a date have lost theirs; if it is left out on purpose, most rows have none.
    if not clocks or len(dates) != 1 or dates[0].null_count() - clocks[0].null_count() < frame.height / 5:
        return None
    note = f"Rows without a date in '{dates[0].name}' have that of the row above."
    return Reshaped(frame.with_columns(dates[0].forward_fill()), (note,))


def _share_units(frame: pl.DataFrame) -> Reshaped | None:
    """Convert values to the most frequent unit of their quantity, where a column of units names several of one kind."""
    columns = [name for name in frame.columns if name != LINE]
    unit_column = next((name for name in columns if UNIT_COLUMN.fullmatch(name)), "")
    values = [name for name in columns if VALUE_WORD.search(name) and _are_numbers(frame[name])]
    if not unit_column or not values:
        return None
    name_column = next((name for name in columns if NAME_COLUMN.fullmatch(name) and name != unit_column), "")
    quantity_of_row = pl.col(name_column) if name_column else pl.lit("")
    pairs = frame.select(name=quantity_of_row, unit=pl.col(unit_column)).drop_nulls()
    by_frequency = pairs.group_by("name", "unit").len().sort("len", descending=True)
    targets: dict[str, str] = {}  # the most frequent unit of each quantity
    conversions: dict[tuple[str, str], Conversion] = {}  # by quantity and unit
    for quantity, unit in by_frequency.select("name", "unit").iter_rows():
        target = targets.setdefault(quantity, unit)
        to_target = conversion(find_unit(unit), find_unit(target))
        if to_target and find_unit(unit) != find_unit(target):
            conversions[quantity, unit] = to_target
    if not conversions:
        return None
    converted = frame
    for (quantity, unit), to_target in conversions.items():
        is_in_unit = ((pl.col(unit_column) == unit) & (quantity_of_row == quantity)).fill_null(False)
        numbers = pl.col(values).cast(pl.Float64, strict=False) * to_target.gain + to_target.offset
        changed = converted.filter(is_in_unit).with_columns(
            numbers.cast(pl.String), pl.lit(targets[quantity]).alias(unit_column)
        )
        converted = pl.concat([converted.filter(~is_in_unit), changed])
    texts = listed([f"{unit} to {targets[quantity]}" for quantity, unit in conversions])
    return Reshaped(converted.sort(LINE, maintain_order=True), (f"Values are converted from {texts}.",))


def _date_clocks(frame: pl.DataFrame, remarks: Sequence[str]) -> Reshaped | None:
    """Add dates to times of day, if no column has them: the date stated before the table, a day later each midnight."""
    samples = _samples(frame)
    clocks = [name for name, cells in samples.items() if cells and all(map(is_clock, cells))]
    has_dates = any(cells and sum(1 for cell in cells if shape_of(cell)) > len(cells) / 2 for cells in samples.values())
    whole_times = [
        name for name in samples if re.fullmatch(r"year|jahr|a[nñ]o|epoch.*|unix.*|.*timestamp.*", name, re.IGNORECASE)
    ]
    if not clocks or has_dates or whole_times:
        return None
    # Lines that speak of a date come first.
    lines = sorted(remarks, key=lambda line: not re.search(r"start.*date|date|datum|fecha", line, re.IGNORECASE))
    texts = (word for line in lines for word in re.findall(r"[^\s,;\t\"]+", line))
    text = next((word for word in texts if (shape := shape_of(word)) and not shape.has_clock), None)
    if text is None:
        return None
    shape = shape_of(text)
    assert shape is not None
    day_first, month_first = (parse(pl.Series([text]), shape, order)["time"][0] for order in ("dmy", "mdy"))
    date = day_first or month_first
    if date is None:
        return None
    # With any date, the clocks show where a new day begins: they go back by more than half a day.
    clock = parse("2000-01-01 " + frame[clocks[0]].fill_null("0:00"), shape_of("2000-01-01 00:00") or shape)["time"]
    days = (clock.diff().dt.total_seconds() < -43_200).fill_null(False).cum_sum()
    dates = pl.select((pl.lit(date) + pl.duration(days=pl.lit(days))).dt.to_string("%Y-%m-%d").alias("start date"))
    where = "in the file's name" if text == remarks[-1] else "before the table"  # `tables` adds that of the name last
    note = f"The date of the first row is {date:%Y-%m-%d}, from '{text}' {where}."
    return Reshaped(pl.concat([frame, dates], how="horizontal"), (note,))


def _stack_hours(frame: pl.DataFrame) -> Reshaped | None:
    """Turn a column per hour of the day into a row per hour: `hour` and `value`.

    A column of flags, such as V01 beside H01, says which values are valid; values with a bad flag become missing.
    Labels stand before the hours; numbers after them are the day's maximum, mean and the like, and are left out.
    """
    names = [name for name in frame.columns if name != LINE]
    hours = _find_hours(names)  # by column
    flags = {int(match[1]): name for name in names if (match := FLAG_COLUMN.fullmatch(name))}  # columns by hour
    # Without a header, the columns are a date and 24 hours, or a date and 24 pairs of a value and its flag.
    is_headless = all(name.startswith("column_") for name in names)
    if is_headless and len(names) in (25, 49) and shape_of(str(frame[names[0]].drop_nulls().first())):
        columns_per_hour = (len(names) - 1) // 24
        hours = {name: hour for hour, name in enumerate(names[1::columns_per_hour], start=1)}
        flags = dict(enumerate(names[2::2], start=1)) if columns_per_hour == 2 else {}
    # Hours are called by their beginning, 0 to 23, or by their end, 1 to 24.
    if {*hours.values()} not in ({*range(24)}, {*range(1, 25)}) or len(hours) != 24:
        return None
    last_hour = names.index([*hours][-1])
    labels = [
        # A spreadsheet gives a date the clock 00:00:00.
        pl.col(name).str.replace(r"[T ]00:00(:00)?$", "")
        for position, name in enumerate(names)
        if name not in hours and name not in flags.values()
        if position < last_hour or not _are_numbers(frame[name])
    ]
    frames_by_hour = []
    for name, hour in hours.items():
        value = pl.col(name)
        if flag := flags.get(hour):
            value = pl.when(~pl.col(flag).is_in(BAD_FLAGS)).then(value)
        frames_by_hour.append(frame.select(LINE, *labels, hour=pl.lit(f"{hour:02}:00"), value=value))
    stacked = pl.concat(frames_by_hour).sort(LINE, "hour", maintain_order=True)
    note = "The 24 columns of a day are read as hours"
    return Reshaped(stacked, (f"{note}; values with a bad flag are missing." if flags else f"{note}.",))


def _find_hours(names: Sequence[str]) -> dict[str, int]:
    """Find the columns that are hours of the day, and which; hours may be counted to twelve: Mid, 1:00, …, Noon, 1:00.

    >>> _find_hours(["Date", "Mid", "1:00", "H07//H07", "11 PM"])
    {'Mid': 0, '1:00': 1, 'H07//H07': 7, '11 PM': 23}
    """
    hours = {name: hour for name in names if (hour := _hour(name)) is not None}
    # Twice the hours of a clock: 12 (or 0, as Mid and Noon are read), then 1 to 11.
    before_noon, after_noon = [*hours.values()][:12], [*hours.values()][12:]
    if all(half[:1] in ([0], [12]) and half[1:] == [*range(1, 12)] for half in (before_noon, after_noon)):
        return dict(zip(hours, range(24), strict=True))
    return hours


def _hour(name: str) -> int | None:
    """Parse the name of a column as an hour from 0 to 24, else None; the second of two equal names ends in _2."""
    word = re.sub(r"_2$", "", name.partition("//")[0].strip())
    if word.lower() in HOUR_WORDS:
        return HOUR_WORDS[word.lower()]
    match = HOUR_COLUMN.fullmatch(word)
    if not match:
        return None
    hour = int(match[1])
    if match[2]:
        hour = hour % 12 + (12 if match[2].lower() == "p" else 0)
    return hour if hour <= 24 else None


def _name_monitors(frame: pl.DataFrame) -> Reshaped | None:
    """Add a column that names the instrument, if the parts of its name are in several columns and differ."""
    parts = [name for name in frame.columns if name.lower() in SITE_PARTS]
    if "poc" not in {name.lower() for name in parts} or MONITOR in frame.columns or len(parts) < 2:
        return None
    named = frame.with_columns(pl.concat_str(pl.col(parts), separator="-").alias(MONITOR))
    monitors = named[MONITOR].unique(maintain_order=True).drop_nulls().to_list()
    if len(monitors) < 2:
        return None
    note = f"There are {len(monitors)} instruments ({', '.join(monitors[:3])}), told apart by {', '.join(parts)}."
    return Reshaped(named, (note,))


def _stack_stations(frame: pl.DataFrame) -> Reshaped | None:
    """Turn a column for each station into the columns `station` and `value`, in a table whose rows name a quantity."""
    columns = [name for name in frame.columns if name != LINE]
    name_column = next((name for name in columns if NAME_COLUMN.fullmatch(name)), "")
    names = frame[name_column].drop_nulls().unique().to_list() if name_column else []
    stations = [name for name in columns if re.fullmatch(STATION, name)]
    quantities = [name for name in names if find_quantity(name)]
    if len(stations) < 2 or len(quantities) <= len(names) / 2 or any(map(VALUE_COLUMN.fullmatch, columns)):
        return None
    index = [name for name in columns if name not in stations]
    stacked = frame.unpivot(stations, index=[LINE, *index], variable_name="station", value_name="value")
    stacked = stacked.with_columns(pl.format("station {}", "station").alias("station"))  # not 1001 amperes
    return Reshaped(stacked.sort(LINE, maintain_order=True), (f"{len(stations)} columns are read as stations.",))


def _spread_names(frame: pl.DataFrame, codes: Mapping[str, str]) -> Reshaped | None:
    """Pivot a table with one value per row to a column for each quantity; of equal times the first is kept.

    For example, the rows `12:00, pm25, 12.3` and `12:00, rh, 40` become one row, with the columns pm25 and rh. Rows of
    one time stay apart if their labels, such as a station's, tell them apart.
    """
    columns = {name: frame[name] for name in frame.columns if name != LINE}
    name_column, value_column = _find_name_and_value(columns, codes)
    if not name_column or not value_column:
        return None
    times = [name for name, column in columns.items() if _are_times(column)]
    other_columns = [name for name in columns if name not in (*times, name_column, value_column)]
    labels = [name for name in other_columns if LABEL_COLUMN.search(name)]
    labels = [name for name in labels if columns[name].n_unique() < frame.height]  # not the number of the row
    index = [*times, *_distinguishing(frame, name_column, times, labels)]  # columns that make up a new row's key
    if not index:
        return None
    rows = frame.filter(pl.col(name_column).is_not_null()).with_columns(pl.col(name_column).replace(dict(codes)))
    wide = rows.pivot(name_column, index=index, values=value_column, aggregate_function="first", maintain_order=True)
    # The first line of each new row; if that cannot be told, rows are numbered.
    lines = rows.group_by(index, maintain_order=True).agg(pl.col(LINE).min())
    joined = lines.select(LINE).hstack(wide) if lines.height == wide.height else wide.with_row_index(LINE, 1)
    units = {}
    if unit_column := next((name for name in columns if UNIT_COLUMN.fullmatch(name) and name not in index), ""):
        pairs = rows.select(name_column, pl.col(unit_column).replace(dict(codes)))
        pairs = pairs.drop_nulls().unique(name_column)
        units = {quantity: unit for quantity, unit in pairs.iter_rows() if is_unit(unit)}
    new_columns = plural(wide.width - len(index), "column")
    notes = [f"One value a row: '{value_column}' is read as {new_columns} by '{name_column}'."]
    if repeats := rows.height - rows.select(*index, name_column).n_unique():
        notes.append(f"{repeats:,} values repeat a time of their '{name_column}'; the first counts.")
    return Reshaped(joined, tuple(notes), units)


def _find_name_and_value(columns: Mapping[str, pl.Series], codes: Mapping[str, str]) -> tuple[str, str]:
    """Find the column that names the quantity of each row, and that of its value; empty for one that is not there."""
    may_name = [name for name, column in columns.items() if NAME_COLUMN.fullmatch(name) or _names_quantities(column)]
    value_column = next((name for name in columns if VALUE_COLUMN.fullmatch(name)), "")
    if may_name and not value_column and "column_1" in columns:  # without a header: the numbers after the names
        following = next((name for before, name in pairwise(columns) if before == may_name[0]), "")
        value_column = following if following and _are_numbers(columns[following]) else ""
    # A code, or a quantity of many stations, says what the value is, even if it is the only one.
    fewest = 1 if codes or "station" in columns else 2
    suitable = (name for name in may_name if name != value_column and fewest <= columns[name].n_unique() <= SERIES)
    return next(suitable, ""), value_column


def _names_quantities(column: pl.Series) -> bool:
    """Whether the cells are names of quantities, whatever the column is called, such as `sensor`."""
    names = column.drop_nulls().unique().to_list()
    known = {quantity.name for name in names if kind(name) == "text" and (quantity := find_quantity(name))}
    return 1 < len(names) <= SERIES and len(known) > len(names) / 2


def _distinguishing(frame: pl.DataFrame, series: str, times: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Return the columns of `labels` that tell rows of equal times apart; `series` names each row's quantity.

    The label of a sensor is left out if each sensor measures one quantity only and the other labels, such as the
    station's, tell as many rows apart.
    """

    def has_one_quantity_each(label: str) -> bool:
        return bool(frame.group_by(label).agg(pl.col(series).n_unique())[series].max() == 1)

    others = [label for label in labels if not (SENSOR_LABEL.search(label) and has_one_quantity_each(label))]
    rows, rows_by_others = (frame.select(*times, series, *names).n_unique() for names in (labels, others))
    return others if others and rows_by_others == rows else [*labels]


def _are_times(column: pl.Series) -> bool:
    """Whether most cells are times; digits alone, such as 20260131, are times only in a column that is called so."""
    cells = column.drop_nulls().head(SAMPLE).to_list()
    is_called_time = re.search(r"date|time|datum|fecha|日期", column.name, re.IGNORECASE) is not None
    if is_called_time and all(re.fullmatch(r"1\d{9}(\d{3}){0,3}", cell) for cell in cells):
        return bool(cells)  # Unix times, in seconds to nanoseconds

    def is_time(cell: str) -> bool:
        shape = shape_of(cell)
        return is_clock(cell) or (shape is not None and (is_called_time or shape.name != "digits"))

    return bool(cells) and sum(map(is_time, cells)) > len(cells) / 2
