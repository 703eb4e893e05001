"""What an exported example prints, against what the calibrator computes from the same readings."""

from collections.abc import Sequence

import numpy as np
from numpy.testing import assert_allclose

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import bind, find_correction
from scare.data.flags import Flag


def correction(name: str, step_seconds: float = 60.0) -> Calibrator:
    """A published correction that reads channels called by their roles."""
    found = find_correction(name)
    return bind(found, {role.name: role.channel for role in found.roles}, step_seconds)


def cells(printed: str) -> list[list[str]]:
    """The cells of each line, heading first; the last cell, a sentence, may have commas."""
    lines = printed.splitlines()
    return [line.split(",", lines[0].count(",")) for line in lines]


def compare(calibrator: Calibrator, rows: Sequence[Sequence[str]], share: float = 2e-5) -> int:
    """Printed values are those that Python gives for the printed readings; how many there are.

    They may differ by this share of the target's standard deviation, or of themselves where that is more.
    """
    numbers, reported = np.array([row[:-2] for row in rows], float), [int(row[-2]) for row in rows]
    live, step, values = calibrator.live(), calibrator.inputs.step_seconds, numbers[:, -3]
    answers = [live.push(1e6 + i * step, row) for i, row in enumerate(numbers[:, :-3])]
    expected, known = [answer.value for answer in answers], Flag.HISTORY | Flag.MISSING | Flag.OUTSIDE
    assert_allclose(values, expected, rtol=share, atol=share * calibrator.inputs.scaling.target.scale[0])
    assert [row[-1] == "calibrated" for row in rows] == np.isfinite(expected).tolist()
    assert [flags & known for flags in reported] == [int(answer.flags & known) for answer in answers]
    return int(np.isfinite(expected).sum())
