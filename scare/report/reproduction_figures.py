"""The figures of a reproduction. Each says in its title what it was made from."""

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scare.experiments.reproduction.adaptability import COLUMNS
from scare.experiments.reproduction.result_tables import PAPER, SPREAD, Result
from scare.files import replacing
from scare.report.figure import OURS, RAW, REFERENCE

Row = dict[str, Any]
INK = ["#30638e", "#edae49", "#66a182", "#8d6a9f", "#00798c", "#a26769", "#6b705c", "#9a8c98", "#c1666b"]
LETTERS_PER_INCH = 15  # of the title
POLLUTANTS = ("PM10", "PM25", "PM1")


def draw_result(result: Result, folder: Path, notes: Sequence[str], with_paper: bool) -> list[Path]:
    """Write NAME.png of a result that has a figure; the paper's errors are marked if they may be compared with ours."""
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
    """RMSE of every contender and its spread over seeds, a panel for each pollutant; the paper's as marks."""
    shown = [name for name in POLLUTANTS if any(row.get(name) is not None for row in rows)] or list(POLLUTANTS[:1])
    figure, panels = _panels(1, len(shown), 4.2, 1.6 + 0.3 * len(rows))
    names = [row["contender"] for row in rows][::-1]
    for axes, pollutant in zip(panels[0], shown, strict=True):
        values = [row.get(pollutant) for row in rows][::-1]
        known = sorted(value for value in values if value is not None) or [1.0]
        limit = min(3 * known[len(known) // 2], 1.05 * known[-1])
        lengths = [value or 0.0 for value in values]
        spreads = [row.get(f"{pollutant}{SPREAD}") or 0.0 for row in rows][::-1]
        colours = [OURS if name.startswith("scare") else RAW for name in names]
        axes.barh(names, lengths, color=colours, height=0.65, xerr=spreads, error_kw={"elinewidth": 0.8})
        for name, value, spread in zip(names, values, spreads, strict=True):
            said = " no score" if value is None else f"{' → ' if value > limit else ' '}{value:.3g}"
            axes.text(min((value or 0.0) + spread, limit), name, said, va="center", fontsize=8)
        if with_paper:
            theirs = [row for row in rows if row.get(f"{PAPER}{pollutant}") is not None]
            marks, places = [row[f"{PAPER}{pollutant}"] for row in theirs], [row["contender"] for row in theirs]
            axes.scatter(marks, places, marker="|", s=90, color=REFERENCE, label="paper")
            axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
        axes.set_xlim(0, limit)
        axes.set_title(pollutant, loc="left")
        axes.set_xlabel("RMSE [ug/m3]")
    return figure


def _draw_adaptability(rows: Sequence[Row], _: bool) -> Figure:
    """RMSE over thresholds: a column for each place, a row for each kind of change, of the first pollutant."""
    first = [row for row in rows if row["pollutant"] == rows[0]["pollutant"]]
    places, kinds = (list(dict.fromkeys(row[name] for row in first)) for name in ("place", "kind"))
    names = [name for name in first[0] if name not in COLUMNS and not name.endswith(SPREAD)]
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
    """Milliseconds, flash and FlatBuffers over the window length; what does not run has no point."""
    names = list(dict.fromkeys(row["contender"] for row in rows))
    facts = {"milliseconds": "ms, estimate", "flash_bytes": "flash, whole program [B]"}
    if any(row.get("flatbuffer_bytes") for row in rows):
        facts["flatbuffer_bytes"] = "FlatBuffer, without its interpreter [B]"
    figure, panels = _panels(1, len(facts), 5.0, 4.4)
    for axes, (fact, label) in zip(panels[0], facts.items(), strict=True):
        for name in names:
            for arithmetic, dashes in (("float32", "-"), ("int8", "--")):
                own = [row for row in rows if (row["contender"], row["arithmetic"]) == (name, arithmetic)]
                runs = [row for row in own if row[fact] is not None and not row["why_not"]]
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
    size = (width * columns + 1.5, height * lines + 0.5)
    figure, panels = plt.subplots(lines, columns, figsize=size, squeeze=False, layout="constrained", dpi=110)
    for axes in panels.flat:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels.tolist()


def _style(name: str, names: Sequence[str]) -> dict[str, Any]:
    """Ours in its colour, the paper's version of it in a darker one, others in theirs."""
    colours = {"scare": OURS, "scare-paper": "#7a1f2e", "raw": RAW}
    others = [one for one in names if one not in colours]
    colour = colours.get(name) or INK[others.index(name) % len(INK)]
    return {"color": colour, "marker": "o", "markersize": 4, "linewidth": 1.4, "label": name}
