"""Every command: help with examples, JSON alone on stdout, the file that was asked for, the same bytes again."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from scare import Calibrator, __version__
from scare.errors import ExitCode
from tests.cli.output import RunCli
from tests.cli.small_tables import colocation, write
from tests.data.column_mappings import read_mapping

EXIT_CODES = Path(__file__).parents[2] / "docs" / "exit-codes.md"
COMMANDS = ["inspect", "simulate", "train", "predict", "info", "demo", "data senseurcity"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_shows_examples(scare: RunCli, command: str) -> None:
    output = scare(f"scare {command} --help")
    assert output.code == 0
    assert f"scare {command}" in output.out.split("Examples:")[1]
    assert output.err == ""


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_the_help_fits_a_terminal(scare: RunCli, command: str) -> None:
    output = scare(f"scare {command} --help")
    assert max(map(len, output.out.splitlines())) <= 80


def test_the_help_lists_the_commands(scare: RunCli) -> None:
    output = scare("scare --help")
    for command in COMMANDS:
        assert command.split()[0] in output.out


def test_without_a_sub_command_the_help_is_shown(scare: RunCli) -> None:
    output = scare("scare data")
    assert "Commands" in output.out
    assert (output.code, output.err) == (2, "")


def test_alone_it_prints_the_usual_steps_in_order(scare: RunCli, sim: Path) -> None:
    output = scare("scare")
    assert (output.code, output.err) == (0, "")
    assert max(map(len, output.out.splitlines())) <= 80
    lines = [line.strip() for line in output.out.splitlines() if line.startswith("  ")]
    assert [line.split()[1] for line in lines] == ["inspect", "train", "predict", "export", "verify", "score"]
    pl.read_parquet(sim).write_csv("box.csv")
    shutil.copy("box.csv", "raw.csv")
    for line in lines[:4]:  # the others take a board
        assert scare(line.split("  ")[0]).code == 0


@pytest.mark.parametrize("command", ["train", "tune", "compare"])
def test_the_help_has_few_options_in_panels(scare: RunCli, command: str) -> None:
    output = scare(f"scare {command} --help")
    options = re.findall(r"^│ \*? *(--[a-z-]+)", output.out, re.MULTILINE)
    assert 8 < len(options) - 1 <= 12  # but for --help
    assert "--config" in options
    for panel in ("Data", "Model", "Output"):
        assert f"─ {panel} ─" in output.out


def test_the_version_is_printed(scare: RunCli) -> None:
    assert scare("scare --version").out.strip() == __version__


@pytest.mark.parametrize(
    ("line", "key", "out"),
    [
        ("scare inspect {sim} --json", "config", ""),
        ("scare inspect {sim} --json --out box.toml", "config", "box.toml"),
        ("scare simulate --days 0.1 --out sim.csv --json", "seed", "sim.csv"),
        ("scare simulate --days 0.1 --kind linear --out sim.csv --json", "best_achievable_rmse", "sim.csv"),
        ("scare train {sim} --window 8 --out m.scare --json", "scores", "m.scare"),
        ("scare predict {model} {sim} --out c.csv --json", "flags", "c.csv"),
        ("scare info {model} --json", "cost", ""),
        ("scare info {model} --json --out card.md", "cost", "card.md"),
        ("scare demo --boxes 3 --days 0.3 --out demo --json", "page", "demo/demo.html"),
    ],
)
def test_json_is_all_there_is_on_stdout(
    scare: RunCli, sim: Path, model: Path, tmp_path: Path, line: str, key: str, out: str
) -> None:
    output = scare(line.format(sim=sim, model=model))
    assert output.code == 0, output.err
    assert key in json.loads(output.out)
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    files -= {"c.csv-metadata.json"}  # what a table says of itself is beside it
    assert files == {out} - {""} if "demo" not in line else files > {out}


def test_what_is_not_a_result_goes_to_stderr(scare: RunCli, sim: Path) -> None:
    output = scare(f"scare train {sim} --window 8 --out m.scare")
    assert "RMSE" in output.out
    assert "guessed --time time --channels pm25_raw,temperature,humidity --reference pm25_reference" in output.err
    given = scare(f"scare train {sim} --window 8 --reference pm25_reference --out m.scare")
    assert "guessed --time time --channels pm25_raw,temperature,humidity --device-column device\n" in given.err
    assert "flagged rows" in output.err
    assert "Split by time" in output.err
    assert "Wrote the calibrator to m.scare." in output.err
    assert "Wrote" not in output.out


def test_a_number_json_does_not_have_is_null(scare: RunCli) -> None:
    write(colocation(rows=1), "box.csv")
    assert json.loads(scare("scare inspect box.csv --json").out)["step_seconds"] is None


# --- one by one ---


def test_inspect_writes_the_config_it_prints(scare: RunCli) -> None:
    write(colocation(), "box.csv")
    output = scare("scare inspect box.csv --out box.toml")
    text = Path("box.toml").read_text()
    assert text in output.out
    mapping = read_mapping("box.toml")
    assert [channel.name for channel in mapping.channels] == ["NO2", "OX", "T", "RH"]
    assert mapping.reference is not None
    assert mapping.reference.name == "Ref.NO2"


def test_inspect_says_what_is_wrong_with_the_rows(scare: RunCli) -> None:
    frame = colocation().with_columns(pl.when(pl.int_range(300) % 50 == 0).then(-999.0).otherwise("OX").alias("OX"))
    write(pl.concat([frame[:100], frame[99:150], frame[200:]]), "box.csv")
    facts = json.loads(scare("scare inspect box.csv --json").out)
    assert (facts["rows"], facts["duplicates"], facts["gaps"], facts["longest_gap"]) == (251, 1, 1, "0:51:00")
    assert [column["sentinels"] for column in facts["columns"] if column["name"] == "OX"] == [[-999.0]]


def test_a_table_of_columns_fits_a_terminal(scare: RunCli, sim: Path) -> None:
    output = scare(f"scare inspect {sim}")
    assert "temperature" in output.out
    assert max(map(len, output.out.splitlines())) <= 80


@pytest.mark.parametrize("name", ["PM [ug/m3]", "PM [/b]", "PM :smile:", "[red]PM"])
def test_a_name_is_printed_as_it_is(scare: RunCli, name: str) -> None:
    write(colocation(rows=50).rename({"NO2": name, "OX": f"{name} 2"}), "box.csv")
    output = scare("scare inspect box.csv")
    assert output.code == 0, output.err
    assert output.out.count(f"{name} ") >= 2
    assert f"guessed --time date --channels '{name},{name} 2,T,RH'" in scare("scare train box.csv").err
    assert f"no column '{name}x'; did you mean '{name}'?" in scare(f"scare train box.csv --reference '{name}x'").err


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_the_same_seed_simulates_the_same_bytes(scare: RunCli, suffix: str) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert scare(f"scare simulate --boxes 2 --days 0.2 --seed {seed} --out {name}.{suffix}").code == 0
    first, again, other = (Path(f"{name}.{suffix}").read_bytes() for name in "abc")
    assert first == again
    assert first != other


def test_the_same_seed_trains_the_same_bytes(scare: RunCli, sim: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        Path("seed.toml").write_text(f"[training]\nseed = {seed}\n")
        assert scare(f"scare train {sim} --window 8 --config seed.toml --out {name}.scare").code == 0
    first, again, other = (Path(f"{name}.scare").read_bytes() for name in "abc")
    assert first == again
    assert first != other


def test_info_tells_inputs_origin_scores_and_cost(scare: RunCli, model: Path) -> None:
    output = scare(f"scare info {model} --out card.md")
    card = Path("card.md").read_text()
    assert card in output.out
    for word in (
        "pm25_raw [µg/m³]",
        "window: 8 readings",
        "box-04",
        "split: by time",
        "test scores",
        "preset: default",
        "rows outside the training range are flagged OUTSIDE",
        "flagged outside: at most 0.001",
    ):
        assert word in card
    assert "multiply-adds" in output.out
    facts = json.loads(scare(f"scare info {model} --json").out)
    assert facts["window"] == 8
    assert facts["devices"] == ["box-01", "box-02", "box-03", "box-04"]
    assert facts["facts"]["test_scores"].keys() == {"raw", "linear", "linear, all", "line (default)"}
    assert facts["facts"]["flagged_outside"].keys() == {"at_most", "training", "validation"}
    assert facts["training_range"]["high"] > facts["training_range"]["low"]
    assert facts["floor"] is None


def test_info_says_of_a_file_without_it_that_training_is_not_known(scare: RunCli, model: Path) -> None:
    known = Calibrator.load(model)
    replace(known, inputs=replace(known.inputs, training_range=None)).save("older.scare")
    assert "the training range is unknown: no row is flagged OUTSIDE" in scare("scare info older.scare").out
    assert json.loads(scare("scare info older.scare --json").out)["training_range"] is None


def test_the_demo_leaves_a_calibrator_a_figure_and_a_page(scare: RunCli) -> None:
    output = scare("scare demo --boxes 3 --days 0.3")
    assert "box-03, never seen in training, in µg/m³" in output.out
    assert "SCARE" in output.out
    assert Calibrator.load("out/demo/demo.scare").facts["split"].startswith("by device")
    assert Path("out/demo/demo.png").read_bytes().startswith(b"\x89PNG")
    assert Path("out/demo/demo.html").read_text().startswith("<!doctype html>")


def test_the_page_lists_every_exit_code() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \|", EXIT_CODES.read_text(encoding="utf-8"), re.MULTILINE)
    assert [(int(code), name) for code, name in rows] == [(code.value, code.name.lower()) for code in ExitCode]
