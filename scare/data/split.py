"""Split readings into train, validation and test without leakage; there are no random splits of rows.

A part holds selected rows; the readings given stay as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations, pairwise, product
from math import ceil
from typing import Any

import numpy as np
import polars as pl

from scare.data.flags import TRAINING, drop_dead_devices
from scare.data.readings import REFERENCE, TIME, Readings
from scare.errors import DataError, UsageError
from scare.words import UNITS, as_option, duration, plural

LABELS = {
    "train": ["train", "training"],
    "validation": ["validate", "validation", "valid", "val"],
    "test": ["test", "testing"],
}
VALIDATION_SHARE, TEST_SHARE = 0.15, 0.25  # shares of the rows with a reference, in a split by time
FEWEST_READINGS = 4  # fewest readings in a window
SAME_REFERENCE = 0.5  # above this share of equal values at equal times two references are one instrument


@dataclass(frozen=True)
class Split:
    """Readings in three parts: the model learns from the first, is chosen by the second, and is scored on the third."""

    train: tuple[Readings, ...]
    validation: tuple[Readings, ...]
    test: tuple[Readings, ...]
    description: str  # how the parts were made
    notes: tuple[str, ...] = ()  # sentences about what a score on these parts does not show
    left_out: tuple[str, ...] = ()  # messages about devices that are in no part

    @property
    def parts(self) -> dict[str, tuple[Readings, ...]]:
        """The parts by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def facts(self) -> dict[str, Any]:
        """What a stored result records about its split: the description and the devices left out."""
        return {"split": self.description} | ({"left_out": list(self.left_out)} if self.left_out else {})


def split_by_device(readings: Sequence[Readings], validation: str | None = None, test: str | None = None) -> Split:
    """Split by whole devices; unless named, the alphabetically last is test and the one before it validation.

    Parameters
    ----------
    readings
        Readings with a reference of at least three devices.
    validation, test
        Names of the devices to validate and to test on.

    Returns
    -------
    Split
        Training, validation and test.

    Raises
    ------
    UsageError
        If a name is unknown, or validation and test are the same.
    DataError
        If there are fewer than three devices, or a part has no reference.

    Examples
    --------
    >>> from scare.data.readings import Channel
    >>> frame = pl.DataFrame({"time": [datetime(2026, 1, 1)], "reference": [7.0]})
    >>> boxes = [Readings(name, frame, (), Channel("no2", "ppb")) for name in ("box-3", "box-1", "box-2")]
    >>> split_by_device(boxes).description
    'by device: train box-1; validation box-2; test box-3'
    """
    return _split_by_name(readings, "device", validation, test)


def split_by_site(readings: Sequence[Readings], validation: str | None = None, test: str | None = None) -> Split:
    """Split by whole sites; unless named, the alphabetically last is test and the one before it validation.

    Parameters
    ----------
    readings
        Readings with a reference at three sites or more.
    validation, test
        Names of the sites to validate and to test on.

    Returns
    -------
    Split
        Training, validation and test.

    Raises
    ------
    UsageError
        If a name is unknown, or validation and test are the same.
    DataError
        If there are fewer than three sites, or a part has no reference.

    Examples
    --------
    >>> from scare.data.readings import Channel
    >>> frame = pl.DataFrame({"time": [datetime(2026, 1, 1)], "reference": [7.0]})
    >>> boxes = [Readings(f"at {site}", frame, (), Channel("no2", "ppb"), site) for site in ("roof", "kerb", "park")]
    >>> split_by_site(boxes).description
    'by site: train kerb; validation park; test roof'
    """
    return _split_by_name(readings, "site", validation, test)


