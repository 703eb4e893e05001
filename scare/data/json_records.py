"""JSON as a table: lists of records, records under keys, lists of columns, logs of messages.

Called by `tables`; `reshape` flattens cells of JSON.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from scare.data.packed_files import MESSAGE, Source
from scare.data.time_text import shape_of
from scare.errors import DataError

SERIES = 5  # so many records within a record, on average, are a series; fewer are the parts of a message


def read_records(source: Source) -> tuple[str, list[list[str]], dict[str, str]]:
    """Return the longest list of records in a JSON text: its name, its header and rows, and the values outside it.

    Nested keys are joined with dots. Values outside the list may be units, as in `hourly_units.pm10`, or a time zone.
    """
    text = "\n".join(source.text())
    try:
        value = json.loads(text)
    except ValueError:  # no JSON as a whole: perhaps a log with a message in each line
        try:
            value = [message for line in text.splitlines() if line.strip() and (message := _message(line)) is not None]
        except ValueError as error:
            raise DataError(f"{source.path}: cannot be read as JSON: {error}") from error
    lists = {name: [*records] for name, records in _record_lists(value, "")}
    name = max(lists, key=lambda key: len(lists[key]), default="")
    if len(lists.get(name, ())) < 3:
        raise DataError(
            f"{source.path}: the JSON holds one message, not a table; collect messages as one list, or export CSV"
        )
    records = [dict(flat(record, "")) for record in lists[name]]
    header = list(dict.fromkeys(key for record in records for key in record))
    outside = dict(flat(value, "")) if isinstance(value, dict) else {}
    return name, [header, *([record.get(key, "") for key in header] for record in records)], outside


def _message(line: str) -> dict[str, Any] | None:
    """Return the JSON object in a line of a log, None if there is none; a time before it is added as `logged at`."""
    match = MESSAGE.match(line)
    if match is None:
        return None
    record = json.loads(match[1])
    words = line[: match.start(1)].split()
    may_be_times = [*words[:1], " ".join(words[:2])]  # such as 2026-01-31T12:00 or 2026-01-31 12:00
    time = next((text for text in may_be_times if (shape := shape_of(text)) and shape.has_clock), "")
    return {"logged at": time, **record} if time else record


def _record_lists(value: Any, name: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield all lists of records within a JSON value, with the keys that lead to them.

    Lists within records, such as the readings of each station, are joined and keep the plain values of their record.
    """
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        yield name, value
        inner: dict[str, list[dict[str, Any]]] = {}  # the lists within the records, joined, by their keys
        for record in value:
            plain = {key: item for key, item in record.items() if not isinstance(item, dict | list)}
            not_plain = {key: item for key, item in record.items() if key not in plain}
            for key, records in _record_lists(not_plain, name):
                inner.setdefault(key, []).extend({**plain, **nested} for nested in records)
        yield from ((key, records) for key, records in inner.items() if len(records) >= SERIES * len(value))
    elif isinstance(value, dict):
        if records := _records_of_columns(value) or _records_by_key(value):
            yield name, records
        for key, item in value.items():
            yield from _record_lists(item, f"{name}.{key}".strip("."))


def _records_by_key(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the records of an object with a record under each key; the key, such as a time, is added to its record.

    Returns [] for an object whose values are not records of the same fields.

    >>> _records_by_key({f"155103372{i}": {"P1": 8.5 + i} for i in range(5)})[0]
    {'time': '1551033720', 'P1': 8.5}
    """
    records = [*value.values()]
    if len(records) < SERIES or not all(isinstance(record, dict) for record in records):
        return []
    if not records[0] or any([*record] != [*records[0]] for record in records):
        return []
    are_times = all(re.fullmatch(r"1\d{9}(\d{3})?", key) or shape_of(key) for key in value)  # seconds, milliseconds
    key_name = "time" if are_times and "time" not in records[0] else "key"
    return [{key_name: key, **record} for key, record in value.items()]


def _records_of_columns(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the records of a table that is written as columns, or as rows with the names of columns beside them.

    A column is a list, or an object with row numbers as keys. Returns [] for an object that is no such table.

    >>> _records_of_columns({"time": [1, 2, 3], "pm25": [4, 5, 6]})[0]
    {'time': 1, 'pm25': 4}
    >>> _records_of_columns({"fields": ["a", "b"], "data": [[1, 2]]})
    [{'a': 1, 'b': 2}]
    >>> _records_of_columns({"time": {"0": 1, "1": 2}, "pm25": {"0": 4, "1": 5}})[1]
    {'time': 2, 'pm25': 5}
    """
    lists = {key: item for key, item in value.items() if isinstance(item, list)}
    rows = next((items for items in lists.values() if items and all(isinstance(row, list) for row in items)), [])
    for names in lists.values():
        if rows and all(isinstance(cell, str) for cell in names) and {*map(len, rows)} == {len(names)}:
            return [dict(zip(names, row, strict=True)) for row in rows]
    objects = [item for item in value.values() if isinstance(item, dict)]
    if len(objects) > 1 and len(objects) == len(value) and all([*item] == [*objects[0]] for item in objects):
        has_row_numbers = all(map(str.isdigit, objects[0]))
        lists = {key: [*item.values()] for key, item in value.items()} if has_row_numbers else {}
    columns = {key: cells for key, cells in lists.items() if not any(isinstance(cell, dict | list) for cell in cells)}
    lengths = {len(cells) for cells in columns.values()}
    if len(columns) < 2 or len(lengths) != 1:
        return []
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def flat(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each plain value within a JSON record; a name joins the keys that lead to it.

    Of lists, only those of objects with a "value" are read, such as `[{"name": "P1", "value": 8.5}]`.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flat(item, f"{name}.{key}".strip("."))
    elif isinstance(value, list) and all(isinstance(item, dict) and "value" in item for item in value):
        for item in value:
            label = next((str(item[key]) for key in ("name", "value_type", "parameter", "type") if key in item), "")
            yield from flat(item["value"], f"{name}.{label}") if label else ()
    elif not isinstance(value, list):
        yield name, "" if value is None else str(value)
