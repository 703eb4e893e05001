"""Jinja2 as the pages use it: every value is escaped, a name that is not given is an error."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from scare.data.quantities import display_unit
from scare.report.numbers import number


@cache
def _environment() -> Environment:
    loader = FileSystemLoader(Path(__file__).with_name("templates"))
    found = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {"number": number, "unit": display_unit}
    found.tests |= {"channel": _is_channel, "nested": _is_nested}
    return found


def render(template: str, **values: Any) -> str:
    """A template of the folder `templates` with these values."""
    return _environment().get_template(template).render(values)


def _is_channel(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() == {"name", "unit"}


def _is_nested(value: Any) -> bool:
    """Whether a fact is shown as a list of facts, or holds one."""
    if isinstance(value, list | tuple):
        return any(map(_is_nested, value))
    return isinstance(value, Mapping) and not _is_channel(value)
