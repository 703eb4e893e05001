"""A model in plain Python computes the plan, takes readings as `live` does, and runs on MicroPython."""

import json
import re
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.board.verify_export import run_python_module
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import run
from scare.calibrator.plan_passes import fold
from scare.data.flags import Flag
from scare.errors import DataError, NotApplicableError, UsageError
from scare.export.c_source import runtime_sources
from scare.export.micropython_runtime import scare_live
from scare.export.micropython_runtime.scare_live import EARLY, HISTORY, MEANINGS, MISSING, NOT_FINITE, OK, RANGE, Stream
from scare.export.package import Package, export_calibrator
from scare.export.scare_json import GOLDEN, GoldenVectors
from tests.calibrator.building import attention_plan, make_calibrator, newest_plan
from tests.contract.test_models import CASES, random_network
from tests.export.micropython_environment import MicroPython, find_micropython
from tests.export.printed import cells, compare, correction
from tests.parity.test_streaming import (
    CALIBRATORS,
    PUBLISHED,
    ROWS,
    WRAP,
    close,
    comparable_flags,
    events,
    expected_status,
    milliseconds,
    readings_in_float32,
    times_set_back,
)

WINDOW = 16
CHECK = """
import json
from array import array
from model import Calibration

with open("windows.json") as file:
    windows = json.load(file)
calibration = Calibration()
for window in windows:
    calibration.reset()
    print(calibration.compute(array("f", window)))
"""
PUSH = """
from model import Calibration

nan = float("nan")
calibration = Calibration()
for now_ms, reading in {rows}:
    print(*calibration.push(now_ms, reading))
"""


def random_calibrator(name: str) -> Calibrator:
    return make_calibrator(fold(random_network(CASES[name], WINDOW, 2).plan()).astype(np.float32))


def load(package: Package) -> Stream:
    """A calibration of the module in a folder."""
    spec = spec_from_file_location("exported", package.folder / package.artefact.model)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Calibration()


