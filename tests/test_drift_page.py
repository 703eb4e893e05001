"""The benchmark of drift counts what it says: false alarms of sound boxes, days until a fault is found."""

import re
from math import ceil
from pathlib import Path

import numpy as np
import pytest

from benchmarks import drift_fleets
from benchmarks.drift import BOXES, page
from benchmarks.drift_fleets import (
    ASSESSED_FROM,
    DRIFTS_ON,
    FAULTS,
    SETTINGS,
    SOUND,
    STUCK,
    FleetUnits,
    alarms,
    make_days,
    watch_fleet,
)
from benchmarks.drift_real import WatchedTask, count_alarms, rank_correlation
from scare.upkeep.drift import Assessment, DriftState, Hours

DAYS = 60 - ASSESSED_FROM
DOCS = Path(__file__).parents[1] / "docs"


def made_up(first_alarm: int) -> FleetUnits:
    """Two boxes; the first is sent back from this day after the drift began, the other never."""
    states = np.zeros((2, DAYS), int)
    states[0, DRIFTS_ON - ASSESSED_FROM + first_alarm :] = DriftState.RECOLLOCATE
    return FleetUnits(states * 1.0, states)


def test_the_page_says_how_soon_and_how_often() -> None:
    fleets = {fault: [made_up(4), made_up(6), made_up(DAYS)] for fault in (SOUND, *FAULTS)}
    text = page({BOXES: dict.fromkeys(SETTINGS, fleets)}, [], range(7, 10))
    assert "These are seeds\n7 to 9" in text
    rate = 2 / (3 * 2 * DAYS / 30)  # two of the six boxes, once each
    assert text.count(f"| {rate:.3f} | 67%, 5 d |") == 2 * len(SETTINGS) + 1  # settings, after, and all together
    assert "no readings were given" in text


def test_a_fleet_is_simulated_once_and_a_dead_cell_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift_fleets, "STEP_SECONDS", 3600.0)
    monkeypatch.setattr(drift_fleets, "BOXES", 5)
    monkeypatch.setattr(drift_fleets, "DRIFTS", {"dying cell": drift_fleets.DRIFTS["dying cell"]})
    monkeypatch.setattr(drift_fleets, "FAULTS", ("dying cell", STUCK))
    days = make_days(SETTINGS[2], 3, tmp_path)
    seen = watch_fleet(days, "dying cell", 5)
    assert seen.units.shape == (5, DAYS)
    assert seen.units[0, -1] >= 1 > seen.units[0, 0]
    assert seen.states[0, -1] == watch_fleet(days, STUCK, 5).states[0, -1] == DriftState.RECOLLOCATE
    np.testing.assert_array_equal(alarms(seen.units, 1.0), seen.states > 0)
    monkeypatch.setattr(drift_fleets, "_simulate", None)
    np.testing.assert_array_equal(make_days(SETTINGS[2], 3, tmp_path).sound, days.sound)


def watched(states: list[list[int]], loss: list[list[float]], silent: list[list[float]]) -> WatchedTask:
    """A task of one measure of drift and of silence, [boxes, days] each."""
    units = np.stack([np.array(states) > 0, np.array(silent)], axis=-1).astype(float)
    assessed = [
        Assessment(("neighbours", "silent"), day, day, np.zeros(len(day), int), np.full(len(day), 2.0))
        for day in np.moveaxis(units, 1, 0)
    ]
    devices = tuple(map(str, range(len(states))))
    hours = Hours(devices, 0, np.zeros((len(states), len(states[0]), 24, 2)))
    return WatchedTask("a", "a", hours, (1, 1), 0.0, range(len(states[0])), assessed, np.array(states), np.array(loss))


def test_an_alarm_is_false_unless_the_box_lost_more_than_its_first_days_and_its_fleet() -> None:
    one = watched(
        states=[[0, 0, 0, 2, 2], [0, 0, 0, 2, 1], [0, 0, 0, 1, 1]],
        loss=[[0.1, 0.1, 0.1, 0.3, 0.3], [0.1, 0.1, 0.1, -0.2, 0.4], [0.1, 0.1, 0.1, 0.2, np.nan]],
        silent=[[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 1, 1, 1, 1]],
    )
    assert count_alarms(one) == {"alarms": 2, "false": 1, "re-collocate": 2, "false re-collocate": 1, "silent": 1}
    np.testing.assert_allclose(one.beyond[0, 2:4], [0.0, 0.1])
    assert one.months == 14 / 30
    np.testing.assert_array_equal(one.drift_units, np.array(one.states) > 0)
    assert one.order[0, 3] > one.order[2, 3] > one.order[2, 0]  # re-collocate, look, none
    assert np.isnan(rank_correlation(np.ones(3), one.loss[:, 0]))


def test_the_guide_says_what_the_page_does() -> None:
    shown, guide = ((DOCS / name).read_text(encoding="utf-8") for name in ("benchmarks/drift.md", "watch.md"))
    simulated, rest = shown.split("### Before and after")
    rates = {
        where: max(map(float, re.findall(rf"^\| \w+, {where} \| ([\d.]+) \|", simulated, re.MULTILINE)))
        for where in ("20 % apart", "side by side")
    }
    far, near = (f"{ceil(round(100 * rate, 6)) / 100:.2f}" for rate in rates.values())
    real = re.search(r"All together: .*?, ([\d.]+) a box and month", rest)
    assert real is not None
    words = " ".join(guide.split())
    assert f"an alarm at most {far} times a month in towns" in words
    assert f"at most {near} times side by side" in words
    assert f"{real[1]} times a month on real later days" in words
