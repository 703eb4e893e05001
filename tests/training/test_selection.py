"""Families are judged on rows that chose nothing, near-ties are averaged, and what costs a board much must earn it."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.board.boards import board
from scare.board.certificate import verify
from scare.calibrator.calibrator import Calibrator
from scare.data.readings import CALIBRATED, Channel, Readings
from scare.export.lowering import Arithmetic
from scare.models.linear_families import (
    AS_IS,
    DEVICES,
    DRIFT,
    DRIFT_STEPS,
    INTERACTIONS,
    LINE,
    LINEAR,
    OFFSET,
    RAW,
    RIDGE,
    Design,
    Linear,
    fit_effects,
    linear_variants,
)
from scare.training import loop
from scare.training.fit import fit
from scare.training.recipe import Recipe
from scare.training.selection import (
    NETWORK,
    TREES,
    Fitted,
    SelectionRules,
    choose_shares,
    cross_fit,
    describe_selection,
    fit_families,
)
from scare.windowing.scaling import Affine, DeviceEffect, Scaling
from scare.windowing.training_examples import DesignMatrix
from tests.training.small_fits import make_readings

LAGS, COUNT, USUAL = 3, 1200, SelectionRules()
# of the newest two readings and the oldest first one
Truth = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def products(features: np.ndarray) -> np.ndarray:
    first, second = np.triu_indices(features.shape[2])
    return features[:, 0, first] * features[:, 0, second]


def make_design(
    features: np.ndarray,
    targets: np.ndarray,
    times: np.ndarray | None = None,
    devices: np.ndarray | None = None,
    names: tuple[str, ...] = ("a",),
    extra: Callable[[np.ndarray], np.ndarray] | None = products,
    scaling: Scaling | None = None,
) -> Design:
    """A design of features [n, rows, channels], whose row 0 is the newest."""
    count = len(targets)
    times = np.arange(float(count)) if times is None else times
    devices = np.zeros(count, int) if devices is None else devices
    channels = features.shape[2]
    unscaled = Scaling("standard", Affine(np.zeros(channels), np.ones(channels)), Affine(np.zeros(1), np.ones(1)))
    return Design(DesignMatrix(features, targets, times, devices, names), scaling or unscaled, 0, extra)


# cross-fitting


def test_each_block_is_scored_by_a_choice_made_on_the_others() -> None:
    """Each of three variants is right in one block of two rows: chosen on all rows, one seems right in a third."""
    outputs = np.array([[0.0, 0, 1, 1, 1, 1], [1, 1, 0, 0, 1, 1], [1, 1, 1, 1, 0, 0]])
    best, honest = cross_fit(outputs, np.zeros(6), np.arange(6.0), blocks=3)
    assert best == 0
    assert np.square(outputs[best]).mean() == pytest.approx(4 / 6)  # flattered: no choice is right on rows to come
    assert_array_equal(honest, np.ones(6))


def test_a_choice_among_equals_flatters_itself_and_its_cross_fitted_error_does_not() -> None:
    rng = np.random.default_rng(0)
    chosen, honest = [], []
    for _ in range(40):  # 50 variants of error 1 each
        outputs = rng.normal(size=(50, 200))
        best, kept = cross_fit(outputs, np.zeros(200), np.arange(200.0), blocks=4)
        chosen.append(np.square(outputs[best]).mean())
        honest.append(np.square(kept).mean())
    assert np.mean(chosen) < 0.83  # the least of 50 means of 200 squares: 1 - 2.25 sqrt(2 / 200) = 0.78
    assert np.mean(honest) == pytest.approx(1.0, abs=0.04)


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), variants=st.integers(1, 6), count=st.integers(8, 60), blocks=st.integers(2, 5))
def test_the_rows_of_a_block_have_no_say_in_what_scores_it(seed: int, variants: int, count: int, blocks: int) -> None:
    rng = np.random.default_rng(seed)
    outputs, targets = rng.normal(size=(variants, count)), rng.normal(size=count)
    times = rng.permutation(count).astype(float)
    best, honest = cross_fit(outputs, targets, times, blocks)
    assert best == np.argmin(np.square(outputs - targets).mean(axis=1))
    assert (honest == outputs).any(axis=0).all()  # every output is that of some variant
    for low, high in pairwise([-np.inf, *np.quantile(times, np.arange(1, blocks) / blocks), np.inf]):
        inside = (times >= low) & (times < high)
        others = np.where(inside, 1e3 * rng.normal(size=count), targets)
        assert_array_equal(cross_fit(outputs, others, times, blocks)[1][inside], honest[inside])
        if inside.any() and not inside.all():
            expected = np.argmin(np.square(outputs - targets)[:, ~inside].mean(axis=1))
            assert_array_equal(honest[inside], outputs[expected][inside])


def test_one_variant_is_its_own_cross_fit() -> None:
    outputs = np.random.default_rng(0).normal(size=(1, 30))
    best, honest = cross_fit(outputs, np.zeros(30), np.arange(30.0), 4)
    assert best == 0
    assert_array_equal(honest, outputs[0])


def test_rows_at_one_time_are_all_one_block() -> None:
    outputs = np.random.default_rng(0).normal(size=(3, 30))
    best, honest = cross_fit(outputs, np.zeros(30), np.zeros(30), 4)
    assert_array_equal(honest, outputs[best])


# shares


def family(name: str, outputs: np.ndarray) -> Fitted:
    return Fitted(name, name, outputs)


def test_near_ties_are_averaged_and_others_are_left_out() -> None:
    targets = np.zeros(4)
    errors = {LINEAR: 1.0, INTERACTIONS: 1.14, DEVICES: 1.16, DRIFT: 1.0}
    families = [family(name, targets + error) for name, error in errors.items()]
    assert choose_shares(families, targets, USUAL) == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3])
    assert choose_shares(families, targets, SelectionRules(tolerance=0.2)) == pytest.approx([1 / 4] * 4)
    assert choose_shares(families, targets, SelectionRules(tolerance=0.0)) == pytest.approx([1 / 2, 0, 0, 1 / 2])


def test_without_a_family_the_tolerance_is_of_the_best_of_the_others() -> None:
    targets = np.zeros(4)
    errors = {LINEAR: 1.0, DRIFT: 1.1, TREES: 0.7, NETWORK: 0.5}
    families = [family(name, targets + error) for name, error in errors.items()]
    for without, shares in (((), [0, 0, 0, 1]), ((NETWORK,), [0, 0, 1, 0]), ((NETWORK, TREES), [0.5, 0.5, 0, 0])):
        assert choose_shares(families, targets, USUAL, without) == shares


def test_a_costly_family_far_better_than_all_others_is_alone() -> None:
    targets = np.zeros(4)
    assert choose_shares([family(LINEAR, targets + 1.0), family(TREES, targets + 0.5)], targets, USUAL) == [0.0, 1.0]


def test_of_families_that_are_exact_the_simplest_is_all() -> None:
    targets = np.random.default_rng(0).normal(size=20)
    names = (AS_IS, LINEAR, DRIFT, TREES, NETWORK)
    families = [family(name, targets + error) for name, error in zip(names, (1, 1e-4, 1e-7, 0, 1e-9), strict=True)]
    assert choose_shares(families, targets, USUAL) == [0.0, 0.0, 1.0, 0.0, 0.0]


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 7), tolerance=st.floats(0, 2))
def test_shares_are_equal_and_sum_to_one(seed: int, count: int, tolerance: float) -> None:
    rng = np.random.default_rng(seed)
    targets = rng.normal(size=20)
    names = (LINEAR, AS_IS, INTERACTIONS, DEVICES, DRIFT, TREES, NETWORK)[-count:]
    families = [family(name, targets + rng.normal(size=20)) for name in names]
    rules = SelectionRules(tolerance=tolerance)
    shares = np.array(choose_shares(families, targets, rules))
    assert shares.sum() == pytest.approx(1.0)
    assert len(set(shares[shares > 0])) == 1
    errors = np.array([one.rmse(targets) for one in families])
    np.testing.assert_array_equal(shares > 0, errors <= (1 + tolerance) * errors.min())


# the linear families


def parts(truth: Truth, noise: float = 0.3, channels: int = 2) -> tuple[Design, Design]:
    """Training and validation of this truth."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(2):
        x = rng.normal(size=(COUNT, LAGS, channels))
        target = truth(x[:, 0, 0], x[:, 0, -1], x[:, 2, 0]) + noise * rng.normal(size=COUNT)
        found.append(make_design(x, target))
    return found[0], found[1]


