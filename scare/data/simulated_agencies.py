"""Simulate two agencies that may not share readings, and a third town where their calibrator is to serve.

Each has boxes beside its own reference, in air of its own: the north is cold and humid, the south warm and dry, the
third town lies between. All boxes swell with humidity by κ-Köhler theory, so that a regression of one agency's rows is
wrong at the other's.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from scare.data.readings import DEVICE, TIME, TIME_TYPE
from scare.data.simulated_air import DAY, HOUR, Clock, growth_factor, ornstein_uhlenbeck
from scare.files import replacing

START = datetime(2026, 1, 1, tzinfo=UTC)
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
SPREAD, SPREAD_SECONDS = 0.6, 12 * HOUR  # standard deviation and time constant of the logarithm of particle mass
SLOW_SECONDS = 2 * DAY  # time constant of temperature and humidity
TEMPERATURE_SPREAD, HUMIDITY_SPREAD, HUMIDITY_CAP = 4.0, 12.0, 92.0
GAIN, GAIN_SPREAD, OFFSET_SPREAD_UGM3, NOISE_UGM3, RELATIVE_NOISE = 1.2, 0.05, 0.5, 0.8, 0.05
FEDERATION = """\
# The server's file: what the sites agreed on. See docs/federate.md.
[data]
channels = [
    { name = "pm25_raw", unit = "ug/m3" },
    { name = "temperature", unit = "degC" },
    { name = "humidity", unit = "%" },
]
reference = { name = "pm25_reference", unit = "ug/m3" }
step = 3600

[noise]                     # if a site adds noise: the range of each channel and of the reference
low = [0, -20, 0, 0]
high = [150, 40, 100, 100]

[sites]                     # the file of each site's token
north = "north.token"
south = "south.token"
"""


@dataclass(frozen=True)
class Town:
    """The usual air of a town."""

    pm_ugm3: float
    temperature: float
    humidity: float


TOWNS = {"north": Town(18.0, 6.0, 74.0), "south": Town(10.0, 20.0, 48.0), "third": Town(14.0, 13.0, 62.0)}


def write_agencies(folder: Path, boxes: int = 3, days: float = 60.0, seed: int = 0) -> list[Path]:
    """Write a table for each town, the third town's first week, tokens of the two agencies and federation.toml.

    Returns the files.
    """
    texts = {"federation.toml": FEDERATION}
    for number, name in enumerate(TOWNS):
        table = _simulate_town(name, boxes, days, seed)
        texts[f"{name}.csv"] = table.write_csv(datetime_format=TIME_FORMAT)
        if name == "third":
            week = table.filter(pl.col(TIME) < START + timedelta(days=7))
            texts["third_week.csv"] = week.write_csv(datetime_format=TIME_FORMAT)
        else:
            # 9: a stream that no box draws from (`_simulate_town`).
            texts[f"{name}.token"] = np.random.default_rng([seed, 9, number]).bytes(16).hex() + "\n"
    for name, text in texts.items():
        with replacing(folder / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def _simulate_town(name: str, boxes: int, days: float, seed: int) -> pl.DataFrame:
    """Simulate the boxes of a town beside its reference, hourly."""
    town, number = TOWNS[name], list(TOWNS).index(name)
    rng = np.random.default_rng([seed, number])
    clock = Clock(round(days * 24), HOUR, START.timestamp())
    truth = town.pm_ugm3 * np.exp(ornstein_uhlenbeck(rng, clock, SPREAD_SECONDS, SPREAD))
    temperature = town.temperature + ornstein_uhlenbeck(rng, clock, SLOW_SECONDS, TEMPERATURE_SPREAD)
    humidity = np.clip(town.humidity + ornstein_uhlenbeck(rng, clock, SLOW_SECONDS, HUMIDITY_SPREAD), 5, HUMIDITY_CAP)
    reference = np.maximum(truth + rng.normal(0, 0.3, clock.rows), 0)
    swelling = growth_factor(humidity)
    tables = []
    for k in range(boxes):
        rng = np.random.default_rng([seed, number, 1 + k])
        noise = (NOISE_UGM3 + RELATIVE_NOISE * truth) * rng.standard_normal(clock.rows)
        raw = GAIN * rng.lognormal(0, GAIN_SPREAD) * truth * swelling + rng.normal(0, OFFSET_SPREAD_UGM3) + noise
        columns = {"pm25_raw": np.maximum(raw, 0), "temperature": temperature, "humidity": humidity}
        columns["pm25_reference"] = reference
        times = pl.Series(TIME, [START + timedelta(hours=hour) for hour in range(clock.rows)], TIME_TYPE)
        rounded = {column: np.round(values, 2) for column, values in columns.items()}
        tables.append(pl.DataFrame({TIME: times, DEVICE: [f"{name}-{k + 1}"] * clock.rows, **rounded}))
    return pl.concat(tables)
