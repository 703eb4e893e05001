"""The benchmark of sessions knows the first half and the sessions alone, scores other days, and shows what is lost."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import continual
from benchmarks.continual import DAY, EVERY, FULL, LINE, NEVER, UPDATED, CoLocatedFleet, run_fleet
from benchmarks.continual_page import page
from scare.data.simulate import Simulation, SimulationKind, simulate
from scare.data.simulated_air import Drift, DriftKind
from scare.training import recipe
from scare.training.recipe import TrainingSettings
from tests.training.small_fits import Line


@pytest.fixture(scope="module")
def fleet() -> CoLocatedFleet:
    """A box whose offset drifts from the middle on."""
    drift = (Drift(DriftKind.OFFSET, day=40.0, ramp_days=5.0, size=12.0),)
    boxes = simulate(Simulation(boxes=1, days=80, step_seconds=3600, kind=SimulationKind.LINEAR, seed=3, drifts=drift))
    return CoLocatedFleet("made up", tuple(boxes), 8)


def test_only_the_first_half_and_the_sessions_are_known(fleet: CoLocatedFleet) -> None:
    assert np.diff(fleet.sessions).tolist() == [EVERY] * (len(fleet.sessions) - 1)
    (known,) = fleet.known(fleet.sessions[:2])
    times = known.times[np.isfinite(known.targets)]
    late = times[times >= fleet.start]
    assert len(late) == 48
    assert all(any(start <= time < start + DAY for start in fleet.sessions[:2]) for time in late)
    (session,) = fleet.session(fleet.sessions[1])
    assert session.times[np.isfinite(session.targets)].min() >= fleet.sessions[1]
    assert len(session) == 24 + fleet.window


@pytest.mark.slow
def test_everyone_is_scored_and_a_drift_is_made_up_for(
    fleet: CoLocatedFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = replace(
        recipe.PRESETS["default"], model=Line(), settings=TrainingSettings(steps=400, checkpoints=2, rate=0.05)
    )
    monkeypatch.setitem(recipe.PRESETS, "default", quick)
    monkeypatch.setattr(continual, "STEPS", 400)
    found = run_fleet(fleet, tmp_path)
    assert list(found["rmse"]) == [NEVER, UPDATED, FULL, LINE]
    assert found["rmse"][UPDATED] < 0.9 * found["rmse"][NEVER]
    assert len(found["periods"]) == found["visits"] == len(fleet.sessions)
    monkeypatch.setattr(continual, "fit", None)  # what is fitted is not fitted again
    assert run_fleet(fleet, tmp_path) == found


def test_the_page_counts_what_is_lost() -> None:
    periods = [dict.fromkeys((NEVER, UPDATED, FULL, LINE), 1.0), {NEVER: 1.0, UPDATED: 1.5, FULL: 0.5, LINE: 2.0}]
    result = {"boxes": 2, "visits": 2, "changed": 1, "rows": 1000, "rmse": periods[1], "periods": periods}
    hours = {"fleet": 1.0, "settled": 2.0, "unsettled": 3.0, "hours": {"2": None}, "all rows": {"2": 1.02}}
    text = page({"UCI CO": result}, {"a box": hours}, ("UCI CO",))
    assert "| UCI CO (chosen on) | 1 | 1.5 | 0.5 | 2 | 1.50 | 1 of 2 |" in text
    assert "2 boxes, 2 sessions each, 1,000 rows scored; 1 of 4 sessions changed a calibrator." in text
    assert "| a box, hours | 1 | 2 | 3 | – | no |" in text
    assert "| a box, all rows | 1 | 2 | 3 | 1.02 | 2 h |" in text
