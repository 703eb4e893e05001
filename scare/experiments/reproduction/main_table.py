"""The paper's Table 2: accuracy over cities and pollutants, speed, complexity, memory and load of every model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scare.data.senseurcity import Pollutant
from scare.experiments.reproduction.choice import describe_choice
from scare.experiments.reproduction.hardware import board_note, card_columns, find_cards
from scare.experiments.reproduction.protocol import the_papers
from scare.experiments.reproduction.reproduction import Cell, Reproduction
from scare.experiments.reproduction.result_tables import SPREAD, Result, Table, mean, with_paper
from scare.experiments.study import Progress
from scare.experiments.table import Row

Scores = Mapping[Cell, Mapping[str, Row]]
HARDWARE = {
    "mean_latency": "mean latency [ms]",
    "max_latency": "max latency [ms]",
    "jitter": "jitter [ms]",
    "jax_latency": "mean latency, JAX [ms]",
    "complexity": "operations grow as",
    "activation": "activations, all [KB]",
    "cpu": "CPU max [%]",
}
CELL = {
    "place": "place",
    "pollutant": "pollutant",
    "contender": "model",
    "rmse": "RMSE",
    "rmse_sd": "± over seeds",
    "top5_rmse": "top-5 % RMSE",
    "mae": "MAE",
    "r2": "R²",
    "rows": "rows",
    "seeds": "seeds",
}
CHOICE = {"place": "place", "pollutant": "pollutant", "contender": "model", "rate": "rate", "means": "running means"}
HOW = [
    "RMSE is the mean of the places' (and of seeds); the paper's top-5 % column names no pollutant, ours is PM10's.",
    "Latency and CPU: the exported C in float32 on one pinned core of this computer, not the paper's runtime; beside it"
    " the network as JAX compiles it, with random weights, from a NumPy window to its value.",
    "The paper's jitter exceeds what its own mean and maximum allow in six of eight rows (docs/reproduce.md).",
]


def make_main(reproduction: Reproduction, progress: Progress) -> Result:
    """Table 2, every place and pollutant apart, and how each network was trained."""
    protocol, pollutants = reproduction.protocol, reproduction.source.pollutants
    scores, cards = reproduction.tables(protocol.main), find_cards(reproduction, protocol.main, progress)
    rows = []
    for name in protocol.main:
        ours: dict[str, Any] = {"contender": name, **accuracy_columns(scores, pollutants, name), "top5": None}
        if Pollutant.PM10 in pollutants:
            ours["top5"] = over_places(scores, Pollutant.PM10, name, "top5_rmse")
        ours |= card_columns(cards[name])
        rows.append(with_paper(ours, the_papers("main", name)))
    columns = {"contender": "model", **accuracy_headings(pollutants), "top5": "top-5 % RMSE, PM10", **HARDWARE}
    notes = [*HOW, board_note(protocol), *reproduction.failures(protocol.main)]
    choices = choice_table("main-choices", reproduction, protocol.main)
    tables = Table("main", "Table 2", columns, rows), cell_table("main-cells", scores), choices
    return Result(
        "main", "Table 2: eight models, eight requirements", tables, notes, reproduction.unfinished(protocol.main)
    )


def over_places(scores: Scores, pollutant: str, contender: str, field: str) -> float | None:
    """The mean over places of one number of a contender's accuracy; None if a place has none."""
    rows = [found[contender] for cell, found in scores.items() if cell[1] == pollutant]
    return mean(getattr(row.accuracy, field) if row.accuracy else None for row in rows)


def spread_over_places(scores: Scores, pollutant: str, contender: str) -> float | None:
    """The standard deviation over seeds of the mean RMSE, the places taken as independent; None of one seed."""
    rows = [found[contender] for cell, found in scores.items() if cell[1] == pollutant]
    spreads = [row.spread.rmse for row in rows if row.spread and row.seeds > 1]
    return float(np.sqrt(np.sum(np.square(spreads)))) / len(rows) if len(spreads) == len(rows) else None


def accuracy_columns(scores: Scores, pollutants: Sequence[str], contender: str) -> dict[str, float | None]:
    """RMSE of each pollutant, and its spread over seeds."""
    means = {str(one): over_places(scores, one, contender, "rmse") for one in pollutants}
    return means | {f"{one}{SPREAD}": spread_over_places(scores, one, contender) for one in pollutants}


def accuracy_headings(pollutants: Sequence[str]) -> dict[str, str]:
    """Headings of the means of `accuracy_columns`."""
    return {str(one): f"RMSE {one}" for one in pollutants}


def cell_table(name: str, scores: Scores) -> Table:
    """Every place, pollutant and contender."""
    rows: list[dict[str, Any]] = []
    for (place, pollutant), found in scores.items():
        rows += [{"place": str(place), "pollutant": str(pollutant), **row.as_dict()} for row in found.values()]
    return Table(name, "Each place and pollutant", CELL, rows)


def choice_table(name: str, reproduction: Reproduction, contenders: Sequence[str]) -> Table:
    """What was chosen on validation for every network and task, and the error there of each rate."""
    rows: list[dict[str, Any]] = []
    for cell, study in reproduction.studies.items():
        place = dict(zip(("place", "pollutant"), map(str, cell), strict=True))
        for contender in contenders:
            if found := describe_choice(study, contender, reproduction.protocol):
                rows.append({**place, "contender": contender, **found})
    rates = {column: f"{column}, RMSE" for row in rows for column in row if column.startswith("at ")}
    return Table(name, "Chosen on validation", CHOICE | rates, rows)