def fitted(truth: Truth, noise: float = 0.3, channels: int = 2) -> dict[str, Fitted]:
    return {one.family: one for one in fit_families(*parts(truth, noise, channels), False, USUAL)}


@pytest.mark.parametrize(
    ("truth", "name", "variants"),
    [
        (lambda a, b, old: 2 * a, LINEAR, "line|other channels|history"),
        (lambda a, b, old: 2 * a - b, LINEAR, "other channels|history"),
        (lambda a, b, old: 2 * a + old, LINEAR, "history"),
        (lambda a, b, old: 2 * a + a * b, INTERACTIONS, ".* and products with (the first channel|each other)"),
        (lambda a, b, old: 2 * a + b * b + old, INTERACTIONS, "history and products with each other"),
    ],
)
def test_the_chosen_variant_reads_what_the_truth_needs(truth: Truth, name: str, variants: str) -> None:
    found, (_, validation) = fitted(truth), parts(truth)
    assert re.fullmatch(variants, found[name].variant.partition(", penalty")[0])
    errors = {one.family: one.rmse(validation.data.targets) for one in found.values()}
    assert errors[name] == pytest.approx(0.3, rel=0.1)
    assert errors[name] <= 1.02 * min(errors.values())
    if name == INTERACTIONS:
        assert errors[LINEAR] > 2 * errors[INTERACTIONS]


