"""Relations are errors-in-variables lines, robust against faults, with honest variances."""

import numpy as np
import pytest

from scare.data.simulated_air import HOUR, Clock, ornstein_uhlenbeck
from scare.upkeep.network.encounters import Encounter
from scare.upkeep.network.hours import DAY
from scare.upkeep.network.relations import Relation, relate
from tests.upkeep.network.cities import MARCH, network_hours

DAYS = 20
CLOCK = Clock(24 * DAYS, HOUR, MARCH)


def air(seed: int, spread: float = 6.0) -> np.ndarray:
    return 12 + ornstein_uhlenbeck(np.random.default_rng([seed, 1]), CLOCK, DAY / 2, spread)


def read(truth: np.ndarray, seed: int, gain: float, offset: float, noise: float = 1.5) -> np.ndarray:
    rng = np.random.default_rng([seed, 2])
    return gain * (truth + noise * ornstein_uhlenbeck(rng, CLOCK, 3 * HOUR, 1.0)) + offset


def related(*references: str, **readings: np.ndarray) -> Relation:
    meeting = Encounter("a", "b", MARCH, MARCH + DAYS * DAY)
    (found,) = relate(network_hours(readings, *references), [meeting])
    return found


@pytest.mark.parametrize("spread", [2.0, 6.0])
def test_the_slope_does_not_depend_on_how_much_the_air_varied(spread: float) -> None:
    """A regression's would: by noise of 1.5 it falls from 0.94 to 0.64 of the truth."""
    of_reference, of_boxes = [], []
    for seed in range(30):
        truth = air(seed, spread)
        a, b = read(truth, seed, 1.4, 2.0), read(truth, seed + 1000, 0.9, -1.0)
        of_reference.append(related("b", a=a, b=truth).slope)
        of_boxes.append(related(a=a, b=b).slope)
    assert np.mean(of_reference) == pytest.approx(1 / 1.4, rel=0.06)
    assert np.mean(of_boxes) == pytest.approx(0.9 / 1.4, rel=0.06)


def test_lines_beside_a_reference_are_regressions_turned_round_where_nothing_is_a_fault() -> None:
    truth = air(1)
    box = read(truth, 1, 1.4, 2.0, noise=1e-3)
    gain, offset = np.polyfit(truth, box, 1)
    found = related("b", a=box, b=truth)
    assert found.slope == pytest.approx(1 / gain, rel=1e-3)
    at_zero = found.other_level - found.slope * found.box_level
    assert at_zero == pytest.approx(-offset / gain, abs=0.01)


@pytest.mark.parametrize("size", [30.0, 1000.0])
def test_faults_in_one_hour_of_twenty_hardly_matter(size: float) -> None:
    truth = air(3)
    clean = read(truth, 3, 1.4, 2.0)
    faulty = clean + size * (np.random.default_rng(3).random(len(clean)) < 0.05)
    before, after = related("b", a=clean, b=truth), related("b", a=faulty, b=truth)
    assert after.slope == pytest.approx(before.slope, rel=0.03)
    assert after.pairs >= 0.9 * len(clean)


def test_variances_are_honest() -> None:
    """Errors of level and slope, in their standard deviations, over many encounters with correlated noise."""
    z = []
    for seed in range(60):
        truth = air(seed)
        a, b = read(truth, seed, 1.4, 2.0), read(truth, seed + 1000, 0.9, -1.0)
        found = related(a=a, b=b)
        slope = 0.9 / 1.4
        level = slope * (found.box_level - 2.0) - 1.0
        z.append(
            [(found.other_level - level) / found.level_variance**0.5, (found.slope - slope) / found.slope_variance**0.5]
        )
    assert np.all(np.abs(np.sqrt(np.square(z).mean(axis=0)) - 1) < 0.35)


def test_independent_pairs_are_fewer_than_hours() -> None:
    found = related("b", a=read(air(5), 5, 1.4, 2.0), b=air(5))
    hours_of_memory = 6  # noise that falls to 1/e in 3 hours: one independent pair in about 6
    assert found.pairs / hours_of_memory / 2 < found.effective_pairs < found.pairs / 2


def test_air_that_hardly_varies_gives_a_level_and_no_gain() -> None:
    truth = air(6, spread=1.0)
    found = related("b", a=read(truth, 6, 1.4, 2.0, noise=2.0), b=truth)
    assert found.slope_variance == np.inf
    assert np.isfinite(found.level_variance)


def test_a_stuck_sensor_or_a_handful_of_hours_says_nothing() -> None:
    meeting = Encounter("a", "b", MARCH, MARCH + DAYS * DAY)
    few = np.where(np.arange(CLOCK.rows) < 8, air(7), np.nan)
    for box in (np.full(CLOCK.rows, 3.0), few):
        assert relate(network_hours({"a": box, "b": air(7)}, "b"), [meeting]) == []


def test_short_encounters_alone_count_a_day_as_one_pair() -> None:
    """The same two days: with a long encounter beside them they are surer than alone."""
    rng = np.random.default_rng(5)
    truth = 12 + 6 * np.sin(np.arange(60 * 24) / 5) + rng.normal(0, 2, 60 * 24)
    hours = network_hours({"box": truth + rng.normal(0, 1, len(truth)), "ref": truth}, "ref")
    short, long = (
        Encounter("box", "ref", MARCH + first * DAY, MARCH + last * DAY) for first, last in ((0, 2), (10, 40))
    )
    (alone,) = relate(hours, [short])
    with_long, _ = relate(hours, [short, long])
    independent = alone.level_variance / 24  # as if all its pairs were independent
    assert with_long.level_variance == pytest.approx(independent, rel=0.5)
