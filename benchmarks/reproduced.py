"""The tables of docs/reproduce.md from folders that `scare reproduce all --out FOLDER` filled.

    python -m benchmarks.reproduced out/jrc-60 out/jrc-360  # writes them into the page, and figures beside it

One folder for each window length. What is not there, or not finished, is left open and named; grades, speed and size
are of the longest.
"""

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scare.experiments.reproduction import ablation, board_figure
from scare.experiments.reproduction.main_table import HARDWARE
from scare.experiments.reproduction.protocol import the_papers
from scare.experiments.reproduction.result_tables import Table
from scare.files import replacing
from scare.report.reproduction import shown
from scare.scorecard.requirements import Requirements

PAGE = Path(__file__).parents[1] / "docs" / "reproduce.md"
BEGIN, END = "<!-- tables -->\n", "<!-- end of tables -->\n"
OPEN = "–"  # in a cell without a number
Results = Mapping[int, Mapping[str, Any]]  # by window length
MODEL = {"contender": "model"}
IN_TABLE_3 = {"method": "what it is"} | {column: HARDWARE[column] for column in ablation.SHOWN}
TITLES = {"main": "Table 2", "ablation": "Table 3"}
ON_BOARD = {
    name: board_figure.COLUMNS[name] for name in ("milliseconds", "flash_bytes", "ram_bytes", "flatbuffer_bytes")
}
FIGURES = ("main", "ablation", "adaptability", "board")


def read_results(folders: Iterable[Path], experiment: str) -> dict[int, dict[str, Any]]:
    """What an experiment found, by window length, of the folders in which it was made."""
    paths = [folder / f"{experiment}.json" for folder in folders]
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
    return {one["protocol"]["window"]: one for one in found}


def accuracy_table(results: Results, experiment: str) -> list[str]:
    """RMSE of every contender that has any beside the paper's: the mean of the places, each place with its spread."""
    cells = {window: _by_contender(one["tables"][f"{experiment}-cells"]) for window, one in results.items()}
    places = list(dict.fromkeys(row["place"] for found in cells.values() for rows in found.values() for row in rows))
    heads = [f"N = {window}: {column}" for window in cells for column in ("RMSE", "top-5 %", *places, "seeds")]
    lines = ["| model | paper, PM10 | " + " | ".join(heads) + " |", "|---|" + "---|" * (len(heads) + 1)]
    for name in dict.fromkeys(name for one in results.values() for name in one["protocol"][experiment]):
        rows = [row for found in cells.values() for row in found.get(name, [])]
        if all(row.get("rmse") is None for row in rows):
            continue
        numbers = [cell for found in cells.values() for cell in _numbers(found.get(name, []), places)]
        theirs = the_papers(experiment, name).get("PM10")
        lines.append(f"| {name} | {OPEN if theirs is None else theirs} | {' | '.join(numbers)} |")
    return lines


def adaptability_table(results: Results) -> list[str]:
    """RMSE around changes at the longest window: each place, both definitions, every threshold."""
    rows = results[max(results)]["tables"]["adaptability"]
    places = ("place", "kind", "threshold", "coverage")
    names = [name for name in rows[0] if name not in (*places, "pollutant") and not name.endswith("_sd")]
    lines = [f"| {' | '.join([*places, *names])} |", "|---" * (len(places) + len(names)) + "|"]
    for row in rows:
        where = [row["place"], row["kind"], f"{row['threshold']:.0%}", f"{row['coverage']:.0%}"]
        lines.append(f"| {' | '.join([*where, *(_number(row[name]) for name in names)])} |")
    return lines


