"""Records read from TOML and JSON: plain values become a dataclass, or an error message names the file and the key.

pydantic validates the values against the dataclass's types, strictly: no text for a number, no unknown key.
Bounds are part of the types, as in `Annotated[int, Gt(0)]` (annotated-types); the messages are ours. A field that was
renamed has its old name in its metadata (`was`: "name", or "table.name" if it was in another table), and the message
about the old key gives the new one.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Board:
...     ram: Annotated[int, Gt(0)]
>>> convert({"nano": {"ram": 4}}, dict[str, Board], "boards.toml")
{'nano': Board(ram=4)}
>>> convert({"nano": {"ram": "x"}}, dict[str, Board], "boards.toml")
Traceback (most recent call last):
scare.errors.UsageError: boards.toml: nano.ram is 'x'; it takes a whole number above 0
>>> convert({"nano": {"rom": 4}}, dict[str, Board], "boards.toml")
Traceback (most recent call last):
scare.errors.UsageError: boards.toml: unknown key 'rom' in [nano]; did you mean 'ram'?
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from functools import cache
from math import inf, isfinite
from pathlib import Path
from reprlib import repr as shortened
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from unicodedata import category

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, Predicate

from scare.errors import DataError, ScareError, UsageError
from scare.words import suggestion

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Record = TypeVar("Record")


def is_printable(text: str) -> bool:
    """Whether a text has no control characters, such as a line end."""
    return not any(category(sign) in ("Cc", "Cs") for sign in text)


# Types with bounds that many fields share.
Whole = Annotated[int, Ge(0)]
Count = Annotated[int, Ge(1)]
Finite = Annotated[float, Gt(-inf), Lt(inf)]
Amount = Annotated[float, Ge(0), Lt(inf)]
Positive = Annotated[float, Gt(0), Lt(inf)]
# A `Predicate` is any test; the text after it says in error messages what the test asks for.
Name = Annotated[str, MaxLen(200), Predicate(is_printable), "without control characters"]
TYPE_NAMES: dict[Any, str] = {
    **{int: "a whole number", float: "a number", str: "text", bool: "true or false", date: "a date"},
    **{dict: "a table of settings", list: "a list"},
}
BOUNDS = {  # bounds in words, formatted with the bound itself
    **{Gt: "above {0.gt:g}", Ge: "from {0.ge:g} on", Lt: "below {0.lt:g}", Le: "up to {0.le:g}"},
    **{MinLen: "of {0.min_length} or more", MaxLen: "of up to {0.max_length}", str: "{0}"},
}


def read_toml(path: Path | str, kind: type[Record]) -> Record:
    """Read a record from a TOML file; problems raise a UsageError."""
    return convert(load_toml(path), kind, path)


def read_json(path: Path | str, kind: type[Record]) -> Record:
    """Read a record from a JSON file; problems raise a DataError."""
    return convert(load_json(path), kind, path, DataError)


def load_toml(path: Path | str) -> dict[str, Any]:
    """Read a TOML file as plain values."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{path}: cannot be read as TOML: {error}") from error


def load_json(path: Path | str) -> Any:
    """Read a JSON file as plain values."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read as JSON: {error}") from error


def convert(
    data: Any,
    kind: type[Record],
    where: Path | str,
    error: type[ScareError] = UsageError,
    unknown: Literal["forbid", "ignore"] = "forbid",
) -> Record:
    """Validate plain values as a record; error messages begin with `where`, the name of their source.

    With `unknown="ignore"`, keys that the record does not have are ignored, as a newer version may have written them.
    """
    from pydantic import ValidationError  # takes a tenth of a second to import

    adapter = _adapter(kind)  # type: ignore[arg-type]
    try:
        # From JSON, pydantic accepts a list for a tuple and text for a date even if it is strict.
        record: Record = adapter.validate_json(json.dumps(data, default=str), strict=True, extra=unknown)
        return record
    except ValidationError as invalid:
        raise error(f"{where}: {_describe_problem(invalid.errors(include_url=False), kind)}") from None
    except ScareError as invalid:  # from the record's own checks
        raise error(f"{where}: {invalid}") from invalid


def with_names(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Add the name of each table to its values, under the key `name`.

    >>> with_names({"nano": {"ram": 4}})
    {'nano': {'name': 'nano', 'ram': 4}}
    """
    return {name: {"name": name, **table} if isinstance(table, Mapping) else table for name, table in tables.items()}


