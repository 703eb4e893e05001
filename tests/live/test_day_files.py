"""Results in files: a day and a model each, nothing twice, whatever is written again."""

from pathlib import Path
from urllib.parse import unquote

import polars as pl
import pytest

from scare.live.day_files import ParquetFiles, as_table, merge_parts
from scare.live.pipeline import Result
from tests.live.small_gateway import START, close, draw_readings, make_pipeline
from tests.live.test_pipeline import push

DAY = 86400.0
INDEX = ("index", "index_category")
OUTSIDE = ("outside_ranges", "outside_channel")


def result(device: str, time: float, model: str = "dust", calibrated: float = 1.0) -> Result:
    return Result(device, time, 2.0, calibrated, calibrated - 1, calibrated + 2, 0, model)


def test_a_row_is_what_a_reading_became() -> None:
    table = as_table([result("a", START, calibrated=float("nan"))])
    numbers = ["raw", "calibrated", "low", "high"]
    assert table.columns == ["device", "time", *numbers, "flags", "model", "site", "product", "level", *INDEX, *OUTSIDE]
    assert table.row(0)[3:6] == (None, None, None)
    assert table["time"].dt.epoch("s").to_list() == [int(START)]


def test_days_and_models_are_apart_and_a_day_that_is_over_is_one_file(tmp_path: Path) -> None:
    files = ParquetFiles(tmp_path)
    for number, time in enumerate([START, START + 60, START + DAY, START + DAY + 60]):
        files.publish([result("a", time), result("b", time, "gas")])
        files.keep(number)
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet"))
    assert names == [
        "2025-06-15/dust.parquet",
        "2025-06-15/gas.parquet",
        "2025-06-16/dust.00000002.parquet",
        "2025-06-16/dust.00000003.parquet",
        "2025-06-16/gas.00000002.parquet",
        "2025-06-16/gas.00000003.parquet",
    ]
    assert pl.read_parquet(tmp_path / "*/dust*.parquet").height == 4


@pytest.mark.parametrize(("model", "other"), [("pm", "pm.2"), ("pm[1]", "pm1"), ("PM 2.5/µ", "PM 2.5%2Fµ")])
def test_any_name_of_a_model_has_files_of_its_own(tmp_path: Path, model: str, other: str) -> None:
    files = ParquetFiles(tmp_path)
    for number, time in enumerate([START, START + 60, START + DAY]):
        files.publish([result("a", time, model), result("b", time, other), result("b", time + 1, other)])
        files.keep(number)
    days = sorted(path for path in tmp_path.rglob("*.parquet") if path.parent.name == "2025-06-15")
    rows = {unquote(path.stem): pl.read_parquet(path)["device"].to_list() for path in days}
    assert rows == {model: ["a"] * 2, other: ["b"] * 4}


def test_many_parts_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scare.live.day_files.MAX_PARTS", 4)
    files = ParquetFiles(tmp_path)
    for number in range(6):
        files.publish([result("a", START + number)])
        files.keep(number)
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    assert pl.read_parquet(tmp_path / "*/*.parquet").height == 6


@pytest.mark.parametrize("is_merged", [False, True])  # what the process before has written
def test_a_process_that_is_killed_while_it_replays_writes_nothing_twice(tmp_path: Path, is_merged: bool) -> None:
    readings, files = draw_readings(5, 40), ParquetFiles(tmp_path / "out")
    pipeline, _ = make_pipeline(tmp_path, files)
    push(pipeline, readings[:90])
    files.keep(pipeline._store.number)  # dies before the snapshot
    (day,) = (tmp_path / "out").iterdir()
    if is_merged:
        for model in ("dust", "gas"):
            merge_parts(day, model)
    close()
    pipeline, _ = make_pipeline(tmp_path, ParquetFiles(tmp_path / "out"), is_replayed=False)
    push(pipeline, readings[90:])  # in a journal with another number
    pipeline.snapshot()
    table = pl.read_parquet(day / "*.parquet")
    assert table.height == len(readings)
    assert table.select("device", "time").is_duplicated().sum() == 0


def test_a_damaged_file_is_kept_under_another_name_and_the_others_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("scare.live.day_files.MAX_PARTS", 4)
    files = ParquetFiles(tmp_path)
    for number in range(6):
        files.publish([result("a", START + number)])
        files.keep(number)
        if number == 2:
            (part,) = tmp_path.rglob("dust.00000002.parquet")
            part.write_bytes(b"nothing")
    assert pl.read_parquet(tmp_path / "*/*.parquet").height == 5
    assert part.with_name("dust.00000002.parquet.damaged").read_bytes() == b"nothing"
    assert f"{part} cannot be read" in caplog.text


@pytest.mark.parametrize("cut", [40, 90])
def test_a_process_that_dies_writes_nothing_twice(tmp_path: Path, cut: int) -> None:
    readings = draw_readings(5, 40)
    for part in (readings[:cut], readings[cut - 20 :]):
        files = ParquetFiles(tmp_path / "out")
        pipeline, _ = make_pipeline(tmp_path, files)
        push(pipeline, part)
        if cut > 80:
            files.keep(pipeline._store.number)  # dies before the snapshot
        close()
    make_pipeline(tmp_path, ParquetFiles(tmp_path / "out"))
    table = pl.read_parquet(tmp_path / "out" / "*" / "*.parquet")
    assert table.height == len(readings)
    assert table.select("device", "time").is_duplicated().sum() == 0
