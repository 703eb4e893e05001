"""An exported calibrator fed reading by reading gives what `live` and `predict` give, whatever the readings are."""

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import CORRECTIONS, bind
from scare.calibrator.plan import Plan, Step
from scare.calibrator.plan_passes import fold
from scare.data.flags import Flag
from scare.data.readings import Readings
from scare.export.c_source import print_number
from scare.export.lowering import compile_calibrator
from scare.export.package import export_calibrator
from scare.models import Scare
from scare.windowing.live_windows import LiveWindows
from scare.windowing.windows import RECENT, STRICT
from tests.calibrator.building import (
    attention_plan,
    bad_readings,
    curve_plan,
    make_calibrator,
    make_readings,
    newest_plan,
    tree_plan,
    with_edges,
)
from tests.contract.test_models import random_network
from tests.export.building import RUNTIME, LoadedModel, compile_models, compile_with_gcc, sources
from tests.kernels.test_choice import choice_plan

OK, HISTORY, MISSING, RANGE, EARLY = range(5)
ROWS = 600
WRAP = 2**32


def line_plan(window: int) -> Plan:
    """A weight for every number of the window."""
    weight = np.random.default_rng(6).normal(0, 0.3, (2 * window, 1)).astype(np.float32)
    return Plan(window, 2, (Step("flatten", ("x",), "all"), Step("dense", ("all",), "y", {"weight": weight})))


def scare_plan(window: int) -> Plan:
    """The preset's network, not trained."""
    return fold(random_network(Scare.default(), window, 2).plan()).astype(np.float32)


