"""`scare score` as its users see it: a card, a run, and exit code 4."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest

from scare.data.readings import Channel
from scare.errors import ExitCode
from scare.experiments.study_task import ReadingsFingerprint, Task
from scare.scorecard import card as card_module
from scare.scorecard.card import read_card
from scare.scorecard.requirements import RequirementTable
from scare.scorecard.targets import title
from tests.cli.output import Output, RunCli
from tests.cli.small_tables import colocation, write

FORM = json.loads(Path(card_module.__file__).with_name("scorecard.schema.json").read_text(encoding="utf-8"))
QUICK = "[protocol]\nwarm_ups = 2\nwindows = 10\nrounds = 3\nblocks = 2\nblock_seconds = 0.02\nboard_windows = 60\n"


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path) -> None:
    (tmp_path / "quick.toml").write_text(QUICK)


def entries(output: Output) -> dict[str, dict[str, Any]]:
    return {entry["measure"]: entry for entry in json.loads(output.out)["entries"]}


def write_study(folder: Path, reference: str, rows: list[dict[str, Any]]) -> None:
    """A comparison as far as a card reads it."""
    folder.mkdir()
    test = ReadingsFingerprint("box-01", "", (Channel("pm25"),), Channel(reference), 9, "")
    task = Task("by time", (), {}, {"test": (test,)})
    (folder / "task.json").write_text(json.dumps(asdict(task)))
    (folder / "table.json").write_text(json.dumps(rows))


def test_a_card_has_every_measure_and_the_published_form(scare: RunCli, model: Path, sim: Path) -> None:
    output = scare(f"scare score {model} --data {sim} --thresholds quick.toml --json")
    assert output.code == ExitCode.OK, output.err
    card = json.loads(output.out)
    jsonschema.validate(card, FORM)
    found = entries(output)
    printed = [
        name for name in RequirementTable.load().measures if not name.endswith("_jax")
    ]  # its file has no network
    assert list(found) == printed
    assert found["latency_max"]["value"] >= found["latency_mean"]["value"] > 0
    assert found["ram"]["value"] == card["board"]["ram_bytes"] < card["board"]["ram_available"]
    assert found["exponent"]["value"] is None  # a line is no model of ours
    assert card["board"]["windows"] == 60
    assert card["provenance"]["protocol"]["board_windows"] == 60
    assert 0 < card["dataset"]["rows_scored"] < card["dataset"]["rows"] - card["dataset"]["rows_of_training"]
    assert "rows were used in training; the report shows them, but they are not scored" in output.err


def test_a_run_holds_the_card_and_the_series(scare: RunCli, model: Path, sim: Path, tmp_path: Path) -> None:
    rows = [{"method": "scare", "rmse": 1.5}]
    write_study(tmp_path / "study", "pm25_reference", rows)
    output = scare(f"scare score {model} --data {sim} --board none --thresholds quick.toml --study study --out run")
    assert output.code == ExitCode.OK, output.err
    card = read_card(tmp_path / "run" / "scorecard.json")
    series = pl.read_parquet(tmp_path / "run" / "series.parquet")
    assert card.board is None
    assert list(card.comparison) == rows
    assert (card.grades()["memory"], card.grades()["compatibility"]) == (None, None)
    assert (
        "Not measured: ram, flash, fits_ram, fits_flash, deadline, duty_cycle (no board was asked for)." in output.err
    )
    assert [one["device"] for one in card.devices] == card.dataset["devices"]
    assert sum(one["rows_scored"] for one in card.devices) == card.dataset["rows_scored"]
    assert str(card.model["processing_level"]).startswith("processing level 2B, not an independent measurement")
    assert all(0 < one["uptime"] <= 1 and 0 < one["data_capture"] <= 1 for one in card.devices if one["rows_scored"])
    assert [(one.name, one.pollutant) for one in card.assessments] == [("epa", "PM2.5"), ("cen", "PM2.5")]
    jsonschema.validate(card.as_dict(), FORM)
    assert series.columns[:2] == ["device", "time"]
    assert series.columns[-7:-2] == ["reference", "calibrated", "low", "high", "flags"]
    assert series.height == card.dataset["rows"]
    later = series.filter(
        pl.col("time") > pl.lit(card.dataset["validation_period"][1]).str.to_datetime(time_zone="UTC")
    )
    scored = later.drop_nulls(["reference", "calibrated"])
    assert scored.height == card.dataset["rows_scored"]
    rmse = ((scored["calibrated"] - scored["reference"]) ** 2).mean() ** 0.5  # type: ignore[operator]
    assert card.entries[0].value == pytest.approx(rmse)
    assert f"{rmse:.4g}" in output.out
    assert "Wrote scorecard.json and series.parquet to run." in output.err


def test_a_demand_missed_is_exit_code_4_and_the_run_is_there(scare: RunCli, model: Path, sim: Path) -> None:
    line = f"scare score {model} --data {sim} --board none --thresholds quick.toml"
    output = scare(f"{line} --require rmse=0.001,latency_mean=1000,ram=9 --out run")
    assert output.code == ExitCode.REQUIREMENT_MISSED
    missed = [text for text in output.err.splitlines() if text.startswith("Missed: ")]
    assert len(missed) == 2
    assert "at most 0.001 was required" in missed[0]
    assert missed[1] == "Missed: ram has no value here"
    assert Path("run/scorecard.json").exists()
    assert scare(f"{line} --require rmse=1e9,mean-latency=O").code == ExitCode.OK


def test_integers_are_scored_as_integers(scare: RunCli, model: Path, sim: Path) -> None:
    both = {}
    for arithmetic in ("float32", "fixed"):
        output = scare(f"scare score {model} --data {sim} --thresholds quick.toml --arithmetic {arithmetic} --json")
        assert output.code == ExitCode.OK, output.err
        both[arithmetic] = entries(output)
    plain, whole = both.values()
    assert whole["rmse"]["value"] == pytest.approx(plain["rmse"]["value"], rel=0.2)
    assert whole["rmse"]["value"] != plain["rmse"]["value"]
    assert whole["rmse"]["detail"]["arithmetic"] == "fixed"
    assert whole["ram"]["value"] != plain["ram"]["value"]


def test_a_published_correction_is_scored(scare: RunCli, sim: Path) -> None:
    output = scare(f"scare score barkjohn-2021 --data {sim} --thresholds quick.toml --board rp2040 --json")
    assert output.code == ExitCode.OK, output.err
    card, found = json.loads(output.out), entries(output)
    jsonschema.validate(card, FORM)
    assert (found["exponent"]["value"], found["declared_complexity"]["value"]) == (0.0, "O(1)")
    assert card["provenance"]["model_sha256"] is None
    assert card["dataset"]["rows_of_training"] == 0
    assert found["board_latency_mean"]["value"] is None


def test_what_has_no_integer_form_is_not_supported(scare: RunCli, sim: Path) -> None:
    output = scare(f"scare score nilson-2022 --data {sim} --thresholds quick.toml --arithmetic fixed --json")
    assert output.code == ExitCode.OK, output.err
    card, found = json.loads(output.out), entries(output)
    jsonschema.validate(card, FORM)
    assert (found["supported"]["value"], card["grades"]["compatibility"]) == (0.0, "X")
    assert found["rmse"]["detail"]["arithmetic"] == "float32"
    assert {card["grades"][name] for name in ("mean-latency", "max-latency", "sampling-jitter")} == {"X"}
    assert (found["latency_mean"]["value"], found["latency_mean"]["grade"]) == (None, "X")
    assert "float32 only" in found["latency_mean"]["detail"]["reason"]
    assert "Not measured: latency_mean, latency_max, latency_jitter (" in output.err


def test_a_board_of_unknown_cycles_is_not_said_to_be_compatible(scare: RunCli, model: Path, sim: Path) -> None:
    line = f"scare score {model} --data {sim} --thresholds quick.toml --board esp8266"
    output = scare(f"{line} --require compatibility=O")
    assert output.code == ExitCode.REQUIREMENT_MISSED
    assert "compatibility is not graded, not O" in output.err
    assert "deadline, duty_cycle (cycles are not known on esp8266" in output.err


def test_few_rows_are_told_of(scare: RunCli, model: Path, sim: Path) -> None:
    table = pl.read_parquet(sim)
    table.filter(pl.col("device") == "box-01").write_parquet("one.parquet")
    line = f"scare score {model} --board none --thresholds quick.toml --data"
    assert "rows were scored, too few for reliable accuracy" in scare(f"{line} one.parquet").err
    assert "too few" not in scare(f"{line} {sim}").err


def test_simulated_readings_are_compared_as_they_are_because_their_units_are_known(
    scare: RunCli, model: Path, sim: Path
) -> None:
    output = scare(f"scare score {model} --data {sim} --board none --thresholds quick.toml --json")
    card = json.loads(output.out)
    assert card["target"] == {"name": "pm25_reference", "unit": "ug/m3"}
    assert card["entries"][0]["detail"]["raw_rmse"] > card["entries"][0]["value"]
    assert title(Channel(card["target"]["name"])) == "PM2.5"
    assert "guessed --time time --device-column device" in output.err
    assert "--reference" not in output.err


def test_several_tables_of_other_columns(scare: RunCli, tmp_path: Path) -> None:
    """A glob after --data; columns renamed since the training; readings finer than the model's step."""
    for box in (1, 2):
        write(colocation(seed=box), f"box{box}.csv")
    line = "--time date --channels NO2,T --reference Ref.NO2"
    assert scare(f"scare train box1.csv box2.csv {line} --window 8 --out m.scare").code == ExitCode.OK
    for box in (3, 4):
        write(colocation(600, seed=box, step_seconds=30.0).rename({"Ref.NO2": "station"}), f"box{box}.csv")
    score = "scare score m.scare --data box3.csv box4.csv --time date --board none --thresholds quick.toml --json"
    assert scare(score).code == ExitCode.DATA  # no column Ref.NO2
    output = scare(f"{score} --reference station")
    assert output.code == ExitCode.OK, output.err
    dataset = json.loads(output.out)["dataset"]
    assert (dataset["devices"], dataset["step_seconds"], dataset["rows"]) == (
        ["box3", "box4"],
        60.0,
        602,
    )  # the first row a mean of its own
    assert [one["file"] for one in json.loads(output.out)["provenance"]["data"]] == ["box3.csv", "box4.csv"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("--require rsme=5", ExitCode.USAGE, "did you mean 'rmse'"),
        ("--thresholds none.toml", ExitCode.USAGE, "cannot read none.toml"),
        ("--board nano33", ExitCode.USAGE, "did you mean 'nano33ble'"),
        ("--study nowhere", ExitCode.DATA, "scare compare … --out nowhere"),
        ("--reference none", ExitCode.DATA, "none"),
        ("--out quick.toml", ExitCode.USAGE, "quick.toml is not a folder"),
    ],
)
def test_a_wrong_option_is_refused(
    scare: RunCli, model: Path, sim: Path, options: str, code: ExitCode, message: str
) -> None:
    quick = "" if "thresholds" in options else "--thresholds quick.toml"
    output = scare(f"scare score {model} --data {sim} {quick} {options}")
    assert output.code == code, output.err
    assert message in output.err


