"""How far a reading lies beyond training, and in which channel, is the same in a stream, a fleet, C and MicroPython."""

import sys
from pathlib import Path

import numpy as np
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.data.flags import Flag
from scare.export.micropython_runtime import scare_live
from scare.export.package import export_calibrator
from scare.live.fleet import Fleet, Route
from scare.windowing.training_range import TrainingRange
from tests.calibrator.building import make_calibrator, with_edges
from tests.export.building import compile_models
from tests.export.test_micropython import load

SMALL = with_edges(make_calibrator())
BOX = SMALL.inputs.scaling.devices["box-1"]
ROWS = np.column_stack([np.linspace(-30, 90, 60), 300 + 200 * np.sin(np.arange(60))]).clip(0.5)
TIMES = 1.7e9 + 60.0 * np.arange(60)


def by_hand(calibrator: Calibrator, row: np.ndarray) -> tuple[float, int]:
    training_range = calibrator.inputs.training_range
    assert isinstance(training_range, TrainingRange)
    scaled = (row - BOX.center) / BOX.scale
    farthest, which = 0.0, -1
    for index, (number, low, high) in enumerate(zip(scaled, training_range.low, training_range.high, strict=True)):
        beyond = max(low - number, number - high) / (high - low)
        if beyond > farthest:
            farthest, which = beyond, index
    return farthest, which


def test_all_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export_calibrator(SMALL, "c", "fixed", tmp_path / "small", "box-1", "small")
    in_c = compile_models({"small": tmp_path / "small"}, tmp_path)["small"]
    monkeypatch.setitem(sys.modules, "scare_live", scare_live)
    on_board = load(export_calibrator(SMALL, "micropython", "float32", tmp_path / "python", "box-1"))
    stream, fleet = SMALL.stream("box-1"), Fleet({"pm": SMALL}, [Route("*", "pm")])
    flags = stream.push(TIMES, ROWS).flags
    ranges, channels = stream.beyond_training(ROWS, flags)
    names, kinds = [channel.name for channel in SMALL.inputs.channels], set()
    for index, row in enumerate(ROWS):
        fleet.push(["box-1"], TIMES[index : index + 1], row[None])
        wanted = by_hand(SMALL, row)
        assert in_c.outside(row) == (pytest.approx(wanted[0], abs=1e-5), wanted[1])
        assert on_board.outside(row.tolist()) == (pytest.approx(wanted[0], abs=1e-5), wanted[1])
        if flags[index] & Flag.HISTORY:
            assert np.isnan(ranges[index])
        elif flags[index] & Flag.OUTSIDE:
            assert (ranges[index], channels[index]) == (pytest.approx(wanted[0], abs=1e-5), wanted[1])
            name = names[wanted[1]] if wanted[0] else ""
            assert fleet.beyond_training("box-1", row) == (pytest.approx(wanted[0], abs=1e-5), name)
            kinds.add(wanted[1])
        else:
            assert (ranges[index], channels[index], wanted) == (0.0, -1, (0.0, -1))
    assert kinds == {-1, 0, 1}
