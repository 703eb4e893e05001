"""Tables of another shape become one row for each time and one column for each quantity.

Known shapes: one value a row with the name of its quantity beside it (long), the hours of a day as columns, a clock
whose date is in the lines before the table, and cells that name the number after them.
Called by `tables`, with the first rows and, if they have such a shape, with all rows.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
TENTHS, SIGNED = r"^([+-]?\d{4,5}),[0-9A-Z]$", r"^[+-]\d{4,5},[0-9A-Z]$"
VALUE_WORD = re.compile(r"value|conc|sample measurement|wert|valor|valeur", re.IGNORECASE)
BAD_FLAGS = ("N", "0", "-1", "0.0")
MONITOR = "monitor"  # the column that tells monitors of one file apart
SITE_PARTS = ("state code", "county code", "site num", "site id", "poc")  # of an instrument in the files of the US EPA
PARTS = {  # of a time in columns without names, and what their numbers may be
    ("year", "day of year", "month", "day", "hour", "minute"): (
        *((1970, 2100), (1, 366), (1, 12), (1, 31), (0, 24), (0, 59)),
    ),
    ("year", "month", "day", "hour"): ((1970, 2100), (1, 12), (1, 31), (0, 24)),
    ("year", "day of year", "hhmm"): ((1970, 2100), (1, 366), (0, 2400)),
    ("date", "hhmm"): ((19_700_101, 21_001_231), (0, 2400)),
}
SERIES = 200  # most quantities that a long table has


@dataclass(frozen=True)
class Reshaped:
    """A table after a change of its shape, with a sentence about it and the units it found."""

    frame: pl.DataFrame
    notes: tuple[str, ...]
    units: Mapping[str, str] = field(default_factory=dict)


def reshape(
    frame: pl.DataFrame, remarks: Sequence[str] = (), codes: Mapping[str, str] | None = None
) -> Reshaped | None:
    """Reshape a table of text to one row per time; None if it has that shape already.

    `codes` maps the file's codes of quantities and units to their names.
    """
    done: Reshaped | None = None
    frame = _without_headers(frame)
    for step in (
        _join_blocks,
        _open_messages,
        _name_parts,
        _name_pairs,
        _scale_tenths,
        _fill_dates,
        _date_clocks,
        _stack_hours,
        _name_monitors,
        _stack_stations,
        _share_units,
        _spread_names,
    ):
        changed = step(done.frame if done else frame, remarks, codes or {})
        if changed is not None:
            notes = (*(done.notes if done else ()), *changed.notes)
            done = Reshaped(changed.frame, notes, {**(done.units if done else {}), **changed.units})
    return done


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
    again = frame.filter(pl.col(first) == first) if frame.schema[first] == pl.String else frame.clear()
    return any(row[name] and row[name] != name for row in again.head(SERIES).rows(named=True) for name in others)


def _join_blocks(frame: pl.DataFrame, remarks: Sequence[str], codes: Mapping[str, str]) -> Reshaped | None:
    """Join tables that stand one below the other, each with a header, by the columns that all of them have.

    Rows of a table that has only columns of the first, in another order, are appended.
    """
    if not has_blocks(frame):
        return None
    first = next(name for name in frame.columns if name != LINE)
    block = (pl.col(first) == first).fill_null(False).cum_sum()
    top, *below = frame.with_columns(block.alias(" block")).partition_by(
        " block", maintain_order=True, include_key=False
    )
    for part in below:
        header = part.drop(LINE).row(0, named=True)
        keys = [name for name, again in header.items() if again == name]
        named = {name: again for name, again in header.items() if again and again != name}
        rows = part.slice(1).select(LINE, *keys, *named).rename(named)
        if {*named.values()} <= {*top.columns}:
            top = pl.concat([top, rows], how="diagonal")
            continue
        rows = rows.drop(LINE).unique(keys, keep="first", maintain_order=True)
        top = top.join(rows, on=keys, how="full", coalesce=True, nulls_equal=True, maintain_order="left_right")
    top = top.with_columns(pl.col(LINE).forward_fill())
    return Reshaped(top, (f"{len(below) + 1} tables that stand one below the other are joined by '{first}'.",))


def _open_messages(frame: pl.DataFrame, remarks: Sequence[str], codes: Mapping[str, str]) -> Reshaped | None:
    """Add the values of a column whose cells are JSON messages as columns; a damaged message has none."""
    cells = {name: frame[name].drop_nulls().head(20).to_list() for name in frame.columns if name != LINE}
    name = next((one for one, sample in cells.items() if sample and all(map(_values, sample))), "")
    if not name:
        return None
    messages = [_values(cell) for cell in frame[name]]
    keys = dict.fromkeys(key for message in messages for key in message)
    columns = [
        pl.Series(key if key not in frame.columns else f"{name}.{key}", [one.get(key) for one in messages], pl.String)
        for key in keys
    ]
    note = f"The messages in '{name}' are read as {plural(len(columns), 'column')}."
    return Reshaped(frame.drop(name).with_columns(columns), (note,))


def _values(cell: str | None) -> dict[str, str]:
    """Return the values in a JSON message by name; {} if the text is not a JSON object."""
    if not cell or not (cell.startswith("{") and cell.endswith("}")):
        return {}
    try:
        return dict(flat(json.loads(cell), ""))
    except ValueError:
        return {}


def _name_pairs(frame: pl.DataFrame, remarks: Sequence[str], codes: Mapping[str, str]) -> Reshaped | None:
    """Name columns of a table without a header by the word in the column before them, or by `name=` in their cells."""
    names = [name for name in frame.columns if name != LINE]
    if not all(name.startswith("column_") for name in names):
        return None
    renamed: dict[str, str] = {}
    keys = []
    for name, following in zip(names, [*names[1:], ""], strict=True):
        words = frame[name].drop_nulls().unique().to_list()
        keyed = {word.partition("=")[0] for word in words if "=" in word}
        if len(keyed) == 1 and len(words) and all("=" in word for word in words):
            renamed[name] = keyed.pop()
        elif len(words) == 1 and kind(words[0]) == "text" and following and _are_numbers(frame[following]):
            renamed[following] = words[0]
            keys.append(name)
    if not renamed or len({*renamed.values()}) < len(renamed):
        return None
    return Reshaped(
        frame.drop(keys).rename(renamed), (f"Columns are named by their cells: {', '.join(renamed.values())}.",)
    )


def _name_parts(frame: pl.DataFrame, remarks: Sequence[str], codes: Mapping[str, str]) -> Reshaped | None:
    """Name columns of a table without a header that hold the year, then month, day and hour or the day of the year."""
    names = [name for name in frame.columns if name != LINE]
    if not all(name.startswith("column_") for name in names):
        return None
    numbers = [frame[name].cast(pl.Int64, strict=False) for name in names[:8]]
    for parts, limits in PARTS.items():
        for i in range(len(numbers) - len(parts) + 1):
            if parts[0] == "date" and not all(map(shape_of, frame[names[i]].drop_nulls().unique())):
                continue
            within = [column.is_between(*allowed) for column, allowed in zip(numbers[i:], limits, strict=False)]
            all_within = all(not part.null_count() and part.all() for part in within)
            are_clocks = parts[-1] != "hhmm" or _are_hours_and_minutes(numbers[i + len(parts) - 1])
            distinct = pl.DataFrame(numbers[i : i + len(parts)]).n_unique()
            # Times differ from row to row, unlike codes that happen to lie within the limits.
            if all_within and are_clocks and 2 * distinct > frame.height:
                renamed = dict(zip(names[i:], parts, strict=False))
                note = f"The columns {i + 1} to {i + len(parts)} are read as {', '.join(parts)}."
                return Reshaped(frame.rename(renamed), (note,))
    return None


def _are_hours_and_minutes(numbers: pl.Series) -> bool:
    """Whether numbers such as 5, 100 and 1530 are clocks, and not hours or minutes of the day alone."""
    return bool((numbers % 100 < 60).all()) and bool((numbers > 60).any())


def _are_numbers(column: pl.Series) -> bool:
    cells = column.drop_nulls().head(50).to_list()
    return bool(cells) and all(kind(cell) == "number" for cell in cells)


def _scale_tenths(frame: pl.DataFrame, remarks: Sequence[str], codes: Mapping[str, str]) -> Reshaped | None:
    """Read cells such as +0213,1 of NOAA's hourly files: tenths, then a quality code; 3 and 7 are errors."""
    cells = {name: frame[name].drop_nulls().head(50) for name in frame.columns if name != LINE}
    tenths = [name for name, sample in cells.items() if len(sample) and sample.str.contains(TENTHS).all()]
    if not any(cells[name].str.contains(SIGNED).all() for name in tenths):
        return None
    numbers = pl.col(tenths).str.extract(TENTHS, 1).cast(pl.Float64)
    is_missing = pl.col(tenths).str.contains(r"^\+?9{4,5},|,[37]$")
    scaled = frame.with_columns(pl.when(~is_missing).then((numbers / 10).cast(pl.String)))
    note = f"{listed(tenths)} {'holds' if len(tenths) == 1 else 'hold'} tenths with a code of their quality."
    return Reshaped(scaled, (note,))


