"""A headless Chromium spoken to over its pipe: loads a page without a network and tells what happened."""

import base64
import json
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 60
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
)


def find_browser() -> str | None:
    """A Chromium and the shell that hands it the pipes."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    return found if shutil.which("bash") else None


class PageLeftError(Exception):
    """The page was left before it could answer."""


@dataclass
class Tab:
    """One page: what it asked for, what went wrong on it, and ways to look at it."""

    write: int
    read: int
    pending: bytes = b""
    session: str = ""
    number: int = 0
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the DevTools protocol and its answer."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.number:
            self._hear(answer)
        if "navigated" in answer.get("error", {}).get("message", ""):
            raise PageLeftError
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.read], [], [], PATIENCE_SECONDS)
            assert ready, "the browser does not answer"
            part = os.read(self.read, 1 << 20)
            assert part, "the browser went away"
            self.pending += part
        message, _, self.pending = self.pending.partition(b"\0")
        return json.loads(message)

    def _hear(self, event: dict[str, Any]) -> None:
        name, params = event.get("method", ""), event.get("params", {})
        self.events.append(name)
        if name == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        if name == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"]))
        if name == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(params["args"]))
        if name == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(json.dumps(params["entry"]))

    def open(self, page: Path | str, width: int, height: int, dark: bool = False) -> None:
        """Load a file, or what is at an address, in a window of this size and wait until it has drawn."""
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        mobile = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        while "Page.loadEventFired" not in self.events:
            self._hear(self._next())
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def value(self, expression: str) -> Any:
        """What an expression on the page is."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def value_unless_leaving(self, expression: str) -> Any:
        """What an expression on the page is; None if the page is being left."""
        try:
            return self.value(expression)
        except PageLeftError:
            return None

    def choose_files(self, selector: str, *paths: Path) -> None:
        """Give files to an input, as a person who drops them does."""
        found = self.call("Runtime.evaluate", expression=f"document.querySelector({selector!r})")["result"]
        self.call("DOM.setFileInputFiles", files=[str(path.resolve()) for path in paths], objectId=found["objectId"])

    def press(self, key: str, text: str = "", shift: bool = False) -> None:
        """A key of the keyboard, down and up."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40, "ArrowRight": 39, "Home": 36, "End": 35}
        event = {"key": key, "code": key, "windowsVirtualKeyCode": codes.get(key, 0), "modifiers": 8 * shift}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text or ("\r" if key == "Enter" else text), **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def write_text(self, text: str) -> None:
        """Text where the focus is."""
        self.call("Input.insertText", text=text)

    def picture(self, whole: bool = False) -> bytes:
        """A PNG of the window, or of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])


@contextmanager
def browsing(profile: Path) -> Iterator[Tab]:
    """A tab of a browser that ends with the block."""
    program = find_browser()
    assert program is not None
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    shell = f'exec "$@" 3<&{to_read} 4>&{from_write}'
    process = subprocess.Popen(
        ["bash", "-c", shell, "browser", program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        pass_fds=(to_read, from_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(from_write)
    try:
        tab = Tab(to_write, from_read)
        target = tab.call("Target.createTarget", url="about:blank")["targetId"]
        tab.session = tab.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        yield tab
    finally:
        os.close(to_write)
        os.close(from_read)
        process.terminate()
        process.wait(20)
