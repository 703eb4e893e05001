"""Libraries for PlatformIO, ESP-IDF and Zephyr: manifests as each asks for, examples that compute what Python does."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from jsonschema import validate

from scare.board.build import STRICT
from scare.calibrator.calibrator import Calibrator
from scare.export.c_source import BLOBS
from scare.export.esphome import COMPONENT, PREFIX
from scare.export.package import export_calibrator
from scare.export.targets import TARGETS
from tests.calibrator.building import attention_plan, curve_plan, make_calibrator
from tests.export.building import sources
from tests.export.compilers import c, call
from tests.export.printed import cells, compare, correction

OWN = "calibration", "scare_rust", "scare_lorawan"  # files of one library only
STUB, IDF_STUB = (Path(__file__).with_name(f"{system}_stub") for system in ("zephyr", "espidf"))
NETWORK = make_calibrator(attention_plan())
TEXT = {"type": "string", "minLength": 1}
MANIFEST = {  # of library.json, from PlatformIO's documentation, as far as we use it
    "type": "object",
    "required": ["name", "version", "description", "headers", "build"],
    "additionalProperties": False,
    "properties": {
        "name": {**TEXT, "pattern": r"^[^:;/,@<>]{1,50}$"},
        "version": {**TEXT, "pattern": r"^\d+\.\d+\.\d+$"},
        "description": {**TEXT, "maxLength": 1000},
        "authors": {"type": "array", "items": {"type": "object", "required": ["name"]}},
        "examples": {"type": "array", "items": {"type": "object", "required": ["name", "base", "files"]}},
        "build": {"type": "object", "properties": {"flags": {"type": "array", "items": TEXT}}},
        **dict.fromkeys(("keywords", "license", "frameworks", "platforms", "headers"), TEXT),
    },
}

IDF_MANIFEST = {  # of idf_component.yml, by `compote manifest schema` 3.1, as far as we use it
    "type": "object",
    "required": ["version", "description", "license", "dependencies"],
    "additionalProperties": False,
    "properties": {
        "version": {**TEXT, "pattern": r"^\d+\.\d+\.\d+$"},
        "dependencies": {"type": "object", "additionalProperties": TEXT},
        **dict.fromkeys(("description", "license"), TEXT),
    },
}


def core(library: Path) -> dict[str, str]:
    """Sources of model and runtime, by name; ESPHome has its own files beside them and a prefix to the model's name."""
    folder = next(library / name for name in ("c", COMPONENT, "src") if (library / name).exists())
    paths = [path for path in folder.iterdir() if path.suffix in (".c", ".h", ".hpp") and path.stem not in OWN]
    texts = {path.name: path.read_text(encoding="utf-8") for path in paths}
    return {_unprefixed(name): _unprefixed(text) for name, text in texts.items()}


def _unprefixed(text: str) -> str:
    return text.replace(PREFIX, "").replace(PREFIX.upper(), "")


LIBRARIES = [target.name for target in TARGETS.values() if target.in_c and target.name not in ("c", "blob")]


@pytest.mark.parametrize("target", LIBRARIES)
def test_every_library_has_the_same_core(target: str, tmp_path: Path) -> None:
    both = {target, "arduino"}
    libraries = [export_calibrator(NETWORK, one, "float32", tmp_path / one / "out").folder for one in both]
    cores = [core(library) for library in libraries]
    assert all(core == cores[0] for core in cores)
    assert {"model.c", "model.h", "model_simulated.h", "scare.c", "scare.h"} <= cores[0].keys()
    for library in libraries:
        assert (library / "README.md").read_text(encoding="utf-8").count("extras/model/golden.h") == 1
        written = [path for path in library.rglob("*") if path.is_file() and path.suffix != ".safetensors"]
        texts = [path.read_text(encoding="utf-8") for path in written]
        assert not [text for text in texts if re.search(r"\$\{?[a-z]", text)]


# PlatformIO


