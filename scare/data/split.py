"""Splits of readings into train, validation and test that do not leak; random row splits do not exist.

Comes from `flags`; goes to `windowing`. A part holds selected rows; the readings given stay as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import polars as pl

from scare.data.flags import TRAINING, drop_dead_devices
from scare.data.readings import REFERENCE, TIME, Readings
from scare.errors import DataError, UsageError

LABELS = {
    "train": ["train", "training"],
    "validation": ["validate", "validation", "valid", "val"],
    "test": ["test", "testing"],
}
SAME_REFERENCE = 0.5  # more than this share of equal values at equal times is one instrument


@dataclass(frozen=True)
class Split:
    """The three parts, how they were made, what the results will therefore not show, and which devices are left out."""

    train: tuple[Readings, ...]
    validation: tuple[Readings, ...]
    test: tuple[Readings, ...]
    description: str
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def parts(self) -> dict[str, tuple[Readings, ...]]:
        """The parts by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def facts(self) -> dict[str, Any]:
        """What a result says of its split."""
        return {"split": self.description} | ({"left_out": list(self.left_out)} if self.left_out else {})


def split_by_device(readings: Sequence[Readings], validation: str | None = None, test: str | None = None) -> Split:
    """Whole devices: unless named, the alphabetically last one left is test, then the last left validation.

    >>> from scare.data.readings import Channel
    >>> frame = pl.DataFrame({"time": [datetime(2026, 1, 1)], "reference": [7.0]})
    >>> boxes = [Readings(name, frame, (), Channel("no2", "ppb")) for name in ("box-3", "box-1", "box-2")]
    >>> split_by_device(boxes).description
    'by device: train box-1; validation box-2; test box-3'
    """
    return _split_by_name(readings, "device", validation, test)


def split_by_site(readings: Sequence[Readings], validation: str | None = None, test: str | None = None) -> Split:
    """Whole sites: unless named, the alphabetically last one left is test, then the last left validation."""
    return _split_by_name(readings, "site", validation, test)


def split_by_time(
    readings: Sequence[Readings],
    gap_seconds: float,
    validation_share: float = 0.15,
    test_share: float = 0.25,
    borders: tuple[datetime, datetime] | None = None,
) -> Split:
    """Training first, then validation, then test, at the same two borders for every device.

    Without `borders` (UTC) the shares are of all rows with a reference. Rows from a border to less than
    `gap_seconds` after it lose their reference: they are history for the windows after them, never a target.
    With a gap of at least window times step, no target's window reaches across a border.

    >>> from scare.data.readings import Channel
    >>> frame = pl.DataFrame({"time": [datetime(2026, 1, 1, hour) for hour in range(20)], "reference": 7.0})
    >>> split = split_by_time([Readings("box-1", frame, (), Channel("no2", "ppb"))], gap_seconds=3600)
    >>> [(len(part[0]), int(np.isfinite(part[0].targets).sum())) for part in split.parts.values()]
    [(12, 12), (3, 2), (5, 4)]
    """
    readings, left_out = _usable(readings)
    if borders:
        first, second = (_as_utc(border).timestamp() for border in borders)
    else:
        first, second = _borders_by_share(readings, validation_share, test_share)
    split = Split(
        _rows_between(readings, -np.inf, first, 0.0),
        _rows_between(readings, first, second, gap_seconds),
        _rows_between(readings, second, np.inf, gap_seconds),
        f"by time: borders {_date(first)} and {_date(second)}, the {gap_seconds:g} s after each only history",
        left_out=left_out,
    )
    return _checked(split, gap_seconds)


