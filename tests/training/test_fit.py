"""Training learns, keeps the best, describes what it did, and does the same again with the same seed."""

from collections.abc import Sequence
from dataclasses import replace
from math import cos, pi
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.equation import equations
from scare.calibrator.model_card import model_card
from scare.data.flags import Flag
from scare.data.readings import CALIBRATED, FLAGS, Readings
from scare.data.simulate import Simulation, simulate
from scare.errors import DataError
from scare.layers.buffers import split_trainable
from scare.layers.embedding import HatBasis
from scare.layers.heads import products
from scare.models import Scare
from scare.models.linear_families import PENALTIES, Design, Linear, linear_variants
from scare.training import fit as fit_module
from scare.training import loop, selection
from scare.training.data import hold_out
from scare.training.fit import Evaluation, evaluate, fit
from scare.training.loop import Progress, make_optimiser, take_step
from scare.training.recipe import Recipe, TrainingSettings
from scare.training.retrain import recipe_of
from scare.training.selection import SelectionRules
from scare.windowing.training_examples import Examples, design_matrix, features, make_examples
from tests.training.small_fits import NETWORK_STAYS, Line, Trained, line_recipe, make_readings, train


def both_parts(readings: Readings, trained: Calibrator, recipe: Recipe) -> tuple[Examples, Examples]:
    """The examples of training and of validation."""
    train, validation = hold_out([readings], recipe)
    learning = replace(trained.inputs, policy=recipe.learned_from)
    return make_examples(train, learning), make_examples(validation, trained.inputs)


def rmse_of_all_windows(calibrator: Calibrator, held_out: Examples) -> float:
    outputs = calibrator.compute(held_out.windows(np.arange(len(held_out))))
    targets = calibrator.inputs.scaling.target.invert(held_out.targets.astype(float)[:, None])[:, 0]
    return float(np.sqrt(np.square(outputs - targets).mean()))


def rmse_on(calibrator: Calibrator, readings: Sequence[Readings]) -> float:
    errors = np.concatenate([calibrator.predict(one)[CALIBRATED].to_numpy() - one.targets for one in readings])
    return float(np.sqrt(np.nanmean(np.square(errors))))


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


# learning


@pytest.mark.parametrize(("trained", "share"), [("trained_default", 0.2), ("trained_paper", 0.6)])
def test_both_presets_learn_offset_gain_and_lag(
    trained: str, share: float, linear: Readings, request: pytest.FixtureRequest
) -> None:
    done: Trained = request.getfixturevalue(trained)
    raw = np.sqrt(np.square(linear.values[:, 0] - linear.targets).mean())
    assert done.calibrator.facts["validation_rmse"] < share * raw
    assert done.progress[-1].train_rmse < done.progress[0].train_rmse
    calibrated = done.calibrator.predict(linear)[CALIBRATED].to_numpy()
    known = np.isfinite(calibrated)
    assert known.sum() > 0.9 * len(linear)
    assert np.sqrt(np.square(calibrated - linear.targets)[known].mean()) < share * raw


@pytest.mark.parametrize("trained", ["trained_default", "trained_paper"])
def test_hardly_any_hash_bit_is_a_tie(trained: str, request: pytest.FixtureRequest) -> None:
    assert request.getfixturevalue(trained).calibrator.facts["hash_ties"] < 1e-3


def test_progress_counts_rounds_and_remembers_the_best(trained_default: Trained) -> None:
    progress = trained_default.progress
    assert [(one.round, one.rounds) for one in progress] == [(number, 5) for number in range(1, 6)]
    best = [one.best_rmse for one in progress]
    assert best == sorted(best, reverse=True)
    assert all(one.best_rmse <= one.validation_rmse for one in progress)
    assert all(one.windows_per_second > 0 for one in progress)
    assert progress[-1].seconds_left == 0
    rmse = {one["candidate"]: one["rmse"] for one in trained_default.calibrator.facts["selection"]}
    assert rmse["network"] >= best[-1] - 1e-4  # cross-fitted: the best checkpoint flatters itself


