"""Sites whose sums do not go with the others' are named, and honest ones that differ as boxes do are not."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from scare.calibrator.moments import Moments
from scare.federated.plausibility import find_implausible

Lie = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
NAMES = ("north", "south", "west", "east")
LIES: dict[str, tuple[Lie, str]] = {
    "a reference in another unit": (lambda x, y: (x, 2 * y), "the regression of 'east' alone is"),
    "an offset": (lambda x, y: (x, y + 3), "the regression of 'east' alone is"),
    "swapped columns": (lambda x, y: (x[:, ::-1], y), "the regression of 'east' alone is"),
    "references of other rows": (lambda x, y: (x, np.roll(y, 50)), "the rows of 'east' scatter"),
    "no noise": (lambda x, y: (x, x @ [1.0, -0.4]), "the rows of 'east' scatter"),
}


def sums(number: int, lie: Lie = lambda x, y: (x, y)) -> Moments:
    """Moments of 300 rows of a site whose gains differ by a twentieth."""
    rng = np.random.default_rng(number)
    x = rng.normal(0, 1, (300, 2))
    return Moments.from_rows(*lie(x, x @ rng.normal([1.0, -0.4], 0.05) + rng.normal(0, 0.2, 300)))


def solve(moments: Moments) -> tuple[np.ndarray, float]:
    return moments.solve(1e-4)


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_honest_sites_are_not_named(seed: int) -> None:
    assert find_implausible({name: sums(seed + k) for k, name in enumerate(NAMES)}, solve) == []


@pytest.mark.parametrize("name", LIES)
def test_a_lying_site_is_named_and_no_other(name: str) -> None:
    lie, beginning = LIES[name]
    found = find_implausible({**{name: sums(k) for k, name in enumerate(NAMES)}, "east": sums(3, lie)}, solve)
    assert any(sentence.startswith(beginning) for sentence in found)
    assert all("'east'" in sentence for sentence in found)


def test_a_site_with_nearly_all_rows_is_named() -> None:
    moments = {name: sums(k) for k, name in enumerate(NAMES)}
    moments["west"] = replace(moments["west"], count=1e6)
    (sentence,) = find_implausible(moments, solve)
    assert sentence == "100% of all rows are those of 'west': the calibrator is nearly that of this site"
