"""What training had is known again: its own rows are inside, others are flagged and clamped."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.errors import UsageError
from scare.windowing.training_range import (
    DISTANCE_SLACK,
    FALSE_ALARMS,
    SLACK,
    TrainingRange,
    fit_training_range,
    slow_means,
)
from tests.calibrator.building import EDGES

WINDOW = 30
MIX = np.array([[1.0, 0.0, 0.0], [0.9, 0.3, 0.0], [-0.2, 0.1, 1.0]])  # of independent numbers to channels


def drawn_rows(count: int, seed: int, channels: int = 3) -> np.ndarray:
    """Rows of channels that go together, some of which are rare and large."""
    rng = np.random.default_rng(seed)
    independent = rng.standard_t(5, (count, channels))
    return (independent @ MIX[:channels, :channels].T).astype(np.float32)


def alarms(training_range: TrainingRange, rows: np.ndarray) -> np.ndarray:
    distances = training_range.distances(rows)
    return training_range.outside(rows, distances, slow_means(distances, training_range.usual, WINDOW))


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_training_itself_gives_no_more_false_alarms_than_stated(channels: int) -> None:
    devices = [drawn_rows(4000, seed, channels) for seed in range(3)]
    training_range = fit_training_range(devices, WINDOW)
    rows = np.concatenate(devices)
    slack = SLACK * np.ptp(rows, axis=0) * (np.arange(channels) > 0)  # none for the first channel
    ends = rows.min(axis=0) - slack, rows.max(axis=0) + slack
    assert_allclose([training_range.low, training_range.high], ends, rtol=1e-5)
    share = np.concatenate([alarms(training_range, one) for one in devices]).mean()
    assert share <= FALSE_ALARMS
    if channels > 1:
        assert (
            np.concatenate([training_range.distances(one) for one in devices]) > training_range.limit / DISTANCE_SLACK
        ).mean() >= 0.4 * FALSE_ALARMS


def test_a_distance_is_that_of_mahalanobis() -> None:
    rows = drawn_rows(5000, 1)
    expected = np.einsum(
        "ni,ij,nj->n", rows - rows.mean(0), np.linalg.inv(np.cov(rows.T, bias=True)), rows - rows.mean(0)
    )
    assert_allclose(fit_training_range([rows], WINDOW).distances(rows), expected, rtol=0.02, atol=1e-6)


def test_channels_that_do_not_go_together_are_outside_though_each_is_in_its_range() -> None:
    rows = drawn_rows(5000, 2, 2)
    training_range = fit_training_range([rows], WINDOW)
    apart = np.array([[1.5, -1.5]], np.float32)
    assert ((apart > training_range.low) & (apart < training_range.high)).all()
    assert training_range.outside(apart, training_range.distances(apart), np.zeros(1)).all()
    assert not training_range.outside(-apart[:, ::-1] * 0.1, np.zeros(1), np.zeros(1)).any()


def test_what_is_unusual_for_about_a_window_is_outside_and_is_forgotten() -> None:
    training_range = fit_training_range([drawn_rows(20_000, 3)], WINDOW)
    assert training_range.slow_limit < training_range.limit
    way = np.array([[0.0, 0.0, 1.0]], np.float32)
    odd = way * np.sqrt((training_range.limit + training_range.slow_limit) / 2 / training_range.distances(way))[:, None]
    usual = np.zeros((200, 3))
    rows = np.concatenate([usual, np.repeat(odd, 120, axis=0), usual]).astype(np.float32)
    flagged = alarms(training_range, rows)
    assert (training_range.distances(rows) <= training_range.limit).all()
    assert not flagged[:201].any()
    assert flagged[310:320].all()
    assert not flagged[-50:].any()


def test_a_channel_that_never_changed_is_outside_when_it_does() -> None:
    rows = drawn_rows(3000, 4)
    rows[:, 1] = 0.5
    training_range = fit_training_range([rows], WINDOW)
    assert alarms(training_range, rows).mean() <= FALSE_ALARMS
    changed = np.array([[0.0, 0.6, 0.0]], np.float32)
    assert training_range.outside(changed, training_range.distances(changed), np.zeros(1)).all()


def test_rows_have_the_same_distance_alone_and_among_others() -> None:
    rows, training_range = drawn_rows(500, 5), fit_training_range([drawn_rows(5000, 6)], WINDOW)
    assert_array_equal(
        np.concatenate([training_range.distances(row[None]) for row in rows]), training_range.distances(rows)
    )


@settings(deadline=None, max_examples=200)
@given(
    first=st.lists(st.floats(-(2.0**60), 2.0**60, width=32), min_size=2, max_size=6),
    other=st.floats(-(2.0**60), 2.0**60, width=32),
    output=st.floats(-100, 100),
)
def test_clamped_values_are_within_the_edges_and_answers_rise_with_the_first_channel(
    first: list[float], other: float, output: float
) -> None:
    windows = np.array([[[0.0, 0.0], [value, other]] for value in sorted(first)], np.float32)
    clamped = EDGES.clamp(windows)
    assert ((clamped >= np.array(EDGES.clamp_low)) & (clamped <= np.array(EDGES.clamp_high))).all()
    answers = EDGES.extrapolate(np.full(len(windows), output), windows[:, -1, 0])
    assert np.isfinite(answers).all()
    assert (np.diff(answers) >= 0).all()
    inside = (clamped == windows).all(axis=(1, 2))
    assert_array_equal(answers[inside & (windows[:, -1, 0] < EDGES.mean[0])], output)
    assert_array_equal(answers[inside & (windows[:, -1, 0] >= EDGES.mean[0])], max(output, EDGES.lower_bound or 0.0))


@pytest.mark.parametrize(
    "change",
    [{"low": (5.0, 0.0)}, {"clamp_high": (4.0,)}, {"clamp_low": (0.0, 0.0)}, {"whitening": ((1.0, 0.0), (1.0,))}],
)
def test_edges_that_do_not_fit_are_refused(change: dict[str, tuple[float, ...]]) -> None:
    with pytest.raises(UsageError, match="the bounds of the training range do not fit each other"):
        replace(EDGES, **change)
