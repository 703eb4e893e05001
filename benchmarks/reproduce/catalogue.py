"""The experiments of `scare reproduce` by name."""

from collections.abc import Callable

from benchmarks.reproduce.board_figure import make_board
from benchmarks.reproduce.run import Reproduction
from benchmarks.reproduce.tables import ExperimentResult, make_ablation, make_adaptability, make_checklist, make_main
from scare.experiments.study import Progress

MAKERS: dict[str, Callable[[Reproduction, Progress], ExperimentResult]] = {
    "checklist": make_checklist,
    "main": make_main,
    "ablation": make_ablation,
    "adaptability": make_adaptability,
    "board": make_board,
}
