"""CONTRIBUTING's "Add a board": an entry in the TOML, as docs/board.md has it, is listed, measured and fitted to."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scare.board import boards
from scare.cli.app import run
from scare.errors import ExitCode
from tests.calibrator.building import make_calibrator, newest_plan
from tests.needs import needs

PAGE = Path(__file__).parents[2] / "docs" / "board.md"


@pytest.fixture(autouse=True)
def _mine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The page's own example beside the boards there are, with little RAM."""
    (entry,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    table = tmp_path / "boards.toml"
    table.write_text(boards.TABLE.read_text(encoding="utf-8") + "\n" + entry.replace("65_536", "1_000"), "utf-8")
    monkeypatch.setattr(boards, "TABLE", table)
    monkeypatch.chdir(tmp_path)
    boards.boards.cache_clear()
    yield
    boards.boards.cache_clear()


def test_it_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["board", "list", "--json"]) == 0
    mine = json.loads(capsys.readouterr().out)["boards"][-1]
    assert (mine["name"], mine["title"], mine["ram"]) == ("mine", "My board", 1000)


@needs("board")
def test_a_calibrator_is_measured_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    make_calibrator(newest_plan(6)).save("line.scare")
    assert run(["board", "run", "line.scare", "--board", "mine", "--windows", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["board"], found["fits"]) == ("mine", True)
    assert found["instructions"]["min"] > 0
    assert found["cycles"]["typical"] > 0


@needs("board")
def test_what_does_not_fit_it_is_not_exported(capsys: pytest.CaptureFixture[str]) -> None:
    for window, code in ((6, ExitCode.OK), (600, ExitCode.DOES_NOT_FIT)):
        make_calibrator(newest_plan(window)).save("line.scare")
        assert run(["export", "c", "line.scare", "--board", "mine", "--out", f"out{window}"]) == code
    assert "B of RAM; mine has 1,000 B" in " ".join(capsys.readouterr().err.split())
    assert not Path("out600").exists()
