"""The recipes of CONTRIBUTING.md."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def recipe(title: str) -> str:
    """The text of one recipe."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (text,) = re.findall(rf"^\*\*{re.escape(title)}\.\*\*(.*?)(?=^\*\*|\Z)", page, re.MULTILINE | re.DOTALL)
    return text


def files(text: str) -> list[str]:
    """The files that a recipe names."""
    return [name for name in re.findall(r"`([^`\s]+)`", text) if "/" in name]
