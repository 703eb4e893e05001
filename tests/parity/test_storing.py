"""A board that loses power goes on from its blob as if nothing had happened; a blob that is not its own is refused."""

import ctypes
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.plan_passes import fold
from scare.data.flags import Flag
from scare.export.lowering import Arithmetic, compile_calibrator
from scare.export.package import export_calibrator
from scare.models import Scare
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.training_range import TrainingRange
from scare.windowing.windows import RECENT
from tests.calibrator.building import CURRENT, DUST, curve_plan, make_calibrator, with_edges
from tests.contract.test_models import random_network
from tests.export.building import PAST, PAST_BYTES, SETTLE, LoadedModel, compile_models
from tests.kernels.test_choice import choice_plan

OK, HISTORY, MEMORY, ARGUMENT, DAMAGED, FOREIGN = 0, 1, 6, 7, 8, 9
STEP_MS, NEW, WINDOW = 60_000, "box-7", 24
CLOCK = 2**32 - 20 * STEP_MS  # its low 32 bits wrap around soon
COMPARED = Flag.MISSING | Flag.EARLY | Flag.HISTORY | Flag.UNSETTLED | Flag.RESTART | Flag.OUTSIDE


def of_channels(count: int, settle: int = 0) -> Calibrator:
    """A curve of dust and up to two currents; for a new device, with `settle`, dust and the last one settle."""
    plain = with_edges(make_calibrator())
    fleet = Affine(np.array([22.0, 280.0, 190.0])[:count], np.array([8.5, 55.0, 40.0])[:count])
    share = np.array([0.75, 0.0, 1.0])[:count] if settle else None
    devices = {} if settle else {"box-1": fleet}
    ends = (np.full(count, number) for number in (-2.5, 3.0, -3.0, 4.0))
    inputs = replace(
        plain.inputs,
        channels=(DUST, CURRENT, replace(CURRENT, name="other"))[:count],
        scaling=Scaling("standard", fleet, plain.inputs.scaling.target, devices, settle, own_share=share),
        training_range=TrainingRange(
            *map(tuple, ends), (0.0,) * count, tuple(map(tuple, np.eye(count))), 9.0, 4.0, slope=0.75, lower_bound=-2.0
        ),
        quality=replace(plain.inputs.quality, stuck_rows=6),
    )
    sample = Sample(np.random.default_rng(2).normal(size=(6, WINDOW, count)).astype(np.float32), np.zeros(6))
    plan = curve_plan(WINDOW, count)
    return replace(plain, plan=plan, inputs=replace(inputs, window=WINDOW), golden=sample, validation=sample)