def test_a_study_for_another_reference_is_refused(scare: RunCli, model: Path, sim: Path, tmp_path: Path) -> None:
    write_study(tmp_path / "study", "Ref.NO2", [])
    output = scare(f"scare score {model} --data {sim} --thresholds quick.toml --study study")
    assert output.code == ExitCode.DATA
    assert "study compares methods for Ref.NO2, not for pm25_reference" in output.err


def test_a_config_tells_the_unit_that_the_file_does_not_know(scare: RunCli, sim: Path) -> None:
    pl.read_parquet(sim).rename({"pm25_reference": "reference"}).write_parquet("plain.parquet")
    assert scare("scare train plain.parquet --window 8 --out plain.scare").code == ExitCode.OK
    output = scare("scare inspect plain.parquet --json")
    config = json.loads(output.out)["config"].replace('name = "reference"\n', 'name = "reference"\nunit = "ug/m3"\n')
    Path("plain.toml").write_text(config)
    line = "scare score plain.scare --data plain.parquet --board none --thresholds quick.toml --json"
    assert json.loads(scare(line).out)["entries"][0]["detail"]["raw_rmse"] is None
    output = scare(f"{line} --config plain.toml")
    assert output.code == ExitCode.OK, output.err
    card = json.loads(output.out)
    assert (card["target"]["unit"], card["entries"][0]["unit"]) == ("ug/m3", "ug/m3")
    assert card["entries"][0]["detail"]["raw_rmse"] > 0


