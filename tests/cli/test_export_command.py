"""`scare export c`: from a file or a published correction to a folder of C."""

import json
from pathlib import Path

import pytest

from tests.calibrator.building import attention_plan, make_calibrator, newest_plan
from tests.cli.said import Type


@pytest.fixture
def line(tmp_path: Path) -> Path:
    return make_calibrator(newest_plan(6)).save(tmp_path / "line.scare")


@pytest.mark.parametrize("command", ["export", "export c"])
def test_the_help_fits_a_terminal(scare: Type, command: str) -> None:
    said = scare(f"scare {command} --help")
    assert said.code == 0
    assert max(map(len, said.out.splitlines())) <= 80
    assert command == "export" or "scare export c no2.scare" in said.out.split("Examples:")[1]


def test_sizes_are_on_stdout_and_the_rest_on_stderr(scare: Type, line: Path) -> None:
    said = scare(f"scare export c {line} --out out")
    assert said.code == 0, said.err
    assert said.out == "RAM 56 bytes (window 48, scratch 4), constants 12 bytes\n"
    assert "scaled as the fleet is; --device takes box-1, box-2" in said.err
    assert "model.c, model.h, golden.h, README.md and src are in out" in said.err
    assert Path("out/model.c").exists()


def test_a_device_and_a_name_are_taken(scare: Type, line: Path) -> None:
    said = scare(f"scare export c {line} --out out --device box-2 --name dust --json")
    facts = json.loads(said.out)
    assert (facts["device"], facts["name"], facts["arithmetic"]) == ("box-2", "dust", "float32")
    assert facts["ram_bytes"] == 56
    assert Path("out/dust.h").exists()
    assert "scaled" not in said.err


def test_int8_tells_what_it_costs(scare: Type, line: Path) -> None:
    said = scare(f"scare export c {line} --arithmetic int8 --out out")
    assert said.code == 0, said.err
    assert "RMSE on the validation windows: float32 " in said.out
    facts = json.loads(scare(f"scare export c {line} --arithmetic int8 --out again --json").out)
    assert facts["validation_rmse"]["int8"] == pytest.approx(facts["validation_rmse"]["float32"], rel=0.01)


def test_an_empty_folder_behind_a_link_is_used(scare: Type, line: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    assert scare(f"scare export c {line} --out {tmp_path / 'link'}").code == 0
    assert (tmp_path / "real" / "model.c").exists()
    assert (tmp_path / "link").is_symlink()


def test_a_published_correction_is_exported_too(scare: Type) -> None:
    said = scare("scare export c barkjohn-2021 --step 120 --out out --json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["window_bytes"] == 8
    assert ".step_ms = 120000," in Path("out/model.c").read_text()
    assert "scaled as the fleet is\n" in said.err


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        ("nothing.scare --out out", 3, "nothing.scare: no such file"),
        ("barkjohn --out out", 3, "no such file, and no published correction; did you mean"),
        ("cut.scare --out out", 3, "not a .scare file, or cut short"),
        ("line.scare --out out --device box-7", 2, "knows no device called 'box-7'"),
        ("line.scare --out out --name while", 2, "'while' cannot name a model in C"),
        ("line.scare --out out --arithmetic int4", 2, "'int4' is not one of 'float32', 'int8'"),
        ("network.scare --out out --arithmetic int8", 3, "float32 only"),
        ("line.scare --out .", 2, "is not empty"),
        ("line.scare --out out --step 30", 2, "--step is for a published correction"),
        ("line.scare", 2, "Missing option '--out'"),
    ],
)
def test_what_cannot_be_exported_is_refused_with_the_reason(
    scare: Type, line: Path, tmp_path: Path, options: str, code: int, reason: str
) -> None:
    make_calibrator(attention_plan()).save(tmp_path / "network.scare")
    (tmp_path / "cut.scare").write_bytes(line.read_bytes()[:500])
    before = set(tmp_path.iterdir())
    said = scare(f"scare export c {options}")
    assert (said.code, said.out) == (code, "")
    assert reason in " ".join(said.err.split())
    assert set(tmp_path.iterdir()) == before
