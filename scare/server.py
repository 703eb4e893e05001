"""An application answers at a port, in a thread, until it is stopped."""

import socket
from collections.abc import Callable
from threading import Thread
from time import sleep
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scare.errors import UsageError


class ThreadedServer:
    """Answers in a thread until it is stopped; port 0 takes any free one."""

    def __init__(self, app: ASGIApp, host: str, port: int, **more: Any) -> None:
        self._socket = _listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        self.stopping = False
        settings = {"access_log": False, "lifespan": "off", "log_config": None, "server_header": False, **more}
        self._server = uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=2, **settings))
        self._thread = Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            sleep(0.01)

    def wait(self) -> None:
        """Return when it answers no more."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def stop(self) -> None:
        """Answer no more."""
        self.stopping = self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(10)
        self._socket.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = str(error.strerror or error).partition(" (while")[0]  # the address is said already
        raise UsageError(f"http: cannot listen at {host} port {port}: {reason}; give another host or port") from error


# Who may ask a server what: by the name it is called, by where a page comes from, by what the server itself asks for.
#
# Names keep a page of another site from reaching this computer under a name of its own (DNS rebinding).


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
AccessCheck = Callable[[Scope], JSONResponse | None]  # what a server refuses itself, and nothing where it does not


class AccessGuard:
    """Stands before an application; `policy` is the browser's for whatever brings none of its own."""

    def __init__(self, app: ASGIApp, names: frozenset[str], door: AccessCheck, policy: str = POLICY) -> None:
        self._app, self._names, self._door = app, names, door
        self._headers = {**HEADERS, "content-security-policy": policy}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a refusal, or let the application answer, with headers that keep a browser careful."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, self._careful(send))

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers, writes = Headers(scope=scope), scope["method"] not in ("GET", "HEAD")
        if host_name(headers.get("host", "")) not in self._names:
            return error_response(421, "this server is not called that; the names it may have are in its settings")
        if writes and "origin" in headers and urlsplit(headers["origin"]).netloc != headers.get("host"):
            return error_response(403, "a page of another site may not send anything here")
        return self._door(scope)

    def _careful(self, send: Send) -> Send:
        async def send_careful(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        return send_careful


def host_name(host: str) -> str:
    """A host without its port.

    >>> host_name("localhost:8080"), host_name("[::1]:8080"), host_name("[a")
    ('localhost', '::1', '')
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def error_response(code: int, reason: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An answer that says why there is none."""
    return JSONResponse({"error": reason}, code, headers)
