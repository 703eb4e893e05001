"""`scare live demo`: a simulated fleet, first co-located with a reference, then in the field.

Its calibrator is linear in the last readings and fitted here by least squares, so the demo needs no training packages.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException
from math import isnan
from threading import Event
from time import monotonic

import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.plan import INPUT, Plan, Step
from scare.data.flags import DEFAULT_SETTINGS
from scare.data.readings import Readings
from scare.data.simulate import Simulation, simulate
from scare.errors import DataError
from scare.kernels import hat_fractions, hat_matrix
from scare.windowing.inputs import Inputs, WindowStream
from scare.windowing.scaling import fit_scaling
from scare.windowing.windows import RECENT

COLOCATED_DAYS, FIELD_DAYS = 7.0, 12.0
STRIDE = 5  # rows from one example to the next
WINDOW, KNOTS = 30, 5  # rows, and points of the hat basis over them
GOLDEN, VALIDATION = 16, 1024  # windows kept of each
TICK_SECONDS = 0.5  # real time between two posts
TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class DemoFleet:
    """Boxes in the field, and the calibrator that was fitted while they were co-located with a reference."""

    boxes: Sequence[Readings]
    calibrator: Calibrator


def make_fleet(boxes: int, seed: int) -> DemoFleet:
    """Simulate boxes whose days in the field end now."""
    start = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(days=COLOCATED_DAYS + FIELD_DAYS)
    readings = simulate(Simulation(boxes=boxes, days=COLOCATED_DAYS + FIELD_DAYS, seed=seed, start=start))
    colocation_end = start.timestamp() + COLOCATED_DAYS * 86400
    colocated = [box.rows(box.times < colocation_end) for box in readings]
    in_field = [box.rows(box.times >= colocation_end) for box in readings]
    return DemoFleet(in_field, fit_line(colocated))


def fit_line(boxes: Sequence[Readings]) -> Calibrator:
    """Fit a linear calibrator by least squares, on a triangular (hat) basis over the last `WINDOW` readings.

    The knots are equally spaced in log₂ of a reading's age: fine for the newest, coarse for older ones.
    """
    first = boxes[0]
    if first.reference is None:
        raise DataError(f"{first.device} has no reference to learn from")
    inputs = _inputs(boxes)
    knots = np.linspace(0, np.log2(WINDOW), KNOTS)
    lower, fraction = hat_fractions(WINDOW, knots)
    # `lower` and `fraction` begin with the newest reading, a window begins with the oldest.
    hats = {"knot": lower[::-1].astype(np.int32), "fraction": fraction[::-1].astype(np.float32)}
    front = (Step("hat_basis", (INPUT,), "u", hats, {"knots": KNOTS}), Step("flatten", ("u",), "all"))
    windows, targets = map(np.concatenate, zip(*(_examples(box, inputs) for box in boxes), strict=True))
    # Windows [n, window, channels] times hats [window, knots] are features [n, knots · channels].
    features = np.einsum("nwc,wk->nkc", windows, hat_matrix(**hats, knots=KNOTS)).reshape(len(windows), -1)
    scaled = inputs.scaling.target.apply(targets[:, None])[:, 0]
    with_ones = np.column_stack([features, np.ones(len(features))])
    solution, *_ = np.linalg.lstsq(with_ones, scaled, rcond=None)
    weights = solution.astype(np.float32)
    line = Step("dense", ("all",), "y", {"weight": weights[:-1, None], "bias": weights[-1:]})
    plan = Plan(WINDOW, len(first.channels), (*front, line))
    empty = Sample(windows[:0], np.empty(0))
    untested = Calibrator(plan, inputs, first.reference, empty, empty)  # computes the golden outputs
    golden = Sample(windows[:GOLDEN], untested.compute(windows[:GOLDEN]))
    thinned = slice(None, None, -(-len(windows) // VALIDATION))  # every nth window; n is rounded up
    validation = Sample(windows[thinned], targets[thinned])  # intervals are derived from it
    return Calibrator(plan, inputs, first.reference, golden, validation, {"model": "line of the demo"})


def _inputs(boxes: Sequence[Readings]) -> Inputs:
    """Return the inputs with the channels scaled by each box's co-located days."""
    rows = {box.device: box.values[np.isfinite(box.values).all(axis=1)] for box in boxes}
    targets = np.concatenate([box.targets[np.isfinite(box.targets)] for box in boxes])
    scaling = fit_scaling("standard", rows, targets, per_device=True)
    return Inputs(boxes[0].channels, scaling, boxes[0].step_seconds, WINDOW, RECENT, DEFAULT_SETTINGS)


def _examples(box: Readings, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """Return the scaled windows [n, window, channels] that end at rows with a reference, and its values there [n]."""
    (segment,) = WindowStream(inputs, box.device).segments(box.times, box.values)
    known = np.flatnonzero(np.isfinite(box.targets[segment.rows]))[::STRIDE]
    return segment.grid.windows(segment.ends[known]), box.targets[segment.rows[known]]


def post_readings(fleet: DemoFleet, port: int, speed: float, stop: Event) -> None:
    """POST the readings of the boxes to a server on this computer, `speed` times as fast as real time."""
    times = fleet.boxes[0].times
    values = np.stack([box.values for box in fleet.boxes])  # [boxes, rows, channels]
    began, sent = monotonic(), 0
    while not stop.wait(TICK_SECONDS) and sent < len(times):
        due = int(np.searchsorted(times, times[0] + (monotonic() - began) * speed))  # rows that should be sent by now
        if due > sent and _post(port, _lines(fleet, times[sent:due], values[:, sent:due])):
            sent = due


def _lines(fleet: DemoFleet, times: np.ndarray, values: np.ndarray) -> bytes:
    """Return readings of all boxes as JSON lines, null for NaN; `times` [rows], `values` [boxes, rows, channels]."""
    names = [channel.name for channel in fleet.boxes[0].channels]
    lines = []
    for row, time in enumerate(times.tolist()):
        for box, numbers in zip(fleet.boxes, values[:, row].tolist(), strict=True):
            row_values = {name: None if isnan(number) else number for name, number in zip(names, numbers, strict=True)}
            lines.append(json.dumps({"device": box.device, "time": time, **row_values}))
    return "\n".join(lines).encode()


def _post(port: int, body: bytes) -> bool:
    """POST a body; False if the server did not take it, so that the readings must be sent again."""
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("POST", "/v1/readings", body, {"content-type": "application/x-ndjson"})
        return connection.getresponse().status in (200, 400)  # 400: all rejected, so sending again would not help
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
