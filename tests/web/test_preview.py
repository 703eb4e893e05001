"""Previews show what training will see."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scare.data.tables import read_table
from scare.web.preview import main, preview_colocation, preview_file
from scare.web.session_setup import Selections, make_setup
from tests.web.journeys import purpleair_and_aqs
from tests.web.tables import LOCAL, frame, write_messy, write_tidy


def test_a_picture_has_the_extremes_of_its_column_and_a_break_at_its_gap(tmp_path: Path) -> None:
    rows = frame(4000)
    pl.concat([rows[:1000], rows[1100:]]).write_csv(tmp_path / "a.csv")
    found = preview_file(tmp_path / "a.csv")
    column = read_table(tmp_path / "a.csv")["pm25_raw"]
    times, values = found["pictures"]["pm25_raw"]
    known = [value for value in values if value is not None]
    assert len(times) == len(values) < 500
    assert (min(known), max(known)) == pytest.approx((column.min(), column.max()), rel=1e-4)
    gap = values.index(None)
    assert times[gap + 1] - times[gap - 1] >= 100 * 600
    assert [one["looks"] for one in found["columns"]] == ["time", "sensor", "temperature", "humidity", "reference"]


def test_together_finds_the_clock_that_is_an_hour_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "files").mkdir()
    sensor, station = write_messy(tmp_path / "files")
    previews = {path.name: preview_file(path) for path in (sensor, station)}
    for applied in (False, True):
        setup = make_setup(previews, Selections(apply_offset=applied, window=8))
        (tmp_path / "draft.toml").write_text(setup.config(), encoding="utf-8")
        found = preview_colocation(Path("draft.toml"), [Path("files") / name for name in setup.sensors])
        assert found["clock"]["seconds"] == -LOCAL
        starts = {one["part"]: one["from"] for one in found["parts"]}
        first = datetime(2026, 3, 1, tzinfo=UTC).timestamp() + (0 if applied else LOCAL)
        assert starts["train"] == first < starts["validation"] < starts["test"]
        assert found["first"]["unit"] == "µg/m³"


def test_it_prints_json_or_one_error_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def asked(*words: Any) -> tuple[int, str, str]:
        return main([str(word) for word in words]), *capsys.readouterr()

    code, out, err = asked(write_tidy(tmp_path / "a.csv", 100), "{}")
    assert (code, json.loads(out)["rows"], err) == (0, 100, "")
    (tmp_path / "b.csv").write_text("time,a\n3/4/2026,1\n5/4/2026,2\n")
    code, out, err = asked(tmp_path / "b.csv", "{}")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "use --dates day-first or --dates month-first" in err
    dates = json.dumps({"dates": "month-first"})
    assert json.loads(asked(tmp_path / "b.csv", dates)[1])["first"] == "2026-03-04T00:00:00+00:00"


def test_only_readings_in_a_unit_that_converts_are_drawn_on_one_axis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "files").mkdir()
    preview = preview_file(write_tidy(tmp_path / "files" / "a.csv", 400))
    raw = read_table(tmp_path / "files" / "a.csv")["pm25_raw"]
    for unit, factor in (("ug/m3", 1.0), ("mg/m3", 1000.0), ("kOhm", None)):
        setup = make_setup({"a.csv": preview}, Selections(units={"a.csv": {"pm25_raw": unit}}, window=8))
        (tmp_path / "draft.toml").write_text(setup.config(), encoding="utf-8")
        found = preview_colocation(Path("draft.toml"), [Path("files/a.csv")])["first"]
        assert found["comparable"] == (factor is not None)
        assert found["picture"][1][0] == pytest.approx((factor or 1.0) * raw[0], rel=1e-4)


def test_a_file_of_a_reference_alone_is_paired_with_a_sensor(tmp_path: Path) -> None:
    previews = {path.name: preview_file(path) for path in purpleair_and_aqs(tmp_path, days=3)}
    setup = make_setup(previews, Selections())
    assert (setup.sensors, setup.reference_file, setup.quantity) == (("purpleair.csv",), "hourly_88101.csv", "PM2.5")
    times = [name for name, role in setup.roles["hourly_88101.csv"].items() if role == "time"]
    assert times == ["Date GMT", "Time GMT"]
