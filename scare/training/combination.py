"""The combination of families that makes a calibrator: chosen on validation once, then fitted to any rows.

    training, validation → families, trees, members → shares            (`combine`: choices are made)
    rows, choices        → network trained again                          (`Combination.trained_again`)
                         → linear models and trees fitted again, a plan   (`Combination.plan`: nothing is chosen)

A network starts at a linear model, so it can be stored as its difference to that start; a plan adds this difference to
the linear models as they are fitted now. Comes from `fit`; the linear families and cross-fitting are in
`models.selection`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import jax
import numpy as np

from scare.calibrator.passes import add_plans, average, fold
from scare.calibrator.plan import Plan
from scare.data.readings import Readings
from scare.models.selection import (
    DRIFT,
    DRIFT_STEPS,
    LINEAR,
    NETWORK,
    TREES,
    Design,
    Fitted,
    Linear,
    SelectionRules,
    choose_shares,
    cross_fit,
    fit_effects,
    fit_families,
    mean_rmse,
    name_mean,
)
from scare.training.loop import Progress, Report, Trained, Trainer
from scare.training.recipe import Recipe
from scare.training.trees import fit_trees, outside_share
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import DeviceEffect, Scaling
from scare.windowing.training_examples import DesignMatrix, Examples, design_matrix, make_examples
from scare.windowing.windows import ANY

FEWEST_DEVICES = 3  # to estimate the error on a new device by leaving each one out
MOST_WINDOWS = 5000  # most windows of the device left out, or of all others, used for that
MOST_OUTSIDE = 0.1  # share of validation rows outside: with more, trees are not switched off beyond training's readings


@dataclass(frozen=True)
class Combination:
    """Families with their shares in the result, and all that is needed to fit them to other rows.

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
        """Cross-fitted error on validation, in standard deviations of the target."""
        return mean_rmse(self.families, self.shares, self.targets)

    @property
    def label(self) -> str:
        """A name to use in a sentence."""
        return name_mean(self.families, self.shares) if self.families else "the network"

    def smaller(self, rules: SelectionRules) -> list["Combination"]:
        """Return variants without the network, without trees and without both, if they differ; lowest error first."""
        shares = {self.shares: self}
        if not self.families:
            return []
        for without in ((NETWORK,), (TREES,), (NETWORK, TREES)):
            others = tuple(choose_shares(self.families, self.targets, rules, without))
            shares.setdefault(others, replace(self, shares=others))
        return sorted(list(shares.values())[1:], key=lambda one: one.rmse)

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
        plain, unit = examples.without_effects(start.effects), float(scaling.target.scale[0])
        rounds = [member.rounds for member in self.members]
        members = train_members(recipe, plain, None, unit, start, report, rounds)
        return self if members[-1].interrupted else replace(self, members=tuple(members))

    def plan(self, examples: Examples, scaling: Scaling) -> tuple[Plan, Mapping[str, DeviceEffect]]:
        """Fit every family that has a share to these examples; returns the plan and the effects of known devices."""
        if not self.families:
            return _rounded(average([member.network.plan() for member in self.members])), {}
        design = self._design(examples, scaling)
        weighted = [*zip(self.families, self.shares, strict=True)]
        weighted += [(family, self.network_share / len(self.start)) for family in self.start]
        fitted = [(family.fit(design), share) for family, share in weighted if family.fit is not None and share]
        corrected = next((one.corrected for one in self.families if one.corrected and self.used.get(TREES)), None)
        if corrected is not None:
            base, residuals = corrected(design)
            fitted.append((base, self.used[TREES]))
        total = Linear.mean([model for model, _ in fitted], [part for _, part in fitted])
        plan = self._network_plan(total)
        if corrected is not None:
            trees = fit_trees(flat(design.data), residuals, examples.series.shape[1], self.guarded)
            steps, scale = self.members[0].start.feature_steps()
            correction = (*steps, trees.step(steps[-1].output, scale, self.used[TREES]))
            plan = add_plans([plan, Plan(plan.window, plan.channels, correction)])
        return _rounded(plan), total.effects

    def _design(self, examples: Examples, scaling: Scaling) -> Design:
        network = self.members[0].start
        return network.design(design_matrix(examples, network.basis), scaling)

    def error_on_new_devices(self, readings: Sequence[Readings], inputs: Inputs) -> float | None:
        """Estimate the RMSE on a new device, in the target's unit, by leaving each device out of the linear families.

        None with fewer than `FEWEST_DEVICES` devices.
        """
        devices = dict.fromkeys(one.device for one in readings)
        if len(devices) < FEWEST_DEVICES or not self.start:
            return None
        network, errors = self.members[0].start, []
        learning, new = replace(inputs, policy=ANY), replace(inputs, scaling=replace(inputs.scaling, devices={}))
        for device in devices:
            others = make_examples([one for one in readings if one.device != device], learning)
            own = make_examples([replace(one, device="") for one in readings if one.device == device], new)
            if not len(others) or not len(own):
                continue
            design, test = (
                network.design(design_matrix(part, network.basis, MOST_WINDOWS), inputs.scaling)
                for part in (others, own)
            )
            outputs = np.mean([test.predict(family.fit(design)) for family in self.start if family.fit], axis=0)
            errors.append(np.square(outputs - test.data.targets))
        unit = float(inputs.scaling.target.scale[0])
        return unit * float(np.sqrt(np.concatenate(errors).mean())) if errors else None

    def _network_plan(self, total: Linear) -> Plan:
        """Write the linear model `total` plus the share of the network's difference to its start, as a plan."""
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

    A model without a linear start is compared with nothing: the network is the whole result.
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
        family, guarded = _fit_trees(design, validation, linear, rules)
        families.append(family)
    # The network does not know a window's device, so device effects are subtracted here and added back below.
    plain, judged = (part.without_effects(solution.effects) for part in (examples, held_out))
    members = train_members(recipe, plain, judged, unit, solution, report)
    rows = held_out.spread(len(targets))
    cross_fitted = [
        cross_fit(member.checkpoints[:, rows], judged.targets[rows], held_out.times[rows], rules.blocks)[1]
        for member in members
        if member.has_learned
    ]
    if cross_fitted:
        outputs = np.mean(cross_fitted, axis=0) + (held_out.targets - judged.targets)[rows]
        families.append(Fitted(NETWORK, NETWORK, outputs))
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
    while len(members) < count and not (members and members[-1].interrupted):
        number = len(members)
        settings = replace(recipe.settings, seed=recipe.settings.seed + number)
        solution, last = start.solution if start else None, rounds[number] if rounds else None
        trainer = Trainer(replace(recipe, settings=settings), examples, held_out, unit, solution, last)
        members.append(trainer.run(_report_member(report, number, count, rounds)))
    return members


