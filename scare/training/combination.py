"""Fit the linear families, trees and network of one calibrator: their shares are chosen once, then all are refitted.

    training, validation → families, trees, members → shares            (`combine`: choices are made; a member is one
                                                                           trained network of an ensemble)
    rows, choices        → network trained again                          (`Combination.trained_again`)
                         → linear models and trees fitted again, a plan   (`Combination.plan`: nothing is chosen)

A network starts as a linear model, and only what training added to that start is kept; a plan adds it to the linear
models as they are fitted now. Called by `fit`; cross-fitting and shares are in `training.selection`, the
linear families in `models.linear_families`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import jax
import numpy as np

from scare.calibrator.plan import Plan
from scare.calibrator.plan_passes import add_plans, average, fold
from scare.data.readings import Readings
from scare.models.linear_families import DRIFT, DRIFT_STEPS, LINEAR, Design, Linear, fit_effects
from scare.training.loop import Progress, Report, Trained, Trainer
from scare.training.recipe import Recipe
from scare.training.selection import (
    NETWORK,
    TREES,
    Fitted,
    SelectionRules,
    choose_shares,
    cross_fit,
    fit_families,
    mean_rmse,
    name_mean,
)
from scare.training.trees import fit_trees, outside_share
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import DeviceEffect, Scaling
from scare.windowing.training_examples import DesignMatrix, Examples, design_matrix, make_examples
from scare.windowing.windows import ANY

FEWEST_DEVICES = 3  # to estimate the error on a new device by leaving each one out
MOST_WINDOWS = 5000  # most windows of the device left out, or of all others, used for that
# With a larger share of validation rows outside the readings of training, trees are not switched off there.
MOST_OUTSIDE = 0.1  # share of validation rows


@dataclass(frozen=True)
class Combination:
    """Families of models with their shares in the result, and all that is needed to fit them to other rows.

    The network started at the mean of the families `start`. Without families, the network is the whole result.
    """

    families: tuple[Fitted, ...]
    shares: tuple[float, ...]
    members: tuple[Trained, ...]
    start: tuple[Fitted, ...] = ()
    guarded: bool = True  # whether trees are switched off beyond the readings of training
    targets: np.ndarray = field(default_factory=lambda: np.empty(0))  # references of validation, scaled

    @property
    def rmse(self) -> float:
        """Error on validation, in standard deviations of the target; each block is scored by choices on the others."""
        return mean_rmse(self.families, self.shares, self.targets)

    @property
    def label(self) -> str:
        """A name to use in a sentence."""
        return name_mean(self.families, self.shares) if self.families else "the network"

    def smaller(self, rules: SelectionRules) -> list["Combination"]:
        """Return variants without the network, without trees and without both, if they differ; lowest error first."""
        if not self.families:
            return []
        every_shares = {
            tuple(choose_shares(self.families, self.targets, rules, without)): None  # a dict keeps their order
            for without in ((NETWORK,), (TREES,), (NETWORK, TREES))
        }
        variants = [replace(self, shares=shares) for shares in every_shares if shares != self.shares]
        return sorted(variants, key=lambda variant: variant.rmse)

    @property
    def used(self) -> dict[str, float]:
        """The share of each family that has one."""
        names = (family.family for family in self.families)
        return {name: share for name, share in zip(names, self.shares, strict=True) if share}

    @property
    def network_share(self) -> float:
        """The share of the network; 1 if nothing was compared with it."""
        return self.used.get(NETWORK, 0.0) if self.families else 1.0

    def trained_again(
        self, recipe: Recipe, examples: Examples, scaling: Scaling, report: Report | None
    ) -> "Combination":
        """Train the network again on these examples, for as many rounds as validation chose.

        If this training or the one before is interrupted, the network stays as it was.
        """
        if not self.families or not self.network_share or self.members[-1].interrupted:
            return self
        design = self._design(examples, scaling)
        start = _mean([family.fit(design) for family in self.start if family.fit])
        without_effects = examples.without_effects(start.effects)  # the network does not know a window's device
        unit = float(scaling.target.scale[0])
        rounds = [member.rounds for member in self.members]
        members = train_members(recipe, without_effects, None, unit, start, report, rounds)
        return self if members[-1].interrupted else replace(self, members=tuple(members))

    def plan(self, examples: Examples, scaling: Scaling) -> tuple[Plan, Mapping[str, DeviceEffect]]:
        """Fit every family that has a share to these examples; returns the plan and the effects of known devices."""
        if not self.families:
            return _rounded(average([member.network.plan() for member in self.members])), {}
        design = self._design(examples, scaling)
        weighted = [*zip(self.families, self.shares, strict=True)]
        # The network is its start plus what it learned: here is the start, `_network_plan` adds the rest.
        weighted += [(family, self.network_share / len(self.start)) for family in self.start]
        fitted = [(family.fit(design), share) for family, share in weighted if family.fit is not None and share]
        # In the same way the family of trees is a linear model, here, plus the trees that correct it, further below.
        trees_share = self.used.get(TREES, 0.0)
        fit_base = next((family.corrected for family in self.families if family.corrected and trees_share), None)
        if fit_base is not None:  # there are trees, and they have a share
            base, residuals = fit_base(design)
            fitted.append((base, trees_share))
        models, model_shares = zip(*fitted, strict=True)
        total = Linear.mean(models, model_shares)
        plan = self._network_plan(total)
        if fit_base is not None:
            trees = fit_trees(flat(design.data), residuals, examples.series.shape[1], self.guarded)
            steps, scale = self.members[0].start.feature_steps()
            correction = (*steps, trees.step(steps[-1].output, scale, trees_share))
            plan = add_plans([plan, Plan(plan.window, plan.channels, correction)])
        return _rounded(plan), total.effects

    def _design(self, examples: Examples, scaling: Scaling) -> Design:
        """Return the examples as the columns that the linear families and the trees are fitted to."""
        network = self.members[0].start
        return network.design(design_matrix(examples, network.basis), scaling)

    def error_on_new_devices(self, readings: Sequence[Readings], inputs: Inputs) -> float | None:
        """Estimate the RMSE on a new device, in the target's unit, by leaving each device out of the linear families.

        None with fewer than `FEWEST_DEVICES` devices, or without linear families.
        """
        devices = dict.fromkeys(box.device for box in readings)
        if len(devices) < FEWEST_DEVICES or not self.start:
            return None
        network = self.members[0].start
        training_inputs = replace(inputs, policy=ANY)
        new_device_inputs = replace(inputs, scaling=replace(inputs.scaling, devices={}))

        def sample(part: Examples) -> Design:
            return network.design(design_matrix(part, network.basis, MOST_WINDOWS), inputs.scaling)

        squares = []
        for device in devices:
            others = make_examples([box for box in readings if box.device != device], training_inputs)
            as_new = [replace(box, device="") for box in readings if box.device == device]  # a name without effects
            left_out = make_examples(as_new, new_device_inputs)
            if not len(others) or not len(left_out):
                continue
            train, test = sample(others), sample(left_out)
            outputs = np.mean([test.predict(family.fit(train)) for family in self.start if family.fit], axis=0)
            squares.append(np.square(outputs - test.data.targets))
        unit = float(inputs.scaling.target.scale[0])
        return unit * float(np.sqrt(np.concatenate(squares).mean())) if squares else None

    def _network_plan(self, total: Linear) -> Plan:
        """Return the linear model `total` plus the share of the network's difference to its start, as a plan."""
        if not self.network_share:
            return self.members[0].start.start(total.solution).start_plan()
        return average(
            [
                member.network.added_to(member.start.start(total.solution), member.start, self.network_share).plan()
                for member in self.members
                if member.has_learned
            ]
        )


