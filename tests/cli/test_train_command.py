"""`scare train`: the lines people type, and what becomes of their tables."""

import json
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from scare import Calibrator
from scare.calibrator.model_card import selection_table
from scare.cli.train import require_training
from scare.words import duration
from tests.calibrator.test_model_card import FACTS, SUMMARY
from tests.cli.output import Output, RunCli
from tests.cli.small_tables import CHANNELS, colocation, write

COLUMNS = f"--time date {CHANNELS} --reference Ref.NO2"


def trained(output: Output, path: str = "no2.scare") -> Calibrator:
    assert output.code == 0, output.err
    return Calibrator.load(path)


@pytest.fixture
def boxes() -> list[str]:
    """Three boxes side by side, a file each."""
    names = [f"box{number}.csv" for number in (1, 2, 3)]
    for seed, name in enumerate(names):
        write(colocation(600, seed), name)
    return names


@pytest.fixture
def fleet() -> str:
    """The three boxes in one long file, interleaved, with their sites."""
    parts = [
        colocation(600, seed).with_columns(box=pl.lit(f"b{seed}"), site=pl.lit(f"site {seed // 2}"))
        for seed in range(5)
    ]
    write(pl.concat(parts).sort("date", maintain_order=True), "fleet.csv")
    return "fleet.csv"


def test_a_floor_is_stated_and_no_value_is_below_it(scare: RunCli, boxes: list[str]) -> None:
    line = f"scare train box1.csv {COLUMNS} --window 8 --out no2.scare"
    assert trained(scare(line)).floor is None
    floored = trained(scare(f"{line} --floor 30"))
    assert floored.floor == 30
    assert "no value is below 30" in scare("scare info no2.scare").out
    assert scare("scare predict no2.scare box1.csv --out out.parquet").code == 0
    frame = pl.read_parquet("out.parquet")
    assert frame["calibrated"].min() == frame["low"].min() == 30
    assert "model.floor is 'sea'; it takes a number" in scare(f"{line} --set model.floor=sea").err