def _fill_dates(frame: pl.DataFrame, remarks: Sequence[str], codes: Mapping[str, str]) -> Reshaped | None:
    """Give clocks without a date that of the row above, as where a date stands only in the first row of its day."""
    columns = [frame[name] for name in frame.columns if name != LINE]
    clocks = [one for one in columns if len(sample := one.drop_nulls().head(20)) and all(map(is_clock, sample))]
    dates = [
        one for one in columns if one.null_count() and _are_times(one) and one.name not in {c.name for c in clocks}
    ]
    holes = [one for one in dates if one[0] is not None]
    # A few rows without a date have lost theirs; if it is left out on purpose, most rows have none.
    if not clocks or len(holes) != 1 or holes[0].null_count() - clocks[0].null_count() < frame.height / 5:
        return None
    name = holes[0].name
    note = f"Rows without a date in '{name}' have that of the row above."
    return Reshaped(frame.with_columns(pl.col(name).forward_fill()), (note,))


def _share_units(frame: pl.DataFrame, remarks: Sequence[str], codes: Mapping[str, str]) -> Reshaped | None:
    """Convert values to the most frequent unit of their quantity, where a column of units names several of one kind."""
    columns = [name for name in frame.columns if name != LINE]
    unit = next((name for name in columns if UNIT_COLUMN.fullmatch(name)), "")
    values = [name for name in columns if VALUE_WORD.search(name) and _are_numbers(frame[name])]
    if not unit or not values:
        return None
    name = next((one for one in columns if NAME_COLUMN.fullmatch(one) and one != unit), unit)
    names_and_units = frame.select(pl.lit("") if name == unit else pl.col(name), pl.col(unit)).drop_nulls()
    names_and_units.columns = ["name", "unit"]
    usual: dict[str, str] = {}
    conversions: dict[tuple[str, str], Conversion] = {}
    for quantity, text in (
        names_and_units.group_by("name", "unit").len().sort("len", descending=True).select("name", "unit").rows()
    ):
        target = usual.setdefault(quantity, text)
        step = conversion(find_unit(text), find_unit(target)) if text != target else None
        if step and find_unit(text) != find_unit(target):
            conversions[quantity, text] = step
    if not conversions:
        return None
    converted = frame
    for (quantity, text), step in conversions.items():
        is_in_unit = (pl.col(unit) == text) & ((pl.col(name) == quantity) if name != unit else True)
        in_target = [
            (pl.col(one).cast(pl.Float64, strict=False) * step.gain + step.offset).cast(pl.String).alias(one)
            for one in values
        ]
        changed = converted.filter(is_in_unit).with_columns(*in_target, pl.lit(usual[quantity]).alias(unit))
        converted = pl.concat([converted.filter(~is_in_unit.fill_null(False)), changed])
    texts = listed([f"{text} to {usual[quantity]}" for quantity, text in conversions])
    return Reshaped(converted.sort(LINE, maintain_order=True), (f"Values are converted from {texts}.",))


