"""The benchmark of drift counts what it says: alarms of sound boxes, days until a drift is found, ranks of losses."""

import re
from math import ceil
from pathlib import Path

import numpy as np
import pytest

from benchmarks import drift_fleets
from benchmarks.drift import BOXES, page
from benchmarks.drift_fleets import (
    ASSESSED_FROM,
    DRIFTS,
    DRIFTS_ON,
    SETTINGS,
    SOUND,
    FleetUnits,
    make_days,
    watch_fleet,
)
from benchmarks.drift_real import WatchedTask, by_day, mean_loss, rank_correlation
from scare.upkeep.drift import THRESHOLDS, DriftState

DAYS = 60 - ASSESSED_FROM
DOCS = Path(__file__).parents[1] / "docs"


def made_up(first_alarm: int) -> FleetUnits:
    """Two boxes; the first is sent back from this day after the drift began, the other never."""
    states = np.zeros((2, DAYS), int)
    states[0, DRIFTS_ON - ASSESSED_FROM + first_alarm :] = DriftState.RECOLLOCATE
    return FleetUnits(states * 1.0, states)


def test_the_page_says_how_soon_and_how_often() -> None:
    fleets = {drift: [made_up(4), made_up(6), made_up(DAYS)] for drift in (SOUND, *DRIFTS)}
    text = page({BOXES: dict.fromkeys(SETTINGS, fleets)}, [], range(7, 10))
    assert "these are seeds 7 to 9" in text
    alarms = 2 / (3 * 2 * DAYS / 30)  # two of the six boxes, once each
    assert text.count(f"| look | {alarms:.3f} | 67%, 5 d |") == len(SETTINGS) + 1
    assert "no readings were given" in text


def test_a_fleet_is_simulated_once_and_a_dead_cell_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift_fleets, "STEP_SECONDS", 3600.0)
    monkeypatch.setattr(drift_fleets, "BOXES", 5)
    monkeypatch.setattr(drift_fleets, "DRIFTS", {"dying cell": DRIFTS["dying cell"]})
    days = make_days(SETTINGS[2], 3, tmp_path)
    seen = watch_fleet(days, "dying cell", 5)
    assert seen.units.shape == (5, DAYS)
    assert seen.units[0, -1] >= THRESHOLDS[DriftState.RECOLLOCATE] > seen.units[0, 0]
    monkeypatch.setattr(drift_fleets, "_simulate", None)
    np.testing.assert_array_equal(make_days(SETTINGS[2], 3, tmp_path).sound, days.sound)


def test_losses_are_ranked_beside_the_fleet() -> None:
    loss = np.array([[1.0, 5.0], [2.0, 6.0], [4.0, 9.0]])
    states = np.array([[0, 0], [0, 1], [1, 1]])
    one = WatchedTask("a", ("x", "y", "z"), "", loss * 2, states, np.full(3, 2.0), loss, -loss)
    np.testing.assert_array_equal(one.beyond, [[-1, -1], [0, 0], [2, 3]])
    np.testing.assert_array_equal(one.moved, np.abs(one.beyond))
    assert rank_correlation(one.units, one.loss) == by_day(one.units, one.loss) == 1.0
    assert by_day(-one.units, one.loss) == -1.0
    assert mean_loss(one, DriftState.LOOK) == (pytest.approx((0 + 2 + 3) / 3 / 2), 3)
    assert np.isnan(rank_correlation(np.ones(3), loss[:, 0]))


def test_the_manual_says_what_the_page_does() -> None:
    shown, guide = ((DOCS / name).read_text(encoding="utf-8") for name in ("benchmarks/drift.md", "watch.md"))
    rates = {
        (state, where): max(
            float(rate)
            for rate in re.findall(rf"^\| \w+, {where} \| {state.label} \| ([\d.]+) \|", shown, re.MULTILINE)
        )
        for state in THRESHOLDS
        for where in ("20 % apart", "side by side")
    }
    far, near = (
        [f"{ceil(100 * rates[state, where]) / 100:.2f}" for state in THRESHOLDS]
        for where in ("20 % apart", "side by side")
    )
    words = " ".join(guide.split())
    assert f"a look at most {far[0]} times a month and for re-collocation at most {far[1]} times" in words
    assert f"side by side at most {near[0]} and {near[1]} times" in words
    least = re.search(r"From ([\d.]+) units on: look. From ([\d.]+) on: re-collocate", words)
    assert least is not None
    assert [float(one) for one in least.groups()] == list(THRESHOLDS.values())
