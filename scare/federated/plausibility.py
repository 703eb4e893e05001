"""Whether the moments that a site sent fit those of the others: the rows behind them are never seen.

Each site's own regression and its scatter are compared with those of the other sites. A lie that keeps both, such as
the sums of another kind of box, is not found.
"""

from collections.abc import Callable, Mapping

import numpy as np

from scare.calibrator.moments import Moments, Solution

FARTHEST = 4.0  # of a site's own regression from those of the others, in units of what is usual between sites
MOST_SCATTER = 3.0  # about a site's own regression, by how much more or less than usual
MOST_ROWS = 0.9  # share of all rows


def find_implausible(moments: Mapping[str, Moments], solve: Callable[[Moments], Solution]) -> list[str]:
    """Return sentences about sites whose moments do not fit those of the others; it takes three sites or more."""
    own = {site: solve(part) for site, part in moments.items()}
    # How far a site's own regression is from those of the others, at the median.
    farness = {
        site: float(np.median([difference(own[site], own[name], moments[name]) for name in own if name != site]))
        for site in own
    }
    scatter = {site: part.mean_squared_error(own[site]) ** 0.5 for site, part in moments.items()}
    rows = sum(part.count for part in moments.values())
    found = []
    for site, part in moments.items():
        # Both are relative to the median of the other sites.
        times_as_far, times_as_scattered = (
            values[site] / max(float(np.median([value for name, value in values.items() if name != site])), 1e-9)
            for values in (farness, scatter)
        )
        if times_as_far > FARTHEST:
            found.append(
                f"the regression of '{site}' alone is {times_as_far:.1f} times as far from those of the others as is"
                " usual between these sites: its boxes, columns or reference may differ"
            )
        if not 1 / MOST_SCATTER < times_as_scattered < MOST_SCATTER:
            found.append(
                f"the rows of '{site}' scatter {times_as_scattered:.2g} times as much about their own regression as is"
                " usual: they may not belong together, or were made up"
            )
        if part.count > MOST_ROWS * rows:
            found.append(
                f"{part.count / rows:.0%} of all rows are those of '{site}': the calibrator is nearly that of this site"
            )
    return found


def difference(one: Solution, other: Solution, air: Moments) -> float:
    """Return the RMS difference of two linear models over the rows that have these moments.

    >>> rows = np.array([[1.0], [3.0]])
    >>> difference((np.array([2.0]), 0.0), (np.array([1.0]), 1.0), Moments.from_rows(rows, rows[:, 0]))
    1.4142...
    """
    weights, bias = one[0] - other[0], one[1] - other[1]
    return float(np.sqrt(weights @ air.covariance @ weights + (bias + weights @ air.mean) ** 2))
