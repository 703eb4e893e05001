"""Tuning: what is proposed, what is examined and how far, what is remembered, and what comes out."""

import json
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.board.boards import board
from scare.board.measure import BoardBudget, measure
from scare.data.split import split_by_time
from scare.errors import DataError, UsageError
from scare.experiments import trials as trials_module
from scare.experiments import tuning as search_module
from scare.experiments.trials import (
    Score,
    SearchSpace,
    Trial,
    TrialSettings,
    examine,
    read_trials,
    run_trial,
    score,
    write_trial,
)
from scare.experiments.tuning import (
    Effort,
    Proposer,
    Search,
    make_outcome,
    on_shared_rows,
    prepare_search,
    run_search,
    write_configs,
)
from scare.experiments.untrained import measure_cost
from scare.export.package import export_calibrator
from scare.schema import load_toml
from scare.training.fit import fit
from scare.training.recipe import PRESETS, Recipe, make_recipe
from tests.experiments.trials_at_once import ended, run_at_once
from tests.needs import needs
from tests.training.small_fits import line_recipe, make_readings

SPACE: SearchSpace = {"model.window": (4, 8), "training.rate": (0.01, 0.05, 0.2), "training.steps": (20, 40)}
PRESET = {"model.window": 4, "training.rate": 0.05, "training.steps": 40}
SETTINGS = TrialSettings(folds=2)
SMALL = BoardBudget("nano33ble", "float32", 1000, 5000, 20_000)
COST = {"instructions": 900, "ram_bytes": 4000, "flash_bytes": 9000}
BIG = {**COST, "instructions": 2500, "flash_bytes": 30_000}


@pytest.fixture(autouse=True)
def _lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The preset trains a line, which compiles in no time."""
    monkeypatch.setitem(PRESETS, "default", line_recipe())


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Trials find something as soon as they start; their numbers."""

    def find(folder: Path, trial: Trial, settings: TrialSettings) -> Trial:
        return replace(trial, scores=((5.0 + trial.number, 9.0),) * settings.folds)

    return run_at_once(monkeypatch, find)


def noisy(rows: int = 400) -> Any:
    draw = np.random.default_rng(0)
    raw = 20 + draw.normal(size=(rows, 1)).cumsum(axis=0)
    return make_readings(raw, 2 * raw[:, 0] + 5 + draw.normal(size=rows))


def begin(folder: Path, space: SearchSpace = SPACE, settings: TrialSettings = SETTINGS) -> Search:
    return prepare_search(folder, [noisy()], space, settings)


def scored(number: int, *scores: Score, **facts: Any) -> Trial:
    return Trial(number, {**PRESET, "training.steps": 100 + number} if number else PRESET, scores=scores, **facts)


# --- the front ---

ERRORS = st.tuples(st.integers(1, 5).map(float), st.integers(1, 5).map(float))


@given(st.lists(ERRORS, min_size=1, max_size=12))
def test_nothing_on_the_front_is_beaten_and_everything_else_is(errors: list[Score]) -> None:
    search = Search(Path(), SPACE, PRESET, TrialSettings(folds=1))
    trials = [scored(number, one) for number, one in enumerate(errors)]
    front = {trial.number for trial in search.front(trials)}
    for number, (rmse, top5) in enumerate(errors):
        beaten = any((a <= rmse and b <= top5) and (a < rmse or b < top5) for a, b in errors)
        assert (number in front) is not beaten


def test_the_front_has_only_what_is_finished_and_fits() -> None:
    search = Search(Path(), SPACE, PRESET, TrialSettings(2, budget=SMALL))
    good = scored(1, (3.0, 4.0), (5.0, 6.0), cost=COST)
    trials = [
        scored(0, (1.0, 1.0), (1.0, 1.0), cost=BIG),
        good,
        scored(2, (1.0, 1.0), cost=COST),
        scored(3, cost=COST, failed="why"),
    ]
    assert search.front(trials) == [good]
    assert good.mean == (4.0, 5.0)


# --- the budget ---


def test_a_budget_says_what_is_over_and_the_boards_memory_is_the_default() -> None:
    assert SMALL.reasons(COST) == []
    assert SMALL.reasons(BIG) == ["2,500 instructions of 1,000", "30,000 B of flash of 20,000"]
    whole = BoardBudget.of("nano33ble", "fixed", None, None, None)
    assert (whole.instructions, whole.ram_bytes, whole.flash_bytes) == (None, 262_144, 1_048_576)
    with pytest.raises(UsageError, match="did you mean 'nano33ble'"):
        BoardBudget.of("nano33", "fixed", None, None, None)


