"""The oracle ranks what the evidence of other sets ranks, and is fitted without the set that it is judged on."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.drift_neighbours import kilometres, pair_lines, weighted_mean
from benchmarks.drift_oracle import EVIDENCE, Evidence, fit_oracle, judge, own_evidence, page
from benchmarks.network_real import RealSet
from scare.data.sites import Place

LEVEL = EVIDENCE.index("level")
DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("benchmarks/drift_oracle.md", "watch.md")


def made_up(name: str, sign: float, boxes: int = 3) -> Evidence:
    """A set of 90 box-days whose loss follows the level of its air, or its opposite."""
    rng = np.random.default_rng(len(name))
    inputs = rng.standard_normal((90, len(EVIDENCE)))
    loss = sign * inputs[:, LEVEL] + 0.3 * rng.standard_normal(90)
    return Evidence(name, name, boxes, inputs, loss + 0.1, np.abs(inputs[:, 0]), loss, rng.standard_normal(90))


def test_the_oracle_learns_from_other_sets_only() -> None:
    sets = [made_up("a", 1), made_up("bb", 1), made_up("ccc", 1), made_up("dddd", -1)]
    ranks = {row["task"]: row["oracle"] for row in judge(sets)}
    assert min(ranks[name] for name in ("a", "bb", "ccc")) > 0.6
    assert ranks["dddd"] < -0.6  # it would be positive, had it seen the set


def test_its_weights_are_those_of_least_squares() -> None:
    """Without penalty, and with evidence in its range, the dense solution."""
    one = made_up("a", 1)
    mean, scale, weights = fit_oracle([one] * 10_000, "loss")
    design = np.clip((one.inputs - mean) / scale, -3, 3)
    ranks = np.argsort(np.argsort(one.loss)) / len(one.loss)
    expected, *_ = np.linalg.lstsq(design - design.mean(axis=0), ranks - ranks.mean(), rcond=None)
    np.testing.assert_allclose(weights, expected, atol=1e-3)


def test_two_boxes_are_no_fleet_and_the_page_counts_what_can_be_ranked() -> None:
    rows = judge([made_up("a", 1), made_up("bb", 1), made_up("ccc", 1, boxes=2)])
    assert np.isnan(rows[2]["oracle, beyond the fleet"])
    text = page(rows)
    assert "On 3 of 3 tasks" in text
    assert "ranks it at +1.00 in the median" in " ".join(text.split())


def test_the_guide_says_what_the_page_does() -> None:
    page_words, guide = (" ".join((DOCS / name).read_text(encoding="utf-8").split()) for name in PAGES)
    useful, count = re.findall(r"On (\d+) of (\d+) tasks the oracle", page_words)[0]
    middle, least = re.findall(r"ranks it at ([+\d.]+) in the median \(between ([+\d.]+)", page_words)[0]
    ordered, below = re.findall(r"of the (\d+) tasks that it orders at all, below zero on (\d+)", page_words)[0]
    assert f"On {useful} of {count} real tasks an oracle can rank lost accuracy" in guide
    assert f"the order of the list ranks it at {middle} in the median, at {least} on the worst" in guide
    assert f"On the other {int(count) - int(useful)} no oracle can rank what is lost" in guide
    assert f"of the {ordered} tasks that the list orders at all, it is in the wrong order on {below}" in guide


def places(*kilometres: float) -> RealSet:
    """Boxes on a meridian, so many kilometres from the equator."""
    names = tuple(map(str, range(len(kilometres))))
    at = {name: Place(north / 111.195, 0.0) for name, north in zip(names, kilometres, strict=True)}
    none = np.zeros((len(names), 0))
    return RealSet("a", "", names, names, at, 0, none, none, has_places=True)


def test_neighbours_are_near_or_tied_by_their_first_days() -> None:
    np.testing.assert_allclose(kilometres(places(0.0, 3.0, 9.0), "021"), [[0, 9, 3], [9, 0, 6], [3, 6, 0]], rtol=1e-3)
    air = np.random.default_rng(3).standard_normal(96)
    first = np.stack([air, 2 * air + 1, np.random.default_rng(4).standard_normal(96)])
    lines, weights = pair_lines(first)
    np.testing.assert_allclose(lines[1, 0], [1, 2], atol=1e-9)
    assert weights[1, 0] > 50 * weights[1, 2]
    first[0, :90] = np.nan
    assert pair_lines(first)[1][1, 0] == 0  # too few hours
    np.testing.assert_allclose(weighted_mean(np.array([[1.0, np.nan], [3.0, 3.0]]), np.array([3.0, 1.0])), [1.5, 3.0])


def test_evidence_through_neighbours_is_judged_by_what_it_adds_to_the_oracle() -> None:
    sets = [made_up("a", 1), made_up("bb", 1), made_up("ccc", 1)]
    helped = [replace(one, through=np.stack([one.loss, one.loss], axis=1)) for one in sets]
    for row in judge(helped):
        assert row["oracle with them"] > row["oracle"]
        assert row["nearby"] == pytest.approx(1)
    assert "oracle with them" not in judge(sets)[0]


def test_what_other_channels_do_not_explain() -> None:
    rng = np.random.default_rng(2)
    other = rng.standard_normal(400)
    noise = rng.standard_normal(400)
    hours = np.stack([other, 2 * other + 0.5 * noise, other], axis=1)
    louder = np.stack([other, 2 * other + 1.0 * noise, other], axis=1)
    level, spread, cross = own_evidence(hours, louder)
    assert (level, spread) == pytest.approx((0, 0), abs=1e-9)
    assert cross == pytest.approx(np.log(2), abs=0.1)
