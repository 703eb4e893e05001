"""Test vectors: windows, and a stream of bad readings, on which all runtimes of a model are compared.

Calibrator -> all_vectors (golden, validation, edge cases, random) -> certificate.py, measure.py
Descriptor -> stream_rows (missing, out of range, early, late, beyond training) -> certificate.py
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.data.flags import LARGEST
from scare.export.descriptor import Descriptor, InputChannel
from scare.export.quantise import window_quanta
from scare.kernels import FULL

# Scaled levels of edge cases by kind (a standard deviation is 1); those of kind "" are called by their shape instead.
LEVELS = {"": (1.0, 10.0, 1e4), "tiny": (1e-6, 1e-40), "beyond": (1e30,)}
SEED = 20_240_229
GOLDEN, VALIDATION, NOISE, WALK, READING = "golden", "validation", "noise", "walk", "reading"
USUAL = (GOLDEN, VALIDATION, NOISE, WALK, READING)  # kinds of windows with realistic values
UNDEFINED = ("beyond", "nan", "infinite")  # kinds whose result may be NaN
WAITS = (1.0, 1.02, 0.3, -2.0, 2.0, 2.4)  # steps between bad readings
SHARES = (0.86, 0.06, 0.02, 0.01, 0.03, 0.02)  # their probabilities
SPOILT = 4  # every fourth reading of the bad part has an unusable number, until all such numbers were used
CLEAN, BAD = 20, 200  # readings in each clean part, besides those that the gap policy checks, and in the bad part
UNLIKE_FLEET = 2.0  # scaled: how far a new device's mean is from the fleet's center
BEYOND = (-1e-4, 1e-4, 5.0, 20.0, 50.0)  # distances beyond the training range, in widths of it


@dataclass(frozen=True)
class Vectors:
    """Scaled windows [n, window, channels], and the kind of each, such as "golden" or "spike" [n]."""

    windows: np.ndarray
    kinds: np.ndarray

    def __getitem__(self, part: slice) -> "Vectors":
        return Vectors(self.windows[part], self.kinds[part])

    def __len__(self) -> int:
        return len(self.kinds)


@dataclass(frozen=True)
class StreamRow:
    """A reading [channels] with its time, which does not wrap; `restart` forgets all readings before it."""

    now_ms: int
    numbers: np.ndarray
    restart: bool = False


def board_windows(calibrator: Calibrator, count: int) -> np.ndarray:
    """Make `count` scaled windows [n, window, channels]: edge cases, golden, validation, then random ones."""
    first = _joined(edge_case_vectors(calibrator), known_vectors(calibrator))[:count]
    return _joined(first, random_vectors(calibrator, count - len(first))).windows


def all_vectors(calibrator: Calibrator, count: int) -> Vectors:
    """Make all golden, validation and edge-case windows, and fill up the edge cases with random ones to `count`."""
    edge_cases = edge_case_vectors(calibrator)
    random = random_vectors(calibrator, max(0, count - len(edge_cases)))
    return _joined(known_vectors(calibrator), edge_cases, random)


def known_vectors(calibrator: Calibrator) -> Vectors:
    """Read the golden and validation windows of the calibrator."""
    samples = ((GOLDEN, calibrator.golden.windows), (VALIDATION, calibrator.validation.windows))
    return _joined(*(Vectors(windows.astype(np.float32), np.full(len(windows), kind)) for kind, windows in samples))


def random_vectors(calibrator: Calibrator, count: int) -> Vectors:
    """Make windows of noise and random walks, calm to wild, with mean and standard deviation of the file's windows.

    A channel that is constant in the file gets mean 0 and standard deviation 1, in scaled units.
    """
    window, channels = calibrator.window, len(calibrator.inputs.channels)
    random = np.random.default_rng(SEED)
    known = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])
    rows = known.reshape(-1, channels)
    sd, mean = (rows.std(axis=0), rows.mean(axis=0)) if len(rows) else (np.zeros(channels), np.zeros(channels))
    level, size = np.where(sd > 0, mean, 0.0), np.where(sd > 0, sd, 1.0)  # [channels]
    noise = random.normal(size=(count, window, channels))
    noise *= random.choice([0.1, 1.0, 5.0], (count, 1, 1))  # each window is calm, usual or wild
    walks = np.cumsum(noise, axis=1) / np.sqrt(window)  # divided, so that a walk ends about as far out as noise
    kinds = np.where(random.random(count) < 0.5, WALK, NOISE)
    shapes = np.where((kinds == WALK)[:, None, None], walks, noise)
    return Vectors((level + size * shapes).astype(np.float32), kinds)


def edge_case_vectors(calibrator: Calibrator) -> Vectors:
    """Make zeros, constants, ends of the valid range, steps, combs, spikes, ramps, NaN and infinity."""
    rows = np.arange(calibrator.window, dtype=np.float32)[:, None]
    ones = np.ones((calibrator.window, len(calibrator.inputs.channels)), np.float32)
    shapes = {  # courses in time [window, 1], the same for all channels
        "constant": np.ones_like(rows),
        "step": (rows >= calibrator.window // 2).astype(np.float32),
        "spike": (rows == calibrator.window - 1).astype(np.float32),
        "comb": 1 - 2 * (rows % 2),
        "ramp": 2 * rows / max(calibrator.window - 1, 1) - 1,
    }
    levels = [("zero", 0.0)]
    for kind, sizes in LEVELS.items():
        for size in sizes:
            levels += [(kind, size), (kind, -size)]
    levels += [("nan", np.nan), ("infinite", np.inf), ("infinite", -np.inf)]
    kinds, windows = [], []
    for kind, level in levels:
        for name, shape in shapes.items():
            kinds.append(kind or name)  # a usual level has no name: the shape's is the kind
            # Zeros of the shape stay zero, also if the level is NaN or infinite.
            course = np.multiply(np.float32(level), shape, where=shape != 0, out=np.zeros_like(shape))
            windows.append(course * ones)
    for row in _valid_ends(calibrator):
        kinds.append("ends")
        windows.append(row * ones)
    return Vectors(np.stack(windows), np.array(kinds))


def stream_rows(descriptor: Descriptor, window: int) -> list[StreamRow]:
    """Make a stream: clean readings, bad ones (missing, out of range, early, late), a gap, a clock set back, a restart.

    The 32-bit clock wraps around among the bad ones; the last readings are at and beyond the limits of the training
    range, up to the ends of the valid range. If the center of a new device still moves (settles) with its first
    readings, it does so among the clean ones. If it needs more than these, others come before, each after a gap: they
    count for settling, but no model runs.
    """
    random = np.random.default_rng(SEED)
    clean = descriptor.checked + CLEAN
    # The waits before each part's readings, in steps. A difference of 32-bit clocks is signed: at most 2³¹ - 1 ms.
    longest = ((1 << 31) - 1) // descriptor.step_ms
    gap, back = min(descriptor.checked + descriptor.hold + 3, longest), -min(window + 2, longest)
    bad = random.choice(WAITS, BAD, p=SHARES)
    ends = [(column, end) for column, channel in enumerate(descriptor.channels) for end in _range_ends(channel)]
    after_restart = clean + len(ends)
    settling = max(0, descriptor.settle - clean + CLEAN // 2)  # so that it settles before the clean ones end
    before = np.full(settling, min(descriptor.hold + 2, longest))
    # A restart comes before the last `after_restart` readings, without a wait of its own.
    waits = np.concatenate([before, np.ones(clean), bad, [gap], np.ones(clean), [back], np.ones(clean + after_restart)])
    times = np.cumsum(np.floor(waits * descriptor.step_ms).astype(np.int64))  # milliseconds
    first_bad = settling + clean
    times += (1 << 32) - times[first_bad + BAD // 2]  # in the middle of the bad readings the clock wraps around
    means = np.zeros(len(descriptor.channels))  # scaled
    means[[channel.channel for channel in descriptor.moving]] = UNLIKE_FLEET
    columns = []
    for channel, mean in zip(descriptor.channels, means.tolist(), strict=True):
        readings = channel.center + (random.normal(size=len(times)) + mean) / channel.inverse
        columns.append(readings.clip(*channel.valid).astype(np.float32))
    rows = np.stack(columns, axis=1)  # [readings, channels]
    unusable = [
        (column, number)
        for column, channel in enumerate(descriptor.channels)
        for number in _bad_readings(descriptor, channel)
    ]
    for turn, index in enumerate(random.permutation(len(unusable))[: BAD // SPOILT]):
        column, number = unusable[index]
        rows[first_bad + SPOILT * turn, column] = number
    for row, (column, end) in zip(rows[len(rows) - len(ends) :], ends, strict=True):  # in the last rows
        if abs(end) < LARGEST / 2:  # else the channel has no limit there
            row[column] = end
    restart = len(times) - after_restart
    return [StreamRow(int(times[index]), rows[index], index == restart) for index in range(len(times))]


def _joined(*parts: Vectors) -> Vectors:
    """Concatenate vectors."""
    return Vectors(np.concatenate([part.windows for part in parts]), np.concatenate([part.kinds for part in parts]))


def _valid_ends(calibrator: Calibrator) -> Iterator[np.ndarray]:
    """Yield the lowest, then the highest valid readings [channels], scaled for the fleet.

    A channel without limits has the lowest and highest number that an int16 window can store.
    """
    inputs, reach = calibrator.inputs, FULL / window_quanta(calibrator)
    for side, sign in (("low", -1), ("high", 1)):
        limits = np.array([getattr(channel, side) for channel in inputs.channels])
        scaled = inputs.scaling.fleet.apply(limits[None])[0]
        yield np.where(np.isfinite(scaled), scaled, sign * reach).astype(np.float32)


def _range_ends(channel: InputChannel) -> np.ndarray:
    """Return readings [k] at, just beyond and far beyond the training range, and at the ends of the valid range.

    They are in physical units, ascending.
    """
    center = channel.center + channel.rest  # in double precision: `rest` is what float32 has cut off it
    limits = center + np.array(channel.trained) / channel.inverse  # low and high [2]
    width = limits[1] - limits[0]
    readings = limits + np.multiply.outer(BEYOND, [-width, width])  # [distances, 2]
    return np.unique(np.append(readings, [-np.inf, np.inf]).clip(*channel.valid).astype(np.float32))


def _bad_readings(descriptor: Descriptor, channel: InputChannel) -> np.ndarray:
    """Return readings [k] that give no value: NaN, infinity, sentinels, and numbers just outside the valid range."""
    low, high = map(np.float32, channel.valid)
    outside = np.nextafter(low, np.float32(-np.inf)), np.nextafter(high, np.float32(np.inf))
    return np.array([np.nan, np.inf, -np.inf, *descriptor.absent, *outside], np.float32)