def test_a_line_keeps_the_slope_of_training_however_flat_validation_is() -> None:
    x = np.random.default_rng(3).normal(size=(400, 1, 1))
    train, flat = (make_design(x, slope * x[:, 0, 0], extra=None) for slope in (2.0, 0.5))
    found = {one.family: one for one in fit_families(train, flat, False, USUAL)}
    assert found[LINEAR].variant == LINE
    assert found[LINEAR].linear is not None
    assert found[LINEAR].linear.weights == pytest.approx([2.0], rel=1e-3)


def test_families_and_variants_are_those_that_the_data_allow() -> None:
    train, _ = parts(lambda a, b, old: a, channels=1)
    one_channel = linear_variants(train, False)
    assert list(one_channel) == [LINEAR, INTERACTIONS, DRIFT]
    assert {name.partition(",")[0] for name in one_channel[LINEAR]} == {"line", "history"}
    assert {name.partition(",")[0] for name in one_channel[INTERACTIONS]} == {
        "line and products with the first channel",
        "history and products with the first channel",
    }
    x = np.random.default_rng(0).normal(size=(50, 1, 2))
    newest = linear_variants(make_design(x, x[:, 0, 0], extra=None), False)
    assert {name: list(variants) for name, variants in newest.items()} == {
        LINEAR: ["line", "other channels"],
        DRIFT: [DRIFT],
    }
    two = make_design(x, x[:, 0, 0], devices=np.arange(50) % 2, names=("a", "b"), extra=None)
    assert list(linear_variants(two, True)) == [AS_IS, LINEAR, DEVICES, DRIFT]


def test_weights_are_zero_where_the_chosen_variant_does_not_read() -> None:
    train, _ = parts(lambda a, b, old: 2 * a - b)
    reads = {"line": 1, "other channels": 2, "history": 2 * LAGS}
    for name, variant in linear_variants(train, False)[LINEAR].items():
        weights = variant(train).weights
        assert np.count_nonzero(weights) == reads[name.partition(",")[0]]
        assert weights[0] == pytest.approx(2.0 / (1 + float(name.partition("penalty ")[2] or 0)), abs=0.1)