def test_the_manifest_is_as_platformio_asks(tmp_path: Path) -> None:
    library = export_calibrator(NETWORK, "platformio", "float32", tmp_path / "out", name="a" * 31).folder
    manifest = json.loads((library / "library.json").read_text(encoding="utf-8"))
    validate(manifest, MANIFEST)
    assert (library / "src" / manifest["headers"]).exists()
    for example in manifest["examples"]:
        assert all((library / example["base"] / file).exists() for file in example["files"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("calibrator", "arithmetic", "share"),
    [
        (NETWORK, "float32", 2e-5),
        (make_calibrator(curve_plan(12)), "fixed", 0.02),
        (correction("barkjohn-2021"), "float32", 2e-5),
    ],
)
def test_the_native_example(calibrator: Calibrator, arithmetic: str, share: float, tmp_path: Path) -> None:
    library = export_calibrator(calibrator, "platformio", arithmetic, tmp_path / "out", name="no2").folder
    program = tmp_path / "native"
    files = [library / "examples" / "native" / "src" / "main.c", *sources(library / "src")]
    call([*c("c99"), *STRICT, f"-I{library / 'src'}", *files, "-lm", "-o", program], tmp_path)
    rows = cells(call([program], tmp_path))[1:]
    assert len(rows) == calibrator.window + 60
    assert compare(calibrator, rows, share) >= 60


def test_platformio_itself_builds_and_runs_the_example(tmp_path: Path) -> None:
    if shutil.which("pio") is None:
        pytest.skip("platformio (pip) would run it")
    library = export_calibrator(NETWORK, "platformio", "float32", tmp_path / "out").folder
    command = ["pio", "run", "-v", "-d", str(library / "examples" / "native"), "-t", "exec"]
    done = subprocess.run(command, capture_output=True, text=True)
    if "HTTPClientError" in done.stdout + done.stderr:
        pytest.skip("PlatformIO's platform native would run it, but there is no network to get it")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"gcc .*-ffp-contract=off .*scare\.c", done.stdout)
    lines = done.stdout.splitlines()
    first = next(at for at, line in enumerate(lines) if line.endswith(",calibrated,low,high,flags,status"))
    assert compare(NETWORK, cells("\n".join(lines[first : first + NETWORK.window + 61]))[1:]) >= 60


# ESP-IDF