CALIBRATORS = {
    "one": of_channels(1),
    "three": of_channels(3),
    "one_new": of_channels(1, settle=30),
    "three_new": of_channels(3, settle=30),
}
MODELS = [f"{name}_{arithmetic}" for name in CALIBRATORS for arithmetic in Arithmetic]
Built = dict[str, LoadedModel]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Every calibrator in both arithmetics, and one that keeps the choice of a branch."""
    folder = tmp_path_factory.mktemp("storing")
    for model in MODELS:
        name, _, arithmetic = model.rpartition("_")
        export_calibrator(CALIBRATORS[name], "c", arithmetic, folder / model, name=model)
    export_calibrator(make_calibrator(choice_plan()), "c", "float32", folder / "branches", "box-1", "branches")
    return compile_models({path.name: path for path in sorted(folder.iterdir())}, folder, PAST, SETTLE)


WAITS = st.sampled_from([1.0] * 14 + [0.3, 2.0, 3.0, 7.0, 40.0, -3.0, -30.0])  # steps


@dataclass(frozen=True)
class Night:
    """Readings of a box, and before which of them it was off."""

    times: np.ndarray  # milliseconds
    values: np.ndarray  # [rows, 3]
    off: frozenset[int]


@st.composite
def nights(draw: st.DrawFn) -> Night:
    """Gaps, early rows, clocks set back, missing and impossible numbers, stuck sensors, spikes, another level."""
    waits = draw(
        st.lists(st.sampled_from([1.0] * 14 + [0.3, 2.0, 3.0, 7.0, 40.0, -3.0, -30.0]), min_size=30, max_size=90)
    )
    count = len(waits)
    row = st.integers(0, count - 1)
    random = np.random.default_rng(draw(st.integers(0, 2**31)))
    level = draw(st.sampled_from([0.0, 1.5, 12.0]))
    values = random.normal([22 + 8.5 * level, 280 + 55 * level, 190], [3, 40, 30], (count, 3)).clip(0.5)
    values[sorted(draw(st.sets(row, max_size=5))), 0] = draw(st.sampled_from([np.nan, -999.0, 2000.0, 400.0]))
    stuck = draw(row)
    values[stuck : stuck + 9] = values[stuck]
    times = CLOCK + np.cumsum(np.array(waits) * STEP_MS).astype(np.int64)
    return Night(times, values.astype(np.float32), frozenset(draw(st.sets(row, min_size=1, max_size=4))))


def answers(model: LoadedModel, night: Night, size: int = 0) -> tuple[list[int], np.ndarray]:
    """Statuses and answers of a fresh device; with `size`, the bytes of a blob, it is off where the night says so."""
    model.power_on()
    statuses, pushed = [], []
    for index, (now, row) in enumerate(zip(night.times.tolist(), night.values, strict=True)):
        if size and index in night.off:
            stored, blob = model.store(int(night.times[max(index - 1, 0)]) + 5, size)
            model.power_on()
            assert (stored, model.restore(now, blob)) == (OK, OK)
        status, answer = model.calibrate(now, row[: model.constants["CHANNELS"]])
        statuses.append(status)
        pushed.append(answer)
    return statuses, np.array(pushed)


@pytest.mark.parametrize(
    "name", [name if name.endswith("fixed") else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
@settings(deadline=None, max_examples=40)
@given(night=nights())
def test_it_goes_on_as_if_it_had_never_been_off(built: Built, name: str, night: Night) -> None:
    model, calibrator = built[name], CALIBRATORS[name.rpartition("_")[0]]
    statuses, pushed = answers(model, night, model.store_bytes)
    expected_statuses, expected = answers(model, night)
    assert statuses == expected_statuses
    assert pushed.tobytes() == expected.tobytes()
    live, channels = calibrator.live(NEW if "new" in name else "box-1"), len(calibrator.inputs.channels)
    rows = zip((night.times / 1000).tolist(), night.values[:, :channels].astype(float), strict=True)
    python = [live.push(time, row) for time, row in rows]
    assert [int(flags) & COMPARED for flags in pushed["flags"]] == [one.flags & COMPARED for one in python]
    values, spread = np.array([one.value for one in python]), 6.0
    near = 1e-5 if name.endswith("float32") else 0.02
    assert_allclose(pushed["value"], values, rtol=near, atol=near * spread)


@pytest.mark.parametrize(
    "name", [name if name.endswith("float32") else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
@settings(deadline=None, max_examples=20)
@given(night=nights())
def test_rounded_it_goes_on_nearly_so(built: Built, name: str, night: Night) -> None:
    model = built[name]
    assert model.rounded_bytes < model.store_bytes
    statuses, pushed = answers(model, night, model.rounded_bytes)
    expected_statuses, expected = answers(model, night)
    assert statuses == expected_statuses
    assert_array_equal(pushed["flags"], expected["flags"])
    assert_allclose(pushed["value"], expected["value"], atol=0.5)


@pytest.mark.parametrize("name", ["one_new_fixed", "three_float32"])
@settings(deadline=None, max_examples=300)
@given(night=nights(), data=st.data())
def test_damage_is_refused_and_changes_nothing(built: Built, name: str, night: Night, data: st.DataObject) -> None:
    model = built[name]
    answers(model, night)
    now = int(night.times[-1])
    blob = model.store(now, data.draw(st.sampled_from([model.store_bytes, model.rounded_bytes])))[1]
    length = int.from_bytes(blob[8:12], "little")
    damaged = bytearray(blob[:length])
    kind = data.draw(st.sampled_from(["bits", "bytes", "cut", "noise"]))
    if kind == "bits":
        for bit in data.draw(st.sets(st.integers(0, 8 * length - 1), min_size=1, max_size=8)):
            damaged[bit // 8] ^= 1 << bit % 8
    elif kind == "bytes":
        start = data.draw(st.integers(0, length - 1))
        more = data.draw(st.binary(min_size=1, max_size=64))
        damaged[start : start + len(more)] = more[: length - start]
    elif kind == "cut":
        del damaged[data.draw(st.integers(0, length - 1)) :]
    else:
        damaged = bytearray(data.draw(st.binary(max_size=2 * length)))
    for row in night.values[::-1]:  # another state than the stored one
        now += STEP_MS
        model.calibrate(now, row[: model.constants["CHANNELS"]])
    before = model.store(now, model.store_bytes)
    if bytes(damaged) != blob[:length]:
        assert model.restore(now, bytes(damaged)) in (DAMAGED, FOREIGN)
        assert model.store(now, model.store_bytes) == before
    assert model.restore(now, blob) == OK


# what a blob is refused for, and what it takes


def after(model: LoadedModel, rows: int, size: int = 0) -> tuple[int, bytes]:
    """The time of the last of some readings, and the blob then; exact unless `size` says otherwise."""
    model.power_on()
    for index in range(rows):
        model.calibrate(CLOCK + index * STEP_MS, 20.0 + np.arange(model.constants["CHANNELS"]) + index % 5)
    now = CLOCK + (rows - 1) * STEP_MS
    status, blob = model.store(now, size or model.store_bytes)
    assert status == OK
    return now, blob


def sealed(blob: bytes, at: int, word: int) -> bytes:
    """The blob with another word, and the checksum that belongs to it."""
    length = int.from_bytes(blob[8:12], "little")
    content = blob[:at] + word.to_bytes(4, "little") + blob[at + 4 : length - 4]
    return content + crc32(content).to_bytes(4, "little")


@pytest.mark.parametrize("name", MODELS)
def test_a_blob_of_another_model_or_version_is_refused(built: Built, name: str) -> None:
    model, (now, blob) = built[name], after(built[name], 40)
    mark, identity = (int.from_bytes(blob[at : at + 4], "little") for at in (0, 4))
    assert model.restore(now, sealed(blob, 0, mark)) == OK
    for other in (mark + 256, mark ^ 1, mark ^ 2):  # another version, without SCARE_PAST, without SCARE_SETTLE
        assert model.restore(now, sealed(blob, 0, other)) == FOREIGN
    assert model.restore(now, sealed(blob, 4, identity ^ 1)) == FOREIGN
    for foreign in (one for other, one in built.items() if other != name):
        assert foreign.restore(now, blob) == FOREIGN


def test_a_model_is_another_one_if_anything_of_it_is(tmp_path: Path) -> None:
    plain, inputs, plan = CALIBRATORS["one"], CALIBRATORS["one"].inputs, CALIBRATORS["one"].plan
    *before, curve, last = plan.steps
    heavier = replace(curve, weights={"weight": curve.weights["weight"] * np.float32(1.001)})
    others = {
        "same": plain,
        "weight": replace(plain, plan=replace(plan, steps=(*before, heavier, last))),
        "step": replace(plain, inputs=replace(inputs, step_seconds=61.0)),
        "policy": replace(plain, inputs=replace(inputs, policy=replace(inputs.policy, hold=3))),
        "floor": replace(plain, floor=1.5),
    }
    identities = {}
    for name, calibrator in others.items():
        package = export_calibrator(calibrator, "c", "float32", tmp_path / name)
        identities[name] = package.compiled.c_model.identity
        assert f".identity = {identities[name]:#010x}u," in (package.folder / "model.c").read_text("utf-8")
    again = export_calibrator(plain, "c", "float32", tmp_path / "again", name="other_name")
    assert again.compiled.c_model.identity == identities["same"]
    assert len({*identities.values()}) == len(others)


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"\xff" * 4096, b"SC"])
def test_an_empty_or_erased_store_is_refused(built: Built, content: bytes) -> None:
    model = built["one_fixed"]
    model.power_on()
    assert model.restore(CLOCK, content) == DAMAGED


def test_a_blob_may_lie_in_more_memory_than_it_takes(built: Built) -> None:
    model = built["three_new_fixed"]
    now, blob = after(model, 40, 4096)
    length = int.from_bytes(blob[8:12], "little")
    assert blob[length:] == b"\xee" * (4096 - length)
    model.power_on()
    assert model.restore(now, blob) == OK
    model.power_on()
    assert model.restore(now, blob[: length - 1]) == DAMAGED


def test_too_little_memory_is_refused_and_not_written(built: Built) -> None:
    model = built["three_fixed"]
    after(model, 40)
    assert model.store(CLOCK, model.rounded_bytes - 1) == (MEMORY, b"\xee" * (model.rounded_bytes - 1))


@pytest.mark.parametrize("days", [-30, -24.8, 24.8, 30, 49.71, 400])
@pytest.mark.parametrize("name", ["one_new_fixed", "three_new_float32"])
def test_after_24_days_only_what_settling_found_is_left(built: Built, name: str, days: float) -> None:
    """Also where a clock of 32 bits would show nearly the same time."""
    model, (now, blob) = built[name], after(built[name], 40)
    later = now + round(days * 86_400_000)
    beyond = abs(later - now) > 2**31
    model.power_on()
    assert model.restore(later, blob) == OK
    statuses, flags = [], []
    for index in range(30):
        status, answer = model.calibrate(later + (index + 1) * STEP_MS, 20.0 + np.arange(model.constants["CHANNELS"]))
        statuses.append(status)
        flags.append(int(answer["flags"]))
    assert not any(flag & Flag.UNSETTLED for flag in flags)
    assert statuses[-1] == OK
    assert HISTORY in statuses[:3]
    assert (flags[0] & Flag.RESTART > 0) == (days < 0 and not beyond)


def test_the_choice_of_a_branch_is_kept(built: Built) -> None:
    model, random = built["branches"], np.random.default_rng(4)
    rows = random.normal([20, 300], [8, 60], (120, 2)).clip(0.5).astype(np.float32)
    night = Night(CLOCK + STEP_MS * np.arange(120), rows, frozenset(range(7, 120, 5)))
    statuses, pushed = answers(model, night, model.store_bytes)
    assert (statuses, pushed.tobytes()) == (answers(model, night)[0], answers(model, night)[1].tobytes())
    assert statuses.count(OK) > 80


@pytest.mark.parametrize("arithmetic", Arithmetic)
@pytest.mark.parametrize("settle", [0, 5000])
def test_the_default_of_six_hours_takes_two_kilobytes_or_a_quarter(arithmetic: str, settle: int) -> None:
    plan = fold(random_network(Scare.default(), 360, 1).plan()).astype(np.float32)
    calibrator = replace(of_channels(1, settle), plan=plan, floor=None)
    calibrator = replace(calibrator, inputs=replace(calibrator.inputs, window=360, policy=RECENT))
    sample = Sample(np.random.default_rng(2).normal(size=(4, 360, 1)).astype(np.float32), np.zeros(4))
    model = compile_calibrator(replace(calibrator, golden=sample, validation=sample), arithmetic).c_model
    past = PAST_BYTES
    assert model.store_bytes(rounded=False) + past <= 2048
    assert model.store_bytes(rounded=True) + past <= 512


def test_null_pointers_are_refused(built: Built) -> None:
    library, blob = built["one_fixed"]._library, (ctypes.c_ubyte * 4096)()
    arguments = (ctypes.c_uint64(CLOCK), blob, ctypes.c_size_t(4096))
    empty = (ctypes.c_uint64 * 40)()
    for function in (library.scare_store, library.scare_restore):
        assert function(None, *arguments) == function(empty, *arguments) == ARGUMENT
        here = ctypes.c_void_p(built["one_fixed"]._calibration.ctypes.data)
        assert function(here, arguments[0], None, arguments[2]) == ARGUMENT


# the self-test


@pytest.mark.parametrize("name", MODELS)
def test_the_self_test_passes_and_leaves_a_fresh_device(built: Built, name: str) -> None:
    model = built[name]
    now, blob = after(model, 40)
    assert model.self_test() == OK
    again = [model.calibrate(now + index * STEP_MS, np.full(3, 20.0))[0] for index in range(1, 5)]
    assert again[0] == HISTORY
    model.power_on()
    assert model.self_test() == OK
    assert model.restore(now, blob) == OK
    assert model.calibrate(now + STEP_MS, np.full(3, 20.0))[0] == OK
