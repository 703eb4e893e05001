"""A calibrator sent from the page: opened before it takes a place, refused with a reason, taken from our page only."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import Channel
from scare.live.config import TOKEN, Config
from scare.live.gateway import Gateway
from tests.calibrator.building import curve_plan, make_calibrator
from tests.live.broker import wait_for
from tests.live.prefix_proxy import below
from tests.live.small_gateway import shifted
from tests.live.test_http import READINGS, ask, lines, make_config, working
from tests.report.browser import browsing, find_browser

BOXES = [reading for reading in READINGS if reading.device.startswith("box")]


def taking(folder: Path, **http: str) -> Config:
    config = make_config(folder)
    assert config.http is not None
    return replace(config, http=replace(config.http, uploads=str(folder), **http))


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with working(taking(tmp_path)) as gateway:
        yield gateway


def saved(calibrator: Calibrator, path: Path) -> bytes:
    calibrator.save(path)
    return path.read_bytes()


def other_channels(folder: Path) -> bytes:
    calibrator = make_calibrator(curve_plan(8))
    channels = (Channel("pm10", "ug/m3", 0.0, 1000.0), calibrator.inputs.channels[1])
    return saved(replace(calibrator, inputs=replace(calibrator.inputs, channels=channels)), folder / "other")


def put(gateway: Gateway, name: str, content: bytes, **headers: str) -> tuple[int, str]:
    code, answer = ask(gateway, "PUT", f"/v1/models/{name}", content, **headers)
    return code, answer.get("outcome") or answer.get("error")


def test_a_model_is_used_as_soon_as_it_is_sent(tmp_path: Path, gateway: Gateway) -> None:
    assert ask(gateway, "POST", "/v1/readings", lines(BOXES[:10]))[0] == 200
    before = gateway.models.products["dust"]
    newer = saved(shifted(make_calibrator(curve_plan(8)), 100.0), tmp_path / "newer")
    assert put(gateway, "dust.scare", newer) == (200, "dust.scare is now the model dust.")
    assert (tmp_path / "dust.scare").read_bytes() == newer
    assert ask(gateway, "POST", "/v1/readings", lines(BOXES[10:11]))[0] == 200
    wait_for(lambda: gateway.models.products["dust"] != before)
    models = ask(gateway, "GET", "/v1/models")[1]
    assert models == {"models": [{"model": m, "product": p} for m, (p, _) in gateway.models.products.items()]} | {
        "uploads": True
    }


def test_a_model_that_nobody_names_is_kept(tmp_path: Path, gateway: Gateway) -> None:
    code, outcome = put(gateway, "new.scare", other_channels(tmp_path))
    assert (code, outcome) == (
        200,
        "Saved as new.scare. It reads pm10, current. No model uses it yet: name it in the settings.",
    )
    assert Calibrator.load(tmp_path / "new.scare").inputs.channels[0].name == "pm10"


def test_what_cannot_be_used_leaves_everything_as_it_was(tmp_path: Path, gateway: Gateway) -> None:
    before = (tmp_path / "dust.scare").read_bytes()
    other = other_channels(tmp_path)
    files = sorted(tmp_path.iterdir())
    for name, content, code, sentence in (
        ("dust.scare", other, 400, "it reads pm10, current, but the model 'dust' that it would replace reads pm25"),
        ("dust.scare", before[:-30], 400, "dust.scare was not taken: dust.scare"),
        ("dust.scare", b" " * ((16 << 20) + 1), 413, "more than 16,777,216 bytes"),
        ("dust.txt", before, 400, "ends with .scare"),
        (".dust.scare", before, 400, "ends with .scare"),
        ("..%5Cdust.scare", before, 400, "ends with .scare"),
    ):
        found, reason = put(gateway, name, content)
        assert (found, sentence in reason) == (code, True)
    assert ask(gateway, "PUT", "/v1/models/..%2Fdust.scare", before)[0] in (404, 405)
    assert (tmp_path / "dust.scare").read_bytes() == before
    assert sorted(tmp_path.iterdir()) == files


def test_without_a_folder_none_is_taken(tmp_path: Path) -> None:
    with working(make_config(tmp_path)) as gateway:
        code, reason = put(gateway, "dust.scare", (tmp_path / "dust.scare").read_bytes())
        assert code == 404
        assert "http.uploads" in reason
        assert not ask(gateway, "GET", "/v1/models")[1]["uploads"]


def test_only_our_page_or_a_token_may_send_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "hush")
    content = saved(make_calibrator(curve_plan(8)), tmp_path / "dust")
    basic = "Basic " + base64.b64encode(b"anyone:hush").decode()
    ours, evil = "http://localhost:1", "http://evil.example"
    with working(taking(tmp_path)) as gateway:
        for code, headers in (
            (200, {"authorization": "Bearer hush"}),
            (200, {"authorization": basic, "origin": ours}),
            (401, {"authorization": basic}),
            (401, {"origin": ours}),
            (403, {"authorization": basic, "origin": evil}),
            (403, {"authorization": basic, "origin": "null"}),
        ):
            assert put(gateway, "dust.scare", content, host="localhost:1", **headers)[0] == code
    with working(taking(tmp_path, proxy="127.0.0.1")) as gateway:  # as ingress does: no Host of the page, no token
        for code, headers in (
            (200, {"origin": "http://home:8123", "x_forwarded_host": "home:8123"}),
            (403, {"origin": evil, "x_forwarded_host": "home:8123"}),
            (403, {"origin": "http://home:8123"}),
            (421, {"x_forwarded_host": "home:8123"}),
        ):
            assert put(gateway, "dust.scare", content, host="172.30.33.2:8099", **headers)[0] == code


@pytest.mark.slow
@pytest.mark.skipif(find_browser() is None, reason="chromium (Debian) would run it")
def test_the_page_below_ingress_sends_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "hush")
    (tmp_path / "mine").mkdir()
    saved(shifted(make_calibrator(curve_plan(8)), 100.0), tmp_path / "mine" / "dust.scare")
    with (
        working(taking(tmp_path, proxy="127.0.0.1")) as gateway,
        below("/api/hassio_ingress/abc", gateway.server.port if gateway.server else 0) as address,
        browsing(tmp_path / "profile") as tab,
    ):
        tab.open(address, 1280, 900)
        tab.value("document.querySelector('#models summary').click()")
        wait_for(lambda: "dust: dust@" in tab.value("document.getElementById('models').textContent"))
        tab.choose_files("#upload input", tmp_path / "mine" / "dust.scare")
        outcome = "document.getElementById('outcome').textContent"
        wait_for(lambda: tab.value(outcome) == "dust.scare is now the model dust.")
        assert tab.problems == []
    assert (tmp_path / "dust.scare").read_bytes() == (tmp_path / "mine" / "dust.scare").read_bytes()
