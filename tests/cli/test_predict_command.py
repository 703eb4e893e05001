"""`scare predict`: raw, calibrated and flags side by side, whole or in pieces, for devices known and unknown."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from scare import Calibrator, Flag, Readings
from scare.data import alignment
from scare.data.column_mapping import iterate_tables
from tests.calibrator.building import bad_readings, make_calibrator
from tests.cli.output import RunCli

ANSWERS = ["calibrated", "low", "high", "flags"]
COLUMNS = ["device", "time", "pm25_raw", "temperature", "humidity", "reference", *ANSWERS]
COLUMNS += ["outside_ranges", "outside_channel"]


@pytest.fixture
def rows(sim: Path) -> pl.DataFrame:
    """Rows of all four boxes, interleaved as a gateway would log them."""
    return pl.read_parquet(sim).sort("time", "device")


def calibrated_apart(model: Path, rows: pl.DataFrame) -> pl.DataFrame:
    """Each device's rows calibrated in one go, in the order of the rows given."""
    calibrator = Calibrator.load(model)
    parts = []
    for part in rows.with_row_index().partition_by("device", maintain_order=True):
        readings = Readings(part["device"][0], part, calibrator.inputs.channels)
        parts.append(calibrator.predict(readings).with_columns(part["index"], part["device"]))
    return pl.concat(parts).sort("index")


def test_raw_calibrated_and_flags_stand_side_by_side_in_the_order_given(
    scare: RunCli, model: Path, rows: pl.DataFrame
) -> None:
    rows.write_csv("raw.csv")
    output = scare(f"scare predict {model} raw.csv --out calibrated.csv")
    assert output.code == 0, output.err
    table = pl.read_csv("calibrated.csv", try_parse_dates=True)
    assert table.columns == COLUMNS
    rows = rows.rename({"pm25_reference": "reference"})
    assert_frame_equal(table.select(rows.columns), rows, check_dtypes=False)
    apart = calibrated_apart(model, rows)
    assert_frame_equal(table.select(ANSWERS[:3]), apart.select(ANSWERS[:3]))
    assert table["low"].count() == table["calibrated"].count()
    assert table["flags"].to_list() == apart["flags"].to_list()


def test_the_sentence_and_the_json_count_what_the_table_holds(scare: RunCli, model: Path, sim: Path) -> None:
    output = scare(f"scare predict {model} {sim} --out c.parquet --json")
    table, facts = pl.read_parquet("c.parquet"), json.loads(output.out)
    assert (facts["rows"], facts["calibrated"]) == (table.height, table["calibrated"].count())
    assert facts["flags"]["WARM_UP"] == (table["flags"] & int(Flag.WARM_UP) > 0).sum()
    assert f"{facts['calibrated']:,} of {facts['rows']:,} rows calibrated. Wrote c.parquet" in output.err
    assert "warm-up" in output.err


def test_the_newest_row_of_each_device_is_printed_with_its_interval(scare: RunCli, model: Path, sim: Path) -> None:
    shown = scare(f"scare predict {model} {sim} --out c.parquet").out
    printed = json.loads(scare(f"scare predict {model} {sim} --out c.parquet --json").out)["newest"]
    last = pl.read_parquet("c.parquet").sort("time").unique("device", keep="last", maintain_order=True)
    assert {one["device"] for one in printed} == set(last["device"])
    for row in last.iter_rows(named=True):
        one = next(one for one in printed if one["device"] == row["device"])
        assert [one[name] for name in ANSWERS] == [row[name] for name in ANSWERS]
        assert all(f"{row[name]:.4g}" in shown for name in ANSWERS[:3])


