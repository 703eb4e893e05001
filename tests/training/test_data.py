"""Training data: what is decided from the readings, what is refused, and windows gathered by index."""

from dataclasses import replace
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from scare.data.readings import Readings
from scare.errors import DataError
from scare.layers.embedding import HatBasis
from scare.training.data import common_step, hold_out, make_gather, prepare_inputs
from scare.training.fit import fit
from scare.windowing import training_examples as examples_module
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import DeviceEffect
from scare.windowing.training_examples import Examples, design_matrix, features, make_examples
from scare.windowing.windows import RECENT
from tests.training.small_fits import line_recipe, make_readings

RECIPE = line_recipe()


def without_reference(readings: Readings) -> Readings:
    return replace(readings, frame=readings.frame.drop("reference"), reference=None)


def test_a_constant_reference_is_refused() -> None:
    constant = make_readings(targets=np.full(200, 7.5))
    with pytest.raises(DataError, match=r"reference no2 is constant \(7.5\)"):
        fit(constant, recipe=RECIPE)


def test_readings_without_a_reference_are_refused() -> None:
    with pytest.raises(DataError, match="reference"):
        fit(without_reference(make_readings()), recipe=RECIPE)
    with pytest.raises(DataError, match="training needs a reference; name its column with --reference"):
        fit(without_reference(make_readings()), [make_readings()], RECIPE)


def test_a_reference_that_never_overlaps_the_sensor_is_refused() -> None:
    values = make_readings().values.copy()
    values[:100] = np.nan
    targets = np.where(np.arange(200) < 100, np.arange(200.0), np.nan)
    apart = make_readings(values, targets)
    with pytest.raises(DataError, match="training: sensor and reference do not overlap"):
        fit(apart, [make_readings()], RECIPE)
    with pytest.raises(DataError, match="reference no2 has no value at the sensor's times"):
        fit(make_readings(targets=np.full(200, np.nan)), [make_readings()], RECIPE)


def test_validation_without_a_reference_is_refused() -> None:
    with pytest.raises(DataError, match="validation: sensor and reference do not overlap"):
        fit(make_readings(), [without_reference(make_readings())], RECIPE)


def test_too_few_rows_are_refused_with_the_longest_run() -> None:
    values = make_readings().values.copy()
    values[::3] = np.nan
    holed = make_readings(values)
    with pytest.raises(DataError, match=r"too few rows .* 200 rows, .* is 2 readings, .* window of 90 needs 60"):
        fit(holed, [make_readings()], replace(RECIPE, window=90, learned_from=RECENT))
    with pytest.raises(DataError, match="validation: too few rows"):
        fit(make_readings(), [holed], replace(RECIPE, window=90))


def test_too_little_time_to_hold_any_out_is_refused() -> None:
    with pytest.raises(DataError, match="too few rows to hold any out for validation"):
        fit(make_readings(), recipe=line_recipe(window=40))


def with_dead_rows(device: str, rows: slice) -> Readings:
    values = make_readings(device=device, channels=("raw", "warmth")).values.copy()
    values[rows, 1] = -999.0
    return make_readings(values, device=device, channels=("raw", "warmth"))


def test_a_channel_without_a_usable_value_is_refused_by_name() -> None:
    with pytest.raises(
        DataError, match="box-1 is left out: warmth has no usable value; use --channels raw to leave it out"
    ):
        fit(with_dead_rows("box-1", slice(None)), recipe=RECIPE)


@pytest.mark.parametrize("per_device", [None, True, False])
def test_a_fleet_with_a_dead_box_is_trained_as_if_it_were_not_there(per_device: bool | None) -> None:
    alive = [make_readings(device=name, channels=("raw", "warmth")) for name in ("a", "bb")]
    recipe = line_recipe(per_device=per_device)
    dead = fit([*alive, with_dead_rows("ccc", slice(None))], recipe=recipe)
    without = fit(alive, recipe=recipe)
    assert dead.facts["left_out"] == [
        "ccc is left out: warmth has no usable value in training; use --channels raw to leave it out"
    ]
    assert without.facts == {name: fact for name, fact in dead.facts.items() if name != "left_out"}
    np.testing.assert_array_equal(dead.golden.numbers, without.golden.numbers)


