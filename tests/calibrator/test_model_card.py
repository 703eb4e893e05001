"""The model selection for people: in the card, on the terminal; older files have other names, or none, and open."""

from pathlib import Path

import pytest

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.model_card import FORMER_FACTS, HEAD, LABELS, model_card, selection_summary, selection_table
from scare.export.lowering import compile_calibrator
from tests.calibrator.building import make_calibrator

SUMMARY = "The result is the mean of a linear regression and the network: on validation none of them is clearly worse."
SELECTION = [
    {"candidate": "as is", "variant": "raw", "rmse": 4.0, "admitted": False, "share": 0.0},
    {"candidate": "linear", "variant": "history, penalty 0.01", "rmse": 3.0, "admitted": True, "share": 0.25},
    {"candidate": "drift", "variant": "drift", "rmse": 3.99, "admitted": False, "share": 0.0},
    {"candidate": "network", "variant": "network", "rmse": 2.64, "admitted": True, "share": 0.75},
]
FACTS = {"outcome": "network", "selection": SELECTION, "network_share": 0.75, "summary": SUMMARY}


def test_every_family_is_a_row_in_an_operators_words() -> None:
    names = ["as is", "linear", "drift", "network"]
    assert selection_table(FACTS) == [
        [LABELS[names[0]], "4", "raw", "no"],
        ["linear regression", "3", "history, penalty 0.01", "25%"],
        [LABELS[names[2]], "3.99", "", "no"],
        ["network", "2.64", "", "75%"],
    ]


def test_the_table_of_an_older_file_has_its_candidates() -> None:
    older = [
        {"candidate": "raw", "rmse": 4.0, "admitted": False},
        {"candidate": "line", "rmse": 3.0, "improvement": 0.5, "z_score": 9.8, "admitted": True},
        {"candidate": "network", "rmse": 2.64, "improvement": 0.12, "admitted": True},
    ]
    assert selection_table({"selection": older, "network_share": 0.75}) == [
        ["sensor reading as is", "4", "", "no"],
        ["linear regression", "3", "", "yes"],
        ["network", "2.64", "", "75%"],
    ]


@pytest.mark.parametrize(("share", "taken"), [(0.0, "no"), (1.0, "yes")])
def test_a_whole_network_is_taken_and_one_without_a_share_is_not(share: float, taken: str) -> None:
    network = {**SELECTION[-1], "admitted": share > 0, "share": share}
    assert selection_table({**FACTS, "selection": [network], "network_share": share})[0][-1] == taken


def test_the_card_ends_with_the_summary_and_the_candidates(tmp_path: Path) -> None:
    reported = Calibrator.load(make_calibrator().with_facts(preset="default", **FACTS).save(tmp_path / "told.scare"))
    text = model_card(reported)
    _, section = text.split("## Model selection\n\n")
    assert section.startswith(f"{SUMMARY}\n\n| {' | '.join(HEAD)} |\n")
    assert "| linear regression | 3 | history, penalty 0.01 | 25% |" in section
    assert "- preset: default" in text
    assert "- selection" not in text


def test_an_export_says_what_it_is() -> None:
    reported, old = (
        compile_calibrator(make_calibrator().with_facts(**facts), "float32").title for facts in (FACTS, {})
    )
    assert reported == f"{old} {SUMMARY}"


def test_a_file_without_a_selection_still_opens_and_has_its_card(tmp_path: Path) -> None:
    old = Calibrator.load(make_calibrator().with_facts(model="scare").save(tmp_path / "old.scare"))
    assert selection_table(old.facts) == []
    assert "## Model selection" not in model_card(old)


@pytest.mark.parametrize(
    ("channels", "label"),
    [(("OX_RH", "OX_temp"), "+ temperature and humidity"), (("RH", "pressure"), "+ other channels")],
)
def test_other_channels_are_named_if_they_are_temperature_and_humidity(channels: tuple[str, str], label: str) -> None:
    candidate = {"candidate": "other channels", "rmse": 1.0, "admitted": True}
    assert selection_table({"selection": [candidate]}, channels)[0][0] == label


def test_an_older_file_is_read_by_its_former_names(tmp_path: Path) -> None:
    former = {today: name for name, today in FORMER_FACTS.items()}
    candidates = [{former.get(name, name): value for name, value in one.items()} for one in SELECTION]
    verdict = SUMMARY[0].lower() + SUMMARY[1:-1]
    facts = {"outcome": "network", "ladder": candidates, "network_share": 0.75, "verdict": verdict}
    assert selection_table(facts) == selection_table(FACTS)
    assert selection_summary(facts) == SUMMARY
    older = Calibrator.load(make_calibrator().with_facts(**facts).save(tmp_path / "older.scare"))
    assert {name: older.facts[name] for name in FACTS} == {**FACTS, "summary": verdict}
    assert not FORMER_FACTS.keys() & older.facts.keys()
