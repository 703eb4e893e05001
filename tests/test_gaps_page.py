"""The benchmark of gap policies scores all variants on the same rows and sums up the result."""

from dataclasses import replace
from datetime import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks.gaps import OURS, STRICTER, VARIANTS, Fitted, fit_variant, page, score_task
from scare.baselines import DLinear
from scare.data.simulate import Simulation, SimulationKind, simulate
from scare.data.split import Split, split_by_time
from scare.training import recipe
from scare.training.recipe import Recipe, TrainingSettings
from scare.windowing.windows import RECENT, STRICT

HOUR = 60


@pytest.fixture(scope="module")
def split() -> Split:
    """Three days of one box, silent from 07:00 to 08:30 every day."""
    (whole,) = simulate(Simulation(boxes=1, days=3, kind=SimulationKind.LINEAR, seed=3))
    silent = pl.col("time").dt.time().is_between(time(7, 0), time(8, 30))
    gappy = replace(whole, frame=whole.frame.filter(~silent))
    return split_by_time([gappy], 360 * 60.0)


def made_up(split: Split, errors: dict[str, float], refused: int) -> dict[str, Fitted]:
    """Estimates that are off by so much; the strict ones leave out the last rows."""
    reference = split.test[0].targets
    values = {name: np.stack([reference + error, reference - error]) for name, error in errors.items()}
    values[STRICTER.name][:, len(reference) - refused :] = np.nan
    windows = {STRICTER.name: 800, OURS.name: 1000}
    return {name: Fitted(windows.get(name, 1000), one) for name, one in values.items()}


def test_sixty_readings_have_one_rule() -> None:
    assert RECENT.rows_checked(60) == STRICT.rows_checked(60) == 60
    assert (RECENT.hold, RECENT.percent) == (STRICT.hold, STRICT.percent)
    assert [variant.name for variant in VARIANTS] == ["N = 60, either", "N = 360, strict", "N = 360, recent"]


def test_rows_are_shared_and_refused_ones_counted(split: Split) -> None:
    fitted = made_up(split, {"N = 60, either": 3.0, STRICTER.name: 2.0, OURS.name: 1.0}, refused=100)
    rows = {row["name"]: row for row in score_task(split, {v: fitted[v.name] for v in VARIANTS})}
    known = int(np.isfinite(split.test[0].targets).sum())
    ours, stricter = rows[OURS.name], rows[STRICTER.name]
    assert [ours[group]["rows"] for group in ("shared", "every", "refused")] == [known - 100, known, 100]
    assert [ours["shared"]["rmse"], stricter["shared"]["rmse"]] == pytest.approx([1.0, 2.0])
    assert "every" not in stricter
    assert "refused" not in stricter
    assert stricter["coverage"] == pytest.approx(1 - 100 / known)
    assert stricter["to_ours"]["difference"] == pytest.approx(1.0)
    text = page({"made up": list(rows.values())}, 2)
    assert "trains on 25% more windows" in text
    assert f"| N = 360, strict | 800 | {stricter['coverage']:.1%} | 2 ± " in text


def test_a_strict_long_window_is_refused_after_a_silence(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = Recipe(model=DLinear.default(), settings=TrainingSettings(steps=2, checkpoints=1))
    monkeypatch.setitem(recipe.PRESETS, "default", quick)
    found = fit_variant(split, STRICTER, 1, tmp_path)
    minutes = split.test[0].times // 60 % (24 * HOUR)
    in_time = (minutes < 7 * HOUR) | (minutes >= 8 * HOUR + 30 + 360)
    assert found.known.any()
    assert not found.known[~in_time].any()
    monkeypatch.setattr("benchmarks.gaps.fit", None)  # what is fitted is not fitted again
    np.testing.assert_array_equal(fit_variant(split, STRICTER, 1, tmp_path).estimates, found.estimates)
