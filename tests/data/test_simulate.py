"""The simulator is repeatable, plausible, teachable, and its linear world knows its own optimum."""

import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from scare.data import simulate as simulation_module
from scare.data import simulated_air
from scare.data.simulate import (
    SimulatedBox,
    Simulation,
    SimulationKind,
    best_achievable_rmse,
    simulate,
    simulate_box,
    write_simulation,
)
from scare.data.simulated_air import (
    DROPOUT_SHARE,
    Clock,
    Drift,
    DriftKind,
    ParticleAir,
    Wear,
    decaying_sum,
    growth_factor,
)
from scare.errors import UsageError

MONTH = Simulation(boxes=4, days=30, seed=7)
DAY = Simulation(boxes=4, days=1, seed=7)
LINEAR = Simulation(boxes=1, days=60, kind=SimulationKind.LINEAR)


@pytest.fixture(scope="module")
def box() -> SimulatedBox:
    return simulate_box(MONTH, 0)


@pytest.fixture(scope="module")
def linear_box() -> SimulatedBox:
    return simulate_box(LINEAR, 0)


def rmse(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def sound_rows(box: SimulatedBox) -> np.ndarray:
    return ~np.isnan(box.readings.values).any(axis=1) & ~box.spikes


def least_squares_rmse(inputs: np.ndarray, targets: np.ndarray) -> float:
    """Error on every other day of a linear fit to the days between."""
    inputs = np.column_stack([inputs, np.ones(len(inputs))])
    fitted = np.arange(len(targets)) // 1440 % 2 == 0
    weights = np.linalg.lstsq(inputs[fitted], targets[fitted], rcond=None)[0]
    return rmse((inputs @ weights - targets)[~fitted])


# --- repeatable ---


@pytest.mark.parametrize("kind", SimulationKind)
def test_the_same_seed_gives_identical_readings(kind: SimulationKind) -> None:
    first, second = (simulate(replace(DAY, kind=kind)) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert_frame_equal(one.frame, other.frame, check_exact=True)


@pytest.mark.parametrize("kind", SimulationKind)
def test_another_seed_gives_other_readings(kind: SimulationKind) -> None:
    one, other = (simulate_box(replace(DAY, kind=kind, seed=seed), 0) for seed in (1, 2))
    assert not np.array_equal(one.truth, other.truth)
    assert not np.array_equal(one.readings.values, other.readings.values, equal_nan=True)


@pytest.mark.parametrize("kind", SimulationKind)
def test_a_box_alone_is_the_box_of_the_fleet(kind: SimulationKind) -> None:
    simulation = replace(DAY, kind=kind)
    alone, fleet = simulate_box(simulation, 3).readings, simulate(simulation)
    assert [readings.device for readings in fleet] == ["box-01", "box-02", "box-03", "box-04"]
    assert_frame_equal(alone.frame, fleet[3].frame, check_exact=True)


def test_a_larger_fleet_begins_with_the_smaller_one() -> None:
    assert_frame_equal(simulate(DAY)[1].frame, simulate(replace(DAY, boxes=9))[1].frame, check_exact=True)


def test_all_boxes_stand_beside_the_same_reference_in_the_same_truth() -> None:
    one, other = simulate_box(DAY, 0), simulate_box(DAY, 1)
    assert np.array_equal(one.truth, other.truth)
    assert np.array_equal(one.readings.targets, other.readings.targets)


@pytest.mark.parametrize("kind", SimulationKind)
@pytest.mark.parametrize("step_seconds", [1.0, 60.0, 3600.0])
def test_every_kind_and_step_gives_a_truth_without_gaps(kind: SimulationKind, step_seconds: float) -> None:
    box = simulate_box(replace(DAY, kind=kind, step_seconds=step_seconds), 0)
    assert box.readings.step_seconds == step_seconds
    assert len(box.readings) == len(box.truth) == len(box.spikes) == 86400 / step_seconds
    assert np.isfinite(box.truth).all()
    assert np.isfinite(box.readings.targets).all()


# --- plausible ---


@pytest.mark.parametrize("seed", range(5))
def test_pm_has_a_plausible_median_and_tail(seed: int) -> None:
    truth = simulate_box(replace(MONTH, seed=seed), 0).truth
    assert 5 < np.median(truth) < 40
    assert truth.min() > 0
    assert truth.max() > 3 * np.median(truth)


def test_raw_pm_is_whole_and_within_the_range_of_its_channel(box: SimulatedBox) -> None:
    raw = box.readings.values[sound_rows(box), 0]
    assert np.array_equal(raw, np.rint(raw))
    assert raw.min() >= 0
    assert raw.max() <= box.readings.channels[0].high


def test_weather_is_plausible_and_dry_when_warm(box: SimulatedBox) -> None:
    temperature, humidity = box.readings.values[sound_rows(box), 1:].T
    assert -30 < temperature.min() < temperature.max() < 45
    assert 10 < humidity.min() < humidity.max() <= 100
    assert np.corrcoef(temperature, humidity)[0, 1] < -0.5


def test_raw_pm_overestimates_in_humid_air(box: SimulatedBox) -> None:
    rows = sound_rows(box)
    ratio, humidity = box.readings.values[rows, 0] / box.truth[rows], box.readings.values[rows, 2]
    assert np.median(ratio[humidity > 85]) > 1.5 * np.median(ratio[humidity < 50])


def test_relative_noise_grows_as_particles_become_few() -> None:
    clock = Clock(5000, 60.0, 0.0)
    weather = simulated_air.Weather(np.full(5000, 20.0), np.full(5000, 50.0))

    def relative_noise(pm_ugm3: float) -> float:
        truth = np.full(5000, pm_ugm3)
        still = ParticleAir(clock, truth, truth, weather, coarse_share=np.zeros(5000))
        raw = still.sense(np.random.default_rng(0), np.zeros(5000, bool), Wear.from_drifts((), clock.days))[0]
        return float(raw.std() / raw.mean())

    assert relative_noise(4.0) > 2 * relative_noise(64.0)


def test_two_boxes_correlate_but_differ_in_gain() -> None:
    one, other = simulate_box(MONTH, 0), simulate_box(MONTH, 1)
    rows = sound_rows(one) & sound_rows(other)
    raw = np.stack([one.readings.values[rows, 0], other.readings.values[rows, 0]])
    assert np.corrcoef(raw)[0, 1] > 0.9
    assert abs(np.log(raw[0].mean() / raw[1].mean())) > 0.02


def test_boxes_are_silent_in_bursts_for_about_the_share_set() -> None:
    silent = np.stack([np.isnan(readings.values[:, 0]) for readings in simulate(replace(MONTH, boxes=20))])
    assert silent.mean() == pytest.approx(DROPOUT_SHARE, rel=0.2)
    bursts = np.diff(silent, axis=1).sum() / 2
    assert silent.sum() / bursts > 10


def test_spikes_are_rare_huge_and_labelled(box: SimulatedBox) -> None:
    raw = box.readings.values[:, 0]
    assert 0 < box.spikes.mean() < 0.001
    assert raw[box.spikes].min() >= 400
    assert raw[box.spikes].min() > 5 * np.nanmedian(raw)


def test_ozone_is_low_where_nitrogen_dioxide_is_high() -> None:
    gas = simulated_air.GasAir.draw(np.random.default_rng(0), MONTH.clock)
    assert np.corrcoef(gas.truth, gas.o3_ppb)[0, 1] < -0.5
    assert gas.o3_ppb.min() >= 0


# --- teachable ---


def test_a_linear_fit_helps_and_the_exact_growth_helps_more(box: SimulatedBox) -> None:
    rows = sound_rows(box)
    values, reference = box.readings.values[rows], box.readings.targets[rows]
    dried = values[:, :1] / growth_factor(values[:, 2:])
    linear = least_squares_rmse(values, reference)
    assert linear < 0.7 * rmse(values[:, 0] - reference)
    assert least_squares_rmse(np.hstack([dried, values[:, 1:]]), reference) < 0.8 * linear


def test_the_second_gas_cell_and_the_temperature_help() -> None:
    box = simulate_box(replace(MONTH, kind=SimulationKind.GAS), 0)
    rows = sound_rows(box)
    values, reference = box.readings.values[rows], box.readings.targets[rows]
    one_cell = least_squares_rmse(values[:, :1], reference)
    linear = least_squares_rmse(values, reference)
    warmth = np.exp((values[:, 2:3] - 20) / 12)
    assert linear < 0.8 * one_cell
    assert least_squares_rmse(np.hstack([values, warmth]), reference) < 0.98 * linear


# --- the linear world ---


def kalman_estimates(raw_ugm3: np.ndarray) -> np.ndarray:
    """The truth as a textbook filter estimates it, from a start that knows nothing but the mean."""
    system = simulation_module.linear_system(LINEAR.step_seconds)
    surprises = raw_ugm3 - simulation_module.GAIN * simulation_module.MEAN_UGM3 - simulation_module.OFFSET_UGM3
    state, covariance = np.zeros(2), simulation_module.SPREAD_UGM3**2 * np.ones((2, 2))
    observed, noise = system.observation[0], system.noise[0, 0]
    estimates = np.empty(len(raw_ugm3))
    for row, surprise in enumerate(surprises):
        gain = covariance @ observed / (observed @ covariance @ observed + noise)
        state = state + gain * (surprise - observed @ state)
        estimates[row] = simulation_module.MEAN_UGM3 + state[0]
        covariance = covariance - np.outer(gain, observed @ covariance)
        state = system.transition @ state
        covariance = system.transition @ covariance @ system.transition.T + system.process
    return estimates


@pytest.fixture(scope="module")
def kalman_errors(linear_box: SimulatedBox) -> np.ndarray:
    return kalman_estimates(linear_box.readings.values[:, 0]) - linear_box.readings.targets


def test_a_kalman_filter_attains_the_best_achievable_rmse(kalman_errors: np.ndarray) -> None:
    assert rmse(kalman_errors) == pytest.approx(best_achievable_rmse(LINEAR), rel=0.02)


def test_the_best_achievable_rmse_is_that_of_regression_on_all_the_past() -> None:
    system, rows = simulation_module.linear_system(LINEAR.step_seconds), 300
    covariance = np.zeros((2, 2))
    for _ in range(2000):
        covariance = system.transition @ covariance @ system.transition.T + system.process
    lags = [np.linalg.matrix_power(system.transition, lag) @ covariance for lag in range(rows)]
    with_truth = simulation_module.GAIN * np.array([lag[0, 1] for lag in lags])
    with_itself = simulation_module.GAIN**2 * np.array([lag[1, 1] for lag in lags])
    distance = np.abs(np.subtract.outer(np.arange(rows), np.arange(rows)))
    readings = with_itself[distance] + simulation_module.NOISE_UGM3**2 * np.eye(rows)
    left_over = simulation_module.SPREAD_UGM3**2 - with_truth @ np.linalg.solve(readings, with_truth)
    expected = np.sqrt(left_over + simulation_module.REFERENCE_NOISE_UGM3**2)
    assert best_achievable_rmse(LINEAR) == pytest.approx(expected, rel=1e-9)


def test_least_squares_on_a_long_window_comes_close_to_the_best_but_not_below(
    linear_box: SimulatedBox, kalman_errors: np.ndarray
) -> None:
    raw, reference = linear_box.readings.values[:, 0], linear_box.readings.targets
    windows = np.lib.stride_tricks.sliding_window_view(raw, 60)
    error = least_squares_rmse(windows, reference[59:])
    fitted = np.arange(len(windows)) // 1440 % 2 == 0
    optimum = rmse(kalman_errors[59:][~fitted])
    assert 0.999 * optimum < error < 1.02 * best_achievable_rmse(LINEAR)


def test_more_frequent_readings_make_the_best_better() -> None:
    errors = [best_achievable_rmse(replace(LINEAR, step_seconds=step)) for step in (1.0, 10.0, 60.0)]
    assert errors == sorted(errors)
    assert errors[0] > simulation_module.REFERENCE_NOISE_UGM3
    assert errors[-1] < np.hypot(simulation_module.SPREAD_UGM3, simulation_module.REFERENCE_NOISE_UGM3)


def test_the_best_error_is_unknown_outside_the_linear_world() -> None:
    with pytest.raises(UsageError, match="linear"):
        best_achievable_rmse(MONTH)


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=70).map(np.array),
    st.one_of(st.floats(0.0, 1.0), st.just(1e-300)),
)
def test_the_decaying_sum_is_its_recursion(inputs: np.ndarray, kept: float) -> None:
    expected, total = [], 0.0
    for value in inputs:
        total = kept * total + value
        expected.append(total)
    assert decaying_sum(inputs, kept) == pytest.approx(np.array(expected), rel=1e-9, abs=1e-9)


