"""What a section of the page is made of, as plain records; `templates/blocks.html.j2` turns them into HTML.

No text here is HTML: the templates escape all of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from scare.data.quantities import display_unit
from scare.report.numbers import number


@dataclass(frozen=True)
class Badge:
    """A word on a colour: good, fair, bad or none."""

    kind: str
    words: str


@dataclass(frozen=True)
class Cell:
    """A cell that is more than its text: a remark in small letters, a badge beside or below it, a bar of a share."""

    text: str
    remark: str = ""
    badge: Badge | None = None
    below: bool = False
    bar: float | None = None  # per cent
    ours: bool = False


@dataclass(frozen=True)
class Table:
    """A table whose first column names its rows; a row of one cell heads those below it.

    Where the page is narrow its rows are stacked, each cell under the name of its column.
    """

    template: ClassVar[str] = "table"
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    kind: str = ""


@dataclass(frozen=True)
class Note:
    """A paragraph in a quieter voice."""

    template: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True)
class Verdict:
    """A badge and a sentence."""

    template: ClassVar[str] = "verdict"
    badge: Badge
    text: str


@dataclass(frozen=True)
class Facts:
    """Nested facts as a list of names and values; what is None or empty is left out."""

    template: ClassVar[str] = "facts"
    heading: str
    facts: Mapping[str, Any]


Block = Table | Note | Verdict | Facts


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
