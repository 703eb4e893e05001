"""A board with MicroPython goes on from its stored bytes as if it had never been off; others' bytes are refused."""

import sys
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from scare.data.flags import Flag
from scare.export.micropython_runtime import scare_live, scare_settle
from scare.export.micropython_runtime.scare_live import HISTORY, OK, Stream
from scare.export.micropython_runtime.scare_store import DAMAGED, FOREIGN, restore, store
from scare.export.package import Package, export_calibrator
from tests.calibrator.building import make_calibrator
from tests.export.micropython_environment import find_micropython
from tests.kernels.test_choice import choice_plan
from tests.parity.test_storing import CALIBRATORS, CLOCK, STEP_MS, Night, nights

EVERY = {**CALIBRATORS, "branches": make_calibrator(choice_plan())}
DAY = 86_400_000
Packages, Kinds = dict[str, Package], dict[str, type[Stream]]
GO_ON = """
from model import Calibration
from scare_store import restore, store

calibration = Calibration(past=True)
for now_ms, reading, off in {rows}:
    if off:
        blob = store(calibration, now_ms)
        calibration = Calibration(past=True)
        print("restored", restore(calibration, now_ms, blob), len(blob))
        damaged = bytearray(blob)
        damaged[len(blob) // 2] ^= 4
        print("damaged", restore(calibration, now_ms, bytes(damaged)), 0)
    print(*calibration.calibrate(now_ms, reading))
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    folder = tmp_path_factory.mktemp("stored")
    return {name: export_calibrator(one, "micropython", "float32", folder / name) for name, one in EVERY.items()}


@pytest.fixture(scope="module")
def kinds(packages: Packages) -> Kinds:
    """The exported classes, with the modules that they import."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "scare_live", scare_live)
        patch.setitem(sys.modules, "scare_settle", scare_settle)
        found = {}
        for name, package in packages.items():
            spec = spec_from_file_location(name, package.folder / package.artefact.model)
            assert spec is not None
            assert spec.loader is not None
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            found[name] = module.Calibration
    return found


def answers(kind: type[Stream], night: Night, off: frozenset[int]) -> np.ndarray:
    """What a fresh device answers, which is off before these readings."""
    stream, rows = kind(past=True), []
    for index, (now, row) in enumerate(zip(night.times.tolist(), night.values, strict=True)):
        if index in off:
            blob = store(stream, int(night.times[max(index - 1, 0)]) + 5)
            stream = kind(past=True)
            assert restore(stream, now, blob) == OK
        rows.append(stream.calibrate(now, row[: len(kind.channels)].tolist()))
    return np.array(rows)


@pytest.mark.parametrize("name", EVERY)
@settings(deadline=None, max_examples=25)
@given(night=nights())
def test_it_goes_on_as_if_it_had_never_been_off(kinds: Kinds, name: str, night: Night) -> None:
    assert_array_equal(answers(kinds[name], night, night.off), answers(kinds[name], night, frozenset()))


def running(kind: type[Stream], rows: int = 40) -> tuple[Stream, int]:
    """A stream after some readings, and the time of the last one."""
    stream = kind(past=True)
    for index in range(rows):
        now = CLOCK + index * STEP_MS
        stream.calibrate(now, [20.0 + index % 5] * len(kind.channels))
    return stream, now


@pytest.mark.parametrize("name", ["one_new", "three"])
@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_damage_is_refused_and_changes_nothing(kinds: Kinds, name: str, data: st.DataObject) -> None:
    stream, now = running(kinds[name])
    blob = store(stream, now)
    damaged = bytearray(blob)
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(blob) - 1)) :]
    else:
        for bit in data.draw(st.sets(st.integers(0, 8 * len(blob) - 1), min_size=1, max_size=8)):
            damaged[bit // 8] ^= 1 << bit % 8
    other = kinds[name](past=True)
    before = store(other, now)
    assert restore(other, now, bytes(damaged)) == DAMAGED
    assert store(other, now) == before
    for foreign in (kind for kept, kind in kinds.items() if kept != name):
        assert restore(foreign(), now, blob) == FOREIGN


@pytest.mark.parametrize("days", [-30, 24.8, 30, 49.71, 400])
def test_after_24_days_only_what_settling_found_is_left(kinds: Kinds, days: float) -> None:
    stream, now = running(kinds["one_new"])
    later, blob = now + round(days * DAY), store(stream, now)
    again = kinds["one_new"](past=True)
    assert restore(again, later, blob) == OK
    answered = [again.calibrate(later + (index + 1) * STEP_MS, [20.0]) for index in range(30)]
    assert not any(flags & Flag.UNSETTLED for _, _, _, flags, _ in answered)
    assert (answered[0][4], answered[-1][4]) == (HISTORY, OK)


@pytest.mark.parametrize("name", EVERY)
def test_the_readme_says_how_many_bytes(packages: Packages, kinds: Kinds, name: str) -> None:
    text = (packages[name].folder / "README.md").read_text("utf-8")
    assert f"gives {len(store(kinds[name](), 0))} bytes" in " ".join(text.split())


def test_micropython_itself_goes_on(packages: Packages, kinds: Kinds) -> None:
    micropython, folder, random = find_micropython(), packages["three_new"].folder, np.random.default_rng(3)
    values = random.normal([22, 280, 190], [3, 40, 30], (60, 3)).clip(0.5).astype(np.float32)
    night = Night(CLOCK + STEP_MS * np.arange(60), values, frozenset((0, 9, 31, 45)))
    off = [index in night.off for index in range(len(values))]
    rows = list(zip(night.times.tolist(), values.tolist(), off, strict=True))
    (folder / "go_on.py").write_text(GO_ON.format(rows=rows))
    done = micropython("go_on.py", folder)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[1] for line in lines if line[0] == "restored"] == ["0"] * 4
    assert [line[1] for line in lines if line[0] == "damaged"] == [str(DAMAGED)] * 4
    printed = np.array([line for line in lines if len(line) == 5], float)
    expected = answers(kinds["three_new"], night, frozenset())
    assert_array_equal(printed[:, 3:], expected[:, 3:])
    np.testing.assert_allclose(printed[:, :3], expected[:, :3], rtol=1e-5)