def test_the_model_selection_is_shown_at_the_end_and_in_json(
    scare: RunCli, boxes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(*given: Any) -> Any:
        evaluation = evaluate(*given)
        return replace(evaluation, calibrator=evaluation.calibrator.with_facts(**FACTS))

    evaluate = require_training().evaluate
    monkeypatch.setattr(require_training(), "evaluate", judged)
    line = f"scare train box1.csv {COLUMNS} --window 8 --out no2.scare"
    output = scare(line)
    assert SUMMARY in output.out
    assert all(cells[0] in output.out for cells in selection_table(FACTS))
    assert json.loads(scare(f"{line} --json").out)["facts"]["selection"] == FACTS["selection"]
    assert SUMMARY in scare("scare info no2.scare").out


# --- tables ---


def test_how_sure_it_is_is_said_and_kept(scare: RunCli, boxes: list[str]) -> None:
    output = scare(f"scare train {' '.join(boxes)} {COLUMNS} --window 8 --out no2.scare")
    found = trained(output).facts["test_interval"]
    assert found["level"] == 0.9
    assert 0.5 < found["share"] <= 1
    assert found["width"] > 0
    assert f"of {found['rows']:,} test rows and is" in output.err
    assert "The 90 % interval was made at fit" in scare("scare info no2.scare").out
    assert json.loads(scare("scare info no2.scare --json").out)["intervals"]["origin"] == "made at fit"


@pytest.mark.slow
def test_further_baselines_stand_beside_it_and_a_program_is_told_how_far_it_is(
    scare: RunCli, boxes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCARE_PROGRESS", "json")
    line = f"scare train {' '.join(boxes)} {COLUMNS} --window 8 --out no2.scare --json --set"
    output = scare(f'{line} \'compare.beside=["ridge", "persistence"]\'')
    scores = json.loads(output.out)["scores"]
    assert list(scores)[:-1] == ["raw", "linear", "linear, all", "ridge", "persistence"]
    assert len({score["rows"] for score in scores.values()}) == 1
    printed = [json.loads(text) for text in output.err.splitlines() if text.startswith("{")]
    assert [one["completed"] for one in printed] == [one["state"]["round"] for one in printed] == [1, 2, 3, 4]
    assert all(one["state"]["validation_rmse"] > 0 for one in printed)
    refused = scare(f"{line} 'compare.beside=[\"rigde\"]'")
    assert "compare.beside: there is no baseline 'rigde'; did you mean 'ridge'?" in refused.err
    assert refused.code == 2


def test_several_files_are_several_devices(scare: RunCli, boxes: list[str]) -> None:
    line = "scare train box1.csv box2.csv box3.csv --time date --channels NO2,OX,T,RH --reference Ref.NO2 --split time"
    model = trained(scare(f"{line} --window 60 --out no2.scare"))
    assert model.facts["devices"] == ["box1", "box2", "box3"]
    assert [channel.name for channel in model.inputs.channels] == ["NO2", "OX", "T", "RH"]
    assert (model.target.name, model.window) == ("Ref.NO2", 60)
    assert model.facts["split"].startswith("by time")


def test_a_column_tells_the_devices_of_a_long_file_apart(scare: RunCli, fleet: str) -> None:
    model = trained(scare(f"scare train {fleet} {COLUMNS} --device-column box --window 8 --out no2.scare"))
    assert model.facts["devices"] == ["b0", "b1", "b2", "b3", "b4"]


def test_what_is_not_said_is_guessed_and_announced(scare: RunCli, fleet: str) -> None:
    output = scare(f"scare train {fleet} --window 8 --out no2.scare")
    assert trained(output).facts["devices"] == ["b0", "b1", "b2", "b3", "b4"]
    assert f'fleet.csv: guessed {COLUMNS} --device-column box, data.site_column = "site"\n' in output.err


def test_the_config_of_inspect_trains_as_the_guess_does(scare: RunCli, boxes: list[str]) -> None:
    assert scare("scare inspect box1.csv --out box.toml").code == 0
    trained(scare("scare train box1.csv --config box.toml --window 8 --out a.scare"), "a.scare")
    trained(scare("scare train box1.csv --window 8 --out b.scare"), "b.scare")
    assert Path("a.scare").read_bytes() == Path("b.scare").read_bytes()


def test_an_option_wins_over_the_config_and_a_channel_keeps_its_unit(scare: RunCli, boxes: list[str]) -> None:
    Path("box.toml").write_text(
        "[data]\ntime = 'date'\nreference = 'Ref.NO2'\nchannels = ['OX', {name = 'NO2', unit = 'ppb'}]\n"
        "[split]\nby = 'device'\n[model]\nwindow = 20\n[training]\nsteps = 30\nseed = 3\n"
    )
    line = "scare train box1.csv --config box.toml --channels NO2,T --split time --window 8 --steps 20 --out no2.scare"
    model = trained(scare(line))
    assert [(channel.name, channel.unit) for channel in model.inputs.channels] == [("NO2", "ppb"), ("T", "")]
    assert (model.window, model.facts["split"][:7], model.facts["preset"]) == (8, "by time", "default+box")
    assert (model.facts["settings"]["steps"], model.facts["settings"]["seed"]) == (20, 3)


def test_columns_that_the_config_does_not_name_are_guessed(scare: RunCli, boxes: list[str]) -> None:
    Path("box.toml").write_text("[data]\nchannels = ['NO2', 'T']\n")
    output = scare("scare train box1.csv --config box.toml --window 8 --out no2.scare")
    assert "box1.csv: guessed --time date --reference Ref.NO2\n" in output.err
    assert trained(output).facts["preset"] == "default"


def test_sort_puts_rows_in_order_and_drops_repeated_times(scare: RunCli, boxes: list[str]) -> None:
    frame = colocation(600, seed=0)
    shuffled = frame.sample(fraction=1, shuffle=True, seed=1)
    write(pl.concat([shuffled, shuffled[:20]]), "shuffled.csv")
    write(frame, "in_order.csv")
    Path("sort.toml").write_text("[data]\nsort = true\n")
    for name in ("shuffled", "in_order"):
        line = f"scare train {name}.csv {COLUMNS} --config sort.toml --window 8 --out {name}.scare"
        trained(scare(line), f"{name}.scare")
    shuffled_facts, facts = (Calibrator.load(f"{name}.scare").facts for name in ("shuffled", "in_order"))
    assert shuffled_facts["training_data_sha256"] == facts["training_data_sha256"]


def test_a_step_averages_first(scare: RunCli, boxes: list[str]) -> None:
    Path("step.toml").write_text("[data]\nstep = 300\n")
    model = trained(scare(f"scare train {' '.join(boxes)} {COLUMNS} --config step.toml --window 4 --out no2.scare"))
    assert model.inputs.step_seconds == 300


def test_a_changing_step_can_be_averaged(scare: RunCli) -> None:
    fine, coarse = colocation(1200), colocation(300, seed=1, step_seconds=600)
    write(pl.concat([fine, coarse.with_columns(pl.col("date") + timedelta(hours=21))]), "box.csv")
    assert scare(f"scare train box.csv {COLUMNS} --window 4 --out no2.scare").code == 3
    Path("step.toml").write_text("[data]\nstep = 600\n")
    model = trained(scare(f"scare train box.csv {COLUMNS} --config step.toml --window 4 --out no2.scare"))
    assert model.inputs.step_seconds == 600


def test_a_reference_that_means_no_reading_is_missing(scare: RunCli) -> None:
    frame = colocation(600)
    write(
        frame.with_columns(pl.when(pl.int_range(600) % 10 == 3).then(-999.0).otherwise("Ref.NO2").alias("Ref.NO2")),
        "a.csv",
    )
    write(frame.with_columns(pl.when(pl.int_range(600) % 10 != 3).then("Ref.NO2").alias("Ref.NO2")), "b.csv")
    output = scare(f"scare train a.csv {COLUMNS} --window 8 --out a.scare --json")
    assert "a: 60 values of Ref.NO2 stand for 'no reading' and count as missing" in output.err
    gaps = scare(f"scare train b.csv {COLUMNS} --window 8 --out b.scare --json")
    scores = [json.loads(one.out)["scores"] for one in (output, gaps)]
    assert scores[0] == scores[1]
    assert scores[0]["linear"]["rmse"] < 1


# --- a reference in a table of its own ---


@pytest.fixture
def apart() -> float:
    """A sensor whose clock is 20 minutes ahead of the station's; the shift that puts it right."""
    frame = colocation(900)
    write(frame.drop("Ref.NO2").with_columns(pl.col("date") + timedelta(minutes=20)), "sensor.csv")
    write(frame.select("date", "Ref.NO2"), "station.csv")
    return -1200.0


APART = f"scare train sensor.csv --time date {CHANNELS} --reference-file station.csv --window 8 --out no2.scare"


def test_a_reference_file_is_joined_and_the_clock_offset_reported(scare: RunCli, apart: float) -> None:
    output = scare(f"{APART} --reference Ref.NO2")
    assert trained(output).target.name == "Ref.NO2"
    shift = f"with the sensor shifted by {duration(apart, signed=True)}"
    assert f"sensor: correlation 1.000 {shift}, 0.901 as it is" in output.err
    assert "15 hours are too short to tell that a clock is wrong" in output.err
    assert "sensor: shifted" not in output.err


def test_the_clock_offset_is_applied_when_asked(scare: RunCli, apart: float) -> None:
    as_is = json.loads(scare(f"{APART} --reference Ref.NO2 --json").out)["scores"]["linear"]["rmse"]
    Path("shift.toml").write_text("[data]\napply_offset = true\n")
    output = scare(f"{APART} --reference Ref.NO2 --config shift.toml --json")
    assert f"sensor: shifted by {duration(apart, signed=True)}" in output.err
    assert json.loads(output.out)["scores"]["linear"]["rmse"] < as_is / 3


def test_the_only_column_of_a_reference_file_needs_no_name(scare: RunCli, apart: float) -> None:
    output = scare(APART)
    assert "station.csv: guessed --reference Ref.NO2" in output.err
    assert trained(output).target.name == "Ref.NO2"


def test_a_reference_file_wins_over_a_reference_in_the_table(scare: RunCli) -> None:
    frame = colocation(600)
    write(frame, "sensor.csv")
    write(frame.select("date", pl.col("Ref.NO2").alias("NO2_station")), "station.csv")
    output = scare("scare train sensor.csv --reference-file station.csv --window 8 --out no2.scare")
    assert trained(output).target.name == "NO2_station"
    assert [channel.name for channel in Calibrator.load("no2.scare").inputs.channels] == ["NO2", "OX", "T", "RH"]


# --- dead boxes ---

DEAD = "box4 is left out: OX has no usable value; use --channels NO2,T,RH to leave it out"


@pytest.fixture
def dead_box(boxes: list[str]) -> list[str]:
    """The three boxes, and a fourth whose OX column is empty."""
    write(colocation(600, 3).with_columns(pl.lit(None).alias("OX")), "box4.csv")
    return [*boxes, "box4.csv"]


@pytest.mark.parametrize("split", ["time", "device"])
def test_a_dead_box_is_left_out_by_name_and_changes_nothing_else(
    scare: RunCli, dead_box: list[str], split: str
) -> None:
    options = f"{COLUMNS} --split {split} --window 8 --json"
    output = scare(f"scare train {' '.join(dead_box)} {options} --out dead.scare")
    assert DEAD in output.err
    facts = json.loads(output.out)["facts"]
    assert facts.pop("left_out") == [DEAD]
    assert facts == json.loads(scare(f"scare train {' '.join(dead_box[:3])} {options} --out alive.scare").out)["facts"]
    assert f"left out: {DEAD}" in scare("scare info dead.scare").out


def test_a_box_that_dies_before_the_test_is_not_tested(scare: RunCli, boxes: list[str]) -> None:
    died = pl.when(pl.int_range(600) < 400).then("OX").otherwise(-999.0).alias("OX")
    write(colocation(600, 3).with_columns(died), "box4.csv")
    output = scare(f"scare train {' '.join(boxes)} box4.csv {COLUMNS} --window 8 --out no2.scare")
    assert trained(output).facts["devices"] == ["box1", "box2", "box3", "box4"]
    assert "box4 is left out: OX has no usable value in test; use --channels NO2,T,RH to leave it out" in output.err


def test_a_channel_dead_on_most_boxes_is_named_with_the_option_that_leaves_it_out(
    scare: RunCli, boxes: list[str]
) -> None:
    for seed, name in enumerate(boxes[1:], start=1):
        write(colocation(600, seed).with_columns(pl.lit(-999.0).alias("T")), name)
    output = scare(f"scare train {' '.join(boxes)} {COLUMNS} --window 8 --out no2.scare")
    assert trained(output).facts["devices"] == ["box1"]
    assert "T has no usable value on 2 of 3 devices; use --channels NO2,OX,RH to leave it out" in output.err
    again = COLUMNS.replace("NO2,OX,T,RH", "NO2,OX,RH")
    assert (
        len(trained(scare(f"scare train {' '.join(boxes)} {again} --window 8 --out no2.scare")).facts["devices"]) == 3
    )


def test_a_dead_box_beside_a_reference_file_is_left_out(scare: RunCli, apart: float) -> None:
    pl.read_csv("sensor.csv").with_columns(pl.lit(None).alias("NO2")).write_csv("dead.csv")
    output = scare(APART.replace("sensor.csv", "sensor.csv dead.csv"))
    assert trained(output).facts["devices"] == ["sensor"]
    assert "dead is left out: NO2 has no usable value; check it with 'scare inspect'" in output.err


# --- splits ---


def test_a_split_by_device_tests_on_a_device_never_seen(scare: RunCli, boxes: list[str]) -> None:
    output = scare(f"scare train {' '.join(boxes)} {COLUMNS} --split device --window 8 --out no2.scare")
    assert trained(output).facts["split"] == "by device: train box1; validation box2; test box3"
    assert Calibrator.load("no2.scare").facts["devices"] == ["box1"]


def test_devices_that_share_a_reference_are_noted(scare: RunCli, sim: Path) -> None:
    output = scare(f"scare train {sim} --split device --window 8 --out no2.scare")
    assert output.code == 0
    assert "scores show how a new device does, not a new period" in output.err


def test_a_split_by_site_keeps_sites_apart(scare: RunCli, fleet: str) -> None:
    Path("site.toml").write_text("[data]\nsite_column = 'site'\n")
    line = f"scare train {fleet} {COLUMNS} --device-column box --config site.toml --split site --window 8"
    assert trained(scare(f"{line} --out no2.scare")).facts["split"] == (
        "by site: train site 0; validation site 1; test site 2"
    )


def test_borders_are_where_validation_and_test_begin(scare: RunCli, boxes: list[str]) -> None:
    Path("split.toml").write_text("[split]\nborders = [2026-01-01T04:00:00, '2026-01-01 06:00']\n")  # a time or text
    line = f"scare train box1.csv {COLUMNS} --config split.toml --window 8 --out no2.scare"
    split = trained(scare(line)).facts["split"]
    assert "borders 2026-01-01 04:00:00 and 2026-01-01 06:00:00" in split


# --- settings ---


def test_settings_travel_into_the_calibrator(scare: RunCli, boxes: list[str]) -> None:
    Path("c.toml").write_text(
        "[training]\nepochs = 2\nbatch = 32\nrate = 0.01\nseed = 7\n"
        "[model]\ngap_policy = 'strict'\nscaling = 'robust'\n"
    )
    model = trained(scare(f"scare train box1.csv {COLUMNS} --window 8 --config c.toml --out no2.scare"))
    settings = {name: model.facts["settings"][name] for name in ("epochs", "batch", "rate", "seed")}
    assert settings == {"epochs": 2, "batch": 32, "rate": 0.01, "seed": 7}
    assert (model.inputs.policy.name, model.inputs.scaling.method) == ("strict", "robust")


@pytest.mark.parametrize(
    ("kind", "method", "scales"), [("device", "standard", 3), ("pooled", "standard", 1), ("constant", "constant", 1)]
)
def test_scaling_is_per_device_pooled_or_constant(
    scare: RunCli, boxes: list[str], kind: str, method: str, scales: int
) -> None:
    Path("c.toml").write_text(f"[model]\nscaling = '{kind}'\n")
    line = f"scare train {' '.join(boxes)} {COLUMNS} --window 8 --config c.toml --out no2.scare"
    scaling = trained(scare(line)).inputs.scaling
    found = {(scaling.known(f"box{number}") or scaling.fleet).scale.tobytes() for number in (1, 2, 3)}
    assert (scaling.method, len(found)) == (method, scales)


def test_the_scores_are_those_of_the_file(scare: RunCli, boxes: list[str]) -> None:
    output = scare(f"scare train {' '.join(boxes)} {COLUMNS} --window 8 --out no2.scare --json")
    result = json.loads(output.out)
    assert result["file"] == "no2.scare"
    assert result["scores"] == trained(output).facts["test_scores"]
    assert len({score["rows"] for score in result["scores"].values()}) == 1
    assert np.isfinite([score["rmse"] for score in result["scores"].values()]).all()


def test_training_without_its_packages_says_what_to_install(
    scare: RunCli, boxes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scare.extras.is_installed", lambda package: package != "jax")
    output = scare(f"scare train box1.csv {COLUMNS} --out no2.scare")
    assert output.code == 2
    assert "pip install '.[train]'" in output.err
    assert not Path("no2.scare").exists()


@pytest.mark.slow
def test_the_window_follows_the_data_unless_given(scare: RunCli, boxes: list[str]) -> None:
    line = f"scare train {' '.join(boxes)} {COLUMNS} --out no2.scare"
    assert trained(scare(line)).window == 22  # a quarter of 90 minutes of validation
    assert trained(scare(f"{line} --window 30")).window == 30
    assert trained(scare(f"{line} --window 30min")).window == 30


def test_a_rival_is_trained_by_its_name(scare: RunCli, boxes: list[str]) -> None:
    output = scare(f"scare train {' '.join(boxes)} {COLUMNS} --model nlinear --window 8 --steps 20 --out no2.scare")
    assert trained(output).facts["model"] == "nlinear"
    assert "nlinear (default)" in output.out


def test_what_jax_compiles_is_kept_unless_the_user_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCARE_CACHE", str(tmp_path))
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.setenv(name, "")  # so that what is set below is undone
        monkeypatch.delenv(name)
    require_training()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "jax")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    require_training()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "elsewhere"


def test_two_weeks_of_two_minutes_beside_an_hourly_reference_train_with_no_option(scare: RunCli) -> None:
    minutes = np.arange(0, 13 * 24 * 60, 2)
    air = 12 + 6 * np.sin(2 * np.pi * minutes / 1440) + 3 * np.sin(2 * np.pi * minutes / 5000)
    times = pl.Series("time", np.datetime64("2026-03-01T00:02", "ms") + 60_000 * minutes)
    pl.DataFrame([times, pl.Series("pm25", 1.6 * air + np.cos(minutes))]).write_csv("box.csv")
    hours = pl.Series("time", times.to_numpy()[29::30])
    pl.DataFrame([hours, pl.Series("PM2.5", air.reshape(-1, 30).mean(axis=1))]).write_csv("station.csv")
    line = "scare train box.csv --reference-file station.csv --steps 20 --out m.scare"
    output = scare(line)
    assert output.code == 0, output.err
    assert "rows up to 11 hours after each only fill windows" in output.err
    assert Calibrator.load("m.scare").inputs.step_seconds == 3600
    refused = scare(f"{line} --window 60h")
    assert refused.code == 3
    assert "use --window 23h, or 21 more days" in refused.err
