"""The picture of accuracy.py: a line per task, a dot per method, RMSE ÷ the lowest of all methods."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from cycler import cycler
from matplotlib.axes import Axes

from benchmarks.accuracy_results import SINGLE, TaskResult, methods
from scare.files import replacing
from scare.report.figures import OURS_COLOUR

LIMIT = 3.0  # times the lowest error: larger ones are drawn there
TICKS = (1.0, 1.2, 1.5, 2.0, LIMIT)
COLOURS = ("#3b6ea5", "#6aa84f", "#8e6bbf", "#b8860b", "#4a4a4a", "#17a2a2", "#9c755f", "#7f7f7f")
STYLE = {"svg.hashsalt": "scare", "font.size": 9, "axes.prop_cycle": cycler(color=COLOURS)}


def draw_picture(results: Sequence[TaskResult], ours: str, path: Path) -> Path:
    """Write an SVG; tasks are sorted by how ours does, the best on top."""
    ranked = sorted(results, key=lambda result: relative(result, ours).get(ours, LIMIT), reverse=True)
    names = [name for name in methods(results, ours) if name == ours or name != SINGLE]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8, 1.2 + 0.26 * len(ranked)), layout="constrained")
        for name in reversed(names):
            _draw_dots(axes, ranked, name, ours)
        _draw_frame(axes, [result.task.name for result in ranked])
        with replacing(path) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None})
    plt.close(figure)
    return path


def relative(result: TaskResult, ours: str) -> dict[str, float]:
    """The RMSE of each method ÷ the least, at most `LIMIT`; of ours one is enough."""
    found = {name: error for name, error in result.errors.items() if name == ours or name != SINGLE}
    return {name: min(error / min(found.values()), LIMIT) for name, error in found.items()}


def _draw_dots(axes: Axes, ranked: Sequence[TaskResult], name: str, ours: str) -> None:
    spots = [(relative(result, ours)[name], row) for row, result in enumerate(ranked) if name in result.errors]
    style = {"color": OURS_COLOUR, "s": 60, "zorder": 3} if name == ours else {"s": 22, "alpha": 0.75, "zorder": 2}
    axes.scatter(*zip(*spots, strict=True), label=name, **style)


def _draw_frame(axes: Axes, names: Sequence[str]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS[:-1]] + [f"≥ {LIMIT:g}"])
    axes.minorticks_off()
    axes.set_xlabel("RMSE ÷ the lowest RMSE on the task")
    axes.set_yticks(range(len(names)), names)
    axes.grid(axis="y", color="#e4e4e4", zorder=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=5, frameon=False, reverse=True)
