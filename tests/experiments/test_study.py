"""A study resumes where it stopped, keeps what failed as a row, and scores all methods on the same rows."""

import json
import os
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from scare.board.measure import BoardBudget
from scare.data.simulate import Simulation, simulate
from scare.data.split import Split, split_by_time
from scare.errors import UsageError
from scare.experiments import jax_cache
from scare.experiments import study as study_module
from scare.experiments.comparison_table import make_table
from scare.experiments.study import Job, Study, choose, grid, prepare, recipe_of, run_study
from scare.experiments.study_task import read_parts
from scare.scorecard.accuracy import rmse
from tests.failing_jobs import die

WINDOW = 15
NAMES = ["linear", "ridge", "raw"]


@pytest.fixture(scope="module")
def split() -> Split:
    return split_by_time(simulate(Simulation(boxes=2, days=4, seed=3)), 60.0 * WINDOW)


def run(study: Study, processes: int = 1) -> list[str]:
    reported: list[str] = []
    run_study(study, processes, lambda done, total, job: reported.append(f"{done}/{total} {job}"))
    return reported


def test_readings_come_back_as_they_were(split: Split, tmp_path: Path) -> None:
    prepare(tmp_path, split, [], {})
    for part, readings in read_parts(tmp_path).items():
        for one, same in zip(split.parts[part], readings, strict=True):
            assert same.frame.equals(one.frame)
            assert (same.device, same.channels, same.reference) == (one.device, one.channels, one.reference)


def test_every_job_is_reported_and_leaves_its_row(split: Split, tmp_path: Path) -> None:
    study = prepare(tmp_path, split, grid(NAMES, [WINDOW], 2), {})
    assert run(study) == ["1/3 linear-w15-s0", "2/3 ridge-w15-s0", "3/3 raw-w15-s0"]
    assert all(study.result(job)["failed"] is None for job in study.jobs)  # type: ignore[index]
    assert run(study) == []


def test_a_row_of_an_earlier_version_is_read(split: Split, tmp_path: Path) -> None:
    study = prepare(tmp_path, split, [Job("linear", WINDOW, 0)], {})
    run(study)
    path = tmp_path / "rows" / "linear-w15-s0.json"
    path.write_text(path.read_text().replace('"method"', '"contender"'))
    assert study.result(study.jobs[0])["method"] == "linear"  # type: ignore[index]
    assert study.unfinished() == []


