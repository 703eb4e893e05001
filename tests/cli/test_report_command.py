"""`scare report`: one page from a run folder, and one clear sentence when the folder is none."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scare.errors import ExitCode
from scare.report.chart_data import make_views
from scare.scorecard.run_folder import read_run, summarize
from tests.cli.output import RunCli
from tests.report.small_run import series, write_run
from tests.scorecard.own_targets import HOURLY


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"), series(boxes=2, days=0.3))


@pytest.fixture
def run(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "run"))


def test_the_help_fits_a_terminal(scare: RunCli) -> None:
    output = scare("scare report --help")
    assert output.code == 0
    assert max(map(len, output.out.splitlines())) <= 80
    assert "scare report out/no2" in output.out.split("Examples:")[1]


def test_the_page_is_written_into_the_run(scare: RunCli, run: Path) -> None:
    output = scare("scare report run")
    assert (output.code, output.out) == (0, "")
    assert "run/report.html (0." in output.err
    assert (run / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_targets_of_ones_own_are_graded_from_the_run(scare: RunCli, run: Path, tmp_path: Path) -> None:
    (tmp_path / "hourly.toml").write_text(HOURLY)
    output = scare("scare report run --targets cen,hourly.toml --reference-uncertainty BAM")
    assert output.code == 0, output.err
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Hourly PM2.5: PM2.5, 1-hour averages" in page
    assert "BAM 1020: as coded in JRC" in page
    assert "(second-hand)" in page
    assert "US EPA" not in page
    refused = scare("scare report run --targets eu-2024-2881")
    assert refused.code == ExitCode.USAGE
    assert "Type in annex V" in refused.err


@pytest.mark.parametrize(("given", "shown"), [("BAM", "BAM 1020: as coded in JRC"), ("0.5", "u(bs,RM) = 0.5 ")])
def test_other_targets_are_graded_with_the_reference_of_the_run(
    scare: RunCli, run: Path, given: str, shown: str
) -> None:
    graded = read_run(run)
    card = replace(graded.card, **summarize(graded, reference_uncertainty=given))
    (run / "scorecard.json").write_text(card.to_json(), encoding="utf-8")
    assert scare("scare report run --targets cen").code == 0
    assert shown in (run / "report.html").read_text(encoding="utf-8")


def test_the_same_run_gives_the_same_bytes(scare: RunCli, run: Path, tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        assert scare(f"scare report run --out deep/{name}").code == 0
    assert (tmp_path / "deep/a.html").read_bytes() == (tmp_path / "deep/b.html").read_bytes()


def test_json_is_alone_on_stdout(scare: RunCli, run: Path) -> None:
    output = scare("scare report run --json")
    found = json.loads(output.out)
    assert found["devices"] == ["box-01", "box-02"]
    assert found["bytes"] == (run / "report.html").stat().st_size
    assert found["page"] == "run/report.html"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("scare report nowhere", ExitCode.DATA, "nowhere is not a folder"),
        ("scare report .", ExitCode.DATA, "scorecard.json"),
        ("scare report run --out run", ExitCode.USAGE, "it is a folder"),
        ("scare report run --out run/scorecard.json/page.html", ExitCode.USAGE, "is not a folder"),
        ("scare report", ExitCode.USAGE, "--help"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_left(
    scare: RunCli, run: Path, tmp_path: Path, line: str, code: ExitCode, words: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    output = scare(line)
    assert output.code == code
    assert words in output.err
    assert "Traceback" not in output.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_broken_series_leaves_the_old_page(scare: RunCli, run: Path) -> None:
    assert scare("scare report run").code == 0
    before = (run / "report.html").read_bytes()
    (run / "series.parquet").write_bytes(b"PAR1 but not really")
    output = scare("scare report run")
    assert output.code == ExitCode.DATA
    assert "not readable as Parquet" in output.err
    assert (run / "report.html").read_bytes() == before


def test_a_scored_model_becomes_a_page_and_both_score_the_same_rows(
    scare: RunCli, model: Path, sim: Path, tmp_path: Path
) -> None:
    (tmp_path / "quick.toml").write_text("[protocol]\nblocks = 1\nrounds = 1\n", encoding="utf-8")
    output = scare(f"scare score {model} --data {sim} --board none --thresholds quick.toml --out scored")
    assert output.code == 0, output.err
    assert scare("scare report scored").code == 0
    found = read_run(tmp_path / "scored")
    assert sum(len(one.scored) for one in found.series) == found.card.dataset["rows_scored"]
    assert sum(int(one.trained.sum()) for one in found.series) == found.card.dataset["rows_of_training"]
    rmse = next(entry.value for entry in found.card.entries if entry.measure == "rmse")
    *_, pooled = make_views(found)
    assert pooled.accuracy is not None
    assert pooled.accuracy.rmse == pytest.approx(rmse)


def test_a_page_needs_neither_jax_nor_matplotlib(run: Path) -> None:
    program = (
        "import sys; sys.modules['jax'] = sys.modules['matplotlib'] = None;"
        f"from scare.cli.app import run; sys.exit(run(['report', {str(run)!r}]))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
