"""The files of a result: figures, Markdown, CSV and JSON, each with a note on what it was made from."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.reproduce.tables import ADAPTABILITY, PAPER, SPREAD, ExperimentResult, ResultTable
from scare.export.lowering import Arithmetic
from scare.files import replacing
from scare.report.blocks import readable
from scare.report.png_figures import OURS_COLOUR, RAW, REFERENCE

matplotlib.use("Agg")

Row = dict[str, Any]
INK = ["#30638e", "#edae49", "#66a182", "#8d6a9f", "#00798c", "#a26769", "#6b705c", "#9a8c98", "#c1666b"]
LETTERS_PER_INCH = 15  # letters of the title
POLLUTANTS = ("PM10", "PM25", "PM1")
IN_MS = " [ms]"  # suffix of the heading of a column of times


def draw_result(result: ExperimentResult, folder: Path, notes: Sequence[str], with_paper: bool) -> list[Path]:
    """Write NAME.png if the result has a figure; the paper's errors are marked if they can be compared with ours."""
    draw = FIGURES.get(result.name)
    rows = [dict(row) for row in result.tables[0].rows]
    if draw is None or not rows:
        return []
    figure = draw(rows, with_paper)
    letters = int(LETTERS_PER_INCH * figure.get_figwidth())
    lines = [line for note in notes for line in wrap(note, letters)]
    figure.suptitle("\n".join(lines), fontsize=8, x=0.01, ha="left", color=REFERENCE)
    path = folder / f"{result.name}.png"
    with replacing(path) as temporary:
        figure.savefig(temporary, metadata={"Software": None})
    plt.close(figure)
    return [path]


