"""A site's rows as a regression sees them: times, columns and targets; only their sums ever leave the site."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scare.calibrator.linear import PRODUCT_LIMIT
from scare.calibrator.moments import Moments
from scare.data.flags import DEFAULT_SETTINGS, drop_unusable_references, usable_values
from scare.data.readings import Readings
from scare.kernels.formulas import products


@dataclass(frozen=True)
class Rows:
    """Rows in order of time, in which those of several boxes are mixed."""

    times: np.ndarray  # seconds [n]
    columns: np.ndarray  # [n, columns]
    targets: np.ndarray  # [n]

    def __len__(self) -> int:
        return len(self.targets)

    def where(self, mask: np.ndarray) -> "Rows":
        """Return the rows where the mask, bool [n], is true."""
        return Rows(self.times[mask], self.columns[mask], self.targets[mask])

    def scaled(
        self, center: np.ndarray, scale: np.ndarray, target_center: float, target_scale: float, size: int | None = None
    ) -> "Rows":
        """Turn rows of channels into rows of `scaled_columns`, the first `size` (None: all), with scaled targets."""
        columns = scaled_columns(self.columns, center, scale)[:, :size]
        return Rows(self.times, columns, (self.targets - target_center) / target_scale)

    @property
    def moments(self) -> Moments:
        """The count, means and covariances of the rows."""
        return Moments.from_rows(self.columns, self.targets)


def collect_rows(readings: Sequence[Readings]) -> Rows:
    """Collect the rows that are complete, usable and have a reference, of all boxes of a site."""
    parts = []
    for box in map(drop_unusable_references, readings):
        values, _ = usable_values(box.values, box.channels, DEFAULT_SETTINGS)
        complete = np.isfinite(values).all(axis=1) & np.isfinite(box.targets)
        parts.append((box.times[complete], values[complete], box.targets[complete]))
    times, columns, targets = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(times, kind="stable")
    return Rows(times[order], columns[order], targets[order])


def scaled_columns(columns: np.ndarray, center: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return scaled channels [n, channels], followed by the products of every two of them."""
    scaled = (columns - center) / scale
    return np.column_stack([scaled, products(scaled, {}, {"limit": PRODUCT_LIMIT})])


def column_sets(columns: int, channels: int) -> dict[str, np.ndarray]:
    """Return the sets of columns that a regression may have, as indices by name, from the fewest columns to all.

    `columns` is the number of all columns, of which the first `channels` are the channels themselves.
    """
    alone = np.arange(channels)
    sets = {"line": alone[:1], "linear": alone}
    if columns > channels:
        sets["products with the first channel"] = np.arange(2 * channels)  # these products come first
        sets["products"] = np.arange(columns)
    return sets
