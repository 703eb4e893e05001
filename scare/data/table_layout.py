"""Find the table in a text file or sheet: its delimiter, decimal sign, header, units and first row of data.

The rows of data are found first: their cells have the kinds (number, time, text) that most cells of their column have.
The header is the row above them that looks most like one; around it may be rows of units, formats, statistics and text.
Called by `tables` with the first lines of a file.
"""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile, zip_longest
from pathlib import Path

from scare.data.cells import FORMATS, is_unit, kind
from scare.data.quantities import find_quantity
from scare.errors import DataError

DELIMITERS = (",", ";", "\t", "|")
SPACES = " "  # columns divided by one or more spaces, at fixed places or not
SAMPLE = 60  # rows of data by which the layout is told
ABOVE = 12  # rows above the data in which the header is looked for
LEAST_SCORE = 0.3  # of a header, see `_header_score`
TIME_WORD = re.compile(
    r"date|time|stamp|datum|uhrzeit|zeit|tag|stunde|fecha|hora|heure|jour|data|ora|tijd|utc|gmt|epoch|created|recorded"
    r"|year|jahr|ano|año|month|day|hour|last_changed|时间|日期|^ts$|^rec$|czas|dato|klokke|when",
    re.IGNORECASE,
)
WORDS = re.compile(r'(?:"(?:[^"]|"")*"|[^\s"])+')  # cells between spaces; spaces within quotes do not count
OPEN_QUOTE = re.compile(r'(?:^|[,;\t|])\s*"[^"]*$')  # of a cell that goes on in the next line
BRACKETS = re.compile(r"[(\[]([^()\[\]]+)[)\]]")
DECIMAL = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
THOUSANDS, WHOLE = re.compile(r"\s*[+-]?[1-9]\d{0,2},\d{3}\s*"), re.compile(r"\s*[+-]?\d+\s*")
POINT, NO_NAME = re.compile(r"\s*[+-]?\d*\.\d+\s*"), re.compile(r"(col|column|unnamed|field|var|[vx])?[ _:.]*\d+")
IN_UNIT = re.compile(r"(?:\bin |, )([^\s,()]+(?: ?/ ?\S+)?)")


@dataclass(frozen=True)
class Layout:
    """Where the table is in a text or sheet."""

    names: tuple[str, ...]  # of the columns
    header: int | None  # index of its line; None if there is none
    first: int  # index of the first row of data
    units: dict[str, str] = field(default_factory=dict)  # by column


def split(line: str, delimiter: str) -> list[str]:
    """Split a line into stripped cells; a delimiter inside quotes does not count."""
    if delimiter == SPACES:  # perhaps a header with signs over data without them
        return [cell.rstrip(";,").strip('"') for cell in WORDS.findall(line)]
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])]


def join_broken(lines: Sequence[str]) -> list[str]:
    """Join lines of one quoted cell into the last of them; the others become blank, so that all keep their numbers.

    >>> join_broken(['time;"PM2.5', '(ug/m3)"', '2026-01-01;1.5'])
    ['', 'time;"PM2.5 (ug/m3)"', '2026-01-01;1.5']
    """
    joined = list(lines)
    for i in range(len(lines) - 1):
        is_open = joined[i].count('"') % 2 and OPEN_QUOTE.search(joined[i])
        if is_open and lines[i + 1].count('"') < 2:
            joined[i : i + 2] = ["", f"{joined[i].rstrip()} {lines[i + 1].strip()}"]
    return joined


