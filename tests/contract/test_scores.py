"""What is written about a calibrator is what its file does: validation error, refit, golden windows."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import run
from scare.data.readings import CALIBRATED, Channel, Readings
from scare.data.simulate import Simulation, SimulationKind, simulate
from scare.training.data import hold_out
from scare.training.fit import Evaluation, evaluate, fit
from scare.training.recipe import Recipe
from scare.training.selection import SelectionRules
from scare.windowing.training_examples import make_examples
from tests.training.small_fits import LINEAR_ONLY, NETWORK_STAYS, make_readings

WINDOW = 8
RECIPE = Recipe.preset("default", window=WINDOW, steps=20, checkpoints=2, members=1)


def gas(device: str, offset: float, gain: float, seed: int, wetter: float = 0.0) -> Readings:
    """A cell in mV with an offset and a gain, which also follows humidity; that goes up by `wetter` at the end."""
    rng = np.random.default_rng(seed)
    truth = 30 + 8 * np.sin(np.arange(900) / 50) + rng.normal(size=900)
    wet = 50 + 10 * np.sin(np.arange(900) / 31) + rng.normal(size=900)
    wet[780:] += wetter
    values = np.stack([offset + gain * truth + 0.1 * wet + 0.3 * rng.normal(size=900), wet], axis=1)
    readings = make_readings(values, truth, device, channels=("cell", "humidity"))
    return replace(readings, channels=(Channel("cell", "mV"), Channel("humidity", "%")))


def dust(boxes: int) -> list[Readings]:
    return list(simulate(Simulation(boxes=boxes, days=0.7, kind=SimulationKind.PM, seed=4)))


def cells() -> list[Readings]:
    return [gas(name, 200 + 9 * len(name), 0.2 * len(name), len(name)) for name in ("a", "bb", "ccc")]


KINDS: dict[str, tuple[Any, SelectionRules, float | None]] = {
    "dust of one box": (lambda: dust(1), LINEAR_ONLY, None),
    "dust of one box with a floor": (lambda: dust(1), LINEAR_ONLY, 15.0),
    "dust of three boxes with a network": (lambda: dust(3), NETWORK_STAYS, 0.0),
    "one cell": (lambda: [gas("a", 200, 0.5, 1)], SelectionRules(), None),
    "one cell that falls": (lambda: [gas("a", 200, -0.5, 1)], LINEAR_ONLY, None),
    "three cells apart": (cells, LINEAR_ONLY, None),
    "three cells together": (cells, LINEAR_ONLY, None),
    "humidity beyond training": (lambda: [gas("a", 200, 0.5, 1, wetter=90.0)], LINEAR_ONLY, None),
    "trees": (lambda: [gas("a", 200, 0.5, 1)], SelectionRules(tolerance=9.0), 20.0),
}


def parts(kind: str) -> tuple[tuple[Readings, ...], tuple[Readings, ...], Recipe]:
    make, rules, floor = KINDS[kind]
    per_device = {"apart": True, "together": False}.get(kind.split()[-1])
    recipe = replace(RECIPE, rules=rules, floor=floor, per_device=per_device)
    return *hold_out(make(), recipe), recipe


@cache
def evaluated(kind: str) -> Evaluation:
    return evaluate(*parts(kind))


def rmse(calibrator: Calibrator, readings: tuple[Readings, ...]) -> float:
    errors = []
    for one in readings:
        found = calibrator.predict(one)[CALIBRATED].fill_null(np.nan).to_numpy() - one.targets
        errors.append(found[np.isfinite(found)])
    return float(np.sqrt(np.square(np.concatenate(errors)).mean()))


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_that_is_written_is_that_of_the_file(kind: str, tmp_path: Path) -> None:
    _, validation, _ = parts(kind)
    calibrator = evaluated(kind).calibrator
    loaded = Calibrator.load(calibrator.save(tmp_path / "a.scare"))
    assert rmse(loaded, validation) == pytest.approx(loaded.facts["validation_rmse"], rel=1e-5, abs=1e-6)
    assert loaded.facts["training_data_sha256"] == calibrator.facts["training_data_sha256"]


def test_without_a_refit_the_file_is_what_was_evaluated() -> None:
    train, validation, recipe = parts("one cell")
    calibrator = fit(train, validation, replace(recipe, rules=replace(recipe.rules, refit=False)))
    expected = evaluated("one cell").calibrator
    assert "refitted" not in calibrator.facts
    np.testing.assert_array_equal(calibrator.golden.numbers, expected.golden.numbers)
    assert calibrator.facts["validation_rmse"] == expected.facts["validation_rmse"]


def test_the_kinds_are_clamped_and_free_and_have_effects_and_trees() -> None:
    assert {evaluated(kind).free for kind in ("one cell that falls", "humidity beyond training")} == {True, False}
    assert evaluated("three cells together").calibrator.inputs.scaling.effects.keys() == {"a", "bb", "ccc"}
    assert "trees" in {step.kernel for step in evaluated("trees").calibrator.plan.steps}
    assert evaluated("dust of three boxes with a network").calibrator.facts["network_share"] > 0
    lowest = min(
        float(evaluated("dust of one box with a floor").calibrator.predict(one)[CALIBRATED].min()) for one in dust(1)
    )
    assert lowest == 15.0


@pytest.mark.parametrize("kind", KINDS)
def test_one_device_of_training_adds_nothing_to_the_output(kind: str) -> None:
    train, _, _ = parts(kind)
    effects = evaluated(kind).calibrator.inputs.scaling.effects
    if len(train) == 1:
        assert not any(any(effect) for effect in effects.values())
    assert effects.keys() <= {one.device for one in train}


# fitted again


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_chosen_is_fitted_again_to_all_rows(kind: str, tmp_path: Path) -> None:
    train, validation, recipe = parts(kind)
    before, after = evaluated(kind).calibrator, fit(train, validation, recipe)
    for name in ("outcome", "selection", "network_share", "validation_rmse", "training_data_sha256", "parameters"):
        assert after.facts[name] == before.facts[name], name
    assert [step.kernel for step in after.plan.steps] == [step.kernel for step in before.plan.steps]
    windows = before.golden.windows
    assert not np.allclose(after.compute(windows), before.compute(windows), rtol=1e-7)
    np.testing.assert_array_equal(after.golden.numbers, after.compute(after.golden.windows))
    assert after.validation.windows.shape == before.validation.windows.shape
    for sample in (after.golden, after.validation):  # as the plan reads them
        np.testing.assert_array_equal(after.inputs.training_range.clamp(sample.windows), sample.windows)
    assert after.intervals == before.intervals
    assert after.floor == before.floor
    everything = make_examples((*train, *validation), replace(evaluated(kind).inputs, policy=recipe.learned_from))
    refitted = after.facts["refitted"]
    assert (refitted["windows"], refitted["data_sha256"]) == (len(everything), everything.fingerprint())
    assert refitted["windows"] > before.facts["training_windows"]
    assert refitted["devices"] == list(dict.fromkeys(one.device for one in (*train, *validation)))
    loaded = Calibrator.load(after.save(tmp_path / "a.scare"))
    np.testing.assert_array_equal(loaded.compute(loaded.golden.windows), loaded.golden.numbers)


def test_a_second_fit_to_training_alone_changes_nothing() -> None:
    for kind in (
        "one cell",
        "three cells apart",
        "three cells together",
        "dust of three boxes with a network",
        "trees",
    ):
        train, _, _ = parts(kind)
        evaluation = evaluated(kind)
        again, windows = evaluation.refit(train), evaluation.calibrator.golden.windows
        np.testing.assert_array_equal(again.compute(windows), evaluation.calibrator.compute(windows))
        assert again.inputs.training_range == evaluation.calibrator.inputs.training_range
        assert again.facts["refitted"]["data_sha256"] == evaluation.calibrator.facts["training_data_sha256"]


def test_the_network_keeps_what_it_added_to_its_start() -> None:
    kind = "dust of three boxes with a network"
    (train, validation, recipe), evaluation = parts(kind), evaluated(kind)
    combination, windows = evaluation.combination, evaluation.calibrator.golden.windows
    silent = [replace(one, network=one.network.added_to(one.start, one.start, 0.0)) for one in combination.members]
    linear, added, scaling = replace(combination, members=tuple(silent)), [], evaluation.inputs.scaling
    for rows in (train, (*train, *validation)):
        examples = make_examples(rows, replace(evaluation.inputs, policy=recipe.learned_from))
        plans = [one.plan(examples, scaling)[0] for one in (combination, linear)]
        added.append(run(plans[0], windows) - run(plans[1], windows))
    np.testing.assert_allclose(added[0], added[1], atol=1e-5)
    assert np.abs(added[0]).max() > 1e-3
