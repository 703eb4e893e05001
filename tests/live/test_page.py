"""The page in a real browser: nothing asked of others, ten thousand devices stay smooth, names are only names."""

from collections.abc import Iterator
from pathlib import Path
from time import sleep, time

import numpy as np
import pytest

from scare.live.arrivals import Delivery
from scare.live.config import Config, Http
from scare.live.gateway import Gateway
from scare.live.messages import Reading
from scare.live.pipeline import Result
from tests.live.broker import wait_for
from tests.live.prefix_proxy import below
from tests.live.small_gateway import save_models
from tests.live.test_http import working
from tests.report.browser import Tab, browsing, find_browser

pytestmark = pytest.mark.skipif(find_browser() is None, reason="chromium (Debian) would run it")
WIDE, PHONE = (1280, 900), (390, 844)
NASTY = "<img src=x onerror=hacked=1>"
DEVICES = 10_000
NAN = float("nan")


def results(count: int, row: int) -> list[Result]:
    rng = np.random.default_rng(row)
    start = time() - 3600
    values = rng.uniform(5, 50, count).tolist()
    names = [NASTY, *(f"box-{number}" for number in range(1, count))]
    odd = [index % 7 == 0 for index in range(count)]  # have no value, for want of history
    rows = zip(names, values, odd, strict=True)
    half_values = [(name, raw, (NAN,) * 3 if no else (raw / 2, raw / 2 - 1, raw / 2 + 3), no) for name, raw, no in rows]
    return [Result(name, start + 60 * row, raw, *half, 1024 * no, "dust") for name, raw, half, no in half_values]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with working(Config(save_models(tmp_path), str(tmp_path / "state"), http=Http(port=0))) as gateway:
        for row in range(20):
            gateway.recent.publish(results(50, row))
        yield gateway


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    with browsing(tmp_path / "profile") as tab:
        yield tab


