"""The folders for registries of libraries: laid out as each asks for, their examples and packages work."""

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from scare import __version__
from scare.calibrator.corrections import CORRECTIONS
from tests.export.compilers import c, call, cpp
from tests.export.esphome_environment import install_esphome
from tests.export.printed import cells
from tests.needs import needs

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "runtime"
STUB = ROOT / "tests" / "export" / "arduino_stub"
MAKE: dict[str, Any] = runpy.run_path(str(ROOT / "packaging" / "make_libraries.py"))
CATEGORY = ["Sensors"]
NODE = """
esphome:
  name: node
esp32:
  board: esp32dev
packages:
  scare: !include packages/{correction}.yaml
substitutions:
  scare_name: Outdoor
  scare_pm: my_pm
  scare_humidity: my_humidity
sensor:
  - platform: template
    id: my_pm
  - platform: template
    id: my_humidity
"""


def properties(folder: Path) -> dict[str, str]:
    lines = (folder / "library.properties").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_every_manifest_of_the_runtime_is_of_this_version() -> None:
    manifest = json.loads((RUNTIME / "library.json").read_text(encoding="utf-8"))
    component = yaml.safe_load((RUNTIME / "idf_component.yml").read_text(encoding="utf-8"))
    assert {manifest["version"], component["version"], properties(RUNTIME)["version"]} == {__version__}
    assert (RUNTIME / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_the_runtime_is_where_its_build_files_look() -> None:
    folders = {path.parent.relative_to(RUNTIME).as_posix() for path in RUNTIME.rglob("*.c")}
    (listed,) = re.findall(r"SRC_DIRS (.*) INCLUDE_DIRS src", (RUNTIME / "CMakeLists.txt").read_text())
    assert set(listed.split()) == folders
    zephyr = (RUNTIME / "zephyr" / "CMakeLists.txt").read_text()
    assert {f"{folder}/*.c" for folder in folders} == {
        found.replace("${SCARE_SOURCE}", "src") for found in re.findall(r"\S+/\*\.c", zephyr.replace(")", " "))
    }
    module = yaml.safe_load((RUNTIME / "zephyr" / "module.yml").read_text())
    assert (RUNTIME / module["build"]["kconfig"]).exists()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("registry") / "scare"
    MAKE["make_library"](folder)
    return folder


@pytest.mark.slow
@needs("train")
def test_the_library_is_what_the_library_manager_takes(library: Path) -> None:
    """By the rules of Arduino's library registry and specification, which arduino-lint checks."""
    facts = properties(library)
    assert not facts["name"].lower().startswith("arduino")
    assert re.fullmatch(r"\d+\.\d+\.\d+", facts["version"])
    assert facts["category"] in CATEGORY
    assert facts["sentence"].endswith(".")
    assert (library / "src" / facts["includes"]).exists()
    assert {path.name for path in (library / "examples").iterdir()} == {
        "PublishedCorrection",
        "TrainedModel",
        "LearnOnBoard",
    }
    for example in (library / "examples").iterdir():
        assert (example / f"{example.name}.ino").exists()
    files = [path for path in library.rglob("*") if path.is_file()]
    assert not any(path.is_symlink() or path.suffix == ".exe" or path.name == ".development" for path in files)
    assert {"LICENSE", "README.md", "library.json", "idf_component.yml"} <= {path.name for path in library.iterdir()}
    readme = (library / "README.md").read_text(encoding="utf-8")
    assert all(f"`{example.name}`" in readme for example in (library / "examples").iterdir())


def run_sketch(library: Path, example: str, lines: int, tick_ms: int, folder: Path, *flags: str) -> list[list[str]]:
    """What a sketch of the library prints, compiled as Arduino does: the library's sources and those of the sketch."""
    sketch = library / "examples" / example
    includes = [f"-I{library / 'src'}", f"-I{sketch}", f"-I{STUB}"]
    call([*c(), *includes, "-c", *library.joinpath("src").rglob("*.c"), *sketch.glob("*.c")], folder)
    program = [*cpp("gnu++11"), *includes, f'-DSKETCH="{sketch / example}.ino"', *flags, STUB / "main.cpp"]
    call([*program, *folder.glob("*.o"), "-lm", "-o", "sketch"], folder)
    return cells(call([folder / "sketch", tick_ms], folder, "\n" * lines))


@pytest.mark.slow
@needs("train")
@pytest.mark.parametrize(("example", "rows"), [("PublishedCorrection", 30), ("TrainedModel", 60)])
def test_an_example_calibrates_simulated_readings(library: Path, example: str, rows: int, tmp_path: Path) -> None:
    flags = ["-DSIMULATED"] if example == "PublishedCorrection" else []
    printed = run_sketch(library, example, rows * 60, 0, tmp_path, *flags)
    assert len(printed) == 1 + rows
    assert sum(row[-1] == "calibrated" for row in printed) >= 30


@pytest.mark.slow
@needs("train")
def test_the_example_that_learns_finds_the_difference(library: Path, tmp_path: Path) -> None:
    heading, *rows = run_sketch(library, "LearnOnBoard", 6000, 0, tmp_path)
    assert heading == ["calibrated", "corrected", "learned"]
    assert "better" in {row[2] for row in rows}
    corrections = [float(row[1]) - float(row[0]) for row in rows]
    assert corrections[0] == 0
    assert np.mean(corrections[-480:]) == pytest.approx(3.0, abs=0.3)


@pytest.mark.slow
@needs("train")
def test_platformio_packs_it(library: Path, tmp_path: Path) -> None:
    if shutil.which("pio") is None:
        pytest.skip("platformio (pip) would run it")
    done = subprocess.run(["pio", "pkg", "pack", "-o", tmp_path, library], capture_output=True, text=True)
    if "Could not load SPDX" in done.stderr:
        pytest.skip("platformio would run it, but there is no network for its list of licences")
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.glob("scare-*.tar.gz"))


@pytest.fixture(scope="module")
def esphome_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("registry") / "esphome"
    MAKE["make_esphome"](folder, source="components")
    return folder


def test_there_is_a_package_for_every_correction(esphome_folder: Path) -> None:
    packages = {path.stem for path in (esphome_folder / "packages").iterdir()}
    assert packages == set(CORRECTIONS)
    assert {path.name for path in esphome_folder.iterdir()} == {"LICENSE", "README.md", "components", "packages"}
    readme = (esphome_folder / "README.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in readme for name in packages)


@pytest.mark.slow
@pytest.mark.parametrize("correction", ["barkjohn-2021", "kappa-koehler-pm10"])
def test_esphome_takes_a_package(esphome_folder: Path, correction: str) -> None:
    node = esphome_folder / "node.yaml"
    node.write_text(NODE.format(correction=correction), encoding="utf-8")
    printed = install_esphome()("config", node)
    node.unlink()
    assert printed.returncode == 0, printed.stdout + printed.stderr
    assert "name: Outdoor calibrated" in printed.stdout
    assert f"model: {correction.replace('-', '_')}" in printed.stdout