def test_facts_say_where_a_calibrator_came_from(trained_default: Trained, linear: Readings) -> None:
    facts = trained_default.calibrator.facts
    known, held_out = both_parts(linear, trained_default.calibrator, trained_default.recipe)
    assert (facts["model"], facts["preset"], facts["devices"]) == ("scare", "default", ["box-01"])
    assert (facts["training_windows"], facts["validation_windows"]) == (len(known), len(held_out))
    assert facts["training_data_sha256"] == known.fingerprint()
    assert facts["parameters"] == Scare.default().parameters(16, 1)
    assert facts["period"][0] == "2026-01-01T00:00:00Z"
    assert facts["settings"]["steps"] == 300
    assert "interrupted" not in facts


def test_golden_windows_carry_what_the_plan_gives_and_validation_windows_their_reference(
    trained_default: Trained, linear: Readings
) -> None:
    calibrator = trained_default.calibrator
    np.testing.assert_array_equal(calibrator.golden.numbers, calibrator.compute(calibrator.golden.windows))
    assert len(calibrator.golden.numbers) == fit_module.GOLDEN
    assert np.isin(np.round(calibrator.validation.numbers, 3), np.round(linear.targets, 3)).all()


# seeds


def test_the_same_seed_gives_the_same_file(trained_default: Trained, linear: Readings, tmp_path: Path) -> None:
    again = fit(linear, recipe=trained_default.recipe)
    first, second = trained_default.calibrator.save(tmp_path / "first.scare"), again.save(tmp_path / "second.scare")
    assert first.read_bytes() == second.read_bytes()


def test_another_seed_gives_another_calibrator(tmp_path: Path) -> None:
    files = [fit(make_readings(), recipe=line_recipe(seed=seed)).save(tmp_path / f"{seed}") for seed in (0, 1)]
    one, other = (Calibrator.load(path) for path in files)
    assert files[0].read_bytes() != files[1].read_bytes()
    assert (one.golden.numbers != other.golden.numbers).any()


# examples and rounds


def test_every_example_is_used_once_before_any_again() -> None:
    done = train(make_readings(), line_recipe(steps=40, checkpoints=4))
    count, batches = done.calibrator.facts["training_windows"], [one.given[3] for one in done.rounds]
    assert [batch.shape for batch in batches] == [(10, 16)] * 4
    order = np.concatenate([np.ravel(batch) for batch in batches])
    for start in range(0, len(order) - count + 1, count):
        assert sorted(order[start : start + count]) == list(range(count))
    assert len(order) > 3 * count
    assert not np.array_equal(order[:count], order[count : 2 * count])


def test_validation_scores_every_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "SCORED", 7)
    one, recipe, progress = make_readings(), line_recipe(), list[Progress]()
    calibrator = fit(one, recipe=recipe, report=progress.append)
    _, held_out = both_parts(one, calibrator, recipe)
    assert len(held_out) % 7
    assert rmse_of_all_windows(calibrator, held_out) == pytest.approx(progress[-1].best_rmse, rel=1e-4)


def test_the_shipped_plan_has_the_error_that_is_reported(trained_default: Trained, linear: Readings) -> None:
    _, held_out = both_parts(linear, trained_default.calibrator, trained_default.recipe)
    rmse = rmse_of_all_windows(trained_default.calibrator, held_out)
    assert rmse == pytest.approx(trained_default.calibrator.facts["validation_rmse"], rel=2e-3)


