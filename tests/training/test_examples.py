"""Examples are windows kept as indices: what is gathered is what slicing would cut."""

from dataclasses import replace
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from scare.layers.front import HatBasis
from scare.training.data import make_gather, prepare_inputs
from scare.windowing import examples as examples_module
from scare.windowing.examples import Examples, design_matrix, features, make_examples
from scare.windowing.inputs import Inputs
from tests.training.small_fits import line_recipe, make_readings

WINDOW = 8


def inputs_for(*readings: object, window: int = WINDOW, **recipe: object) -> Inputs:
    return prepare_inputs(readings, (), line_recipe(window, **recipe))[0]


@pytest.fixture(scope="module")
def examples() -> Examples:
    """The examples of two devices with two channels."""
    devices = [make_readings(device=name, channels=("raw", "warmth")) for name in ("box-1", "box-22")]
    return make_examples(devices, inputs_for(*devices))


def test_a_window_is_the_rows_up_to_its_target_scaled() -> None:
    one = make_readings(channels=("raw", "warmth"))
    inputs = inputs_for(one)
    examples = make_examples([one], inputs)
    scaled = inputs.scaling.known(one.device).apply(one.values)
    targets = inputs.scaling.target.apply(one.targets[:, None])[:, 0]
    assert len(examples) == len(one) - WINDOW + 1
    for number, row in enumerate(range(WINDOW - 1, len(one))):
        window = examples.windows(np.array([number]))[0]
        np.testing.assert_allclose(window, scaled[row - WINDOW + 1 : row + 1], rtol=1e-5, atol=1e-6)
        assert examples.targets[number] == pytest.approx(targets[row], rel=1e-5, abs=1e-6)


def test_rows_without_a_reference_are_history_but_no_example() -> None:
    whole = make_readings()
    targets = whole.targets.copy()
    targets[50:60] = np.nan
    holed = make_readings(targets=targets)
    inputs = inputs_for(whole)
    all_of_them, some = make_examples([whole], inputs), make_examples([holed], inputs)
    assert len(some) == len(all_of_them) - 10
    np.testing.assert_array_equal(some.series, all_of_them.series)
    assert set(some.ends) < set(all_of_them.ends)


def test_no_window_reaches_from_one_device_into_the_next() -> None:
    first, second = make_readings(device="a"), make_readings(device="bb")
    inputs = inputs_for(first, second)
    both = make_examples([first, second], inputs)
    apart = [make_examples([one], inputs) for one in (first, second)]
    expected = np.concatenate([one.windows(np.arange(len(one))) for one in apart])
    np.testing.assert_array_equal(both.windows(np.arange(len(both))), expected)
    np.testing.assert_array_equal(both.targets, np.concatenate([one.targets for one in apart]))


def test_a_gather_of_windows_is_slicing_by_index(examples: Examples) -> None:
    which = np.array([0, 5, 5, len(examples) - 1])
    gather = make_gather(examples, SimpleNamespace(basis=None, channels=2))
    assert gather.stored is None
    np.testing.assert_array_equal(gather(jnp.asarray(which)), examples.windows(which))


def test_stored_features_are_those_computed_on_the_fly(examples: Examples, monkeypatch: pytest.MonkeyPatch) -> None:
    network = SimpleNamespace(basis=HatBasis(WINDOW).matrix, channels=2)
    which = np.array([0, 5, 5, len(examples) - 1])
    stored = make_gather(examples, network)
    monkeypatch.setattr(examples_module, "STORED_BYTES", 64)
    fresh = make_gather(examples, network)
    assert stored.stored is not None
    assert fresh.stored is None
    expected = np.einsum("tk,btc->bkc", network.basis, examples.windows(which))
    np.testing.assert_allclose(stored(jnp.asarray(which)), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(fresh(jnp.asarray(which)), expected, rtol=1e-5, atol=1e-6)


def test_features_are_the_same_in_any_number_of_parts(examples: Examples, monkeypatch: pytest.MonkeyPatch) -> None:
    basis, everything = HatBasis(WINDOW).matrix, np.arange(len(examples))
    whole = features(examples, everything, basis)
    monkeypatch.setattr(examples_module, "ROWS", 7)
    np.testing.assert_allclose(features(examples, everything, basis), whole, rtol=1e-6, atol=1e-7)


def test_of_too_many_examples_an_even_part_is_known(examples: Examples, monkeypatch: pytest.MonkeyPatch) -> None:
    basis = HatBasis(WINDOW).matrix
    everything, targets, times = design_matrix(examples, basis)
    assert len(everything) == len(targets) == len(times) == len(examples)
    monkeypatch.setattr(examples_module, "STORED_BYTES", everything[0].nbytes * 20)
    some, some_targets, some_times = design_matrix(examples, basis)
    assert len(some) == 20
    np.testing.assert_array_equal(some_targets, targets[examples.spread(20)])
    np.testing.assert_array_equal(some_times, times[examples.spread(20)])


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_spread_examples_are_different_ones_from_beginning_to_end(examples: Examples, count: int) -> None:
    chosen = examples.spread(count)
    assert len(chosen) == min(count, len(examples))
    assert chosen[0] == 0
    assert count == 1 or chosen[-1] == len(examples) - 1


def test_a_fingerprint_tells_numbers_apart(examples: Examples) -> None:
    other = replace(examples, targets=examples.targets + np.float32(1e-3))
    assert examples.fingerprint() == Examples(*vars(examples).values()).fingerprint()
    assert examples.fingerprint() != other.fingerprint()


def test_readings_without_a_usable_window_give_no_example() -> None:
    one = make_readings()
    inputs = inputs_for(one)
    none = make_examples([one.rows(np.arange(len(one)) < 3)], inputs)
    assert len(none) == 0
    assert none.series.shape == (0, 1)


def test_an_unseen_device_is_scaled_as_the_fleet_and_then_by_its_own_first_readings() -> None:
    seen = make_readings(device="seen")
    new = make_readings(values=300 + 50 * seen.values, targets=seen.targets, device="new")
    inputs = inputs_for(seen, per_device=True, settle_hours=0.5)
    assert inputs.scaling.settle == 30
    examples = make_examples([new], inputs)
    newest, rows = examples.series[examples.ends, 0], np.arange(WINDOW - 1, len(new))
    own = (new.values[:, 0] - new.values[:30, 0].mean()) / new.values[:30, 0].std()
    fleet = (new.values[:, 0] - seen.values.mean()) / seen.values.std()
    before = rows < 29  # the thirtieth reading completes the first settled window
    np.testing.assert_allclose(newest[before], fleet[rows[before]], rtol=1e-5)
    np.testing.assert_allclose(newest[~before], own[rows[~before]], rtol=1e-4, atol=1e-5)