@needs("board")
@pytest.mark.parametrize("arithmetic", ["float32", "fixed"])
def test_a_network_costs_before_training_what_it_costs_after(arithmetic: str, tmp_path: Path) -> None:
    split = split_by_time([noisy()], 240.0)
    calibrator = fit(split.train, split.validation, line_recipe())
    export_calibrator(calibrator, "c", arithmetic, tmp_path / "model")
    after = measure(tmp_path / "model", board("nano33ble"), calibrator.golden.windows[:3])
    before = measure_cost(line_recipe(), split.train, split.validation, replace(SMALL, arithmetic=arithmetic))
    assert before == {
        "instructions": after.instructions and after.instructions["max"],
        "ram_bytes": after.ram_bytes,
        "flash_bytes": pytest.approx(after.flash_bytes, abs=16),
    }


@needs("board")
def test_a_board_that_counts_no_instructions_has_none_in_the_cost() -> None:
    split = split_by_time([noisy()], 240.0)
    budget = BoardBudget.of("esp8266", "float32", None, None, None)
    assert measure_cost(line_recipe(), split.train, split.validation, budget).keys() == {"ram_bytes", "flash_bytes"}


# --- trials ---


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """The recipes that were trained, each with an error of 4 and 10."""
    trained: list[Recipe] = []

    def watched(train: Any, validation: Any, recipe: Recipe) -> None:
        trained.append(recipe)

    monkeypatch.setattr(trials_module, "score", lambda *_: (4.0, 10.0))
    monkeypatch.setattr(trials_module, "fit", watched)
    return trained


def test_a_candidate_is_trained_by_its_values_on_every_fold(tmp_path: Path, fits: list[Recipe]) -> None:
    values = {"model.window": 8, "training.rate": 0.2, "training.steps": 20}
    begin(tmp_path)
    found = examine(tmp_path, Trial(3, values), TrialSettings(2, seed=5, start={"training": {"batch": 8}}))
    assert {one.settings.batch for one in fits} == {8}
    assert found.scores == ((4.0, 10.0),) * 2
    assert [(one.window, one.settings.rate, one.settings.steps, one.settings.seed) for one in fits] == [
        (8, 0.2, 20, 5)
    ] * 2
    assert found.cost is None