def split_by_label(readings: Sequence[Readings], labels: Mapping[str, pl.DataFrame]) -> Split:
    """As a column says: `labels` gives each device's `label` (train, validate or test) at each `time`.

    Windows are made of one part's rows only, so no row is in two parts; how far apart they are is the file's affair.
    """
    readings, left_out = _usable(readings)
    parts: dict[str, list[Readings]] = {part: [] for part in LABELS}
    for one in readings:
        named = one.frame.select(TIME).join(labels[one.device], on=TIME, how="left", maintain_order="left")["label"]
        words = named.str.to_lowercase()
        for part, known in LABELS.items():
            rows = one.rows(words.is_in(known).fill_null(False).to_numpy())
            parts[part] += [rows] if len(rows) else []
        strange = words.filter(~words.is_in([word for known in LABELS.values() for word in known]))
        for word in strange.head(1):
            raise DataError(f"{one.device}: the split column says '{word}'; it may say train, validate or test")
    train, validation, test = (tuple(found) for found in parts.values())
    return _checked(Split(train, validation, test, "as a column says", left_out=left_out), gap_seconds=0.0)


def cut_by_time(
    readings: Sequence[Readings], share: float, gap_seconds: float
) -> tuple[tuple[Readings, ...], tuple[Readings, ...]]:
    """Everything before one border, and the last `share` of the rows with a reference after it."""
    known = reference_times(readings)
    border = float(known[min(round(len(known) * (1 - share)), len(known) - 1)])
    before = _rows_between(readings, -np.inf, border, 0.0)
    after = _rows_between(readings, border, np.inf, gap_seconds)
    if not before or not any(np.isfinite(one.targets).any() for one in after):
        raise DataError(
            f"too few rows to hold any out for validation: the last {share:.0%} must be longer than"
            f" {gap_seconds:g} s; give more data, a shorter --window, or validation readings"
        )
    return before, after


def check_leakage(split: Split, gap_seconds: float) -> None:
    """Refuses a device twice in one part, or in two parts with a row in both or targets closer than the gap."""
    for part, readings in split.parts.items():
        devices = sorted(one.device for one in readings)
        for device, following in pairwise(devices):
            if device == following:
                raise DataError(f"{part} holds {device} twice; join its tables into one")
    for part, other_part in combinations(split.parts, 2):
        for one, other in product(split.parts[part], split.parts[other_part]):
            if one.device != other.device:
                continue
            apart = _closest(*(r.times[np.isfinite(r.targets)] for r in (one, other)))
            if apart < gap_seconds or len(np.intersect1d(one.times, other.times)):
                raise DataError(
                    f"{one.device} leaks from {part} to {other_part}: rows in both, or references {apart:g} s apart"
                    f" for a gap of {gap_seconds:g} s; {split.description}"
                )


def _split_by_name(readings: Sequence[Readings], kind: str, validation: str | None, test: str | None) -> Split:
    readings, left_out = _usable(readings)
    names = [str(getattr(one, kind)) for one in readings]
    left = sorted(set(names))
    if len(left) < 3 or "" in left:
        listed = ", ".join(name or f"no {kind}" for name in left)
        raise DataError(f"a split by {kind} needs at least three named {kind}s; there is {listed}")
    for name in (validation, test):
        if name is not None:
            if name not in left:
                raise UsageError(f"no {kind} '{name}' is left to choose; there is {', '.join(left)}")
            left.remove(name)
    test = left.pop() if test is None else test
    validation = left.pop() if validation is None else validation
    parts = [
        tuple(one for one, name in zip(readings, names, strict=True) if name in chosen)
        for chosen in (left, [validation], [test])
    ]
    how = f"by {kind}: train {', '.join(left)}; validation {validation}; test {test}"
    return _checked(Split(parts[0], parts[1], parts[2], how, left_out=left_out), gap_seconds=0.0)


def _borders_by_share(readings: Sequence[Readings], validation_share: float, test_share: float) -> tuple[float, float]:
    """The times in seconds at which the last shares of all rows with a reference begin."""
    if min(validation_share, test_share) <= 0 or validation_share + test_share >= 1:
        raise UsageError(
            f"the shares of validation and test are {validation_share:g} and {test_share:g};"
            " give two above zero that leave some for training"
        )
    times = reference_times(readings)
    before = np.rint(len(times) * np.array([1 - validation_share - test_share, 1 - test_share])).astype(int)
    first, second = times[np.minimum(before, len(times) - 1)]
    return float(first), float(second)