def split_by_time(
    readings: Sequence[Readings],
    gap_seconds: float,
    validation_share: float = VALIDATION_SHARE,
    test_share: float = TEST_SHARE,
    borders: tuple[datetime, datetime] | None = None,
) -> Split:
    """Split by time: training, then validation, then test, at the same two borders for every device.

    Rows from a border to less than `gap_seconds` after it lose their reference: they only fill the windows after them
    and are never a target. With a gap of at least window times step, no target's window reaches across a border.

    Parameters
    ----------
    readings
        Readings with a reference.
    gap_seconds
        Time after each border that is not scored.
    validation_share, test_share
        Shares of all rows with a reference, if there are no borders.
    borders
        When validation and test begin; UTC unless they have a time zone.

    Returns
    -------
    Split
        Training, validation and test.

    Raises
    ------
    DataError
        If a part has no rows with a reference.
    UsageError
        If the shares, the borders or the gap are impossible.

    Examples
    --------
    >>> from scare.data.readings import Channel
    >>> frame = pl.DataFrame({"time": [datetime(2026, 1, 1, hour) for hour in range(20)], "reference": 7.0})
    >>> split = split_by_time([Readings("box-1", frame, (), Channel("no2", "ppb"))], gap_seconds=3600)
    >>> [(len(part[0]), int(np.isfinite(part[0].targets).sum())) for part in split.parts.values()]
    [(12, 12), (3, 2), (5, 4)]
    """
    readings, left_out = _drop_dead(readings)
    if borders:
        first, second = ((border if border.tzinfo else border.replace(tzinfo=UTC)).timestamp() for border in borders)
    else:
        if min(validation_share, test_share) <= 0 or validation_share + test_share >= 1:
            raise UsageError(
                f"the shares of validation and test are {validation_share:g} and {test_share:g};"
                " give two shares above zero that leave some rows for training"
            )
        times = reference_times(readings)
        shares_before = np.array([1 - validation_share - test_share, 1 - test_share])  # of rows, before each border
        ranks = np.rint(len(times) * shares_before).astype(int)
        first, second = map(float, times[np.minimum(ranks, len(times) - 1)])
    dates = " and ".join(f"{datetime.fromtimestamp(border, UTC):%Y-%m-%d %H:%M:%S}" for border in (first, second))
    split = Split(
        _rows_between(readings, -np.inf, first, 0.0),
        _rows_between(readings, first, second, gap_seconds),
        _rows_between(readings, second, np.inf, gap_seconds),
        f"by time: borders {dates}; rows up to {duration(gap_seconds)} after each only fill windows and are not scored",
        left_out=left_out,
    )
    return _finish(split, gap_seconds)


def split_by_label(readings: Sequence[Readings], labels: Mapping[str, pl.DataFrame]) -> Split:
    """Split by labels: `labels` gives each device's `label` (train, validate or test) at each `time`.

    Windows contain rows of one part only, so no row is in two parts; the labels decide how far apart the parts are.
    """
    readings, left_out = _drop_dead(readings)
    parts: dict[str, list[Readings]] = {part: [] for part in LABELS}
    for box in readings:
        joined = box.frame.select(TIME).join(labels[box.device], on=TIME, how="left", maintain_order="left")
        words = joined["label"].str.to_lowercase()  # null for a row without a label, which is in no part
        for part, known in LABELS.items():
            rows = box.rows(words.is_in(known).fill_null(False).to_numpy())
            if len(rows):
                parts[part].append(rows)
        unknown = words.filter(~words.is_in([word for known in LABELS.values() for word in known]))
        if len(unknown):
            raise DataError(f"{box.device}: the split column has '{unknown[0]}'; use train, validate or test")
    train, validation, test = (tuple(boxes) for boxes in parts.values())
    return _finish(Split(train, validation, test, "by the labels of a column", left_out=left_out), gap_seconds=0.0)


