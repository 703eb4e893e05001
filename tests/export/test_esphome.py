"""The ESPHome component computes what the calibrator's live stream does, and keeps nothing that is too old."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from scare.calibrator.calibrator import Calibrator
from scare.data.flags import Flag
from scare.export.esphome import COMPONENT, input_keys
from scare.export.package import export_calibrator
from scare.export.target import to_ascii
from tests.calibrator.building import attention_plan, curve_plan, make_calibrator, with_edges
from tests.export.building import sources
from tests.export.compilers import c, call, cpp

STUB = Path(__file__).with_name("esphome_stub")
NETWORK = with_edges(make_calibrator(attention_plan()))
STEP_MS = 60_000
REASONS = Flag.RANGE | Flag.MISSING | Flag.EARLY | Flag.HISTORY
ON_BOARD = REASONS | Flag.RESTART | Flag.OUTSIDE  # what a board can tell
SILENT = "-"
Run = Callable[..., list[list[float]]]


def build(calibrator: Calibrator, arithmetic: str, scratch: Path) -> Run:
    """Exported and compiled: lines for `main.cpp` of the stub in, its rows of raw, calibrated, flags, low, high out."""
    folder = export_calibrator(calibrator, "esphome", arithmetic, scratch / "out", "box-2").folder / COMPONENT
    call([*c(), "-c", *sources(folder)], scratch)
    includes = [f"-I{folder}", f"-I{STUB}"]
    files = [STUB / "main.cpp", folder / "calibration.cpp", *scratch.glob("*.o")]
    call([*cpp("gnu++20"), *includes, *files, "-lm", "-o", "node"], scratch)

    def run(lines: Sequence[str], stale_ms: int = 2 * STEP_MS, skip: bool = False) -> list[list[float]]:
        typed = "".join(f"{line}\n" for line in lines)
        printed = call([scratch / "node", stale_ms, int(skip)], scratch, typed)
        return [[float(cell) for cell in line.split(",")] for line in printed.splitlines()]

    return run


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return build(NETWORK, "float32", tmp_path_factory.mktemp("float32"))


@pytest.fixture(scope="module")
def integer_node(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return build(make_calibrator(curve_plan(12)), "fixed", tmp_path_factory.mktemp("fixed"))


def live_rows(calibrator: Calibrator, times_ms: Sequence[int], rows: np.ndarray) -> list[list[float]]:
    live, expected = calibrator.live("box-2"), []
    for time, row in zip(times_ms, rows, strict=True):
        value, low, high, flag = live.push(time / 1000, row)
        reported = Flag.EARLY if flag & Flag.EARLY else flag & ON_BOARD  # a board does not look at a row that is early
        if flag & Flag.SPIKE and not flag & Flag.OUTSIDE and calibrator.intervals:  # a board does not widen it for that
            low, high = (
                float(end[0]) for end in calibrator.intervals.around(np.array([value]), np.zeros(1, np.uint32))
            )
        expected.append([float(row[0]), value, float(reported), low, high])
    return expected


def feed(times_ms: Sequence[int], rows: np.ndarray) -> list[str]:
    """Every row is published and read at once; the clock wraps around."""
    return [
        f"{time % 2**32} {dust:.9g} {current:.9g} update" for time, (dust, current) in zip(times_ms, rows, strict=True)
    ]


DUST = st.one_of(st.floats(0, 60, width=32), st.sampled_from([np.nan, -5.0, 2000.0]))
CURRENT = st.one_of(st.floats(100, 500, width=32), st.just(np.nan))
JUMP_MS = st.sampled_from([STEP_MS] * 8 + [STEP_MS - 9, STEP_MS + 9, STEP_MS // 3, 3 * STEP_MS, 40 * STEP_MS])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(JUMP_MS, DUST, CURRENT), min_size=1, max_size=60), st.integers(0, 2**32 - 1))
def test_values_and_flags_are_those_of_the_live_stream(
    node: Run, readings: list[tuple[int, float, float]], start_ms: int
) -> None:
    jumps, *columns = zip(*readings, strict=True)
    times, rows = [start_ms + int(ms) for ms in np.cumsum(jumps)], np.array(columns, np.float32).T.astype(float)
    expected = live_rows(NETWORK, times, rows)
    assert_allclose(node(feed(times, rows)), expected, rtol=2e-5, atol=2e-5 * 6)


@pytest.mark.slow
@pytest.mark.parametrize("start_ms", [0, 2**32 - 10 * STEP_MS])
def test_both_arithmetics_give_values_also_when_the_clock_wraps(node: Run, integer_node: Run, start_ms: int) -> None:
    rng = np.random.default_rng(1)
    rows = np.column_stack([rng.uniform(10, 40, 40), rng.uniform(150, 350, 40)]).astype(np.float32).astype(float)
    rows[20] = np.nan
    times = [start_ms + i * STEP_MS for i in range(len(rows))]
    for run, calibrator, share in ((node, NETWORK, 2e-5), (integer_node, make_calibrator(curve_plan(12)), 0.02)):
        given_rows, expected = run(feed(times, rows)), live_rows(calibrator, times, rows)
        assert_allclose(given_rows, expected, rtol=share, atol=share * 6)
        assert np.isfinite(np.array(expected)[:, 1]).sum() > 25
        assert given_rows[20][2] == Flag.MISSING


# rows are made of what sensors publish


def test_a_row_is_the_mean_of_what_was_published_since_the_last(node: Run) -> None:
    lines = ["0 20 300 -", "1000 22 - -", "2000 27 - -", "60000 - - update", "61000 31 300 -", "120000 - - update"]
    assert [row[0] for row in node(lines)] == [23.0, 31.0]


@pytest.mark.parametrize(("skip", "raw", "flags"), [(False, np.nan, Flag.MISSING), (True, 25.0, Flag.HISTORY)])
def test_nan_is_missing_or_skipped(node: Run, skip: bool, raw: float, flags: Flag) -> None:
    lines = ["0 20 300 -", "1000 nan - -", "2000 30 - -", "60000 - - update"]
    assert_allclose(node(lines, skip=skip), [[raw, np.nan, flags, np.nan, np.nan]])


def test_a_silent_sensor_counts_until_it_is_stale(node: Run) -> None:
    lines = ["0 20 300 -"] + [f"{time} - 300 update" for time in range(60_000, 360_000, 60_000)]
    raw = [row[0] for row in node([*lines, "360000 21 300 update"], stale_ms=150_000)]
    assert_allclose(raw, [20.0, 20.0, np.nan, np.nan, np.nan, 21.0])


def test_a_sensor_that_never_published_is_missing(node: Run) -> None:
    assert_allclose(node(["1000 20 - update"]), [[20.0, np.nan, Flag.MISSING, np.nan, np.nan]])


# what is in the folder


def test_the_component_knows_its_model(tmp_path: Path) -> None:
    library = export_calibrator(NETWORK, "esphome", "float32", tmp_path / "out", name="no2").folder
    facts = json.loads((library / COMPONENT / "scare_model_no2.json").read_text(encoding="utf-8"))
    assert (facts["name"], facts["window"], facts["step_ms"]) == ("no2", 12, STEP_MS)
    assert facts["inputs"] == ["pm25", "current"]
    assert facts["unit"] == "µg/m³"
    assert facts["device_class"] == "pm25"
    assert not [path for path in (library / COMPONENT).iterdir() if path.is_dir()]  # ESPHome takes no folders


def test_keys_of_channels_are_words_in_yaml() -> None:
    names = ["NO", "no [2]", "PM₂.₅", "no-2", "???"]
    assert input_keys(map(to_ascii, names)) == ["channel_no", "no_2", "pm2_5", "no_2_2", "value"]
