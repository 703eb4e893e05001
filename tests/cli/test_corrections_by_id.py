"""A published correction is named wherever a model file is, and reads the columns that a table has for it."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.cli.output import RunCli

ROWS = 900


@pytest.fixture
def table(tmp_path: Path) -> pl.DataFrame:
    """A PurpleAir beside a reference, a reading every two minutes; written to purpleair.csv."""
    rng = np.random.default_rng(0)
    times = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=2 * row) for row in range(ROWS)]
    pm, humidity = 20 + 5 * rng.random(ROWS), 40 + 10 * rng.random(ROWS)
    columns = {"time": times, "pm2.5_cf_1": pm, "pm2.5_atm": pm - 1, "humidity": humidity, "Ref.PM2.5": 0.5 * pm + 2}
    table = pl.DataFrame(columns).with_columns(pl.col(pl.Float64).round(2))
    table.write_csv("purpleair.csv")
    return table


def barkjohn(table: pl.DataFrame) -> list[float]:
    """Barkjohn et al. 2021: 0.524 · PA_cf1 − 0.0862 · RH + 5.75."""
    return (0.524 * table["pm2.5_cf_1"] - 0.0862 * table["humidity"] + 5.75).to_list()


def test_predict_finds_columns_and_time_step(scare: RunCli, table: pl.DataFrame) -> None:
    output = scare("scare predict barkjohn-2021 purpleair.csv --out out.csv")
    assert output.code == 0, output.err
    assert "takes pm from 'pm2.5_cf_1', humidity from 'humidity'; a reading every 2 minutes" in output.err
    assert pl.read_csv("out.csv")["calibrated"].to_list() == pytest.approx(barkjohn(table), abs=1e-3)


@pytest.mark.parametrize("by_table", [False, True])
def test_an_archive_takes_one_too_and_resumes(scare: RunCli, table: pl.DataFrame, by_table: bool) -> None:
    Path("network").mkdir()
    for name in ("a", "b"):
        table.write_csv(f"network/{name}.csv")
    Path("models.csv").write_text("device,model\n*,barkjohn-2021\n")
    command = "network --models models.csv" if by_table else "barkjohn-2021 network"
    first, again = (scare(f"scare predict {command} --out calibrated") for _ in range(2))
    assert first.code == again.code == 0, first.err
    assert "This run: 2 files" in first.err
    assert "This run: 0 files" in again.err
    for name in ("a", "b"):
        values = pl.read_parquet(f"calibrated/{name}.parquet")["calibrated"].to_list()
        assert values == pytest.approx(barkjohn(table), abs=1e-3)


def test_info_score_watch_and_update_take_one(scare: RunCli, table: pl.DataFrame) -> None:
    assert "0.524" in scare("scare info barkjohn-2021").out
    columns = "--channels pm2.5_cf_1,humidity --reference Ref.PM2.5"
    for command in (
        f"score barkjohn-2021 --data purpleair.csv {columns} --out run --json",
        "watch barkjohn-2021 purpleair.csv --out watch --json",
        f"update barkjohn-2021 purpleair.csv {columns} --out own.scare --json",
    ):
        output = scare(f"scare {command}")
        assert output.code == 0, (command, output.err)
        assert json.loads(output.out)


def test_a_table_without_its_columns_is_named_with_what_is_missing(scare: RunCli, table: pl.DataFrame) -> None:
    table.drop("humidity").write_csv("dry.csv")
    output = scare("scare predict barkjohn-2021 dry.csv")
    assert output.code == 3
    assert "dry.csv: barkjohn-2021 needs RH: no channel has such a name" in output.err
    assert "did you mean 'barkjohn-202" in scare("scare predict barkjohn-202 dry.csv").err