def cut_by_time(
    readings: Sequence[Readings], share: float, gap_seconds: float
) -> tuple[tuple[Readings, ...], tuple[Readings, ...]]:
    """Cut off the last `share` of the rows with a reference; returns the rows before and after the border.

    As in `split_by_time`, rows less than `gap_seconds` after the border lose their reference.
    """
    known = reference_times(readings)
    border = float(known[min(round(len(known) * (1 - share)), len(known) - 1)])
    before = _rows_between(readings, -np.inf, border, 0.0)
    after = _rows_between(readings, border, np.inf, gap_seconds)
    if not before or not any(np.isfinite(box.targets).any() for box in after):
        raise DataError(
            f"too few rows to hold any out for validation: the last {share:.0%} must be longer than"
            f" {duration(gap_seconds)}; {suggest_window(readings, gap_seconds)}"
        )
    return before, after


def check_leakage(split: Split, gap_seconds: float) -> None:
    """Raise a DataError if a part holds a device twice, or two parts share a row or targets closer than the gap."""
    for part, readings in split.parts.items():
        devices = sorted(box.device for box in readings)
        for device, following in pairwise(devices):
            if device == following:
                raise DataError(f"{part} holds {device} twice; join its tables into one")
    for part, other_part in combinations(split.parts, 2):
        for first, second in product(split.parts[part], split.parts[other_part]):
            if first.device != second.device:
                continue
            first_times, second_times = (box.times[np.isfinite(box.targets)] for box in (first, second))
            distance = _shortest_distance(first_times, second_times)
            shares_rows = len(np.intersect1d(first.times, second.times)) > 0
            if distance < gap_seconds or shares_rows:
                too_close = f"references are only {duration(distance)} apart, for a gap of {duration(gap_seconds)}"
                reason = "the same row is in both" if shares_rows else too_close
                raise DataError(f"{first.device} leaks from {part} to {other_part}: {reason}; {split.description}")


def _split_by_name(readings: Sequence[Readings], kind: str, validation: str | None, test: str | None) -> Split:
    """Split by whole devices or sites; `kind` is the attribute of `Readings` to split by, "device" or "site"."""
    readings, left_out = _drop_dead(readings)
    names = [str(getattr(box, kind)) for box in readings]
    unused = sorted(set(names))
    if len(unused) < 3 or "" in unused:
        listed = ", ".join(name or f"no {kind}" for name in unused)
        raise DataError(f"a split by {kind} needs at least three named {kind}s; found {listed}")
    for name in (validation, test):
        if name is not None:
            if name not in unused:
                raise UsageError(f"no {kind} '{name}' is left to choose from; there are {', '.join(unused)}")
            unused.remove(name)
    test = unused.pop() if test is None else test
    validation = unused.pop() if validation is None else validation
    parts = [
        tuple(box for box, name in zip(readings, names, strict=True) if name in chosen)
        for chosen in (unused, [validation], [test])
    ]
    how = f"by {kind}: train {', '.join(unused)}; validation {validation}; test {test}"
    return _finish(Split(parts[0], parts[1], parts[2], how, left_out=left_out), gap_seconds=0.0)


def reference_times(readings: Sequence[Readings]) -> np.ndarray:
    """Return the sorted times (seconds) of all rows with a reference, of all devices that have a complete row."""
    known = [box.times[np.isfinite(box.targets)] for box in _drop_dead(readings)[0]]
    times = np.sort(np.concatenate([np.empty(0), *known]))
    if not len(times):
        names = sorted({box.reference.name for box in readings if box.reference})
        raise DataError(
            f"no row has a reference: {f'{names[0]} has no value' if names else 'align the readings with one'}"
        )
    return times


def shortest_part(readings: Sequence[Readings]) -> float:
    """Return the duration of the shorter of validation and test in a split by time, in seconds."""
    times = reference_times(readings)
    first, second = np.quantile(times, [1 - VALIDATION_SHARE - TEST_SHARE, 1 - TEST_SHARE])
    return float(min(second - first, times[-1] - second))