@pytest.fixture(autouse=True)
def _runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a module imports beside it."""
    monkeypatch.setitem(sys.modules, "scare_live", scare_live)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    calibrator = make_calibrator(attention_plan())
    return export_calibrator(calibrator, "micropython", "float32", tmp_path_factory.mktemp("python") / "out", "box-2")


# what it computes


@pytest.mark.parametrize("name", CASES)
def test_every_model_computes_its_plan(name: str, tmp_path: Path) -> None:
    calibrator = random_calibrator(name)
    written = export_calibrator(calibrator, "micropython", "float32", tmp_path / "out")
    windows = np.random.default_rng(1).normal(size=(20, WINDOW, 2)).astype(np.float32)
    target = calibrator.inputs.scaling.target
    scaled = target.apply(run_python_module(written.folder, "model", windows)[:, None])[:, 0]
    expected = run(calibrator.plan, windows)
    assert (np.abs(scaled - expected) <= 1e-5 * np.maximum(np.abs(expected), 1.0)).all()


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_correction_computes_its_formula(name: str, tmp_path: Path) -> None:
    calibrator = PUBLISHED[name]
    written = export_calibrator(calibrator, "micropython", "float32", tmp_path / "out")
    windows = calibrator.golden.windows
    assert_allclose(
        run_python_module(written.folder, "model", windows), calibrator.compute(windows), rtol=1e-5, atol=1e-5
    )


def test_windows_that_are_no_numbers_give_nan(package: Package) -> None:
    windows = np.full((2, 12, 2), [[[np.nan]], [[np.inf]]], np.float32)
    assert np.isnan(run_python_module(package.folder, "model", windows)).all()


# readings


@pytest.mark.parametrize("name", [name for name in CALIBRATORS if not name.startswith("six_hours")])
def test_reading_by_reading_it_is_as_live(name: str, tmp_path: Path) -> None:
    calibrator = CALIBRATORS[name]
    board = load(export_calibrator(calibrator, "micropython", "float32", tmp_path / "out", "box-1", "one"))
    readings, live = readings_in_float32(1), calibrator.live("box-1")
    start = WRAP - milliseconds(readings, 0)[ROWS // 2]  # the clock wraps around in the middle
    pairs = zip(milliseconds(readings, start), readings.values.tolist(), strict=True)
    values, statuses = map(np.array, zip(*(board.push(now % WRAP, row) for now, row in pairs), strict=True))
    pairs = zip(readings.times.tolist(), readings.values, strict=True)
    expected, _, _, flags = map(np.array, zip(*(live.push(time, row) for time, row in pairs), strict=True))
    assert_array_equal(statuses, [expected_status(*pair) for pair in zip(flags, readings.values, strict=True)])
    assert set(statuses) == {OK, MISSING, RANGE, EARLY} | ({HISTORY} if name != "one_row" else set())
    assert_array_equal(np.isnan(values), statuses != OK)
    close(values, expected, calibrator)


@pytest.mark.parametrize("name", ["edges", "newest_edges"])
def test_beyond_training_it_is_as_live(name: str, tmp_path: Path) -> None:
    calibrator, live = CALIBRATORS[name], CALIBRATORS[name].live("box-1")
    board = load(export_calibrator(calibrator, "micropython", "float32", tmp_path / "out", "box-1", "one"))
    pushed = [board.calibrate(60_000 * index, row.tolist()) for index, row in enumerate(events())]
    expected = [live.push(60.0 * index, row.astype(float)) for index, row in enumerate(events())]
    assert [flags for _, _, _, flags, _ in pushed] == [comparable_flags(one.flags) for one in expected]
    numbers, others = (np.array([one[:3] for one in some]) for some in (pushed, expected))
    close(numbers[:, 0], others[:, 0], calibrator)
    alike = [bool(one.flags & Flag.OUTSIDE or not one.flags & Flag.SPIKE) for one in expected]  # SPIKE is wider
    close(numbers[alike], others[alike], calibrator)


@pytest.mark.parametrize("name", ["one_row", "attention", "branches"])
def test_a_clock_that_is_set_back_is_as_live(name: str, tmp_path: Path) -> None:
    calibrator = CALIBRATORS[name]
    board = load(export_calibrator(calibrator, "micropython", "float32", tmp_path / "out", "box-1", "one"))
    times, values, live = times_set_back(ROWS), readings_in_float32(6).values, calibrator.live("box-1")
    pushed = [board.push(round(1000 * (now - times[0])) % WRAP, row) for now, row in zip(times, values, strict=True)]
    answers = [live.push(float(time), row) for time, row in zip(times, values, strict=True)]
    expected = [expected_status(int(one.flags), row) for one, row in zip(answers, values, strict=True)]
    assert [status for _, status in pushed] == expected
    close(np.array([value for value, _ in pushed]), np.array([one.value for one in answers]), calibrator)


def test_a_restart_is_a_new_stream(tmp_path: Path) -> None:
    board = load(export_calibrator(CALIBRATORS["branches"], "micropython", "float32", tmp_path / "out", "box-1"))
    readings = readings_in_float32(3)
    rows = list(zip(milliseconds(readings, 5), readings.values.tolist(), strict=True))[:100]
    before = [board.push(now, row) for now, row in rows]
    board.reset()
    assert_array_equal([board.push(now, row) for now, row in rows], before)


def test_two_sensors_share_a_model_and_nothing_else(tmp_path: Path) -> None:
    one = load(export_calibrator(make_calibrator(newest_plan(1)), "micropython", "float32", tmp_path / "out", "box-1"))
    other = type(one)()
    assert one.push(0, [20.0, 300.0])[1] == other.push(7, [30.0, 200.0])[1] == OK
    assert one.push(60_000, [20.0, 300.0]) != other.push(60_007, [30.0, 200.0])


def test_a_result_that_is_no_number_has_its_status() -> None:
    class Endless(Stream):
        channels = ((-1e30, 1e30, 0.0, 0.0, 1.0, -1e38, 1e38, -1e38, 1e38),)

        def run(self, rows: Any) -> float:
            return 1e39 * rows[0] / rows[0]

    value, status = Endless().push(0, [1.0])
    assert np.isnan(value)
    assert status == NOT_FINITE
    assert Endless().push(0, [0.0])[1] == NOT_FINITE


def test_a_reading_of_other_length_is_refused() -> None:
    with pytest.raises(ValueError, match="one number for each channel"):
        Stream().push(0, [1.0, 2.0])


@given(st.integers(0, WRAP - 1), st.integers(0, WRAP - 1), st.integers(1, WRAP // 2 - 1))
def test_rows_between_readings_are_counted_as_in_c(before: int, after: int, step: int) -> None:
    stream = Stream()
    stream.step_ms, stream._last_ms = step, before
    elapsed = (after - before) % WRAP
    rest = elapsed % step
    expected = 0 if elapsed > WRAP // 2 - 1 else elapsed // step + (rest >= step - rest)
    assert stream._rows_since(after) == expected


def test_statuses_mean_what_they_mean_in_c() -> None:
    the_printed = dict(re.findall(r'case SCARE_(\w+): return "(.*)";', runtime_sources()["scare.c"]))
    numbers = {name: getattr(scare_live, name) for name in ("OK", "HISTORY", "MISSING", "RANGE", "EARLY", "NOT_FINITE")}
    assert [the_printed[name] for name in sorted(numbers, key=numbers.__getitem__)] == list(MEANINGS)
    for name, number in numbers.items():
        assert f"SCARE_{name} = {number}," in runtime_sources()["scare.h"]


# the folder


def test_the_files_are_these(package: Package) -> None:
    modules, others = {"model.py", "scare_live.py", "scare_store.py", "main.py"}, {"golden.safetensors", "scare.json"}
    assert {path.name for path in package.folder.iterdir()} == {
        *modules,
        *others,
        "README.md",
        "LICENSE",
        "package.json",
    }
    listed = json.loads((package.folder / "package.json").read_text(encoding="utf-8"))["urls"]
    assert listed == [[name, name] for name in ("model.py", "scare_live.py", "scare_store.py")]  # what mip copies


def test_golden_windows_have_their_results(package: Package) -> None:
    expected = GoldenVectors.read(package.folder / GOLDEN)
    results = run_python_module(package.folder, "model", expected.windows)
    assert len(results) == 3
    assert (np.abs(results - expected.results) <= expected.tolerances).all()


def test_a_zip_unpacked_runs_too(tmp_path: Path) -> None:
    calibrator = make_calibrator()
    export_calibrator(calibrator, "micropython", "float32", tmp_path / "pm.zip")
    shutil.unpack_archive(tmp_path / "pm.zip", tmp_path / "unpacked")
    windows = calibrator.golden.windows
    assert_allclose(
        run_python_module(tmp_path / "unpacked" / "pm", "model", windows), calibrator.compute(windows), rtol=1e-5
    )


def test_the_same_calibrator_gives_the_same_bytes(package: Package, tmp_path: Path) -> None:
    again = export_calibrator(make_calibrator(attention_plan()), "micropython", "float32", tmp_path / "again", "box-2")
    for path in again.folder.iterdir():
        assert path.read_bytes() == (package.folder / path.name).read_bytes()


def test_the_example_prints_what_the_calibrator_gives(tmp_path: Path) -> None:
    calibrator = correction("barkjohn-2021")
    written = export_calibrator(calibrator, "micropython", "float32", tmp_path / "out", name="pm25")
    done = subprocess.run(
        [sys.executable, "-B", written.folder / "main.py"], capture_output=True, text=True, check=True
    )
    assert compare(calibrator, cells(done.stdout)[1:]) >= 50


def test_the_readme_is_true(
    package: Package, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loop adds up a clock that wraps around at 2^30 ms, as most boards' does."""
    (example,) = re.findall(r"```python\n(.*?)```", (package.folder / "README.md").read_text("utf-8"), re.DOTALL)
    period, now = 1 << 30, [(1 << 30) - 150_000]

    def sleep(ms: int) -> None:
        now[0] += ms
        if now[0] > period + 1_000_000:
            raise KeyboardInterrupt

    def difference(late: int, early: int) -> int:
        return (late - early + period // 2) % period - period // 2

    ticks = SimpleNamespace(
        ticks_ms=lambda: now[0] % period, sleep_ms=sleep, ticks_diff=difference, ticks_add=lambda a, b: (a + b) % period
    )
    monkeypatch.setitem(sys.modules, "time", ticks)
    monkeypatch.setitem(sys.modules, "model", ModuleType("model"))
    sys.modules["model"].Calibration = type(load(package))  # type: ignore[attr-defined]
    names: dict[str, Any] = {}
    exec(example, names)
    with pytest.raises(KeyboardInterrupt):
        names["loop"]()
    assert len(capsys.readouterr().out.split()) == 20 - names["calibration"].checked + 1


@pytest.mark.parametrize("name", ["class", "array", "machine", "main", "scare_live", "Model", "a b", "", "x" * 32])
def test_names_that_python_could_not_import_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot name a module"):
        export_calibrator(make_calibrator(), "micropython", "float32", tmp_path / "out", name=name)
    assert not (tmp_path / "out").exists()


def test_integers_are_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(NotApplicableError, match="gains nothing from fixed point"):
        export_calibrator(make_calibrator(), "micropython", "fixed", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_module_that_does_not_run_is_refused(tmp_path: Path, package: Package) -> None:
    shutil.copytree(package.folder, tmp_path / "spoilt")
    (tmp_path / "spoilt" / "model.py").write_text("import nothing_like_it\n")
    with pytest.raises(DataError, match="does not run: ModuleNotFoundError"):
        run_python_module(tmp_path / "spoilt", "model", np.zeros((1, 12, 2)))


# on MicroPython


@pytest.fixture(scope="module")
def micropython() -> MicroPython:
    return find_micropython()


@pytest.mark.parametrize("name", [*CASES, "branches", "trees"])
def test_micropython_computes_the_same(name: str, micropython: MicroPython, tmp_path: Path) -> None:
    calibrator = CALIBRATORS[name] if name in CALIBRATORS else random_calibrator(name)
    folder = export_calibrator(calibrator, "micropython", "float32", tmp_path / "out").folder
    expected = GoldenVectors.read(folder / GOLDEN)
    (folder / "windows.json").write_text(json.dumps(expected.windows.reshape(len(expected.windows), -1).tolist()))
    (folder / "check.py").write_text(CHECK)
    done = micropython("check.py", folder)
    assert done.returncode == 0, done.stderr
    assert (np.abs(np.array(done.stdout.split(), float) - expected.results) <= expected.tolerances).all()


@pytest.mark.parametrize("name", ["attention", "branches", "long_window"])
def test_micropython_takes_bad_readings_as_python_does(name: str, micropython: MicroPython, tmp_path: Path) -> None:
    written = export_calibrator(CALIBRATORS[name], "micropython", "float32", tmp_path / "out", "box-1")
    readings = readings_in_float32(2)
    times = milliseconds(readings, WRAP - milliseconds(readings, 0)[100])
    rows = [(now % WRAP, row) for now, row in zip(times, readings.values.tolist(), strict=True)][:250]
    (written.folder / "push.py").write_text(PUSH.format(rows=rows))
    done = micropython("push.py", written.folder)
    assert done.returncode == 0, done.stderr
    board, printed = load(written), np.array([line.split() for line in done.stdout.splitlines()], float)
    values, statuses = np.array([board.push(now, row) for now, row in rows]).T
    assert_array_equal(printed[:, 1], statuses)
    assert_allclose(printed[:, 0], values, rtol=1e-5)


def test_micropython_runs_the_example(micropython: MicroPython, package: Package) -> None:
    done = micropython("main.py", package.folder)
    assert done.returncode == 0, done.stderr
    assert sum(row[-1] == MEANINGS[OK] for row in cells(done.stdout)) > 60
