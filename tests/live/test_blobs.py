"""Model files for boxes: each gets its own, only if it is new, and what it runs is known."""

import json
import struct
from dataclasses import replace
from hashlib import sha256
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.request import urlopen

import pytest

from scare.export.blob import make_blob, sign_blob
from scare.export.ed25519 import public_key, verify
from scare.export.lowering import compile_calibrator
from scare.live.config import Config, Model, read_config
from scare.live.gateway import Gateway
from tests.calibrator.building import make_calibrator, newest_plan
from tests.live.test_http import ask, make_config, working

FILE, NEWER = (b"SCB\x01" + bytes([one]) * 300 for one in (1, 2))


def fetch(gateway: Gateway, device: str, runs: str = "") -> tuple[HTTPResponse, bytes]:
    assert gateway.server is not None
    connection = HTTPConnection("127.0.0.1", gateway.server.port, timeout=10)
    connection.request("GET", f"/v1/blobs/{device}", headers={"if-none-match": f'"{runs}"'} if runs else {})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def serving(folder: Path, blob: str) -> Config:
    config = make_config(folder)
    models = {name: replace(model, blob=str(folder / blob)) for name, model in config.models.items()}
    return replace(config, models=models)


def test_a_box_gets_a_file_once_and_the_gateway_knows_what_it_runs(tmp_path: Path) -> None:
    (tmp_path / "pm.blob").write_bytes(FILE)
    with working(serving(tmp_path, "pm.blob")) as gateway:
        answer, content = fetch(gateway, "box-1")
        assert (answer.status, content) == (200, FILE)
        version = (answer.headers["etag"] or "").strip('"')
        assert ask(gateway, "GET", "/v1/blobs")[1]["devices"][0]["state"] == "unknown"
        answer, content = fetch(gateway, "box-1", version)
        assert (answer.status, content, answer.headers["etag"]) == (304, b"", f'"{version}"')
        (runs,) = ask(gateway, "GET", "/v1/blobs")[1]["devices"]
        assert (runs["device"], runs["runs"], runs["state"]) == ("box-1", version, "newest")
        (tmp_path / "pm.blob").write_bytes(NEWER)
        assert fetch(gateway, "box-1", version)[1] == NEWER
        manifest = ask(gateway, "GET", "/v1/manifests/box-1")[1]
        assert manifest["sha256"] == sha256(NEWER).hexdigest()
        assert manifest["signature"] == NEWER[-64:].hex()
        assert manifest["runs"]["state"] == "other"
        assert gateway.server is not None
        events = urlopen(f"{gateway.server.address}v1/events", timeout=10)
        event = next(line for line in events if line.startswith(b"data"))
        events.close()
        assert json.loads(event[5:])["remarks"] == ["Another model file than the newest runs on box-1."]
        assert 'scare_boxes{runs="other"} 1' in ask(gateway, "GET", "/metrics")[1]


def test_a_manifest_is_checked_without_its_file(tmp_path: Path) -> None:
    key = bytes(range(32))
    model = compile_calibrator(make_calibrator(newest_plan(3)), "float32", "").c_model
    (tmp_path / "pm.blob").write_bytes(sign_blob(make_blob(model), key, 7))
    with working(serving(tmp_path, "pm.blob")) as gateway:
        found = ask(gateway, "GET", "/v1/manifests/box-1")[1]
    assert found["sequence"] == 7

    def is_right(sequence: int) -> bool:
        signed = struct.pack("<I", sequence) + bytes.fromhex(found["sha512"])
        return verify(bytes.fromhex(found["signature"]), public_key(key), signed)

    assert is_right(7)
    assert not is_right(8)


def test_each_device_may_have_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "attic%2F1.blob").write_bytes(FILE)
    (tmp_path / "secret.blob").write_bytes(NEWER)
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "cellar.blob").write_bytes(NEWER)
    with working(serving(tmp_path, "{device}.blob")) as gateway:
        assert fetch(gateway, "attic/1")[1] == FILE
    with working(serving(tmp_path, "blobs/{device}.blob")) as gateway:
        assert fetch(gateway, "cellar")[1] == NEWER
        for name in ("../secret", "..%2Fsecret", "..%5Csecret"):
            assert fetch(gateway, name)[0].status == 404
        (known,) = ask(gateway, "GET", "/v1/blobs")[1]["devices"]
        assert known["device"] == "cellar"


@pytest.mark.parametrize(
    ("content", "sentence"), [(None, "no model file for 'box-1'"), (b"PK", "is not a blob"), ("", "names one")]
)
def test_why_there_is_no_file_is_said(tmp_path: Path, content: bytes | str | None, sentence: str) -> None:
    if isinstance(content, bytes):
        (tmp_path / "pm.blob").write_bytes(content)
    config = make_config(tmp_path) if content == "" else serving(tmp_path, "pm.blob")
    with working(config) as gateway:
        status, answer = ask(gateway, "GET", "/v1/blobs/box-1")
        assert status == 404
        assert sentence in answer["error"]
        assert ask(gateway, "GET", "/v1/manifests/box-1")[0] == 404


def test_the_path_is_relative_to_the_config(tmp_path: Path) -> None:
    (tmp_path / "live.toml").write_text('[http]\n[models.pm]\nfile = "barkjohn-2021"\nblob = "blobs/{device}.blob"\n')
    model = read_config(tmp_path / "live.toml").models["pm"]
    assert model == Model("barkjohn-2021", blob=str(tmp_path / "blobs" / "{device}.blob"))
