"""The benchmark of networks hides what it says, and its page agrees with the scores."""

import numpy as np
import pytest

from benchmarks.network import page, table_of_sets
from benchmarks.network_real import (
    DISTANT_KIND,
    GRAPH,
    OWN,
    PERCENTILES,
    POOLED,
    TRAVELLER,
    RealSet,
    Score,
    judge,
    make_task,
    methods,
)
from benchmarks.network_scale import spread_out
from scare.data.simulated_city import Journey, deploy
from scare.data.sites import Place

HOURS, TRAINING = 24 * 40, 24 * 20
METHODS = {POOLED, PERCENTILES, GRAPH, OWN}


def made_up(together: bool) -> RealSet:
    """Three boxes with gains of their own, side by side or at three stations 1 km apart."""
    rng = np.random.default_rng(4)
    shared = 15 + 8 * np.sin(np.arange(HOURS) / 9) + rng.normal(0, 2, HOURS)
    truth = np.stack([shared + (0 if together else rng.normal(0, 1, HOURS)) for _ in range(3)])
    gains, offsets = np.array([1.0, 1.6, 0.7])[:, None], np.array([0.0, 3.0, -2.0])[:, None]
    inputs = gains * (truth + rng.normal(0, 0.8, truth.shape)) + offsets
    sites = ("yard",) * 3 if together else ("a", "b", "c")
    places = {site: Place(51.0 + 0.009 * k, 4.4) for k, site in enumerate(dict.fromkeys(sites))}
    return RealSet("made up", "ug/m3", ("x", "y", "z"), sites, places, 494_000, inputs[..., None], truth, not together)


@pytest.mark.parametrize("together", [True, False])
def test_no_method_sees_a_hidden_reference(together: bool) -> None:
    """With other hidden references, all but the own co-location say the same."""
    data = made_up(together)
    task = make_task(data, data.sites[0], TRAINING)
    assert task is not None
    before = {name: estimate(1) for name, estimate in methods(task)}
    assert set(before) > METHODS
    data.truth[1:] = 99.0
    if together:
        data.truth[0, TRAINING:] = 99.0  # nor what comes later
    for name, estimate in methods(task):
        if name != OWN:
            now, then = estimate(1), before[name]
            np.testing.assert_array_equal(now.value, then.value)
            np.testing.assert_array_equal(now.half, then.half)
            assert now.is_identified == then.is_identified


def test_the_table_is_what_the_scores_say() -> None:
    scores = [*judge(made_up(True), TRAINING), *judge(made_up(False), TRAINING)]
    rows = {row["method"]: row for row in table_of_sets([one for one in scores if np.isnan(one.km)])}
    assert rows[POOLED]["over_pooled"] == 1
    assert rows[GRAPH]["pairs"] == rows[TRAVELLER]["pairs"] == 6
    assert rows[GRAPH]["over_pooled"] < 0.6
    assert rows[GRAPH]["inside"] > 0.8
    apart = {row["method"]: row for row in table_of_sets([one for one in scores if np.isfinite(one.km)])}
    assert apart[DISTANT_KIND]["over_pooled"] < 0.6
    assert "1 to 2 km" in page(scores, [], [])


def test_a_mean_counts_hours() -> None:
    scores = [
        Score("s", "k", POOLED, "b", 0, 1.0, hours, square, 0.0, 0.9, True) for hours, square in ((10, 1.0), (30, 5.0))
    ]
    (row,) = table_of_sets(scores)
    assert row["rmse"] == pytest.approx(2.0)


def test_a_large_city_is_no_denser() -> None:
    small = deploy(Journey.CITY, 5, 20)
    large = spread_out(small, 3.0)
    one, other = list(small.places)[:2]
    ratio = large.places[one].metres_to(large.places[other]) / small.places[one].metres_to(small.places[other])
    assert ratio == pytest.approx(3, rel=1e-3)
