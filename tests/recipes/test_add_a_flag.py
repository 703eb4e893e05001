"""CONTRIBUTING's "Add a flag": a bit, its meaning and a rule are told by every way a row can go."""

import re

import polars as pl
import pytest

from tests.calibrator.building import make_calibrator, newest_plan
from tests.recipes.walking import Walk

QUALITY, MEANING = "scare/data/flags.py", "a negative reading"
RULE = """RULES_2027_1 = (
    *RULES_2026_1,
    QualityRule("Q08", "negative", Flag.NEGATIVE, "The value is below zero.", lambda rows, settings: rows.values < 0),
)
"""
BIT = 1 << 15


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    walk = Walk(tmp_path_factory.mktemp("walk"))
    walk.edit(QUALITY, "\n\n\nMEANINGS = {", "\n    NEGATIVE = 1 << 15\n\n\nMEANINGS = {")
    walk.edit(QUALITY, "\n}\nUNUSABLE", f'\n    Flag.NEGATIVE: "{MEANING}",\n}}\nUNUSABLE')
    walk.edit(QUALITY, "RULES = RULES_2026_1", f"{RULE}RULES = RULES_2027_1")
    walk.append("docs/flags.md", f"| {BIT} | NEGATIVE | {MEANING} | yes | not told |\n")
    return walk


def test_a_command_tells_it_in_rows_and_in_its_summary(walk: Walk) -> None:
    make_calibrator(newest_plan(1)).save(walk.folder / "line.scare")
    columns = {"time": [f"2026-01-01T00:0{minute}Z" for minute in range(3)], "pm25": [5.0, 6.0, 7.0]}
    pl.DataFrame({**columns, "current": [3.0, -2.0, 4.0]}).write_csv(walk.folder / "raw.csv")
    reported = walk.scare("predict line.scare raw.csv --device box-1 --out calibrated.csv")
    assert reported["flags"]["NEGATIVE"] == 1
    assert (pl.read_csv(walk.folder / "calibrated.csv")["flags"] & BIT).to_list() == [0, BIT, 0]


def test_live_tells_it_too(walk: Walk) -> None:
    text = walk.python(
        "import numpy as np\n"
        "from scare.calibrator.calibrator import Calibrator\n"
        "live = Calibrator.load('line.scare').live('box-1')\n"
        "for row, current in enumerate((3.0, -2.0)):\n"
        "    print(int(live.push(60.0 * row, np.array([5.0, current])).flags))"
    )
    assert [int(one) & BIT for one in text.split()] == [0, BIT]


def test_the_page_lists_it_as_the_program_does(walk: Walk) -> None:
    page = (walk.folder / "docs" / "flags.md").read_text(encoding="utf-8")
    known = walk.python(
        "from scare.data.flags import MEANINGS, Flag\nfor one in Flag: print(one.value, one.name, MEANINGS[one])"
    )
    printed = [" ".join(row) for row in re.findall(r"^\| (\d+) \| ([A-Z_]+) \| (.+?) \|", page, re.MULTILINE)]
    assert known.splitlines() == printed