def test_the_outputs_of_a_family_are_those_of_its_model_fitted_to_training() -> None:
    train, validation = parts(lambda a, b, old: 2 * a - b)
    for one in fit_families(train, validation, False, replace(USUAL, blocks=1)):
        assert one.fit is not None
        assert one.linear is not None
        again = one.fit(train)
        assert_array_equal(again.weights, one.linear.weights)
        assert_allclose(validation.predict(again), one.outputs, rtol=1e-12)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 4))
def test_the_mean_of_linear_models_gives_the_mean_of_their_outputs(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    names = ("a", "b", "c")
    x, devices = rng.normal(size=(40, 2, 2)), rng.integers(0, 3, 40)
    design = make_design(x, rng.normal(size=40), devices=devices, names=names)
    models = [
        Linear(
            rng.normal(size=design.size),
            float(rng.normal()),
            {name: DeviceEffect(*rng.normal(size=2)) for name in names if rng.random() < 0.5},
        )
        for _ in range(count)
    ]
    shares = rng.dirichlet(np.ones(count)).tolist()
    expected = sum(share * design.predict(model) for model, share in zip(models, shares, strict=True))
    assert_allclose(design.predict(Linear.mean(models, shares)), expected, rtol=1e-10, atol=1e-10)


def test_a_reading_as_it_is_is_the_same_number_however_devices_are_scaled() -> None:
    rng = np.random.default_rng(0)
    physical, devices = rng.normal(20, 4, (60, 1, 1)), np.arange(60) % 3
    own = {name: Affine(rng.normal(20, 3, 1), rng.uniform(2, 6, 1)) for name in ("a", "b")}
    fleet, target = Affine(np.array([19.0]), np.array([5.0])), Affine(np.array([30.0]), np.array([7.0]))
    scaling, names = Scaling("standard", fleet, target, own), ("a", "b", "new")
    affines = [own.get(name, fleet) for name in names]
    scaled = np.stack([affines[device].apply(row) for device, row in zip(devices, physical, strict=True)])
    targets = target.apply(physical[:, 0] + 2.5)[:, 0]
    design = make_design(scaled, targets, devices=devices, names=names, extra=None, scaling=scaling)
    variants = linear_variants(design, True)[AS_IS]
    raw, offset = (target.invert(design.predict(variants[name](design))[:, None])[:, 0] for name in (RAW, OFFSET))
    assert_allclose(raw, physical[:, 0, 0], rtol=1e-9)
    assert_allclose(offset, physical[:, 0, 0] + 2.5, rtol=1e-9)


# device effects and drift


def simulated_devices(
    offsets: np.ndarray, slopes: np.ndarray, steps: np.ndarray, noise: float = 0.2, each: int = 800, seed: int = 0
) -> Design:
    """Devices side by side: 1.5 x plus an offset and a slope of each, and the offset of each part of the period."""
    rng = np.random.default_rng(seed)
    count = len(offsets) * each
    x, devices = rng.normal(size=(count, 2, 1)), np.repeat(np.arange(len(offsets)), each)
    times = np.tile(np.arange(float(each)), len(offsets))
    now = x[:, 0, 0]
    later = steps[(times * len(steps) / each).astype(int)]
    targets = 1.5 * now + offsets[devices] + slopes[devices] * now + later + noise * rng.normal(size=count)
    names = tuple(f"box-{number}" for number in range(len(offsets)))
    return make_design(x, targets, times, devices, names)


def test_offsets_and_slopes_of_devices_are_recovered() -> None:
    offsets, slopes = np.array([0.8, -0.4, 0.1, -0.5]), np.array([0.3, -0.2, 0.0, -0.1])
    model, residuals = fit_effects(simulated_devices(offsets, slopes, np.zeros(1)), steps=1)
    found = np.array([model.effects[f"box-{number}"] for number in range(4)])
    # the mean of all devices may be in the bias and the common slope
    assert_allclose(found[:, 0] + model.bias, offsets, atol=0.05)
    assert_allclose(found[:, 1] + model.weights[0], 1.5 + slopes, atol=0.05)
    assert_array_equal(model.weights[1:], 0)
    assert residuals.std() == pytest.approx(0.2, rel=0.05)


def test_steps_of_the_offset_are_recovered_and_the_last_is_kept() -> None:
    steps = np.array([0.0, 0.0, 0.5, 0.5, 0.5, -0.3, -0.3, 0.9])
    design = simulated_devices(np.zeros(3), np.zeros(3), steps)
    model, residuals = fit_effects(design, steps=DRIFT_STEPS)
    assert model.bias == pytest.approx(0.9, abs=0.06)
    assert residuals.std() == pytest.approx(0.2, rel=0.05)
    part = (design.data.times * 8 / 800).astype(int)
    now = design.data.features[:, 0, 0]
    offsets = [(design.data.targets - residuals - 1.5 * now)[part == number].mean() for number in range(8)]
    assert_allclose(offsets, steps, atol=0.06)


@pytest.mark.parametrize("steps", [1, DRIFT_STEPS])
def test_effects_of_pure_noise_shrink_to_about_zero(steps: int) -> None:
    shrunk, plain, biases = [], [], []
    for seed in range(8):
        design = simulated_devices(np.zeros(5), np.zeros(5), np.zeros(1), noise=1.0, each=200, seed=seed)
        model, _ = fit_effects(design, steps)
        errors = design.data.targets - 1.5 * design.data.features[:, 0, 0]
        shrunk += [part for effect in model.effects.values() for part in effect]
        plain += [errors[design.data.devices == number].mean() for number in range(5)]
        biases.append(model.bias)
    assert np.sqrt(np.square(shrunk).mean()) < 0.5 * np.sqrt(np.square(plain).mean()) < 0.05
    assert np.sqrt(np.square(biases).mean()) < 0.1


def test_rows_that_are_alike_count_less_than_rows_that_are_not() -> None:
    """Errors that last for hours look like offsets: the same rows with such errors give smaller effects."""
    rng = np.random.default_rng(3)
    design = simulated_devices(np.zeros(4), np.zeros(4), np.zeros(1), noise=0.0, each=300)
    slow = np.repeat(rng.normal(size=(4, 4)), 75, axis=1).ravel()
    sizes = []
    for errors in (slow, rng.permutation(slow) + np.repeat(slow.reshape(4, -1).mean(axis=1), 300)):
        data = design.data._replace(targets=design.data.targets + errors)
        effects, _ = fit_effects(replace(design, data=data), steps=1)
        sizes.append(np.square([effect.offset for effect in effects.effects.values()]).mean())
    assert sizes[0] < sizes[1]


def test_later_rows_have_the_last_offset_whatever_their_time() -> None:
    train = simulated_devices(np.zeros(2), np.zeros(2), np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0]))
    model, _ = fit_effects(train, DRIFT_STEPS)
    expected = train.predict(model)
    for times in (train.data.times - 1e6, train.data.times + 1e6, train.data.times[::-1]):
        moved = replace(train, data=train.data._replace(times=times))
        assert_array_equal(moved.predict(model), expected)
    assert_allclose(expected - 1.5 * train.data.features[:, 0, 0], 2.0, atol=0.15)


