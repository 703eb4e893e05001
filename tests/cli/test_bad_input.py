"""Bad input: one clear sentence, the right exit code, and nothing left behind."""

import zipfile
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from scare.errors import ExitCode
from tests.cli.output import Output, RunCli
from tests.cli.small_tables import CHANNELS, colocation, with_cell, write

USAGE, DATA = ExitCode.USAGE, ExitCode.DATA
TRAIN = f"scare train box.csv --time date {CHANNELS} --reference Ref.NO2 --window 8 --out m.scare"


@pytest.fixture
def refused(scare: RunCli, tmp_path: Path):
    """Types a line that must fail with this code, saying these words in one sentence and changing no file."""

    def check(line: str, code: int, *words: str) -> Output:
        before = files(tmp_path)
        output = scare(line)
        assert output.code == code, output.err
        assert output.out == ""
        assert "Traceback" not in output.err
        *_, last = output.err.splitlines()
        assert [one for one in output.err.splitlines() if one.startswith("scare: ")] == [last]
        for word in words:
            assert word in last
        assert files(tmp_path) == before
        return output

    return check


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize(
    "command", ["inspect {}.csv", "info {}.scare", "predict {model} {}.csv", "export c {model} --out {}"]
)
def test_a_name_that_is_too_long_is_told(refused: RunCli, model: Path, command: str) -> None:
    refused(f"scare {command.format('x' * 300, model=model)}", USAGE, "File name too long")


# --- tables ---


@pytest.mark.parametrize("command", ["inspect box.csv", "train box.csv --out m.scare", "predict {model} box.csv"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no such file"),
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("date,NO2,Ref.NO2\n", "a header but no rows"),
        ("date:NO2:Ref.NO2\n2026-01-01:1:2\n", "separate columns by comma, semicolon or tab"),
        ("when,NO2\nyesterday,1\ntoday,2\n", "no column holds times"),
        ("date,NO2\n2026-01-01 00:00:00,1,5\n", "more fields than the header"),
        ("PK\x03\x04\x00\x01", "the file is damaged or not a table"),
    ],
)
def test_a_table_that_is_none_is_refused(refused, model: Path, command: str, content: str | None, words: str) -> None:
    if content is not None:
        Path("box.csv").write_text(content)
    refused(f"scare {command.format(model=model)}", DATA, "box.csv", words)


def test_duplicate_times_are_refused_with_their_line(refused) -> None:
    frame = colocation()
    write(pl.concat([frame[:100], frame[99:]]), "box.csv")
    refused(TRAIN, DATA, "box.csv: line 102", "2026-01-01 01:39:00", "data.sort")


def test_unsorted_times_are_refused_with_their_line(refused) -> None:
    frame = colocation()
    write(pl.concat([frame[:10], frame[11:12], frame[10:11], frame[12:]]), "box.csv")
    refused(TRAIN, DATA, "box.csv: line 13", "not later than the row before", "data.sort")


def test_times_with_and_without_a_zone_are_refused(refused) -> None:
    write(with_cell(colocation(), 40, "date", "2026-01-01 00:40:00+01:00"), "box.csv")
    refused(TRAIN, DATA, "line 42, column 'date'", "mix times with and without a time zone")


