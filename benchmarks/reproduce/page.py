"""Write the tables of docs/reproduce.md from folders of `scare reproduce all --out FOLDER`.

    python -m benchmarks.reproduce.page out/jrc-60 out/jrc-360  # writes the page and its figures

One folder for each window length. What is missing or not finished is left open and listed; grades, speed and size are
those of the longest window.
"""

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reproduce import tables
from benchmarks.reproduce.figures import format_table
from benchmarks.reproduce.protocol import paper_values
from benchmarks.reproduce.senseurcity import Pollutant
from benchmarks.reproduce.tables import HARDWARE, SPREAD, ResultTable
from scare.experiments.study_task import upgrade_row
from scare.files import replacing
from scare.scorecard.requirements import RequirementTable

PAGE = Path(__file__).parents[2] / "docs" / "reproduce.md"
BEGIN, END = "<!-- tables -->\n", "<!-- end of tables -->\n"
OPEN = "–"  # in a cell without a number
Results = Mapping[int, Mapping[str, Any]]  # by window length
MODEL = {"method": "model"}
IN_TABLE_3 = {"change": "what it is"} | {column: HARDWARE[column] for column in tables.ABLATION_HARDWARE}
TITLES = {"main": "Table 2", "ablation": "Table 3"}
ON_BOARD = {name: tables.BOARD[name] for name in ("milliseconds", "flash_bytes", "ram_bytes", "flatbuffer_bytes")}
POLLUTANT = Pollutant.PM10  # the paper has its error in all tables
FIGURES = ("main", "ablation", "adaptability", "board")


def read_results(folders: Iterable[Path], experiment: str) -> dict[int, dict[str, Any]]:
    """Read the results of an experiment by window length, from the folders that have it."""
    paths = [folder / f"{experiment}.json" for folder in folders]
    results = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
    for one in results:
        one["tables"] = {name: [upgrade_row(row) for row in rows] for name, rows in one["tables"].items()}
    return {one["protocol"]["window"]: one for one in results}


def accuracy_table(results: Results, experiment: str) -> list[str]:
    """Tabulate errors of every scored method next to the paper's: means over places, and each with its spread."""
    cells = {window: _by_method(one["tables"][f"{experiment}-cells"]) for window, one in results.items()}
    places = list(dict.fromkeys(row["place"] for found in cells.values() for rows in found.values() for row in rows))
    theirs = {"PM10": "paper: RMSE"} | ({"top5": "paper: top-5 %"} if experiment == "main" else {})
    heads = [f"N = {window}: {column}" for window in cells for column in ("RMSE", "top-5 %", *places, "seeds")]
    lines = [f"| {' | '.join(['model', *theirs.values(), *heads])} |", "|---" * (len(heads) + len(theirs) + 1) + "|"]
    for name in dict.fromkeys(name for one in results.values() for name in one["protocol"][experiment]):
        rows = [row for found in cells.values() for row in found.get(name, [])]
        if all(row.get("rmse") is None for row in rows):
            continue
        numbers = [cell for found in cells.values() for cell in _numbers(found.get(name, []), places)]
        papers = [_number(paper_values(experiment, name).get(column)) for column in theirs]
        lines.append(f"| {' | '.join([name, *papers, *numbers])} |")
    return lines


def choice_table(results: Results, experiment: str) -> list[str]:
    """Tabulate the rate of every network on each place, and how many of its seeds ship a running mean."""
    found = {window: _by_method(one["tables"].get(f"{experiment}-choices", ())) for window, one in results.items()}
    rows = [row for one in found.values() for rows in one.values() for row in rows]
    places = list(dict.fromkeys(row["place"] for row in rows))
    heads = [f"N = {window}: {place}" for window in found for place in places]
    lines = [f"| {' | '.join(['model', *heads])} |", "|---" * (len(heads) + 1) + "|"]
    for name in dict.fromkeys(row["method"] for row in rows):
        chosen = [
            {row["place"]: f"{row['rate']:g} ({row['means']})" for row in one.get(name, ())} for one in found.values()
        ]
        lines.append(f"| {' | '.join([name, *(one.get(place, OPEN) for one in chosen for place in places)])} |")
    return lines


def adaptability_table(results: Results) -> list[str]:
    """Tabulate RMSE around changes at the longest window: each place, both kinds of change, every threshold."""
    rows = results[max(results)]["tables"]["adaptability"]
    places = ("place", "kind", "threshold", "coverage")
    names = [name for name in rows[0] if name not in (*places, "pollutant") and not name.endswith(SPREAD)]
    lines = [f"| {' | '.join([*places, *names])} |", "|---" * (len(places) + len(names)) + "|"]
    for row in (row for row in rows if row["pollutant"] == POLLUTANT):
        where = [row["place"], row["kind"], f"{row['threshold']:.0%}", f"{row['coverage']:.0%}"]
        lines.append(f"| {' | '.join([*where, *(_spread(row[name], row.get(name + SPREAD)) for name in names)])} |")
    return lines


