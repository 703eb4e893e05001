"""`scare board`: what a calibrator takes on a board, and which boards there are."""

import json
from pathlib import Path

import numpy as np
import pytest

from scare.board.boards import boards
from scare.board.vectors import board_windows, edge_case_vectors
from scare.calibrator.calibrator import Calibrator
from scare.cli import board as command
from scare.cli.app import run
from scare.errors import ExitCode, UsageError
from scare.extras import require
from tests.board.small_model import write_model
from tests.calibrator.building import attention_plan, make_calibrator


@pytest.fixture(scope="module")
def calibrator() -> Calibrator:
    return make_calibrator(attention_plan())


@pytest.fixture(scope="module")
def model(calibrator: Calibrator, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(calibrator.save(tmp_path_factory.mktemp("model") / "dust.scare"))


def test_run_tells_what_a_calibrator_takes(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["board", "run", model, "--windows", "200", "--json"]) == ExitCode.OK
    printed = json.loads(capsys.readouterr().out)
    assert (printed["board"], printed["arithmetic"], printed["windows"], printed["fits"]) == (
        "nano33ble",
        "float32",
        200,
        True,
    )
    assert printed["instructions"]["min"] == printed["instructions"]["max"] == printed["instructions"]["mean"] > 500
    assert printed["cycles"]["low"] <= printed["cycles"]["typical"] <= printed["cycles"]["high"]
    assert printed["ram_bytes"] == printed["static_bytes"] + printed["stack_bytes"]
    assert printed["flash_bytes"] > 0
    assert run(["board", "run", model, "--windows", "9"]) == ExitCode.OK
    table = capsys.readouterr().out
    assert f"{printed['instructions']['min']:,}" in table
    assert "cycles, estimate" in table
    assert f"{printed['ram_bytes']:,} of 262,144" in table


def test_a_board_without_cycles_tells_none(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["board", "run", model, "--windows", "5", "--board", "esp8266"]) == ExitCode.OK
    table = capsys.readouterr().out
    assert "RAM" in table
    assert "instructions" not in table
    assert "cycles" not in table


def test_a_model_that_does_not_fit_says_why(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def export_large(calibrator: Calibrator, target: str, arithmetic: str, folder: Path) -> Path:
        statics = "static volatile unsigned char large[50000];"
        return write_model(folder, calibrator.window, 2, statics=statics, more="memory[0] = large[7];")

    monkeypatch.setattr(command, "export_calibrator", export_large)
    assert run(["board", "run", model, "--windows", "5", "--board", "esp8266"]) == ExitCode.DOES_NOT_FIT
    printed = capsys.readouterr()
    assert "B of RAM; esp8266 has 40,960 B" in printed.err
    assert "no" in printed.out.split()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--board", "nano33bl"], ExitCode.USAGE, "no board is called 'nano33bl'; did you mean 'nano33ble'?"),
        (["--arithmetic", "int4"], ExitCode.USAGE, "int4"),
        (["--windows", "0"], ExitCode.USAGE, "--windows"),
    ],
)
def test_a_wrong_option_is_refused(
    model: str, arguments: list[str], code: ExitCode, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["board", "run", model, *arguments]) == code
    assert message in capsys.readouterr().err


def test_a_bad_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cut.scare").write_bytes(b"PK\x03\x04 cut short")
    assert run(["board", "run", str(tmp_path / "cut.scare")]) == ExitCode.DATA
    assert "cut short" in capsys.readouterr().err


def test_list_names_every_board(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["board", "list", "--json"]) == ExitCode.OK
    listed = json.loads(capsys.readouterr().out)["boards"]
    counted = ["nano33ble", "stm32f4", "rp2040", "bluepill", "teensy40", "pico2", "esp32c3", "esp32c6"]
    assert [one["name"] for one in listed] == list(boards()) == [*counted, "esp8266", "esp32", "esp32s3", "uno"]
    assert [one["name"] for one in listed if "instructions" in one["measures"]] == counted
    assert run(["board", "list"]) == ExitCode.OK
    assert "nano33ble" in capsys.readouterr().out


def test_trial_windows_are_strange_known_and_random_and_always_the_same(calibrator: Calibrator) -> None:
    windows, again = board_windows(calibrator, 300), board_windows(calibrator, 300)
    np.testing.assert_array_equal(windows, again)
    assert windows.shape == (300, calibrator.window, 2)
    assert windows.dtype == np.float32
    strange = edge_case_vectors(calibrator).windows
    np.testing.assert_array_equal(windows[: len(strange)], strange)
    assert any(np.isnan(window).all() for window in strange)
    assert any(np.isposinf(window).all() for window in strange)
    assert any((window == 0).all() for window in strange)
    highest = (1000.0 - 22.0) / 8.5
    assert any(np.allclose(window[:, 0], highest) for window in strange)
    known = windows[len(strange) :]
    np.testing.assert_array_equal(known[: len(calibrator.golden.windows)], calibrator.golden.windows)
    assert len(board_windows(calibrator, 3)) == 3


def test_a_missing_extra_says_how_to_get_it() -> None:
    with pytest.raises(UsageError, match=r"no_such_module is not installed; run .*: pip install '.\[board\]'"):
        require("board", "no_such_module")