def test_outputs_of_drift_on_validation_do_not_depend_on_its_references_or_times() -> None:
    train, validation = parts(lambda a, b, old: a + b)
    data = validation.data
    other = replace(validation, data=data._replace(targets=data.targets[::-1] + 5.0, times=data.times + 1e5))
    outputs = [
        next(one.outputs for one in fit_families(train, part, None, USUAL) if one.family == DRIFT)
        for part in (validation, other)
    ]
    assert_array_equal(outputs[0], outputs[1])


def test_one_device_of_training_has_no_effects() -> None:
    design = simulated_devices(np.array([3.0]), np.array([0.5]), np.arange(8.0))
    for steps in (1, DRIFT_STEPS):
        assert fit_effects(design, steps)[0].effects == {}
    assert DEVICES not in linear_variants(design, None)
    # a name alone is no device: rows decide
    named = replace(design, data=design.data._replace(names=("box-0", "box-1")))
    assert DEVICES not in linear_variants(named, None)


def test_a_device_that_was_not_in_training_has_the_mean_of_all() -> None:
    train = simulated_devices(np.array([1.0, -1.0, 0.5, -0.5]), np.zeros(4), np.zeros(1))
    model, _ = fit_effects(train, steps=1)
    new = make_design(np.array([[[2.0], [0.0]]]), np.zeros(1), names=("new",))
    assert new.predict(model) == pytest.approx([3.0], abs=0.2)


