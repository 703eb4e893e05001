"""Nothing is lost and nothing is applied twice: journal, snapshot, replay, in the order that makes it so."""

import math
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from time import time
from typing import Any

import numpy as np
import polars as pl
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.provenance import product_version
from scare.cli.options import open_calibrator
from scare.data.alignment import average
from scare.data.readings import Readings
from scare.errors import DataError, UsageError
from scare.live.arrivals import ClockGuard, Delivery, RowAssembler
from scare.live.config import LiveLimits, Model
from scare.live.fleet import FleetState
from scare.live.journal import Journal, Store, read_journal, write_snapshot
from scare.live.messages import Reading
from scare.live.pipeline import ModelFiles, Monitor, Pipeline, Result
from scare.live.recent_results import Recent
from tests.calibrator.building import curve_plan, make_calibrator
from tests.live.broker import wait_for
from tests.live.small_gateway import (
    LIMITS,
    START,
    STORES,
    Kept,
    close,
    draw_readings,
    expected,
    make_pipeline,
    save_models,
    shifted,
)

READINGS = draw_readings(7, 40)


def push(pipeline: Pipeline, readings: Sequence[Reading], size: int = 9) -> int:
    """Work on readings some at a time; how many were acknowledged."""
    done: list[int] = []
    for start in range(0, len(readings), size):
        pipeline.process([Delivery((one,), lambda: done.append(1)) for one in readings[start : start + size]])
    return len(done)


def same(found: Result, wanted: Result) -> bool:
    close = np.allclose([found.raw, found.calibrated], [wanted.raw, wanted.calibrated], rtol=1e-5, equal_nan=True)
    return close and found.flags == wanted.flags


def test_every_reading_gets_what_its_device_alone_would_get(tmp_path: Path) -> None:
    sink = Kept()
    pipeline, monitor = make_pipeline(tmp_path, sink)
    assert push(pipeline, READINGS) == len(READINGS)
    found = sink.by_reading()
    assert len(found) == len(sink.results) == len(READINGS)
    models = {name: Calibrator.load(tmp_path / f"{name}.scare") for name in ("dust", "gas")}
    for device, some in groupby(sorted(READINGS, key=lambda one: (one.device, one.time)), lambda one: one.device):
        name = "gas" if device.startswith("gas") else "dust"
        for wanted in expected(models[name], list(some)):
            assert same(found[device, wanted.time], wanted)
            assert found[device, wanted.time].model == name
    counts = monitor.counts()
    assert counts["calibrated"] + counts["without_value"] == len(READINGS)
    assert counts["calibrated"] > 100


