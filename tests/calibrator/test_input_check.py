"""Mix-ups of units, factors and columns are named; other weather and other air are not."""

from dataclasses import replace

import numpy as np
import pytest

from scare.calibrator.input_check import explain_mix_ups
from scare.data.flags import QualitySettings
from scare.data.readings import Channel
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import Scaling, standard
from scare.windowing.training_range import fit_training_range
from scare.windowing.windows import STRICT

ROWS = 2000


def air(seed: int) -> np.ndarray:
    """PM2.5 [µg/m³], temperature [°C] and humidity [%]: [rows, 3]."""
    random = np.random.default_rng(seed)
    dust = random.gamma(2.0, 8.0, ROWS)
    warmth = 11 + 5 * np.sin(np.arange(ROWS) / 100) + random.normal(0, 1, ROWS)
    return np.column_stack([dust, warmth, 95 - 2 * warmth + random.normal(0, 5, ROWS)])


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    rows = air(1)
    channels = (Channel("pm25", "ug/m3", -100, 1100), Channel("temperature", "degC", -50, 95), Channel("humidity", "%"))
    scaling = Scaling("standard", standard(rows), standard(rows[:, :1]))
    whole = fit_training_range([scaling.fleet.apply(rows)], 10)
    return Inputs(channels, scaling, 60.0, 10, STRICT, QualitySettings(), whole)


@pytest.mark.parametrize(
    ("column", "gain", "offset", "sentence"),
    [
        (0, 10.0, 0.0, "pm25 is about 10 times as large as in training: its mean is"),
        (0, 0.001, 0.0, "pm25 seems to be in mg/m³ instead of µg/m³"),
        (1, 1.8, 32.0, "temperature seems to be in °F instead of °C"),
        (1, 1.0, 273.15, "temperature seems to be in K instead of °C"),
        (2, 0.01, 0.0, "humidity seems to be in fraction instead of %"),
    ],
)
def test_another_unit_or_factor_is_named(
    inputs: Inputs, column: int, gain: float, offset: float, sentence: str
) -> None:
    values = air(2)
    values[:, column] = gain * values[:, column] + offset
    values[::200, column] = np.nan
    (line,) = explain_mix_ups(inputs, values)
    assert line.startswith(sentence)


def test_swapped_channels_are_named_once(inputs: Inputs) -> None:
    (line,) = explain_mix_ups(inputs, air(2)[:, [0, 2, 1]])
    assert line.startswith("temperature and humidity seem to be swapped")


@pytest.mark.parametrize(
    "change", [(1.0, 1.0, 1.0, 0.0), (3.0, 1.0, 1.0, 0.0), (0.1, 1.0, 1.0, 0.0), (1.0, 1.0, 0.9, 14.0)]
)
def test_clean_or_polluted_air_and_a_hot_week_are_not_mix_ups(inputs: Inputs, change: tuple[float, ...]) -> None:
    values = air(3) * change[:3] + np.array([0.0, change[3], 0.0])
    assert explain_mix_ups(inputs, values) == []


def test_a_few_rows_and_models_without_a_training_range_prove_nothing(inputs: Inputs) -> None:
    assert explain_mix_ups(inputs, 10 * air(2)[:20]) == []
    assert explain_mix_ups(replace(inputs, training_range=None), 10 * air(2)) == []
