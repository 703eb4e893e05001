"""`scare export tflite`, `onnx` and `micropython`, and `scare verify` of what they wrote."""

import json
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from scare.errors import ExitCode
from scare.export.scare_json import GOLDEN, GoldenVectors
from tests.calibrator.building import make_calibrator, newest_plan
from tests.cli.output import RunCli
from tests.export.test_target import EVERY_FORMAT, wide_calibrator


@EVERY_FORMAT
def test_the_command_says_size_and_operators(scare: RunCli, form: str, tmp_path: Path) -> None:
    wide_calibrator().save(tmp_path / "wide.scare")
    output = scare(f"scare export {form} wide.scare --out out")
    assert output.code == 0, output.err
    size, operators = output.out.splitlines()
    assert size == f"model.{form}: {(tmp_path / 'out' / f'model.{form}').stat().st_size:,} bytes"
    assert operators.startswith("operators: ")
    assert "scare verify out" in output.err
    again = scare(f"scare export {form} wide.scare --out out")
    assert (again.code, "not empty" in again.err) == (2, True)
    verified = scare("scare verify out")
    assert (verified.code, verified.out.splitlines()[-1]) == (0, "PASSED")


def test_the_command_says_what_int8_costs(scare: RunCli, tmp_path: Path) -> None:
    wide_calibrator().save(tmp_path / "wide.scare")
    output = scare("scare export tflite wide.scare --arithmetic int8 --out out.zip --json")
    facts = json.loads(output.out)
    assert (facts["int8_weights"], facts["matrix_weights"]) == (960, 972)
    assert facts["validation_rmse"]["int8"] < 0.02 * 6.0
    assert json.loads(scare("scare verify out.zip --json").out)["passed"]


def test_plain_python_says_what_its_arrays_take(scare: RunCli, tmp_path: Path) -> None:
    make_calibrator(newest_plan(6)).save(tmp_path / "line.scare")
    output = scare("scare export micropython line.scare --out out --name dust")
    assert output.code == 0, output.err
    assert output.out.startswith("arrays ")
    assert (tmp_path / "out" / "dust.py").exists()
    assert scare("scare verify out").code == 0
    refused = scare("scare export micropython line.scare --arithmetic fixed --out other")
    assert (refused.code, "fixed point" in refused.err) == (3, True)


@pytest.mark.parametrize(
    "target",
    ["c", *(pytest.param(one, marks=pytest.mark.slow) for one in ("micropython", "arduino", "esphome", "onnx"))],
)
def test_an_export_that_gives_something_else_fails(scare: RunCli, tmp_path: Path, target: str) -> None:
    make_calibrator(newest_plan(6)).save(tmp_path / "line.scare")
    assert scare(f"scare export {target} line.scare --out out").code == 0
    assert scare("scare verify out").code == 0
    (path,) = (tmp_path / "out").rglob(GOLDEN)
    expected = GoldenVectors.read(path)
    moved = expected.results + np.array([0.0, 1.0, 0.0])
    other = GoldenVectors(expected.windows, moved, expected.tolerances, expected.ties, expected.tokens)
    path.write_bytes(other.as_bytes("model"))
    output = scare("scare verify out")
    assert (output.code, f"{GOLDEN} changed after the export" in output.err) == (ExitCode.DATA, True)
    output = scare("scare verify out --trust")
    assert "Running the code in out in a separate process, with limits of time and memory." in output.err
    assert output.code == ExitCode.CHECK_FAILED
    assert output.out.splitlines()[-1] == "FAILED"
    assert "1 of 3 windows are farther off than allowed; the first is window 1" in output.err
    facts = json.loads(scare("scare verify out --trust --json").out)
    assert not facts["passed"]


def test_what_is_no_export_is_refused(scare: RunCli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    output = scare("scare verify empty")
    assert (output.code, "holds no scare.json" in output.err) == (ExitCode.DATA, True)
    (tmp_path / "bad.zip").write_bytes(b"PK no zip")
    output = scare("scare verify bad.zip")
    assert (output.code, "cannot be read as an exported folder or zip" in output.err) == (ExitCode.DATA, True)
    ZipFile(tmp_path / "other.zip", "w").close()
    output = scare("scare verify other.zip")
    assert (output.code, "other.zip holds no scare.json" in output.err) == (ExitCode.DATA, True)


@pytest.mark.parametrize(("target", "file"), [("c", "model.c"), ("tflite", "model.tflite"), ("onnx", "model.onnx")])
def test_an_export_that_does_not_run_fails_with_the_reason(
    scare: RunCli, tmp_path: Path, target: str, file: str
) -> None:
    make_calibrator(newest_plan(6)).save(tmp_path / "line.scare")
    assert scare(f"scare export {target} line.scare --out out").code == 0
    path = tmp_path / "out" / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    refused, output = scare("scare verify out"), scare("scare verify out --trust")
    assert (refused.code, f"{file} changed after the export. Use --trust" in refused.err) == (ExitCode.DATA, True)
    assert output.code == ExitCode.CHECK_FAILED
    assert "it does not run: " in output.err


@pytest.mark.slow
def test_two_models_in_a_folder_are_tried_each_by_its_own_windows(scare: RunCli, tmp_path: Path) -> None:
    make_calibrator(newest_plan(6)).save(tmp_path / "line.scare")
    make_calibrator(newest_plan(4)).save(tmp_path / "other.scare")
    assert scare("scare export esphome line.scare --name one --out out").code == 0
    assert scare("scare export esphome other.scare --name two --out out --force").code == 0
    output = scare("scare verify out --json")
    assert output.code == 0, output.err
    tried = json.loads(output.out)["runtimes"]
    assert [(one["model"], one["windows"]) for one in tried] == [("scare_model_one", 3), ("scare_model_two", 3)]


def test_a_damaged_zip_is_refused(scare: RunCli, tmp_path: Path) -> None:
    make_calibrator(newest_plan(6)).save(tmp_path / "line.scare")
    assert scare("scare export micropython line.scare --out out.zip").code == 0
    whole = (tmp_path / "out.zip").read_bytes()
    for at in range(40, len(whole) - 400, len(whole) // 25):
        (tmp_path / "bad.zip").write_bytes(
            whole[:at] + bytes(byte ^ 255 for byte in whole[at : at + 9]) + whole[at + 9 :]
        )
        assert scare("scare verify bad.zip").code in (ExitCode.OK, ExitCode.DATA, ExitCode.CHECK_FAILED)


def test_a_target_with_a_typo_is_suggested(scare: RunCli) -> None:
    output = scare("scare export onx no2.scare --out out")
    assert (output.code, "Did you mean 'onnx'?" in output.err) == (ExitCode.USAGE, True)


def test_a_corrupt_calibrator_is_refused(scare: RunCli, tmp_path: Path) -> None:
    (tmp_path / "bad.scare").write_bytes(b"nothing of the kind")
    for target in ("micropython", "tflite", "onnx"):
        output = scare(f"scare export {target} bad.scare --out out")
        assert (output.code, "bad.scare" in output.err) == (ExitCode.DATA, True)
        assert not (tmp_path / "out").exists()