@pytest.mark.slow
def test_a_process_with_many_jobs_forgets_what_it_compiled(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = jax.jit(lambda number: number + 1)
    compiled(1)
    monkeypatch.setattr(jax_cache, "JOBS_PER_CLEAR", 2)
    monkeypatch.setattr(jax_cache, "JOBS", count(1))
    run(prepare(tmp_path, split, grid(["raw"], [WINDOW], 1), {}))
    assert compiled._cache_size() == 1
    run(prepare(tmp_path, split, grid(["linear", "ridge"], [WINDOW], 1), {}))
    assert compiled._cache_size() == 0


def test_what_was_fitted_is_kept_and_gives_the_same_values(split: Split, tmp_path: Path) -> None:
    study = prepare(tmp_path, split, [Job("linear", WINDOW, 0), Job("boosting", WINDOW, 0)], {})
    run(study)
    linear, boosting = study.jobs
    calibrator = study.calibrator(linear)
    assert calibrator is not None
    columns = [calibrator.predict(one)["calibrated"].fill_null(np.nan).to_numpy() for one in split.test]
    np.testing.assert_array_equal(np.concatenate(columns), study.estimates(linear))
    assert study.calibrator(boosting) is None  # trees have no file without code in it


def test_a_study_resumes_after_an_interruption(split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = prepare(tmp_path, split, grid(NAMES, [WINDOW], 1), {})
    fitted: list[str] = []
    original = study_module.fit_method

    def interrupted(job: Job, *arguments: object) -> object:
        fitted.append(job.method)
        if fitted == ["linear", "ridge"]:
            raise KeyboardInterrupt
        return original(job, *arguments)

    monkeypatch.setattr(study_module, "fit_method", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(study)
    run(prepare(tmp_path, split, grid(NAMES, [WINDOW], 1), {}))
    assert fitted == ["linear", "ridge", "ridge", "raw"]


def test_half_a_training_is_no_result(split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_module, "fit", lambda *_: SimpleNamespace(facts={"interrupted": True}))
    study = prepare(tmp_path, split, [Job("scare", WINDOW, 0)], {})
    with pytest.raises(KeyboardInterrupt):
        run(study)
    assert study.unfinished() == list(study.jobs)


def test_a_process_that_dies_is_a_row_with_its_reason(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_module, "run_job", die)
    study = prepare(tmp_path, split, grid(NAMES[:1], [WINDOW], 1), {})
    assert len(run(study, processes=2)) == 1
    assert study.result(study.jobs[0]) == {
        "method": "linear",
        "window": WINDOW,
        "seed": 0,
        "failed": "its process ended without a result (exit code 9), perhaps out of memory",
    }
    assert study.unfinished() == list(study.jobs)


@pytest.mark.slow
def test_jobs_run_in_processes_of_their_own(split: Split, tmp_path: Path) -> None:
    alone, together = (prepare(tmp_path / name, split, grid(NAMES[:2], [WINDOW], 1), {}) for name in ("a", "b"))
    run(alone)
    run(together, processes=2)
    for job in alone.jobs:
        np.testing.assert_array_equal(alone.estimates(job), together.estimates(job))


def test_what_its_processes_compile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCARE_CACHE", str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    run(Study(tmp_path, ()))
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "jax")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    run(Study(tmp_path, ()))
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "mine"


def test_a_method_that_fails_is_a_row_with_its_reason(split: Split, tmp_path: Path) -> None:
    narrow = replace(
        split,
        **{
            part: tuple(replace(one, channels=one.channels[:1]) for one in readings)
            for part, readings in split.parts.items()
        },
    )
    study = prepare(tmp_path, narrow, grid(["linear", "multiple-linear"], [WINDOW], 1), {})
    run(study)
    rows = {row.method: row for row in make_table(study)}
    assert rows["linear"].failed is None
    assert "needs a second channel" in str(rows["multiple-linear"].failed)


def test_a_folder_with_another_task_is_refused(split: Split, tmp_path: Path) -> None:
    prepare(tmp_path, split, [], {})
    prepare(tmp_path, split, grid(NAMES, [WINDOW], 1), {})
    with pytest.raises(UsageError, match="holds a study of other data or settings"):
        prepare(tmp_path, split, [], {"steps": 5})


def test_the_table_scores_everyone_on_the_same_rows(split: Split, tmp_path: Path) -> None:
    study = prepare(tmp_path, split, grid(NAMES, [WINDOW], 1), {})
    run(study)
    rows = make_table(study)
    assert len({row.accuracy.rows for row in rows if row.accuracy}) == 1
    reference = np.concatenate([one.targets for one in split.test])
    estimates = [study.estimates(job) for job in study.jobs]
    shared = np.isfinite([reference, *estimates]).all(axis=0)
    for row, job in ((row, job) for row in rows for job in study.jobs if job.method == row.method):
        assert row.accuracy is not None
        assert row.accuracy.rmse == pytest.approx(rmse((study.estimates(job) - reference)[shared]))
    assert [row.accuracy.rmse for row in rows if row.accuracy] == sorted(
        row.accuracy.rmse for row in rows if row.accuracy
    )
    assert json.dumps([row.as_dict() for row in rows], allow_nan=False)


def test_the_rows_are_those_that_every_fitted_method_has(split: Split, tmp_path: Path) -> None:
    study = prepare(tmp_path, split, grid(NAMES, [WINDOW], 1), {})
    run(study)
    few = study.estimates(Job("ridge", WINDOW, 0))
    few[len(few) // 5 :] = np.nan
    np.save(tmp_path / "rows" / "ridge-w15-s0.npy", few)
    rows = make_table(study)
    reference = np.concatenate([one.targets for one in split.test])
    common = np.isfinite([reference, *(study.estimates(job) for job in study.jobs)]).all(axis=0).sum()
    assert {row.accuracy.rows for row in rows if row.accuracy} == {common}
    assert not any(row.partial for row in rows)


def test_a_method_without_any_value_is_a_row_with_its_reason(split: Split, tmp_path: Path) -> None:
    short = replace(split, test=tuple(replace(one, frame=one.frame.tail(WINDOW - 1)) for one in split.test))
    study = prepare(tmp_path, short, grid(["linear", "ridge"], [WINDOW], 1), {})
    run(study)
    rows = {row.method: row for row in make_table(study)}
    assert rows["linear"].accuracy is not None
    assert "no value for any test row" in str(rows["ridge"].failed)


def test_a_method_with_few_values_does_not_take_rows_from_others(split: Split, tmp_path: Path) -> None:
    study = prepare(tmp_path, split, grid(NAMES, [WINDOW], 1), {})
    run(study)
    whole = {row.method: row for row in make_table(study)}
    half = study.estimates(Job("raw", WINDOW, 0))
    half[::2] = np.nan
    np.save(tmp_path / "rows" / "raw-w15-s0.npy", half)
    rows = {row.method: row for row in make_table(study)}
    assert rows["linear"].accuracy == whole["linear"].accuracy
    assert rows["raw"].facts["coverage"] == pytest.approx(0.5, abs=0.01)
    assert rows["raw"].accuracy is not None
    assert rows["raw"].to_ours is None


def test_the_difference_to_ours_has_an_interval(split: Split, tmp_path: Path) -> None:
    study = prepare(tmp_path, split, grid(["ridge", "raw"], [WINDOW], 1), {})
    run(study)
    rows = {row.method: row for row in make_table(study, ours="ridge")}
    assert rows["ridge"].to_ours is None
    assert rows["raw"].to_ours is not None
    assert rows["raw"].to_ours.low > 0
    assert rows["ridge"].winner
    assert not rows["raw"].winner


def test_networks_run_with_every_seed_and_others_once() -> None:
    jobs = grid(["scare", "linear"], [60, 360], 3)
    assert [job.key for job in jobs if job.window == 60] == [
        "scare-w60-s0",
        "scare-w60-s1",
        "scare-w60-s2",
        "linear-w60-s0",
    ]
    assert len(jobs) == 8


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="no model called 'tessla'; did you mean 'tesla'"):
        choose(["tessla"])
    assert {"scare", "scare-paper", "linear", "ridge-boosting"} <= set(choose(["all"]))


def test_three_of_ours_are_one_method_that_runs_once() -> None:
    assert [job.seed for job in grid(["scare", "scare-3"], [60], 2)] == [0, 1, 0]
    assert recipe_of("scare-3", 60, 0, {}).settings.members == 3
    assert recipe_of("scare", 60, 0, {}).settings.members == 1


def test_rules_of_selection_and_a_budget_are_part_of_every_networks_recipe() -> None:
    budget = BoardBudget.of("nano33ble", "fixed", 9_000, None, None)
    recipe = recipe_of("scare-3", 60, 0, {"steps": 7, "selection": {"trees": False}, "budget": asdict(budget)})
    assert (recipe.rules.trees, recipe.rules.refit, recipe.budget) == (False, True, budget)
    assert (recipe.settings.steps, recipe.settings.members) == (7, 3)