def reference_times(readings: Sequence[Readings]) -> np.ndarray:
    """The times of all rows with a reference, of all devices that are not dead, in order."""
    known = [one.times[np.isfinite(one.targets)] for one in _usable(readings)[0]]
    times = np.sort(np.concatenate([np.empty(0), *known]))
    if not len(times):
        names = sorted({one.reference.name for one in readings if one.reference})
        raise DataError(
            f"no row has a reference; {f'{names[0]} has no value' if names else 'align the readings with one'}"
        )
    return times


def _rows_between(readings: Sequence[Readings], start: float, end: float, gap_seconds: float) -> tuple[Readings, ...]:
    """The rows of each device from `start` to before `end`, without reference until the gap is over."""
    if gap_seconds < 0:
        raise UsageError(f"the gap after a border is {gap_seconds:g} s; give zero or more")
    selected = [one.rows((one.times >= start) & (one.times < end)) for one in readings]
    return tuple(_without_reference(one, start + gap_seconds) for one in selected if len(one))


def _without_reference(readings: Readings, until: float) -> Readings:
    if readings.reference is None or not len(readings):
        return readings
    hidden = np.where(readings.times < until, np.nan, readings.targets)
    return replace(readings, frame=readings.frame.with_columns(pl.Series(REFERENCE, hidden)))


def _usable(readings: Sequence[Readings]) -> tuple[tuple[Readings, ...], tuple[str, ...]]:
    """The devices that are not dead all the time, and a sentence about each that is."""
    kept, left_out = drop_dead_devices({"": readings})
    return kept[""], left_out


def _checked(split: Split, gap_seconds: float) -> Split:
    """The split without what is dead in a part and with its notes, if all parts have a reference and nothing leaks."""
    parts = {TRAINING: split.train, "validation": split.validation, "test": split.test}
    kept, left_out = drop_dead_devices(parts)
    train, validation, test = kept.values()
    split = Split(train, validation, test, split.description, left_out=split.left_out + left_out)
    for part, readings in split.parts.items():
        if not any(np.isfinite(one.targets).any() for one in readings):
            raise DataError(f"{part} has no rows with a reference; {split.description}")
    check_leakage(split, gap_seconds)
    notes = [
        f"{part} shares its reference and period with training: this measures a new unit, not a new time"
        for part in ("validation", "test")
        if any(_share_reference(one, other) for one, other in product(split.parts[part], split.train))
    ]
    return replace(split, notes=tuple(notes))


def _closest(times: np.ndarray, others: np.ndarray) -> float:
    """The shortest time between a row of the one and a row of the other, in seconds."""
    before = np.searchsorted(others, times)
    ends = np.concatenate([[-np.inf], others, [np.inf]])
    return float(np.minimum(times - ends[before], ends[before + 1] - times).min(initial=np.inf))


def _share_reference(one: Readings, other: Readings) -> bool:
    """Whether both have mostly equal reference values at the times they share."""
    if one.reference is None or other.reference is None:
        return False
    half_step = one.step_seconds / 2 if len(one) > 1 else 0.0
    known = other.frame.select(TIME, pl.col(REFERENCE).alias("other")).drop_nulls()
    pairs = (
        one.frame.select(TIME, REFERENCE)
        .drop_nulls()
        .join_asof(known, on=TIME, strategy="nearest", tolerance=f"{round(half_step * 1e6)}us")
        .drop_nulls()
    )
    equal = int((pairs[REFERENCE] == pairs["other"]).sum())
    return equal > SAME_REFERENCE * pairs.height


def _as_utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _date(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
