"""Stuck sensors and spikes on a board: the same in C and MicroPython, as in Python, for a few instructions."""

import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from scare.board.boards import board
from scare.board.build import read_export
from scare.board.host import ANSWER_TYPE, HostModel
from scare.board.virtual import VirtualModel
from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.plan import Plan, Step
from scare.data.flags import Flag
from scare.export.micropython_runtime import scare_live
from scare.export.package import export_calibrator
from scare.windowing.scaling import Affine, Scaling
from tests.calibrator.building import DUST, make_calibrator, newest_plan, with_edges

PAST = Flag.STUCK | Flag.SPIKE
MOST_INSTRUCTIONS = 30  # a row of one channel, whatever its flags are


def exported(calibrator: Calibrator, folder: Path, past: int) -> Path:
    """Export to C, with or without SCARE_PAST."""
    export_calibrator(calibrator, "c", "float32", folder, "box-1")
    header = folder / "src" / "scare.h"
    text = header.read_text(encoding="utf-8")
    header.write_text(text.replace("#define SCARE_PAST 0", f"#define SCARE_PAST {past}"), encoding="utf-8")
    return folder


def one_channel() -> Calibrator:
    """The newest number of one channel."""
    plan = Plan(4, 1, (Step("newest", ("x",), "now"), Step("dense", ("now",), "y", {"weight": np.eye(1)})))
    scale, calibrator = Affine(np.array([20.0]), np.array([8.0])), make_calibrator(newest_plan(4))
    scaling = Scaling("standard", scale, scale, {"box-1": scale})
    inputs = replace(calibrator.inputs, channels=(DUST,), scaling=scaling)
    sample = Sample(np.zeros((1, 4, 1), np.float32), np.full(1, 20.0))
    return replace(calibrator, plan=plan.astype(np.float32), inputs=inputs, golden=sample, validation=sample)


def readings() -> np.ndarray:
    """A quiet walk of dust with spikes and a long time of no change; current is noise."""
    random = np.random.default_rng(5)
    dust = 30 + np.cumsum(random.normal(0, 0.3, 600))
    dust[[150, 300, 310]] += 40.0
    dust[400:500] = dust[400]
    return np.stack([dust, random.normal(300, 5, 600)], axis=1).clip(0, 1000).astype(np.float32)


def in_c(calibrator: Calibrator, folder: Path) -> list[int]:
    model = HostModel(read_export(exported(calibrator, folder, 1)))
    model.restart()
    answers = [model.take(60_000 * index, row)[1] for index, row in enumerate(readings())]
    return [int(np.frombuffer(answer, ANSWER_TYPE)["flags"][0]) for answer in answers]


def in_micropython(calibrator: Calibrator, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setitem(sys.modules, "scare_live", scare_live)
    export_calibrator(calibrator, "micropython", "float32", folder, "box-1")
    spec = spec_from_file_location("exported", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    stream = module.Calibration(past=True)
    return [stream.calibrate(60_000 * index, row.tolist())[3] for index, row in enumerate(readings())]


def test_c_and_micropython_flag_the_same_rows_as_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calibrator = with_edges(make_calibrator(newest_plan(4)))
    flagged = in_c(calibrator, tmp_path / "c")
    assert flagged == in_micropython(calibrator, tmp_path / "python", monkeypatch)
    live = calibrator.live("box-1")
    flags = [int(live.push(60.0 * index, row.astype(float)).flags) for index, row in enumerate(readings())]
    assert [flag & Flag.STUCK for flag in flagged] == [flag & Flag.STUCK for flag in flags]
    spikes, expected = (np.flatnonzero(np.array(each) & Flag.SPIKE) for each in (flagged, flags))
    assert {150, 300, 310} <= {*spikes.tolist()} & {*expected.tolist()}
    assert {*spikes.tolist()} <= {150, 151, 300, 301, 310, 311}  # the way back is a change too


def instructions(folder: Path) -> np.ndarray:
    """Instructions of every row after the first, which starts the stream."""
    model = VirtualModel(read_export(folder), board("nano33ble"))
    model.restart()
    rows = readings()[100:470, :1]  # same and changed ones, spikes, stuck ones
    return np.array([model.count(60_000 * index, row) for index, row in enumerate(rows)])[1:]


@pytest.mark.slow
def test_it_takes_few_instructions(tmp_path: Path) -> None:
    without, with_past = (instructions(exported(one_channel(), tmp_path / f"past_{past}", past)) for past in (0, 1))
    assert 0 < (with_past - without).min() <= (with_past - without).max() <= MOST_INSTRUCTIONS
