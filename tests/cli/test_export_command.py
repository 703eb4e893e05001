"""`scare export`: from a file or a published correction to a folder of C, or a library for a build system."""

import importlib.util
import json
import re
from importlib.machinery import ModuleSpec
from pathlib import Path
from zipfile import ZipFile

import pytest

from scare.export.targets import TARGETS
from tests.calibrator.building import attention_plan, make_calibrator, newest_plan
from tests.cli.output import RunCli


@pytest.fixture
def line(tmp_path: Path) -> Path:
    return make_calibrator(newest_plan(6)).save(tmp_path / "line.scare")


@pytest.mark.parametrize("command", ["export", *(f"export {target}" for target in TARGETS)])
def test_the_help_fits_a_terminal(scare: RunCli, command: str) -> None:
    output = scare(f"scare {command} --help")
    assert output.code == 0
    assert max(map(len, output.out.splitlines())) <= 80
    assert command == "export" or f"scare {command} " in output.out.split("Examples:")[1]


def test_sizes_are_on_stdout_and_the_rest_on_stderr(scare: RunCli, line: Path) -> None:
    output = scare(f"scare export c {line} --out out")
    assert output.code == 0, output.err
    first, second = output.out.splitlines()
    assert first == "RAM 756 bytes (window 48, scratch 8, stack at most 640), constants 12 bytes"
    assert second.startswith("The first value comes ")
    assert "Scaled with the mean and spread of all devices. For one device, add --device: box-1, box-2." in output.err
    assert "Wrote out. Its README.md" in output.err
    assert Path("out/model.c").exists()


def test_a_device_and_a_name_are_taken(scare: RunCli, line: Path) -> None:
    output = scare(f"scare export c {line} --out out --device box-2 --name dust --json")
    facts = json.loads(output.out)
    assert (facts["device"], facts["name"], facts["arithmetic"]) == ("box-2", "dust", "float32")
    assert (facts["memory_bytes"], facts["state_bytes"], facts["stack_bytes"]) == (60, 56, 640)
    assert facts["ram_bytes"] == 60 + 56 + 640
    assert facts["first_value_readings"] == 4
    assert Path("out/dust.h").exists()
    assert "scaled" not in output.err


def test_fixed_point_tells_what_it_costs(scare: RunCli, line: Path) -> None:
    output = scare(f"scare export c {line} --arithmetic fixed --out out")
    assert output.code == 0, output.err
    assert "RMSE on the validation windows: float32 " in output.out
    facts = json.loads(scare(f"scare export c {line} --arithmetic int8 --out again --json").out)  # its alias
    assert facts["arithmetic"] == "fixed"
    assert facts["validation_rmse"]["fixed"] == pytest.approx(facts["validation_rmse"]["float32"], rel=0.01)


def test_an_empty_folder_behind_a_link_is_used(scare: RunCli, line: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    assert scare(f"scare export c {line} --out {tmp_path / 'link'}").code == 0
    assert (tmp_path / "real" / "model.c").exists()
    assert (tmp_path / "link").is_symlink()


def test_a_published_correction_is_exported_too(scare: RunCli) -> None:
    output = scare("scare export c barkjohn-2021 --step 120 --out out --json")
    assert output.code == 0, output.err
    assert json.loads(output.out)["window_bytes"] == 8
    assert ".step_ms = 120000," in Path("out/model.c").read_text()
    assert "Scaled with the mean and spread of all devices.\n" in output.err


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        ("nothing.scare --out out", 3, "nothing.scare: no such file"),
        ("barkjohn --out out", 3, "there is no such file and no such published correction; did you mean"),
        ("cut.scare --out out", 3, "not a .scare file, or cut short"),
        ("line.scare --out out --device box-7", 2, "knows no device called 'box-7'"),
        ("line.scare --out out --name while", 2, "'while' cannot name a model in C"),
        ("line.scare --out out --arithmetic int4", 2, "no arithmetic is called 'int4'; use float32 or fixed"),
        ("network.scare --out out --arithmetic fixed", 3, "float32 only"),
        ("line.scare --out .", 2, "is not empty"),
        ("line.scare --out out --step 30", 2, "a time step is only for published corrections"),
        ("line.scare", 2, "Missing option '--out'"),
    ],
)
def test_what_cannot_be_exported_is_refused_with_the_reason(
    scare: RunCli, line: Path, tmp_path: Path, options: str, code: int, reason: str
) -> None:
    make_calibrator(attention_plan()).save(tmp_path / "network.scare")
    (tmp_path / "cut.scare").write_bytes(line.read_bytes()[:500])
    before = set(tmp_path.iterdir())
    output = scare(f"scare export c {options}")
    assert (output.code, output.out) == (code, "")
    assert reason in " ".join(output.err.split())
    assert set(tmp_path.iterdir()) == before


