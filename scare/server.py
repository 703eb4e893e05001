"""Shared by our HTTP servers: a uvicorn server in a thread, and access control in front of it.

`AccessGuard` checks the Host header, so that a page of another site cannot reach this computer under a name of its own
(DNS rebinding), then the Origin of requests that write (cross-site request forgery), then the server's own rule.
"""

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

POLICY = (  # content security policy
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
AccessCheck = Callable[[Scope], JSONResponse | None]  # an error response, or None to let the request through


class ThreadedServer:
    """Serve an application in a thread until it is stopped; port 0 takes any free one."""

    def __init__(self, app: ASGIApp, host: str, port: int, **more: Any) -> None:
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            reason = str(error.strerror or error).partition(" (while")[0]  # the message names the address already
            raise UsageError(
                f"http: cannot listen at {host} port {port}: {reason}; give another host or port"
            ) from error
        self.port: int = self._socket.getsockname()[1]
        self.stopping = False
        settings = {"access_log": False, "lifespan": "off", "log_config": None, "server_header": False, **more}
        self._server = uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=2, **settings))
        self._thread = Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)

    def start(self) -> None:
        """Start, and return when requests are answered."""
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            sleep(0.01)

    def wait(self) -> None:
        """Block until the server has stopped."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def stop(self) -> None:
        """Stop serving and close the port."""
        self.stopping = self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(10)
        self._socket.close()


class AccessGuard:
    """ASGI middleware that rejects requests, and adds security headers to responses.

    `names` are the host names that requests may be addressed to. `policy` is the content security policy of responses
    that have none.
    """

    def __init__(self, app: ASGIApp, names: frozenset[str], check: AccessCheck, policy: str = POLICY) -> None:
        self._app, self._names, self._check = app, names, check
        self._headers = {**HEADERS, "content-security-policy": policy}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the request or pass it to the application."""
        if scope["type"] != "http":  # we serve no websockets
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await (self._denial(scope) or self._app)(scope, receive, send_with_headers)

    def _denial(self, scope: Scope) -> JSONResponse | None:
        """Make the error response of the first check that fails; None if the request may pass."""
        headers, writes = Headers(scope=scope), scope["method"] not in ("GET", "HEAD")
        if host_name(headers.get("host", "")) not in self._names:
            return error_response(421, "this server does not go by that name; its settings list the names it may have")
        if writes and "origin" in headers and urlsplit(headers["origin"]).netloc != headers.get("host"):
            return error_response(403, "a page of another site may not send anything here")
        return self._check(scope)


def host_name(host: str) -> str:
    """Strip the port from a Host header.

    >>> host_name("localhost:8080"), host_name("[::1]:8080"), host_name("[a")
    ('localhost', '::1', '')
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def error_response(code: int, reason: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Make a JSON response `{"error": reason}` with this HTTP status code."""
    return JSONResponse({"error": reason}, code, headers)