@pytest.mark.parametrize(("size", "seconds"), [(7, 60), (100, 60), (1441, 60), (7, 10), (100, 40)])
def test_pieces_of_a_file_give_what_the_whole_gives(
    scare: RunCli, model: Path, rows: pl.DataFrame, monkeypatch: pytest.MonkeyPatch, size: int, seconds: int
) -> None:
    raw = rows if seconds == 60 else every(rows.filter(pl.col("device") == "box-01"), seconds)
    raw = pl.concat([raw[:200], raw[198:]])  # some times are repeated
    raw[: 400 if size == 7 else None].write_csv("raw.csv")
    assert scare(f"scare predict {model} raw.csv --out whole.csv").code == 0
    monkeypatch.setattr(alignment, "iterate_tables", lambda *given, **named: iterate_tables(*given, rows=size, **named))
    assert scare(f"scare predict {model} raw.csv --out pieces.csv").code == 0
    whole, pieces = pl.read_csv("whole.csv"), pl.read_csv("pieces.csv")
    assert_frame_equal(whole, pieces, rel_tol=1e-6, abs_tol=1e-5)  # an end of an interval may be near 0


def test_every_kind_of_file_holds_the_same_table(scare: RunCli, model: Path, rows: pl.DataFrame) -> None:
    rows.write_parquet("raw.parquet")
    for name in ("a.csv", "a.csv.gz", "a.parquet"):
        assert scare(f"scare predict {model} raw.parquet --out {name}").code == 0
    plain = pl.read_csv("a.csv", try_parse_dates=True)
    assert Path("a.csv.gz").read_bytes().startswith(b"\x1f\x8b")
    assert_frame_equal(pl.read_csv("a.csv.gz", try_parse_dates=True), plain)
    assert_frame_equal(pl.read_parquet("a.parquet"), plain, check_dtypes=False)


def test_a_missing_reading_gives_an_empty_cell_and_a_flag(scare: RunCli, model: Path, rows: pl.DataFrame) -> None:
    box = rows.filter(device="box-02")
    box.with_columns(pl.when(pl.int_range(pl.len()) != 50).then("humidity").alias("humidity")).write_csv("box-02.csv")
    assert scare(f"scare predict {model} box-02.csv").code == 0
    table = pl.read_csv("calibrated.csv")
    assert table["calibrated"].is_null()[49:52].to_list() == [False, True, False]
    assert (table["flags"] & int(Flag.MISSING))[49:52].to_list() == [0, Flag.MISSING, 0]
    assert Path("calibrated.csv").read_text().splitlines()[51].endswith(f",,{int(Flag.MISSING)},,")


def test_a_file_is_the_device_of_its_name(scare: RunCli, model: Path, rows: pl.DataFrame) -> None:
    box = rows.filter(device="box-02").drop("device")
    for name in ("box-02.csv", "box-02.csv.gz", "other.csv"):
        box.write_csv(name, compression="gzip" if name.endswith("gz") else "uncompressed")
    lines = ["box-02.csv", "box-02.csv.gz", "other.csv --device box-02"]
    output = [scare(f"scare predict {model} {line} --out {number}.csv") for number, line in enumerate(lines)]
    assert ["not in training" in one.err for one in output] == [False, False, False]
    tables = [pl.read_csv(f"{number}.csv") for number in range(3)]
    for table in tables[1:]:
        assert_frame_equal(table, tables[0])
    assert tables[0]["device"].unique().to_list() == ["box-02"]


@pytest.mark.parametrize("column", [True, False])
def test_a_device_never_seen_is_announced_once_and_scaled_as_the_fleet(
    scare: RunCli, model: Path, rows: pl.DataFrame, column: bool
) -> None:
    new = rows.with_columns(
        pl.col("device").replace("box-02", "newcomer"),
        pl.col("pm25_raw") + 1.0 * (pl.col("device") == "box-02"),
    )
    (new if column else new.filter(device="newcomer").drop("device")).write_csv("newcomer.csv")
    output = scare(f"scare predict {model} newcomer.csv")
    assert output.err.count("newcomer was not in training. If it is one of ") == 1
    assert "box-01 was not in training" not in output.err
    table = pl.read_csv("calibrated.csv").filter(device="newcomer")
    assert not (table["flags"] & int(Flag.UNSETTLED) > 0).any()  # dust has no offset to settle
    assert table["calibrated"].count() > 600


