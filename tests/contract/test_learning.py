"""Every model learns what its equations allow: an offset, a gain, a lag."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from scare.baselines import MODELS
from scare.calibrator.calibrator import Calibrator
from scare.data.readings import CALIBRATED, Channel, Readings
from scare.training.fit import fit
from scare.training.recipe import Recipe

WINDOW, ROWS = 16, 2600
START = datetime(2026, 1, 1, tzinfo=UTC)
every_model = pytest.mark.parametrize("name", MODELS)


def colocation(offset: float, gain: float, lag: int) -> Readings:
    """A smooth truth, and a sensor that shows it with an offset, a gain and a delay."""
    noise = np.random.default_rng(0).normal(size=ROWS + 40)
    truth = 300 + 60 * np.convolve(noise, np.hanning(25), mode="same")  # about 1 after the paper's scaling
    shown = offset + gain * np.roll(truth, lag)
    times = [START + timedelta(minutes=minute) for minute in range(ROWS)]
    frame = pl.DataFrame({"time": times, "raw": shown[20:-20], "reference": truth[20:-20]})
    return Readings("box", frame, (Channel("raw"),), Channel("truth"))


def errors(name: str, readings: Readings) -> tuple[float, float]:
    """RMSE over the last quarter of the rows: of the raw reading, and of the model trained on the rows before."""
    train, test = readings.rows(np.arange(ROWS) < 1950), readings.rows(np.arange(ROWS) >= 1950)
    recipe = Recipe.preset("default", WINDOW, name, steps=1000, batch=32, rate=1e-2)
    calibrator: Calibrator = fit(train, recipe=replace(recipe, scaling="constant"))
    estimate = calibrator.predict(test)[CALIBRATED].fill_null(np.nan).to_numpy()
    known = np.isfinite(estimate)
    wrong = [np.sqrt(np.mean((values - test.targets)[known] ** 2)) for values in (test.values[:, 0], estimate)]
    return float(wrong[0]), float(wrong[1])


def skip_if_exempt(name: str, check: str) -> None:
    reason = getattr(MODELS[name], "exempt", {}).get(check)
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.slow
@every_model
def test_a_model_learns_an_offset(name: str) -> None:
    raw, ours = errors(name, colocation(offset=180.0, gain=1.0, lag=0))
    assert ours < raw / 3


@pytest.mark.slow
@every_model
def test_a_model_learns_a_gain(name: str) -> None:
    skip_if_exempt(name, "a_model_learns_a_gain")
    raw, ours = errors(name, colocation(offset=0.0, gain=1.6, lag=0))
    assert ours < raw / 2


@pytest.mark.slow
@every_model
def test_a_model_learns_a_lag(name: str) -> None:
    skip_if_exempt(name, "a_model_learns_a_lag")
    raw, ours = errors(name, colocation(offset=0.0, gain=1.0, lag=4))
    assert ours < raw