def board_table(results: Results) -> list[str]:
    """Every model on the board at the longest window, float32 / int8; no number of a form that a model lacks."""
    window, found = max(results), {}
    for row in results[window]["tables"]["board"]:
        if row["window"] == window:
            found.setdefault(row["contender"], []).append(row)
    lines = [f"| {' | '.join(['model', *ON_BOARD.values()])} |", "|---" * (len(ON_BOARD) + 1) + "|"]
    for name, forms in found.items():
        _, cells = shown(Table("board", "", ON_BOARD, forms))
        both = [" / ".join(cell or OPEN for cell in pair) for pair in zip(*cells, strict=True)]
        lines.append(f"| {' | '.join([name, *both])} |")
    return lines


def measured_section(results: Results, experiment: str, title: str, columns: Mapping[str, str]) -> list[str]:
    """What was measured at the longest window, the paper's in brackets; no row for what has no measure."""
    rows = [row for row in results[max(results)]["tables"][experiment] if any(row.get(name) for name in columns)]
    if not rows:
        return []
    head, cells = shown(Table(experiment, "", MODEL | columns, rows))
    table = [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *cells)]
    return [f"### {title}, N = {max(results)}", "", *table, ""]


def sections(folders: Sequence[Path]) -> str:
    """All tables that there are, each with what is not finished."""
    lines: list[str] = []
    if results := read_results(folders, "checklist"):
        grades = {name: one.title for name, one in Requirements.load().requirements.items()}
        lines += [*measured_section(results, "checklist", "Table 1", grades), *_unfinished(results)]
    for experiment, columns in (("main", HARDWARE), ("ablation", IN_TABLE_3)):
        if results := read_results(folders, experiment):
            title = TITLES[experiment]
            lines += [f"### {title}, accuracy", "", *accuracy_table(results, experiment), "", *_unfinished(results)]
            lines += measured_section(results, experiment, f"{title}, speed and size", columns)
    if results := read_results(folders, "adaptability"):
        lines += [f"### Adaptability, N = {max(results)}", "", *adaptability_table(results), "", *_unfinished(results)]
    if results := read_results(folders, "board"):
        lines += [f"### The board, N = {max(results)}, float32 / int8", "", *board_table(results), ""]
    return "\n".join(lines)


def _by_contender(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["contender"], []).append(row)
    return found


def _numbers(rows: Sequence[Mapping[str, Any]], places: Sequence[str]) -> list[str]:
    """RMSE and top-5 % as means of all places, RMSE of each place, and the least number of seeds."""
    by_place = {row["place"]: row for row in rows if row.get("rmse") is not None}
    each = [by_place.get(place) for place in places]
    whole, means = [row for row in each if row], [OPEN, OPEN]
    if each and len(whole) == len(each):
        means = [f"**{np.mean([row[key] for row in whole]):.2f}**" for key in ("rmse", "top5_rmse")]
    apart = [_place(row) if row else OPEN for row in each]
    seeds = str(min((row["seeds"] for row in whole), default=0))
    return [*means, *apart, seeds]


def _place(row: Mapping[str, Any]) -> str:
    return _number(row["rmse"]) + (f" ± {row['rmse_sd']:.2f}" if row["seeds"] > 1 else "")


def _number(value: float | None) -> str:
    return OPEN if value is None else f"{value:.2f}"


def _unfinished(results: Results) -> list[str]:
    notes = [(window, note) for window, one in results.items() for note in one["reading"]]
    names = [f"{note.split(': ')[1]} (N = {window})" for window, note in notes if note.startswith("Not finished")]
    return [f"Not finished when this was written: {', '.join(names)}.", ""] if names else []


def main() -> None:
    """Write the tables into the page, and the figures of the longest window beside it."""
    folders = [Path(name) for name in sys.argv[1:]]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    with replacing(PAGE) as temporary:
        temporary.write_text(before + BEGIN + sections(folders) + END + after, encoding="utf-8", newline="\n")
    for name in FIGURES:
        drawn = [folder / f"{name}.png" for folder in folders if (folder / f"{name}.png").exists()]
        if drawn:
            shutil.copyfile(drawn[-1], PAGE.with_name(f"reproduce-{name}.png"))


if __name__ == "__main__":
    main()