def test_a_candidate_over_the_budget_is_never_trained_but_the_preset_is(
    tmp_path: Path, fits: list[Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path)
    monkeypatch.setattr(trials_module, "measure_cost", lambda *_: BIG)
    found = examine(tmp_path, Trial(1, PRESET), replace(SETTINGS, budget=SMALL))
    assert (found.cost, found.scores, fits) == (BIG, (), [])
    assert len(examine(tmp_path, Trial(0, PRESET), replace(SETTINGS, budget=SMALL)).scores) == 2


def test_a_candidate_hopeless_in_both_on_the_first_fold_ends_there(tmp_path: Path, fits: list[Recipe]) -> None:
    begin(tmp_path)
    for hopeless, folds in (((3.0, 9.0), 1), ((3.0, 11.0), 2), ((5.0, 9.0), 2)):
        assert len(examine(tmp_path, Trial(1, PRESET), replace(SETTINGS, hopeless=hopeless)).scores) == folds
    assert len(examine(tmp_path, Trial(0, PRESET), replace(SETTINGS, hopeless=(0.0, 0.0))).scores) == 2


def test_hopeless_is_worse_than_the_worst_on_the_front_by_a_margin() -> None:
    search = Search(Path(), SPACE, PRESET, SETTINGS)
    trials = [scored(1, (4.0, 10.0), (4.0, 10.0)), scored(2, (6.0, 8.0), (6.0, 8.0))]
    assert search_module._hopeless(search, trials) is None
    assert search_module._hopeless(search, [scored(0, (9.0, 20.0), (9.0, 20.0)), *trials]) == pytest.approx((6.3, 10.5))


def test_whatever_stops_a_trial_is_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(tmp_path)
    settings = {"folds": 2, "seed": 0, "budget": None, "hopeless": None}
    for number, error in ((1, DataError("too few")), (2, ZeroDivisionError("oh"))):

        def fail(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(trials_module, "fit", fail)
        run_trial(str(tmp_path), {"number": number, "values": PRESET}, settings)
    assert [trial.failed for trial in read_trials(tmp_path)] == ["too few", "ZeroDivisionError: oh"]


def test_a_row_without_a_value_is_no_score() -> None:
    split = split_by_time([noisy()], 240.0)
    calibrator = fit(split.train, split.validation, line_recipe(8))
    assert score(calibrator, on_shared_rows(split, [8], line_recipe()).test)[0] > 0
    shorter = split_by_time([noisy()], 60.0)
    with pytest.raises(DataError, match="the candidate has no value for 6 of 99 rows"):
        score(calibrator, shorter.test)


def test_all_windows_are_scored_on_the_same_rows() -> None:
    gaps = [noisy().rows(np.arange(400) % 97 > 9)]
    split = on_shared_rows(split_by_time(gaps, 60.0), [4, 16], line_recipe())
    for window in (4, 16):
        score(fit(split.train, split.validation, line_recipe(window)), split.test)
    assert 30 < np.isfinite(split.test[0].targets).sum() < 80
    with pytest.raises(DataError, match="value for every window length"):
        on_shared_rows(split_by_time([noisy(200)], 60.0), [4, 64], line_recipe())  # 50 test rows


# --- proposing ---


def errors(trial: Trial, done: Sequence[Trial]) -> Score:
    return float(trial.values["training.steps"]), float(trial.values["model.window"])


def proposals(count: int, seed: int, done: list[Trial]) -> list[Trial]:
    proposer = Proposer(SPACE, PRESET, errors, seed)
    for _ in range(count):
        trial = proposer.propose(done, [])
        if trial is not None:
            done.append(trial)
    return done


def test_the_preset_is_first_and_nothing_is_proposed_twice() -> None:
    done = proposals(20, 0, [])
    assert (done[0].number, dict(done[0].values)) == (0, PRESET)
    assert [trial.number for trial in done] == list(range(12))  # all there are: 2 · 3 · 2
    assert len({tuple(trial.values.items()) for trial in done}) == 12


def test_one_seed_gives_one_sequence_and_a_resumed_search_repeats_nothing() -> None:
    first = proposals(6, 1, [])
    assert proposals(6, 1, []) == first
    assert proposals(6, 2, []) != first
    resumed = proposals(6, 1, list(first))
    assert len({tuple(trial.values.items()) for trial in resumed}) == len(resumed) > 6


def test_what_runs_is_not_proposed() -> None:
    running = Proposer(SPACE, PRESET, errors, 0).propose([], [])
    assert running is not None
    other = Proposer(SPACE, PRESET, errors, 0).propose([], [running])
    assert other is not None
    assert (other.number, other.values != running.values) == (1, True)


def test_errors_for_the_search_rank_scores_before_hopeless_before_unfit() -> None:
    search = Search(Path(), SPACE, PRESET, replace(SETTINGS, budget=SMALL))
    preset = scored(0, (4.0, 10.0), (2.0, 6.0), cost=COST)
    half = scored(1, (8.0, 15.0), cost=COST)
    over = scored(2, cost=BIG)
    failed = scored(3, cost=COST, failed="why")
    done = [preset, half, over, failed]
    assert search.errors(preset, done) == (3.0, 8.0)
    assert search.errors(half, done) == (6.0, 12.0)
    assert search.errors(over, done)[0] == 2.5 * search.errors(failed, done)[0] > 1e6
    assert search.errors(replace(preset, cost=BIG), done)[0] > 1e6


# --- the search ---


def test_a_search_is_remembered_and_goes_on(tmp_path: Path, at_once: list[int]) -> None:
    search, reported = begin(tmp_path), list[int]()
    run_search(search, Effort(60.0, trials=3), lambda done: reported.append(len(done)))
    assert at_once == [0, 1, 2]
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "trials").iterdir()}
    run_search(begin(tmp_path), Effort(60.0, trials=5), lambda done: reported.append(len(done)))
    assert at_once == [0, 1, 2, 3, 4]
    assert reported[-1] == 5
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "trials").iterdir()}
    assert before.items() <= after.items()
    run_search(begin(tmp_path), Effort(60.0, trials=5), lambda _: pytest.fail("nothing is left to do"))


def test_without_time_only_the_preset_is_examined(tmp_path: Path, at_once: list[int]) -> None:
    run_search(begin(tmp_path), Effort(0.0, processes=1), lambda _: None)
    assert at_once == [0]


def test_a_search_that_lost_its_preset_examines_it_before_all_else(tmp_path: Path, at_once: list[int]) -> None:
    search = begin(tmp_path)
    run_search(search, Effort(60.0, trials=2), lambda _: None)
    (tmp_path / "trials" / "0000.json").unlink()
    assert make_outcome(search)["preset"] is None
    run_search(search, Effort(0.0), lambda _: None)
    assert at_once == [0, 1, 0]


def test_a_file_half_written_is_not_a_trial(tmp_path: Path) -> None:
    write_trial(tmp_path, scored(0))
    (tmp_path / "trials" / ".0001.abcd.json").write_text("{")
    assert [trial.number for trial in read_trials(tmp_path)] == [0]