def test_text_in_a_file_to_calibrate_is_named_by_line_and_column(
    scare: RunCli, sim: Path, model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = pl.read_parquet(sim).head(100).with_columns(pl.col("humidity").cast(pl.String))
    rows.with_columns(humidity=pl.when(pl.int_range(100) == 50).then(pl.lit("wet")).otherwise("humidity")).write_csv(
        "raw.csv"
    )
    assert scare(f"scare predict {model} raw.csv").code == ExitCode.OK
    assert "raw.csv: 1 cell of 'humidity' without a number, taken as missing: 'wet' in line 52." in caplog.text


def test_a_channel_without_a_number_is_refused(refused) -> None:
    write(colocation().with_columns(pl.lit(None).alias("OX")), "box.csv")
    refused(TRAIN, DATA, "no device is left: box", "OX has no usable value; use --channels NO2,T,RH to leave it out")


def test_a_channel_of_nothing_but_sentinels_is_refused(refused) -> None:
    write(colocation().with_columns(pl.lit(-999.0).alias("OX")), "box.csv")
    refused(TRAIN, DATA, "box", "OX", "no usable value")


def test_a_time_step_that_changes_is_refused_with_the_moment(refused) -> None:
    frame, rest = colocation(300), colocation(200, seed=1, step_seconds=600)
    write(pl.concat([frame, rest.with_columns(pl.col("date") + timedelta(hours=6))]), "box.csv")
    refused(TRAIN, DATA, "from 1 minute to 10 minutes at 2026-01-01 ", "data.step")


def test_a_reference_shorter_than_a_window_is_refused(refused) -> None:
    known = pl.when(pl.int_range(pl.len()) < 5).then(pl.col("Ref.NO2")).alias("Ref.NO2")
    write(colocation().with_columns(known), "box.csv")
    refused(TRAIN, DATA, "has no rows with a reference")


def test_a_window_longer_than_the_data_is_refused(refused) -> None:
    write(colocation(), "box.csv")
    refused(f"{TRAIN} --window 1000", DATA, "no rows with a reference", "use --window 22min, or 10 more days")


def test_a_constant_reference_is_refused(refused) -> None:
    write(colocation().with_columns(pl.lit(7.5).alias("Ref.NO2")), "box.csv")
    refused(TRAIN, DATA, "Ref.NO2 is constant (7.5)")


def test_a_reference_without_a_value_is_refused(refused) -> None:
    write(colocation().with_columns(pl.lit(None).alias("Ref.NO2")), "box.csv")
    refused(TRAIN, DATA, "Ref.NO2 has no value")


def test_no_reference_at_all_is_refused_with_the_option_that_names_it(refused) -> None:
    write(colocation().drop("Ref.NO2"), "box.csv")
    refused(f"scare train box.csv --time date {CHANNELS} --out m.scare", DATA, "--reference")


def test_a_reference_file_of_another_time_is_refused_with_both_periods(refused) -> None:
    frame = colocation()
    write(frame.drop("Ref.NO2"), "box.csv")
    write(frame.select(pl.col("date") + timedelta(days=90), "Ref.NO2"), "station.csv")
    line = f"scare train box.csv --time date {CHANNELS} --reference-file station.csv --out m.scare"
    refused(line, DATA, "2026-01-01 00:00 to 2026-01-01 04:59", "2026-04-01 00:00 to 2026-04-01 04:59")


def test_devices_of_different_steps_are_refused(refused) -> None:
    write(colocation(), "box.csv")
    write(colocation(step_seconds=300), "other.csv")
    refused(TRAIN.replace("box.csv", "box.csv other.csv"), DATA, "average them to one step (data.step")


def test_two_files_of_one_name_are_refused(refused) -> None:
    for folder in ("a", "b"):
        Path(folder).mkdir()
        write(colocation(), f"{folder}/box.csv")
    refused(TRAIN.replace("box.csv", "a/box.csv b/box.csv"), DATA, "two files hold a device called 'box'")


# --- columns and options ---


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("--time dat", "no column 'dat'; did you mean 'date'?"),
        ("--channels NO,OX", "no column 'NO'; did you mean 'NO2'?"),
        ("--reference ref.no2", "no column 'ref.no2'; did you mean 'Ref.NO2'?"),
        ("--device-column box", "no column 'box'"),
    ],
)
def test_an_unknown_column_is_refused_with_the_nearest(refused, given: str, words: str) -> None:
    write(colocation(), "box.csv")
    refused(f"{TRAIN} {given}", DATA, "box.csv", words)


