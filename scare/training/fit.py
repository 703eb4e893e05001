"""Fit makes a calibrator from readings: prepare, train (`loop`), fold, describe."""

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import jax
import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.fold import fold
from scare.calibrator.kernels import hash_activations
from scare.calibrator.plan import Plan, values
from scare.data.quality import without_unusable_references
from scare.data.readings import Readings
from scare.layers.buffers import split_trainable
from scare.models import Network
from scare.training.examples import Examples, make_examples
from scare.training.loop import SCORED, Report, Trainer
from scare.training.preparation import check_examples, hold_out, prepare_inputs
from scare.training.settings import Recipe

GOLDEN, KEPT = 64, 512  # windows stored with their outputs, and with their references
TIE = 1e-4  # a hash activation closer to zero than this may change sign between arithmetics


def fit(
    readings: Readings | Sequence[Readings],
    validation: Sequence[Readings] = (),
    recipe: Recipe | None = None,
    report: Report | None = None,
) -> Calibrator:
    """Train a calibrator on readings with a reference.

    Without `validation`, the last 15 % of the readings in time are held out for it. Ctrl-C ends training early
    and keeps the best so far (`facts["interrupted"]`).
    """
    recipe = recipe or Recipe()
    train = _usable([readings] if isinstance(readings, Readings) else readings)
    validation = _usable(validation)
    if not validation:
        train, validation = hold_out(train, recipe)
    inputs, target = prepare_inputs(train, validation, recipe)
    examples, held = make_examples(train, inputs), make_examples(validation, inputs)
    check_examples(examples, train, inputs, "training")
    check_examples(held, validation, inputs, "validation")
    unit = float(inputs.scaling.target.scale[0])
    trainer = Trainer(recipe, examples, held, unit)
    network, interrupted = trainer.run(report)
    plan = fold(network.plan()).astype(np.float32)
    facts = _facts(recipe, train, examples, network, plan, held)
    facts |= {"validation_rmse": round(trainer.best_rmse, 6)} | ({"interrupted": True} if interrupted else {})
    none = Sample(np.empty((0, inputs.window, len(inputs.channels)), np.float32), np.empty(0))
    calibrator = Calibrator(plan, inputs, target, none, none, facts)
    return _with_samples(calibrator, held)


def _usable(readings: Sequence[Readings]) -> tuple[Readings, ...]:
    return tuple(without_unusable_references(one) for one in readings)


def _with_samples(calibrator: Calibrator, held: Examples) -> Calibrator:
    """With golden windows and their outputs, and validation windows and their references."""
    golden = held.windows(held.spread(GOLDEN))
    kept = held.spread(KEPT)
    references = calibrator.inputs.scaling.target.invert(held.targets[kept].astype(np.float64)[:, None])[:, 0]
    return replace(
        calibrator,
        golden=Sample(golden, calibrator.compute(golden)),
        validation=Sample(held.windows(kept), references),
    )


def _facts(
    recipe: Recipe, train: Sequence[Readings], examples: Examples, network: Network, plan: Plan, held: Examples
) -> dict[str, Any]:
    """Where the calibrator came from; nothing that differs between two runs with one seed."""
    trainable, _ = split_trainable(network)
    facts = {
        "model": type(recipe.model).__name__.lower(),
        "preset": recipe.name,
        "architecture": asdict(recipe.model),  # type: ignore[call-overload]
        "settings": asdict(recipe.settings),
        "devices": [one.device for one in train],
        "period": [_iso(min(one.times[0] for one in train)), _iso(max(one.times[-1] for one in train))],
        "training_windows": len(examples),
        "validation_windows": len(held),
        "training_data_sha256": examples.fingerprint(),
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(trainable)),
    }
    ties = share_of_ties(plan, held.windows(held.spread(SCORED)))
    return facts if ties is None else facts | {"hash_ties": ties}


def share_of_ties(plan: Plan, windows: np.ndarray) -> float | None:
    """The share of hash activations so close to zero that another arithmetic might flip the bit."""
    hashes = [step for step in plan.steps if step.kernel == "hash_codes"]
    if not hashes:
        return None
    inputs = values(plan, windows, {step.inputs[0] for step in hashes})
    close = [np.abs(hash_activations(inputs[s.inputs[0]], s.weights, s.settings)) < TIE for s in hashes]
    return float(np.mean([part.mean() for part in close]))


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