CALIBRATORS = {
    "newest": make_calibrator(newest_plan()),
    "one_row": make_calibrator(newest_plan(1)),
    "long_window": make_calibrator(newest_plan(100), policy=RECENT),
    "attention": make_calibrator(attention_plan()),
    "whole_window": make_calibrator(attention_plan(), policy=STRICT),
    "line": make_calibrator(line_plan(15)),
    "long_line": make_calibrator(line_plan(60)),
    "curve": make_calibrator(curve_plan()),
    "newest_curve": make_calibrator(curve_plan(5, hats=False)),
    "branches": make_calibrator(choice_plan()),
    "trees": make_calibrator(tree_plan()),
    "edges": with_edges(make_calibrator(curve_plan())),
    "newest_edges": with_edges(make_calibrator(newest_plan())),
    "six_hours": make_calibrator(line_plan(360), policy=RECENT),
    "six_hours_scare": make_calibrator(scare_plan(360), policy=RECENT),
}
FIXED = (
    "newest",
    "long_window",
    "line",
    "long_line",
    "curve",
    "newest_curve",
    "trees",
    "edges",
    "six_hours",
    "six_hours_scare",
)
PUBLISHED = {
    f"correction_{index}": bind(correction, {role.name: role.channel for role in correction.roles}, 60.0)
    for index, correction in enumerate(CORRECTIONS.values())
}
Built = dict[str, LoadedModel]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Everything exported and compiled: calibrators for box-1, some in fixed point too, and corrections."""
    folder = tmp_path_factory.mktemp("streaming")
    for name, calibrator in CALIBRATORS.items():
        export_calibrator(calibrator, "c", "float32", folder / name, "box-1", name)
    for name in FIXED:
        export_calibrator(CALIBRATORS[name], "c", "fixed", folder / f"{name}_fixed", "box-1", f"{name}_fixed")
    for name, calibrator in PUBLISHED.items():
        export_calibrator(calibrator, "c", "float32", folder / name, name=name)
    return compile_models({path.name: path for path in sorted(folder.iterdir())}, folder)


def readings_in_float32(seed: int) -> Readings:
    """Bad readings whose numbers a board can hold, with a silence of 90 minutes and one longer than any window."""
    readings = bad_readings(seed, ROWS)
    times = readings.times + 5400.0 * (np.arange(ROWS) >= ROWS // 3) + 36000.0 * (np.arange(ROWS) >= 2 * ROWS // 3)
    return make_readings(times, readings.values.astype(np.float32).astype(float))


def milliseconds(readings: Readings, start: int) -> list[int]:
    return [start + round(1000 * seconds) for seconds in readings.times - readings.times[0]]


def expected_status(flag: int, row: np.ndarray) -> int:
    """Of several numbers that cannot be used the first decides."""
    if flag & Flag.EARLY:
        return EARLY
    if flag & Flag.MISSING:
        dust_is_bad = np.isnan(row[0]) or row[0] < 0 or row[0] > 1000
        bad = row[0] if dust_is_bad else row[1]
        return RANGE if bad == -5.0 else MISSING
    return HISTORY if flag & Flag.HISTORY else OK


def close(values: np.ndarray, expected: np.ndarray, calibrator: Calibrator) -> None:
    spread = float(calibrator.inputs.scaling.target.scale[0])
    assert_allclose(values, expected, rtol=1e-5, atol=1e-5 * spread)


@pytest.mark.parametrize("name", CALIBRATORS)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_reading_by_reading_it_is_as_live_and_predict(built: Built, name: str, seed: int) -> None:
    calibrator, board = CALIBRATORS[name], built[name]
    readings = readings_in_float32(seed)
    start = WRAP - milliseconds(readings, 0)[ROWS // 2]  # the clock wraps around in the middle
    board.reset()
    live = calibrator.live("box-1")
    values, flags, statuses = np.empty(ROWS), np.empty(ROWS, int), np.empty(ROWS, int)
    expected = np.empty(ROWS)
    for index, now in enumerate(milliseconds(readings, start)):
        row = readings.values[index]
        statuses[index], values[index] = board.push(now, row)
        expected[index], _, _, flags[index] = live.push(float(readings.times[index]), row)
    assert_array_equal(statuses, [expected_status(*pair) for pair in zip(flags, readings.values, strict=True)])
    assert set(statuses) == {OK, MISSING, RANGE, EARLY} | ({HISTORY} if name != "one_row" else set())
    assert_array_equal(np.isnan(values), statuses != OK)
    close(values, expected, calibrator)
    table = calibrator.predict(readings)
    close(values, table["calibrated"].fill_null(np.nan).to_numpy(), calibrator)


def events() -> np.ndarray:
    """Readings in which events step to 0 … 50 times the largest that training had, as far as that is valid."""
    random, largest = np.random.default_rng(3), 20.0 + 3.0 * 8.0
    sizes = np.repeat([1.0, 0.0, 2.0, 5.0, 20.0, 50.0, 1.0], ROWS // 7 + 1)[:ROWS]
    first = np.where(sizes == 1.0, random.normal(20, 6, ROWS), sizes * largest).clip(0, 1000)
    return np.stack([first, random.normal(300, 40, ROWS)], axis=1).astype(np.float32)


def comparable_flags(flags: int) -> int:
    """What a board tells by the same rule as Python."""
    return flags & (Flag.HISTORY | Flag.OUTSIDE | Flag.RESTART)


@pytest.mark.parametrize("name", ["edges", "newest_edges"])
def test_beyond_training_it_is_as_live(built: Built, name: str) -> None:
    calibrator, board, live = CALIBRATORS[name], built[name], CALIBRATORS[name].live("box-1")
    board.reset()
    pushed = [board.calibrate(60_000 * index, row)[1] for index, row in enumerate(events())]
    expected = [live.push(60.0 * index, row.astype(float)) for index, row in enumerate(events())]
    assert [int(one["flags"]) for one in pushed] == [comparable_flags(one.flags) for one in expected]
    assert {Flag.HISTORY, 0, Flag.OUTSIDE} <= {int(one["flags"]) for one in pushed}
    close(np.array([one["value"] for one in pushed]), np.array([one.value for one in expected]), calibrator)
    with_spikes = np.array([one.flags & Flag.SPIKE > 0 for one in expected])  # wider in Python
    for end in ("low", "high"):
        pairs = np.array([(one[end], getattr(other, end)) for one, other in zip(pushed, expected, strict=True)])
        close(*pairs[~with_spikes | np.array([one.flags & Flag.OUTSIDE > 0 for one in expected])].T, calibrator)


def times_set_back(count: int) -> np.ndarray:
    """Seconds of readings: a clock far ahead for one of them, then set back by less and by more than a window."""
    waits = np.full(count, 60.0)
    waits[[200, 201]] = 4e8, -4e8 + 120.0
    waits[[300, 420, 500]] = -180.0, -7 * 86400.0, -60.0 * 400
    return 1.7e9 + np.cumsum(waits)


@pytest.mark.parametrize("name", CALIBRATORS)
def test_a_clock_that_is_set_back_is_as_live_and_stream(built: Built, name: str) -> None:
    calibrator, board, values = CALIBRATORS[name], built[name], readings_in_float32(6).values
    times = times_set_back(ROWS)
    board.reset()
    live = calibrator.live("box-1")
    now = np.rint(1000 * (times - times[0])).astype(np.int64) % WRAP
    pushed = [board.push(int(one), row) for one, row in zip(now, values, strict=True)]
    answers = [live.push(float(time), row) for time, row in zip(times, values, strict=True)]
    expected, flags = np.array([one.value for one in answers]), [int(one.flags) for one in answers]
    assert [status for status, _ in pushed] == [expected_status(*pair) for pair in zip(flags, values, strict=True)]
    assert np.flatnonzero(np.array(flags) & Flag.RESTART).tolist()[:1] == [201]
    assert np.isfinite(expected[[199, 419, 499]]).sum() >= 1
    close(np.array([value for _, value in pushed]), expected, calibrator)
    stream = calibrator.stream("box-1")
    parts = [stream.push(times[part], values[part]) for part in (slice(0, 201), slice(201, 450), slice(450, None))]
    assert_array_equal(np.concatenate([some.flags for some in parts]), flags)
    close(np.concatenate([some.values for some in parts]), expected, calibrator)


def test_a_restart_is_a_new_stream(built: Built) -> None:
    calibrator, board = CALIBRATORS["attention"], built["attention"]
    readings = readings_in_float32(3)
    board.reset()
    before = [board.push(now, row) for now, row in zip(milliseconds(readings, 5), readings.values, strict=True)]
    board.reset()
    again = [board.push(now, row) for now, row in zip(milliseconds(readings, 77), readings.values, strict=True)]
    assert_array_equal(before, again)
    board.reset()
    half = ROWS // 2
    pairs = zip(milliseconds(readings, 9)[half:], readings.values[half:], strict=True)
    values = np.array([board.push(now, row)[1] for now, row in pairs])
    stream = calibrator.stream("box-1").push(readings.times[half:], readings.values[half:]).values
    close(values, stream, calibrator)


@pytest.mark.parametrize("name", FIXED)
def test_fixed_point_c_equals_fixed_point_numpy(built: Built, name: str) -> None:
    calibrator, board, readings = CALIBRATORS[name], built[f"{name}_fixed"], readings_in_float32(5)
    live = LiveWindows(calibrator.inputs, ["box-1"])
    pushed = [board.push(*pair) for pair in zip(milliseconds(readings, WRAP - 500), readings.values, strict=True)]
    windows = [live.push_one(*pair)[0] for pair in zip(readings.times.tolist(), readings.values, strict=True)]
    assert [status == OK for status, _ in pushed] == [len(window) == 1 for window in windows]
    assert [status == OK for status, _ in pushed] == calibrator.predict(readings)["calibrated"].is_not_null().to_list()
    given = np.concatenate(windows)
    expected = replace(calibrator, plan=compile_calibrator(calibrator, "fixed").plan).compute(given)
    values = np.array([value for status, value in pushed if status == OK])
    # a reading within rounding of half a step may be one step apart: the board scales in float32
    assert np.isclose(values, expected, rtol=1e-6, atol=1e-5).mean() > 0.95
    assert_allclose(values, expected, atol=0.05)


@pytest.mark.parametrize(("name", "correction"), list(zip(PUBLISHED, CORRECTIONS, strict=True)))
def test_a_published_correction_gives_its_worked_examples(built: Built, name: str, correction: str) -> None:
    calibrator, roles = PUBLISHED[name], CORRECTIONS[correction].roles
    for index, vector in enumerate(CORRECTIONS[correction].vectors):
        reading = [vector[role.name] for role in roles]
        status, value = built[name].push(60000 * index, reading)
        assert status == OK
        assert value == pytest.approx(calibrator.golden.numbers[index], rel=1e-5)
        assert value == pytest.approx(calibrator.predict_one(np.array([reading])), rel=1e-5)


MAIN = """#include <stdio.h>
#include "scare.h"
#define NAN __builtin_nanf("")
extern const scare_model {names};
static const scare_model *const models[] = {{{pointers}}};
static const uint32_t times[] = {{{times}}};
static const float readings[][2] = {{{readings}}};
int main(void) {{
    static uint32_t memory[4096];
    for (unsigned m = 0; m < sizeof models / sizeof *models; m++) {{
        scare calibration;
        size_t bytes = 4 * SCARE_WORDS(models[m]->window * 8 + models[m]->checked / 8 + 8 + models[m]->scratch_bytes);
        if (scare_init(&calibration, models[m], memory, bytes) != SCARE_OK) return 1;
        for (unsigned i = 0; i < sizeof times / sizeof *times; i++) {{
            float calibrated;
            int status = scare_push(&calibration, times[i], readings[i], &calibrated);
            printf("%d %a\\n", status, (double)calibrated);
        }}
    }}
    return 0;
}}
"""


@pytest.mark.slow
def test_sanitizers_find_nothing_and_the_numbers_are_the_same(built: Built, tmp_path: Path) -> None:
    readings, names = readings_in_float32(4), [*CALIBRATORS, *(f"{name}_fixed" for name in FIXED)]
    set_back = 10**8 * (np.arange(ROWS) > 2 * ROWS // 3)  # a day
    times = (np.array(milliseconds(readings, WRAP - 1000)) - set_back).tolist()
    numbers = ["NAN" if np.isnan(one) else print_number(one) for one in readings.values.ravel()]
    main = MAIN.format(
        names=", ".join(names),
        pointers=", ".join(f"&{name}" for name in names),
        times=", ".join(f"{time % WRAP}u" for time in times),
        readings=", ".join(f"{{{one}, {other}}}" for one, other in zip(numbers[::2], numbers[1::2], strict=True)),
    )
    (tmp_path / "main.c").write_text(main)
    files = [tmp_path / "main.c", *(built[name].source for name in names), *sources(RUNTIME)]
    flags = ("-std=c99", "-g", "-O1", "-ffp-contract=off", f"-I{RUNTIME}", "-lm")
    sanitizers = ("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")
    program = compile_with_gcc(files, tmp_path / "program", *flags, *sanitizers)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    printed = np.array([[float(status), float.fromhex(value)] for status, value in lines])
    for name, part in zip(names, printed.reshape(-1, ROWS, 2), strict=True):
        built[name].reset()
        pushed = [built[name].push(now, row) for now, row in zip(times, readings.values, strict=True)]
        assert_array_equal(part, pushed)
