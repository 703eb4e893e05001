"""A federation over Flower: real SuperLink and SuperNodes, one of which is killed while a network is trained."""

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scare.calibrator.calibrator import Calibrator
from scare.data.simulated_agencies import TOWNS, write_agencies

VERSION = "1.41.0"
APP = Path(__file__).parents[2] / "packaging" / "flower"
ROUNDS = 3


def install_flower() -> Path:
    """Flower in an environment of its own, made once in the user's cache folder; its programs know where they are."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scare-tests"
    environment = cache / f"flower-{VERSION}"
    complete = environment / "complete"
    if not complete.exists():
        shutil.rmtree(environment, ignore_errors=True)
        for command in (
            [sys.executable, "-m", "venv", str(environment)],
            [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", f"flwr=={VERSION}"],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                pytest.skip(f"flwr {VERSION} (pip) would run it, but: {last}")
        complete.touch()
    return environment / "bin"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


class Flower:
    """Processes of Flower in a folder."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        # Flower's own packages come first, then those of this environment.
        packages = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})"
        (folder / "sitecustomize.py").write_text(packages, encoding="utf-8")
        self._variables = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{folder}{os.pathsep}{APP.parents[1]}",
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
        }
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a program, with its output in a file, as the leader of a session of its own."""
        with (self._folder / f"{len(self.running)}-{name}.log").open("wb") as log:
            command = [str(self._programs / name), *arguments]
            process = subprocess.Popen(
                command, cwd=self._folder, env=self._variables, stdout=log, stderr=log, start_new_session=True
            )
        self.running.append(process)
        return process

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        """Kill a program and the processes that it started."""
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            return
        process.wait()


@contextmanager
def flower_in(folder: Path) -> Iterator[Flower]:
    flower = Flower(install_flower(), folder)
    try:
        yield flower
    finally:
        for process in flower.running:
            flower.kill(process)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Flower's SuperLink is for Linux and macOS")
def test_three_sites_train_a_network_over_flower_though_one_is_killed(tmp_path: Path) -> None:
    write_agencies(tmp_path, boxes=1, days=40)
    file = tmp_path / "federation.toml"
    text = file.read_text(encoding="utf-8") + 'third = "third.token"\n[rules]\npatience = 120.0\n'
    file.write_text(f"{text}[network]\nrounds = {ROUNDS}\nsteps = 20\nwindow = 8\n", encoding="utf-8")
    port = free_port()
    (tmp_path / "flwr").mkdir()
    connection = f'[superlink]\ndefault = "local"\n[superlink.local]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    (tmp_path / "flwr" / "config.toml").write_text(connection, encoding="utf-8")
    with flower_in(tmp_path) as flower:
        flower.start("flower-superlink", "--insecure", "--port", str(port))

        def start_site(name: str) -> "subprocess.Popen[bytes]":
            config = f'site="{name}" files="{tmp_path / name}.csv" out="{tmp_path / "out" / name}"'
            node = ("--superlink", f"127.0.0.1:{port}", "--port", str(free_port()), "--node-config", config)
            return flower.start("flower-supernode", "--insecure", *node)

        sites = {name: start_site(name) for name in TOWNS}
        time.sleep(10)  # `flwr run` gives up at once if the SuperLink is not there
        run_config = f'agreement="{file}" out="{tmp_path / "out" / "federation"}"'
        flower.start("flwr", "run", str(APP), "local", "--stream", "--run-config", run_config)
        wait_for(tmp_path / "out" / "south" / "sent", "*-round.json")
        flower.kill(sites["south"])
        start_site("south")
        wait_for(tmp_path / "out" / "federation", "federated.scare")
    facts = Calibrator.load(tmp_path / "out" / "federation" / "federated.scare").facts
    assert set(facts["federated"]) == set(TOWNS)
    assert "network" in facts["rmse_of_rounds"]


def wait_for(folder: Path, pattern: str, seconds: float = 600.0) -> None:
    """Wait until a file of this name is there."""
    until = time.monotonic() + seconds
    while not list(folder.glob(pattern)):
        logs = "\n".join(log.read_text(errors="replace")[-1500:] for log in sorted(folder.parents[1].glob("*.log")))
        assert time.monotonic() < until, f"no {pattern} in {folder}\n{logs}"
        time.sleep(0.5)
