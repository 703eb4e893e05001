"""The paper's tables and figures by name: a reproduction in, a result out."""

from collections.abc import Callable

from scare.experiments.ablation import make_ablation
from scare.experiments.adaptability import make_adaptability
from scare.experiments.board_figure import make_board
from scare.experiments.checklist import make_checklist
from scare.experiments.main_table import make_main
from scare.experiments.reproduction import Reproduction
from scare.experiments.result import Result
from scare.experiments.study import Told

MAKERS: dict[str, Callable[[Reproduction, Told], Result]] = {
    "checklist": make_checklist,
    "main": make_main,
    "ablation": make_ablation,
    "adaptability": make_adaptability,
    "board": make_board,
}