def test_a_search_ends_when_everything_is_known(tmp_path: Path, at_once: list[int]) -> None:
    few: SearchSpace = {"model.window": (4,), "training.rate": (0.01, 0.05), "training.steps": (40,)}
    run_search(begin(tmp_path, few), Effort(600.0), lambda _: None)
    assert at_once == [0, 1]


def test_an_interruption_ends_what_runs_and_keeps_what_is_finished(tmp_path: Path, at_once: list[int]) -> None:
    def interrupt(done: Sequence[Trial]) -> None:
        if len(done) == 2:
            raise KeyboardInterrupt

    search = begin(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_search(search, Effort(60.0, processes=1), interrupt)
    assert [trial.number for trial in search.trials()] == [0, 1]


def test_a_process_that_dies_is_a_trial_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "_start", lambda *_: ended(BrokenExecutor("{EXIT(9)}")))
    with pytest.raises(DataError, match=r"the preset itself cannot be examined: its process ended .*exit code 9"):
        run_search(begin(tmp_path), Effort(60.0), lambda _: None)


def test_a_preset_that_failed_is_tried_again(tmp_path: Path, at_once: list[int]) -> None:
    search = begin(tmp_path)
    write_trial(tmp_path, replace(scored(0), failed="its process ended"))
    run_search(search, Effort(0.0), lambda _: None)
    assert at_once == [0]
    assert [trial.failed for trial in search.trials()] == [None]


def test_another_search_in_the_folder_is_refused(tmp_path: Path) -> None:
    begin(tmp_path)
    for space, settings in (({**SPACE, "model.window": (4,)}, SETTINGS), (SPACE, TrialSettings(2, seed=1))):
        with pytest.raises(UsageError, match="other data or settings; choose another --out"):
            begin(tmp_path, space, settings)


def test_a_known_architecture_is_not_measured_again() -> None:
    trial = Trial(4, {**PRESET, "training.rate": 0.2})
    done = [scored(1, cost=BIG), replace(scored(2, cost=COST), values={**PRESET, "model.window": 8})]
    assert search_module._known_cost(trial, done) == BIG
    assert search_module._known_cost(replace(trial, values={**PRESET, "model.window": 16}), done) is None


# --- the outcome ---


def test_differences_to_the_preset_are_paired_by_fold(tmp_path: Path) -> None:
    search = Search(tmp_path, SPACE, PRESET, TrialSettings(2, budget=SMALL))
    best = replace(scored(1, (3.0, 9.0), (5.0, 8.0), cost=COST), values={**PRESET, "model.window": 8})
    for trial in (
        scored(0, (4.0, 8.0), (8.0, 8.0), cost=COST),
        best,
        scored(2, cost=BIG),
        scored(3, (9.0, 9.0), cost=COST),
        scored(4, failed="why"),
    ):
        write_trial(tmp_path, trial)
    outcome = json.loads(json.dumps(make_outcome(search)))
    first, second = outcome["front"]
    assert (first["trial"], first["changes"], second["trial"]) == (1, {"model.window": 8}, 0)
    assert (first["rmse"], first["rmse_to_preset"], first["top5_rmse_to_preset"]) == (4.0, -2.0, 0.5)
    assert first["rmse_to_preset_sd"] == pytest.approx(2**0.5)  # of -1 and -3
    assert outcome["does_not_fit"][0]["does_not_fit"] == ["2,500 instructions of 1,000", "30,000 B of flash of 20,000"]
    assert outcome["candidates"] == {
        "examined": 5,
        "scored_on_all_folds": 2,
        "ended_after_one_fold": 1,
        "over_budget": 1,
        "failed": 1,
    }


def test_configs_of_the_front_are_written_and_older_ones_go(tmp_path: Path) -> None:
    search = Search(tmp_path, SPACE, PRESET, TrialSettings(1, start={"training": {"batch": 7}}))
    (tmp_path / "best-2.toml").write_text("old")
    best = replace(scored(1, (1.0, 1.0)), values={**PRESET, "model.window": 8})
    write_trial(tmp_path, best)
    (path,) = write_configs(search, make_outcome(search)["front"], {"data": {"time": ["date"]}})
    tables = load_toml(path)
    assert tables.pop("data") == {"time": ["date"]}
    recipe = make_recipe(tables, "r")
    assert (recipe.window, recipe.settings.steps, recipe.settings.rate, recipe.settings.batch) == (8, 40, 0.05, 7)
    assert [one.name for one in sorted(tmp_path.glob("best-*"))] == ["best-1.toml"]
