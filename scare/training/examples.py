"""Examples are windows with a target, kept as indices into one long scaled series.

No window is ever stored twice: a window is the slot of its newest row. A network with a fixed basis reads its
few features a window instead, computed once when they fit in `STORED_BYTES`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.data.readings import Readings
from scare.models import Network
from scare.models.ridge import Known
from scare.windowing.feeding import Feed, Inputs

STORED_BYTES = 1 << 30
ROWS = 8192  # windows turned into features at once


@dataclass(frozen=True)
class Examples:
    """`series` [slots, channels] scaled, `ends` [n] newest slots, `targets` [n] scaled.

    Beside each its time in seconds [n], and what the first channel read, as it came [n].
    """

    window: int
    series: np.ndarray
    ends: np.ndarray
    targets: np.ndarray
    times: np.ndarray
    readings: np.ndarray

    def __len__(self) -> int:
        return len(self.ends)

    def windows(self, which: np.ndarray) -> np.ndarray:
        """Scaled windows [len(which), window, channels]."""
        return self.series[self.ends[which][:, None] + np.arange(1 - self.window, 1)]

    def spread(self, count: int) -> np.ndarray:
        """At most `count` example numbers, evenly spread."""
        return np.unique(np.linspace(0, len(self) - 1, min(count, len(self))).astype(int))

    def fingerprint(self) -> str:
        """A hash of the numbers, to tell which data a calibrator was made from."""
        digest = hashlib.sha256()
        for array in (self.series, self.ends, self.targets):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def make_examples(readings: Sequence[Readings], inputs: Inputs) -> Examples:
    """The usable windows of these readings whose newest row has a reference."""
    series, parts, start = [np.empty((0, len(inputs.channels)), np.float32)], [np.empty((4, 0))], 0
    for one in readings:
        values = inputs.select(one)
        for segment in Feed(inputs, one.device).segments(one.times, values):
            wanted = np.isfinite(one.targets[segment.rows])
            rows = segment.rows[wanted]
            series.append(segment.grid.values)
            parts.append(np.stack([segment.ends[wanted] + start, one.targets[rows], one.times[rows], values[rows, 0]]))
            start += len(segment.grid.values)
    ends, targets, times, first = np.concatenate(parts, axis=1)
    scaled = inputs.scaling.target.apply(targets[:, None])[:, 0].astype(np.float32)
    return Examples(inputs.window, np.concatenate(series), ends.astype(np.int64), scaled, times, first)


class Gather(eqx.Module):
    """Features of examples by number, inside a compiled loop: stored, or cut out of the series."""

    stored: Array | None  # [n, rows, channels]
    series: Array | None
    ends: Array | None
    basis: Array | None
    window: int = eqx.field(static=True)

    def __call__(self, which: Array) -> Array:
        """Features [len(which), rows, channels]."""
        if self.stored is not None:
            return self.stored[which]
        assert self.series is not None
        assert self.ends is not None
        windows = self.series[self.ends[which][:, None] + jnp.arange(1 - self.window, 1)]
        return windows if self.basis is None else jnp.einsum("tk,btc->bkc", self.basis, windows)


def make_gather(examples: Examples, network: Network) -> Gather:
    """The cheaper way to the features of these examples."""
    basis = network.basis
    if basis is not None and len(examples) <= _storable(examples, basis):
        stored = jnp.asarray(features(examples, np.arange(len(examples)), basis))
        return Gather(stored, None, None, None, examples.window)
    matrix = None if basis is None else jnp.asarray(basis, jnp.float32)
    return Gather(None, jnp.asarray(examples.series), jnp.asarray(examples.ends), matrix, examples.window)


def known(examples: Examples, basis: np.ndarray | None, most: int | None = None) -> Known:
    """The examples as a closed form reads them: `most`, or as many as can be stored, evenly spread."""
    which = examples.spread(most or _storable(examples, basis))
    return Known(features(examples, which, basis), examples.targets[which], examples.times[which])


def features(examples: Examples, which: np.ndarray, basis: np.ndarray | None) -> np.ndarray:
    """What a network reads of these examples [n, rows, channels]: their windows, or the basis' view of them."""
    if basis is None:
        return examples.windows(which)
    matrix = basis.T.astype(np.float32)
    out = np.empty((len(which), len(matrix), examples.series.shape[1]), np.float32)
    for start in range(0, len(which), ROWS):
        np.matmul(matrix, examples.windows(which[start : start + ROWS]), out=out[start : start + ROWS])
    return out


def _storable(examples: Examples, basis: np.ndarray | None) -> int:
    """How many examples' features fit in `STORED_BYTES`."""
    rows = examples.window if basis is None else basis.shape[1]
    return STORED_BYTES // (4 * rows * examples.series.shape[1])
