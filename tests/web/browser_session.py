"""A server at work and a browser that has opened its link."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scare.web.server import Server
from tests.live.broker import wait_for
from tests.report.browser import Tab, browsing

WIDE, PHONE = (1280, 900), (390, 844)
PATIENCE_SECONDS = 300


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[Server]:
    """A server that ends with the block."""
    server = Server(folder / "sessions", **settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class Visitor:
    """What a person does in the page, by what can be seen there."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab

    def until(self, expression: str) -> None:
        """Wait until something holds on the page."""
        wait_for(lambda: self.tab.value_unless_leaving(f"Boolean({expression})"), PATIENCE_SECONDS, every=0.2)

    def sees(self, selector: str) -> None:
        """Wait until something is there, and not hidden."""
        self.until(f"document.querySelector({selector!r})?.checkVisibility()")

    def text(self, selector: str) -> str:
        """What something says."""
        return str(self.tab.value(f"document.querySelector({selector!r})?.textContent ?? ''"))

    def reads(self, selector: str, words: str) -> None:
        """Wait until something says these words."""
        self.until(f"document.querySelector({selector!r})?.textContent.includes({words!r})")

    def click(self, selector: str) -> None:
        """Click what can be clicked."""
        self.until(f"(one => one && !one.disabled)(document.querySelector({selector!r}))")
        self.tab.value(f"document.querySelector({selector!r}).click()")

    def choose(self, selector: str, value: str) -> None:
        """Take a value of a list."""
        self.sees(selector)
        change = f"one.value = {value!r}; one.dispatchEvent(new Event('change', {{bubbles: true}}))"
        self.tab.value(f"(one => {{ {change} }})(document.querySelector({selector!r}))")

    def begin(self, title: str) -> None:
        """Start a session."""
        self.sees("#title")
        self.tab.value(f"document.getElementById('title').value = {title!r}")
        self.click("#new button")
        self.sees("#drop-input")

    def drop(self, *paths: Path) -> None:
        """Drop files."""
        self.tab.choose_files("#drop-input", *paths)


@contextmanager
def visiting(server: Server, profile: Path, size: tuple[int, int] = WIDE) -> Iterator[Visitor]:
    """A browser at the server's link."""
    with browsing(profile) as tab:
        tab.open(server.link(), *size)
        yield Visitor(tab)
