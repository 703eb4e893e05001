"""Whether a calibrator fits the board it is exported for; if not, why, and what would."""

from collections.abc import Callable

from scare.board.boards import Board
from scare.board.measure import Report, measure_once
from scare.cli.console import progress
from scare.errors import DoesNotFitError
from scare.export.compiled import Compiled
from scare.extras import is_installed, remedy


def check_fit(compiled: Compiled, board: Board) -> None:
    """Refuse a calibrator that the board cannot hold, with the numbers and the largest window that it could."""
    with progress("measuring", "what") as (bar, task):
        bar.update(task, what=board.title)
        report = measure_once(compiled, board)
        if report.fits:
            return
        remedy = _remedy(compiled, report, lambda: bar.advance(task))
    raise DoesNotFitError(f"it does not fit: {'; '.join(report.reasons)}{remedy}")


def _remedy(compiled: Compiled, report: Report, advance: Callable[[], object]) -> str:
    calibrator = compiled.calibrator
    if report.needs_wide_int:
        return "; take --arithmetic float32"
    if calibrator.window <= 1:
        return ""
    if not is_installed("jax"):
        return f"; to be told the largest window that would, {remedy('train')}"
    from scare.experiments.largest_window import largest_window

    window = largest_window(calibrator, compiled.arithmetic, report.board, advance)
    if window is None:
        return ""
    largest = f"the largest window that would has {window} readings" if window else "no shorter window would"
    return f"; {largest}, this one has {calibrator.window}"
