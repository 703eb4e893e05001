"""Watch: which boxes of a fleet drift, without a reference, and what speaks for it.

Readings → `hours` → a day's sums (`measures`) → the first and the last days (`judging`) → a verdict for each box, the
worst first. Goes to the page (`report/watch_page`) and to JSON.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import Readings
from scare.errors import DataError
from scare.upkeep.evidence import Evidence, describe
from scare.upkeep.hours import HOUR, Hours, box_hours, side_by_side, yardstick
from scare.upkeep.judging import MEASURED_HOURS, RECENT_DAYS, USUAL_DAYS, Judged, Periods, State, judge
from scare.upkeep.measures import Yardstick

FEWEST_DAYS = 4  # two to compare two with
LONGEST_STEP_HOURS = 24 // MEASURED_HOURS


@dataclass(frozen=True)
class Verdict:
    """A box: what to do about it, how far it is from usual in units, what speaks for it, and its way there by day."""

    device: str
    state: State
    score: float
    evidence: tuple[Evidence, ...]
    days: int
    history: tuple[float, ...]


@dataclass(frozen=True)
class Watch:
    """The verdicts of a fleet, worst first, day `first` (since 1970) to the last, and what could not be judged."""

    verdicts: tuple[Verdict, ...]
    first: int
    days: int
    notes: tuple[str, ...]


def watch(
    calibrator: Calibrator, readings: Sequence[Readings], progress: Callable[[str], object] = lambda device: None
) -> Watch:
    """Judge boxes by their readings from when they were known to be well on."""
    step_hours = calibrator.inputs.step_seconds / HOUR
    if step_hours > LONGEST_STEP_HOURS:
        raise DataError(
            f"the model reads every {step_hours:g} hours; to watch boxes a reading is needed every"
            f" {LONGEST_STEP_HOURS} hours or more often"
        )
    boxes = []
    for one in readings:
        boxes.append((one.device, *box_hours(calibrator, one)))
        progress(one.device)
    if not any(np.isfinite(means[:, 0]).any() for _, _, means in boxes):
        raise DataError("no row of any box has a calibrated value; 'scare predict' flags every row with the reason")
    return watch_hours(calibrator, side_by_side(boxes))


def watch_hours(calibrator: Calibrator, hours: Hours) -> Watch:
    """The same of hours that are there already."""
    known = yardstick(calibrator)
    sums = np.stack([known.sum_day(hours.values[:, day]) for day in range(hours.values.shape[1])], axis=1)
    lengths = split_days(sums.shape[1])
    judged = [judge(periods(sums[:, : day + 1], known, *lengths), known) for day in range(sums.shape[1])]
    history = np.stack([one.scores for one in judged], axis=1)
    order = sorted(range(len(hours.devices)), key=lambda box: _rank(judged[-1], box, hours.devices[box]))
    measured = (known_hours(sums, known) >= MEASURED_HOURS).sum(axis=1)
    verdicts = tuple(
        Verdict(
            hours.devices[box],
            State(judged[-1].states[box]),
            float(judged[-1].scores[box]),
            describe(judged[-1], box, calibrator),
            int(measured[box]),
            tuple(history[box].round(3).tolist()),
        )
        for box in order
    )
    notes = [*_notes(calibrator, sums.shape, lengths), *_unheard(verdicts, lengths)]
    return Watch(verdicts, hours.first, sums.shape[1], tuple(notes))


def split_days(days: int) -> tuple[int, int]:
    """How many days are the usual ones and how many the recent ones, of so many.

    >>> split_days(21), split_days(10), split_days(3)
    ((14, 7), (5, 2), (0, 3))
    """
    if days < FEWEST_DAYS:
        return 0, days
    if days < USUAL_DAYS + RECENT_DAYS:
        return days // 2, max(2, days // 4)
    return USUAL_DAYS, RECENT_DAYS


def known_hours(sums: np.ndarray, known: Yardstick) -> np.ndarray:
    """How many hours with a value the days of boxes [boxes, days, sums] have: [boxes, days]."""
    return np.asarray(sums[..., sum(known.sizes[:3])])


def periods(sums: np.ndarray, known: Yardstick, usual_days: int, recent_days: int) -> Periods:
    """The first days that count and the last days after them, of boxes [boxes, days, sums]."""
    counts = np.cumsum(known_hours(sums, known) >= MEASURED_HOURS, axis=1)
    usual = (counts <= usual_days) & (known_hours(sums, known) >= MEASURED_HOURS)
    recent = np.zeros(usual.shape, bool)
    recent[:, -recent_days:] = True
    settled = counts[:, -1] >= usual_days
    overlap = (usual & recent).any(axis=1) | ~settled
    first = np.where((usual & ~overlap[:, None])[..., None], sums, 0.0).sum(axis=1)
    last = np.where(recent[..., None], sums, 0.0).sum(axis=1)
    return Periods(first, last, usual.sum(axis=1), recent.sum(axis=1))


def _rank(judged: Judged, box: int, device: str) -> tuple[int, float, str]:
    return -int(judged.states[box]), -float(judged.scores[box]), device


def _unheard(verdicts: Sequence[Verdict], lengths: tuple[int, int]) -> list[str]:
    """The boxes that were there for too few days."""
    few = [one.device for one in verdicts if one.days < sum(lengths) and lengths[0]]
    told = f"with {MEASURED_HOURS} hours or more: no change of theirs can be told"
    return [f"{', '.join(few)}: fewer than {sum(lengths)} days {told}"] if few else []


def _notes(calibrator: Calibrator, shape: tuple[int, ...], lengths: tuple[int, int]) -> list[str]:
    """What could not be judged in a fleet of so many boxes and days, and why."""
    boxes, days = shape[:2]
    found = []
    if boxes == 1:
        found.append("one box has no neighbours: only what it reads is compared with training and with its first days,")
        found[-1] += " and a season looks like a drift"
    if boxes == 2:
        found.append("two boxes accuse each other: neither is asked to be re-collocated for what only the other says")
    if 2 < boxes < 5:
        found.append(f"{boxes} boxes do not tell how much boxes differ here: three times as much has to change")
    if days < FEWEST_DAYS:
        found.append(f"{days} days are too few to tell a change; give at least {FEWEST_DAYS}")
    elif days < USUAL_DAYS + RECENT_DAYS:
        short = f"{days} days: the first {lengths[0]} are held against the last {lengths[1]}"
        found.append(f"{short}; no change asks for re-collocation before there are {USUAL_DAYS + RECENT_DAYS}")
    if calibrator.training_hours is None:
        found.append("the model's file does not tell the hours of training: PSI is by the windows that it kept")
    return found
