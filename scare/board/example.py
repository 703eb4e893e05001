"""What a board answers, for people to see: to the last reading of a known window, then to one far beyond training.

Comes from `virtual`; goes to `cli`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scare.board.exports import ANSWER_TYPE
from scare.board.virtual import VirtualModel
from scare.data.flags import Flag

BEYOND = 5.0  # times the largest first number of the window


@dataclass(frozen=True)
class Example:
    """A reading [channels], and what the board answers: NaN where there is no number."""

    reading: tuple[float, ...]
    value: float
    low: float
    high: float
    flags: tuple[str, ...]


def example_answers(model: VirtualModel, window: np.ndarray) -> list[Example]:
    """The answers to the newest row of a scaled window [window, channels], and to a larger one a step later."""
    rows = np.stack([_readings(model, column, numbers) for column, numbers in enumerate(window.T)], axis=1)
    larger = rows[-1].copy()
    larger[0] = min(BEYOND * rows[:, 0].max(), model.channels[0].valid.high)
    return list(_answers(model, np.vstack([rows, larger])))[-2:]


def _readings(model: VirtualModel, column: int, scaled: np.ndarray) -> np.ndarray:
    channel = model.channels[column]
    readings = channel.center + channel.rest + scaled.astype(np.float64) / channel.inverse
    return readings.clip(channel.valid.low, channel.valid.high).astype(np.float32)


def _answers(model: VirtualModel, rows: np.ndarray) -> Iterator[Example]:
    model.restart()
    for index, row in enumerate(rows):
        _, answer = model.take(index * model.facts.step_ms, row)
        value, low, high, flags = np.frombuffer(answer, ANSWER_TYPE)[0].tolist()
        names = tuple(str(flag.name) for flag in Flag if flag & flags)
        yield Example(tuple(row.tolist()), value, low, high, names)
