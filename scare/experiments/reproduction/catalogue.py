"""The paper's tables and figures by name: a reproduction in, a result out."""

from collections.abc import Callable

from scare.experiments.reproduction.ablation import make_ablation
from scare.experiments.reproduction.adaptability import make_adaptability
from scare.experiments.reproduction.board_figure import make_board
from scare.experiments.reproduction.checklist import make_checklist
from scare.experiments.reproduction.main_table import make_main
from scare.experiments.reproduction.reproduction import Reproduction
from scare.experiments.reproduction.result_tables import Result
from scare.experiments.study import Progress

MAKERS: dict[str, Callable[[Reproduction, Progress], Result]] = {
    "checklist": make_checklist,
    "main": make_main,
    "ablation": make_ablation,
    "adaptability": make_adaptability,
    "board": make_board,
}