def test_card_and_report_say_who_was_left_out_of_the_training(scare: RunCli, sim: Path) -> None:
    dead = pl.when(pl.col("device") == "box-02").then(None).otherwise("humidity").alias("humidity")
    pl.read_parquet(sim).with_columns(dead).write_parquet("fleet.parquet")
    assert scare("scare train fleet.parquet --window 8 --out m.scare").code == ExitCode.OK
    output = scare("scare score m.scare --data fleet.parquet --board none --thresholds quick.toml --out run --json")
    assert output.code == ExitCode.OK, output.err
    card = json.loads(output.out)
    jsonschema.validate(card, FORM)
    (sentence,) = card["model"]["left_out"]
    assert sentence.startswith("box-02 is left out: humidity has no usable value")
    assert scare("scare report run").code == ExitCode.OK
    assert sentence in Path("run/report.html").read_text(encoding="utf-8")


def test_a_device_of_another_name_is_new_and_said_to_be(scare: RunCli, model: Path, sim: Path) -> None:
    other = pl.read_parquet(sim).filter(pl.col("device") == "box-01").with_columns(device=pl.lit("late"))
    other.write_parquet("late.parquet")
    output = scare(f"scare score {model} --data late.parquet --thresholds quick.toml --board none")
    assert output.code == ExitCode.OK, output.err
    assert "were not in training or validation: late" in output.err


def test_rows_of_the_training_alone_are_refused(scare: RunCli, model: Path, sim: Path) -> None:
    first = pl.read_parquet(sim).group_by("device", maintain_order=True).head(60)
    first.write_parquet("first.parquet")
    output = scare(f"scare score {model} --data first.parquet --thresholds quick.toml --board none")
    assert output.code == ExitCode.DATA
    assert "the calibrator was trained on all of these rows; score it on others" in output.err