def suggest_window(readings: Sequence[Readings], gap_seconds: float) -> str:
    """Suggest a window that leaves half of validation to be scored, and how much more data the present one needs.

    `gap_seconds` is the duration of the present window, which is too long.
    """
    times = reference_times(readings)
    window_seconds = shortest_part(readings) / 2
    step = float(np.median([box.step_seconds for box in readings if len(box) > 1] or [np.inf]))
    needed_seconds = 2 * gap_seconds / VALIDATION_SHARE  # so that validation is twice as long as the window
    missing_seconds = needed_seconds - float(times[-1] - times[0])
    fitting_units = ((unit, size) for unit, size in UNITS.items() if missing_seconds >= size)
    unit, size = next(fitting_units, ("minute", 60.0))
    more = plural(max(1, ceil(missing_seconds / size)), f"more {unit}")
    if window_seconds < FEWEST_READINGS * step:
        return f"it takes {more}"
    return f"use --window {as_option(window_seconds)}, or {more}"


def _rows_between(readings: Sequence[Readings], start: float, end: float, gap_seconds: float) -> tuple[Readings, ...]:
    """Return each device's rows from `start` to before `end`, without a reference until the gap is over."""
    if gap_seconds < 0:
        raise UsageError(f"the gap after a border is {duration(gap_seconds)}; give zero or more")
    parts = []
    for box in readings:
        rows = box.rows((box.times >= start) & (box.times < end))
        if len(rows) and rows.reference:
            targets = np.where(rows.times < start + gap_seconds, np.nan, rows.targets)
            rows = replace(rows, frame=rows.frame.with_columns(pl.Series(REFERENCE, targets)))
        if len(rows):
            parts.append(rows)
    return tuple(parts)


def _drop_dead(readings: Sequence[Readings]) -> tuple[tuple[Readings, ...], tuple[str, ...]]:
    alive, left_out = drop_dead_devices({"": readings})
    return alive[""], left_out


def _finish(split: Split, gap_seconds: float) -> Split:
    """Drop devices without a complete row in a part, add notes, and check that parts have a reference and no leak."""
    parts = {TRAINING: split.train, "validation": split.validation, "test": split.test}
    alive, left_out = drop_dead_devices(parts)
    train, validation, test = alive.values()
    split = Split(train, validation, test, split.description, left_out=split.left_out + left_out)
    for part, readings in split.parts.items():
        if not any(np.isfinite(box.targets).any() for box in readings):
            raise DataError(f"{part} has no rows with a reference; {split.description}")
    check_leakage(split, gap_seconds)
    notes = [
        f"{part} shares its reference and period with training: scores show how a new device does, not a new period"
        for part in ("validation", "test")
        if any(_share_reference(tested, other) for tested, other in product(split.parts[part], split.train))
    ]
    return replace(split, notes=tuple(notes))


def _shortest_distance(times: np.ndarray, others: np.ndarray) -> float:
    """Return the shortest time between an element of `times` and one of `others` [s]; inf if either is empty."""
    positions = np.searchsorted(others, times)  # the number of `others` before each element
    neighbours = np.concatenate([[-np.inf], others, [np.inf]])
    to_previous = times - neighbours[positions]
    to_next = neighbours[positions + 1] - times
    return float(np.minimum(to_previous, to_next).min(initial=np.inf))


def _share_reference(tested: Readings, other: Readings) -> bool:
    """Whether most reference values are equal where both devices have one at about the same time."""
    if tested.reference is None or other.reference is None:
        return False
    half_step = tested.step_seconds / 2 if len(tested) > 1 else 0.0
    known = other.frame.select(TIME, pl.col(REFERENCE).alias("other")).drop_nulls()
    pairs = (
        tested.frame.select(TIME, REFERENCE)
        .drop_nulls()
        .join_asof(known, on=TIME, strategy="nearest", tolerance=f"{round(half_step * 1e6)}us")
        .drop_nulls()
    )
    equal = int((pairs[REFERENCE] == pairs["other"]).sum())
    return equal > SAME_REFERENCE * pairs.height