def merge(tables: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge changes into tables, recursively; returns a new dict.

    >>> merge({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}})
    {'a': {'b': 1, 'c': 3}}
    """
    merged = {**tables, **changes}
    for name, change in changes.items():
        if isinstance(tables.get(name), Mapping) and isinstance(change, Mapping):
            merged[name] = merge(tables[name], change)
    return merged


def nan_to_none(value: Any) -> Any:
    """Replace NaN and infinities, which JSON lacks, by None.

    >>> nan_to_none({"a": (1.5, float("nan"))})
    {'a': [1.5, None]}
    """
    if isinstance(value, dict):
        return {key: nan_to_none(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [nan_to_none(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    """Make pydantic's validator of a type; this takes long, so it is cached."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _describe_problem(errors: Sequence[Any], kind: Any) -> str:
    """Describe one of pydantic's errors about values that should become a `kind`.

    An unknown key comes first, because it may be the misspelling of a key that is missing; otherwise the first error.
    """
    unknown_keys = (error for error in errors if error["type"] == "unexpected_keyword_argument")
    problem = next(unknown_keys, errors[0])
    if problem["type"] == "json_invalid":  # text that no file can hold
        return f"it cannot be read: {problem['ctx']['error']}"
    path = problem["loc"] or ("",)  # keys and indices that lead to the wrong value
    *tables, key = path
    in_table = f" in [{_dotted(tables)}]" if tables else ""
    if problem["type"] == "unexpected_keyword_argument":
        return _describe_unknown_key(kind, tables, key, in_table)
    if problem["type"] == "missing":
        return f"the key '{key}' is missing{in_table}"
    expected_kind, known_path = _kind_at(kind, problem["loc"])
    value = f"{_dotted(known_path) or 'it'} is {shortened(problem['input'])}"
    options = _options(expected_kind)
    if options:
        return value + suggestion(str(problem["input"]), options)
    return f"{value}; it takes {_expected(expected_kind)}"


def _describe_unknown_key(kind: Any, tables: Sequence[Any], key: str, in_table: str) -> str:
    """Name what an unknown key is called now, or else the known key that is most like it."""
    table_kind, _ = _kind_at(kind, tables)
    known = fields(_bare(table_kind))
    if renamed := next((field.name for field in known if field.metadata.get("was") == key), ""):
        renamed_kind, _ = _kind_at(kind, [*tables, renamed])
        return f"[{key}] is now [{renamed}]" if _is_table(renamed_kind) else f"{key}{in_table} is now {renamed}"
    if moved := _moved_key(kind, _dotted([*tables, key])):
        return f"{key}{in_table} is now {moved}"
    return f"unknown key '{key}'{in_table}{suggestion(key, [field.name for field in known])}"


def _moved_key(kind: Any, former: str) -> str:
    """Find where a key is now that was called `former` in another table: TABLE.KEY, empty if there is none."""
    tables = get_type_hints(_bare(kind), include_extras=True) if is_dataclass(_bare(kind)) else {}
    for name, table in tables.items():
        for field in fields(_bare(table)) if is_dataclass(_bare(table)) else ():
            if field.metadata.get("was") == former:
                return f"{name}.{field.name}"
    return ""


def _kind_at(kind: Any, path: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """Find the type that `kind` has at a path of keys and indices; returns it and the path.

    The search ends at a union of several types; the path is then the one that leads to the union.
    """
    for depth, key in enumerate(path):
        kind = _bare(kind)
        if get_origin(kind) in (Union, UnionType):
            return kind, path[:depth]
        if is_dataclass(kind):
            kind = get_type_hints(kind, include_extras=True)[key]
        else:  # the elements of tuple[X, ...], the values of dict[str, X]
            kind = next(argument for argument in reversed(get_args(kind)) if argument is not Ellipsis)
    return kind, path


def _bare(kind: Any) -> Any:
    """Strip a type of its bounds and of `| None`."""
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    others = [argument for argument in get_args(kind) if argument is not NoneType]
    return _bare(others[0]) if get_origin(kind) in (Union, UnionType) and len(others) == 1 else kind


def _options(kind: Any) -> list[str]:
    """List the values that an enumeration or literal allows; empty for other types."""
    kind = _bare(kind)
    if get_origin(kind) is Literal:
        return [str(option) for option in get_args(kind)]
    return [str(member.value) for member in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def _expected(kind: Any) -> str:
    """Describe in words which values a type accepts.

    >>> _expected(Annotated[int, Gt(0)]), _expected(tuple[str, ...] | None)
    ('a whole number above 0', 'a list')
    """
    if get_origin(kind) is Annotated:
        bare, *bounds = get_args(kind)
        bounds_text = [BOUNDS[type(bound)].format(bound) for bound in bounds if type(bound) in BOUNDS]
        return " ".join([_expected(bare), " and ".join(bounds_text)]).strip()
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_expected(argument) for argument in get_args(kind) if argument is not NoneType)
    return TYPE_NAMES.get(kind) or TYPE_NAMES[dict if _is_table(kind) else list]


def _is_table(kind: Any) -> bool:
    """Whether a value of this type is written as a table in TOML."""
    bare = _bare(kind)
    return is_dataclass(bare) or get_origin(bare) in (dict, Mapping)


def _dotted(path: Sequence[Any]) -> str:
    """Return a path as in TOML: `boards[0].ram`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")
