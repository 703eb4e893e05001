"""The paper's Table 3: six settings of one model (`ABLATION` of `models/scare`), by the paper's recipe."""

from scare.experiments.reproduction.hardware import board_note, card_columns, find_cards
from scare.experiments.reproduction.main_table import (
    HARDWARE,
    accuracy_columns,
    accuracy_headings,
    cell_table,
    choice_table,
)
from scare.experiments.reproduction.protocol import the_papers
from scare.experiments.reproduction.reproduction import Reproduction
from scare.experiments.reproduction.result_tables import Result, Table, with_paper
from scare.experiments.study import Progress

SHOWN = ("max_latency", "complexity", "activation", "cpu")


def make_ablation(reproduction: Reproduction, progress: Progress) -> Result:
    """Table 3, every place and pollutant apart, and how each network was trained."""
    protocol, pollutants = reproduction.protocol, reproduction.source.pollutants
    scores, cards = reproduction.tables(protocol.ablation), find_cards(reproduction, protocol.ablation, progress)
    rows = []
    for name in protocol.ablation:
        theirs = the_papers("ablation", name)
        hardware = card_columns(cards[name])
        accuracy = accuracy_columns(scores, pollutants, name)
        ours = {"contender": name, "method": theirs.get("method", ""), **accuracy}
        ours |= {column: hardware[column] for column in SHOWN}
        rows.append(with_paper(ours, {column: value for column, value in theirs.items() if column != "method"}))
    headings = {"contender": "setting", "method": "what it is", **accuracy_headings(pollutants)}
    headings |= {column: HARDWARE[column] for column in SHOWN}
    choices = choice_table("ablation-choices", reproduction, protocol.ablation)
    tables = Table("ablation", "Table 3", headings, rows), cell_table("ablation-cells", scores), choices
    notes = ["scare-paper is Exp 6.", "Latency and CPU are of the exported C on this computer.", board_note(protocol)]
    notes += reproduction.failures(protocol.ablation)
    return Result(
        "ablation", "Table 3: what each part of SCARE does", tables, notes, reproduction.unfinished(protocol.ablation)
    )
