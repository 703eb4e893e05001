"""The same rows carry the same flags whichever way they go: as a table, in chunks, one by one, by the command.

C and MicroPython tell the flags that docs/flags.md says they tell, as a status.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import Plan, Step
from scare.cli.app import run
from scare.data.flags import NO_VALUE, UNUSABLE, Flag
from scare.data.readings import Readings
from scare.export.micropython_runtime import scare_live
from scare.export.package import export_calibrator
from scare.live.fleet import Fleet, Route
from tests.calibrator.building import EDGES, attention_plan, make_calibrator, make_readings
from tests.export.building import compile_models
from tests.export.test_micropython import load

ROWS = 400
EVERY = Flag(sum(Flag)) & ~Flag.RESTART & ~Flag.NOT_FINITE  # a table's times increase, a sound model's results are
PAGE = Path(__file__).parents[2] / "docs" / "flags.md"
STATUSES = ("OK", "HISTORY", "MISSING", "RANGE", "EARLY")  # in the order of scare.h


def messy_readings(device: str) -> Readings:
    """Rows that earn every flag there is."""
    rng = np.random.default_rng(3)
    values = rng.normal([20, 300], [2, 10], (ROWS, 2))
    values[90:160, 0] = 21.0  # stuck
    values[200] = 900.0, 300.0  # a spike, faster than dust can rise
    values[220, 1], values[221, 0], values[222, 0] = np.nan, -999.0, 5000.0
    waits = np.full(ROWS, 60.0)
    waits[250], waits[260], waits[300] = 20.0, 180.0, 7200.0  # too early, a gap, a new start
    return make_readings(1.7e9 + np.cumsum(waits), values, device=device)


def by_table(calibrator: Calibrator, readings: Readings) -> tuple[np.ndarray, np.ndarray]:
    frame = calibrator.predict(readings)
    return frame["calibrated"].fill_null(np.nan).to_numpy(), frame["flags"].to_numpy()


def in_chunks(calibrator: Calibrator, readings: Readings) -> tuple[np.ndarray, np.ndarray]:
    stream, cuts = calibrator.stream(readings.device), [1, 2, 95, 201, 222, 259, 260]
    rows = zip(np.split(readings.times, cuts), np.split(readings.values, cuts), strict=True)
    parts = [stream.push(*chunk) for chunk in rows]
    return np.concatenate([part.values for part in parts]), np.concatenate([part.flags for part in parts])


def live(calibrator: Calibrator, readings: Readings) -> tuple[np.ndarray, np.ndarray]:
    source = calibrator.live(readings.device)
    answers = [source.push(time, row) for time, row in zip(readings.times, readings.values, strict=True)]
    return np.array([one.value for one in answers]), np.array([int(one.flags) for one in answers], np.uint32)


def in_a_fleet(calibrator: Calibrator, readings: Readings) -> tuple[np.ndarray, np.ndarray]:
    fleet = Fleet({"model": calibrator}, (Route("*", "model"),))
    rows = zip(readings.times[:, None], readings.values[:, None], strict=True)
    pushed = [fleet.push((readings.device,), *row) for row in rows]
    return np.concatenate([one.values for one in pushed]), np.concatenate([one.flags for one in pushed])


def by_command(calibrator: Calibrator, readings: Readings, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    model, raw, out = (str(folder / name) for name in ("model.scare", "raw.parquet", "calibrated.parquet"))
    calibrator.save(model)
    readings.frame.drop("flags").write_parquet(raw)
    assert run(["predict", model, raw, "--device", readings.device, "--out", out]) == 0
    frame = pl.read_parquet(out)
    return frame["calibrated"].fill_null(np.nan).to_numpy(), frame["flags"].to_numpy()


@pytest.mark.parametrize("device", ["box-1", "never seen"])
def test_flags_and_values_are_the_same_everywhere(device: str, tmp_path: Path) -> None:
    calibrator, readings = make_calibrator(attention_plan(), settle=100, training_range=EDGES), messy_readings(device)
    values, flags = by_table(calibrator, readings)
    every = Flag(int(np.bitwise_or.reduce(flags)))
    assert every == (EVERY if device == "never seen" else EVERY & ~Flag.UNSETTLED)
    assert_array_equal(np.isnan(values), (flags & NO_VALUE) > 0)
    ways = {
        "chunks": in_chunks,
        "live": live,
        "fleet": in_a_fleet,
        "command": lambda *given: by_command(*given, tmp_path),
    }
    for way, calibrate in ways.items():
        other_values, other_flags = calibrate(calibrator, readings)
        assert_array_equal(other_flags, flags, err_msg=way)
        np.testing.assert_allclose(other_values, values, rtol=1e-5, err_msg=way)


def overflowing() -> Calibrator:
    """A calibrator whose results are numbers near its center only."""
    weight = {"weight": np.array([[1e38], [0.0]], np.float32)}
    return make_calibrator(Plan(5, 2, (Step("newest", ("x",), "now"), Step("dense", ("now",), "y", weight))))


@pytest.mark.parametrize("floor", [None, 0.0])
def test_a_result_that_is_no_number_is_none_and_flagged_everywhere(floor: float | None, tmp_path: Path) -> None:
    calibrator, readings = replace(overflowing(), floor=floor), messy_readings("box-1")
    values, flags = by_table(calibrator, readings)
    assert (values[200], flags[200] & NO_VALUE) == (pytest.approx(np.nan, nan_ok=True), Flag.NOT_FINITE)
    assert np.isnan(calibrator.predict_one(np.full((5, 2), 900.0), "box-1"))
    for calibrate in (in_chunks, live, in_a_fleet, lambda *given: by_command(*given, tmp_path)):
        other_values, other_flags = calibrate(calibrator, readings)
        assert_array_equal(other_flags, flags)
        assert_array_equal(np.isfinite(other_values), (flags & NO_VALUE) == 0)


def in_c(calibrator: Calibrator, folder: Path) -> Callable[[int, list[float]], tuple[int, float]]:
    export_calibrator(calibrator, "c", "float32", folder / "model", "box-1")
    return compile_models({"model": folder / "model"}, folder)["model"].push


def in_micropython(calibrator: Calibrator, folder: Path) -> Callable[[int, list[float]], tuple[int, float]]:
    board = load(export_calibrator(calibrator, "micropython", "float32", folder / "python", "box-1"))
    return lambda now, row: board.push(now, row)[::-1]


def statuses_by_flag() -> dict[Flag, set[str]]:
    """What a board says where a row has a flag, as the page of flags has it."""
    rows = re.findall(r"^\| (\d+) \|.*\| ([^|]*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {Flag(int(bit)): set(re.findall("SCARE_([A-Z_]+)", reported)) for bit, reported in rows}


@pytest.mark.parametrize("board", [in_c, in_micropython])
def test_a_board_says_of_such_a_result_that_it_is_none(
    board: Callable[[Calibrator, Path], Callable[[int, list[float]], tuple[int, float]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "scare_live", scare_live)
    push = board(overflowing(), tmp_path)
    pushed = [push(60_000 * row, [20.0, 300.0] if row < 9 else [900.0, 300.0]) for row in range(10)]
    assert pushed[-1] == (scare_live.NOT_FINITE, pytest.approx(np.nan, nan_ok=True))


@pytest.mark.parametrize("board", [in_c, in_micropython])
def test_a_board_tells_the_flags_that_the_page_says(
    board: Callable[[Calibrator, Path], Callable[[int, list[float]], tuple[int, float]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "scare_live", scare_live)
    calibrator, readings = make_calibrator(attention_plan()), messy_readings("box-1")
    values, flags = by_table(calibrator, readings)
    push, page = board(calibrator, tmp_path), statuses_by_flag()
    milliseconds = np.rint(1000 * (readings.times - readings.times[0])).astype(int)
    pushed = [push(int(now), row.tolist()) for now, row in zip(milliseconds, readings.values, strict=True)]
    np.testing.assert_allclose([value for _, value in pushed], values, rtol=1e-4)
    assert {STATUSES[status] for status, _ in pushed} == set(STATUSES)
    for (status, _), row_flags in zip(pushed, flags, strict=True):
        reasons = Flag(int(row_flags)) & (NO_VALUE | UNUSABLE)
        reported = set().union(*(page[flag] for flag in reasons))
        assert STATUSES[status] in (reported or {"OK"})