def _date_clocks(frame: pl.DataFrame, remarks: Sequence[str], codes: Mapping[str, str]) -> Reshaped | None:
    """Add dates to times of day, if no column has them: the date stated before the table, a day later each midnight."""
    samples = {name: frame[name].drop_nulls().head(20).to_list() for name in frame.columns if name != LINE}
    clocks = [name for name, cells in samples.items() if cells and all(map(is_clock, cells))]
    dated = any(cells and sum(1 for cell in cells if shape_of(cell)) > len(cells) / 2 for cells in samples.values())
    whole_times = [
        name for name in samples if re.fullmatch(r"year|jahr|a[nñ]o|epoch.*|unix.*|.*timestamp.*", name, re.IGNORECASE)
    ]
    if not clocks or dated or whole_times:
        return None
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
    # Any date serves to find where a clock goes back by half a day: a new day begins there.
    clock = parse("2000-01-01 " + frame[clocks[0]].fill_null("0:00"), shape_of("2000-01-01 00:00") or shape)["time"]
    days = (clock.diff().dt.total_seconds() < -43_200).fill_null(False).cum_sum()
    dates = pl.select((pl.lit(date) + pl.duration(days=pl.lit(days))).dt.to_string("%Y-%m-%d").alias("start date"))
    where = "in the file's name" if text == remarks[-1] else "before the table"
    note = f"The date of the first row is {date:%Y-%m-%d}, from '{text}' {where}."
    return Reshaped(pl.concat([frame, dates], how="horizontal"), (note,))