def test_a_renamed_file_is_recognised_and_the_name_that_is_given_applies(
    scare: RunCli, model: Path, rows: pl.DataFrame
) -> None:
    rows.filter(device="box-02").drop("device").write_csv("kitchen.csv")
    shutil.copy("kitchen.csv", "box-02.csv")
    message = scare(f"scare predict {model} kitchen.csv").err
    assert "kitchen was not in training, but its readings are those of box-02." in message
    assert "If it is the same device, pass --device box-02." in message
    assert "not in training" not in scare(f"scare predict {model} kitchen.csv --device box-02 --out named.csv").err
    scare(f"scare predict {model} box-02.csv --out own.csv")
    assert_frame_equal(pl.read_csv("named.csv"), pl.read_csv("own.csv"))


def test_a_device_never_seen_with_a_raw_channel_is_flagged_until_it_has_settled(scare: RunCli) -> None:
    settling = make_calibrator(settle=50).with_facts(devices=["box-1", "box-2"])
    settling.save("raw.scare")
    bad_readings(1, 300, "newcomer").frame.drop("flags").with_columns(device=pl.lit("newcomer")).write_csv("raw.csv")
    output = scare("scare predict raw.scare raw.csv")
    assert "Its first 50 readings are flagged UNSETTLED: they centre its raw channels." in output.err
    table = pl.read_csv("calibrated.csv")
    unsettled = (table["flags"] & int(Flag.UNSETTLED) > 0).to_numpy()
    assert unsettled.any()
    assert not unsettled[100:].any()


def test_a_calibrator_trained_on_a_column_called_row_predicts(scare: RunCli, rows: pl.DataFrame) -> None:
    rows.filter(device="box-01").drop("device").rename({"pm25_raw": "row"}).write_csv("box.csv")
    columns = "--time time --channels row,humidity --reference pm25_reference"
    assert scare(f"scare train box.csv {columns} --window 8 --out m.scare").code == 0
    assert scare("scare predict m.scare box.csv").code == 0
    assert pl.read_csv("calibrated.csv")["calibrated"].count() > 600


def test_readings_without_a_reference_are_calibrated_all_the_same(
    scare: RunCli, model: Path, rows: pl.DataFrame
) -> None:
    rows.drop("pm25_reference").write_csv("raw.csv")
    assert scare(f"scare predict {model} raw.csv").code == 0
    assert pl.read_csv("calibrated.csv").columns == [name for name in COLUMNS if name != "reference"]


def test_a_device_column_can_be_named(scare: RunCli, model: Path, rows: pl.DataFrame) -> None:
    rows.rename({"device": "who", "time": "when"}).write_parquet("fleet.parquet")
    assert scare(f"scare predict {model} fleet.parquet --time when --device-column who").code == 0
    assert pl.read_csv("calibrated.csv")["device"].to_list() == rows["device"].to_list()


def test_a_folder_becomes_a_folder_of_the_same_names_by_the_lines_of_its_page(
    scare: RunCli, model: Path, rows: pl.DataFrame
) -> None:
    page = (Path(__file__).parents[2] / "docs/archive.md").read_text(encoding="utf-8")
    one, several = re.findall(r"^\$ (scare predict .*)$", page, re.MULTILINE)
    Path("network").mkdir()
    for part in rows.partition_by("device"):
        part.drop("device").write_csv(f"network/{part['device'][0]}.csv")
    shutil.copy(model, "pm.scare")
    Path("models.csv").write_text("device,model\nbox-*,pm.scare\n")
    output = scare(f"{one} --json")
    assert output.code == 0, output.err
    facts = json.loads(output.out)
    assert (facts["rows"], facts["files"], len(facts["devices"])) == (rows.height, 4, 4)
    apart = calibrated_apart(model, rows)
    assert facts["calibrated"] == apart["calibrated"].count()
    assert pl.read_parquet("calibrated/*.parquet")["flags"].sum() == apart["flags"].sum()
    again = scare(several)
    assert "This run: 0 files" in again.err
    assert "4 devices" in again.out


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("{model}", 2, "name them after the model"),
        ("{model} none", 3, "there is no such file or folder"),
        ("{model} . --device x", 2, "--device is for one file"),
        ("{model} . --executor ray", 2, "no executor 'ray'"),
        (". --models table.csv", 2, "has the columns device and model, not a, b"),
    ],
)
def test_what_an_archive_cannot_do_is_said(scare: RunCli, model: Path, line: str, code: int, sentence: str) -> None:
    Path("table.csv").write_text("a,b\n1,2\n")
    output = scare(f"scare predict {line.format(model=model)}")
    assert (output.code, sentence in output.err) == (code, True), output.err


