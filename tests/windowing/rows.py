"""Rows as bad as sensors send them: gaps, jitter, early and repeated times, missing values."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from scare.data.flags import Flag
from scare.windowing.windows import GapPolicy

NAN = float("nan")
REMARKS = Flag.STUCK | Flag.SPIKE | Flag.RATE | Flag.WARM_UP | Flag.GAP  # on rows that may have a value all the same
WAITS = (1.0, 1.0, 1.0, 0.0, -0.3, 0.2, 0.49, 0.5, 0.51, 0.9, 1.1, 1.49, 1.5, 2.0, 3.0, 5.0, 12.0, 60.0, 1e7)
WAITS += (-1.0, -2.0, -7.0, -30.0, -1e7)  # clocks that were wrong


def without_remarks(flags: np.ndarray) -> np.ndarray:
    """The bits that say why a row has no value, or how it is scaled."""
    return flags & ~np.uint32(REMARKS)


@dataclass(frozen=True)
class Rows:
    times: np.ndarray  # seconds
    values: np.ndarray  # [rows, 2]
    step: float


@st.composite
def _rows(draw: st.DrawFn) -> Rows:
    step = draw(st.sampled_from([1.0, 60.0, 0.1, 7.0]))
    start = draw(st.sampled_from([0.0, 1.7e9]))
    kinds = st.sampled_from(["real"] * 6 + ["none", "half"])
    drawn = draw(st.lists(st.tuples(st.sampled_from(WAITS), kinds), min_size=1, max_size=60))
    values = np.stack([np.arange(len(drawn)), 1000.0 - np.arange(len(drawn))], axis=1)
    for row, (_, kind) in enumerate(drawn):
        values[row] = {"real": values[row], "none": (NAN, NAN), "half": (values[row, 0], NAN)}[kind]
    return Rows(start + step * np.cumsum([wait for wait, _ in drawn]), values, step)


ROWS = _rows()
WINDOW = st.integers(1, 40)
POLICY = st.builds(
    GapPolicy,
    st.just("drawn"),
    checked=st.integers(0, 12),
    hold=st.integers(0, 4),
    percent=st.sampled_from([0, 30, 50, 80, 100]),
)