@pytest.mark.parametrize(
    ("training", "validation", "left"),
    [(slice(None), slice(0), (["a"], ["a"])), (slice(0), slice(None), (["a", "bb"], ["a"]))],
)
def test_a_box_dead_in_training_is_left_out_of_both_parts_and_later_of_that_one(
    training: slice, validation: slice, left: tuple[list[str], list[str]]
) -> None:
    healthy = with_dead_rows("a", slice(0))
    given = [healthy, with_dead_rows("bb", training)], [healthy, with_dead_rows("bb", validation)]
    facts = fit(*given, RECIPE).facts
    assert (facts["devices"], facts["validation"]["devices"]) == left
    assert len(facts["left_out"]) == 1


def test_rows_that_are_never_complete_are_refused() -> None:
    values = np.repeat(make_readings().values, 2, axis=1)
    values[::2, 0] = np.nan
    values[1::2, 1] = np.nan
    with pytest.raises(DataError, match="box-1 is left out: no row has a usable value in every channel"):
        fit(make_readings(values, np.arange(200.0), channels=("raw", "warmth")), recipe=RECIPE)


def test_devices_with_different_channels_are_refused() -> None:
    other = make_readings(device="box-2", channels=("voltage",))
    with pytest.raises(DataError, match="box-2 does not have the channels and reference of box-1"):
        fit([make_readings(), other], [make_readings()], RECIPE)
    with pytest.raises(DataError, match="box-2: no channel raw; its channels are voltage"):
        fit(make_readings(), [other], RECIPE)


def test_devices_with_different_steps_are_refused() -> None:
    slow = make_readings(device="box-2", step_seconds=600)
    with pytest.raises(
        DataError, match=r"box-1 has a row every 60 s, but the median of all devices is 330 s; .* \(data.step"
    ):
        fit([make_readings(), slow], recipe=RECIPE)


def test_one_row_has_no_step() -> None:
    one = make_readings()
    with pytest.raises(DataError, match="no device has two rows"):
        common_step([one.rows(np.arange(len(one)) == 0)])
    assert common_step([one]) == 60.0


def test_the_last_rows_are_held_out_a_window_apart() -> None:
    one = make_readings()
    before, after = hold_out([one], line_recipe(window=10))
    known = after[0].times[np.isfinite(after[0].targets)]
    assert len(before[0]) + len(after[0]) == len(one)
    assert len(after[0]) == pytest.approx(0.15 * len(one), abs=1)
    assert known[0] - before[0].times[-1] > 10 * 60


def test_devices_with_a_gain_of_their_own_are_scaled_apart() -> None:
    truth = np.random.default_rng(0).normal(20, 5, (200, 1))
    first, second = make_readings(truth, truth[:, 0], "a"), make_readings(50 + 3 * truth, truth[:, 0], "bb")
    apart, _ = prepare_inputs([first, second], [second], RECIPE)
    assert set(apart.scaling.devices) == {"a", "bb"}
    np.testing.assert_allclose(apart.scaling.known("bb").center, second.values.mean(axis=0))


def test_equal_devices_at_unequal_places_are_scaled_together() -> None:
    truth = np.random.default_rng(0).normal(20, 5, (200, 1))
    first = make_readings(truth, truth[:, 0], "a", unit="ppb")
    second = make_readings(truth + 30, truth[:, 0] + 30, "bb", unit="ppb")
    together, _ = prepare_inputs([first, second], [second], RECIPE)
    assert not together.scaling.devices
    assert together.scaling.known("bb") is together.scaling.fleet


def test_where_validation_is_on_new_devices_the_fleet_is_scaled_together() -> None:
    first, second, new = (make_readings(device=name, unit="ppb") for name in ("a", "bb", "ccc"))
    pooled, _ = prepare_inputs([first, second], [new], RECIPE)
    assert not pooled.scaling.devices
    everything = np.concatenate([first.values, second.values])
    np.testing.assert_allclose(pooled.scaling.known("ccc").center, everything.mean(axis=0))


def test_a_recipe_can_ask_for_its_own_way_of_scaling() -> None:
    first, new = make_readings(device="a"), make_readings(device="bb")
    settling, _ = prepare_inputs([first], [new], line_recipe(per_device=True, settle_hours=2.0))
    assert settling.scaling.known("bb") is None
    assert settling.scaling.settle == 120
    known = make_readings(device="a", unit="ppb")
    pooled, _ = prepare_inputs([known], [known], line_recipe(per_device=False))
    assert pooled.scaling.known("a") is pooled.scaling.fleet


