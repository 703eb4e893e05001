"""A site's own regression, drawn towards the federation's: from one to the other, and better than both on few rows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.model_card import SHARED_FACT, model_card
from scare.calibrator.moments import Solution
from scare.data.readings import Readings
from scare.errors import DataError
from scare.federated.combined import (
    ALONE,
    DAY,
    FEDERATED,
    SharedRegression,
    combine,
    forward_splits,
    make_ways,
    mean_errors,
    short_splits,
    solve_towards,
)
from scare.federated.pooled import federate
from scare.federated.rows import Rows, collect_rows
from scare.federated.site import Site
from tests.federated.small_sites import NAMES, agreement, asking, box

RNG = np.random.default_rng(0)
X = RNG.normal(1.0, 2.0, (40, 3))
Y = X @ [1.0, -2.0, 0.5] + 3.0 + RNG.normal(0, 0.5, 40)
OWN = Rows(np.arange(40.0), X, Y).moments
SHARED: Solution = (np.array([0.8, 0.7, -1.5]), 2.0)
INPUTS = np.array([0, 2])  # the column between them is not in the regression, and its weight stays
OFFSET, GAIN = np.eye(3)[0], np.array([0.0, 0.8, -1.5]) / np.hypot(0.8, 1.5)
FREE = {"nothing": np.empty((0, 3)), "offset": OFFSET[None], "offset and gain": np.stack([OFFSET, GAIN])}


def as_vector(solution: Solution) -> np.ndarray:
    weights, bias = solution
    assert weights[1] == SHARED[0][1]
    return np.array([bias, *weights[INPUTS]])


@pytest.mark.parametrize("own", FREE)
@pytest.mark.parametrize("strength", [0.3, 7.0, 500.0])
def test_it_is_least_squares_with_a_row_more_for_everything_penalised(own: str, strength: float) -> None:
    free = FREE[own]
    design = np.column_stack([np.ones(40), X[:, INPUTS]])
    left = Y - X[:, 1] * SHARED[0][1]
    start = as_vector(SHARED)
    penalised = np.linalg.svd(np.eye(3) - free.T @ free)[2][: 3 - len(free)]  # an orthonormal basis
    rows = np.concatenate([design, np.sqrt(strength) * penalised])
    targets = np.concatenate([left, np.sqrt(strength) * penalised @ start])
    wanted = np.linalg.lstsq(rows, targets)[0]
    # Columns outside the regression keep their weight; `own` sees targets without them.
    moments = Rows(np.arange(40.0), X, left).moments
    weights, bias = solve_towards((SHARED[0] * [1, 0, 1], SHARED[1]), INPUTS, free, strength, moments)
    np.testing.assert_allclose([bias, *weights[INPUTS]], wanted, rtol=1e-9)


def test_without_strength_it_is_the_sites_own_and_with_an_infinite_one_the_federations() -> None:
    design = np.column_stack([np.ones(40), X[:, INPUTS]])
    own = np.linalg.lstsq(design, Y)[0]
    np.testing.assert_allclose(as_vector(solve_towards(SHARED, INPUTS, FREE["nothing"], 1e-12, OWN)), own, rtol=1e-9)
    np.testing.assert_array_equal(
        as_vector(solve_towards(SHARED, INPUTS, FREE["nothing"], np.inf, OWN)), as_vector(SHARED)
    )
    by_offset = as_vector(solve_towards(SHARED, INPUTS, FREE["offset"], np.inf, OWN))
    np.testing.assert_allclose(by_offset, [np.mean(Y - X[:, INPUTS] @ SHARED[0][INPUTS]), 0.8, -1.5], rtol=1e-9)
    gain, offset = np.polyfit(X[:, INPUTS] @ SHARED[0][INPUTS], Y, 1)
    by_line = as_vector(solve_towards(SHARED, INPUTS, FREE["offset and gain"], np.inf, OWN))
    np.testing.assert_allclose(by_line, [offset, gain * 0.8, gain * -1.5], rtol=1e-9)


def test_splits_test_later_rows_only() -> None:
    times = np.sort(np.concatenate([np.arange(0, 40 * DAY, 3600.0)] * 2))  # two boxes
    for earlier, later in (*forward_splits(times), *short_splits(times)):
        assert times[earlier].max() < times[later].min()
    lengths = {round(np.ptp(times[earlier]) / DAY) for earlier, _ in short_splits(times)}
    assert lengths == {2, 4, 7, 14}
    (earlier, later), *_ = short_splits(times[: 2 * 24])  # a day in all
    assert np.ptp(times[: 2 * 24][earlier]) == pytest.approx(DAY / 2, abs=3600)


def unlike(number: int, rows: int = 400) -> Readings:
    """A box with a gain of its own, beside a noisy reference."""
    rng = np.random.default_rng(number)
    exact = box(number % 4, rows, gain=1.5 * rng.lognormal(0, 0.05))
    return replace(exact, frame=exact.frame.with_columns(pl.col("reference") + rng.normal(0, 4, rows)))


@pytest.fixture(scope="module")
def federated() -> Calibrator:
    agreed = agreement(NAMES)
    return federate(asking({name: Site([unlike(k)], agreed) for k, name in enumerate(NAMES)}), agreed).calibrator


def rmse(calibrator: Calibrator, readings: Readings) -> float:
    return float(np.sqrt(np.nanmean((calibrator.predict(readings)["calibrated"].to_numpy() - readings.targets) ** 2)))


def test_newcomers_with_two_days_gain_over_both(federated: Calibrator) -> None:
    found = []
    for number in range(4, 12):
        new = unlike(number, 448)
        short, later = new.rows(new.times < 2 * DAY), new.rows(new.times >= 2 * DAY)
        designs = [np.column_stack([np.ones(len(part)), part.values]) for part in (short, later)]
        alone = designs[1] @ np.linalg.lstsq(designs[0], short.targets)[0] - later.targets
        combined = rmse(combine(federated, [short]), later)
        found.append([combined, np.sqrt(np.mean(alone**2)), rmse(federated, later)])
    # What is left beyond the noise of the reference, whose standard deviation is 4.
    combined, alone, shared = np.square(found).mean(axis=0) - 4**2
    assert combined < 0.8 * alone
    assert combined < 0.8 * shared


def test_it_is_an_ordinary_calibrator_with_intervals(federated: Calibrator, tmp_path: Path) -> None:
    new = unlike(4, 800)
    short, later = new.rows(new.times < 7 * DAY), new.rows(new.times >= 7 * DAY)
    loaded = Calibrator.load(combine(federated, [short]).save(tmp_path / "combined.scare"))
    table = loaded.predict(later)
    inside = (table["low"].to_numpy() <= later.targets) & (later.targets <= table["high"].to_numpy())
    assert 0.85 < inside.mean() < 0.99
    assert loaded.facts["rows"] == len(collect_rows([short]))
    assert "shared" not in model_card(federated)  # nobody reads a table of weights
    few = combine(federated, [new.rows(new.times < 2 * DAY)])
    assert few.intervals == federated.intervals  # too few errors for its own


def test_errors_forward_are_those_of_the_rows(federated: Calibrator) -> None:
    shared = SharedRegression(2, (0, 1), (1.0, 0.0, 0.0, 0.0, 0.0), 0.0, {})
    rows = Rows(np.arange(50.0), RNG.normal(size=(50, 5)), RNG.normal(size=50))
    splits = forward_splits(rows.times)
    found = mean_errors(rows, splits, make_ways(shared, shared.solution))
    squares = [np.mean((rows.targets[k : k + 10] - rows.columns[k : k + 10, 0]) ** 2) for k in (20, 30, 40)]
    assert found[FEDERATED] == pytest.approx(np.mean(np.log(np.sqrt(squares))))
    assert any(name.startswith(ALONE) for name in found)


def test_sites_send_one_number_for_each_way_and_once(federated: Calibrator) -> None:
    fact = federated.facts[SHARED_FACT]
    assert set(fact["errors"]) == set(make_ways(SharedRegression(**fact), SharedRegression(**fact).solution))
    scaling = federated.inputs.scaling
    task: dict[str, Any] = {"kind": "ways", "others": fact, "target": [10.0, 5.0]}
    task |= {"center": scaling.fleet.center.tolist(), "scale": scaling.fleet.scale.tolist()}
    site = Site([unlike(0)], agreement(NAMES))
    reply = site.answer(task)
    assert set(reply) == {"errors"}
    assert all(isinstance(error, float) for error in reply["errors"].values())
    with pytest.raises(DataError, match="a site answers no more than 1 tasks of the kind 'ways'"):
        site.answer(task)
    wrong_values: list[dict[str, Any]] = [{"inputs": [0, 99]}, {"inputs": []}, {"channels": 0}, {"weights": "no"}]
    for wrong in wrong_values:
        with pytest.raises(DataError):
            Site([unlike(0)], agreement(NAMES)).answer({**task, "others": {**fact, **wrong}})


def test_few_rows_and_other_calibrators_are_refused(federated: Calibrator) -> None:
    with pytest.raises(DataError, match="15 complete rows with a reference are too few to tell how well anything fits"):
        combine(federated, [unlike(0, 15)])
    with pytest.raises(DataError, match="this calibrator has no regression to combine with"):
        combine(replace(federated, facts={}), [unlike(0)])
