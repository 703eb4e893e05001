"""The ladder for people: in the card, on the terminal; older files tell nothing and still open."""

from pathlib import Path

import pytest

from scare.calibrator.bundle import card
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.selection_table import HEAD, selection_table
from scare.export.compiled import compile_calibrator
from tests.calibrator.building import make_calibrator

VERDICT = "the network lowers the error of the best line or ridge by 12%; it has 75% of the say"
LADDER = [
    {"rung": "raw", "rmse": 4.0, "admitted": False},
    {"rung": "line", "rmse": 3.0, "fall": 0.5, "sureness": 9.8, "admitted": True},
    {"rung": "history", "rmse": 2.99, "fall": 0.004, "sureness": 0.0, "admitted": False},
    {"rung": "network", "rmse": 2.64, "fall": 0.12, "admitted": True},
]
TOLD = {"outcome": "network", "ladder": LADDER, "network_share": 0.75, "verdict": VERDICT}


def test_every_rung_is_a_line_in_an_operators_words() -> None:
    assert selection_table(TOLD) == [
        ["the sensor's own value", "4", "", "no"],
        ["a straight line", "3", "50% ± 10%", "yes"],
        ["and what was read before", "2.99", "0%", "no"],
        ["the network", "2.64", "12%", "75%"],
    ]


@pytest.mark.parametrize(("share", "taken"), [(0.0, "no"), (1.0, "yes")])
def test_a_whole_network_is_taken_and_one_without_a_share_is_not(share: float, taken: str) -> None:
    network = {**LADDER[-1], "admitted": share > 0}
    assert selection_table({**TOLD, "ladder": [network], "network_share": share})[0][-1] == taken


def test_the_card_ends_with_the_verdict_and_its_reasons(tmp_path: Path) -> None:
    told = Calibrator.load(make_calibrator().with_facts(preset="default", **TOLD).save(tmp_path / "told.scare"))
    text = card(told)
    _, section = text.split("## What it turned out to be\n\n")
    assert section.startswith(f"{VERDICT}.\n\n| {' | '.join(HEAD)} |\n")
    assert "| a straight line | 3 | 50% ± 10% | yes |" in section
    assert "- preset: default" in text
    assert "- ladder" not in text


def test_an_export_says_what_it_is() -> None:
    told, old = (compile_calibrator(make_calibrator().with_facts(**facts), "float32").title for facts in (TOLD, {}))
    assert told == f"{old} {VERDICT[0].upper()}{VERDICT[1:]}."


def test_a_file_without_a_ladder_still_opens_and_has_its_card(tmp_path: Path) -> None:
    old = Calibrator.load(make_calibrator().with_facts(model="scare").save(tmp_path / "old.scare"))
    assert selection_table(old.facts) == []
    assert "turned out" not in card(old)