def test_raw_channels_of_a_fleet_scaled_together_have_centres_of_their_own() -> None:
    first, second, new = (make_readings(device=name) for name in ("a", "bb", "ccc"))
    scaling = prepare_inputs([first, second], [new], line_recipe(settle_hours=1.0))[0].scaling
    assert (set(scaling.devices), scaling.settle) == ({"a", "bb"}, 60)
    assert scaling.own_share is not None
    for one in (first, second):
        known = scaling.known(one.device)
        assert known is not None
        assert known.scale == scaling.fleet.scale
        expected = scaling.fleet.center + scaling.own_share * (one.values.mean(axis=0) - scaling.fleet.center)
        np.testing.assert_allclose(known.center, expected)
    assert scaling.known("ccc") is None
    assert prepare_inputs([first, second], [new], line_recipe(settle_hours=0.0))[0].scaling.settle == 0


def test_scaling_is_fitted_to_training_only_and_skips_unusable_values() -> None:
    one = make_readings()
    values = one.values.copy()
    values[3] = -999.0
    inputs, target = prepare_inputs([make_readings(values)], [], RECIPE)
    np.testing.assert_allclose(inputs.scaling.known("box-1").center, np.delete(one.values, 3, axis=0).mean(axis=0))
    assert target.name == "no2"
    assert inputs.step_seconds == 60.0


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
    monkeypatch.setattr(examples_module, "BATCH", 7)
    np.testing.assert_allclose(features(examples, everything, basis), whole, rtol=1e-6, atol=1e-7)


def test_of_too_many_examples_an_even_part_is_known(examples: Examples, monkeypatch: pytest.MonkeyPatch) -> None:
    basis = HatBasis(WINDOW).matrix
    everything, targets, times, devices, names = design_matrix(examples, basis)
    assert len(everything) == len(targets) == len(times) == len(devices) == len(examples)
    assert [names[device] for device in devices[[0, -1]]] == ["box-1", "box-22"]
    monkeypatch.setattr(examples_module, "STORED_BYTES", everything[0].nbytes * 20)
    some, some_targets, some_times, some_devices, _ = design_matrix(examples, basis)
    assert len(some) == 20
    np.testing.assert_array_equal(some_targets, targets[examples.spread(20)])
    np.testing.assert_array_equal(some_times, times[examples.spread(20)])
    np.testing.assert_array_equal(some_devices, devices[examples.spread(20)])


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


def test_a_new_device_is_scaled_as_the_fleet_until_its_raw_channel_has_settled() -> None:
    seen = make_readings(device="seen")
    new = make_readings(values=300 + 2 * seen.values, targets=seen.targets, device="new")
    inputs = inputs_for(seen, per_device=True, settle_hours=0.5)
    scaling = inputs.scaling
    assert scaling.settle == 30
    assert scaling.own_share is not None
    examples = make_examples([new], inputs)
    newest, rows = examples.series[examples.ends, 0], np.arange(WINDOW - 1, len(new))
    center, scale = seen.values.mean(), seen.values.std()
    fleet = (new.values[:, 0] - center) / scale
    own = (new.values[:, 0] - center - scaling.own_share[0] * (new.values[:30, 0].mean() - center)) / scale
    before = rows < 29  # the thirtieth reading completes the first settled window
    np.testing.assert_allclose(newest[before], fleet[rows[before]], rtol=1e-5)
    np.testing.assert_allclose(newest[~before], own[rows[~before]], rtol=1e-4, atol=1e-5)


def test_examples_know_their_devices_and_lose_what_these_add() -> None:
    devices = [make_readings(device=name) for name in ("a", "bb", "ccc")]
    examples = make_examples(devices, inputs_for(*devices, per_device=False, settle_hours=0.0))
    assert examples.names == ("a", "bb", "ccc")
    np.testing.assert_array_equal(np.unique(examples.devices, return_counts=True)[1], [len(examples) // 3] * 3)
    plain = examples.without_effects({"bb": DeviceEffect(0.5, 0.25)})
    added = np.where(examples.devices == 1, 0.5 + 0.25 * examples.series[examples.ends, 0], 0.0)
    np.testing.assert_allclose(plain.targets, examples.targets - added, atol=1e-6)
    assert plain.targets.dtype == np.float32
    np.testing.assert_array_equal(plain.ends, examples.ends)
    assert examples.without_effects({}) is examples