# facts


def test_facts_name_every_family_with_its_error_and_share() -> None:
    targets = np.zeros(4)
    families = [
        Fitted(AS_IS, OFFSET, targets + 2.0),
        Fitted(LINEAR, "line", targets + 1.0),
        Fitted(NETWORK, NETWORK, targets + 0.9),
    ]
    facts = describe_selection(families, [0.0, 0.5, 0.5], targets, scale=3.0, unit="ppb", is_line=False)
    assert (facts["outcome"], facts["network_share"]) == (NETWORK, 0.5)
    assert facts["selection"][0] == {
        "candidate": "as is",
        "variant": "offset",
        "rmse": 6.0,
        "admitted": False,
        "share": 0.0,
    }
    assert facts["selection"][2]["rmse"] == pytest.approx(2.7)
    assert facts["summary"] == (
        "The result is the mean of a linear regression and the network, with an RMSE of 2.85 ppb on validation"
        " (cross-fitted); the others alone: the sensor reading plus an offset 6."
    )


@pytest.mark.parametrize(
    ("used", "is_line", "outcome", "summary"),
    [
        ([(AS_IS, RAW)], True, RAW, "is the sensor reading as it is, with an RMSE of"),
        ([(AS_IS, OFFSET)], True, OFFSET, "is the sensor reading plus an offset, with"),
        ([(LINEAR, "line")], True, LINE, "is a linear regression, with an RMSE"),
        ([(LINEAR, "history, penalty 1"), (DRIFT, DRIFT)], False, RIDGE, "drift, with an RMSE of .* one linear"),
        ([(DRIFT, DRIFT), (TREES, TREES)], False, TREES, "mean of a regression with drift and gradient-boosted trees"),
        ([(TREES, TREES), (NETWORK, NETWORK)], False, NETWORK, "gradient-boosted trees and the network"),
    ],
)
def test_the_outcome_is_the_most_complex_family_used(
    used: list[tuple[str, str]], is_line: bool, outcome: str, summary: str
) -> None:
    families = [Fitted(name, variant, np.ones(2)) for name, variant in used]
    facts = describe_selection(families, [1 / len(used)] * len(used), np.zeros(2), 1.0, "", is_line)
    assert facts["outcome"] == outcome
    assert pytest.approx(facts["network_share"]) == (outcome == NETWORK) / len(used)
    assert re.search(summary, facts["summary"])


# calibrators

ROWS, NOISY, WINDOW = 1500, 1000, 16
TRUTHS = {
    RAW: lambda now, before: now,
    OFFSET: lambda now, before: now + 5,
    LINE: lambda now, before: 2 * now + 5,
    "curve": lambda now, before: now + 0.2 * now**2,
    RIDGE: lambda now, before: now + before,
}
NEWEST, CURVED = {"newest", "dense"}, {"products", "add"}
# kernels that each truth needs, and that it may have besides, because near-ties are averaged
KERNELS = {
    RAW: (NEWEST, set()),
    OFFSET: (NEWEST, set()),
    LINE: (NEWEST, CURVED),
    "curve": (NEWEST | CURVED, set()),
    RIDGE: ({"hat_basis", "flatten", "dense"}, CURVED | {"part"}),
}


def colocation(truth: str, unit: str = "ppb", target_unit: str = "ppb") -> Readings:
    """A sensor whose truth is a function of its newest reading and the one before; noise at the beginning.

    So what is simpler than the truth, or more complicated, is worse on what is held out.
    """
    rng = np.random.default_rng(7)
    values = rng.normal(size=(ROWS, 1))
    noise = 0.1 * rng.normal(size=NOISY)
    targets = TRUTHS[truth](values[:, 0], np.roll(values[:, 0], 1))
    targets[:NOISY] += noise if truth == RAW else noise - noise.mean()  # an offset is known exactly, or wrong
    readings = make_readings(values, targets)
    return replace(readings, channels=(Channel("raw", unit),), reference=Channel("no2", target_unit))