def test_rows_out_of_order_are_sorted(scare: RunCli, model: Path, rows: pl.DataFrame) -> None:
    box = rows.filter(pl.col("device") == rows["device"][0])
    box.write_csv("sorted.csv")
    box.reverse().write_csv("reversed.csv")
    assert scare(f"scare predict {model} sorted.csv --out a.csv").code == 0
    output = scare(f"scare predict {model} reversed.csv --out b.csv")
    assert output.code == 0, output.err
    assert "reversed.csv: the rows are not in order of time (" in output.err
    assert_frame_equal(pl.read_csv("a.csv"), pl.read_csv("b.csv"))


def test_finer_readings_are_averaged_and_coarser_ones_refused(scare: RunCli, model: Path, rows: pl.DataFrame) -> None:
    box = rows.filter(pl.col("device") == rows["device"][0])
    step = Calibrator.load(model).inputs.step_seconds
    numbers = box.select(pl.exclude("device", "time")).columns
    both = [box, box.with_columns(pl.col("time") - pl.duration(seconds=round(step / 2)))]
    pl.concat(both).sort("time").write_csv("fine.csv")
    box.write_csv("box.csv")
    box.gather_every(3).write_csv("coarse.csv")
    assert scare(f"scare predict {model} box.csv --out a.csv").code == 0
    output = scare(f"scare predict {model} fine.csv --out b.csv")
    assert output.code == 0, output.err
    assert "is averaged to" in output.err
    same, means = pl.read_csv("a.csv"), pl.read_csv("b.csv")
    assert numbers[0] in means.columns
    assert_frame_equal(same.select("time", "calibrated"), means.select("time", "calibrated"))
    refused = scare(f"scare predict {model} coarse.csv --out c.csv")
    assert refused.code == 3
    assert f"scare train --set data.step={3 * step:g}" in refused.err


def every(rows: pl.DataFrame, seconds: int) -> pl.DataFrame:
    """Rows of one device, one every minute, interpolated or thinned to another step."""
    ends = rows["time"].min(), rows["time"].max()
    times = pl.datetime_range(*ends, f"{seconds}s", eager=True).alias("time")
    wide = pl.concat([rows, times.to_frame()], how="diagonal").unique("time", keep="first").sort("time")
    return wide.with_columns(pl.exclude("time", "device").interpolate(), pl.lit("box-1").alias("device")).filter(
        pl.col("time").is_in(times.implode())
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("sorted", ""),
        ("shuffled", "the rows are not in order of time ("),
        ("repeated", "30 rows with a repeated time left out"),
        ("10s", "a reading every 10 seconds is averaged to 1 minute, as in training"),
        ("40s", "a reading every 40 seconds is averaged to 1 minute, as in training"),
        ("10s-shuffled", "they are sorted; a reading every 10 seconds is averaged to 1 minute"),
    ],
)
def test_an_archive_gives_what_its_files_give(
    scare: RunCli, model: Path, rows: pl.DataFrame, name: str, sentence: str
) -> None:
    box = rows.filter(pl.col("device") == rows["device"][0])
    tables = {
        "sorted": box,
        "shuffled": box.sample(fraction=1.0, shuffle=True, seed=1),
        "repeated": pl.concat([box, box[100:130]]).sort("time"),
        "10s": every(box, 10),
        "40s": every(box, 40),
        "10s-shuffled": every(box, 10).sample(fraction=1.0, shuffle=True, seed=1),
    }
    Path("raw").mkdir()
    tables[name].write_csv("raw/box.csv")
    alone = scare(f"scare predict {model} raw/box.csv --out alone.csv")
    together = scare(f"scare predict {model} raw --out out --json")
    assert (alone.code, together.code) == (0, 0), alone.err + together.err
    assert all(part in alone.err for part in sentence.split("; "))
    changes = "".join(one["changes"] for one in json.loads(together.out)["changed"])
    assert sentence in changes if sentence else not changes
    frames = pl.read_csv("alone.csv", try_parse_dates=True), pl.read_parquet("out/box.parquet")
    assert_frame_equal(*frames, check_dtypes=False)
    assert frames[0]["calibrated"].count() > 0.8 * box.height


