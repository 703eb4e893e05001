"""A run folder is read as it was written; training rows are not scored; another folder is refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare.data.flags import Flag
from scare.errors import DataError
from scare.scorecard.run_folder import read_run
from scare.scorecard.series import pool
from tests.report.small_run import card, dataset, series, write_files, write_run


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return series(boxes=2, days=0.5)


def test_series_raw_and_humidity_are_found(table: pl.DataFrame, tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, table))
    assert [one.device for one in run.series] == ["box-01", "box-02"]
    assert (run.raw.name, run.humidity.name if run.humidity else "") == ("pm25_raw", "humidity")
    assert run.comparable
    first = run.series[0]
    known = table.filter(pl.col("device") == "box-01")
    np.testing.assert_array_equal(first.calibrated, known["calibrated"].fill_null(np.nan).to_numpy())
    assert (
        len(first.scored) == known.select(pl.all_horizontal(pl.col("reference", "calibrated").is_finite()).sum()).item()
    )


def test_the_order_of_rows_in_the_file_does_not_matter(table: pl.DataFrame, tmp_path: Path) -> None:
    whole = read_run(write_run(tmp_path / "a", table))
    mixed = read_run(write_run(tmp_path / "b", table.sample(fraction=1.0, shuffle=True, seed=1)))
    for one, other in zip(whole.series, sorted(mixed.series, key=lambda each: each.device), strict=True):
        np.testing.assert_array_equal(one.changes, other.changes)


def test_rows_of_training_are_shown_but_not_scored(table: pl.DataFrame, tmp_path: Path) -> None:
    times = table["time"].unique().sort()
    period = [f"{times[0]:%Y-%m-%dT%H:%M:%SZ}", f"{times[300]:%Y-%m-%dT%H:%M:%SZ}"]
    facts = dataset(table, training_devices=["box-02"], training_period=period)
    first, second = read_run(write_run(tmp_path, table, dataset=facts)).series
    assert not first.trained.any()
    assert second.trained.sum() == 301
    assert len(second) == len(first)
    assert second.scored.times.min() > second.times[300]
    assert pool([first, second], "both").trained.sum() == 301


def test_a_flag_of_another_channel_leaves_the_raw_reading(table: pl.DataFrame, tmp_path: Path) -> None:
    odd = table.with_columns(
        pl.when(pl.int_range(pl.len()) == 5).then(int(Flag.SENTINEL)).otherwise("flags").alias("flags")
    )
    plain, marked = (read_run(write_run(tmp_path / name, one)).series[0] for name, one in (("a", table), ("b", odd)))
    np.testing.assert_array_equal(marked.raw, plain.raw)
    np.testing.assert_array_equal(marked.changes, plain.changes)


def test_without_a_humidity_channel_there_is_none(table: pl.DataFrame, tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, table.drop("humidity")))
    assert run.humidity is None
    assert np.isnan(run.series[0].humidity).all()


def test_another_unit_is_not_comparable(table: pl.DataFrame, tmp_path: Path) -> None:
    assert not read_run(write_run(tmp_path, table, target={"name": "no2", "unit": "ppb"})).comparable


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _write(name: str, content: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(content, encoding="utf-8") and None


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_remove("scorecard.json"), "scorecard.json"),
        (_remove("series.parquet"), "there is no such file; write the folder again with scare score --out"),
        (_write("scorecard.json", "{"), "scorecard.json"),
        (_write("scorecard.json", "[]"), "scorecard.json"),
        (_write("scorecard.json", '{"schema": "scare/scorecard/99"}'), "scare/scorecard/2"),
        (_write("series.parquet", "no parquet"), "not readable as Parquet"),
    ],
)
def test_a_folder_that_is_no_run_is_refused(
    table: pl.DataFrame, tmp_path: Path, spoil: Callable[[Path], None], words: str
) -> None:
    folder = write_run(tmp_path, table)
    spoil(folder)
    with pytest.raises(DataError, match=words):
        read_run(folder)


def test_series_without_a_column_or_a_row_to_score_are_refused(table: pl.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column calibrated, flags"):
        read_run(write_files(tmp_path / "a", table.drop("calibrated", "flags"), card(table)))
    with pytest.raises(DataError, match="'time' holds no times"):
        read_run(write_files(tmp_path / "b", table.with_columns(time=pl.lit("noon")), card(table)))
    with pytest.raises(DataError, match="no row to score"):
        read_run(write_files(tmp_path / "c", table.with_columns(reference=pl.lit(None, pl.Float64)), card(table)))
    with pytest.raises(DataError, match="its dataset has no training_devices, training_period, validation_devices"):
        read_run(write_files(tmp_path / "d", table, card(table, dataset={"channels": [], "inputs": []})))
    with pytest.raises(DataError, match="its board has no title, fits, reasons, arithmetic"):
        read_run(write_files(tmp_path / "e", table, card(table, board={"board": "nano33ble"})))
    with pytest.raises(DataError, match="is not a folder"):
        read_run(tmp_path / "nowhere")
