"""A calibrator for each box of a solved network: the fleet's, with the box's line as its learned correction."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import LEVEL, Intervals
from scare.calibrator.linear import raw_reading
from scare.data.flags import DEFAULT_SETTINGS
from scare.data.readings import Channel
from scare.upkeep.network.graph import Solution
from scare.upkeep.network.hours import HOUR
from scare.upkeep.update import set_line
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.windows import STRICT


def as_it_reads(channel: Channel, target: Channel, step_seconds: float) -> Calibrator:
    """Make a calibrator that returns a channel as it is: the start for a network that has no calibrator of its own."""
    identity = Affine(np.zeros(1), np.ones(1))
    inputs = Inputs((channel,), Scaling("constant", identity, identity), step_seconds, 1, STRICT, DEFAULT_SETTINGS)
    return raw_reading(inputs, target)


def for_box(fleet: Calibrator, solution: Solution, box: str) -> Calibrator:
    """Make the calibrator of a box: the fleet's with the line that the network gave the box at the end of its readings.

    Its facts have the path of encounters to a reference, the days since the last one, and the uncertainty, which also
    widens the intervals. A calibrator of hourly or slower readings that has no intervals gets the network's.
    """
    line, path = solution.estimate(box), solution.path(box)
    age = solution.age_days(box)
    facts = {
        "sessions": len(path),
        "pairs": sum(step.pairs for step in path),
        "devices": [box],
        "network": {
            "path": [f"{step.instrument} beside {step.other} on {_day(step.time)}" for step in path],
            "age_days": None if age is None else round(age, 1),
            "solved": f"{datetime.fromtimestamp(solution.end, UTC):%Y-%m-%dT%H:%M:%SZ}",
            "uncertainty": round(solution.uncertainty(box), 4),
            "effective_pairs": round(solution.effective_pairs(box), 1),
            "gain": round(line.gain, 5),
            "intercept": round(line.intercept, 4),
            "covariance": line.covariance.round(6).tolist(),
        },
    }
    # The fleet's intervals hold the noise of a reading; the box's have its line's uncertainty in addition.
    usual = solution.center + solution.spread * np.array([-1.0, 1.0])
    noise = solution.reliability(box) * solution.noise_variance(usual).mean()
    deviations = solution.interval(box, (usual - line.intercept) / line.gain, sigmas=1.0)
    widening = float(np.sqrt(np.square(deviations).mean() / noise))
    corrected = set_line(fleet, line.gain, line.intercept, facts, widening)
    if corrected.intervals is None and fleet.inputs.step_seconds >= HOUR:
        return replace(corrected, intervals=_intervals(solution, box))
    return corrected


def _intervals(solution: Solution, box: str) -> Intervals:
    """Return the network's intervals: one half-width for each of six bands of the calibrated value."""
    edges = solution.center + solution.spread * np.array([-0.5, 0.0, 0.5, 1.5, 3.0])  # between the bands
    margin = 0.25 * solution.spread
    middles = np.concatenate([edges[:1] - margin, (edges[1:] + edges[:-1]) / 2, edges[-1:] + margin])  # of the bands
    line = solution.estimate(box)
    readings = (middles - line.intercept) / line.gain  # that the line calibrates to these values
    half_widths = tuple(solution.interval(box, readings).tolist())
    return Intervals(LEVEL, tuple(edges.tolist()), half_widths, half_widths)


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"
