"""`scare watch`: a fleet's readings in, a page and its numbers out, or a sentence and nothing."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from tests.cli.output import RunCli

PAGE = Path(__file__).parents[2] / "docs" / "watch.md"


def test_the_page_the_numbers_and_the_table_agree(scare: RunCli, model: Path, sim: Path) -> None:
    output = scare(f"scare watch {model} {sim} --out w --json")
    assert output.code == 0, output.err
    printed = json.loads(output.out)
    assert printed.pop("page") == "w/watch.html"
    assert printed == json.loads(Path("w/watch.json").read_text())
    assert [one["device"] for one in printed["boxes"]] == ["box-01", "box-02", "box-03", "box-04"]
    assert printed["states"] == {"re-collocate": 0, "look": 0, "fine": 0, "cannot be judged": 4}
    assert "a change cannot be measured in 1 day; give at least 8" in " ".join(output.err.split())
    page = Path("w/watch.html").read_text(encoding="utf-8")
    assert page.count('class="grade none"') == page.count("<polyline") == 4
    assert "re-collocate particle sensors every 12 months: these have learned until" in " ".join(output.err.split())
    assert printed["schedule"][1:] in page
    assert "http" not in page.replace("http-equiv", "")
    assert "--bad:" in page  # the colours of its badges
    assert "box-03" in scare(f"scare watch {model} {sim} --out w").out


def test_a_box_may_be_in_several_files(scare: RunCli, model: Path, sim: Path) -> None:
    rows = pl.read_parquet(sim)
    noon = rows["time"].min() + pl.duration(hours=6)
    rows.filter(pl.col("time") <= noon).write_csv("one.csv")
    rows.filter(pl.col("time") >= noon).sort("time").write_csv("two.csv")
    whole, parts = (scare(f"scare watch {model} {files} --out w --json") for files in (sim, "two.csv one.csv"))
    assert json.loads(whole.out) == json.loads(parts.out)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("scare watch nowhere.scare {sim} --out w", "nowhere.scare: no such file"),
        ("scare watch {model} nowhere.csv --out w", "nowhere.csv"),
        ("scare watch {model} other.csv --out w", "no column 'pm25_raw'"),
        ("scare watch {model} dead.parquet --out w", "no row of any box has a calibrated value"),
        ("scare watch {model} {sim} --out other.csv", "cannot write"),
    ],
)
def test_what_cannot_be_watched_is_said_and_nothing_is_written(
    scare: RunCli, model: Path, sim: Path, line: str, sentence: str
) -> None:
    Path("other.csv").write_text("time,co2\n2026-01-01T00:00:00Z,400\n2026-01-01T00:01:00Z,401\n")
    pl.read_parquet(sim).with_columns(pl.lit(None, pl.Float64).alias("pm25_raw")).write_parquet("dead.parquet")
    before = set(Path().rglob("*"))
    output = scare(line.format(model=model, sim=sim))
    assert output.code in (2, 3), output.err
    assert sentence in " ".join(output.err.split())
    assert set(Path().rglob("*")) == before


def test_the_lines_of_its_page_run(scare: RunCli) -> None:
    lines = re.findall(r"^\$ (scare .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) == 4
    output = {line: scare(line) for line in lines}
    assert [one.err for one in output.values() if one.code] == []
    printed = json.loads(Path("out/watch/watch.json").read_text())
    assert printed["notes"] == []
    assert printed["boxes"][0]["device"] == "box-02"
    assert printed["boxes"][0]["state"] == "re-collocate"
    rest = [one["expected_error"] for one in printed["boxes"][1:]]
    assert rest == sorted(rest, reverse=True)
    assert len(printed["boxes"][0]["expected_error_by_day"]) == 60
    assert [one["state"] for one in printed["boxes"][1:]] == ["fine"] * 5