def board_table(results: Results) -> list[str]:
    """Tabulate every model on the board at the longest window, float32 / fixed point if it has both."""
    window, found = max(results), {}
    for row in results[window]["tables"]["board"]:
        if row["window"] == window:
            found.setdefault(row["method"], []).append(row)
    lines = [f"| {' | '.join(['model', *ON_BOARD.values()])} |", "|---" * (len(ON_BOARD) + 1) + "|"]
    for name, forms in found.items():
        _, cells = format_table(ResultTable("board", "", ON_BOARD, forms))
        both = [" / ".join(cell or OPEN for cell in pair) for pair in zip(*cells, strict=True)]
        lines.append(f"| {' | '.join([name, *both])} |")
    return lines


def measured_table(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> list[str]:
    """Tabulate measurements, the paper's in brackets; leaves out methods without any."""
    measures = [name for name in columns if name != "change"]
    head, cells = format_table(
        ResultTable("", "", MODEL | columns, [row for row in rows if any(row.get(one) for one in measures)])
    )
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *cells)]


def sections(folders: Sequence[Path]) -> str:
    """Render all tables that the folders have results for, each with a line about unfinished methods."""
    lines: list[str] = []
    if results := read_results(folders, "checklist"):
        grades = {name: one.title for name, one in RequirementTable.load().requirements.items()}
        lines += [f"### Table 1, N = {max(results)}", ""]
        lines += [*measured_table(results[max(results)]["tables"]["checklist"], grades), "", *_unfinished(results)]
    for experiment, columns in (("main", HARDWARE), ("ablation", IN_TABLE_3)):
        if results := read_results(folders, experiment):
            title = TITLES[experiment]
            lines += [f"### {title}, accuracy", "", *accuracy_table(results, experiment), "", *_unfinished(results)]
            lines += [f"### {title}, rates chosen on validation", ""]
            lines += [*choice_table(results, experiment), ""]
            lines += [f"### {title}, speed and size, N = {max(results)}", ""]
            lines += [*measured_table(results[max(results)]["tables"][experiment], columns), ""]
    if results := read_results(folders, "adaptability"):
        lines += [f"### Adaptability, N = {max(results)}", "", *adaptability_table(results), "", *_unfinished(results)]
    if results := read_results(folders, "board"):
        lines += [f"### The board, N = {max(results)}, float32 / fixed point", "", *board_table(results), ""]
    return "\n".join(lines)


def _by_method(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Group the rows of the pollutant that the page is about by method."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in (row for row in rows if row["pollutant"] == POLLUTANT):
        found.setdefault(row["method"], []).append(row)
    return found


def _numbers(rows: Sequence[Mapping[str, Any]], places: Sequence[str]) -> list[str]:
    """Write RMSE and top-5 % as means of all places, RMSE of each place, and the fewest seeds of a place.

    The means are open unless every place has a score.
    """
    by_place = {row["place"]: row for row in rows if row.get("rmse") is not None}
    each = [by_place.get(place) for place in places]
    scored, means = [row for row in each if row], [OPEN, OPEN]
    seeds = min((row["seeds"] for row in scored), default=0)
    if each and len(scored) == len(each):
        means = [f"**{_mean(scored, key, seeds)}**" for key in ("rmse", "top5_rmse")]
    each_place = [_spread(row["rmse"], row["rmse_sd"] if row["seeds"] > 1 else None) if row else OPEN for row in each]
    return [*means, *each_place, str(seeds)]


def _mean(rows: Sequence[Mapping[str, Any]], key: str, seeds: int) -> str:
    """Write the mean over places, and its standard deviation over seeds if places are independent."""
    deviations = [row[f"{key}_sd"] for row in rows]
    spread = float(np.sqrt(np.sum(np.square(deviations)))) / len(rows)
    return _spread(float(np.mean([row[key] for row in rows])), spread if seeds > 1 else None)


def _spread(value: float | None, deviation: float | None) -> str:
    """Write a number, and its standard deviation over seeds if there are several."""
    return _number(value) + ("" if value is None or deviation is None else f" ± {deviation:.2f}")


def _number(value: float | None) -> str:
    return OPEN if value is None else f"{value:.2f}"


def _unfinished(results: Results) -> list[str]:
    """Write a line with the methods that are not finished, if there are any."""
    names = [f"{name} (N = {window})" for window, one in results.items() for name in one["unfinished"]]
    return [f"Not finished when this was written: {', '.join(names)}.", ""] if names else []


def copy_figures(folders: Sequence[Path]) -> None:
    """Copy the figures of the longest window next to the page."""
    for name in FIGURES:
        by_window = {one: folder for folder in folders for one in read_results([folder], name)}
        drawn = by_window[max(by_window)] / f"{name}.png" if by_window else None
        if drawn and drawn.exists():
            shutil.copyfile(drawn, PAGE.with_name(f"reproduce-{name}.png"))


def main() -> None:
    """Write the tables into the page, and copy the figures of the longest window next to it."""
    folders = [Path(name) for name in sys.argv[1:]]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    with replacing(PAGE) as temporary:
        temporary.write_text(before + BEGIN + sections(folders) + END + after, encoding="utf-8", newline="\n")
    copy_figures(folders)


if __name__ == "__main__":
    main()
