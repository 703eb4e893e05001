"""ESPHome itself takes the YAML that we write, refuses what is wrong with the reason, and runs the component."""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import Channel
from scare.export.package import export_calibrator
from tests.calibrator.building import attention_plan, make_calibrator
from tests.export.compilers import call
from tests.export.esphome_environment import Esphome, install_esphome
from tests.export.printed import compare, correction
from tests.export.test_arduino import dust_alone

BOARDS = {
    "esp32": "esp32:\n  board: esp32dev\n  framework:\n    type: esp-idf\n",
    "arduino": "esp32:\n  board: esp32dev\n  framework:\n    type: arduino\n",
    "esp8266": "esp8266:\n  board: d1_mini\n",
}
STEP_SECONDS, ROWS = 0.5, 24


def with_channels(*names: str) -> Calibrator:
    """A network of two channels that are called so."""
    network = make_calibrator(attention_plan())
    return replace(network, inputs=replace(network.inputs, channels=tuple(map(Channel, names))))


@pytest.fixture(scope="module")
def esphome() -> Esphome:
    return install_esphome()


def node(library: Path, board: str) -> str:
    """A whole node of what the README says to paste."""
    (pasted,) = re.findall(r"```yaml\n(.*?)```", (library / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    return f"esphome:\n  name: node\n\n{BOARDS[board]}\n{pasted}"


def check(esphome: Esphome, library: Path, text: str) -> subprocess.CompletedProcess[str]:
    """What `esphome config` says of a node beside the component."""
    (library / "node.yaml").write_text(text, encoding="utf-8")
    return esphome("config", library / "node.yaml")


@pytest.mark.parametrize(
    ("calibrator", "board", "platforms"),
    [
        (correction("barkjohn-2021"), "esp32", {"pmsx003", "sht3xd"}),
        (correction("barkjohn-2021"), "esp8266", {"pmsx003", "sht3xd"}),
        (with_channels("PM2.5", "PM2.5 again"), "arduino", {"pmsx003", "template"}),
        (with_channels("NO", "temperature"), "esp32", {"sht3xd", "template"}),
    ],
)
def test_the_yaml_of_the_readme_is_valid(
    esphome: Esphome, calibrator: Calibrator, board: str, platforms: set[str], tmp_path: Path
) -> None:
    library = export_calibrator(calibrator, "esphome", "float32", tmp_path / "out", name="pm").folder
    the_printed = check(esphome, library, node(library, board))
    assert the_printed.returncode == 0, the_printed.stdout + the_printed.stderr
    assert set(re.findall(r"platform: (\w+)", the_printed.stdout)) == {"scare", *platforms}
    assert "stale_after: 120000ms" in the_printed.stdout


def test_the_simulated_node_is_valid(esphome: Esphome, tmp_path: Path) -> None:
    library = export_calibrator(make_calibrator(), "esphome", "fixed", tmp_path / "out").folder
    the_printed = esphome("config", library / "simulated.yaml")
    assert the_printed.returncode == 0, the_printed.stdout + the_printed.stderr


SECOND = """
  - platform: scare
    inputs: {pm: read_pm, humidity: read_humidity}
    window: 1
    update_interval: 1min
    on_nan: skip
    flags: {name: Again}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "reason"),
    [
        ("", "", ""),
        ("humidity: read_humidity}", "humidity: read_nothing}", "Couldn't find ID 'read_nothing'"),
        (", humidity: read_humidity}", "}", "'humidity' is a required option for [inputs]"),
        ("{pm: read_pm", "{dust: read_pm, pm: read_pm", "[dust] is an invalid option for [inputs]"),
        ("window: 1", "window: 360", "the window of this model is 1 readings: it was fixed when the model was trained"),
        ("1min", "30s", "this model reads once every 60000ms: it was fixed when the model was trained; write 60000ms"),
        ("skip", "ignore", "Unknown value 'ignore', valid options are 'missing', 'skip'"),
        ("window: 1", "model: no2", "Unknown value 'no2', valid options are 'pm25'"),
        ("flags: {name: Again}", "", "Must contain at least one of calibrated, low, high, raw, flags"),
    ],
)
def test_what_is_wrong_is_refused_with_the_reason(
    esphome: Esphome, right: str, wrong: str, reason: str, tmp_path: Path
) -> None:
    library = export_calibrator(correction("barkjohn-2021"), "esphome", "float32", tmp_path / "out", name="pm25").folder
    the_printed = check(esphome, library, node(library, "esp32") + SECOND.replace(right, wrong, 1))
    assert (the_printed.returncode == 0) == (not reason), the_printed.stdout
    assert reason in " ".join(the_printed.stdout.split())


def test_two_models_in_one_folder_are_chosen_by_name(esphome: Esphome, tmp_path: Path) -> None:
    for name, model in (("pm25", correction("barkjohn-2021")), ("no2", with_channels("NO2", "T"))):
        library = export_calibrator(model, "esphome", "float32", tmp_path / "out", name=name, force=True).folder
    unspecified = node(library, "esp32") + SECOND.replace("pm: read_pm, humidity:", "no2: read_no2, t:")
    chosen = unspecified.replace("read_humidity", "read_t").replace("window: 1", "model: no2")
    assert "model not specified!" in check(esphome, library, unspecified).stdout
    assert check(esphome, library, chosen).returncode == 0
    other = check(esphome, library, chosen.replace("model: no2", "model: pm25")).stdout
    assert "[no2] is an invalid option for [inputs]" in other


PRINTING = """      accuracy_decimals: 6
      on_value:
        - lambda: |-
            printf("%.9g,%.9g,%.0f\\n", id(raw).state, id(calibrated).state, x);
            fflush(stdout);
"""


@pytest.mark.slow
def test_esphome_runs_the_component(esphome: Esphome, tmp_path: Path) -> None:
    """ESPHome writes the node's sources; we compile them, as PlatformIO would first download its platform."""
    if not (shutil.which("g++") and shutil.which("gcc")):
        pytest.skip("g++ (Debian) would run it")
    calibrator = dust_alone()
    calibrator = replace(calibrator, inputs=replace(calibrator.inputs, step_seconds=STEP_SECONDS))
    library = export_calibrator(calibrator, "esphome", "float32", tmp_path / "out", name="raw").folder
    text = (library / "simulated.yaml").read_text(encoding="utf-8")
    text = text.replace("return row[0];", "static int n; return n++ % 9 == 4 ? NAN : row[0];")
    text = re.sub(r"(    (raw|calibrated):\n)", r"\1      id: \2\n", text) + PRINTING
    (library / "node.yaml").write_text(text, encoding="utf-8")
    the_printed = esphome("compile", "--only-generate", library / "node.yaml")
    assert the_printed.returncode == 0, the_printed.stdout + the_printed.stderr
    rows = _run(_compile(library / ".esphome" / "build" / "simulated"))
    assert sum(row[-1] == "256" for row in rows) > 1
    reported = [[*row[:-1], "nan", "nan", row[-1], "calibrated" if row[-1] == "0" else "none"] for row in rows]
    assert compare(calibrator, reported) > ROWS // 3


def _compile(build: Path) -> Path:
    """The program of a generated node, with the flags that ESPHome asks for."""
    given = re.search(r"build_flags =\n((?:    \S+\n)+)build_unflags", (build / "platformio.ini").read_text())
    assert given
    flags = [flag for flag in given[1].split() if not flag.startswith("-std")]
    assert "-ffp-contract=off" in flags
    sources = [path for path in (build / "src").rglob("*") if path.suffix in (".c", ".cpp")]

    def one(number: int) -> Path:
        source, out = sources[number], build / f"{number}.o"
        compiler = ("g++", "-std=gnu++20") if source.suffix == ".cpp" else ("gcc", "-std=gnu11")
        exceptions = [] if source.suffix == ".cpp" else ["-fno-exceptions"]
        call([*compiler, *(flag for flag in flags if flag not in exceptions), "-Isrc", "-c", source, "-o", out], build)
        return out

    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as workers:
        objects = list(workers.map(one, range(len(sources))))
    call(["g++", *objects, "-lpthread", "-o", "node"], build)
    return build / "node"


def _run(program: Path) -> list[list[str]]:
    """The rows that the node prints in time: raw, calibrated, flags."""
    with pytest.raises(subprocess.TimeoutExpired) as stopped:
        subprocess.run([program], capture_output=True, timeout=(ROWS + 2) * STEP_SECONDS)
    printed = (stopped.value.stdout or b"").decode()
    return [line.split(",") for line in printed.splitlines() if re.fullmatch(r"[^\s\[]+,\S+,\d+", line)]
