"""What a reading costs in a fleet and alone, and what a device takes in memory: SCARE, N = 60, three channels."""

from benchmarks.prediction import make_plan  # first: it holds NumPy to one core

# ruff: isort: split
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.data.flags import QualitySettings
from scare.data.readings import Channel
from scare.live.fleet import Batch, Fleet, Route
from scare.models import Scare
from scare.windowing.feeding import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.slicing import RECENT

WINDOW, STEP, BATCH, ALONE, ROUNDS = 60, 60.0, 1024, 400, 5
CHANNELS = (
    Channel("pm25", "ug/m3", 0.0, 1000.0),
    Channel("temperature", "C", -40.0, 85.0),
    Channel("humidity", "%", 0.0, 100.0),
)
CENTER, SCALE = np.array([20.0, 15.0, 60.0]), np.array([8.0, 5.0, 15.0])
START = 1.7e9
ROUTES = (Route("*", "pm"),)


@dataclass(frozen=True)
class Found:
    """A fleet of `devices`, known or settling by a method, whose readings come in batches of `batch`."""

    devices: int
    scaling: str
    batch: int
    reading_us: float
    alone_us: float
    device_bytes: float

    @property
    def ratio(self) -> float:
        """How many times as fast as `live.push` in the same run."""
        return self.alone_us / self.reading_us


def make_calibrator(scaling: str) -> Calibrator:
    """SCARE's default network with random weights; `known` or settling by a method for 96 hours."""
    method, settle = ("standard", 0) if scaling == "known" else (scaling, 96 * 60)
    own = Scaling(method, Affine(CENTER, SCALE), Affine(CENTER[:1], SCALE[:1]), {}, settle)
    none = Sample(np.empty((0, WINDOW, len(CHANNELS)), np.float32), np.empty(0))
    inputs = Inputs(CHANNELS, own, STEP, WINDOW, RECENT, QualitySettings())
    return Calibrator(make_plan(Scare.default(), WINDOW, len(CHANNELS)), inputs, CHANNELS[0], none, none)


def batches(devices: list[str], size: int) -> Iterator[Batch]:
    """Rows without end: every device once a step, in batches."""
    rng, now = np.random.default_rng(0), START
    while True:
        now += STEP
        for start in range(0, len(devices), size):
            some = devices[start : start + size]
            yield Batch(some, np.full(len(some), now), rng.normal(CENTER, SCALE, (len(some), 3)).clip(0.1, 80.0))


def measure(devices: int, scaling: str, batch: int = BATCH) -> Found:
    """Fill a fleet until every device has a window, then time a few rounds; a device alone in between."""
    calibrator, names = make_calibrator(scaling), [f"box-{index:06d}" for index in range(devices)]
    fleet, rows, before = Fleet({"pm": calibrator}, ROUTES), batches(names, batch), _resident_bytes()
    each = -(-devices // batch)
    for some in islice(rows, each * WINDOW):
        fleet.push(some)
    device_bytes = (_resident_bytes() - before) / devices
    timed = max(each, 8)
    rounds = [(_time_fleet(fleet, list(islice(rows, timed))), time_alone(calibrator)) for _ in range(ROUNDS)]
    together, alone = np.median(rounds, axis=0)
    return Found(devices, scaling, batch, together, alone, device_bytes)


def _time_fleet(fleet: Fleet, some: list[Batch]) -> float:
    """Microseconds of processor time a reading."""
    begun = time.process_time()
    pushed = [fleet.push(batch) for batch in some]
    elapsed = time.process_time() - begun
    assert all(np.isfinite(one.values).all() for one in pushed)
    return 1e6 * elapsed / sum(len(one.values) for one in pushed)


def time_alone(calibrator: Calibrator) -> float:
    """The same of `live.push`, of one device."""
    live, rows = calibrator.live("box"), list(islice(batches(["box"], 1), WINDOW + ALONE))
    for row in rows[:WINDOW]:
        live.push(row.times[0], row.rows[0])
    begun = time.process_time()
    for row in rows[WINDOW:]:
        live.push(row.times[0], row.rows[0])
    return 1e6 * (time.process_time() - begun) / ALONE


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