@pytest.mark.parametrize("seed", range(2))
def test_a_process_that_dies_anywhere_loses_nothing(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    limits = LiveLimits()  # readings after a gap, and those that overtake others, wait
    readings = overtake(READINGS, rng)
    whole = Kept()
    (tmp_path / "whole").mkdir()
    push(uninterrupted := make_pipeline(tmp_path / "whole", whole, limits)[0], readings)
    uninterrupted.flush()
    cut = Kept()
    position = 0
    while position < len(readings):
        pipeline, _ = make_pipeline(tmp_path, cut, limits)
        if rng.random() < 0.5:
            pipeline.snapshot(aside=rng.random() < 0.5)
        sent = readings[max(0, position - int(rng.integers(30))) : position + int(rng.integers(1, 120))]
        push(pipeline, sent, int(rng.integers(1, 40)))
        position = readings.index(sent[-1]) + 1
        close()
    make_pipeline(tmp_path, cut, limits)[0].flush()
    found, wanted = cut.by_reading(), whole.by_reading()
    assert found.keys() == wanted.keys() == {(one.device, one.time) for one in readings}
    assert all(same(found[key], wanted[key]) for key in wanted)


def overtake(readings: Sequence[Reading], rng: np.random.Generator) -> list[Reading]:
    """The same readings; now and then one overtakes another of its device."""
    moved = list(readings)
    for index in range(14, len(moved) - 7):
        later = next((at for at in range(index + 1, len(moved)) if moved[at].device == moved[index].device), index)
        if rng.random() < 0.05:
            moved[index], moved[later] = moved[later], moved[index]
    return moved


def test_a_reading_that_overtakes_others_changes_nothing(tmp_path: Path) -> None:
    times = [*range(12), 14, 12, 13, *range(15, 30)]  # steps, in order of arrival
    readings = [Reading("box-1", START + 60 * step, {"pm25": 20.0 + step % 7, "current": 300.0}) for step in times]
    overtaken, sorted_ = Kept(), Kept()
    for name, sink, some in (("a", overtaken, readings), ("b", sorted_, sorted(readings, key=lambda one: one.time))):
        (tmp_path / name).mkdir()
        assert push(make_pipeline(tmp_path / name, sink, LiveLimits())[0], some, 1) == 30
    assert [one.time for one in overtaken.results] == [one.time for one in sorted_.results]
    assert all(map(same, overtaken.results, sorted_.results))


def test_a_device_that_always_leaves_gaps_is_not_made_to_wait(tmp_path: Path) -> None:
    sink = Kept()
    pipeline, _ = make_pipeline(tmp_path, sink, LiveLimits())
    readings = [Reading("box-1", START + 100 * row, {"pm25": 20.0, "current": 300.0}) for row in range(8)]
    push(pipeline, readings, 1)
    assert sink.results[-1].time == readings[-1].time


BEGIN = 60 * (START // 60)


def sent_every(seconds: float, count: int, device: str = "box-1", begin: float = BEGIN) -> list[Reading]:
    """Readings of a device at a step of its own; some numbers are missing or impossible."""
    rng = np.random.default_rng(5)
    rows = rng.uniform([5, 250], [50, 350], (count, 2))
    rows[rng.random(count) < 0.05, 0] = np.nan
    named = (dict(zip(("pm25", "current"), row.tolist(), strict=True)) for row in rows)
    return [Reading(device, begin + seconds * row, values) for row, values in enumerate(named)]


def averaged(calibrator: Calibrator, readings: Sequence[Reading]) -> list[Result]:
    """What `average` and the calibrator make of readings; the first passes, as nothing is known of its step yet."""
    names = [channel.name for channel in calibrator.inputs.channels]
    columns = {name: [one.values[name] for one in readings[1:]] for name in names}
    times = pl.Series("time", [round(1e6 * one.time) for one in readings[1:]]).cast(pl.Datetime("us", "UTC"))
    frame = pl.DataFrame({"time": times, **columns}).with_columns(pl.col(names).fill_nan(None))
    means = average(Readings("box-1", frame, calibrator.inputs.channels), calibrator.inputs.step_seconds)
    pairs = zip(means.times.tolist(), means.values.tolist(), strict=True)
    rows = [Reading("box-1", time, dict(zip(names, row, strict=True))) for time, row in pairs]
    return expected(calibrator, [readings[0], *rows])


@pytest.mark.parametrize("seconds", [10.0, 40.0, 7.0])
def test_finer_readings_are_averaged_as_those_of_a_file(tmp_path: Path, seconds: float) -> None:
    sink = Kept()
    pipeline, monitor = make_pipeline(tmp_path, sink)
    readings = sent_every(seconds, int(3600 / seconds))
    push(pipeline, readings, 5)
    pipeline.flush()
    wanted = averaged(Calibrator.load(tmp_path / "dust.scare"), readings)
    assert [one.time for one in sink.results] == [one.time for one in wanted]
    assert [one.flags for one in sink.results] == [one.flags for one in wanted]
    for name in ("raw", "calibrated", "low", "high"):
        columns = ([getattr(one, name) for one in some] for some in (sink.results, wanted))
        np.testing.assert_allclose(*columns, rtol=1e-5)
    assert sum(not math.isnan(one.calibrated) for one in sink.results) > 30
    assert monitor.counts()["averaged"] == len(readings) - 1


@pytest.mark.parametrize("cut", [3, 50, 151, 200])
def test_an_interval_survives_a_restart(tmp_path: Path, cut: int) -> None:
    readings, whole, parts = sent_every(10.0, 240), Kept(), Kept()
    for name, sink in (("a", whole), ("b", parts)):
        (tmp_path / name).mkdir()
        pipeline, _ = make_pipeline(tmp_path / name, sink)
        push(pipeline, readings[:cut], 7)
        if name == "b":
            pipeline.snapshot()
            push(pipeline, readings[cut : cut + 2], 1)  # these are in the journal only
            close()
            pipeline, _ = make_pipeline(tmp_path / name, sink)
        push(pipeline, readings[cut:], 7)
        pipeline.flush()
    found = {one.time: one for one in parts.results}
    assert list(found) == [one.time for one in whole.results]
    assert all(same(found[one.time], one) for one in whole.results)


def test_coarser_readings_are_rejected_until_they_come_at_the_step(tmp_path: Path) -> None:
    sink = Kept()
    pipeline, monitor = make_pipeline(tmp_path, sink)
    push(pipeline, sent_every(120.0, 30), 1)
    assert (len(sink.results), monitor.counts()["wrong_step"], monitor.counts()["rejected"]) == (8, 22, 22)
    reason = "it sends a reading every 2 minutes, but its model expects one every 1 minute"
    assert reason in monitor.rejections()[0].reason
    push(pipeline, sent_every(60.0, 10, begin=BEGIN + 120.0 * 29 + 60.0), 1)
    assert (len(sink.results), monitor.counts()["wrong_step"], pipeline.remarks()) == (18, 22, [])


def test_a_device_with_gaps_and_one_that_sends_in_bursts_are_not_rejected(tmp_path: Path) -> None:
    sink = Kept()
    pipeline, monitor = make_pipeline(tmp_path, sink)
    gaps = [one for row, one in enumerate(sent_every(60.0, 60)) if row % 4 != 1]
    bursts = [replace(one, time=BEGIN + 300.0 * (row // 3) + row % 3) for row, one in enumerate(sent_every(1.0, 60))]
    push(pipeline, gaps, 1)
    push(pipeline, [replace(one, device="box-2") for one in bursts], 1)
    pipeline.flush()
    assert monitor.counts()["wrong_step"] == 0
    raw = [one.raw for one in sink.results if one.device == "box-2" and not one.is_late]
    assert np.isfinite(raw).sum() >= 15


def test_finer_readings_may_be_rejected_and_a_correction_takes_coarser_ones(tmp_path: Path) -> None:
    make_calibrator(curve_plan(8)).save(tmp_path / "dust.scare")
    models = {"dust": Model(str(tmp_path / "dust.scare"), finer="reject"), "gas": Model("barkjohn-2021", ("gas-*",))}
    monitor, sink = Monitor(), Kept()
    store = Store(tmp_path / "state")
    STORES.append(store)
    pipeline = Pipeline(ModelFiles(models, open_calibrator, monitor), store, [sink], monitor, LIMITS)
    pipeline.restore()
    push(pipeline, sent_every(10.0, 60), 1)
    assert monitor.counts()["wrong_step"] == 52
    push(pipeline, sent_every(3600.0, 20, "gas-1"), 1)
    assert monitor.counts()["wrong_step"] == 52
    assert sum(one.device == "gas-1" for one in sink.results) == 20


def test_readings_ahead_of_a_slow_clock_wait_until_it_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, done, now = Kept(), list[str](), [START - 86400.0]
    monkeypatch.setattr("scare.live.pipeline.time", lambda: now[0])
    pipeline, monitor = make_pipeline(tmp_path, sink)

    def send(time: float, name: str) -> None:
        reading = Reading(name, time, {"pm25": 20.0, "current": 300.0})
        pipeline.process([Delivery((reading,), lambda: done.append(name))])

    for index in range(5):
        send(START, f"box-{index}")
    assert (sink.results, done, monitor.counts()["rejected"]) == ([], [], 0)
    assert "most readings are 24 hours ahead of this computer's clock" in pipeline.problems["clock"]
    now[0] = START
    pipeline.process([])
    assert (len(sink.results), len(done), pipeline.problems) == (5, 5, {})
    for index in range(9):
        send(START + index, "box-1")
    send(START + 9000, "box-2")  # a single clock that is fast is not ours
    assert monitor.counts()["rejected"] == 1
    assert len(done) == 15


def test_what_was_journaled_but_not_published_is_published_by_the_next_process(tmp_path: Path) -> None:
    unsafe, sink = Kept(is_safe=False), Kept()
    pipeline, _ = make_pipeline(tmp_path, unsafe)
    assert push(pipeline, READINGS[:50]) == 0  # none acknowledged
    pipeline.snapshot()  # which is not taken
    close()
    again, monitor = make_pipeline(tmp_path, sink)
    assert sink.by_reading().keys() == {(one.device, one.time) for one in READINGS[:50]}
    assert monitor.counts()["replayed"] == 50
    assert push(again, READINGS[:60]) == 60
    assert (monitor.counts()["duplicates"], len(sink.results)) == (50, 60)


@pytest.mark.parametrize("is_killed", [False, True])
def test_new_readings_are_published_while_the_journal_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    monkeypatch.setattr("scare.live.pipeline.SLICE", 10)
    push(make_pipeline(tmp_path, Kept(is_safe=False))[0], READINGS[:50])
    close()
    sink = Kept()
    pipeline, monitor = make_pipeline(tmp_path, sink, is_replayed=False)
    assert (pipeline.restoring, monitor.counts()["replayed"], sink.results) == (50, 0, [])
    repeated, *new = (one for one in READINGS[45:80] if one.device == "box-1")
    acknowledged: list[tuple[Result, int]] = []  # the newest result at that moment, and how many are replayed later

    def acknowledge() -> None:
        acknowledged.append((sink.results[-1], pipeline.restoring))
        if is_killed:
            pipeline.stop()

    assert pipeline.submit(Delivery([repeated]))  # a duplicate of one that has not been published
    assert pipeline.submit(Delivery(new, acknowledge))
    pipeline.on_readings = lambda readings: pipeline.restoring or pipeline.stop()
    pipeline.run()
    ((newest, later),) = acknowledged
    assert (newest.device, newest.time) == (new[-1].device, new[-1].time)
    assert 30 <= later <= 40
    if is_killed:  # the last process's journal stays as it was, and so does what was added to it
        assert pipeline.restoring == later
        close()
        again, monitor = make_pipeline(tmp_path, sink := Kept())
        assert monitor.counts()["replayed"] == 50 + len(new)
        assert push(again, new) == monitor.counts()["duplicates"] == len(new)
    assert len(sink.results) == len(sink.by_reading()) == 50 + len(new)
    for device in {one.device for one in READINGS}:
        times = [one.time for one in sink.results if one.device == device]
        assert times == sorted(times)
    whole = Kept()
    (tmp_path / "whole").mkdir()
    push(make_pipeline(tmp_path / "whole", whole)[0], [*READINGS[:50], *new])
    found, wanted = sink.by_reading(), whole.by_reading()
    assert all(same(found[key], wanted[key]) for key in wanted)


def test_a_full_disk_at_the_start_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    push(make_pipeline(tmp_path, Kept())[0], READINGS[:20])
    close()
    sink = Kept()

    def is_full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("scare.live.journal.Journal", is_full)
        pipeline, _ = make_pipeline(tmp_path, sink)
        assert "cannot save the state: [Errno 28] No space left on device" in pipeline.problems["disk"]
        pipeline.stop()  # so that it does not wait
        assert push(pipeline, READINGS[20:30]) == 0
    assert push(pipeline, READINGS[20:30]) == 10
    assert pipeline.problems == {}
    close()
    _, monitor = make_pipeline(tmp_path, Kept())
    assert monitor.counts()["replayed"] == 30


def test_a_duplicate_is_known_after_a_snapshot_and_a_restart(tmp_path: Path) -> None:
    sink = Kept()
    pipeline, _ = make_pipeline(tmp_path, sink)
    push(pipeline, READINGS[:80])
    close()
    again, monitor = make_pipeline(tmp_path, sink)  # which begins with a snapshot
    push(again, READINGS[:80])
    assert monitor.counts()["duplicates"] == 80


def test_where_to_read_on_in_a_partition_is_part_of_the_state(tmp_path: Path) -> None:
    pipeline, _ = make_pipeline(tmp_path, Kept())
    some = [replace(one, offset=1000 + index) for index, one in enumerate(READINGS[:30])]
    for wanted, reading in ((1010, some[:10]), (1020, some[10:20]), (1020, some[:5]), (1030, some[20:])):
        push(pipeline, reading)
        assert pipeline._store.position == wanted
        close()
        pipeline, _ = make_pipeline(tmp_path, Kept())  # of the journal
        assert pipeline._store.position == wanted
        close()
        pipeline, _ = make_pipeline(tmp_path, Kept())  # of the snapshot alone
        assert pipeline._store.position == wanted


def test_a_batch_that_a_power_failure_cut_off_is_fetched_again_as_a_whole(tmp_path: Path) -> None:
    pipeline, _ = make_pipeline(tmp_path, Kept())
    # In the journal they are in order of time: here the one that was fetched first is the last.
    batch = [replace(one, offset=1009 - index) for index, one in enumerate(READINGS[:10])]
    pipeline.process([Delivery(batch[::-1])])
    assert pipeline._store.position == 1010
    close()
    newest = max((tmp_path / "state").glob("journal-*"))
    newest.write_bytes(newest.read_bytes()[:-5])
    pipeline, monitor = make_pipeline(tmp_path, Kept())
    assert (monitor.counts()["replayed"], pipeline._store.position) == (9, 0)


def test_readings_that_wait_do_not_set_back_where_to_read_on(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.take(FleetState({}, {}, {}))
    waiting = [replace(one, offset=1000 + index) for index, one in enumerate(READINGS[:10])]
    store.append(waiting)
    store.take(FleetState({}, {}, {}), waiting[:2])
    store.close()
    again = Store(tmp_path)
    again.state()
    assert [one.time for one in again.readings()] == [one.time for one in waiting[:2]]
    assert again.position == 1010
    again.close()


def test_a_delivery_larger_than_the_capacity_waits_for_the_clock() -> None:
    guard = ClockGuard(2)
    ahead = Delivery(READINGS[:3])
    before, after = READINGS[0].time - 86400, READINGS[2].time
    assert guard.sort_out([ahead, Delivery(READINGS[3:4])], before) == []
    assert guard.kept_back == [ahead]  # Kafka is not asked for more until it is processed
    assert guard.sort_out([], before) == []
    assert guard.kept_back == [ahead]
    guard.sort_out([Delivery([one]) for one in READINGS[:60]], after + 86400)
    assert guard.kept_back == []


def test_the_journal_is_cut_at_the_snapshot(tmp_path: Path) -> None:
    sink = Kept()
    pipeline, _ = make_pipeline(tmp_path, sink)
    for start in range(0, 200, 50):
        push(pipeline, READINGS[start : start + 50])
        pipeline.snapshot()
    files = sorted(path.name for path in (tmp_path / "state").iterdir())
    assert files == [*(f"journal-{number:08d}.log" for number in range(1, 6)), "lock", "snapshot-00000005.safetensors"]
    assert sink.kept == [0, 1, 2, 3, 4]  # sinks first: then readings may be forgotten
    assert [len(list(read_journal(tmp_path / "state" / name))) for name in files[:5]] == [50, 50, 50, 50, 0]
    for name in files[:4]:
        os.utime(tmp_path / "state" / name, (1, 1))
    pipeline.snapshot()
    names = sorted(path.name for path in (tmp_path / "state").glob("journal*"))
    assert names == ["journal-00000005.log", "journal-00000006.log"]


def test_without_a_table_of_sites_none_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    files = ModelFiles(save_models(tmp_path), Calibrator.load, Monitor())
    (tmp_path / "changed").mkdir()  # which changes the current folder
    files.load_changed_sites()
    assert not caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="Linux would run it: a process that writes beside another")
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_snapshot_is_written_while_readings_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    sink, state = Kept(), tmp_path / "state"
    monkeypatch.setattr("scare.windowing.device_arrays.LARGE", 1)  # memory as that of a fleet
    pipeline, _ = make_pipeline(tmp_path, sink)
    push(pipeline, READINGS[:50])
    begin, may_begin = os.pipe()

    def write_later(*args: Any) -> None:
        os.read(begin, 1)  # after the readings below
        write_snapshot(*args)

    with monkeypatch.context() as patch:
        patch.setattr("scare.live.journal.write_snapshot", write_later)
        patch.setattr("os.closerange", lambda *_: None)
        pipeline.snapshot(aside=True)
    child, number = pipeline._store._writing
    if is_killed:
        os.kill(child, signal.SIGKILL)
    push(pipeline, READINGS[50:90])
    os.write(may_begin, b".")
    os.close(begin), os.close(may_begin)
    wait_for(lambda: (pipeline.poll(), not pipeline._store.is_writing)[1])
    assert (state / f"snapshot-{number:08d}.safetensors").exists() is not is_killed
    assert ("was ended by signal 9" in pipeline.problems.get("disk", "")) is is_killed
    close()
    pipeline, monitor = make_pipeline(tmp_path, sink)
    assert monitor.counts()["replayed"] == (90 if is_killed else 40)
    push(pipeline, READINGS[90:])
    whole = Kept()
    (tmp_path / "whole").mkdir()
    push(make_pipeline(tmp_path / "whole", whole)[0], READINGS)
    found, wanted = sink.by_reading(), whole.by_reading()
    assert found.keys() == wanted.keys()
    assert all(same(found[key], wanted[key]) for key in wanted)


@pytest.mark.parametrize("cut", [1, 9, 30])
def test_a_line_cut_off_ends_the_journal(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.append(READINGS[:3])
    path.write_bytes(path.read_bytes()[:-cut])
    assert [one and one.time for one in read_journal(path)] == [one.time for one in READINGS[:2]]
    damaged = bytearray(path.read_bytes())
    damaged[12] ^= 1
    path.write_bytes(damaged)
    assert [one and one.time for one in read_journal(path)] == [None, READINGS[1].time]


def test_a_flipped_byte_costs_one_reading_and_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    push(make_pipeline(tmp_path, Kept())[0], READINGS[:50])
    close()
    journal = tmp_path / "state" / "journal-00000001.log"
    damaged = bytearray(journal.read_bytes())
    damaged[20] ^= 1
    journal.write_bytes(damaged)
    for foreign in ("journal-old.log", "snapshot-.safetensors", "journal-00000009.log.bak", "notes.txt"):
        (tmp_path / "state" / foreign).write_text("not ours")
    sink = Kept()
    _, monitor = make_pipeline(tmp_path, sink)
    assert (len(sink.results), monitor.counts()["damaged"]) == (49, 1)
    assert "skipped 1 damaged lines and used the others" in caplog.text
    assert (tmp_path / "state" / "damaged-journal-00000001.log").read_bytes() == damaged


def test_journals_restore_without_a_snapshot(tmp_path: Path) -> None:
    pipeline, _ = make_pipeline(tmp_path, Kept())
    push(pipeline, READINGS[:50])
    pipeline.snapshot()
    push(pipeline, READINGS[50:90])
    close()
    for snapshot in (tmp_path / "state").glob("snapshot-*"):
        snapshot.unlink()
    sink = Kept()
    pipeline, _ = make_pipeline(tmp_path, sink)
    push(pipeline, READINGS[90:])
    whole = Kept()
    (tmp_path / "whole").mkdir()
    push(make_pipeline(tmp_path / "whole", whole)[0], READINGS)
    found, wanted = sink.by_reading(), whole.by_reading()
    assert found.keys() == wanted.keys()
    assert all(same(found[key], wanted[key]) for key in wanted)


def test_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit on the size of files fails as a full disk does, in the middle of a line; so does the second attempt."""
    resource = pytest.importorskip("resource")
    sink, old = Kept(), resource.getrlimit(resource.RLIMIT_FSIZE)
    pipeline, _ = make_pipeline(tmp_path, sink)
    push(pipeline, READINGS[:20])

    def free_space(_: float) -> bool:
        problems.append(pipeline.problems["disk"])
        if len(problems) == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, old)
        return False

    problems = list[str]()
    monkeypatch.setattr(pipeline._stop, "wait", free_space)
    journal = tmp_path / "state" / "journal-00000001.log"
    resource.setrlimit(resource.RLIMIT_FSIZE, (journal.stat().st_size + 100, old[1]))
    try:
        assert push(pipeline, READINGS[20:40]) == 20
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert problems == 2 * ["cannot write the journal: File too large; no readings are accepted until it can be"]
    assert pipeline.problems == {}
    assert [one and one.time for one in read_journal(journal)] == [one.time for one in READINGS[:40]]


def test_a_damaged_snapshot_and_a_folder_in_use_are_told(tmp_path: Path) -> None:
    make_pipeline(tmp_path, Kept())
    with pytest.raises(UsageError, match="in use by another"):
        Store(tmp_path / "state")
    close()
    (snapshot,) = (tmp_path / "state").glob("snapshot-*")
    snapshot.write_bytes(snapshot.read_bytes()[:40])
    with pytest.raises(DataError, match="not a snapshot"):
        make_pipeline(tmp_path, Kept())


def test_a_model_replaced_on_disk_goes_on_with_the_windows(tmp_path: Path) -> None:
    sink = Kept()
    pipeline, monitor = make_pipeline(tmp_path, sink)
    readings = [Reading("box-1", START + 60 * row, {"pm25": 20.0 + row % 7, "current": 300.0}) for row in range(40)]
    push(pipeline, readings[:20], 1)
    file = tmp_path / "dust.scare"
    calibrator = Calibrator.load(file)
    file.write_bytes(b"half a file")
    pipeline.poll()
    push(pipeline, readings[20:25], 1)
    shifted(calibrator, 100.0).save(file)
    os.utime(file, ns=(1, 1))
    pipeline._next_model_poll = 0.0
    pipeline.poll()
    push(pipeline, readings[25:], 1)
    pairs = zip(sink.results, expected(calibrator, readings), strict=True)
    raised = [result.calibrated - wanted.calibrated for result, wanted in pairs]
    assert raised[7:25] == pytest.approx([0.0] * 18, abs=1e-4)
    assert raised[25:] == pytest.approx([100.0] * 15, abs=1e-3)
    counts = monitor.counts()
    assert (counts["models_refused"], counts["models_replaced"]) == (1, 1)


def test_a_replaced_model_with_other_channels_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sink = Kept()
    pipeline, monitor = make_pipeline(tmp_path, sink)
    calibrator = Calibrator.load(tmp_path / "dust.scare")
    first, *others = calibrator.inputs.channels
    renamed = replace(calibrator.inputs, channels=(replace(first, name="no2"), *others))
    replace(calibrator, inputs=renamed).save(tmp_path / "dust.scare")
    os.utime(tmp_path / "dust.scare", ns=(1, 1))
    pipeline.poll()
    assert (monitor.counts()["models_refused"], monitor.counts()["models_replaced"]) == (1, 0)
    assert "it reads no2, and no model did at the start" in caplog.text
    push(pipeline, READINGS[:20])
    assert len(sink.results) == 20


def test_devices_and_queued_readings_are_limited(tmp_path: Path) -> None:
    sink = Kept()
    pipeline, monitor = make_pipeline(tmp_path, sink, replace(LIMITS, queue=3, devices=2))
    some = [Reading(name, START, {"pm25": 1.0, "current": 1.0}) for name in ("a", "b", "c")]
    assert push(pipeline, some) == 3  # a rejected reading is acknowledged too
    assert [one.device for one in sink.results] == ["a", "b"]
    assert "limits.devices allows 2 devices" in monitor.rejections()[0].reason
    assert [pipeline.submit(Delivery((one,))) for one in [*some, some[0]]] == [True, True, True, False]
    pipeline.stop()
    pipeline.run()
    assert pipeline.backlog == 0


def test_numbers_that_come_one_by_one_are_acknowledged_with_their_row(tmp_path: Path) -> None:
    sink, done, now = Kept(), list[str](), time()
    pipeline, _ = make_pipeline(tmp_path, sink)
    parts = [Reading("box-1", now, {"pm25": 5.0}), Reading("box-1", now + 1, {"current": 300.0})]
    pipeline.process([Delivery((parts[0],), lambda: done.append("dust"), partial=True)])
    assert sink.results == done == []
    pipeline.process([Delivery((parts[1],), lambda: done.append("current"), partial=True)])
    assert [(one.time, one.raw) for one in sink.results] == [(now, 5.0)]
    assert done == ["dust", "current"]


def part(device: str, time: float, **values: float) -> Reading:
    return Reading(device, time, values)


def test_numbers_that_come_one_by_one_become_a_row_when_all_are_there() -> None:
    assembler, done = RowAssembler(lambda _: (frozenset(("pm25", "temperature")), 60.0)), []
    assert assembler.add(part("a", 0.0, pm25=1.0), lambda: done.append(1)) == []
    assert assembler.add(part("b", 1.0, pm25=9.0), lambda: done.append(9)) == []
    (row,) = assembler.add(part("a", 2.0, temperature=2.0), lambda: done.append(2))
    assert row.readings == (Reading("a", 0.0, {"pm25": 1.0, "temperature": 2.0}),)
    row.acknowledge()
    assert done == [1, 2]


def test_a_row_waits_half_a_step_and_goes_without_what_is_missing() -> None:
    assembler = RowAssembler(lambda _: (frozenset(("pm25", "temperature")), 60.0))
    assert assembler.add(part("a", 0.0, pm25=1.0), print) == []
    assert assembler.finish_due(30.0) == []
    ((reading,),) = (row.readings for row in assembler.finish_due(30.5))
    assert (reading.values["pm25"], math.isnan(reading.values["temperature"])) == (1.0, True)
    assert assembler.finish_due(100.0) == []
    assembler.add(part("a", 100.0, pm25=1.0), print)
    assembler.add(part("a", 110.0, pm25=3.0), print)  # the newer one counts
    ((late,),) = (row.readings for row in assembler.add(part("a", 160.0, pm25=2.0), print))
    assert replace(late, values={"pm25": late.values["pm25"]}) == part("a", 100.0, pm25=3.0)


@pytest.mark.parametrize("is_replayed", [True, False])  # by `restore`, by `run`
def test_readings_before_a_snapshot_are_known_after_a_restart_whatever_the_device_is_called(
    tmp_path: Path, is_replayed: bool
) -> None:
    name = 'Box "3", Räume [a,b]\\'
    readings = [Reading(name, START + 60 * row, {"pm25": 20.0 + row, "current": 300.0}) for row in range(3)]
    pipeline, _ = make_pipeline(tmp_path, Kept())
    push(pipeline, readings)
    pipeline.snapshot()
    close()
    sink = Kept()
    again, monitor = make_pipeline(tmp_path, sink, is_replayed=is_replayed)
    if not is_replayed:
        again.stop()
        again.run()
    assert push(again, readings) == 3  # delivered again, acknowledged
    assert sink.results == []
    assert monitor.counts()["duplicates"] == 3


def test_many_devices_keep_fewer_results_each_and_those_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scare.live.recent_results.MOST", 64 * 100)
    recent = Recent()
    for row in range(150):
        recent.publish([Result("box-0", float(row), row, row, row, row, 0, "pm")])
    recent.publish([Result(f"box-{index}", 0.0, 1.0, 1.0, 1.0, 1.0, 0, "pm") for index in range(1, 128)])
    assert recent.device("box-0")["time"] == [float(row) for row in range(100, 150)]
    recent.publish([Result("box-0", 150.0, 150.0, 150.0, 150.0, 150.0, 0, "pm")])
    assert recent.device("box-0")["calibrated"] == [float(row) for row in range(101, 151)]
    assert recent.device("box-90")["time"] == [0.0]


def test_results_come_in_while_a_page_reads_the_rows_of_all_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    results = [Result(f"box-{index}", 0.0, 1.0, 1.0, 1.0, 1.0, 0, "pm") for index in range(30)]
    recent = Recent()
    recent.publish(results)
    monkeypatch.setattr("scare.live.recent_results.SLICE", 20)
    newer = [replace(one, time=60.0) for one in results]
    monkeypatch.setattr("scare.live.recent_results.sleep", lambda _: recent.publish(newer))  # it has the lock
    number, rows = recent.changed(-1)
    assert [row[2] for row in rows] == [0.0] * 20 + [60.0] * 10
    assert number == 1
    assert [row[2] for row in recent.changed(number)[1]] == [60.0] * 30  # all that is newer, told again or not


def test_results_name_site_product_and_level_and_a_changed_table_of_sites_is_used(tmp_path: Path) -> None:
    save_models(tmp_path)
    models = {"dust": Model(str(tmp_path / "dust.scare"))}
    table = tmp_path / "sites.csv"
    table.write_text("site,device,from,to\nMain Street,box-1,,\n")
    sink, monitor, store = Kept(), Monitor(), Store(tmp_path / "state")
    STORES.append(store)
    files = ModelFiles(models, Calibrator.load, monitor, str(table))
    pipeline = Pipeline(files, store, [sink], monitor, LIMITS)
    pipeline.restore()
    push(pipeline, sent_every(60.0, 3), 1)
    version = product_version(tmp_path / "dust.scare")
    assert {(one.site, one.product, one.level) for one in sink.results} == {("Main Street", version, "2B")}
    table.write_text("site,device,from,to\nHarbour,box-1,,\nMain Street,box-2,,\n")
    pipeline._next_model_poll = 0.0
    pipeline.poll()
    push(pipeline, [replace(one, time=one.time + 600) for one in sent_every(60.0, 1)], 1)
    assert sink.results[-1].site == "Harbour"
    table.write_text("place,box\n")
    files.load_changed_sites()
    assert files.sites.at("box-2", 0.0) == "Main Street"  # the old table stays