@pytest.fixture(scope="module")
def calibrators() -> dict[str, Calibrator]:
    """Made of each truth, where a network never improves anything: it is interrupted at its start."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "run_round", interrupt)
        return {truth: fit(colocation(truth), recipe=Recipe.preset("default", WINDOW)) for truth in TRUTHS}


@pytest.mark.parametrize("truth", TRUTHS)
def test_a_calibrator_is_as_simple_as_the_truth(truth: str, calibrators: dict[str, Calibrator]) -> None:
    calibrator, (needed, allowed) = calibrators[truth], KERNELS[truth]
    kernels = {step.kernel for step in calibrator.plan.steps}
    assert needed <= kernels <= needed | allowed
    outcome = truth if truth in (RAW, OFFSET) else LINE if kernels == NEWEST else RIDGE
    assert calibrator.facts["outcome"] == calibrator.facts["model"] == outcome
    assert calibrator.facts["network_share"] == 0
    assert calibrator.facts["parameters"] <= 60
    assert "hash_ties" not in calibrator.facts
    assert calibrator.facts["validation_rmse"] < 0.05
    new = colocation(truth)
    calibrated = calibrator.predict(new)[CALIBRATED].to_numpy()
    known = np.isfinite(calibrated)
    assert known.sum() >= ROWS - 80
    assert np.sqrt(np.square(calibrated - new.targets)[known].mean()) < 0.12


def test_of_several_channels_the_first_may_be_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "run_round", stop)
    one, humidity = colocation(RAW), np.random.default_rng(8).normal(size=(ROWS, 1))
    both = make_readings(np.hstack([one.values, humidity]), one.targets, channels=("raw", "humidity"))
    both = replace(both, channels=(*one.channels, Channel("humidity", "%")), reference=one.reference)
    found = fit(both, recipe=Recipe.preset("default", WINDOW))
    assert (found.facts["outcome"], [channel.name for channel in found.inputs.channels]) == (RAW, ["raw"])
    np.testing.assert_allclose(found.predict(both)[CALIBRATED], both.values[:, 0], rtol=1e-5)


def test_the_sensors_own_value_is_not_changed_at_all(calibrators: dict[str, Calibrator]) -> None:
    new = colocation(RAW)
    np.testing.assert_allclose(calibrators[RAW].predict(new)[CALIBRATED], new.values[:, 0], rtol=1e-5)


@pytest.mark.parametrize(
    "truth", [truth if truth == "ridge" else pytest.param(truth, marks=pytest.mark.slow) for truth in TRUTHS]
)
def test_what_is_no_network_computes_the_same_on_a_board(truth: str, calibrators: dict[str, Calibrator]) -> None:
    certificate = verify(calibrators[truth], board("nano33ble"), list(Arithmetic), 20, "", lambda: None)
    assert certificate.passed, certificate.reasons


def test_every_family_is_listed_with_its_error(calibrators: dict[str, Calibrator]) -> None:
    families = {one["candidate"]: one for one in calibrators[RIDGE].facts["selection"]}
    assert list(families) == [AS_IS, LINEAR, INTERACTIONS, DRIFT, TREES]  # the network never learned anything
    assert families[LINEAR]["variant"].startswith("history")
    assert families[LINEAR]["admitted"]
    assert families[LINEAR]["rmse"] < 0.05
    assert not families[AS_IS]["admitted"]
    assert families[AS_IS]["rmse"] == pytest.approx(1.0, rel=0.2)  # what was read a minute before
    assert sum(one["share"] for one in families.values()) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("unit", "target"), [("", ""), ("°C", "°C"), ("", "mg/L"), ("mV", "mg/L"), ("bpm", "bpm"), ("furlong", "mm/h")]
)
def test_units_are_never_required(unit: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "run_round", stop)
    found = fit(colocation(RAW, unit, target), recipe=Recipe.preset("default", WINDOW))
    assert found.facts["outcome"] == (RAW if unit == target or not unit else LINE)