def _stack_hours(frame: pl.DataFrame, remarks: Sequence[str], codes: Mapping[str, str]) -> Reshaped | None:
    """Turn a column per hour of the day into a row per hour: `hour` and `value`; values with a bad flag are missing.

    Labels stand before the hours; numbers after them are the day's maximum, mean and the like, and are left out.
    """
    names = [name for name in frame.columns if name != LINE]
    hours = _find_hours(names)
    flags = {int(match[1]): name for name in names if (match := FLAG_COLUMN.fullmatch(name))}
    # Without a header: a date and 24 hours, or 24 pairs of a value and its flag.
    headless = all(name.startswith("column_") for name in names) and len(names) in (25, 49)
    if headless and shape_of(str(frame[names[0]].drop_nulls().first())):
        step = (len(names) - 1) // 24
        hours = {names[1 + step * i]: i + 1 for i in range(24)}
        flags = {i + 1: names[2 + step * i] for i in range(24)} if step == 2 else {}
    if {*hours.values()} not in ({*range(24)}, {*range(1, 25)}) or len(hours) != 24:
        return None
    last = frame.columns.index([*hours][-1])
    label_columns = [name for name in frame.columns if name not in hours and name not in flags.values()]
    label_columns = [
        name for name in label_columns if frame.columns.index(name) < last or not _are_numbers(frame[name])
    ]
    # A spreadsheet gives a date the clock 00:00:00.
    others = [
        pl.col(name).str.replace(r"[T ]00:00(:00)?$", "") if name != LINE else pl.col(LINE) for name in label_columns
    ]
    parts = []
    for name, hour in hours.items():
        value = pl.col(name)
        if flag := flags.get(hour):
            value = pl.when(~pl.col(flag).is_in(BAD_FLAGS)).then(value)
        parts.append(frame.select(*others, pl.lit(f"{hour:02}:00").alias("hour"), value.alias("value")))
    stacked = pl.concat(parts).sort(LINE, "hour", maintain_order=True)
    note = "The 24 columns of a day are read as hours"
    return Reshaped(stacked, (f"{note}{'; values with a bad flag are missing' if flags else ''}.",))


def _find_hours(names: Sequence[str]) -> dict[str, int]:
    """Find the columns that are hours, with their hours; twelve hours may come twice: Mid, 1:00, …, Noon, 1:00, ….

    >>> _find_hours(["Date", "Mid", "1:00", "H07//H07", "11 PM"])
    {'Mid': 0, '1:00': 1, 'H07//H07': 7, '11 PM': 23}
    """
    hours = {name: hour for name in names if (hour := _hour(name)) is not None}
    in_order = [*hours.values()]
    if (
        len(in_order) == 24
        and in_order[0] in (0, 12)
        and in_order[12] in (0, 12)
        and in_order[1:12] == in_order[13:] == [*range(1, 12)]
    ):
        return dict(zip(hours, range(24), strict=True))
    return hours


def _hour(name: str) -> int | None:
    """Parse a column name that is an hour, from 0 to 24; the second of two equal names ends in _2."""
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


def _name_monitors(frame: pl.DataFrame, remarks: Sequence[str], codes: Mapping[str, str]) -> Reshaped | None:
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


def _stack_stations(frame: pl.DataFrame, remarks: Sequence[str], codes: Mapping[str, str]) -> Reshaped | None:
    """Turn a column per station, in rows of one quantity each, into `station` and `value`."""
    columns = {name: frame[name] for name in frame.columns if name != LINE}
    name = next((column for column in columns if NAME_COLUMN.fullmatch(column)), "")
    cells = columns[name].drop_nulls().unique().to_list() if name else []
    stations = [column for column in columns if re.fullmatch(STATION, column)]
    known = sum(bool(find_quantity(cell)) for cell in cells)
    if len(stations) < 2 or 2 * known <= len(cells) or any(map(VALUE_COLUMN.fullmatch, columns)):
        return None
    index = [column for column in columns if column not in stations]
    stacked = frame.unpivot(stations, index=[LINE, *index], variable_name="station", value_name="value")
    stacked = stacked.with_columns(pl.format("station {}", "station").alias("station"))  # 1001A is no current
    return Reshaped(stacked.sort(LINE, maintain_order=True), (f"{len(stations)} columns are read as stations.",))


