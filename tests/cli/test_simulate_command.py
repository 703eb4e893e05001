"""`scare simulate`: what is asked for is what is written, a drift with it."""

import json
from pathlib import Path

import polars as pl
import pytest

from tests.cli.output import RunCli

LINE = "scare simulate --boxes 2 --days 2 --step 600 --seed 3 --json"


def test_a_drift_is_of_its_box_from_its_day_on(scare: RunCli) -> None:
    printed = [
        json.loads(scare(f"{LINE} {drift} --out {name}.csv").out)
        for name, drift in (("a", ""), ("b", "--drift offset:box-02:1"))
    ]
    assert [one["drifts"] for one in printed] == [
        [],
        [{"kind": "offset", "box": 1, "day": 1.0, "ramp_days": 14.0, "size": 0.0}],
    ]
    before, after = (pl.read_csv(f"{name}.csv") for name in "ab")
    changed = before.filter(before["pm25_raw"].ne_missing(after["pm25_raw"]))
    assert set(changed["device"]) <= {"box-02"}
    assert (changed["time"] >= "2026-01-02").all()


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--drift rust:box-01:3", "write one of gain, offset, humidity, dying, a box and a day: gain:box-02:20"),
        ("--drift gain:box-07:1", "no box-07 to drift; the last is box-02"),
        ("--apart 3", "give a share from 0 to 1"),
    ],
)
def test_what_cannot_be_simulated_is_said(scare: RunCli, option: str, sentence: str) -> None:
    output = scare(f"{LINE} {option} --out a.csv")
    assert output.code == 2
    assert sentence in " ".join(output.err.split())
    assert not Path("a.csv").exists()
