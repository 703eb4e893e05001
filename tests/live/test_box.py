"""The example for an ESP32 fetches its model from a gateway: its C, flash and NVS in files, one process a start."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from scare.export.blob import make_blob, sign_blob
from scare.export.c_source import CModel
from scare.export.ed25519 import new_key, print_key, public_key
from scare.export.lowering import compile_calibrator
from scare.export.package import export_calibrator
from scare.live.gateway import Gateway
from tests.calibrator.building import curve_plan, make_calibrator
from tests.live.test_blobs import serving
from tests.live.test_http import ask, working

KEY = bytes(range(32))
STUB = Path(__file__).parents[1] / "export" / "espidf_stub"
RESTARTED = 3  # exit code of the stand-in's esp_restart


@dataclass
class Box:
    """A device whose flash is in a folder, and the gateway that it asks."""

    program: Path
    gateway: Gateway
    served: Path

    def start(self) -> tuple[bool, list[str]]:
        """Run until it restarts, or for a hundred readings; whether it restarted, and what it said beside values."""
        folder = self.program.parent
        done = subprocess.run([self.program], cwd=folder, capture_output=True, text=True, timeout=60)
        assert done.returncode in (0, RESTARTED), done.stderr
        return done.returncode == RESTARTED, [line for line in done.stdout.splitlines() if "," not in line]

    @property
    def runs(self) -> str:
        (one,) = ask(self.gateway, "GET", "/v1/blobs")[1]["devices"]
        return str(one["state"])


@contextmanager
def one_box(folder: Path) -> Iterator[Box]:
    """The example as exported with a first model, its key and the gateway's address filled in."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake (Debian) would run it")
    component = export_calibrator(make_calibrator(curve_plan(20)), "blob", "float32", folder / "firmware").folder
    with working(serving(folder, "served.blob")) as gateway:
        assert gateway.server is not None
        source = component / "examples" / "esp_idf" / "main" / "main.c"
        text = source.read_text(encoding="utf-8")
        text = text.replace("http://192.168.1.2:8080/", gateway.server.address).replace(
            "owner[32] = {0}", f"owner[32] = {{{print_key(public_key(KEY))}}}"
        )
        source.write_text(text, encoding="utf-8")
        build, environment = folder / "build", os.environ | {"IDF_PATH": str(STUB)}
        for command in (["-S", source.parents[1], "-B", build], ["--build", build]):
            subprocess.run(["cmake", *command], env=environment, check=True, capture_output=True)
        yield Box(build / "app", gateway, folder / "served.blob")


def model(window: int) -> CModel:
    return compile_calibrator(make_calibrator(curve_plan(window)), "float32", "").c_model


def test_a_box_takes_newer_files_of_its_owner_only_and_goes_back_if_one_fails(tmp_path: Path) -> None:
    first, second = make_blob(model(12)), make_blob(model(20))
    with one_box(tmp_path) as box:
        assert not box.start()[0]  # the gateway has no file yet: the model in the firmware
        box.served.write_bytes(sign_blob(second, new_key(), 300))
        assert "the blob is not signed with the owner's key" in box.start()[1]
        box.served.write_bytes(sign_blob(second, KEY, 200))
        restarted, printed = box.start()
        assert restarted
        assert printed[-1] == "taken"
        assert box.start() == (False, [])
        assert box.runs == "newest"

        box.served.write_bytes(sign_blob(first, KEY, 100))  # played again
        assert box.start() == (False, ["the blob was signed before the one in use"])
        assert box.start() == (False, [])  # not fetched a second time
        assert box.runs == "other"

        right = model(12)
        wrong = replace(right, self_test=replace(right.self_test, results=[9.0] * len(right.self_test.results)))
        box.served.write_bytes(sign_blob(make_blob(wrong), KEY, 400))
        assert box.start() == (True, ["taken"])
        assert box.start() == (False, [])  # went back by itself, and does not ask for that file again
        assert box.runs == "other"
        box.served.write_bytes(sign_blob(make_blob(model(300)), KEY, 450))  # more memory than it has
        assert box.start() == (True, ["taken"])
        assert box.start() == (False, [])
        box.served.write_bytes(sign_blob(first, KEY, 500))
        assert box.start() == (True, ["taken"])
        assert box.start() == (False, [])
        assert box.runs == "newest"
