"""A calibrator knows its training: a sudden event gives an answer that is finite, rises with it and is flagged."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.training_range import measure
from scare.board.boards import board
from scare.board.certificate import verify_stream
from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.linear import raw_reading
from scare.calibrator.plan import Plan, Step
from scare.data.flags import DEFAULT_SETTINGS, Flag
from scare.data.readings import Channel, Readings
from scare.data.simulate import Simulation, SimulationKind, simulate
from scare.data.split import Split
from scare.export.lowering import Arithmetic
from scare.training.extrapolation import FAR, flagged_outside, is_better_free, with_training_range
from scare.training.fit import fit
from scare.training.recipe import Recipe
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.training_examples import make_examples
from scare.windowing.training_range import MARGIN, SLACK
from scare.windowing.windows import ANY, RECENT
from tests.training.small_fits import LINEAR_ONLY, Trained, make_readings

WINDOW = 8
CHANNELS = ("pm", "temperature")
TIMES = np.array([0.0, 0.25, 0.5, 1.0, 1.1, 2.0, 5.0, 20.0, 50.0])  # the largest reading of training


def smoke_free_readings() -> Readings:
    """Dust that a reference follows, and weather."""
    rng = np.random.default_rng(0)
    dust, weather = np.empty(3000), 15 + 0.1 * rng.normal(size=3000).cumsum()
    logarithm = 0.0
    for row, shock in enumerate(rng.normal(size=3000)):
        logarithm = 0.95 * logarithm + 0.25 * shock
        dust[row] = 8 * np.exp(logarithm)
    return make_readings(np.stack([2 + dust, weather], axis=1), 0.8 * dust + 1, channels=CHANNELS)


READINGS = smoke_free_readings()


def linear_calibrator(weights: np.ndarray, tanh: bool = False) -> Calibrator:
    """A plan of the whole window [window, channels], scaled as READINGS are, with their training_range."""
    values, targets = READINGS.values, READINGS.targets[:, None]
    affines = [Affine(part.mean(axis=0), part.std(axis=0)) for part in (values, targets)]
    inputs = Inputs(READINGS.channels, Scaling("standard", *affines), 60.0, WINDOW, RECENT, DEFAULT_SETTINGS)
    weight = {"weight": weights.reshape(-1, 1).astype(np.float32), "bias": np.zeros(1, np.float32)}
    steps = (Step("flatten", ("x",), "flat"), Step("dense", ("flat",), "y", weight))
    none = Sample(np.empty((0, WINDOW, 2), np.float32), np.empty(0))
    calibrator = Calibrator(Plan(WINDOW, 2, steps), inputs, Channel("reference"), none, none)
    return with_training_range(calibrator, [READINGS], make_examples([READINGS], replace(inputs, policy=ANY)))


def weights(newest: float, before: float) -> np.ndarray:
    """The weight of the newest reading, what all before have together, and a little weather."""
    first = np.full(WINDOW, before / (WINDOW - 1))
    first[-1] = newest
    return np.stack([first, np.where(np.arange(WINDOW) == WINDOW - 1, -0.2, 0.0)], axis=1)


RISES, FALLS = linear_calibrator(weights(0.4, 0.6)), linear_calibrator(weights(-0.7, 1.6))


def stepped(calibrator: Calibrator, times: float, age: int, weather: float = 15.0) -> np.ndarray:
    """A window in which dust stepped to so many times its largest value in training, so many rows ago."""
    window = np.tile([np.median(READINGS.values[:, 0]), weather], (calibrator.window, 1))
    window[max(0, calibrator.window - age) :, 0] = times * READINGS.values[:, 0].max()
    return window[:, : len(calibrator.inputs.channels)]  # a line of the dust does not read the weather


def answers(calibrator: Calibrator, age: int, times: np.ndarray = TIMES) -> np.ndarray:
    return np.array([calibrator.predict_one(stepped(calibrator, one, age)) for one in times])


def test_a_plan_that_rises_at_every_age_extrapolates_and_another_is_clamped() -> None:
    (free, clamped) = (one.inputs.training_range for one in (RISES, FALLS))
    assert free is not None
    assert clamped is not None
    assert free.clamp_high[0] == pytest.approx(free.high[0] + FAR * (free.high[0] - free.low[0]))
    assert clamped.clamp_high[0] == clamped.high[0]
    seen = (clamped.high[1] - clamped.low[1]) / (1 + 2 * SLACK)  # the channel's range in training
    assert free.clamp_high[1] == clamped.clamp_high[1] == pytest.approx(clamped.high[1] + (MARGIN - SLACK) * seen)
    bare = replace(RISES, inputs=replace(RISES.inputs, training_range=None))
    assert_allclose(answers(RISES, 1, TIMES[:7]), answers(bare, 1, TIMES[:7]), rtol=1e-5)


@pytest.mark.parametrize("calibrator", [RISES, FALLS])
@settings(deadline=None, max_examples=30)
@given(age=st.integers(1, WINDOW), times=st.lists(st.floats(0.0, 50.0), min_size=2, max_size=6))
def test_a_step_is_answered_with_a_number_that_beyond_training_never_falls_and_is_flagged(
    calibrator: Calibrator, age: int, times: list[float]
) -> None:
    steps = np.sort(times)
    windows = [stepped(calibrator, one, age) for one in steps]
    found = [calibrator.stream("box-1").push(60.0 * np.arange(WINDOW), window) for window in windows]
    values, flags = (np.array([getattr(one, name)[-1] for one in found]) for name in ("values", "flags"))
    assert np.isfinite(values).all()
    assert (np.diff(values[steps >= 1]) >= -1e-4).all()
    assert ((flags[steps > 1.001] & Flag.OUTSIDE) > 0).all()


@pytest.mark.parametrize("calibrator", [RISES, FALLS])
def test_the_first_minutes_of_smoke_are_never_below_what_training_had(calibrator: Calibrator) -> None:
    bare = replace(calibrator, inputs=replace(calibrator.inputs, training_range=None))
    lowest = min(READINGS.targets.min(), bare.predict(READINGS)["calibrated"].min())
    found = np.array([answers(calibrator, age, TIMES[3:]) for age in range(1, WINDOW + 1)])
    assert (found >= lowest - 1e-4).all()
    assert (found[:, -1] > 3 * READINGS.targets.max()).all()
    assert (found < 60 * READINGS.values[:, 0].max()).all()


def test_without_a_training_range_the_first_minute_of_smoke_is_far_below_zero() -> None:
    bare = replace(FALLS, inputs=replace(FALLS.inputs, training_range=None))
    assert (answers(bare, 1)[-3:] < -20).all()


@pytest.mark.parametrize("reading", [[1e6, 15.0], [8.0, 400.0], [8.0, -400.0], [900.0, -80.0]])
def test_any_reading_beyond_training_gives_a_number_and_is_flagged(reading: list[float]) -> None:
    for calibrator in (RISES, FALLS):
        live = calibrator.live("box-1")
        rows = np.array([*READINGS.values[:WINDOW], reading])
        last = [live.push(60.0 * number, row) for number, row in enumerate(rows)][-1]
        assert last.flags & Flag.OUTSIDE
        assert np.isfinite(last.value)


def test_training_itself_is_inside_and_its_answers_are_the_plans() -> None:
    for calibrator in (RISES, FALLS):
        bare = replace(calibrator, inputs=replace(calibrator.inputs, training_range=None))
        ours, theirs = (one.predict(READINGS)["calibrated"].to_numpy() for one in (calibrator, bare))
        assert_array_equal(ours, theirs)
        assert 0 < flagged_outside(calibrator.inputs, training=[READINGS])["training"] <= 1e-3


def test_a_stated_floor_holds_for_every_answer() -> None:
    floored = replace(FALLS, floor=2.5)
    expected = np.fmax(FALLS.predict(READINGS)["calibrated"].to_numpy(), 2.5)
    assert_array_equal(floored.predict(READINGS)["calibrated"].to_numpy()[WINDOW:], expected[WINDOW:])
    assert floored.predict_one(stepped(floored, 0.0, 4)) >= 2.5


def test_the_reading_as_it_is_stays_that() -> None:
    raw = raw_reading(RISES.inputs, RISES.target)
    raw = with_training_range(raw, [READINGS], make_examples([READINGS], replace(raw.inputs, policy=ANY)))
    for reading in (-1e4, 0.0, 20.0, 1e3, 1e6):
        assert raw.predict_one(np.array([[reading]])) == pytest.approx(reading, rel=1e-6, abs=1e-3)


def test_a_fit_keeps_what_training_had(trained_default: Trained, linear: Readings) -> None:
    calibrator = trained_default.calibrator
    training_range, flagged = calibrator.inputs.training_range, calibrator.facts["flagged_outside"]
    assert training_range is not None
    assert flagged["training"] <= flagged["at_most"] == 1e-3
    assert 0 <= flagged["validation"] <= 1
    assert_array_equal(training_range.clamp(calibrator.golden.windows), calibrator.golden.windows)
    assert_array_equal(training_range.clamp(calibrator.validation.windows), calibrator.validation.windows)
    largest = linear.values[:, 0].max()
    window = np.full((calibrator.window, 1), np.median(linear.values[:, 0]))
    for age in range(1, calibrator.window + 1):
        found = []
        for times in (1.0, 1.5, 2.0, 5.0, 20.0, 50.0):
            window[-age:] = times * largest
            found.append(calibrator.predict_one(window, linear.device))
        assert (np.diff(found) >= 0).all()


# a sensor that falls where the reference rises


def mirrored(readings: Readings) -> Readings:
    """The same with its first channel negated."""
    name = readings.channels[0].name
    frame = readings.frame.with_columns(-readings.frame[name])
    return replace(readings, frame=frame, channels=(Channel(name, readings.channels[0].unit), *readings.channels[1:]))


def without_a_network(readings: Readings) -> Calibrator:
    recipe = Recipe.preset("default", window=WINDOW, steps=2, checkpoints=1, members=1)
    return fit(readings, recipe=replace(recipe, rules=LINEAR_ONLY))


@pytest.fixture(scope="module")
def both_ways() -> tuple[Calibrator, Calibrator]:
    """A calibrator of readings, and one of the same readings with the first channel negated."""
    return without_a_network(READINGS), without_a_network(mirrored(READINGS))


def test_a_mirrored_sensor_is_calibrated_alike(both_ways: tuple[Calibrator, Calibrator]) -> None:
    rising, falling = both_ways
    ours, theirs = (
        one.predict(rows)["calibrated"].to_numpy() for one, rows in ((rising, READINGS), (falling, mirrored(READINGS)))
    )
    assert_allclose(theirs, ours, atol=1e-3 * READINGS.targets.std())
    assert rising.facts["validation_rmse"] == pytest.approx(falling.facts["validation_rmse"], rel=1e-2)


@pytest.mark.parametrize("age", [1, 3, WINDOW])
def test_beyond_training_a_mirrored_sensor_goes_on_with_the_right_sign(
    both_ways: tuple[Calibrator, Calibrator], age: int
) -> None:
    rising, falling = both_ways
    windows = [stepped(rising, times, age) for times in TIMES[3:]]
    ours = np.array([rising.predict_one(window) for window in windows])
    theirs = np.array([falling.predict_one(window * [-1.0, 1.0][: window.shape[1]]) for window in windows])
    assert (np.diff(ours) > 0).all()
    assert (np.diff(theirs) > 0).all()  # the more negative the reading, the larger the value
    assert_allclose(theirs, ours, rtol=1e-2)
    training_range = falling.inputs.training_range
    assert training_range is not None
    assert training_range.slope < 0
    assert training_range.lower_bound is None


@pytest.mark.parametrize("clamped", [False, True])
@pytest.mark.parametrize("arithmetic", Arithmetic, ids=str)
def test_a_mirrored_sensor_is_alike_in_python_and_in_c(
    both_ways: tuple[Calibrator, Calibrator], arithmetic: Arithmetic, clamped: bool
) -> None:
    falling = both_ways[1]
    if clamped:  # at the end of the range, so that the slope has a part in the answer
        training_range = falling.inputs.training_range
        assert training_range is not None
        ends = {"clamp_low": training_range.low, "clamp_high": training_range.high}
        falling = replace(falling, inputs=replace(falling.inputs, training_range=replace(training_range, **ends)))
    streaming = verify_stream(falling, board("nano33ble"), arithmetic)
    assert not streaming.reasons
    assert streaming.flags["OUTSIDE"] > 10


def test_a_plan_that_moves_against_the_reference_is_clamped_on_either_side() -> None:
    wrong = weights(-0.4, -0.6)
    found = linear_calibrator(wrong).inputs.training_range
    assert found is not None
    assert (found.clamp_low[0], found.clamp_high[0]) == (found.low[0], found.high[0])
    right = falling_calibrator(wrong).inputs.training_range
    assert right is not None
    assert right.clamp_low[0] < right.low[0]
    assert right.clamp_high[0] > right.high[0]
    assert right.slope <= 0


def falling_calibrator(weights: np.ndarray) -> Calibrator:
    """A plan of the whole window with the training range of negated readings."""
    readings, inputs = mirrored(READINGS), RISES.inputs
    fleet = Affine(readings.values.mean(axis=0), readings.values.std(axis=0))
    inputs = replace(inputs, scaling=replace(inputs.scaling, fleet=fleet), channels=readings.channels)
    weight = {"weight": weights.reshape(-1, 1).astype(np.float32), "bias": np.zeros(1, np.float32)}
    steps = (Step("flatten", ("x",), "flat"), Step("dense", ("flat",), "y", weight))
    bare = replace(RISES, plan=Plan(WINDOW, 2, steps), inputs=replace(inputs, training_range=None))
    return with_training_range(bare, [readings], make_examples([readings], replace(bare.inputs, policy=ANY)))


# clamped or free


@pytest.mark.parametrize(("truth", "expected"), [(1.0, True), (0.0, False)])
def test_validation_decides_whether_channels_are_clamped(truth: float, expected: bool) -> None:
    """Weather rises far beyond training; the reference follows it all the way, or no further than training."""
    examples = make_examples([READINGS], replace(RISES.inputs, policy=ANY, training_range=None))
    bare = replace(RISES, inputs=replace(RISES.inputs, training_range=None))
    clamped, free = (with_training_range(bare, [READINGS], examples, free) for free in (False, True))
    training_range = clamped.inputs.training_range
    assert training_range is not None
    series = examples.series.copy()
    series[:, 1] += 4 * np.ptp(series[:, 1])
    windows = replace(examples, series=series).windows(np.arange(len(examples)))
    seen = (free if truth else clamped).compute(windows)
    targets = RISES.inputs.scaling.target.apply(seen[:, None])[:, 0].astype(np.float32)
    later = replace(examples, series=series, targets=targets)
    assert is_better_free(clamped, free, later) is expected
    few = replace(later, ends=later.ends[:40], targets=targets[:40])
    assert not is_better_free(clamped, free, few)  # too few rows to decide
    assert not is_better_free(clamped, free, examples)  # no row is clamped


def test_the_benchmark_measures_what_clamping_costs() -> None:
    found = measure("smoke", FALLS, Split((READINGS,), (READINGS,), (READINGS,), ""))
    assert found.clamped in ("far out below", "at the edge")
    assert found.clamped_rmse == found.free_rmse == found.edge_rmse > 0
    assert found.line.startswith("| smoke | network |")
    assert 0 < found.outside_test <= 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SimulationKind.PM, SimulationKind.GAS])
def test_simulated_smoke_is_never_negative_and_never_explodes(kind: SimulationKind) -> None:
    box = simulate(Simulation(boxes=1, days=4, kind=kind, seed=2))[0]
    box = replace(box, channels=(replace(box.channels[0], high=np.inf), *box.channels[1:]))  # a limit gives no value
    calibrator = fit(box, recipe=Recipe.preset("default", window=60, steps=500))
    largest, before = np.nanmax(box.values[:, 0]), box.values[-120:]
    for times in (1.1, 2.0, 5.0, 20.0, 50.0):
        rows = np.concatenate([before, before[-60:]])
        rows[120:, 0] = times * largest
        answers = calibrator.stream(box.device).push(60.0 * np.arange(180), rows)
        smoke = answers.values[120:]
        assert ((answers.flags[120:] & Flag.OUTSIDE) > 0).all(), times
        assert (smoke >= 0).all(), times
        assert (smoke <= 3 * times * largest).all(), times