@pytest.mark.parametrize("seconds", [120, 3600])
def test_an_archive_refuses_coarser_readings_with_the_sentence_of_a_file(
    scare: RunCli, model: Path, rows: pl.DataFrame, seconds: int
) -> None:
    Path("raw").mkdir()
    box = rows.filter(pl.col("device") == rows["device"][0])
    every(box, seconds).write_csv("raw/coarse.csv")
    alone = scare(f"scare predict {model} raw/coarse.csv --out alone.csv")
    together = scare(f"scare predict {model} raw --out out")
    sentence = "and the model was trained on one every 1 minute: give finer readings"
    assert (alone.code, together.code, Path("alone.csv").exists()) == (3, 3, False)
    assert sentence in " ".join(alone.err.split())
    assert sentence in " ".join(together.err.split())
    assert f"data.step={seconds}" in alone.err


def test_an_archive_says_which_device_is_unlike_training(scare: RunCli, model: Path, rows: pl.DataFrame) -> None:
    Path("raw").mkdir()
    box = rows.filter(pl.col("device") == rows["device"][0]).drop("device")
    box.with_columns(pl.col("pm25_raw") + 400).write_csv("raw/high.csv")
    printed = " ".join(scare(f"scare predict {model} raw --out out").err.split())
    assert "Warning: high: 707 of 720 rows are unlike training (OUTSIDE); predict one of its files alone" in printed


@pytest.mark.slow
@pytest.mark.parametrize("cut", [300 * 6 + 1, 300 * 6 + 4], ids=["at a full minute", "between two"])
def test_finer_readings_in_two_files_are_averaged_as_in_one(
    scare: RunCli, model: Path, rows: pl.DataFrame, cut: int
) -> None:
    box = every(rows.filter(pl.col("device") == rows["device"][0]), 10).drop("device")
    for folder, parts in {"one": [box], "two": [box[:cut], box[cut:]]}.items():
        Path(f"{folder}/device=box-1").mkdir(parents=True)
        for number, part in enumerate(parts):
            part.write_parquet(f"{folder}/device=box-1/{number}.parquet")
        assert scare(f"scare predict {model} {folder} --out {folder}-out").code == 0
    one, two = (pl.read_parquet(f"{folder}-out/**/*.parquet").sort("time") for folder in ("one", "two"))
    assert one["time"].to_list() == two["time"].to_list()
    differing = (one["pm25_raw"].ne_missing(two["pm25_raw"])).sum()
    assert differing == (cut % 6 != 1)  # the minute that is cut


def test_a_device_that_cannot_be_read_leaves_the_others(scare: RunCli, model: Path, rows: pl.DataFrame) -> None:
    first, second = rows["device"].unique().sort()[:2]
    fast, slow = (rows.filter(pl.col("device") == name) for name in (first, second))
    pl.concat([fast, slow.gather_every(60)]).sort("time").write_csv("both.csv")
    output = scare(f"scare predict {model} both.csv --out a.csv")
    assert output.code == 0, output.err
    assert f"both.csv: left out: {second} has a reading every 1 hour" in output.err
    assert pl.read_csv("a.csv")["device"].unique().to_list() == [first]


def test_a_file_without_rows_leaves_the_others(scare: RunCli, model: Path, rows: pl.DataFrame) -> None:
    Path("raw").mkdir()
    rows.write_csv("raw/a.csv")
    rows.clear().write_csv("raw/b.csv")
    output = scare(f"scare predict {model} raw --out out")
    assert (output.code, "Left out: b.csv" in output.err) == (0, True)


