"""What every model promises once it is a calibrator: saved and loaded, in chunks and reading by reading, the same."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.plan_passes import fold
from scare.data.readings import CALIBRATED, FLAGS, Readings
from scare.live.fleet import Fleet, Route
from scare.models import Architecture
from tests.calibrator.building import bad_readings, make_calibrator, newest_plan
from tests.contract.test_models import CASES, random_network

WINDOW = 16
every_model = pytest.mark.parametrize("model", CASES.values(), ids=CASES)


def calibrator_of(model: Architecture) -> Calibrator:
    """A calibrator of two channels with the model's random network."""
    plan = fold(random_network(model, WINDOW, 2).plan()).astype(np.float32)
    built = make_calibrator(newest_plan(WINDOW))
    golden = np.random.default_rng(0).normal(size=(4, WINDOW, 2)).astype(np.float32)
    built = replace(built, plan=plan, validation=Sample(golden, np.zeros(4)))
    return replace(built, golden=Sample(golden, built.compute(golden)))


def readings() -> Readings:
    return bad_readings(3, 400)


@every_model
def test_a_saved_calibrator_predicts_the_same_bits(model: Architecture, tmp_path: Path) -> None:
    calibrator = calibrator_of(model)
    loaded = Calibrator.load(calibrator.save(tmp_path / "a.scare"))
    assert loaded.predict(readings()).equals(calibrator.predict(readings()))
    np.testing.assert_array_equal(loaded.compute(loaded.golden.windows), calibrator.golden.numbers)


@every_model
def test_chunks_of_any_size_give_what_the_whole_gives(model: Architecture) -> None:
    calibrator, rows = calibrator_of(model), readings()
    whole = calibrator.predict(rows)
    stream, values = calibrator.stream(rows.device), calibrator.inputs.select(rows)
    parts = [stream.push(rows.times[:74], values[:74])]
    for start in range(74, len(rows), 37):  # each by a stream that goes on with the state of the one before
        state, stream = stream.state(), calibrator.stream(rows.device)
        stream.restore(state)
        parts.append(stream.push(rows.times[start : start + 37], values[start : start + 37]))
    calibrated, _, _, flags = (np.concatenate(column) for column in zip(*parts, strict=True))
    np.testing.assert_allclose(calibrated, whole[CALIBRATED].fill_null(np.nan).to_numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(flags | rows.flags, whole[FLAGS].to_numpy())


@every_model
def test_reading_by_reading_gives_what_the_table_gives(model: Architecture) -> None:
    calibrator, rows = calibrator_of(model), readings()
    whole = calibrator.predict(rows)
    live, values = calibrator.live(rows.device), calibrator.inputs.select(rows)
    pushed = [live.push(time, row) for time, row in zip(rows.times, values, strict=True)]
    expected = whole[CALIBRATED].fill_null(np.nan).to_numpy()
    np.testing.assert_allclose([one.value for one in pushed], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal([int(one.flags) for one in pushed] | rows.flags, whole[FLAGS].to_numpy())


@every_model
def test_in_a_fleet_each_device_has_what_its_table_gives(model: Architecture) -> None:
    calibrator = calibrator_of(model)
    devices = [bad_readings(seed, 120, f"box-{seed}") for seed in (1, 2, 3)]
    names, times = [one.device for one in devices], np.stack([one.times for one in devices], axis=1)
    fleet, rows = Fleet({"model": calibrator}, [Route("*", "model")]), np.stack([one.values for one in devices], axis=1)
    pushed = [fleet.push(names, *row) for row in zip(times, rows, strict=True)]
    for index, one in enumerate(devices):
        whole = calibrator.predict(one)
        expected = whole[CALIBRATED].fill_null(np.nan).to_numpy()
        np.testing.assert_allclose([some.values[index] for some in pushed], expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal([some.flags[index] for some in pushed], whole[FLAGS].to_numpy())


@every_model
def test_a_metric_does_not_depend_on_the_batch(model: Architecture) -> None:
    calibrator = calibrator_of(model)
    windows = np.random.default_rng(1).normal(size=(23, WINDOW, 2)).astype(np.float32)
    whole = calibrator.compute(windows)
    for size in (1, 4, 22):
        parts = [calibrator.compute(windows[i : i + size]) for i in range(0, len(windows), size)]
        np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-4, atol=1e-4)