def find_delimiter(lines: Sequence[str]) -> str:
    r"""Find the delimiter that gives the most cells with a number or a time; "" if none divides the lines.

    >>> find_delimiter(["time;pm25;pm10", "2026-01-01;1,5;2,5"])
    ';'
    """
    not_blank = [line for line in lines if line.strip()]
    # If there are enough lines, up to a third of them is skipped: they may still be a preamble.
    start = max(0, min(len(not_blank) // 3, len(not_blank) - 2 * SAMPLE))
    sample = not_blank[start : start + 2 * SAMPLE]
    scores = {sign: sum(_weight(split(line, sign)) for line in sample) for sign in (*DELIMITERS, SPACES)}
    best = max(DELIMITERS, key=lambda sign: (scores[sign], sum(line.count(sign) for line in sample)))
    if scores[SPACES] > 1.5 * scores[best]:  # clearly better, because dates and names have spaces, too
        return SPACES
    if scores[best]:
        return best
    return best if any(best in line for line in sample) else ""


def _weight(cells: Sequence[str]) -> float:
    """Score how much a line looks like data: 1 for each number or time, ½ for each cell that means a missing value."""
    if len(cells) < 2:
        return 0.0
    counts = Counter(kind(cell) for cell in cells if cell)
    return counts["number"] + counts["time"] + counts["nothing"] / 2


def find_layout(
    rows: Sequence[Sequence[str]], skip_rows: int | None = None, lines: Sequence[str] = (), delimiter: str = ""
) -> Layout | None:
    """Find header and data among rows of cells; None if no row looks like data.

    `skip_rows` gives the index of the header. `lines` are the rows as text: the header may have another delimiter than
    the data, or names that are placed above the columns.
    """
    columns = _column_kinds(rows)
    first = _first_row(rows, columns, 0 if skip_rows is None else skip_rows + 1, strict=delimiter == SPACES)
    if first is None:
        return None
    width = max(len(columns), len(rows[first]))
    kinds = [*columns, *[""] * (width - len(columns))]
    header = skip_rows if skip_rows is not None else _find_header(rows, columns, first, width)
    if skip_rows is None and (below := _find_header_below(rows, columns, first, width)):
        header, first = below, below + 1
    if header is None:
        return Layout(tuple(f"column_{number}" for number in range(1, width + 1)), None, first, {})
    # The data may begin in a row nearer to the header.
    first = next((i for i in range(header + 1, first) if _is_data(rows[i], columns)), first)
    between = [rows[i] for i in range(header + 1, first) if any(rows[i])]
    above = list(takewhile(any, reversed(rows[max(0, header - ABOVE) : header])))  # up to a blank row, nearest first
    names: tuple[str, ...] | None = None
    repeats_names = delimiter == SPACES and len({*rows[header]}) < width
    if lines and (len(rows[header]) != width or repeats_names):
        names = _names_by_place(lines, header, first, rows, width)
    names = names or _names(rows[header], between, above, kinds)
    return Layout(names, header, first, _units(names, between, above[:1]))


def _column_kinds(rows: Sequence[Sequence[str]]) -> list[str]:
    """Find the usual kind of each column's cells, "" for a column that is mostly empty."""
    with_values = [row for row in rows if _weight(row) >= 1]
    # If there are enough rows, up to a third of them is skipped: they may still be a preamble.
    sample = with_values[max(0, min(len(with_values) // 3, len(with_values) - SAMPLE)) :][:SAMPLE]
    if not sample:
        return []
    # The usual width. Wide rows count more: a line of text with a number in it may have a delimiter or two by chance.
    weights: Counter[int] = Counter()
    for row in sample:
        weights[len(row)] += 1 + len(row) // 4
    width = max(weights, key=lambda cells: weights[cells])
    kinds = []
    for column in range(width):
        counts = Counter(kind(row[column]) for row in sample if len(row) > column and row[column])
        best = max(counts, key=lambda what: counts[what], default="")
        kinds.append(best if sum(counts.values()) >= len(sample) / 2 else "")
    return kinds


def _first_row(rows: Sequence[Sequence[str]], columns: Sequence[str], start: int, strict: bool) -> int | None:
    """Find the first row of data that has two cells and is followed mostly by data; else the first row of data.

    `strict` asks that half of all rows are data; it is for columns divided by spaces, which any prose has, too.
    """
    data_rows = [i for i in range(start, len(rows)) if _is_data(rows[i], columns)]
    if strict and len(data_rows) < max(2, sum(any(row) and not row[0].startswith("#") for row in rows) / 2):
        return None
    for position, i in enumerate(data_rows):
        filled_count = sum(1 for row in rows[i : i + 2 * SAMPLE] if any(row))
        data_count = sum(1 for other in data_rows[position:] if other < i + 2 * SAMPLE)
        if data_count >= 0.5 * filled_count and sum(map(bool, rows[i])) > 1:
            return i
    return data_rows[0] if data_rows else None


def _is_data(row: Sequence[str], columns: Sequence[str]) -> bool:
    """Whether a row is data: it has a time in the first time column, or else numbers in the number columns."""
    if len(row) < max(2, len(columns) / 2):
        return False
    times = [i for i, what in enumerate(columns) if what == "time"]
    if times:
        return len(row) > times[0] and kind(row[times[0]]) == "time"
    kinds = [kind(row[i]) for i, what in enumerate(columns) if what == "number" and i < len(row)]
    return "number" in kinds and kinds.count("text") + kinds.count("time") <= len(kinds) / 5


def _find_header(rows: Sequence[Sequence[str]], columns: Sequence[str], first: int, width: int) -> int | None:
    """Find the row above the data that looks most like a header; the nearest if several are equally good."""
    above = [i for i in range(max(0, first - ABOVE), first) if any(rows[i])]
    scores = {i: _header_score(rows[i], columns, width) for i in above}
    best = max(above, key=lambda i: (scores[i], i), default=None)
    return best if best is not None and scores[best] >= LEAST_SCORE else None


def _find_header_below(rows: Sequence[Sequence[str]], columns: Sequence[str], first: int, width: int) -> int | None:
    """Find a header of text alone under rows that are narrower than it, as under a list of the instrument's bins."""
    near = range(first + 1, min(first + ABOVE, len(rows) - 1))
    candidates = (i for i in near if len(rows[i]) == width and all(kind(cell) == "text" for cell in rows[i]))
    i = next(candidates, None)
    is_below = i is not None and all(len(row) < width for row in rows[first:i]) and _is_data(rows[i + 1], columns)
    return i if is_below else None


def _header_score(row: Sequence[str], columns: Sequence[str], width: int) -> float:
    """Score how much a row looks like a header.

    The score is the share of columns with a distinct name, where a number counts half, plus ½ if the time column has a
    time word. It is less if the row does not fit the width or is a comment that has no name for each column.
    """
    cells = [cell for cell in row if cell]
    times = [i for i, what in enumerate(columns) if what == "time"]
    has_time_word = any(TIME_WORD.search(row[i]) and not FORMATS.fullmatch(row[i]) for i in times if i < len(row))
    if len(cells) < 2 and width > 2 and not has_time_word:
        return 0.0
    texts = {cell for cell in cells if kind(cell) in ("text", "nothing")}
    names = {cell for cell in texts if not is_unit(cell) and not FORMATS.fullmatch(cell)}
    # Columns that are called by an hour, such as 01:00, and hold numbers.
    hours = {(i, cell) for i, cell in enumerate(row[: len(columns)]) if columns[i] == "number" and kind(cell) == "time"}
    numbers = {cell for cell in cells if kind(cell) == "number"}
    used_columns = sum(what != "" for what in columns) or width
    score = min(1.0, (len(names) + len(hours) + len(numbers) / 2) / max(used_columns, 1))
    fits_width = used_columns <= len(row) <= width + 1 or len(cells) >= used_columns
    if not fits_width:
        score *= 0.5
    if has_time_word:
        score += 0.5
    is_comment = row[0].startswith("#") and row[0] != "#" and len(texts) < width
    return 0.3 * score if is_comment else score  # a comment is the header only if no other row looks like one


def _names(
    header: Sequence[str], between: Sequence[Sequence[str]], above: Sequence[Sequence[str]], kinds: Sequence[str]
) -> tuple[str, ...]:
    """Name the columns: by the header, and where that is not enough by the rows around it.

    `between` are the rows from the header to the data; `above` those over the header, the nearest first. `kinds` has
    the usual kind of each column's cells.
    """
    names = list(header)
    width = len(kinds)
    columns = list(enumerate(kinds))[1:]
    if names[0].startswith("#") and names[0] != "#":  # a header that is written as a comment
        names[0] = names[0].lstrip("# ")
    while len(names) > width and not names[-1]:
        names.pop()
    # One name too few, and that of the time is one column too early: a column of row numbers has no name.
    if len(names) == width - 1 and any(what == "time" and TIME_WORD.search(names[i - 1]) for i, what in columns):
        names.insert(0, "")
    labels = [row for row in above if len(row) >= width / 2 and sum(map(bool, row)) >= 2]
    # Instead of no name, or a mere unit: the nearest label above.
    for i, name in enumerate(names):
        if not name or is_unit(name):
            texts = (row[i] for row in labels if i < len(row) and kind(row[i]) == "text" and not is_unit(row[i]))
            names[i] = next(texts, name)
    # Instead of one name that is only numbered, as in 1:PM | 2:PM: the row of labels in which most of them differ.
    numbered = [i for i, name in enumerate(names) if re.match(r"\d+:", name)]
    if len(numbered) > 1 and len({names[i].partition(":")[2] for i in numbered}) == 1:
        best = max(labels, key=lambda row: len({row[i] for i in numbered if i < len(row)}), default=names)
        for i in numbered:
            names[i] = best[i] or names[i]
    return tuple(_with_titles(names, header, between, labels))


def _with_titles(
    names: list[str], header: Sequence[str], between: Sequence[Sequence[str]], labels: Sequence[Sequence[str]]
) -> list[str]:
    """Add to names that occur twice, or that are titles of several columns, the text below or above them.

    `between` are the rows from the header to the data; `labels` are rows above the header, the nearest first.

    >>> _with_titles(["Date", "Roof", ""], ["Date", "Roof", ""], [["", "PM10", "NO2"]], [])
    ['Date', 'Roof PM10', 'Roof NO2']
    >>> _with_titles(["Hour", "1", "1"], ["Hour", "1", "1"], [["", "AM", "PM"]], [])
    ['Hour', '1 AM', '1 PM']
    >>> header, labels = ["Time", "hourly", "hourly"], [["", "NO2", "PM10"], ["", "Wedding", "Wedding"]]
    >>> _with_titles(header, header, [], labels)
    ['Time', 'Wedding NO2 hourly', 'Wedding PM10 hourly']
    >>> _with_titles(["Time", "Warsaw", "Cracow"], ["Time", "Warsaw", "Cracow"], [["", "PM10", "PM10"]], [])
    ['Time', 'Warsaw PM10', 'Cracow PM10']
    """
    names = list(names)
    not_empty = [name for name in names if name]
    repeats_names = len(set(not_empty)) < len(not_empty)
    # The first row under the header that has several cells, none of them a unit.
    below = next((row for row in between if not any(map(is_unit, row)) and sum(map(bool, row)) > 1), None)
    if below and _has_merged_cells(header, below):
        title = ""
        for i, name in enumerate(names):
            title = name or title
            if i < len(below) and below[i]:
                names[i] = f"{title} {below[i]}"
    elif repeats_names and below:
        names = [f"{name} {below[i]}".strip() if i < len(below) else name for i, name in enumerate(names)]
    elif repeats_names and labels:
        for i in [i for i, name in enumerate(header) if name and header.count(name) > 1]:
            titles = [row[i] for row in reversed(labels) if i < len(row) and kind(row[i]) == "text"]
            names[i] = " ".join(dict.fromkeys([*titles, names[i]]))
    for row in between:  # a quantity under the name of a station
        for i, cell in list(enumerate(row[: len(names)]))[1:]:
            if find_quantity(cell) and not is_unit(cell) and not find_quantity(names[i]):
                names[i] = f"{names[i]} {cell}".strip()
    return names


def _has_merged_cells(header: Sequence[str], below: Sequence[str]) -> bool:
    """Whether a title in the header seems to span several columns: a name is missing over a text in the row below."""
    return any(not name and cell and kind(cell) == "text" for name, cell in zip(header, below, strict=False))


def _names_by_place(
    lines: Sequence[str], header: int, first: int, rows: Sequence[Sequence[str]], width: int
) -> tuple[str, ...] | None:
    """Find the names in a header that has another delimiter than the data, or is aligned with the columns; or None."""
    for sign in DELIMITERS:
        cells = split(lines[header], sign)
        if len([cell for cell in cells if cell]) == width:
            return tuple(cell for cell in cells if cell)
    spans = find_spans([lines[i] for i in range(first, len(lines)) if len(rows[i]) == width])
    if len(spans) != width:
        return None
    names = [""] * width
    # A name may be written in several lines, as `Wind` over `speed`: also read the line above the header, and those
    # below it down to the data.
    for line in lines[max(0, header - 1) : first]:
        for word in re.finditer(r"[^\s]+", line):
            if not re.fullmatch(r"[-=_+|]+", word[0]):  # a line that is drawn under the names
                centre = (word.start() + word.end()) / 2
                nearest = min(range(width), key=lambda i: _distance(spans[i], word.start(), word.end(), centre))
                names[nearest] = f"{names[nearest]} {word[0]}".strip()
    return tuple(names)


def _distance(span: tuple[int, int], start: int, end: int, centre: float) -> tuple[float, float]:
    """Return a sort key that puts a word's nearest column first: most overlap, then least distance of centres."""
    overlap = max(0, min(span[1], end) - max(span[0], start))
    return -overlap, abs((span[0] + span[1]) / 2 - centre)


def find_spans(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Find the columns of fixed-width lines: runs of positions at which some line has a character.

    >>> find_spans([" 1.0  20", "10.5   7"])
    [(0, 4), (6, 8)]
    """
    length = max(map(len, lines), default=0)
    used = [any(i < len(line) and line[i] != " " for line in lines) for i in range(length)] + [False]
    starts = [i for i in range(length) if used[i] and (i == 0 or not used[i - 1])]
    return [(start, used.index(False, start)) for start in starts]


def _units(names: Sequence[str], between: Sequence[Sequence[str]], above: Sequence[Sequence[str]]) -> dict[str, str]:
    """Find the units in rows under the header, in a row above it that is mostly units, and in the names themselves."""
    units = {name: unit for name in names if (unit := unit_of_name(name))}
    rows_of_units = [row for row in above if sum(map(is_unit, row)) >= max(2, sum(map(bool, row)) / 4)]
    for row in (*between, *rows_of_units):
        in_row = {name: cell for name, cell in zip(names, row, strict=False) if is_unit(cell)}
        units = in_row | units  # a unit that was found before counts
    return units


def unit_of_name(name: str) -> str:
    """Find the unit in a column name: in brackets, after "in" or a comma, or at its end.

    >>> unit_of_name("PM2.5 (µg/m³)"), unit_of_name("Temp, °C (LGR S/N: 1)"), unit_of_name("ODO mg/L")
    ('µg/m³', '°C', 'mg/L')
    """
    candidates = [*BRACKETS.findall(name), *IN_UNIT.findall(name)]
    last = re.split(r"[ _]", name)[-1]  # a unit if it looks like one, but not `max`, or `min` for the least
    if re.search(r"[/%°]|^(?!min|sec|bar|max|count)\w{3}", last, re.I) or (last in "CFK" and "temp" in name.lower()):
        candidates.append(last)
    return next((text.strip() for text in candidates if is_unit(text)), "")


def find_decimal(path: Path, rows: Sequence[Sequence[str]], delimiter: str) -> str:
    """Return the decimal sign of a table's numbers; raises a DataError if commas may be either sign.

    A comma that may be decimal or group thousands, as in 1,234, is decided by the other numbers of the table.
    """
    with_comma = [text for cells in rows for text in cells if "," in text and DECIMAL.fullmatch(text)]
    if delimiter == ",":  # a cell in quotes may be a number and a code of its quality, such as +0213,1
        with_comma = [text for text in with_comma if not re.fullmatch(r"[+-]?\d{4,5},\d", text)]
    if not with_comma:
        return "."
    if not all(map(THOUSANDS.fullmatch, with_comma)):  # a comma as in 1,5 groups no thousands
        return ","
    columns = list(zip_longest(*rows, fillvalue=""))
    if any(map(_has_points, columns)):
        return "."
    for column in columns:
        grouped = next(filter(THOUSANDS.fullmatch, column), "").strip()
        if grouped and any(map(WHOLE.fullmatch, column)):  # 1,234 beside 999 may well be a thousand
            if delimiter == ",":  # programs that write decimal commas divide columns by another sign
                return "."
            both = f"{grouped.replace(',', '.')} or {grouped.replace(',', '')}"
            raise DataError(
                f"{path}: '{grouped}' may be {both}; write numbers with a point, or without thousands marks"
            )
    return ","


def _has_points(cells: Sequence[str]) -> bool:
    """Whether most cells of a column are numbers with a decimal point, and not all the same number."""
    points = [cell for cell in cells if POINT.fullmatch(cell) and not re.fullmatch(r"\d{1,3}\.\d{3}", cell.strip())]
    return len(points) > len(cells) / 2 and len({*points}) > 1


def has_cut_decimals(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the program that wrote the file seems to have split numbers at their decimal commas.

    Rows then have more cells than the header had names. The last name is made up, such as `Unnamed: 7`; no number has
    a decimal point; more than half of the rows, but not all, fill every column; the others end early (whole numbers
    have no comma), without an empty cell before their end.
    """
    is_filled = [[bool(cell.strip()) for cell in row] for row in rows if any(map(str.strip, row))]
    complete_rows = sum(sum(row) == len(names) for row in is_filled)
    if not NO_NAME.fullmatch(names[-1].lower()) or not 0.5 * len(is_filled) < complete_rows < len(is_filled):
        return False
    has_holes = any(not all(row[: sum(row)]) for row in is_filled)
    return not has_holes and not any(POINT.fullmatch(cell) for row in rows for cell in row)