def test_a_round_is_its_steps_one_by_one(trained_default: Trained) -> None:
    done = trained_default.rounds[0]
    state, gather, targets, batches, settings, phase_steps = done.given
    optimiser, average = make_optimiser(state.network, settings, phase_steps), settings.average
    step, mean = eqx.filter_jit(take_step), jax.tree.leaves(state.average)
    for batch, expected in zip(batches, done.losses, strict=True):
        state, loss = step(state, gather(batch), targets[batch], optimiser, average)
        assert float(loss) == pytest.approx(expected, rel=1e-3)
        moved = jax.tree.leaves(split_trainable(state.network)[0])
        mean = [average * old + (1 - average) * np.asarray(new) for old, new in zip(mean, moved, strict=True)]
    assert jax.tree.structure(done.state) == jax.tree.structure(state)
    for one, other in zip(jax.tree.leaves(done.state.network), jax.tree.leaves(state.network), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3)
    for one, other in zip(jax.tree.leaves(done.state.average), mean, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.slow
def test_a_refit_and_a_second_member_use_what_was_compiled_for_the_evaluation(
    linear: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced = []
    monkeypatch.setattr(loop, "take_step", lambda *given: (traced.append(1), take_step(*given))[1])
    recipe = Recipe.preset("default", window=16, steps=20, checkpoints=2, rate=0.00123, members=2)
    evaluation = evaluate(linear, recipe=replace(recipe, rules=SelectionRules(tolerance=1e9)))
    assert evaluation.combination.network_share > 0
    assert traced == [1]
    refitted = evaluation.fitted()
    assert refitted.facts["refitted"]["windows"] > evaluation.calibrator.facts["training_windows"]
    assert traced == [1]


def test_the_support_set_changes_with_every_round_until_it_is_frozen(trained_default: Trained) -> None:
    hashes = [one.given[0].network.attention.hashing for one in trained_default.rounds]
    assert [float(one.frozen.array) for one in hashes] == [0, 0, 0, 1, 1]  # after 60 % of five rounds
    assert not np.array_equal(hashes[1].supports.array, hashes[2].supports.array)
    np.testing.assert_array_equal(hashes[3].supports.array, hashes[4].supports.array)
    np.testing.assert_array_equal(hashes[3].bandwidth.array, hashes[4].bandwidth.array)
    assert not np.array_equal(hashes[3].projection, hashes[4].projection)


# the start


def best_ridge(x: np.ndarray, y: np.ndarray, held_out_x: np.ndarray, held_out_y: np.ndarray) -> np.ndarray:
    """What ridge gives on held-out columns at the penalty that is best there, by least squares on more rows."""
    mean, size, predictions = x.mean(axis=0), x.shape[1], []
    for penalty in PENALTIES:
        left = np.vstack([(x - mean) / np.sqrt(len(y)), np.sqrt(penalty) * np.eye(size)])
        right = np.concatenate([(y - y.mean()) / np.sqrt(len(y)), np.zeros(size)])
        weights = np.linalg.lstsq(left, right, rcond=None)[0]
        predictions.append((held_out_x - mean) @ weights + y.mean())
    return min(predictions, key=lambda outputs: np.square(outputs - held_out_y).mean())


def test_the_start_is_the_mean_of_closed_form_families_and_training_never_loses_to_a_line(
    trained_default: Trained, linear: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "run_round", interrupt)
    everything = SelectionRules(tolerance=1e9, trees=False, refit=False)
    start = fit(linear, recipe=replace(trained_default.recipe, rules=everything))
    assert start.facts["interrupted"]
    known, held_out = both_parts(linear, start, trained_default.recipe)
    basis = HatBasis(16).matrix
    x, y = features(known, np.arange(len(known)), basis)[:, :, 0].astype(float), known.targets.astype(float)
    held_out_x = features(held_out, np.arange(len(held_out)), basis)[:, :, 0]
    slope = np.cov(x[:, 0], y, ddof=0)[0, 1] / (x[:, 0].var() + PENALTIES[0])
    line = y.mean() + slope * (held_out_x[:, 0] - x[:, 0].mean())
    history = best_ridge(x, y, held_out_x, held_out.targets)
    variants = {one["candidate"]: one["variant"] for one in start.facts["selection"]}
    assert variants["linear"].startswith("history")
    raw = held_out.series[held_out.ends, 0] * start.inputs.scaling.fleet.scale + start.inputs.scaling.fleet.center
    design, judged = (
        Design(design_matrix(part, basis), start.inputs.scaling, 0, lambda rows: products(rows[:, 0]))
        for part in (known, held_out)
    )
    others = [
        judged.predict(linear_variants(design, True)[name][variants[name]](design))
        for name in ("as is", "interactions", "drift")
    ]
    assert variants["as is"] == "raw" or not np.allclose(others[0], raw)
    scaled = start.inputs.scaling.target.apply(start.compute(held_out.windows(np.arange(len(held_out))))[:, None])[:, 0]
    np.testing.assert_allclose(scaled, np.mean([history, *others], axis=0), atol=2e-3)
    line_rmse = np.sqrt(np.square(line - held_out.targets).mean()) * start.inputs.scaling.target.scale[0]
    assert trained_default.calibrator.facts["validation_rmse"] < line_rmse


# the optimiser


def rates(settings: TrainingSettings, steps: int, gradient: np.ndarray) -> np.ndarray:
    """How far one parameter moves down at each step of this gradient; Adam makes of a constant one exactly the rate."""
    network = Line().build(1, 1, jax.random.key(0))
    optimiser = make_optimiser(network, settings, steps)
    trainable, _ = split_trainable(network)

    def step(memory: Any, slope: jax.Array) -> tuple[Any, jax.Array]:
        slopes = jax.tree.map(lambda leaf: jnp.full_like(leaf, slope), trainable)
        updates, memory = optimiser.update(slopes, memory, trainable)
        return memory, updates.bias

    return -np.asarray(jax.jit(lambda slopes: jax.lax.scan(step, optimiser.init(trainable), slopes)[1])(gradient))


def test_the_rate_rises_in_the_warm_up_and_falls_in_a_half_cosine() -> None:
    expected = [0.01 * step / 5 if step < 5 else 0.01 * (1 + cos(pi * (step - 5) / 95)) / 2 for step in range(100)]
    found = rates(TrainingSettings(rate=0.01, warm_up=0.05), 100, np.ones(100, np.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-7)
    assert found[-1] < 1e-5


def test_without_warm_up_the_rate_starts_at_its_peak() -> None:
    found = rates(TrainingSettings(rate=0.01, warm_up=0.0), 50, np.ones(50, np.float32))
    assert found[0] == pytest.approx(0.01, rel=1e-4)
    assert (np.diff(found) < 0).all()


def test_without_cosine_the_rate_stays() -> None:
    found = rates(TrainingSettings(rate=0.01, warm_up=0.1, cosine=False), 50, np.ones(50, np.float32))
    np.testing.assert_allclose(found, 0.01 * np.minimum(np.arange(50) / 5, 1), rtol=1e-3, atol=1e-7)


def test_a_huge_gradient_counts_as_one_of_the_largest_norm() -> None:
    gradients = [np.array([huge, 1e-3], np.float32) for huge in (1e3, 1e6)]
    clipped = [rates(TrainingSettings(warm_up=0.0, clip=1.0), 10, gradient)[1] for gradient in gradients]
    free = [rates(TrainingSettings(warm_up=0.0, clip=0.0), 10, gradient)[1] for gradient in gradients]
    bounded = rates(TrainingSettings(warm_up=0.0, clip=0.0), 10, np.array([0.5**0.5, 1e-3], np.float32))[1]
    assert clipped[0] == pytest.approx(clipped[1], rel=1e-5)
    assert clipped[0] == pytest.approx(bounded, rel=1e-5)
    assert free[0] != pytest.approx(clipped[0], rel=1e-5)


def test_decay_spares_biases_a_and_skip_and_line_and_curve_move_a_tenth() -> None:
    shapes = eqx.filter_eval_shape(Scare.default().build, 16, 2, jax.random.key(0))
    network = jax.tree.map(lambda leaf: np.full(leaf.shape, 2.0, np.float32), shapes)
    settings = TrainingSettings(rate=0.01, warm_up=0.0, weight_decay=0.1, clip=0.0)
    trainable, _ = split_trainable(network)
    optimiser = make_optimiser(network, settings, 100)
    ones = jax.tree.map(np.ones_like, trainable)
    updates, _ = jax.jit(lambda slopes: optimiser.update(slopes, optimiser.init(trainable), trainable))(ones)
    moves = {
        jax.tree_util.keystr(path): float(np.unique(np.round(leaf, 8))[0] / -settings.rate)
        for path, leaf in jax.tree_util.tree_leaves_with_path(updates)
    }
    decayed = {
        ".embedding.local",
        ".embedding.overall",
        ".projector.weight",
        ".attention.query",
        ".attention.key",
        ".attention.value",
        ".feed_forward.inner",
        ".feed_forward.outer",
        ".head.weight",
    }
    assert {name for name, move in moves.items() if move == pytest.approx(1.2, rel=1e-3)} == decayed
    for slow in (".skip", ".curve"):
        assert moves.pop(slow) == pytest.approx(0.1, rel=1e-3)
    plain = {name for name, move in moves.items() if move == pytest.approx(1.0, rel=1e-3)}
    assert plain == set(moves) - decayed
    assert {".projector.bias", ".attention.hashing.projection", ".head.bias"} <= plain


# what ends training


def test_a_rate_that_is_too_high_is_refused_with_advice() -> None:
    with pytest.raises(DataError, match=r"diverged in round 1: .* \(training.rate in a --config file\)"):
        fit(make_readings(), recipe=line_recipe(rate=1e30))


def test_a_network_broken_by_its_very_last_step_is_refused_too() -> None:
    with pytest.raises(DataError, match=r"training\.rate"):
        fit(make_readings(), recipe=line_recipe(steps=1, warm_up=0.0, average=0.0, rate=3e38))


def test_a_fit_computes_on_one_thread_and_leaves_the_number_as_it_was() -> None:
    def threads() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info()}

    with threadpool_limits(2):
        before, during = threads(), []
        fit(make_readings(), recipe=line_recipe(), report=lambda _: during.append(threads()))
        assert threads() == before
    assert during
    assert set().union(*during) == {1}


def test_an_interrupt_keeps_the_best_so_far() -> None:
    seen: list[Progress] = []

    def stop_after_two(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) == 2:
            raise KeyboardInterrupt

    calibrator = fit(make_readings(), recipe=line_recipe(average=0.0), report=stop_after_two)
    assert len(seen) == 2
    assert calibrator.facts["interrupted"] is True
    assert calibrator.facts["validation_rmse"] == pytest.approx(seen[1].best_rmse, abs=1e-6)


def test_an_interrupt_before_anything_is_known_ends_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "run_round", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit(make_readings(), recipe=Recipe.preset("paper", window=16, steps=10))


# fitted again


@pytest.fixture(scope="module")
def bent() -> Evaluation:
    """Of a sensor whose response bends, which a network learns in three rounds."""
    raw = np.cumsum(np.random.default_rng(2).normal(size=900)) / 10
    recipe = Recipe.preset("default", window=8, steps=150, checkpoints=3)
    return evaluate(make_readings(raw[:, None], np.sin(3 * raw)), recipe=replace(recipe, rules=NETWORK_STAYS))


def test_a_network_is_trained_again_for_the_rounds_that_validation_chose(bent: Evaluation) -> None:
    seen = list[Progress]()
    fitted = bent.fitted(seen.append)
    assert bent.combination.network_share
    assert [one.round for one in seen] == list(range(1, bent.combination.members[0].rounds + 1))
    assert all(np.isnan(one.validation_rmse) for one in seen)
    assert rmse_on(fitted, bent.validation) < 0.9 * rmse_on(bent.calibrator, bent.validation)


def test_a_network_fitted_to_the_same_rows_is_the_same_network(bent: Evaluation) -> None:
    windows = bent.calibrator.golden.windows
    np.testing.assert_array_equal(bent.refit(bent.train).compute(windows), bent.calibrator.compute(windows))


def test_a_network_whose_second_training_is_interrupted_stays_as_it_was(bent: Evaluation) -> None:
    rows, scaling = (*bent.train, *bent.validation), bent.inputs.scaling
    examples = make_examples(rows, replace(bent.inputs, policy=bent.recipe.learned_from))
    assert bent.combination.trained_again(bent.recipe, examples, scaling, interrupt) is bent.combination
    assert bent.fitted(interrupt).facts["refitted"]["windows"] == len(examples)


# devices


def test_with_three_devices_the_card_says_what_error_a_new_one_will_have() -> None:
    """References differ by 3 from device to device: left out, an outer one is off by 4.5 and the middle one by 0."""
    values = 20 + np.random.default_rng(0).normal(size=(200, 1)).cumsum(axis=0)
    boxes = [
        make_readings(device=name, values=values, targets=2 * values[:, 0] + 3 * place)
        for place, name in enumerate("abc")
    ]
    recipe = Recipe.preset("default", window=8, steps=2, checkpoints=1)
    expected = fit(boxes, recipe=replace(recipe, per_device=False)).facts["new_device_rmse"]
    assert expected == pytest.approx(4.5 * (2 / 3) ** 0.5, rel=0.1)
    calibrator = fit(boxes[:2], recipe=recipe)
    assert "new_device_rmse" not in calibrator.facts
    assert "expect an RMSE" not in model_card(calibrator)
    assert f"expect an RMSE of about {expected:.2g} ppb" in model_card(calibrator.with_facts(new_device_rmse=expected))


def test_a_calibrator_validated_on_a_new_device_scales_it_as_the_fleet() -> None:
    first, second, new = (make_readings(device=name, unit="ppb") for name in ("a", "bb", "ccc"))
    calibrator = fit([first, second], [new], line_recipe())
    assert not calibrator.inputs.scaling.devices
    flags = calibrator.predict(new)[FLAGS].to_numpy()
    assert not (flags & Flag.UNSETTLED).any()


@pytest.mark.parametrize("per_device", [True, False])
def test_a_calibrator_of_raw_channels_lets_a_new_device_settle(per_device: bool) -> None:
    first, second, new = (make_readings(device=name) for name in ("a", "bb", "ccc"))
    calibrator = fit([first, second], [new], line_recipe(per_device=per_device, settle_hours=1.0))
    assert set(calibrator.inputs.scaling.devices) == {"a", "bb"}
    unsettled = (calibrator.predict(new)[FLAGS].to_numpy() & Flag.UNSETTLED) > 0
    assert unsettled[3:59].all()
    assert not unsettled[59:].any()
    assert not (calibrator.predict(first)[FLAGS].to_numpy() & Flag.UNSETTLED).any()


def test_members_are_averaged_and_report_as_one_training() -> None:
    readings, seen = make_readings(), list[Progress]()
    single = [fit(readings, recipe=line_recipe(seed=seed)) for seed in (4, 5, 6)]
    mean = fit(readings, recipe=line_recipe(seed=4, members=3), report=seen.append)
    windows = mean.golden.windows
    expected = np.mean([one.compute(windows) for one in single], axis=0)
    np.testing.assert_allclose(mean.compute(windows), expected, rtol=1e-5)
    assert mean.facts["parameters"] == 3 * single[0].facts["parameters"]
    assert [one.round for one in seen] == list(range(1, 13))
    assert {one.rounds for one in seen} == {12}
    assert len(mean.plan.steps) <= len(single[0].plan.steps) + 8


def test_an_interrupt_leaves_out_later_members() -> None:
    seen: list[Progress] = []

    def stop_in_the_second(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) == 6:
            raise KeyboardInterrupt

    readings = make_readings()
    calibrator = fit(readings, recipe=line_recipe(members=3), report=stop_in_the_second)
    one = fit(readings, recipe=line_recipe())
    assert calibrator.facts["interrupted"] is True
    assert calibrator.facts["parameters"] == 2 * one.facts["parameters"]


@pytest.mark.parametrize("rate", [0.003, 0.3])
def test_of_weights_and_their_running_mean_the_better_on_validation_is_shipped(rate: float) -> None:
    readings = make_readings()
    ways: list[dict[str, Any]] = [{"average": 0.95}, {"average": 0.0}, {"average": 0.95, "either": True}]
    mean, last, either = (fit(readings, recipe=line_recipe(steps=60, rate=rate, **way)) for way in ways)
    errors = [one.facts["validation_rmse"] for one in (mean, last)]
    assert either.facts["validation_rmse"] == min(errors)
    assert either.facts["averaged"] == [errors[0] < errors[1]]
    assert "averaged" not in mean.facts


@pytest.fixture(scope="module")
def boxes() -> tuple[Readings, ...]:
    return tuple(simulate(Simulation(boxes=3, days=8, seed=3)))


@pytest.fixture(scope="module")
def calibrator(boxes: tuple[Readings, ...]) -> Calibrator:
    return fit(boxes, recipe=replace(line_recipe(), per_device=True))


def share_covered(calibrator: Calibrator, readings: Readings) -> float:
    table = calibrator.predict(readings).filter(readings.frame["reference"].is_not_null()).drop_nulls("low")
    return float(table["reference"].is_between(table["low"], table["high"]).mean())


def test_intervals_are_made_when_it_is_fitted(calibrator: Calibrator, boxes: tuple[Readings, ...]) -> None:
    assert calibrator.intervals is not None
    assert (calibrator.intervals.level, calibrator.intervals.kept_windows) == (0.9, 0)
    assert 0.85 < np.mean([share_covered(calibrator, one) for one in boxes]) < 0.99


def test_the_level_is_a_setting(calibrator: Calibrator, boxes: tuple[Readings, ...]) -> None:
    recipe = replace(line_recipe(), per_device=True)
    half = fit(boxes, recipe=replace(recipe, settings=replace(recipe.settings, level=0.5))).intervals
    assert half is not None
    assert calibrator.intervals is not None
    assert half.level == 0.5
    assert np.less(half.above, calibrator.intervals.above).all()


def test_a_device_it_does_not_know_is_covered_too(calibrator: Calibrator, boxes: tuple[Readings, ...]) -> None:
    """Its dust is scaled as the fleet's: nothing has to settle."""
    assert calibrator.inputs.scaling.known("new") is calibrator.inputs.scaling.fleet
    table = calibrator.predict(replace(boxes[0], device="new"))
    assert not ((table["flags"].to_numpy() & Flag.UNSETTLED) > 0).any()
    assert share_covered(calibrator, replace(boxes[0], device="new")) > 0.7


def test_a_new_device_has_wider_intervals_until_it_has_settled() -> None:
    rng = np.random.default_rng(5)
    truth = 30 + 5 * np.sin(np.arange(1500) / 40) + rng.normal(size=1500)
    cells = [
        make_readings((offset + 3 * truth + rng.normal(size=1500))[:, None], truth, device)
        for device, offset in (("a", 200.0), ("bb", 320.0), ("ccc", 260.0), ("dddd", 500.0))
    ]
    calibrator = fit(cells[:3], recipe=line_recipe(per_device=True, settle_hours=5.0))
    assert calibrator.intervals is not None
    assert calibrator.intervals.widening > 1.1
    table = calibrator.predict(cells[3])
    unsettled = (table["flags"].to_numpy() & Flag.UNSETTLED) > 0
    assert unsettled[3:299].all()
    assert not unsettled[299:].any()
    widths = (table["high"] - table["low"]).to_numpy()
    assert np.nanmean(widths[unsettled]) > 1.1 * np.nanmean(widths[~unsettled])


def test_a_line_of_one_channel_needs_no_temperature_and_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """What training does not use is dropped: the first reading of the one channel gives a value."""
    line = {"line": lambda design: Linear(*design.moments.solve(1e-9, design.newest_columns[:1]))}
    monkeypatch.setattr(selection, "linear_variants", lambda *_: {selection.LINEAR: line})
    rng = np.random.default_rng(3)
    values = rng.normal((20.0, 15.0), (5.0, 1.0), (400, 2))
    box = make_readings(values, 0.8 * values[:, 0] + 2.1, channels=("pm", "air"), unit="ppb")
    calibrator = fit(box, recipe=Recipe.preset("default", window=12, steps=2, checkpoints=1, members=1))
    assert [channel.name for channel in calibrator.inputs.channels] == ["pm"]
    assert (calibrator.window, calibrator.golden.windows.shape[1:]) == (1, (1, 1))
    assert calibrator.live("a new box").push(0.0, np.array([10.0])).value == pytest.approx(10.1, abs=0.01)
    (equation,) = equations(calibrator).values()
    assert (*equation.slopes, equation.intercept) == pytest.approx((0.8, 2.1), abs=1e-3)
    assert recipe_of(calibrator).window == 12
