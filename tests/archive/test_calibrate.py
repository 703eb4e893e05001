"""Archives: file by file what the whole would give, only what has changed, and whole after any kill."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare.archive.calibrate import Archive
from scare.archive.input_files import FileSummary, Models, find_files, read_model_table
from scare.archive.journal import Journal, JournalLine
from scare.calibrator.corrections import CORRECTIONS, bind
from scare.data.sites import Sites, Stay
from scare.errors import DataError, UnreachableError, UsageError
from scare.live.fleet import Route
from tests.archive.small_archive import (
    FILES,
    ROWS,
    Watched,
    contents,
    expected,
    make_model,
    reasons,
    rows_of,
    run,
    small_archive,
    write_device,
)
from tests.calibrator.building import make_calibrator

MAIN = "from scare.cli import main; main()"


def result(archive: Archive, device: str) -> pl.DataFrame:
    """All results of a device in the order of its files."""
    return pl.concat([pl.read_parquet(path) for path in sorted((archive.out / f"device={device}").glob("*.parquet"))])


def test_files_one_after_the_other_give_what_the_whole_gives(tmp_path: Path) -> None:
    archive = small_archive(tmp_path)
    facts = run(archive)
    for seed, device in enumerate(("box-1", "new")):
        whole, found = expected(archive, device, rows_of(device, seed)), result(archive, device)
        assert found["flags"].to_list() == whole["flags"].to_list()
        pairs = (frame["calibrated"].fill_null(np.nan).to_numpy() for frame in (found, whole))
        np.testing.assert_allclose(*pairs, rtol=1e-5)
        assert facts["devices"][device]["calibrated"] == whole["calibrated"].count()
    assert (facts["files"], facts["rows"], facts["left_out"]) == (6, 6 * ROWS, [])


def test_the_results_are_one_hive_data_set(tmp_path: Path) -> None:
    archive = small_archive(tmp_path)
    run(archive)
    whole = pl.scan_parquet(archive.out / "**/*.parquet", hive_partitioning=True).collect()
    assert whole["device"].value_counts().sort("device").rows() == [("box-1", 3 * ROWS), ("new", 3 * ROWS)]


def test_a_second_run_does_nothing(tmp_path: Path) -> None:
    archive, done = small_archive(tmp_path), []
    first = run(archive)
    second = run(archive, Watched(done.append))
    assert (done, second["now"]["files"], second["rows"]) == ([], 0, first["rows"])


@pytest.mark.parametrize("damage", ["cut short", "one bit", "gone"])
def test_a_result_that_is_not_as_it_was_written_is_made_again(damage: str, tmp_path: Path) -> None:
    archive = small_archive(tmp_path)
    run(archive)
    whole, path = contents(archive.out), archive.out / "device=new/part-1.parquet"
    content, when = bytearray(path.read_bytes()), path.stat().st_mtime_ns
    content[len(content) // 2] ^= 1
    path.write_bytes(content[:-9] if damage == "cut short" else content)
    os.utime(path, ns=(when, when + 1))
    if damage == "gone":
        path.unlink()
    again = run(archive)
    assert contents(archive.out) == whole
    assert again["damaged"] == ([] if damage == "gone" else ["device=new/part-1.parquet"])
    assert run(archive)["damaged"] == []
    manifest = pl.read_csv(archive.out / "_manifest.csv").filter(pl.col("output") == "device=new/part-1.parquet")
    assert manifest["output_bytes"].item() == len(content)
    assert manifest["output_sha256"].item() == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_that_was_only_touched_is_not_done_again(tmp_path: Path) -> None:
    archive, done = small_archive(tmp_path), []
    run(archive)
    os.utime(tmp_path / "raw/device=new/part-1.parquet", ns=(1, 1))
    run(archive, Watched(done.append))
    assert done == ["summarise_files"]


def test_a_new_file_is_calibrated_with_the_history_before_it_and_nothing_else_is(tmp_path: Path) -> None:
    archive = small_archive(tmp_path)
    last = tmp_path / "raw/device=new/part-2.parquet"
    run(archive)
    whole = contents(archive.out)
    late = last.rename(tmp_path / "late.parquet")
    archive = replace(archive, out=tmp_path / "again")
    run(archive)
    before = {path: path.stat().st_mtime_ns for path in archive.out.rglob("*.parquet")}
    late.rename(last)
    assert run(archive)["now"]["files"] == 1
    assert contents(archive.out) == whole
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())


def test_a_file_that_has_changed_changes_those_after_it(tmp_path: Path) -> None:
    archive = small_archive(tmp_path)
    run(archive)
    before, first = contents(archive.out), tmp_path / "raw/device=new/part-0.parquet"
    pl.read_parquet(first).with_columns(pl.col("pm25") + 9).write_parquet(first)
    assert run(archive)["now"]["files"] == 3
    after = contents(archive.out)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {f"device=new/part-{number}.parquet" for number in range(3)}


def test_another_model_does_all_again(tmp_path: Path) -> None:
    archive = small_archive(tmp_path)
    run(archive)
    other = make_calibrator().save(tmp_path / "other.scare")
    assert run(replace(archive, models=Models([Route("*", str(other))])))["now"]["files"] == 6


class Killed(BaseException):
    """The process is gone."""


@contextmanager
def killed_at(rename: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing more happens on disk from this renaming on: what is half written stays."""
    original, count = Path.replace, 0

    def replace_or_die(self: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count > rename:
            raise Killed
        return original(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace_or_die)
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        try:
            yield
        except Killed:
            return


def test_killed_anywhere_nothing_is_lost_doubled_or_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = small_archive(tmp_path)
    run(archive)
    whole = contents(archive.out)
    broken = replace(archive, out=tmp_path / "broken")
    for rename in (0, 1, 2, 3, 4, 5, 7, 9):  # each goes on where the last was killed
        with killed_at(rename, monkeypatch):
            run(broken)
        assert all(whole[name] == found for name, found in contents(broken.out).items() if "/." not in name)
    run(broken)
    assert contents(broken.out) == whole


def test_what_cannot_be_used_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    archive, raw = small_archive(tmp_path), tmp_path / "raw"
    (raw / "device=box-1/part-1.parquet").write_bytes(b"PAR1 not really")
    rows = rows_of("new", 1)
    rows[ROWS - 5 : ROWS + 5].write_parquet(raw / "device=new/twice.parquet")
    slowly = pl.col("time") + pl.duration(minutes=10) * pl.int_range(pl.len())
    write_device(raw, "slow", rows_of("slow").with_columns(slowly))
    facts = run(archive)
    found = reasons(facts)
    assert "damaged or not a table" in found["device=box-1/part-1.parquet"]
    assert "so the two files overlap" in found["device=new/twice.parquet new"]
    assert "it has a reading every 11 minutes" in found["device=slow/part-0.parquet slow"]
    assert facts["devices"].keys() == {"box-1", "new"}
    manifest = pl.read_csv(archive.out / "_manifest.csv")
    assert manifest.filter(pl.col("why").str.contains("overlap"))["input"].to_list() == ["device=new/twice.parquet"]
    assert reasons(run(archive)) == found
    assert run(archive)["now"]["files"] == 1  # only what cannot be read is tried again


def test_files_that_vanish_change_or_appear_during_a_run_are_told(tmp_path: Path) -> None:
    archive, raw = small_archive(tmp_path), tmp_path / "raw"

    def meddle(work: str) -> None:
        if work == "calibrate":
            (raw / "device=new/part-1.parquet").unlink(missing_ok=True)
            os.utime(raw / "device=new/part-2.parquet", ns=(1, 1))
            rows_of("late").write_parquet(raw / "late.parquet")

    facts = run(archive, Watched(meddle))
    assert facts["appeared"] == ["late.parquet"]
    assert reasons(facts) == {
        "device=new/part-1.parquet": "it is no longer there",
        "device=new/part-2.parquet": "it was changed while it was read; run again",
    }
    assert reasons(run(archive)) == {}
    assert run(archive)["rows"] == 5 * ROWS + 3 * ROWS


def test_results_of_files_that_are_gone_are_told_and_left(tmp_path: Path) -> None:
    archive = small_archive(tmp_path)
    run(archive)
    (tmp_path / "raw/device=new/part-2.parquet").unlink()
    assert run(archive)["gone"] == ["device=new/part-2.parquet"]
    assert (archive.out / "device=new/part-2.parquet").exists()


def test_each_device_has_its_model_and_one_without_is_named(tmp_path: Path) -> None:
    barkjohn = CORRECTIONS["barkjohn-2021"]
    bound = bind(barkjohn, {role.name: role.channel for role in barkjohn.roles}, 60.0)
    names = [channel.name for channel in bound.inputs.channels]
    bound.save(tmp_path / "b.scare")
    make_model(tmp_path)
    days = [rows_of("box-1").with_columns(pl.lit(device).alias("box")) for device in ("box-1", "roof-7", "x")]
    daily = pl.concat(days).with_columns(*(pl.lit(40.0).alias(name) for name in names)).sort("time", "box")
    daily.write_csv(tmp_path / "day.csv")
    (tmp_path / "models.csv").write_text("device,model\nbox-*,dust.scare\nroof-7,b.scare\n")
    archive = Archive((str(tmp_path / "day.csv"),), tmp_path / "out", read_model_table(tmp_path / "models.csv"))
    assert reasons(run(archive)) == {"day.csv x": "no model is named for it"}
    found = pl.read_parquet(tmp_path / "out/day.parquet")
    assert found["device"].unique().sort().to_list() == ["box-1", "roof-7"]
    own = found.filter(pl.col("device") == "box-1")
    assert own["flags"].to_list() == expected(archive, "box-1", rows_of("box-1"))["flags"].to_list()
    assert own["calibrated"].count() > 0
    corrected = found.filter(pl.col("device") == "roof-7")["calibrated"].drop_nulls().to_numpy()
    np.testing.assert_allclose(corrected, 0.524 * 40 - 0.0862 * 40 + 5.75, rtol=1e-6)


def test_devices_of_a_file_have_one_order_whatever_the_process(tmp_path: Path) -> None:
    names = [f"box-{number}" for number in range(8)]
    day = rows_of("box-0", count=20)
    pl.concat([day.with_columns(pl.lit(name).alias("box")) for name in names]).write_csv(tmp_path / "day.csv")
    archive = Archive((str(tmp_path / "day.csv"),), tmp_path / "out", Models([Route("*", str(make_model(tmp_path)))]))
    run(archive)
    products = json.loads(pl.read_parquet_metadata(tmp_path / "out/day.parquet")["scare"])["products"]
    assert list(products) == names  # a set of texts would have another order in every process


def test_a_folder_belongs_to_one_run_at_a_time(tmp_path: Path) -> None:
    archive, errors = small_archive(tmp_path), []

    def run_another(work: str) -> None:
        with pytest.raises(UsageError, match="is in use by another run") as refused:
            run(archive)
        errors.append(refused)

    run(archive, Watched(run_another))
    assert errors


def test_an_archive_behind_an_address_gives_what_one_on_a_disk_gives(tmp_path: Path) -> None:
    memory = pytest.importorskip("fsspec", reason="pip install '.[cluster]'").filesystem("memory")
    archive = small_archive(tmp_path)
    run(archive)
    memory.put(str(tmp_path / "raw"), "/network/", recursive=True)
    for place in ("memory://network/raw", "memory://network/raw/**/*.parquet"):
        there = replace(archive, places=(place,), out=tmp_path / place[-3:])
        assert run(there)["rows"] == 6 * ROWS
        assert contents(there.out) == contents(archive.out)
        assert run(there)["now"]["files"] == 0
    (one,) = find_files(["memory://network/raw/device=new/part-2.parquet"])
    assert one.name == "part-2.parquet"
    memory.rm("/network/raw/device=new/part-2.parquet")
    assert run(there)["gone"] == ["device=new/part-2.parquet"]
    with pytest.raises(UnreachableError, match="could not list none://x"):
        find_files(["none://x"])


def test_places_name_files(tmp_path: Path) -> None:
    for name in (
        "a/x.csv",
        "a/b/y.parquet",
        "a/.hidden/z.csv",
        "a/_tmp/z.csv",
        "a/notes.md",
        "a/device=q%201/t.csv.gz",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    folder = find_files([str(tmp_path / "a")])
    assert {(one.name, one.device) for one in folder} == {
        ("x.csv", ""),
        ("b/y.parquet", ""),
        ("device=q%201/t.csv.gz", "q 1"),
    }
    assert find_files([str(tmp_path / "a/**/*")]) == folder
    assert [one.name for one in find_files([str(tmp_path / "a/x.csv"), str(tmp_path / "a/b/y.parquet")])] == [
        "b/y.parquet",
        "x.csv",
    ]
    (tmp_path / "a/x.parquet").touch()
    with pytest.raises(UsageError, match=r"would both become x\.parquet"):
        find_files([str(tmp_path / "a")])
    for place, message in ((tmp_path / "a/none", "no such file"), (tmp_path / "a/*.txt", "no file there ends in")):
        with pytest.raises(DataError, match=message):
            find_files([str(place)])


def test_a_journal_keeps_a_state_however_it_lies_in_memory(tmp_path: Path) -> None:
    kept = {"turned": np.arange(6.0).reshape(2, 3).T, "part": np.arange(9)[2::3], "one": np.array(True)}
    journal, line = Journal(tmp_path, "box"), JournalLine(FileSummary("a.csv"), "fingerprint")
    journal.begin([])
    journal.append(line, {"box-1": kept}, {"box-1": 7.5})
    lines, state, until = journal.resume(["fingerprint"])
    assert (lines, until) == ([line], {"box-1": 7.5})
    for name, array in kept.items():
        np.testing.assert_array_equal(state["box-1"][name], array)


def start_predict(folder: Path, out: str) -> "subprocess.Popen[bytes]":
    line = ["predict", str(folder / "dust.scare"), str(folder / "raw"), "--out", str(folder / out), "--jobs", "2"]
    quiet = subprocess.DEVNULL
    return subprocess.Popen([sys.executable, "-c", MAIN, *line], start_new_session=True, stdout=quiet, stderr=quiet)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a group of processes is killed by its number")
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_what_was_killed_goes_on(tmp_path: Path, sign: signal.Signals) -> None:
    make_model(tmp_path)
    for number in range(12):
        write_device(tmp_path / "raw", f"box-{number}", rows_of("box", number, 9000), rows=3000)
    assert start_predict(tmp_path, "whole").wait() == 0
    for already in (0, 5, 20):
        process = start_predict(tmp_path, "broken")
        while process.poll() is None and len(list((tmp_path / "broken").rglob("[!.]*.parquet"))) <= already:
            time.sleep(0.01)
        os.killpg(process.pid, sign)
        assert process.wait() in (0, -sign, 130)
    assert start_predict(tmp_path, "broken").wait() == 0
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_results_name_the_site_of_a_row_and_what_made_it_and_a_new_stay_calibrates_only_its_box_again(
    tmp_path: Path,
) -> None:
    archive = small_archive(tmp_path, device_column="device")
    run(archive)
    first = sorted((tmp_path / "out").rglob("part-*.parquet"))
    plain = {path: pl.read_parquet(path) for path in first}
    begin = rows_of("box-1", 0)["time"][ROWS]
    stays = (Stay("Main Street", "box-1", 0.0, begin.timestamp()), Stay("Harbour", "box-1", begin.timestamp(), inf))
    again = run(replace(archive, sites=Sites(stays)))
    assert again["now"]["files"] == FILES  # those of box-1
    for path, before in plain.items():
        after, products = pl.read_parquet(path), json.loads(pl.read_parquet_metadata(path)["scare"])["products"]
        ((device, product),) = products.items()
        assert product["levels"]["calibrated"]["level"] == "2B"
        assert product["product"].startswith("dust@")
        if device == "box-1":
            sites = after.select(
                pl.when(pl.col("time") < begin).then(pl.lit("Main Street")).otherwise(pl.lit("Harbour"))
            )
            assert after["site"].to_list() == sites.to_series().to_list()
            after = after.drop("site")
        assert after.equals(before)