# libraries


@pytest.mark.parametrize(
    ("target", "manifest"),
    [
        ("arduino", "library.properties"),
        ("platformio", "library.json"),
        ("espidf", "examples/calibrate/main/idf_component.yml"),
        ("zephyr", "zephyr/module.yml"),
    ],
)
def test_a_library_is_written_for_files_and_corrections(scare: RunCli, line: Path, target: str, manifest: str) -> None:
    for model, out in ((line, "one"), ("barkjohn-2021", "two")):
        output = scare(f"scare export {target} {model} --name dust --out {out} --json")
        assert output.code == 0, output.err
        assert json.loads(output.out)["folder"] == out
        assert "scare_dust" in Path(out, manifest).read_text()
        assert Path(out, "src", "dust.c").exists()
    output = scare(f"scare export {target} {line} --out one")
    assert (output.code, output.out) == (2, "")
    assert "one is not empty; give another folder, or --force" in " ".join(output.err.split())
    assert scare(f"scare export {target} {line} --out one --force").code == 0


def test_a_zip_is_written_where_the_name_says_so(scare: RunCli, line: Path) -> None:
    assert scare(f"scare export arduino {line} --out dust.zip").code == 0
    assert "dust/library.properties" in ZipFile("dust.zip").namelist()


def test_a_target_with_a_typo_is_refused_with_the_nearest(scare: RunCli, line: Path) -> None:
    output = scare(f"scare export ardiuno {line} --out out")
    assert output.code == 2
    assert "Did you mean 'arduino'?" in " ".join(output.err.split())


# boards


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A calibrator whose window alone is too much for a small board."""
    return make_calibrator(newest_plan(600)).save(tmp_path / "long.scare")


@pytest.mark.parametrize(
    ("window", "remedy"),
    [
        (217, "; the largest window that fits has 217 readings, this one has 600"),
        (0, "; no shorter window fits either, this one has 600"),
        (None, ""),
    ],
)
def test_a_model_that_does_not_fit_is_refused_with_the_numbers(
    scare: RunCli, long: Path, monkeypatch: pytest.MonkeyPatch, window: int | None, remedy: str
) -> None:
    monkeypatch.setattr("scare.experiments.untrained.largest_window", lambda *_: window)
    output = scare(f"scare export arduino {long} --board uno --out out")
    assert (output.code, output.out) == (6, "")
    printed = " ".join(output.err.split())
    found = re.search(r"the model does not fit: needs ([\d,]+) B of RAM; uno has 2,048 B(.*)$", printed)
    assert found
    assert int(found[1].replace(",", "")) > 600 * 2 * 4
    assert found[2] == remedy
    assert not Path("out").exists()


def test_without_the_training_extra_it_says_what_to_install(
    scare: RunCli, long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> ModuleSpec | None:
        return None if name == "jax" else importlib.util.find_spec(name)

    monkeypatch.setattr("scare.extras.find_spec", find)
    output = scare(f"scare export c {long} --board uno --out out")
    assert output.code == 6
    assert "pip install '.[train]'" in output.err


def test_fixed_point_is_refused_where_an_int_has_16_bits(scare: RunCli, line: Path) -> None:
    output = scare(f"scare export arduino {line} --arithmetic fixed --board uno --out out")
    assert output.code == 6
    assert "fixed point needs an int of 32 bits; uno has 16; use --arithmetic float32" in " ".join(output.err.split())


def test_what_fits_is_written(scare: RunCli, line: Path) -> None:
    for board in ("uno", "esp8266"):
        assert scare(f"scare export arduino {line} --board {board} --out {board}").code == 0
        assert Path(board, "library.properties").exists()
    output = scare(f"scare export arduino {line} --board unu --out other")
    assert output.code == 2
    assert "no board is called 'unu'; did you mean 'uno'?" in output.err
