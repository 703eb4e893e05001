"""`scare verify`: a certificate, a summary, and exit code 5 when runtimes differ."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from scare.board import certificate
from scare.calibrator.calibrator import Calibrator
from scare.errors import ExitCode
from scare.export.package import export_calibrator
from tests.calibrator.building import attention_plan, make_calibrator, newest_plan
from tests.cli.output import RunCli


@pytest.fixture
def line(tmp_path: Path) -> Path:
    return make_calibrator(newest_plan(6)).save(tmp_path / "line.scare")


def test_the_help_fits_a_terminal(scare: RunCli) -> None:
    output = scare("scare verify --help")
    assert output.code == 0
    assert max(map(len, output.out.splitlines())) <= 80
    assert "scare verify no2.scare" in output.out.split("Examples:")[1]


def test_a_certificate_is_printed_and_written(scare: RunCli, line: Path) -> None:
    output = scare("scare verify line.scare --windows 1")
    assert output.code == ExitCode.OK, output.err
    assert output.out.splitlines()[-1] == "PASSED: float32, fixed"
    assert "Wrote the certificate to certificate.json." in output.err
    written = Path("certificate.json").read_text(encoding="utf-8")
    facts = json.loads(written)
    assert facts["sha256"] == hashlib.sha256(line.read_bytes()).hexdigest()
    assert facts["passed"]
    again = scare("scare verify line.scare --windows 1 --out again.json --json")
    assert json.loads(again.out) == facts
    assert Path("again.json").read_text(encoding="utf-8") == written


def test_one_arithmetic_one_device_another_board(scare: RunCli, line: Path) -> None:
    output = scare("scare verify line.scare --windows 1 --arithmetic fixed --device box-2 --board rp2040 --json")
    assert output.code == ExitCode.OK, output.err
    facts = json.loads(output.out)
    assert list(facts["results"]) == ["fixed"]
    assert (facts["calibrator"]["device"], facts["made_with"]["board"]) == ("box-2", "rp2040")


def test_float32_only_is_said(scare: RunCli, tmp_path: Path) -> None:
    make_calibrator(attention_plan()).save(tmp_path / "network.scare")
    output = scare("scare verify network.scare --windows 1")
    assert output.code == ExitCode.OK, output.err
    assert "fixed: float32 only: " in output.out
    assert output.out.splitlines()[-1] == "PASSED: float32"


def test_a_published_correction_has_no_file(scare: RunCli) -> None:
    output = scare("scare verify barkjohn-2021 --windows 1 --arithmetic float32 --json")
    assert output.code == ExitCode.OK, output.err
    assert json.loads(output.out)["sha256"] is None


def test_runtimes_that_differ_are_exit_code_5(scare: RunCli, line: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def export(calibrator: Calibrator, target: str, arithmetic: str, folder: Path, device: str) -> Any:
        package = export_calibrator(calibrator, target, arithmetic, folder, device)
        source = (folder / "model.c").read_text(encoding="utf-8")
        assert "0x1p+1f" in source
        (folder / "model.c").write_text(source.replace("0x1p+1f", "0x1.001p+1f"), encoding="utf-8")
        return package

    monkeypatch.setattr(certificate, "export_calibrator", export)
    output = scare("scare verify line.scare --windows 1 --arithmetic float32")
    assert output.code == ExitCode.CHECK_FAILED
    assert output.out.splitlines()[-1] == "FAILED: float32"
    assert "Failed: float32: " in output.err
    assert not json.loads(Path("certificate.json").read_text())["passed"]


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        ("nothing.scare", 3, "nothing.scare: no such file"),
        ("cut.scare", 3, "not a .scare file, or cut short"),
        ("line.scare --board nano", 2, "no board is called 'nano'"),
        ("line.scare --device box-7", 2, "knows no device called 'box-7'"),
        ("line.scare --arithmetic int4", 2, "no arithmetic is called 'int4'; use float32, fixed or both"),
        ("line.scare --out .", 2, "cannot write"),
        ("line.scare --board esp8266", 2, "only a memory budget"),
        ("line.scare --windows 0", 2, "--windows"),
        ("network.scare --arithmetic fixed", 3, "float32 only"),
    ],
)
def test_what_cannot_be_verified_is_refused_and_leaves_nothing(
    scare: RunCli, line: Path, tmp_path: Path, options: str, code: int, reason: str
) -> None:
    make_calibrator(attention_plan()).save(tmp_path / "network.scare")
    (tmp_path / "cut.scare").write_bytes(line.read_bytes()[:500])
    before = set(tmp_path.iterdir())
    output = scare(f"scare verify {options}")
    assert (output.code, output.out) == (code, "")
    assert reason in " ".join(output.err.split())
    assert set(tmp_path.iterdir()) == before
