"""A gateway small enough to be looked into: two hand-made calibrators, readings drawn for many boxes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.live.config import LiveLimits, Model
from scare.live.journal import Store
from scare.live.messages import Reading
from scare.live.pipeline import ModelFiles, Monitor, Pipeline, Result, Sink
from tests.calibrator.building import curve_plan, make_calibrator

START = 1.75e9
LIMITS = LiveLimits(reorder_steps=0.0)  # a reading after a gap does not wait
STORES: list[Store] = []  # in use


def close() -> None:
    """Leave the states as processes do that are killed."""
    while STORES:
        STORES.pop().close()


def save_models(folder: Path) -> dict[str, Model]:
    """Two model files: `dust` for most devices, `gas` for some."""
    make_calibrator(curve_plan(8)).save(folder / "dust.scare")
    make_calibrator().save(folder / "gas.scare")
    return {"dust": Model(str(folder / "dust.scare")), "gas": Model(str(folder / "gas.scare"), ("gas-*",))}


def draw_readings(devices: int, rows: int, seed: int = 0) -> list[Reading]:
    """Rows of many boxes side by side, with gaps and numbers that are missing."""
    rng = np.random.default_rng(seed)
    names = [f"{'gas' if index % 3 == 0 else 'box'}-{index}" for index in range(devices)]
    found = []
    for row in range(rows):
        for name in names:
            dust, current = rng.uniform(1, 60), rng.uniform(200, 400)
            if rng.random() > 0.05:
                values = {"pm25": float("nan") if rng.random() < 0.05 else dust, "current": current}
                found.append(Reading(name, START + 60 * row, values))
    return found


class Kept:
    """A sink that keeps what it is given."""

    def __init__(self, is_safe: bool = True) -> None:
        self.results: list[Result] = []
        self.kept: list[int] = []
        self.is_safe = is_safe

    def publish(self, results: Sequence[Result]) -> bool:
        self.results += results
        return self.is_safe

    def keep(self, number: int) -> None:
        self.kept.append(number)

    def by_reading(self) -> dict[tuple[str, float], Result]:
        return {(one.device, one.time): one for one in self.results}


def make_pipeline(
    folder: Path, sink: Sink, limits: LiveLimits = LIMITS, is_replayed: bool = True
) -> tuple[Pipeline, Monitor]:
    """A pipeline on the models and the state in a folder, which has gone on where the last one ended.

    Unless `is_replayed`, the readings of the last one's journal are loaded and wait for `run`.
    """
    monitor = Monitor()
    models = {"dust": Model(str(folder / "dust.scare")), "gas": Model(str(folder / "gas.scare"), ("gas-*",))}
    if not Path(models["dust"].file).exists():
        save_models(folder)
    files = ModelFiles(models, Calibrator.load, monitor)
    store = Store(folder / "state")
    STORES.append(store)
    pipeline = Pipeline(files, store, [sink], monitor, limits)
    if is_replayed:
        pipeline.restore()
    else:
        pipeline.load()
    return pipeline, monitor


def expected(calibrator: Calibrator, readings: Sequence[Reading]) -> list[Result]:
    """What one device's readings become, one by one."""
    live = calibrator.live(readings[0].device)
    found = []
    for one in readings:
        row = np.array([one.values[channel.name] for channel in calibrator.inputs.channels])
        *numbers, flag = live.push(one.time, row)
        found.append(Result(one.device, one.time, row[0], *numbers, int(flag), ""))
    return found


def shifted(calibrator: Calibrator, by: float) -> Calibrator:
    """The same calibrator with values that are higher by a number."""
    target = calibrator.inputs.scaling.target
    scaling = replace(calibrator.inputs.scaling, target=replace(target, center=target.center + by))
    return replace(calibrator, inputs=replace(calibrator.inputs, scaling=scaling))
