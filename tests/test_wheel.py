"""The wheel, built from the source archive and installed where there is no repository, does the main job."""

import os
import shlex
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {"scare": "scare", "runtime": "scare/export/runtime_src"}
COMMANDS = """
    scare simulate --boxes 3 --days 2 --seed 1 --out sim.csv
    scare inspect sim.csv
    scare train sim.csv --split device --window 16 --steps 20 --out pm.scare
    scare predict pm.scare sim.csv --out calibrated.csv
    scare export c pm.scare --arithmetic fixed --out pm_c
    scare verify pm_c
    scare export arduino barkjohn-2021 --out pm25.zip
    scare export micropython pm.scare --out pm_py
    scare score pm.scare --data sim.csv --out run
    scare report run
    scare board run pm.scare --arithmetic fixed
    scare demo --out demo
"""
pytestmark = pytest.mark.slow


def call(command: list[str], folder: Path) -> str:
    """Run a command here, knowing nothing of the repository; skip where the network is needed and absent."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8")
    if "NewConnectionError" in done.stderr + done.stdout:
        pytest.skip("no network to install what a wheel is built with and needs")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive, and the wheel made from that archive."""
    folder = tmp_path_factory.mktemp("dist")
    call([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], folder)
    return folder


def sources(folder: str) -> set[str]:
    """The files of a folder of the repository that belong to the project."""
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name.removeprefix(f"{folder}/") for name in listed.splitlines()}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_wheel_has_every_file(built: Path, folder: str) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(ZipFile(wheel).namelist())
    assert sources(folder)
    assert {f"{FOLDERS[folder]}/{name}" for name in sources(folder)} <= names


def test_the_source_archive_has_every_file(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert {name for name in sources(".") if not name.startswith((".ci", ".git"))} <= names


def install(wheel: Path, folder: Path, *more: str) -> Path:
    """The tools of a new environment in which only the wheel is, and what it needs."""
    call([sys.executable, "-m", "venv", "fresh"], folder)
    tools = folder / "fresh" / ("Scripts" if sys.platform == "win32" else "bin")
    call([str(tools / "python"), "-m", "pip", "install", "--quiet", f"{wheel}[train,board]", *more], folder)
    return tools


def run_commands(tools: Path, folder: Path) -> None:
    for line in COMMANDS.strip().splitlines():
        name, *arguments = shlex.split(line)
        call([str(tools / name), *arguments], folder)


def lowest() -> list[str]:
    """What the project says it needs at least, as the very versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["train"]]
    return [one.replace(">=", "==") for one in needed]


def test_the_commands_run_with_the_lowest_versions_that_are_asked_for(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    (tmp_path / "lowest.txt").write_text("\n".join(lowest()))
    run_commands(install(wheel, tmp_path, "--constraint", "lowest.txt"), tmp_path)


def test_the_commands_run_where_only_the_wheel_is(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    tools = install(wheel, tmp_path)
    run_commands(tools, tmp_path)
    where = call([str(tools / "python"), "-c", "import scare; print(scare.__file__)"], tmp_path)
    assert Path(where.strip()).is_relative_to(tmp_path / "fresh")
    assert (tmp_path / "pm_c" / "src" / "scare.c").exists()
    assert "</html>" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_reproduce_says_that_it_needs_a_clone(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    command = [str(install(wheel, tmp_path) / "scare"), "reproduce", "all", "--quick"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 2
    assert "run it in a clone of the repository" in done.stderr


def test_uvx_and_pipx_run_the_wheel_without_an_installation(built: Path, tmp_path: Path) -> None:
    """Without extras, which are named where a command needs them."""
    (wheel,) = built.glob("*.whl")
    call([sys.executable, "-m", "venv", "runners"], tmp_path)
    tools = tmp_path / "runners" / ("Scripts" if sys.platform == "win32" else "bin")
    call([str(tools / "python"), "-m", "pip", "install", "--quiet", "uv", "pipx"], tmp_path)
    runner = [str(tools / "uvx"), "--from", str(wheel)]
    assert "sensor files" in call([*runner, "scare", "open", "--help"], tmp_path)
    call([*runner, "scare", "simulate", "--boxes", "2", "--days", "1", "--out", "sim.csv"], tmp_path)
    training = subprocess.run([*runner, "scare", "train", "sim.csv"], cwd=tmp_path, capture_output=True, text=True)
    assert training.returncode == 2
    assert "pip install 'scare-calibration[train]'" in training.stderr
    assert call([str(tools / "pipx"), "run", "--spec", str(wheel), "scare-calibration", "--version"], tmp_path).strip()
