"""What a calibrator costs on a board decides which combination of families is shipped."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from scare.board.boards import board
from scare.board.measure import BoardBudget, measure
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.cost import count
from scare.calibrator.model_card import cost_table, model_card
from scare.data.simulate import Simulation, simulate
from scare.errors import UsageError
from scare.export.package import export_calibrator
from scare.training import fit as fit_module
from scare.training.budget import Weighed, choose_by_cost
from scare.training.combination import Combination, combine
from scare.training.fit import evaluate
from scare.training.recipe import Budget, Recipe
from scare.training.selection import SelectionRules
from tests.needs import needs
from tests.training.small_fits import line_recipe

BOXES = simulate(Simulation(boxes=2, days=2, step_seconds=600, seed=3))
EVERY_FAMILY = SelectionRules(tolerance=9.0)
RECIPE = replace(Recipe.preset("default", window=8, steps=10, checkpoints=2), rules=EVERY_FAMILY)


@dataclass(frozen=True)
class StepBudget:
    """Counts the steps of a plan as instructions."""

    most: int = 1000

    def measure(self, calibrator: Calibrator) -> dict[str, int]:
        return {"instructions": len(calibrator.plan.steps)}

    def reasons(self, cost: Mapping[str, int]) -> Sequence[str]:
        return [f"{cost['instructions']} of {self.most}"] if cost["instructions"] > self.most else []

    def share(self, cost: Mapping[str, int]) -> float:
        return cost["instructions"] / self.most

    def __str__(self) -> str:
        return "the budget"


@pytest.fixture(scope="module", autouse=True)
def _judge_once() -> Iterator[None]:
    """What validation says of the families is found once; what is made of it is made by each test."""
    combine, judged = fit_module.combine, list[Combination]()

    def judge_once(*arguments: Any) -> Combination:
        judged.extend([] if judged else [combine(*arguments)])
        return judged[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_module, "combine", judge_once)
        yield


def shipped(budget: Budget | None = None, smallest_within: float | None = None) -> Calibrator:
    rules = replace(EVERY_FAMILY, smallest_within=smallest_within)
    return evaluate(BOXES, recipe=replace(RECIPE, rules=rules, budget=budget)).fitted()


def costly(calibrator: Calibrator) -> tuple[bool, bool]:
    """Whether trees, and whether the network have a part."""
    parts = [one["candidate"] for one in calibrator.facts["selection"] if one["admitted"]]
    return "trees" in parts, "network" in parts


@pytest.mark.slow
def test_a_budget_that_everything_fits_changes_nothing() -> None:
    plain, within = shipped(), shipped(StepBudget())
    assert plain.facts == {name: fact for name, fact in within.facts.items() if name != "combinations"}
    assert [step.kernel for step in plain.plan.steps] == [step.kernel for step in within.plan.steps]
    assert costly(plain) == (True, True)


def test_the_lowest_error_that_fits_is_shipped_and_the_others_are_named_with_their_cost() -> None:
    everything = shipped(StepBudget()).facts["combinations"]
    first, *others = everything
    assert [one["used"] for one in everything] == [True, False, False, False]
    assert len({frozenset({"trees", "network"} & set(one["parts"])) for one in everything}) == 4
    assert [one["rmse"] for one in others] == sorted(one["rmse"] for one in others)
    for most in sorted({one["cost"]["instructions"] for one in everything}):
        expected = next(one for one in everything if one["cost"]["instructions"] <= most)
        calibrator = shipped(StepBudget(most))
        (used,) = (one for one in calibrator.facts["combinations"] if one["used"])
        assert used["parts"] == expected["parts"]
        assert len(calibrator.plan.steps) == used["cost"]["instructions"] <= most
        if used["parts"] == first["parts"]:
            continue
        why = calibrator.facts["why_smaller"]
        change = 100 * abs(1 - first["rmse"] / used["rmse"])
        assert f"has an RMSE of {first['rmse']:.3g} there, {change:.1f} %" in why
        assert why.endswith(f" does not fit the budget: {first['cost']['instructions']} of {most}.")
        _, rows = cost_table(calibrator.facts) or ([], [])
        assert len(rows) == 4
        assert rows[0][-1] == "does not fit"
        assert why in model_card(calibrator)
        assert " | ".join(rows[0]) in model_card(calibrator)


@pytest.mark.slow
def test_a_budget_that_nothing_fits_is_refused_with_the_smallest() -> None:
    least = min(one["cost"]["instructions"] for one in shipped(StepBudget()).facts["combinations"])
    with pytest.raises(UsageError, match=rf"the smallest is the mean of .*, with {least} instructions"):
        shipped(StepBudget(3))


def test_the_smallest_has_an_error_within_the_share_of_the_lowest() -> None:
    judged = evaluate(BOXES, recipe=RECIPE).combination
    candidates = [Weighed(one, {}, (), size) for size, one in enumerate([judged, *judged.smaller(EVERY_FAMILY)][::-1])]
    errors = [one.combination.rmse for one in candidates]
    for within in sorted({0.0, 1e9, *(error / min(errors) - 1 + 1e-6 for error in errors)}):
        chosen = choose_by_cost(candidates, replace(RECIPE, rules=SelectionRules(smallest_within=within)))
        assert errors[chosen] <= (1 + within) * min(errors)
        assert all(error > (1 + within) * min(errors) for error in errors[:chosen])


def test_without_a_board_the_smallest_has_the_fewest_bytes_of_weights() -> None:
    calibrator = shipped(smallest_within=1e9)
    found = calibrator.facts["combinations"]
    assert costly(calibrator) == (False, False)
    assert count(calibrator.plan).weight_bytes == min(one["cost"]["weight_bytes"] for one in found)
    assert "this is the smallest within 1e+11 % of the lowest" in calibrator.facts["why_smaller"]


def test_what_does_not_fit_is_not_what_the_smallest_is_compared_with() -> None:
    judged = evaluate(BOXES, recipe=RECIPE).combination
    others = sorted(judged.smaller(EVERY_FAMILY), key=lambda one: -one.rmse)
    candidates = [Weighed(one, {}, ("too large",) * (one is others[-1]), size) for size, one in enumerate(others)]
    assert choose_by_cost(candidates, replace(RECIPE, rules=SelectionRules(smallest_within=0.0))) == len(others) - 2


def test_a_network_that_is_all_of_the_result_must_fit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "combine", combine)
    recipe = replace(line_recipe(), budget=StepBudget(10))
    assert "combinations" not in evaluate(BOXES, recipe=recipe).calibrator.facts
    with pytest.raises(UsageError, match="the smallest is the network, with 2 instructions"):
        evaluate(BOXES, recipe=replace(recipe, budget=StepBudget(1)))


@pytest.mark.slow
@needs("board")
def test_what_ships_fits_the_budget_as_exported_and_counted(tmp_path: Path) -> None:
    everything = shipped(BoardBudget.of("nano33ble", "fixed", None, None, None)).facts["combinations"]
    most = everything[0]["cost"]["flash_bytes"] - 1
    calibrator = shipped(BoardBudget.of("nano33ble", "fixed", None, None, most))
    export_calibrator(calibrator, "c", "fixed", tmp_path / "model")
    report = measure(tmp_path / "model", board("nano33ble"), calibrator.golden.windows)
    (used,) = (one["cost"] for one in calibrator.facts["combinations"] if one["used"])
    assert report.flash_bytes <= most
    assert report.flash_bytes == pytest.approx(used["flash_bytes"], abs=200)
    assert report.ram_bytes == used["ram_bytes"]
    assert report.instructions == {
        "mean": used["instructions"],
        "min": used["instructions"],
        "max": used["instructions"],
    }


def test_a_refit_that_grows_beyond_the_budget_is_refused() -> None:
    evaluation = evaluate(BOXES, recipe=replace(RECIPE, budget=StepBudget()))
    tight = replace(evaluation, recipe=replace(evaluation.recipe, budget=StepBudget(3)))
    with pytest.raises(UsageError, match=r"fitted again to more rows, the result takes \d+ of 3"):
        tight.refit(BOXES)
