"""The largest window with which a model fits a board that its own window does not: built untrained, and measured."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from scare.board.boards import Board
from scare.board.measure import measure_once
from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.passes import average, fold
from scare.experiments.random_weights import SAMPLES, draw_plan
from scare.export.compiled import compile_calibrator
from scare.models import Architecture
from scare.scorecard.growth import model_of
from scare.training.recipe import Recipe

SHORTEST = 4  # readings, of any recipe


def largest_window(
    calibrator: Calibrator, arithmetic: str, board: Board, advance: Callable[[], object] = lambda: None
) -> int | None:
    """Readings in the largest window that fits, shorter than it is; 0 for none, None for no model of ours."""
    model = model_of(calibrator)
    if model is None:
        return None

    def fits(window: int) -> bool:
        advance()
        return measure_once(compile_calibrator(_draw(model, calibrator, window), arithmetic), board).fits

    return largest(fits, SHORTEST, calibrator.window - 1)


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


def _draw(model: Architecture, calibrator: Calibrator, window: int) -> Calibrator:
    """The calibrator with another window and random weights: memory depends on neither's values."""
    recipe, channels = Recipe(model=model, window=window), calibrator.plan.channels
    members = int(calibrator.facts.get("settings", {}).get("members", 1))
    plans = [draw_plan(recipe, channels, member, np.random.default_rng(member)) for member in range(members)]
    windows = np.random.default_rng(0).normal(size=(SAMPLES, window, channels)).astype(np.float32)
    sample = Sample(windows, np.zeros(SAMPLES))
    inputs = replace(calibrator.inputs, window=window)
    return Calibrator(fold(average(plans)).astype(np.float32), inputs, calibrator.target, sample, sample)
