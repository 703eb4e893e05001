"""Reads a column mapping back from the `--config` file that it was written to."""

from dataclasses import fields
from pathlib import Path

from scare.data.column_mapping import ColumnMapping, DataSection, tidy_columns
from scare.schema import convert, load_toml


def read_mapping(path: Path | str) -> ColumnMapping:
    """The columns that the section [data] names."""
    data = convert(tidy_columns(load_toml(path).get("data", {})), DataSection, f"{path}: [data]")
    return ColumnMapping(**{field.name: getattr(data, field.name) for field in fields(ColumnMapping)})