def _draw_accuracy(rows: Sequence[Row], with_paper: bool) -> Figure:
    """Draw the RMSE of every method and its spread over seeds, a panel for each pollutant; the paper's as marks."""
    shown = [name for name in POLLUTANTS if any(row.get(name) is not None for row in rows)] or list(POLLUTANTS[:1])
    figure, panels = _panels(1, len(shown), 4.2, 1.6 + 0.3 * len(rows))
    names = [row["method"] for row in rows][::-1]
    for axes, pollutant in zip(panels[0], shown, strict=True):
        values = [row.get(pollutant) for row in rows][::-1]
        known = sorted(value for value in values if value is not None) or [1.0]
        limit = min(3 * known[len(known) // 2], 1.05 * known[-1])  # a very large error does not flatten the others
        lengths = [value or 0.0 for value in values]
        spreads = [row.get(f"{pollutant}{SPREAD}") or 0.0 for row in rows][::-1]
        colours = [OURS_COLOUR if name.startswith("scare") else RAW for name in names]
        axes.barh(names, lengths, color=colours, height=0.65, xerr=spreads, error_kw={"elinewidth": 0.8})
        for name, value, spread in zip(names, values, spreads, strict=True):
            label = " no score" if value is None else f"{' → ' if value > limit else ' '}{value:.3g}"
            axes.text(min((value or 0.0) + spread, limit), name, label, va="center", fontsize=8)
        if with_paper:
            theirs = [row for row in rows if row.get(f"{PAPER}{pollutant}") is not None]
            marks, places = [row[f"{PAPER}{pollutant}"] for row in theirs], [row["method"] for row in theirs]
            axes.scatter(marks, places, marker="|", s=90, color=REFERENCE, label="paper")
            axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
        axes.set_xlim(0, limit)
        axes.set_title(pollutant, loc="left")
        axes.set_xlabel("RMSE [ug/m3]")
    return figure


def _draw_adaptability(rows: Sequence[Row], _: bool) -> Figure:
    """Draw RMSE over thresholds for the first pollutant: a column for each place, a row for each kind of change."""
    first = [row for row in rows if row["pollutant"] == rows[0]["pollutant"]]
    places, kinds = (list(dict.fromkeys(row[name] for row in first)) for name in ("place", "kind"))
    names = [name for name in first[0] if name not in ADAPTABILITY and not name.endswith(SPREAD)]
    figure, panels = _panels(len(kinds), len(places), 4.6, 3.2)
    for line, kind in zip(panels, kinds, strict=True):
        for axes, place in zip(line, places, strict=True):
            inside = [row for row in first if (row["place"], row["kind"]) == (place, kind)]
            for name in names:
                axes.plot(range(len(inside)), [row[name] for row in inside], **_style(name, names))
            marks = {row["threshold"]: row["coverage"] for row in inside}
            axes.set_xticks(range(len(marks)), [f"≥ {t:.0%}\n{c:.0%} of rows" for t, c in marks.items()])
            axes.set_title(f"{place}, {first[0]['pollutant']}: {kind} changes", loc="left")
            axes.set_ylim(bottom=0)
        line[0].set_ylabel("RMSE within ±30 rows [ug/m3]")
    panels[0][-1].legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _draw_board(rows: Sequence[Row], _: bool) -> Figure:
    """Draw milliseconds, flash and FlatBuffers over the window length; models that do not run have no point."""
    names = list(dict.fromkeys(row["method"] for row in rows))
    facts = {"milliseconds": "ms, estimate", "flash_bytes": "flash, whole program [B]"}
    if any(row.get("flatbuffer_bytes") for row in rows):
        facts["flatbuffer_bytes"] = "FlatBuffer, without its interpreter [B]"
    figure, panels = _panels(1, len(facts), 5.0, 4.4)
    for axes, (fact, label) in zip(panels[0], facts.items(), strict=True):
        for name in names:
            for arithmetic, dashes in ((Arithmetic.FLOAT32, "-"), (Arithmetic.FIXED, "--")):
                same = [row for row in rows if (row["method"], Arithmetic(row["arithmetic"])) == (name, arithmetic)]
                runs = [row for row in same if row[fact] is not None and not row["why_not"]]
                style = _style(name, names) | {"linestyle": dashes, "label": f"{name} {arithmetic}"}
                if runs:
                    axes.plot([row["window"] for row in runs], [row[fact] for row in runs], **style)
        ticks = sorted({row["window"] for row in rows})
        axes.set(xscale="log", yscale="log", xlabel="window N", ylabel=label)
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
    panels[0][-1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


FIGURES: dict[str, Callable[[Sequence[Row], bool], Figure]] = {
    "main": _draw_accuracy,
    "ablation": _draw_accuracy,
    "adaptability": _draw_adaptability,
    "board": _draw_board,
}


def _panels(lines: int, columns: int, width: float, height: float) -> tuple[Figure, list[list[Axes]]]:
    """Make a figure of panels, each of this size in inches; returns it with its axes, line by line."""
    size = (width * columns + 1.5, height * lines + 0.5)
    figure, panels = plt.subplots(lines, columns, figsize=size, squeeze=False, layout="constrained", dpi=110)
    for axes in panels.flat:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels.tolist()


def _style(name: str, names: Sequence[str]) -> dict[str, Any]:
    """Line style: ours in our colour, the paper's version of it darker, other methods in colours of their own."""
    colours = {"scare": OURS_COLOUR, "scare-paper": "#7a1f2e", "raw": RAW}
    others = [one for one in names if one not in colours]
    colour = colours.get(name) or INK[others.index(name) % len(INK)]
    return {"color": colour, "marker": "o", "markersize": 4, "linewidth": 1.4, "label": name}


def write_result(result: ExperimentResult, folder: Path, origin: Mapping[str, Any]) -> list[Path]:
    """Write NAME.md, NAME.json and a CSV for each table; every file has the `notes` of `origin`."""
    written = [_write(folder / f"{result.name}.md", as_markdown(result, origin["notes"]))]
    tables = {table.name: [dict(row) for row in table.rows] for table in result.tables}
    facts = {"experiment": result.name, "title": result.title, **origin, "reading": result.notes}
    facts |= {"unfinished": dict(result.unfinished), "tables": tables}
    text = json.dumps(facts, indent=1, ensure_ascii=False, default=str)
    written.append(_write(folder / f"{result.name}.json", text + "\n"))
    return written + [_write_csv(folder / f"{table.name}.csv", table, origin["notes"]) for table in result.tables]


def as_markdown(result: ExperimentResult, notes: Sequence[str]) -> str:
    """Render the result as a Markdown page; `notes` say what it was made from."""
    lines = [f"# {result.title}", "", *(f"- **{note}**" for note in notes), *(f"- {note}" for note in result.notes)]
    lines += [f"- Not finished: {name}: {', '.join(tasks)}" for name, tasks in result.unfinished.items()]
    for table in result.tables:
        bracket = " (in brackets: the paper's)" if _has_paper(table) else ""
        head, cells = format_table(table)
        lines += ["", f"## {table.title}{bracket}", ""]
        lines += [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *cells)]
    return "\n".join(lines) + "\n"


def format_table(table: ResultTable) -> tuple[list[str], list[list[str]]]:
    """Write headings and cells as text: times with their unit, the paper's values in brackets."""
    headings = [heading.removesuffix(IN_MS) for heading in table.columns.values()]
    return headings, [[_cell(row, name, heading) for name, heading in table.columns.items()] for row in table.rows]


def _has_paper(table: ResultTable) -> bool:
    """Whether a row has a value of the paper."""
    return any(name.startswith(PAPER) for row in table.rows for name in row)


def _cell(row: Mapping[str, Any], name: str, heading: str) -> str:
    """Write our value of a column, and the paper's in brackets if there is one."""
    show = _time if heading.endswith(IN_MS) else _plain
    ours, theirs = show(row.get(name)), show(row.get(f"{PAPER}{name}"))
    return f"{ours or '–'} ({theirs})" if theirs else ours


def _time(milliseconds: float | None) -> str:
    """Write a time in ms or µs.

    >>> _time(0.0001569), _time(1.31), _time(None)
    ('0.1569 µs', '1.31 ms', '')
    """
    if milliseconds is None:
        return ""
    value, unit = readable(milliseconds, "ms")
    return f"{_plain(value)} {unit}"


def _plain(value: Any) -> str:
    """Write a value as a cell: four significant digits, or a whole number with separators.

    >>> _plain(3.14159), _plain(152340), _plain(None), _plain(0.00001234), _plain(17616.0), _plain("a|b")
    ('3.142', '152,340', '', '1.234e-05', '17,616', 'a/b')
    """
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1e4 else f"{value:.4g}"
    return str(value).replace("|", "/").replace("\n", " ")


def _write_csv(path: Path, table: ResultTable, notes: Sequence[str]) -> Path:
    """Write all values; the last column has the notes on what they were made from."""
    rows = [{**row, "notes": " ".join(notes)} for row in table.rows]
    names = list(dict.fromkeys(name for row in rows for name in row if name != "notes"))
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, [*names, "notes"], restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def _write(path: Path, text: str) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