def test_an_unknown_column_of_the_reference_file_is_refused_with_the_nearest(refused) -> None:
    write(colocation(), "box.csv")
    line = f"scare train box.csv --time date {CHANNELS} --reference-file box.csv --reference RefNO2 --out m.scare"
    refused(line, DATA, "no column 'RefNO2'; did you mean 'Ref.NO2'?")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("--model scar", "no model called 'scar'; did you mean 'scare'?"),
        ("--model linear", "'linear' is no network"),
        ("--window 3", "--window"),
        ("--steps 0", "--steps"),
        ("--channels ,", "holds no name"),
        ("--channels NO2,NO2", "mapped twice"),
        ("--channels Ref.NO2", "mapped twice"),
        ("--split tiem", "time"),
        ("--widnow 8", "--window"),
        ("--config none.toml", "none.toml"),
    ],
)
def test_a_wrong_option_is_refused(refused, given: str, words: str) -> None:
    write(colocation(), "box.csv")
    refused(f"{TRAIN} {given}", USAGE, words)


def test_an_unknown_option_leads_to_the_settings_of_the_config_file(refused) -> None:
    write(colocation(), "box.csv")
    refused(
        f"{TRAIN} --members 3", USAGE, "see scare train --help, docs/config.md for other settings (--set KEY=VALUE)"
    )


@pytest.mark.parametrize(
    "borders",
    [
        ["2026-01-01T03:00", "2026-01-01T02:00"],
        ["2027-01-01", "2027-02-01"],
        ["2026-01-01T02:00", "2026-01-01T02:01"],
    ],
)
def test_borders_that_leave_a_part_empty_are_refused(refused, borders: list[str]) -> None:
    write(colocation(), "box.csv")
    Path("c.toml").write_text(f"[split]\nborders = {borders}\n")
    refused(f"{TRAIN} --config c.toml", DATA, "has no rows with a reference", "split.borders")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[data", "cannot be read as TOML"),
        ("[ladder]\nclear_fall = 0.2", "[ladder] is now [selection]"),
        ("[date]\ntime = 'date'", "unknown key 'date'; did you mean 'data'?"),
        ("data = 5", "data is 5; it takes a table of settings"),
        ("[data]\ntiem = 'date'", "unknown key 'tiem' in [data]; did you mean 'time'?"),
        ("[data]\ntime = 5", "data.time is 5; it takes a list"),
        ("[[data.channels]]\nnam = 'NO2'", "unknown key 'nam' in [data.channels[0]]; did you mean 'name'?"),
        ("[data]\nstep = 0", "data.step is 0; it takes a number above 0"),
        ("[split]\nby = 'tiem'", "split.by is 'tiem'; did you mean 'time'?"),
        ("[split]\nborders = ['2026-01-01']", "split.borders takes two times, not 1"),
        ("[split]\nborders = ['2026-01-01', 'soon']", "'soon' is not an ISO 8601 time"),
        ("[split]\nby = 'device'\nborders = ['2026-01-01', '2026-01-02']", "can only be used with a split by time"),
        ("[model]\nname = 'scar'", "no model called 'scar'; did you mean 'scare'?"),
        ("[model]\npreset = 'papper'", "no preset called 'papper'; did you mean 'paper'?"),
        ("[model]\ngap_policy = 'strikt'", "model.gap_policy is 'strikt'; did you mean 'strict'?"),
        ("[training]\nbatch = -1", "batch must be at least 1, not -1"),
        ("[training]\nstep = 20", "unknown key 'step' in [training]; did you mean 'steps'?"),
        ("[tune]\nminute = 1", "unknown key 'minute' in [tune]; did you mean 'minutes'?"),
        ("[compare]\nseeds = 0", "compare.seeds is 0; it takes a whole number from 1 on"),
    ],
)
def test_a_bad_config_is_refused(refused, text: str, words: str) -> None:
    write(colocation(), "box.csv")
    Path("c.toml").write_text(text)
    refused(f"{TRAIN} --config c.toml", USAGE, words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("scare trian box.csv", "No such command 'trian'"),
        ("scare train", "Missing argument"),
        ("scare simulate", "--out"),
        ("scare simulate --out sim.csv --boxes none", "--boxes"),
        ("scare simulate --out sim.csv --boxes 0", "0 boxes"),
        ("scare simulate --out sim.csv --days 0", "do not fit"),
        ("scare simulate --out sim.csv --kind gaz", "'gaz'"),
        ("scare simulate --out sim.xlsx", ".parquet or .csv"),
        ("scare data senseurcty --out x", "No such command"),
        ("scare inspect a.csv b.csv", "b.csv"),
    ],
)
def test_a_line_that_is_no_command_is_refused(refused, line: str, words: str) -> None:
    refused(line, USAGE, words, "--help" if "--out sim" not in line else "")


