"""Long series made short enough for a page: rows chosen so that every spike stays, numbers packed as text."""

import base64
from typing import Any

import numpy as np

BREAK_STEPS = 2  # a longer wait between two rows is drawn as a gap


def decimate(columns: np.ndarray, limit: int) -> np.ndarray:
    """Row numbers, in order, of at most about `limit` of the rows of `columns` [rows, k].

    Rows are put in equal buckets; each keeps its first row and, for every column, the rows of its least and greatest
    value.

    >>> decimate(np.array([[0.0], [0.1], [9.0], [0.0], [0.2], [-5.0], [0.0], [0.1]]), limit=6)
    array([0, 2, 4, 5])
    """
    rows, width = columns.shape
    if rows <= limit:
        return np.arange(rows)
    buckets = max(1, limit // (2 * width + 1))
    starts = np.unique(np.linspace(0, rows, buckets, endpoint=False).astype(int))
    kept = [starts]
    for column in columns.T:
        for order in (1, -1):
            kept.append(_least(np.where(np.isfinite(column), order * column, np.inf), starts))
    return np.unique(np.concatenate(kept))


def _least(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The first row of the least value in each bucket; the buckets begin at `starts`."""
    least = np.repeat(np.minimum.reduceat(values, starts), np.diff(starts, append=len(values)))
    rows = np.flatnonzero(values == least)
    return rows[np.searchsorted(rows, starts)]


def with_breaks(times: np.ndarray, columns: np.ndarray, kept: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Times and columns [rows, k] of the kept rows, with a row of NaN wherever time is missing between two of them."""
    gaps = np.cumsum(np.diff(times, prepend=times[:1]) > BREAK_STEPS * step)[kept]
    after = np.flatnonzero(np.diff(gaps)) + 1
    shown = np.insert(columns[kept], after, np.nan, axis=0)
    return np.insert(times[kept], after, times[kept][after - 1] + step), shown


def pack(values: np.ndarray, bits: int = 16) -> dict[str, Any]:
    r"""Numbers as unsigned integers between their least and greatest, little-endian, in base64; the last is NaN.

    >>> packed = pack(np.array([0.0, 10.0, np.nan]))
    >>> packed["low"], packed["high"], base64.b64decode(packed["data"])
    (0.0, 10.0, b'\x00\x00\xfe\xff\xff\xff')
    """
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    top = 2**bits - 2
    scaled = (values - low) / ((high - low) or 1.0) * top
    numbers = np.where(np.isfinite(scaled), np.rint(scaled), top + 1).astype(f"<u{bits // 8}")
    return {"bits": bits, "low": low, "high": high, "data": base64.b64encode(numbers.tobytes()).decode()}