# --- files ---


@pytest.mark.parametrize("kind", SimulationKind)
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_written_simulation_holds_all_boxes_in_order(kind: SimulationKind, suffix: str, tmp_path: Path) -> None:
    simulation, path, calls = replace(DAY, kind=kind), tmp_path / f"fleet.{suffix}", []
    write_simulation(simulation, path, progress=lambda done, total: calls.append((done, total)))
    table = pl.read_parquet(path) if suffix == "parquet" else pl.read_csv(path, try_parse_dates=True)
    fleet = simulate(simulation)
    channels = ["time", *(channel.name for channel in fleet[0].channels)]
    names = [*channels, "reference"]
    reference = fleet[0].reference
    assert reference is not None
    assert table.columns == ["device", *channels, reference.name]
    table = table.rename({reference.name: "reference"})
    assert table["device"].unique(maintain_order=True).to_list() == [one.device for one in fleet]
    together = pl.concat([readings.frame.select(names) for readings in fleet])
    assert_frame_equal(table.select(names), together, check_dtypes=suffix == "parquet")
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_an_interrupted_write_leaves_no_file(tmp_path: Path) -> None:
    def give_up(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_simulation(DAY, tmp_path / "fleet.parquet", give_up)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Linux would run it: the peak memory is in /proc")
def test_writing_takes_far_less_memory_than_the_rows_written(tmp_path: Path) -> None:
    program = """
import sys
from scare.data.simulate import Simulation, write_simulation
write_simulation(Simulation(boxes=200, days=30), sys.argv[1])
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""
    command = [sys.executable, "-c", program, str(tmp_path / "fleet.parquet")]
    peak_kib = int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    column_kib = 200 * 30 * 1440 * 8 / 1024
    assert peak_kib < 5 * column_kib


def test_what_cannot_be_simulated_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="boxes"):
        Simulation(boxes=0)
    with pytest.raises(UsageError, match="do not fit"):
        Simulation(days=0.001)
    with pytest.raises(UsageError, match="do not fit"):
        Simulation(step_seconds=0)
    with pytest.raises(UsageError, match="seed"):
        Simulation(seed=-1)
    with pytest.raises(UsageError, match="time zone"):
        Simulation(start=datetime(2026, 1, 1))
    with pytest.raises(UsageError, match="no box 4"):
        simulate_box(DAY, 4)
    with pytest.raises(UsageError, match=r"\.parquet or \.csv"):
        write_simulation(DAY, tmp_path / "fleet.xlsx")


# --- drifts ---


WEEK = Simulation(boxes=3, days=7, step_seconds=600, seed=2)


@pytest.mark.parametrize("kind", [SimulationKind.PM, SimulationKind.GAS])
@pytest.mark.parametrize("drift", DriftKind)
def test_a_drift_changes_the_first_channel_of_its_box_from_its_day_on(kind: SimulationKind, drift: DriftKind) -> None:
    sound = replace(WEEK, kind=kind)
    worn = replace(sound, drifts=(Drift(drift, box=1, day=3, ramp_days=1),))
    for index in range(3):
        before, after = (simulate_box(one, index).readings.values for one in (sound, worn))
        changed = (before != after) & ~np.isnan(before)
        assert not changed[:432].any()
        assert not changed[:, 1:].any()
        assert changed[576:, 0].mean() > 0.6 if index == 1 else not changed.any()


def test_a_drift_of_gain_is_of_the_signal_and_one_of_offset_of_the_zero() -> None:
    sound = replace(LINEAR, days=4)
    gain, offset = (
        replace(sound, drifts=(Drift(kind, day=0, ramp_days=0),)) for kind in (DriftKind.GAIN, DriftKind.OFFSET)
    )
    before, weaker, higher = (simulate_box(one, 0).readings.values for one in (sound, gain, offset))
    noise = before - simulation_module.OFFSET_UGM3
    assert np.polyfit(noise[:, 0], (weaker - before)[:, 0], 1)[0] == pytest.approx(-0.3 * 0.86, abs=0.03)
    np.testing.assert_allclose(higher - before, 5.0)


def test_a_dying_cell_hardly_follows_the_air() -> None:
    sound = replace(WEEK, kind=SimulationKind.GAS)
    dying = replace(sound, drifts=(Drift(DriftKind.DYING, day=1, ramp_days=1),))
    box, worn = (simulate_box(one, 0) for one in (sound, dying))
    known = sound_rows(box) & (np.arange(len(box.truth)) >= 432)
    truth, before, after = box.truth, box.readings.values[:, 0], worn.readings.values[:, 0]
    assert np.cov(after[known], truth[known])[0, 1] < 0.2 * np.cov(before[known], truth[known])[0, 1]


def test_boxes_apart_are_the_same_boxes_in_other_air() -> None:
    here, there = (simulate_box(replace(WEEK, place_spread=apart), 0) for apart in (0.0, 0.3))
    np.testing.assert_array_equal(here.readings.values[:, 1:], there.readings.values[:, 1:])
    assert 0.15 < np.log(there.truth / here.truth).std() < 0.45


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"place_spread": 2.0}, "give a share"),
        ({"drifts": (Drift(DriftKind.GAIN, box=3),)}, "no box-04 to drift"),
        ({"kind": SimulationKind.LINEAR, "drifts": (Drift(DriftKind.DYING),)}, "has no drift 'dying'"),
    ],
)
def test_what_cannot_drift_is_refused(change: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(WEEK, **change)
