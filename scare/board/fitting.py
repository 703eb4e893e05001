"""Whether a calibrator fits a board; and of a family of them, one for each window, the largest that does."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from scare.board.boards import Board
from scare.board.measure import Report, measure
from scare.calibrator.calibrator import Calibrator
from scare.export.package import export_c


def measure_once(calibrator: Calibrator, arithmetic: str, board: Board) -> Report:
    """What a calibrator takes on a board, seen on one window."""
    with TemporaryDirectory() as scratch:
        folder = export_c(calibrator, arithmetic, Path(scratch) / "model").folder
        return measure(folder, board, calibrator.golden.windows[:1])


def largest(fits: Callable[[int], bool], least: int, most: int) -> int:
    """The largest number from least to most that fits, where all below one that fits do too; 0 if none does.

    >>> largest(lambda window: 3 * window <= 100, 4, 60), largest(lambda window: False, 4, 60)
    (33, 0)
    """
    if most < least or not fits(least):  # asked first: often nothing fits, and asking takes long
        return 0
    found, least = least, least + 1
    while least <= most:
        middle = (least + most) // 2
        if fits(middle):
            found, least = middle, middle + 1
        else:
            most = middle - 1
    return found
