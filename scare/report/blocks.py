"""The blocks of a page's section as plain records; `templates/blocks.html.j2` renders them to HTML.

No text here is HTML: the templates (Jinja2) escape every value, and a name that is not given is an error.
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
    """A word on a colour; `kind` is good, fair, bad or none."""

    kind: str
    words: str


@dataclass(frozen=True)
class Cell:
    """A table cell with a small remark, a badge next to or below its text, or a bar of a share."""

    text: str
    remark: str = ""
    badge: Badge | None = None
    below: bool = False
    bar: float | None = None  # per cent
    ours: bool = False


@dataclass(frozen=True)
class ReportTable:
    """A table whose first column names its rows; a row of one cell is a heading for those below it.

    On a narrow page the rows are stacked, each cell under the name of its column.
    """

    template: ClassVar[str] = "table"
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    kind: str = ""


@dataclass(frozen=True)
class Note:
    """A paragraph in a muted colour."""

    template: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True)
class Banner:
    """A badge followed by a sentence."""

    template: ClassVar[str] = "banner"
    badge: Badge
    text: str


@dataclass(frozen=True)
class Facts:
    """Nested facts as a list of names and values, without those that are None or empty."""

    template: ClassVar[str] = "facts"
    heading: str
    facts: Mapping[str, Any]


Block = ReportTable | Note | Banner | Facts


def render(template: str, **values: Any) -> str:
    """Render a template of the folder `templates` with these values."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"number": number, "unit": display_unit}
    environment.tests |= {"channel": _is_channel, "nested": _is_nested}
    return environment


def _is_channel(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() == {"name", "unit"}


def _is_nested(value: Any) -> bool:
    """Whether a fact is a list of facts, or contains one."""
    if isinstance(value, list | tuple):
        return any(map(_is_nested, value))
    return isinstance(value, Mapping) and not _is_channel(value)