def test_rows_too_many_to_sort_are_refused(
    scare: RunCli, model: Path, rows: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment, "SORTED_ROWS", 100)
    rows.write_csv("long.csv")
    assert scare(f"scare predict {model} long.csv --out a.csv").code == 0
    rows.reverse().write_csv("long.csv")
    output = scare(f"scare predict {model} long.csv --out a.csv")
    assert output.code == 3
    assert "too many to sort in memory (at most 100); split the file, or sort its rows" in " ".join(output.err.split())


def test_a_run_that_calibrates_few_rows_says_why_and_strict_fails(
    scare: RunCli, model: Path, rows: pl.DataFrame
) -> None:
    channel = Calibrator.load(model).inputs.channels[0].name
    box = rows.filter(pl.col("device") == rows["device"][0])
    few = pl.when(pl.int_range(pl.len()) % 5 == 0).then(pl.col(channel))
    box.with_columns(few.alias(channel)).write_csv("few.csv")
    output = scare(f"scare predict {model} few.csv --out c.csv")
    assert output.code == 0
    assert "Warning: fewer than half of the rows have a calibrated value." in output.err
    assert "rows: a channel has no usable value; " in output.err
    assert scare(f"scare predict {model} few.csv --out c.csv --strict").code == 5
    box.write_csv("all.csv")
    assert scare(f"scare predict {model} all.csv --out c.csv --strict").code == 0


def test_rows_of_an_unknown_device_are_counted(scare: RunCli, model: Path, rows: pl.DataFrame) -> None:
    channel = Calibrator.load(model).inputs.channels[0].name
    box = rows.filter(pl.col("device") == rows["device"][0]).with_columns(pl.lit("stranger").alias("device"))
    box.with_columns(50 * pl.col(channel)).write_csv("new.csv")
    output = scare(f"scare predict {model} new.csv --out c.csv --json")
    facts, table = json.loads(output.out), pl.read_csv("c.csv")
    found = facts["devices"]["stranger"]
    assert facts["new_devices"] == ["stranger"]
    assert found["outside"] == (table["flags"] & int(Flag.OUTSIDE) > 0).sum() > 0
    beyond = (table["outside_ranges"] > 1).sum()
    assert table.filter(table["outside_ranges"] > 1)["outside_channel"].null_count() == 0 < beyond
    assert f"{beyond:,} by more than one range; the farthest by " in output.err
    assert found["negative"] == (table["calibrated"] < 0).sum()
    counts = f"{found['outside']:,} outside, {found['unsettled']:,} unsettled, {found['negative']:,} negative"
    assert f"stranger was not in training: of its {found['rows']:,} rows {counts}." in output.err


def test_an_index_of_each_hour_is_written_beside_the_table(scare: RunCli, model: Path, sim: Path) -> None:
    pl.read_parquet(sim).filter(device="box-02").write_csv("raw.csv")
    output = scare(f"scare predict {model} raw.csv --index us-aqi --out calibrated.csv")
    assert output.code == 0, output.err
    hours = pl.read_csv("calibrated.index.csv")
    assert {"concentration", "low", "high", "index", "category", "p_good", "p_hazardous"} <= set(hours.columns)
    assert hours.height >= 6
    assert "US AQI: second-hand" in output.err
    described = json.loads(Path("calibrated.csv-metadata.json").read_text())["scare"]["products"]["*"]
    assert described["levels"]["calibrated"]["level"] == "2B"
    refused = scare(f"scare predict {model} raw.csv --index eaa --out calibrated.csv")
    assert refused.code == 2
    assert "no index is called 'eaa'" in refused.err


def test_a_table_of_sites_names_where_each_value_is_from(scare: RunCli, model: Path, sim: Path) -> None:
    pl.read_parquet(sim).filter(device="box-02").write_csv("raw.csv")
    Path("sites.csv").write_text("site,device,from,to\nMain Street,box-02,,\n")
    output = scare(f"scare predict {model} raw.csv --sites sites.csv --out calibrated.parquet")
    assert output.code == 0, output.err
    assert set(pl.read_parquet("calibrated.parquet")["site"]) == {"Main Street"}
    assert "products" in json.loads(pl.read_parquet_metadata("calibrated.parquet")["scare"])
