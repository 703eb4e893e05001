"""A reproduction reads its protocol, labels what it did, puts the paper's numbers next to ours and resumes."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from math import sqrt
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from benchmarks.reproduce import tables
from benchmarks.reproduce.figures import as_markdown, draw_result, write_result
from benchmarks.reproduce.hardware import find_cards, time_in_jax
from benchmarks.reproduce.protocol import (
    CONFIGS,
    Protocol,
    ReadingsKind,
    best_trial,
    describe_best_rate,
    model_of,
    paper,
    rate_trials,
    read_protocol,
    scored_jobs,
)
from benchmarks.reproduce.run import (
    Reproduction,
    expected_minutes,
    expected_seconds,
    fit_all,
    methods_to_fit,
    missing_fits,
)
from benchmarks.reproduce.senseurcity import City, Pollutant
from benchmarks.reproduce.tables import accuracy_findings, make_adaptability, make_main, spread_over_places
from benchmarks.reproduce.tasks import STAND_IN, open_source
from scare.baselines import MODELS
from scare.data.readings import Channel
from scare.errors import NotApplicableError, UsageError
from scare.executor import InProcess
from scare.experiments.comparison_table import Row
from scare.experiments.study import EXPERIMENTS, NETWORKS, Job, SharedRows, Study, choose, recipe_of
from scare.experiments.untrained import draw_method
from scare.export.lowering import Arithmetic
from scare.files import replacing
from scare.models import ABLATION
from scare.scorecard.accuracy import Accuracy, rmse
from scare.scorecard.requirements import RequirementTable


def tiny() -> Protocol:
    """Baselines on half a day: everything but training."""
    quick = read_protocol(None, ReadingsKind.STAND_IN, quick=True)
    return replace(
        quick,
        window=15,
        main=("linear", "raw"),
        adaptability=("linear", "raw", "ridge"),
        simulation={"boxes": 3, "days": 0.5, "seed": 1},
    )


def open_stand_in(folder: Path, protocol: Protocol) -> Reproduction:
    return Reproduction(folder, protocol, open_source(protocol, None))


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    reproduction = open_stand_in(tmp_path_factory.mktemp("reproduction"), tiny())
    fit_all(reproduction, methods_to_fit(reproduction.protocol, ["main", "adaptability"]), InProcess(), quiet)
    reproduction.write_protocol()
    return reproduction


def quiet(done: int, total: int, what: str) -> None:
    assert done <= total
    assert what


def test_the_full_protocol_is_the_papers_grid() -> None:
    full = read_protocol(None, ReadingsKind.SENSEURCITY, quick=False)
    assert (len(full.cities), len(full.pollutants), full.window) == (3, 3, 360)
    assert full.settings["epochs"] == 10
    assert full.settings["either"]
    assert {model_of(name) for name in full.main} >= MODELS.keys()
    assert [recipe_of(name, 360, 0, {}).model for name in full.ablation] == list(ABLATION.values())
    assert {recipe_of(name, 360, 0, {}).scaling for name in full.main if name.endswith("-paper")} == {"constant"}
    assert full.board_windows == (15, 60, 360, 720, 1440)
    assert full.thresholds == (0.05, 0.10, 0.20)
    assert full.board_trials >= 1000


def test_quick_replaces_what_it_names_and_says_so() -> None:
    quick, full = (read_protocol(None, ReadingsKind.STAND_IN, quick=one) for one in (True, False))
    assert quick.settings["steps"] * 64 < full.settings["windows"]
    assert quick.main == full.main
    notes = [open_stand_in(Path(), one).notes for one in (quick, full)]
    assert any("mean nothing about accuracy" in note for note in notes[0])
    assert not any("mean nothing" in note for note in notes[1])
    assert "SIMULATED" in notes[1][0]
    real = read_protocol(None, ReadingsKind.SENSEURCITY, quick=True)
    assert "SIMULATED" not in Reproduction(Path(), real, open_source(real, Path("senseurcity"))).notes[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("windov = 3", "unknown key 'windov'; did you mean 'window'"),
        ("cities = ['Paris']", "cities.0. is 'Paris'; there are Antwerp, Oslo, Zagreb"),
        ("ablation = ['tessla']", "no model called 'tessla'; did you mean 'tesla'"),
        ("window = 'long'", "window is 'long'; it takes a whole number"),
        ("window =", "cannot be read as TOML"),
    ],
)
def test_a_mistake_in_a_users_file_is_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    ours = (CONFIGS / "reproduce.toml").read_text(encoding="utf-8")
    path.write_text(ours.replace("\n[stand-in]\n", f"\n[stand-in]\n{text}\n"), encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        read_protocol(path, ReadingsKind.STAND_IN, quick=False)


def test_a_file_without_a_setting_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("window = 360\n", encoding="utf-8")
    with pytest.raises(UsageError, match="the key 'cities' is missing"):
        read_protocol(tmp_path / "mine.toml", ReadingsKind.STAND_IN, quick=False)


def test_a_stand_in_needs_its_size(tmp_path: Path) -> None:
    ours = (CONFIGS / "reproduce.toml").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(ours.replace("boxes = 6, ", ""), encoding="utf-8")
    with pytest.raises(UsageError, match="'simulation' needs boxes, days, seed"):
        read_protocol(tmp_path / "mine.toml", ReadingsKind.STAND_IN, quick=False)


def test_the_papers_rows_are_those_of_all_eight_models() -> None:
    assert paper()["main"].keys() == paper()["checklist"].keys() == MODELS.keys()
    assert list(paper()["ablation"]) == [*list(EXPERIMENTS)[:5], "scare"]
    assert all(len(grades.split()) == 8 for grades in paper()["checklist"].values())
    assert all(set(grades.split()) <= {"O", "△", "X"} for grades in paper()["checklist"].values())


def test_six_of_the_papers_jitters_are_larger_than_their_mean_and_maximum_allow() -> None:
    def allowed(row: dict[str, float]) -> float:
        return sqrt((row["max_latency"] - row["mean_latency"]) * row["mean_latency"] * 50 / 49)

    impossible = {name for name, row in paper()["main"].items() if row["jitter"] > allowed(row)}
    assert impossible == MODELS.keys() - {"mamba", "sendal"}


def test_a_name_that_ends_in_paper_is_trained_by_the_papers_recipe() -> None:
    assert recipe_of("tesla-paper", 360, 0, {"steps": 5}).settings.batch == 32
    assert recipe_of("tesla", 360, 0, {}).scaling == "standard"
    assert choose(["tesla-paper", "exp-1"]) == ["tesla-paper", "exp-1"]
    assert not {"tesla-paper", "exp-1"} & set(choose(["all"]))


def test_every_city_and_pollutant_has_air_of_its_own_and_the_last_box_is_the_test() -> None:
    source = open_source(tiny(), None)
    splits = [source.split(city, one) for city in City for one in Pollutant]
    first = [split.test[0].targets[:50].tolist() for split in splits]
    assert len({tuple(values) for values in first}) == 9
    assert all(split.test[0].device == "box-03" for split in splits)
    again = source.split(City.ANTWERP, Pollutant.PM10)
    assert again.test[0].frame.equals(splits[0].test[0].frame)
    assert [channel.name for channel in again.train[0].channels] == ["pm10_raw"]


@pytest.fixture
def study(done: Reproduction, tmp_path: Path) -> Study:
    """A study in which no method has been fitted."""
    return replace(next(iter(done.studies.values())), folder=tmp_path)


def write_row(study: Study, job: Job, **found: object) -> None:
    path = study.folder / "rows" / f"{job.key}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"failed": None, **found}), encoding="utf-8")


@pytest.mark.slow
def test_the_rate_with_the_least_error_on_validation_is_kept_for_every_seed(study: Study) -> None:
    protocol = replace(tiny(), rates=(0.001, 0.003, 0.01), seeds=2)
    low, middle, high = rate_trials("tesla-paper", protocol)
    write_row(study, low, validation_rmse=3.0, averaged=[False])
    write_row(study, middle, validation_rmse=2.0, averaged=[True])
    assert best_trial(study, "tesla-paper", protocol) is None
    assert scored_jobs(study, "tesla-paper", protocol) == [high]  # which has no result to score
    write_row(study, high, failed="diverged")
    assert scored_jobs(study, "tesla-paper", protocol) == [middle, replace(middle, seed=1)]
    choice = describe_best_rate(study, "tesla-paper", protocol)
    assert choice == {"rate": 0.003, "means": "1 of 1", "at 0.001": 3.0, "at 0.003": 2.0, "at 0.01": None}
    assert scored_jobs(study, "linear", protocol) == [Job("linear", 15, 0)]


def test_what_failed_at_every_rate_has_a_reason_and_no_further_seeds(study: Study) -> None:
    protocol = replace(tiny(), rates=(0.001, 0.01), seeds=3)
    for job in rate_trials("tesla-paper", protocol):
        write_row(study, job, failed="diverged")
    assert scored_jobs(study, "tesla-paper", protocol) == rate_trials("tesla-paper", protocol)[:1]


def test_places_and_pollutants_of_a_described_data_set_are_not_set() -> None:
    with pytest.raises(
        UsageError, match="--set pollutants: places and pollutants are changed in the data set's description"
    ):
        read_protocol(None, ReadingsKind.DESCRIBED, quick=False, changes={"pollutants": ["PM10"]})
    assert read_protocol(None, ReadingsKind.SENSEURCITY, quick=False, changes={"pollutants": ["PM10"]}).pollutants == (
        "PM10",
    )


def test_what_takes_very_long_has_fewer_seeds_and_rates_from_a_window_length_on() -> None:
    long, short = (
        read_protocol(None, ReadingsKind.DESCRIBED, quick=False, changes={"window": one}) for one in (360, 60)
    )
    assert (long.seeds_of("sendal"), long.rates_of("sendal")) == (1, (0.003,))
    assert (long.seeds_of("exp-1"), long.rates_of("exp-1")) == (3, (0.003,))
    assert (long.seeds_of("tesla"), long.rates_of("tesla")) == (3, long.rates)
    assert (short.seeds_of("exp-1"), short.rates_of("exp-1")) == (3, short.rates)
    assert long.training.endswith(f"fewer seeds or rates: {', '.join(long.fewer)}")
    assert "fewer" not in short.training


def test_every_network_learns_from_as_many_windows() -> None:
    protocol = read_protocol(None, ReadingsKind.DESCRIBED, quick=False)
    recipes = [recipe_of(name, 360, 0, protocol.settings) for name in protocol.main if name in NETWORKS]
    assert {recipe.settings.batch for recipe in recipes} == {32, 64}
    assert {sum(recipe.settings.rounds(1)) * recipe.settings.batch for recipe in recipes} == {480_000}
    assert {(recipe.settings.average, recipe.settings.either) for recipe in recipes} == {(0.995, True)}


def test_rows_are_shared_by_all(done: Reproduction) -> None:
    scored = SharedRows.load(done.study(done.cells[0], done.protocol.adaptability))
    assert {job.method for job in scored.estimates} == {"linear", "raw", "ridge"}
    assert np.isfinite([scored.reference, *(scored.scored(job) for job in scored.estimates)]).all()
    assert 0 < scored.shared.sum() < len(scored.shared)


def test_adaptability_is_the_error_of_the_rows_covered(done: Reproduction) -> None:
    result = make_adaptability(done, quiet)
    rows = result.tables[0].rows
    assert len(rows) == 2 * 2 * 3  # cities, kinds, thresholds
    assert list(result.tables[0].columns)[5:] == ["linear", "raw", "ridge"]
    assert all(0 <= row["coverage"] <= 1 for row in rows)
    scored = SharedRows.load(done.study(done.cells[0], done.protocol.adaptability))
    whole = rmse(scored.of_method("raw")[0] - scored.reference)
    first = next(row for row in rows if row["kind"] == "sudden")
    assert first["coverage"] > 0.95  # whole units of a sensor at one reading a minute
    assert first["raw"] == pytest.approx(whole, rel=0.05)


def test_an_error_around_no_change_is_none_not_a_number_that_json_cannot_hold(done: Reproduction) -> None:
    calm = replace(done, protocol=replace(done.protocol, thresholds=(1e9,)))
    rows = make_adaptability(calm, quiet).tables[0].rows
    assert {(row["coverage"], row["raw"]) for row in rows} == {(0.0, None)}


def test_a_fit_that_failed_is_named_and_takes_its_mean_over_tasks_away(done: Reproduction, tmp_path: Path) -> None:
    broken = replace(done, folder=Path(shutil.copytree(done.folder, tmp_path / "copy")))
    whole = [SharedRows.load(broken.study(cell, ["linear"])) for cell in broken.cells]
    assert all(isinstance(one.value, float) for one in accuracy_findings(whole, "linear"))
    assert broken.failures(["linear", "raw"]) == []
    row = broken.studies[broken.cells[0]].folder / "rows" / "linear-w15-s0.json"
    row.write_text(json.dumps({"failed": "why"}), encoding="utf-8")
    assert broken.failures(["linear", "raw"]) == [f"No score: {'-'.join(broken.cells[0])} linear-w15-s0: why"]
    parts = [SharedRows.load(broken.study(cell, ["linear"])) for cell in broken.cells]
    assert [one.value for one in accuracy_findings(parts, "linear")] == [None, None]


def test_what_has_no_calibrator_has_an_empty_card(done: Reproduction, tmp_path: Path) -> None:
    trees = replace(done, folder=Path(shutil.copytree(done.folder, tmp_path / "copy")))
    study, job = trees.first_job("linear")
    (study.folder / "rows" / f"{job.key}.scare").unlink()
    assert find_cards(trees, ["linear"], quiet)["linear"].entries == ()


def test_another_board_is_measured_anew(done: Reproduction) -> None:
    find_cards(done, ["raw"], quiet)
    before = set((done.folder / "measured").iterdir())
    find_cards(replace(done, protocol=replace(done.protocol, board_name="stm32f4")), ["raw"], quiet)
    (new,) = set((done.folder / "measured").iterdir()) - before
    assert "stm32f4" in new.name
    new.unlink()


def test_the_main_table_is_the_mean_of_the_cities_and_measures_each_model_once(done: Reproduction) -> None:
    result = make_main(done, quiet)
    table, cells, choices = result.tables
    assert not choices.rows  # nothing has a rate
    for row in table.rows:
        own = [cell["rmse"] for cell in cells.rows if cell["method"] == row["method"]]
        assert len(own) == 2
        assert row["PM10"] == pytest.approx(np.mean(own))
        assert 0 < row["mean_latency"] <= row["max_latency"]
        assert row["complexity"] == "N^0.00"  # one reading only
    stamps = {path: path.stat().st_mtime_ns for path in (done.folder / "measured").iterdir()}
    assert len(stamps) == 2
    assert make_main(done, quiet) == result
    assert {path: path.stat().st_mtime_ns for path in (done.folder / "measured").iterdir()} == stamps


def test_nothing_is_fitted_twice_and_other_settings_are_refused(done: Reproduction) -> None:
    assert not list(missing_fits(done, done.protocol.adaptability))
    assert expected_minutes(done, done.protocol.adaptability) == 0
    other = open_stand_in(done.folder, replace(done.protocol, settings={"steps": 7}))
    with pytest.raises(UsageError, match="holds a study of other data or settings"):
        _ = other.studies


def test_a_stand_in_is_told_by_its_tasks_and_calibrators(done: Reproduction) -> None:
    study = done.study(done.cells[0], ["linear"])
    assert json.loads((study.folder / "task.json").read_text(encoding="utf-8"))["facts"] == {"data": STAND_IN}
    calibrator = study.calibrator(study.jobs[0])
    assert calibrator is not None
    assert calibrator.facts["data"] == STAND_IN


def test_what_was_measured_claims_no_form_that_it_has_not(done: Reproduction) -> None:
    find_cards(done, ["raw"], quiet)
    found = next((done.folder / "measured").glob("hardware-*-raw-*.json"))
    assert "schema" not in json.loads(found.read_text(encoding="utf-8"))


def test_a_missing_flatbuffer_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise NotApplicableError("no such operation")

    monkeypatch.setattr(tables, "make_flatbuffer", refuse)
    row = tables._flatbuffer_size("dlinear", 15, Arithmetic.FIXED)
    assert row == {"flatbuffer_bytes": None, "why_no_flatbuffer": "no such operation"}


class Threads:
    """An executor that fits nothing; the last rate of the first method waits until another method has begun."""

    size, shared = 2, False

    def __init__(self, rates: int) -> None:
        self.begun: list[Job] = []
        self.rates, self.pool, self.another = rates, ThreadPoolExecutor(2), Event()

    def submit(self, _: Callable[..., Any], folder: str, described: dict[str, Any], __: object) -> "Future[Any]":
        job = Job(**described)
        self.begun.append(job)
        if job.method != self.begun[0].method:
            self.another.set()
        return self.pool.submit(self.finish, Path(folder), job, len(self.begun) == self.rates)

    def finish(self, folder: Path, job: Job, waits: bool) -> None:
        assert not waits or self.another.wait(30)
        row = {"failed": None, "fit_seconds": 1.0, "validation_rmse": job.rate}
        with replacing(folder / "rows" / f"{job.key}.json") as temporary:  # as a fit does: others read meanwhile
            temporary.write_text(json.dumps(row), encoding="utf-8")

    def lost(self, future: "Future[Any]") -> None:
        future.result()

    def close(self) -> None:
        self.pool.shutdown()


def test_nobody_waits_for_the_last_rate_of_a_method_and_seeds_come_once_it_is_chosen(tmp_path: Path) -> None:
    names = ("dlinear-paper", "nlinear-paper", "tesla-paper")
    protocol = replace(tiny(), main=names, rates=(0.01, 0.001), seeds=3)
    reproduction = open_stand_in(tmp_path, protocol)
    executor = Threads(rates=2 * len(reproduction.cells))
    fit_all(reproduction, names, executor, quiet)
    executor.close()
    assert not list(missing_fits(reproduction, names))
    assert len(executor.begun) == 3 * len(reproduction.cells) * (2 + 2)
    assert {job.rate for job in executor.begun if job.seed} == {0.001}
    first, second, third = dict.fromkeys(job.method for job in executor.begun)
    order = [job.method for job in executor.begun]
    assert order.index(second) < max(at for at, name in enumerate(order) if name == first) < order.index(third)


def test_the_expected_duration_grows_with_what_is_slow(done: Reproduction) -> None:
    quick, slow = expected_seconds(done, "dlinear-paper"), expected_seconds(done, "sendal-paper")
    assert 0 < quick < slow


def test_every_output_says_what_it_was_made_from(done: Reproduction, tmp_path: Path) -> None:
    result = make_adaptability(done, quiet)
    notes = done.notes
    written = write_result(result, tmp_path, {"notes": notes, "protocol": done.protocol.as_dict()})
    assert [path.name for path in written] == ["adaptability.md", "adaptability.json", "adaptability.csv"]
    assert all("SIMULATED" in path.read_text(encoding="utf-8") for path in written)
    facts = json.loads((tmp_path / "adaptability.json").read_text(encoding="utf-8"))
    assert facts["protocol"]["seeds"] == 1
    (figure,) = draw_result(result, tmp_path, notes, with_paper=False)
    assert figure.read_bytes()[:4] == b"\x89PNG"
    assert "SIMULATED" in json.loads((done.folder / "protocol.json").read_text(encoding="utf-8"))["notes"][0]


def test_the_spread_of_a_mean_is_that_of_independent_places_and_none_of_one_seed() -> None:
    def found(rmse: float, seeds: int) -> dict[str, Row]:
        return {"tesla": Row("tesla", 60, seeds, spread=Accuracy(9, rmse, *[0.0] * 6))}

    scores = {("box 1", "PM10"): found(3.0, 3), ("box 2", "PM10"): found(4.0, 3), ("box 1", "PM1"): found(0.0, 1)}
    assert spread_over_places(scores, "PM10", "tesla") == pytest.approx(2.5)
    assert spread_over_places(scores, "PM1", "tesla") is None


def test_the_papers_value_is_in_brackets(done: Reproduction) -> None:
    result = make_main(done, quiet)
    row = {**result.tables[0].rows[0], "PM10": 15.5, "paper_PM10": 14.03}
    table = replace(result.tables[0], rows=[row])
    assert "| 15.5 (14.03) |" in as_markdown(replace(result, tables=(table,)), ["note"])


def test_a_time_is_in_the_unit_in_which_it_is_read(done: Reproduction) -> None:
    result = make_main(done, quiet)
    row = {**result.tables[0].rows[0], "mean_latency": 0.0001569, "paper_mean_latency": 1.31}
    page = as_markdown(replace(result, tables=(replace(result.tables[0], rows=[row]),)), ["note"])
    assert "| mean latency |" in page
    assert "| 0.1569 µs (1.31 ms) |" in page


@pytest.mark.slow
def test_a_network_is_timed_in_jax_beside_c_and_numpy_and_nothing_else_is(done: Reproduction) -> None:
    assert [row["jax_latency"] for row in make_main(done, quiet).tables[0].rows] == [None, None]
    rules = RequirementTable.load()
    rules = replace(rules, protocol=replace(rules.protocol, warm_ups=1, windows=3, rounds=1))
    _, _, (box,) = done.source.split(*done.cells[0]).parts.values()
    box = replace(box, frame=box.frame.rename({"pm10_raw": "pm25"}), channels=(Channel("pm25", "ug/m3"),))
    window = done.protocol.window
    for name in ("scare", "nlinear-paper"):  # one with a fixed basis, one without
        timed = time_in_jax(recipe_of(name, window, 0, {}), draw_method(name, window), [box], rules)
        assert [one.measure for one in timed] == ["latency_mean_jax", "latency_max_jax", "latency_jitter_jax"]
        assert all(isinstance(one.value, float) and one.value > 0 and one.grade is None for one in timed)
    several = recipe_of("scare-3", window, 0, {})
    assert time_in_jax(several, draw_method("scare", window), [box], rules) == []