@pytest.mark.slow
def test_the_example_of_the_component_builds_and_runs(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake (Debian) would run it")
    for calibrator, name in ((NETWORK, "no2"), (correction("barkjohn-2021"), "pm25")):
        component = export_calibrator(calibrator, "espidf", "float32", tmp_path / name / "component", name=name).folder
        build, environment = tmp_path / name / "build", os.environ | {"IDF_PATH": str(IDF_STUB)}
        for command in (["-S", component / "examples" / "calibrate", "-B", build], ["--build", build]):
            subprocess.run(["cmake", *command], env=environment, check=True, capture_output=True)
        done = subprocess.run([build / "app"], capture_output=True, text=True, check=True)
        rows = cells(done.stdout)[1:]
        assert len(rows) == 100
        assert compare(calibrator, rows) >= 80


@pytest.mark.parametrize(
    ("settings", "flag"), [("CONFIG_SCARE_PAST=y", "-DSCARE_PAST=1"), ("CONFIG_SCARE_RAM_MAX=100", "RAM_MAX=100")]
)
def test_an_option_of_menuconfig_reaches_the_compiler(settings: str, flag: str, tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake (Debian) would run it")
    component = export_calibrator(NETWORK, "espidf", "float32", tmp_path / "out").folder
    kconfig = (component / "Kconfig").read_text(encoding="utf-8")
    assert f"config {settings.removeprefix('CONFIG_').partition('=')[0]}\n" in kconfig
    define = [f"-D{settings}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=1"]
    line = ["cmake", "-S", component / "examples" / "calibrate", "-B", tmp_path / "build", *define]
    subprocess.run(line, env=os.environ | {"IDF_PATH": str(IDF_STUB)}, check=True, capture_output=True)
    lines = json.loads((tmp_path / "build" / "compile_commands.json").read_text())
    compiled = {Path(line["file"]).name: line["command"] for line in lines}
    assert flag in compiled["scare.c"]
    assert flag in compiled["main.c"]
    assert "-ffp-contract=off" in compiled["scare.c"]


def test_the_manifests_are_as_the_component_manager_asks(tmp_path: Path) -> None:
    component = export_calibrator(NETWORK, "espidf", "float32", tmp_path / "out", name="no2").folder
    manifest = yaml.safe_load((component / "idf_component.yml").read_text(encoding="utf-8"))
    validate(manifest, IDF_MANIFEST)
    main = component / "examples" / "calibrate" / "main"
    (dependency,) = yaml.safe_load((main / "idf_component.yml").read_text(encoding="utf-8"))["dependencies"].values()
    assert (main / dependency["path"]).resolve() == component.resolve()
    stack = re.search(r"STACK_SIZE=(\d+)", (main.parent / "sdkconfig.defaults").read_text(encoding="utf-8"))
    assert stack
    assert int(stack[1]) == 3584 + 640  # ESP-IDF's default, and a model's in float32


RISC_V = "riscv64-unknown-elf-gcc", "-march=rv32imc", "-mabi=ilp32", "--specs=picolibc.specs"  # an ESP32-C3's core
XTENSA = "xtensa-lx106-elf-gcc", "-mlongcalls", "-ffreestanding"  # an ESP8266's, of which an ESP32's is a successor


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiler", "package"), [(RISC_V, "picolibc-riscv64-unknown-elf"), (XTENSA, "gcc-xtensa-lx106")]
)
def test_compilers_of_its_boards_take_it(compiler: Sequence[str], package: str, tmp_path: Path) -> None:
    probe = [*compiler, "-E", "-x", "c", os.devnull]  # fails without the C library that it is told to use
    if shutil.which(compiler[0]) is None or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip(f"{package} (Debian) would run it")
    calibrator = make_calibrator(curve_plan(12))
    component, of_blobs = (
        export_calibrator(calibrator, target, "fixed", tmp_path / target).folder / "src"
        for target in ("espidf", "blob")
    )
    files = [*sources(component), *(path for path in sources(of_blobs) if path.stem in BLOBS)]
    flags = ["-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fno-math-errno", "-c"]
    (tmp_path / "objects").mkdir()
    call([*compiler, *flags, *files], tmp_path / "objects")
    assert len(list((tmp_path / "objects").glob("*.o"))) == len(sources(component)) + len(BLOBS)


# Zephyr


def test_the_option_is_the_same_wherever_it_is_named(tmp_path: Path) -> None:
    library = export_calibrator(NETWORK, "zephyr", "float32", tmp_path / "out", name="no2").folder
    kconfig = (library / "zephyr" / "Kconfig").read_text(encoding="utf-8")
    assert re.match(r'config SCARE_NO2\n\tbool "[^"\n]+"\n\thelp\n\t  \S.*\n$', kconfig)
    assert "if(CONFIG_SCARE_NO2)" in (library / "zephyr" / "CMakeLists.txt").read_text(encoding="utf-8")
    options = (library / "samples" / "calibrate" / "prj.conf").read_text(encoding="utf-8")
    assert "CONFIG_SCARE_NO2=y\n" in options
    assert "CONFIG_MAIN_STACK_SIZE=2688\n" in options  # 640 of them for a model in float32


def test_the_module_says_where_its_parts_are(tmp_path: Path) -> None:
    library = export_calibrator(NETWORK, "zephyr", "float32", tmp_path / "out").folder
    module = yaml.safe_load((library / "zephyr" / "module.yml").read_text(encoding="utf-8"))
    assert (library / module["build"]["cmake"] / "CMakeLists.txt").exists()
    assert (library / module["build"]["kconfig"]).exists()
    assert all((library / folder).is_dir() for folder in module["samples"])
    sample = yaml.safe_load((library / "samples" / "calibrate" / "sample.yaml").read_text(encoding="utf-8"))
    (test,) = sample["tests"].values()
    assert re.search(test["harness_config"]["regex"][0], "1.0,2.0,calibrated")


@pytest.mark.slow
@pytest.mark.parametrize("calibrator", [NETWORK, correction("barkjohn-2021")])
def test_the_sample_builds_and_runs(calibrator: Calibrator, tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake (Debian) would run it")
    library = export_calibrator(calibrator, "zephyr", "float32", tmp_path / "out").folder
    sample, build = library / "samples" / "calibrate", tmp_path / "build"
    subprocess.run(["cmake", "-S", sample, "-B", build, f"-DZephyr_DIR={STUB}"], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", build], check=True, capture_output=True)
    done = subprocess.run([build / "app"], capture_output=True, text=True, check=True)
    rows = cells(done.stdout)[1:]
    assert len(rows) == 100
    assert compare(calibrator, rows) >= 80