@pytest.fixture(params=["", pytest.param("/api/hassio_ingress/abc", marks=pytest.mark.slow)], ids=["here", "ingress"])
def address(gateway: Gateway, request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the page is: at the gateway, or below a path of Home Assistant's ingress."""
    assert gateway.server is not None
    if not request.param:
        yield gateway.server.address
        return
    with below(request.param, gateway.server.port) as address:
        yield address


def open_page(tab: Tab, address: str, size: tuple[int, int], dark: bool = False) -> str:
    tab.open(address, *size, dark=dark)
    until(tab, "document.getElementById('connection').textContent === 'live'")
    until(tab, "document.querySelectorAll('.row').length > 0")
    return address


def until(tab: Tab, expression: str) -> None:
    wait_for(lambda: tab.value(expression), every=0.1)


def test_the_server_is_all_that_is_asked_and_names_are_only_names(tab: Tab, address: str) -> None:
    open_page(tab, address, WIDE)
    until(tab, "document.querySelector('[data-tile=devices]').textContent === '50'")
    assert all(url.startswith(address) for url in tab.requests)
    shown = "[...document.querySelectorAll('.row:not([hidden]) .name')].map(one => one.textContent)"
    assert NASTY in tab.value(shown)
    tab.value(f"location.hash = encodeURIComponent({NASTY!r})")
    until(tab, "document.querySelector('#chart canvas') !== null")
    assert tab.value("document.getElementById('name').textContent") == NASTY
    assert tab.value("window.hacked") is None
    assert tab.problems == []


def test_nothing_is_cut_off_on_a_phone(tab: Tab, address: str) -> None:
    open_page(tab, address, PHONE, dark=True)
    assert tab.value("document.documentElement.scrollWidth") <= PHONE[0]
    cut = "[...document.querySelectorAll('.row:not([hidden]) .value')].filter(one => one.scrollWidth > one.clientWidth)"
    assert tab.value(f"{cut}.length") == 0
    tab.value("location.hash = 'box-7'")
    until(tab, "document.querySelector('#chart canvas') !== null")
    assert tab.value("document.documentElement.scrollWidth") <= PHONE[0]
    assert tab.value("document.querySelector('#flags dt').textContent") == "history"
    assert tab.problems == []


def test_a_new_value_and_a_refusal_are_seen_within_seconds(gateway: Gateway, tab: Tab, address: str) -> None:
    open_page(tab, address, WIDE)
    tab.value("location.hash = 'box-1'")
    until(tab, "document.getElementById('facts').textContent.includes('model dust')")
    gateway.recent.publish([Result("box-1", time(), 77.0, 66.5, 60.5, 80.5, 0, "dust")])
    gateway.monitor.reject("http", "line 3: <b>not JSON</b>")
    until(tab, "document.getElementById('facts').textContent.includes('calibrated 66.5 (60.5 – 80.5) µg/m³, raw 77')")
    until(tab, "document.getElementById('reasons').textContent.includes('<b>not JSON</b>')")
    network = {"uncertainty": 1.25, "solved": "2026-02-12T00:00:00Z", "age_days": 11.5}
    models = gateway.models.calibrators
    models["dust"] = models["dust"].with_facts(learned={"network": network})
    gateway.recent.publish([Result("box-1", time(), 77.0, 66.5, 60.5, 80.5, 0, "dust")])
    until(tab, "document.getElementById('facts').textContent.includes('uncertainty of the calibration 1.25 µg/m³')")
    assert "last beside another instrument 2026-01-31 12:00" in tab.value(
        "document.getElementById('facts').textContent"
    )
    tab.value("document.getElementById('back').click()")
    until(tab, "!document.getElementById('fleet').hidden")
    until(tab, "[...document.querySelectorAll('.between')].some(one => one.textContent === '60.5 – 80.5')")
    assert tab.problems == []


def test_a_problem_is_shown_while_there_is_one(gateway: Gateway, tab: Tab, address: str) -> None:
    assert gateway.pipeline is not None
    open_page(tab, address, PHONE)
    gateway.pipeline.problems["disk"] = "<b>no space</b>"
    until(tab, "document.getElementById('problems').textContent === 'disk: <b>no space</b>'")
    assert tab.value("document.documentElement.scrollWidth") <= PHONE[0]
    del gateway.pipeline.problems["disk"]
    until(tab, "document.getElementById('problems').textContent === ''")


def test_devices_at_another_step_are_named(gateway: Gateway, tab: Tab, address: str) -> None:
    assert gateway.pipeline is not None
    open_page(tab, address, PHONE)
    begin = 60 * (time() // 60) - 3600
    fine = tuple(Reading("box-1", begin + 10 * row, {"pm25": 20.0, "current": 300.0}) for row in range(20))
    assert gateway.pipeline.submit(Delivery(fine))
    until(tab, "document.getElementById('remarks').textContent.endsWith('their readings are averaged: box-1.')")


def test_a_device_is_silent_after_three_steps_and_minutes(tab: Tab, address: str) -> None:
    open_page(tab, address, WIDE)

    def is_silent(minutes: float, step: float) -> bool:
        """Whether rows are shown as silent so long after a reading."""
        return tab.value(
            "import('./table.js').then(({ silentAfter }) => "
            f"{60 * minutes} > silentAfter({{ steps: {{ dust: {step} }} }}, 'dust'))"
        )

    assert (is_silent(2.9, 10), is_silent(3.1, 10)) == (False, True)
    assert (is_silent(170, 3600), is_silent(190, 3600)) == (False, True)


@pytest.mark.slow
def test_ten_thousand_devices_stay_smooth(gateway: Gateway, tab: Tab, address: str) -> None:
    gateway.recent.publish(results(DEVICES, 30))
    open_page(tab, address, WIDE)
    assert tab.value("document.querySelectorAll('.row').length") < 60  # only what is in sight
    timed = "(() => {{ const begin = performance.now(); {0}; return performance.now() - begin; }})()"
    find = "box.value = 'box-99'; box.dispatchEvent(new Event('input'))"
    scroll = "rows.scrollTop = 1e5; rows.dispatchEvent(new Event('scroll'))"
    steps = {
        "sort": "document.querySelector('[data-sort=calibrated]').click()",
        "filter": f"(box => {{ {find} }})(document.getElementById('filter'))",
        "scroll": f"(rows => {{ {scroll} }})(document.getElementById('rows'))",
    }
    assert {name: took for name, step in steps.items() if (took := tab.value(timed.format(step))) > 400} == {}
    assert tab.value("document.getElementById('found').textContent") == "111 of 10000"
    gateway.recent.publish(results(DEVICES, 31))
    sleep(2.5)
    assert tab.problems == []


def test_a_page_of_another_site_cannot_read_it(gateway: Gateway, tab: Tab, tmp_path: Path) -> None:
    assert gateway.server is not None
    (tmp_path / "evil.html").write_text("<title>evil</title>")
    tab.open(tmp_path / "evil.html", *WIDE)
    asked = f"fetch('{gateway.server.address}v1/devices').then(() => 'read', () => 'refused')"
    assert tab.value(asked) == "refused"