def _spread_names(frame: pl.DataFrame, remarks: Sequence[str], codes: Mapping[str, str]) -> Reshaped | None:
    """Pivot a table with one value per row to a column for each quantity; of equal times the first is kept."""
    columns = {name: frame[name] for name in frame.columns if name != LINE}
    named = [name for name, column in columns.items() if NAME_COLUMN.fullmatch(name) or _names_quantities(column)]
    value = next((name for name in columns if VALUE_COLUMN.fullmatch(name)), "")
    if named and not value and "column_1" in columns:  # without a header: the numbers after the names
        after = (name for before, name in pairwise(columns) if before == named[0])
        value = next((name for name in after if _are_numbers(columns[name])), "")
    # A code, or a quantity of many stations, says what the value is, even if it is the only one.
    least = 1 if codes or "station" in columns else 2
    name = next(
        (candidate for candidate in named if candidate != value and least <= columns[candidate].n_unique() <= SERIES),
        "",
    )
    if not name or not value:
        return None
    times = [one for one, column in columns.items() if _are_times(column)]
    labels = [one for one, column in columns.items() if one not in times and LABEL_COLUMN.search(one)]
    labels = [one for one in labels if columns[one].n_unique() < frame.height]  # not the number of the row
    index = [*times, *_distinguishing(frame, name, times, [one for one in labels if one not in (name, value)])]
    unit = next((one for one in columns if UNIT_COLUMN.fullmatch(one) and one not in index), "")
    if not index:
        return None
    rows = frame.filter(pl.col(name).is_not_null()).with_columns(pl.col(name).replace(dict(codes)))
    wide = rows.pivot(name, index=index, values=value, aggregate_function="first", maintain_order=True)
    lines = rows.group_by(index, maintain_order=True).agg(pl.col(LINE).min())
    spread = [column for column in wide.columns if column not in index]
    units = {}
    if unit:
        pairs = rows.select(name, pl.col(unit).replace(dict(codes))).drop_nulls().unique(name).rows()
        units = {series: text for series, text in pairs if is_unit(text)}
    joined = lines.select(LINE).hstack(wide) if lines.height == wide.height else wide.with_row_index(LINE, 1)
    note = f"One value a row: '{value}' is read as {plural(len(spread), 'column')} by '{name}'."
    repeats = rows.height - rows.select(*index, name).n_unique()
    dropped = (f"{repeats:,} values repeat a time of their '{name}'; the first counts.",) if repeats else ()
    return Reshaped(joined, (note, *dropped), units)


def _names_quantities(column: pl.Series) -> bool:
    """Whether the cells are names of quantities, whatever the column is called, such as `sensor`."""
    names = column.drop_nulls().unique().to_list()
    known = {quantity.name for name in names if kind(name) == "text" and (quantity := find_quantity(name))}
    return 1 < len(names) <= SERIES and 2 * len(known) > len(names)


def _distinguishing(frame: pl.DataFrame, name: str, times: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Return the labels that tell rows of equal times apart.

    The label of a sensor is left out if each sensor measures one quantity only and the other labels, such as the
    station's, tell as many rows apart.
    """
    most_names = {one: frame.group_by(one).agg(pl.col(name).n_unique())[name].max() for one in labels}  # of one label
    rest = [one for one in labels if most_names[one] != 1 or not SENSOR_LABEL.search(one)]
    rows, of_rest = (frame.select(*times, name, *label_names).n_unique() for label_names in (labels, rest))
    return rest if rest and of_rest == rows else [*labels]


def _are_times(column: pl.Series) -> bool:
    """Whether most cells are times; digits alone, such as 20260131, are only in a column that is called like one."""
    cells = column.drop_nulls().head(20).to_list()
    is_called_so = re.search(r"date|time|datum|fecha|日期", column.name, re.IGNORECASE) is not None
    if is_called_so and all(re.fullmatch(r"1\d{9}(\d{3}){0,3}", cell) for cell in cells):
        return bool(cells)  # Unix times, in seconds to nanoseconds

    def is_time(cell: str) -> bool:
        shape = shape_of(cell)
        return is_clock(cell) or (shape is not None and (is_called_so or shape.name != "digits"))

    return bool(cells) and sum(map(is_time, cells)) > len(cells) / 2
