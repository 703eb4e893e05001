import re
from pathlib import Path

from scare.data.flags import MEANINGS, Flag

PAGE = Path(__file__).parents[2] / "docs" / "flags.md"


def test_the_page_of_flags_lists_every_bit_and_no_other() -> None:
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [(int(bit), name) for bit, name in rows] == [(flag.value, flag.name) for flag in Flag]


def test_flags_mean_what_the_page_says() -> None:
    said = dict(re.findall(r"^\| \d+ \| (\w+) \| (.+?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert {flag.name: words for flag, words in MEANINGS.items()} == said
    assert set(MEANINGS) == set(Flag)
