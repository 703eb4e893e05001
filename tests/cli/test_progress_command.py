"""`scare progress` as an operator runs it: the advice first, then what is behind it."""

import json
from pathlib import Path

import polars as pl

from tests.cli.output import RunCli


def test_the_advice_comes_first_and_json_has_all_of_it(scare: RunCli, tmp_path: Path) -> None:
    assert scare("scare simulate --boxes 2 --days 9 --seed 5 --out box.csv").code == 0
    table = pl.read_csv("box.csv")
    table.select(pl.exclude("device", "pm25_reference")).write_csv("later.csv")
    output = scare("scare progress box.csv --deployment later.csv --targets cen")
    assert output.code == 0, output.err
    assert output.out.startswith(("Stop: ", "Go on for at least "))
    assert "expected error of hourly means" in output.out
    assert "conditions seen: humidity" in output.out
    assert "second-hand" in output.out
    found = json.loads(scare("scare progress box.csv --json").out)
    assert found["low"] < found["error"] < found["high"]
    assert (found["devices"], found["conditions"]) == (2, [])
    (tmp_path / "other.csv").write_text("time,wind\n2026-01-01,3\n")
    refused = scare("scare progress box.csv --deployment other.csv")
    assert refused.code == 3
    assert "call its columns as those of the sensor" in refused.err