def combine(
    recipe: Recipe, examples: Examples, held_out: Examples, scaling: Scaling, same_unit: bool, report: Report | None
) -> Combination:
    """Fit every family to training, score it on validation, and choose shares.

    Linear families come first: the network starts at the mean of the best of them. Then shares are chosen again among
    all, with trees and network. A model without a linear start is compared with nothing: it is the whole result.
    """
    unit, rules = float(scaling.target.scale[0]), recipe.rules
    network = recipe.model.build(recipe.window_readings, examples.series.shape[1], jax.random.key(recipe.settings.seed))
    if not network.has_linear_start:
        return Combination((), (), tuple(train_members(recipe, examples, held_out, unit, None, report)))
    design, validation = (network.design(design_matrix(part, network.basis), scaling) for part in (examples, held_out))
    families = fit_families(design, validation, same_unit, rules)
    targets = validation.data.targets
    shares = choose_shares(families, targets, rules)
    start = [family for family, share in zip(families, shares, strict=True) if share]
    solution = _mean([family.linear for family in start if family.linear])
    guarded = True
    if rules.trees and network.basis is not None:
        linear = next(family for family in families if family.family == LINEAR)
        trees, guarded = _fit_trees(design, validation, linear, rules)
        families.append(trees)
    # The network does not know a window's device, so device effects are subtracted from the targets here, and added
    # back to its outputs below.
    training_part = examples.without_effects(solution.effects)
    validation_part = held_out.without_effects(solution.effects)
    members = train_members(recipe, training_part, validation_part, unit, solution, report)
    rows = held_out.spread(len(targets))  # those of the design matrix, which may have a part of the examples only
    cross_fitted = [
        cross_fit(member.checkpoints[:, rows], validation_part.targets[rows], held_out.times[rows], rules.blocks)[1]
        for member in members
        if member.has_learned
    ]
    if cross_fitted:
        effects = (held_out.targets - validation_part.targets)[rows]
        families.append(Fitted(NETWORK, NETWORK, np.mean(cross_fitted, axis=0) + effects))
    shares = choose_shares(families, targets, rules)
    return Combination(tuple(families), tuple(shares), tuple(members), tuple(start), guarded, targets)