# --- outputs ---


@pytest.mark.parametrize(
    "line",
    [
        "scare inspect box.csv --out {out}.toml",
        "scare simulate --days 1 --out {out}.csv",
        f"{TRAIN} --out {{out}}.scare",
        "scare predict {model} {sim} --out {out}.csv",
        "scare predict {model} {sim} --out {out}.parquet",
        "scare info {model} --out {out}.md",
        "scare demo --out {out}",
    ],
)
@pytest.mark.parametrize("obstacle", ["a folder in its place", "a file in place of its folder"])
def test_an_output_that_cannot_be_written_is_refused(refused, sim: Path, model: Path, line: str, obstacle: str) -> None:
    write(colocation(), "box.csv")
    folder = Path("out")
    if obstacle == "a folder in its place":
        for suffix in ("", "/demo.scare", ".toml", ".csv", ".parquet", ".scare", ".md"):
            Path(f"out{suffix}").mkdir()
        out = "out"
    else:
        folder.write_text("a file")
        out = "out/here"
    refused(line.format(model=model, sim=sim, out=out), USAGE, "cannot write out")


def test_this_folder_is_no_output(refused, model: Path) -> None:
    refused(f"scare info {model} --out .", USAGE, "cannot write .: it is a folder")


def test_an_output_of_unknown_kind_is_refused(refused, sim: Path, model: Path) -> None:
    refused(f"scare predict {model} {sim} --out calibrated.xlsx", USAGE, ".csv, .csv.gz or .parquet")


# --- calibrators ---


@pytest.mark.parametrize("command", ["info bad.scare", "predict bad.scare {sim}"])
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda content: None, "no such file"),
        (lambda content: b"", "not a .scare file"),
        (lambda content: b"hello", "not a .scare file"),
        (lambda content: content[: len(content) // 2], "not a .scare file, or cut short"),
        (lambda content: content[:-1], "not a .scare file, or cut short"),
    ],
)
def test_a_calibrator_that_is_none_is_refused(refused, model: Path, sim: Path, command: str, spoil, words: str) -> None:
    content = spoil(model.read_bytes())
    if content is not None:
        Path("bad.scare").write_bytes(content)
    refused(f"scare {command.format(sim=sim)}", DATA, "bad.scare", words)


def test_a_calibrator_changed_by_hand_is_refused(refused, model: Path, sim: Path) -> None:
    with zipfile.ZipFile(model) as archive, zipfile.ZipFile("bad.scare", "w") as changed:
        for name in archive.namelist():
            content = bytearray(archive.read(name))
            if name == "weights.safetensors":
                content[-1] ^= 1
            changed.writestr(name, bytes(content))
    refused("scare info bad.scare", DATA, "bad.scare", "weights.safetensors was changed")
    refused(f"scare predict bad.scare {sim}", DATA, "bad.scare", "weights.safetensors was changed")


def test_a_table_in_place_of_a_calibrator_is_refused(refused, sim: Path) -> None:
    refused(f"scare info {sim}", DATA, "sim.parquet", "not a .scare file")


def test_a_table_without_the_channels_of_the_calibrator_is_refused(refused, model: Path) -> None:
    write(colocation(), "box.csv")
    refused(f"scare predict {model} box.csv", DATA, "box.csv: no column 'pm25_raw'")