def flat(data: DesignMatrix) -> np.ndarray:
    """Flatten the features to [n, rows·channels]."""
    return data.features.reshape(len(data.features), -1)


def _fit_trees(design: Design, validation: Design, linear: Fitted, rules: SelectionRules) -> tuple[Fitted, bool]:
    """Fit trees to the residuals of `drift` or of the linear family, whichever is better on validation.

    Also returns whether they are switched off beyond the readings of training.
    """

    def correct_linear(design: Design) -> tuple[Linear, np.ndarray]:
        assert linear.fit is not None
        model = linear.fit(design)
        return model, design.data.targets - design.predict(model)

    variants = {f"on {DRIFT}": lambda design: fit_effects(design, DRIFT_STEPS), f"on {LINEAR}": correct_linear}
    channels, seen, judged = design.data.features.shape[2], flat(design.data), flat(validation.data)
    guarded = outside_share(judged, seen, channels) <= MOST_OUTSIDE
    outputs = []
    for corrected in variants.values():
        base, residuals = corrected(design)
        trees = fit_trees(seen, residuals, channels, guarded)
        outputs.append(validation.predict(base) + trees.predict(judged))
    best, cross_fitted = cross_fit(np.stack(outputs), validation.data.targets, validation.data.times, rules.blocks)
    name = list(variants)[best]
    return Fitted(TREES, name, cross_fitted, corrected=variants[name]), guarded


def _mean(models: Sequence[Linear]) -> Linear:
    return Linear.mean(models, [1 / len(models)] * len(models))


def _rounded(plan: Plan) -> Plan:
    return fold(plan).astype(np.float32)


def _report_member(report: Report | None, member: int, count: int, rounds: Sequence[int]) -> Report | None:
    """Convert the progress of one member to that of the whole ensemble; `rounds` are each member's, if they differ."""
    if report is None or count == 1:
        return report

    def report_all(state: Progress) -> None:
        each = rounds or [state.rounds] * count
        number, total = state.round + sum(each[:member]), sum(each)
        seconds = state.seconds_left * (total - number) / max(1, state.rounds - state.round)
        report(replace(state, round=number, rounds=total, seconds_left=seconds))

    return report_all