def train_members(
    recipe: Recipe,
    examples: Examples,
    held_out: Examples | None,
    unit: float,
    start: Linear | None,
    report: Report | None,
    rounds: Sequence[int] = (),
) -> list[Trained]:
    """Train each member of the ensemble with a seed of its own; an interruption leaves the later ones out.

    Without `held_out`, nothing is chosen on validation: each member is trained for its number of `rounds`.
    """
    members: list[Trained] = []
    count = recipe.settings.members
    solution = start.solution if start else None
    for number in range(count):
        settings = replace(recipe.settings, seed=recipe.settings.seed + number)
        rounds_chosen = rounds[number] if rounds else None
        trainer = Trainer(replace(recipe, settings=settings), examples, held_out, unit, solution, rounds_chosen)
        members.append(trainer.run(_report_member(report, number, count, rounds)))
        if members[-1].interrupted:
            break
    return members


def flat(data: DesignMatrix) -> np.ndarray:
    """Flatten the features to [n, rows·channels]."""
    return data.features.reshape(len(data.features), -1)


def _fit_trees(design: Design, validation: Design, linear: Fitted, rules: SelectionRules) -> tuple[Fitted, bool]:
    """Fit trees to the residuals of the family `drift` or of `linear`, whichever gives a lower error on validation.

    Also returns whether they are switched off beyond the readings of training.
    """

    def fit_drift(design: Design) -> tuple[Linear, np.ndarray]:
        return fit_effects(design, DRIFT_STEPS)

    def fit_linear(design: Design) -> tuple[Linear, np.ndarray]:
        assert linear.fit is not None
        model = linear.fit(design)
        return model, design.data.targets - design.predict(model)

    variants = {f"on {DRIFT}": fit_drift, f"on {LINEAR}": fit_linear}
    channels = design.data.features.shape[2]
    train_features, validation_features = flat(design.data), flat(validation.data)
    guarded = outside_share(validation_features, train_features, channels) <= MOST_OUTSIDE
    outputs = []
    for fit_base in variants.values():
        base, residuals = fit_base(design)
        trees = fit_trees(train_features, residuals, channels, guarded)
        outputs.append(validation.predict(base) + trees.predict(validation_features))
    best, cross_fitted = cross_fit(np.stack(outputs), validation.data.targets, validation.data.times, rules.blocks)
    name = list(variants)[best]
    return Fitted(TREES, name, cross_fitted, corrected=variants[name]), guarded


def _mean(models: Sequence[Linear]) -> Linear:
    return Linear.mean(models, [1 / len(models)] * len(models))


def _rounded(plan: Plan) -> Plan:
    return fold(plan).astype(np.float32)


def _report_member(report: Report | None, member: int, count: int, rounds: Sequence[int]) -> Report | None:
    """Return a function that reports the progress of one member as that of the whole ensemble.

    `rounds` has the number of rounds of each member, if they differ.
    """
    if report is None or count == 1:
        return report

    def report_all(progress: Progress) -> None:
        member_rounds = rounds or [progress.rounds] * count
        done, total = sum(member_rounds[:member]) + progress.round, sum(member_rounds)
        seconds_per_round = progress.seconds_left / max(1, progress.rounds - progress.round)
        report(replace(progress, round=done, rounds=total, seconds_left=seconds_per_round * (total - done)))

    return report_all
