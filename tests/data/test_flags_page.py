import re
from pathlib import Path

from scare.data.quality import Flag

PAGE = Path(__file__).parents[2] / "docs" / "flags.md"


def test_the_page_of_flags_lists_every_bit_and_no_other() -> None:
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [(int(bit), name) for bit, name in rows] == [(flag.value, flag.name) for flag in Flag]
