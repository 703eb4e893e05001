"""The page of exit codes is the table of exit codes."""

import re
from pathlib import Path

from scare.errors import ExitCode

PAGE = Path(__file__).parents[2] / "docs" / "exit-codes.md"


def test_the_page_lists_every_exit_code() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [(int(code), name) for code, name in rows] == [(code.value, code.name.lower()) for code in ExitCode]
